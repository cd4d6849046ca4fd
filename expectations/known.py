"""What the gate knows of a result from its declaration: keys, window columns, counts, what can't be NULL.

Only names are read from the compiled plan, never how anything is computed. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from expectations.compare import Columns
from expectations.suites import Facts
from headrace.sql.nodes import (
    Aggregate,
    JoinStreams,
    JoinTable,
    Pipeline,
    Project,
    Result,
    Scan,
    reads_stream,
    walk,
)

COUNTING = ("count", "count_if", "count_distinct", "approx_count_distinct")
BAGS = ("collect_list", "collect_set", "array_agg")


def named_columns(result: Result) -> Mapping[str, str]:
    """The result's columns, hidden ones too, and the expression of each, a plain name without its quotes.

    Over groups it is what the grouping calls it, however many queries rename it on the way.
    """
    found: dict[str, str] = {}
    grouped = aggregate_of(result) is not None
    for node in walk(result.plan):
        if isinstance(node, Project):
            below = {named.name: named.expression.strip("`") for named in node.columns}
            found = {name: below.get(source, source) for name, source in found.items()} if found else below
            if not grouped:
                break
        elif isinstance(node, Aggregate):
            break
    return found


def aggregate_of(result: Result) -> Aggregate | None:
    """The outermost grouping of the result."""
    groups = (node for node in walk(result.plan) if isinstance(node, Aggregate) and reads_stream(node))
    return next(groups, None)


def hidden_keys(result: Result) -> dict[str, int]:
    """The result's hidden group keys (window columns apart) and the place of each in GROUP BY."""
    grouped, named = aggregate_of(result), named_columns(result)
    places = {key.name: place for place, key in enumerate(grouped.keys)} if grouped else {}
    hidden = {name: named.get(name, name) for name in result.keys if name.startswith("__")}
    return {name: places[source] for name, source in hidden.items() if source in places}


def result_bounds(result: Result) -> tuple[str, str] | None:
    """The result's columns that hold its window's start and end; None where it has no window."""
    grouped = aggregate_of(result)
    if grouped is None or not grouped.windowed:
        return None
    by_source = {source: name for name, source in reversed(list(named_columns(result).items()))}
    return by_source.get("window_start", "__window_start"), by_source.get("window_end", "__window_end")


def waits_of(result: Result) -> tuple[int, int] | None:
    """How long an unmatched left and right row waits (µs); None where no outer join of streams is in the result."""
    joins = (node for node in walk(result.plan) if isinstance(node, JoinStreams) and node.kind != "inner")
    return next(((node.upper.micros, -node.lower.micros) for node in joins), None)


def columns_of(result: Result, shown: Sequence[str]) -> Columns:
    """How the result's rows are matched with the baseline's."""
    grouped = aggregate_of(result)
    one_row = grouped is not None and not grouped.keys and not grouped.windowed
    return Columns(
        keys=result.keys,
        values=tuple(name for name in shown if name not in result.keys),
        keyed=bool(result.keys) or one_row,
        bags=frozenset(_of_calls(result, BAGS)),
    )


def facts_of(pipeline: Pipeline, result: Result, shown: Sequence[str]) -> Facts:
    """What the checks ask about the result; the caller adds what only the run can tell."""
    columns = columns_of(result, shown)
    return Facts(
        result=result.name,
        keys=columns.keys,
        keyed=columns.keyed,
        window=result_bounds(result),
        not_null=tuple(_not_null(pipeline, result)),
        counts=tuple(_of_calls(result, COUNTING)),
        columns=tuple(shown),
    )


def _of_calls(result: Result, functions: Sequence[str]) -> list[str]:
    """The result's columns that are just a call of one of the functions."""
    grouped = aggregate_of(result)
    calls = {call.name: call.function for call in grouped.calls} if grouped else {}
    return [name for name, source in named_columns(result).items() if calls.get(source) in functions]


def _not_null(pipeline: Pipeline, result: Result) -> list[str]:
    """Columns that are plain NOT NULL columns of the one stream the result reads (a join may add NULLs)."""
    nodes = list(walk(result.plan))
    scans = [node.stream for node in nodes if isinstance(node, Scan)]
    if len(scans) != 1 or any(isinstance(node, JoinTable) for node in nodes):
        return []
    sure = {column.name for column in pipeline.stream(scans[0]).columns if column.not_null}
    grouped = aggregate_of(result)
    keys = {key.name: key.expression.strip("`") for key in grouped.keys} if grouped else {}
    return [name for name, source in named_columns(result).items() if keys.get(source, source) in sure]
