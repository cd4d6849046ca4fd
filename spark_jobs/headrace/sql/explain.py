"""`headrace explain`: a compiled pipeline as people read it, stage by stage.

`kind` tells what each result is, `tree` how its rows are partitioned on every edge and why they are
moved, `plan` every node with all its fields (the text of golden tests). Drawings are in dot's language.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from headrace.errors import Refused
from headrace.event_time.interval import Interval
from headrace.sql.classify import edges, output
from headrace.sql.nodes import (
    Aggregate,
    Alias,
    Call,
    Distinct,
    Filter,
    Having,
    JoinAsOf,
    JoinStreams,
    JoinTable,
    Lookup,
    Named,
    Node,
    Pipeline,
    Project,
    Result,
    RowsWindow,
    Scan,
    Spread,
    Stream,
    Table,
    Union,
    Window,
    Windowed,
    inputs,
)
from headrace.sql.skew import Salt, hashed, salt_of, told

STAGES = ("tree", "kind", "plan")


def explain(pipeline: Pipeline, stage: str = "tree", *, dot: bool = False) -> str:
    """The text of a stage, or its drawing. Raises Refused for a stage that is not known here."""
    if stage not in STAGES:
        raise Refused(f"unknown stage {stage!r}", hint=f"one of {', '.join(STAGES)}")
    if dot:
        return _dot(pipeline)
    match stage:
        case "kind":
            lines = [_kind_line(result) for result in pipeline.results]
        case "plan":
            lines = [*_declared(pipeline), *(line for result in pipeline.results for line in _plan(result))]
        case _:
            salt = salt_of(pipeline)
            lines = [line for result in pipeline.results for line in _tree(result, salt)]
    return "\n".join(lines).rstrip()


def _kind_line(result: Result) -> str:
    keys = f"keys {', '.join(result.keys)}" if result.keys else "no keys"
    way = "upsert" if result.upsert else "append"
    return f"{result.name}: {', '.join(result.kinds)} · EMIT {result.emit.upper()} · {way} · {keys}"


# ---- tree -----------------------------------------------------------------------------------
def _tree(result: Result, salt: Salt) -> Iterator[str]:
    yield _kind_line(result)
    salted = {id(one.node) for one in hashed(result.plan)} if salt.mode != "off" else set()
    arriving = {(id(edge.parent), id(edge.child)): edge for edge in edges(result.plan)}

    def below(node: Node, parent: Node | None, lead: str, last: bool) -> Iterator[str]:
        edge = arriving.get((id(parent), id(node)))
        way = edge.partitioning if edge else output(node)
        why = f": {edge.why}" if edge and edge.why else ""
        moved = " ⇄" if edge and edge.why and way != output(node) else ""
        yield f"{lead}{'└─' if last else '├─'} {title(node)}   [{way}{moved}{why}]"
        children = inputs(node)
        if id(node) in salted:
            yield f"{lead}{'   ' if last else '│  '}│  {told(node, result.plan, salt)}"
        for number, child in enumerate(children, start=1):
            yield from below(child, node, f"{lead}{'   ' if last else '│  '}", number == len(children))

    yield from below(result.plan, None, "", True)
    yield ""


def title(node: Node) -> str:  # noqa: C901 one case for each node
    """A node on one line."""
    match node:
        case Scan(stream=stream):
            return f"Scan {stream}"
        case Lookup(table=table):
            return f"Lookup {table}"
        case Alias(name=name):
            return f"Alias {name}"
        case Filter(condition=condition):
            return f"Filter {condition}"
        case Having(condition=condition):
            return f"Having {condition}"
        case Project(columns=columns):
            return f"Project {', '.join(_named(column) for column in columns)}"
        case Windowed(window=window):
            return f"Windowed {window_text(window)}"
        case Spread(window=window):
            return f"Spread {window_text(window)}"
        case Aggregate():
            keys = [*(_named(key) for key in node.keys), *(["window"] if node.windowed else [])]
            calls = ", ".join(_call(call) for call in node.calls)
            return (
                f"Aggregate by ({', '.join(keys)}) of {calls}"
                if calls
                else f"Aggregate by ({', '.join(keys)})"
            )
        case RowsWindow():
            calls = ", ".join(f"{_call(call)} over {buffer} rows" for call, buffer in node.calls)
            return f"RowsWindow by ({', '.join(node.keys)}) of {calls}"
        case JoinTable(kind=kind, condition=condition):
            return f"JoinTable {kind} on {condition}"
        case JoinStreams(kind=kind, condition=condition):
            near = f"right {_span(node.lower)} to {_span(node.upper)} later"
            near = f"in {window_text(node.window)}" if node.window else near
            near += f", at most {node.buffer.rows} rows held ({node.buffer.policy})" if node.buffer else ""
            return f"JoinStreams {kind}, {near}, on {' AND '.join(filter(None, (condition, *node.own)))}"
        case JoinAsOf(kind=kind, keys=keys):
            near = f"right the newest {'before' if node.strict else 'at or before'} left"
            near += f", within {_span(node.within)}" if node.within else ""
            return f"JoinAsOf {kind}, {near}, on {' AND '.join(' = '.join(pair) for pair in keys)}"
        case Union():
            return "Union"
        case Distinct():
            return "Distinct"


def window_text(window: Window) -> str:
    """A window as its clause says it."""
    parts = [f"size {_span(window.size)}"]
    if window.slide != Interval():
        parts.append(f"{'step' if window.kind == 'cumulate' else 'slide'} {_span(window.slide)}")
    if window.offset != Interval():
        parts.append(f"offset {_span(window.offset)}")
    if window.zone != "UTC":
        parts.append(f"zone {window.zone}")
    if window.held_back != Interval():
        parts.append(f"held back {_span(window.held_back)}")
    return f"{window.kind}({', '.join(parts)}) of {window.time or '_event_time'}"


def _span(span: Interval) -> str:
    return str(span)


def _named(named: Named) -> str:
    return named.name if named.name == named.expression else f"{named.expression} AS {named.name}"


def _call(call: Call) -> str:
    inside = f"{'DISTINCT ' if call.distinct else ''}{', '.join(call.arguments) or '*'}"
    within = f" WITHIN GROUP ({call.within})" if call.within else ""
    where = f" FILTER (WHERE {call.where})" if call.where else ""
    return f"{call.name} = {call.function}({inside}){within}{where}"


# ---- plan -----------------------------------------------------------------------------------
def _declared(pipeline: Pipeline) -> Iterator[str]:
    for key, value in pipeline.settings:
        yield f"set {key} = {value}"
    for stream in pipeline.streams:
        if not stream.producer:
            yield from _stream(stream)
    for table in pipeline.tables:
        yield from _table(table)
    yield ""


def _stream(stream: Stream) -> Iterator[str]:
    yield f"stream {stream.name}{f' from {stream.connector}' if stream.connector else ''}"
    for column in stream.columns:
        kind = f"AS {column.expression}" if column.expression else column.type
        yield f"  {column.name} {kind}{' NOT NULL' if column.not_null else ''}"
    if stream.watermark:
        yield f"  watermark {stream.watermark.column} - {stream.watermark.lateness}"
    for key, value in stream.options:
        yield f"  with {key} = {value}"


def _table(table: Table) -> Iterator[str]:
    yield f"table {table.name}{f' from {table.connector}' if table.connector else ''}"
    for column in table.columns:
        key = " KEY" if column.name in table.primary_key else ""
        yield f"  {column.name} {column.type}{' NOT NULL' if column.not_null else ''}{key}"
    for key, value in table.options:
        yield f"  with {key} = {value}"


def plan_lines(result: Result) -> list[str]:
    """What a result computes, a line for each node."""
    return [line.strip() for line in _plan(result) if line.strip()]


def _plan(result: Result) -> Iterator[str]:
    yield f"result {result.name}: {result.form}, emit {result.emit}, {'upsert' if result.upsert else 'append'}"
    yield f"  keys ({', '.join(result.keys)}), {', '.join(result.kinds)}, to {result.connector}"
    for key, value in result.options:
        yield f"  with {key} = {value}"

    def below(node: Node, depth: int) -> Iterator[str]:
        yield f"{'  ' * depth}{title(node)}"
        for child in inputs(node):
            yield from below(child, depth + 1)

    yield from below(result.plan, 1)
    yield ""


# ---- dot ------------------------------------------------------------------------------------
def _dot(pipeline: Pipeline) -> str:
    lines = ["digraph pipeline {", "  rankdir=BT;", "  node [shape=box, fontname=Helvetica, fontsize=10];"]
    numbers = count()
    for result in pipeline.results:
        goal = f"n{next(numbers)}"
        lines.append(f"  {goal} [label={_quote(f'{result.form} {result.name}')}, style=bold];")
        ways = {(id(edge.parent), id(edge.child)): edge.partitioning for edge in edges(result.plan)}

        def draw(
            node: Node, parent: Node | None, above: str, known: dict[tuple[int, int], str] = ways
        ) -> None:
            own = f"n{next(numbers)}"
            lines.append(f"  {own} [label={_quote(title(node))}];")
            way = known.get((id(parent), id(node)), output(node))
            lines.append(f"  {own} -> {above} [label={_quote(way)}, fontsize=9];")
            for child in inputs(node):
                draw(child, node, own)

        draw(result.plan, None, goal)
    return "\n".join([*lines, "}"])


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
