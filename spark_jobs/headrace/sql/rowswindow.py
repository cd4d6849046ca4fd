"""Aggregates over ROWS windows: a query whose SELECT looks back at the last rows of each key.

The plan is a projection of what the query asks of its rows, the `RowsWindow` over it, and SELECT above
that, so that a carried-state operator holds those columns and no others.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from headrace.sql.clauses import check_watermark
from headrace.sql.context import Context, Planned
from headrace.sql.dialect import RowsWindow as Over
from headrace.sql.dialect import spark_sql
from headrace.sql.expressions import column_node, resolve, span_of, whole_span
from headrace.sql.group import Grouping
from headrace.sql.joins import Joined
from headrace.sql.nodes import TIME_ORDER, Call, Named, Project, RowsWindow
from headrace.sql.parse import quoted
from headrace.sql.readon import passed_on, refuse_changes
from headrace.sql.scope import UNKNOWN, Member, Relation, Scope
from headrace.sql.select_list import Item

MOST_ROWS = 100_000  # of a buffer


def has_rows_window(node: exp.Expr) -> bool:
    """Whether an aggregate over a ROWS window stands in the expression."""
    return any(isinstance(part, Over) for part in node.walk())


def plan_rows_windows(query: exp.Select, joined: Joined, items: list[Item], context: Context) -> Planned:
    """Plan a query without groups whose items look back."""
    faults, members = context.faults, joined.scope.members
    overs = [part for item in items for part in item.node.walk() if isinstance(part, Over)]
    if any(m.relation.open for m in members):
        return Planned(UNKNOWN)
    for member in members:
        if member.relation.origin == "stream":
            check_watermark(member.relation, span_of(overs[0]), faults)
    refuse_changes(joined, "a ROWS WINDOW", span_of(overs[0]), faults)
    if any(m.relation.windowed for m in members):
        faults.not_yet("a ROWS WINDOW over a window table", span_of(overs[0]))
    if query.args.get("distinct") is not None:
        hint = "SELECT DISTINCT … FROM (SELECT … OVER (ROWS WINDOW …) … FROM …)"
        faults.add("DISTINCT with a ROWS WINDOW in one query", whole_span(query.expressions[0]), hint)
    if not joined.carries:
        faults.add("the rows have no event time here", span_of(overs[0]))
    below = _Below(joined, context)
    keys = _keys(overs, below, context)
    inner = [(item, below.expression(item.node)) for item in items]
    relation = Relation(node=joined.node, columns=tuple(named.name for named in below.columns))
    scope = Scope((Member("", relation),))
    grouping = Grouping(scope, context.names(), windowed=False)
    calls: list[tuple[Call, int]] = []
    place = faults.source.place
    columns = tuple(
        Named(item.name, _above(node, grouping, calls, context), place(whole_span(item.node)))
        for item, node in inner
    )
    alias = joined.stream_alias if joined.scope.several else ""
    system = tuple(
        Named(name, spark_sql(column_node(name, alias)))
        for name in TIME_ORDER
        if name not in {named.name for named in below.columns}
    )
    rows = Project(joined.node, (*below.columns, *system))
    node = RowsWindow(rows, keys, tuple(calls), place(span_of(overs[0])))
    streams = tuple(dict.fromkeys(s for m in members for s in m.relation.streams))
    relation = Relation(
        Project(node, columns),
        tuple(item.name for item in items),
        streams=streams,
        watermarked=True,
        times=frozenset(item.name.casefold() for item in items if joined.is_time(item.node)),
        grouped=True,
        produced=passed_on(joined, items),
    )
    return Planned(relation)


@dataclass(slots=True)
class _Below:
    """The columns that the query asks of its rows, each under a name of its own."""

    joined: Joined
    context: Context
    columns: list[Named] = field(default_factory=list)

    def expression(self, node: exp.Expr) -> exp.Expr:
        """The expression over those columns."""
        if isinstance(node, exp.Query) or (
            isinstance(node, exp.Column) and not isinstance(node.this, exp.Star)
        ):
            return column_node(self.column(node), like=node)
        copy = node.copy()
        for child, old in zip(list(copy.iter_expressions()), list(node.iter_expressions()), strict=True):
            if isinstance(node, Over) and old is not node.this:
                continue  # PARTITION BY and ORDER BY are read apart
            child.replace(self.expression(old))
        return copy

    def column(self, node: exp.Expr) -> str:
        """The name of the column that holds an expression over the rows."""
        resolved = resolve(node, self.joined.scope, self.context.names())
        text = spark_sql(resolved)
        for named in self.columns:
            if named.expression == text:
                return named.name
        taken = {named.name.casefold() for named in self.columns}
        plain = isinstance(resolved, exp.Column) and quoted(resolved.name) == resolved.name
        name = (
            resolved.name if plain and resolved.name.casefold() not in taken else f"__in{len(self.columns)}"
        )
        self.columns.append(Named(name, text, self.context.faults.source.place(span_of(node))))
        return name


def _keys(overs: list[Over], below: _Below, context: Context) -> tuple[str, ...]:
    """The columns of PARTITION BY, which all windows of a query share; and ORDER BY is the event time."""
    found = [tuple(below.column(key) for key in over.args.get("partition_by") or ()) for over in overs]
    for over, keys in zip(overs, found, strict=True):
        if keys != found[0]:
            context.faults.add(
                "the ROWS windows of a query have one PARTITION BY", span_of(over), "write two queries"
            )
        _check_order(over, below, context)
    return found[0]


def _check_order(over: Over, below: _Below, context: Context) -> None:
    order = over.args.get("order")
    parts = order.expressions if order is not None else []
    if len(parts) != 1:
        context.faults.add(
            "a ROWS WINDOW is ordered by the event time",
            span_of(over),
            "add ORDER BY ts, the watermark's column",
        )
        return
    part = parts[0]
    node = part.this if isinstance(part, exp.Ordered) else part
    if isinstance(part, exp.Ordered) and part.args.get("desc"):
        context.faults.add("a ROWS WINDOW looks back: ORDER BY … DESC", span_of(node), "leave DESC out")
    found = below.joined.scope.find(node.name, node.table) if isinstance(node, exp.Column) else []
    times = [one for one in found if one.column == "_event_time" or one.member.relation.is_time(one.column)]
    if len(found) != 1 or not times:
        if isinstance(node, exp.Column) and not found:
            resolve(node, below.joined.scope, context.names())
            return
        context.faults.add(
            "a ROWS WINDOW is ordered by the event time",
            span_of(node),
            "the column of the stream's WATERMARK",
        )


def _above(node: exp.Expr, grouping: Grouping, calls: list[tuple[Call, int]], context: Context) -> str:
    def replaced(part: exp.Expr) -> exp.Expr:
        if isinstance(part, Over):
            return column_node(_call(part, grouping, calls, context), like=part)
        copy = part.copy()
        for child, old in zip(list(copy.iter_expressions()), list(part.iter_expressions()), strict=True):
            child.replace(replaced(old))
        return copy

    new = replaced(node)
    below = grouping.scope.members[0].relation
    columns = (*below.columns, *(call.name for call, _ in calls))
    return spark_sql(resolve(new, Scope((Member("", replace(below, columns=columns)),)), context.names()))


def _call(over: Over, grouping: Grouping, calls: list[tuple[Call, int]], context: Context) -> str:
    rows = over.args["rows"]
    buffer = int(rows.name) if rows is not None and rows.is_int else 0
    if not 1 <= buffer <= MOST_ROWS:
        context.faults.add(
            f"BUFFER is a whole number of rows from 1 to {MOST_ROWS:,}", span_of(over), "BUFFER 3 ROWS"
        )
    call = grouping.read(over.this, f"__rows{len(calls)}")
    if call is None:
        context.faults.add("OVER (ROWS WINDOW …) stands behind an aggregate", span_of(over))
        return "__rows0"
    for known, known_buffer in calls:
        if known_buffer == buffer and known.same_as(call):
            return known.name
    calls.append((call, buffer))
    return call.name
