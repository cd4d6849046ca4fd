"""A query -> the tree of nodes that computes it, with every name resolved.

One function per clause, called in the order in which SQL evaluates them: FROM, WHERE, WINDOW, GROUP BY,
HAVING, SELECT, DISTINCT. Faults are collected; a part that is wrong gives way to something harmless, so
that the rest is still read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from sqlglot import exp

from headrace.sql.clauses import check_watermark, window_of
from headrace.sql.context import Context, Planned
from headrace.sql.dialect import Emit, WindowTable, spark_sql
from headrace.sql.expressions import (
    column_node,
    has_aggregate,
    is_grouped,
    own_aggregates,
    span_of,
    text_of,
    whole_span,
)
from headrace.sql.group import Grouping, group_items, having_of, with_keys
from headrace.sql.joins import Joined, OnJoin, join_all
from headrace.sql.nodes import (
    SYSTEM_COLUMNS,
    Aggregate,
    Alias,
    Distinct,
    Filter,
    Having,
    Named,
    Node,
    Project,
    Spread,
    Windowed,
    joins_streams,
)
from headrace.sql.readon import held_back, passed_on, refuse_changes
from headrace.sql.rowswindow import has_rows_window, plan_rows_windows
from headrace.sql.scope import UNKNOWN, WINDOW_COLUMNS, Faults, Member, Relation, Scope
from headrace.sql.select_list import Item, items_of
from headrace.sql.source import Span, did_you_mean
from headrace.sql.union import bare, union_of


def plan_query(query: exp.Expr, context: Context, *, inner: bool = False) -> Planned:
    """Plan a SELECT or a UNION ALL; `inner` queries hand on the system columns of their stream."""
    if isinstance(query, exp.Subquery) and not query.alias:
        return plan_query(query.this, context, inner=inner)
    context = with_ctes(query, context)
    if isinstance(query, exp.SetOperation):
        return _plan_union(query, context, inner=inner)
    if isinstance(query, exp.Select):
        return _plan_select(query, context, inner=inner)
    context.faults.add("expected a SELECT", span_of(query))
    return Planned(UNKNOWN)


def with_ctes(query: exp.Expr, context: Context) -> Context:
    """The context in which a query's FROM is read: what its WITH names is added."""
    clause = query.args.get("with_")
    if clause is None:
        return context
    if clause.args.get("recursive"):
        context.faults.add("a recursive WITH has no end on a stream", span_of(clause))
    for cte in clause.expressions:
        planned = plan_query(cte.this, context, inner=True)
        _refuse_emit(planned, context)
        relations = {**context.relations, cte.alias.casefold(): exposed(planned)}
        views = {**context.views, cte.alias.casefold(): cte.this}
        context = replace(context, relations=relations, views=views)
    return context


def _refuse_emit(planned: Planned, context: Context) -> None:
    if planned.emit is not None and planned.unsettled:
        context.faults.add("EMIT belongs to a result, not to a query inside one", planned.emit.span)


def exposed(planned: Planned) -> Relation:
    """What another query sees of a planned one; the groups of a reference table are rows like its own."""
    relation = planned.relation
    grouped = relation.origin == "stream" and (planned.shape != "rows" or relation.grouped)
    grouped = grouped and not planned.windowed  # such a one is refused for its EMIT CHANGES
    return replace(relation, direct=False, grouped=grouped, keys=planned.keys)


# ---- UNION ----------------------------------------------------------------------------------
def _plan_union(query: exp.SetOperation, context: Context, *, inner: bool) -> Planned:
    if not isinstance(query, exp.Union):
        hint = "UNION ALL is possible"
        context.faults.add(f"{query.key.upper()} needs to see both inputs whole", whole_span(query), hint)
        return Planned(UNKNOWN)
    left = plan_query(query.this, context, inner=inner)
    right = plan_query(query.expression, context, inner=inner)
    _refuse_emit(left, context)
    if right.emit is not None and right.relation.grouped:
        _refuse_emit(right, context)
    return union_of(query, left, right, context.faults)


# ---- SELECT ---------------------------------------------------------------------------------
def _plan_select(query: exp.Select, context: Context, *, inner: bool) -> Planned:
    faults = context.faults
    _refuse_clauses(query, faults)
    emit = cast(Emit | None, query.args.get("emit"))
    joined = _from(query, context)
    if joined is None:
        return Planned(UNKNOWN, emit=emit)
    joined = _where(query, joined, context)
    joined, windowed = _window(query, joined, context)
    items = items_of(query, joined, faults)
    group = query.args.get("group")
    having = query.args.get("having")
    if joins_streams(joined.node) and (taken := _over_rows(query, items)) is not None:
        hint = "CREATE STREAM j AS SELECT … FROM … JOIN …, then SELECT … FROM j GROUP BY …"
        faults.not_yet("groups, DISTINCT and ROWS windows over a join of two streams", taken, hint)
        return Planned(UNKNOWN, emit=emit)
    if windowed and group is None:
        clause = query.args["stream_window"]
        faults.add(
            "WINDOW belongs to GROUP BY", clause.span, "write GROUP BY WINDOW …, or GROUP BY k WINDOW …"
        )
        return Planned(UNKNOWN, emit=emit)
    if over := next((item.node for item in items if has_rows_window(item.node)), None):
        if group is not None or having is not None:
            hint = "give it a query of its own"
            faults.add("a ROWS WINDOW has no place in a grouped query", span_of(over), hint)
            return Planned(UNKNOWN, emit=emit)
        return replace(plan_rows_windows(query, joined, items, context), emit=emit)
    if is_grouped(query) or having is not None:
        planned = _grouped(query, joined, items, context, windowed=windowed)
    else:
        planned = _rows(joined, items, context, inner=inner)
    if query.args.get("distinct") is not None:
        planned = _distinct(query, planned, joined, context)
    return replace(planned, emit=emit)


def _over_rows(query: exp.Select, items: list[Item]) -> Span | None:
    """Where the query takes rows together; None where it does not."""
    for key in ("group", "having", "distinct"):
        if query.args.get(key) is not None:
            return whole_span(query.args[key]) if key != "distinct" else whole_span(query.expressions[0])
    found = [item.node for item in items if has_aggregate(item.node) or has_rows_window(item.node)]
    return whole_span(found[0]) if found else None


def _refuse_clauses(query: exp.Select, faults: Faults) -> None:
    table = (
        ("order", "ORDER BY", "a result has no order; sort where you read it"),
        ("sort", "SORT BY", "a result has no order; sort where you read it"),
        ("limit", "LIMIT", "a stream has no first rows; TOP_K(x, k) keeps the largest"),
        ("offset", "OFFSET", ""),
        ("qualify", "QUALIFY", ""),
        ("windows", "a named WINDOW", ""),
        ("cluster", "CLUSTER BY", ""),
        ("distribute", "DISTRIBUTE BY", ""),
        ("laterals", "LATERAL", ""),
        ("sample", "TABLESAMPLE", ""),
    )
    for key, words, hint in table:
        part = query.args.get(key)
        part = part[0] if isinstance(part, list) and part else part
        if isinstance(part, exp.Expr):
            faults.add(f"{words} has no meaning on a stream", whole_span(part), hint)


def _from(query: exp.Select, context: Context) -> Joined | None:
    clause = query.args.get("from_")
    if clause is None:
        context.faults.add("a query needs a FROM", whole_span(query))
        return None
    first = _first(clause.this, context)
    others = [(join, member_of(join.this, context)) for join in query.args.get("joins") or []]
    if not is_grouped(query):
        span = whole_span(query.expressions[0])
        if not first.scope.several:
            first = Joined.of(_spread(first.scope.members[0], span, context))
        others = [(join, _spread(member, span, context)) for join, member in others]
    for item in [clause.this, *(join.this for join, _ in others)]:
        for nested in item.args.get("joins") or []:
            context.faults.add(
                "a join in parentheses", span_of(nested.this), "write the joins one after the other"
            )
    options = cast(
        "tuple[tuple[str, str, tuple[int, int], tuple[int, int]], ...]", query.args.get("query_options") or ()
    )
    clause = query.args.get("stream_window")
    window = OnJoin(clause, context.zone) if clause is not None else None
    return join_all(first, others, context.names(), options, window)


def _first(item: exp.Expr, context: Context) -> Joined:
    """What stands first in FROM; a join that was cut out of the query is a stream whose columns are its relations."""
    first = member_of(item, context)
    seen = cast("tuple[Member, ...]", item.meta.get("members", ()))
    if not seen or first.relation.open:
        return Joined.of(first)
    relation = first.relation
    members = tuple(
        replace(
            member,
            relation=replace(
                member.relation,
                node=relation.node,
                streams=relation.streams,
                produced=relation.produced,
                carries=member.relation.carries and relation.carries,
            ),
        )
        for member in seen
    )
    return Joined(relation.node, Scope(members, merged=item.meta["merged"]), relation.carries)


def member_of(item: exp.Expr, context: Context) -> Member:
    """What stands in FROM, under its alias."""
    match item:
        case WindowTable():
            return _window_table(item, context)
        case exp.Subquery():
            planned = plan_query(item.this, context, inner=True)
            _refuse_emit(planned, context)
            return _aliased(exposed(planned), item.alias or "")
        case exp.Table():
            return _table(item, context)
        case _:
            context.faults.add(f"{item.key.upper()} has no place in FROM", whole_span(item))
            return Member("", UNKNOWN)


def _table(item: exp.Table, context: Context) -> Member:
    name, faults = item.name, context.faults
    alias = item.alias or name
    if item.args.get("db") is not None:
        faults.add(f"names of streams and tables have one part, not {spark_sql(item)}", whole_span(item))
        return Member(alias, UNKNOWN)
    relation = context.relations.get(name.casefold())
    if name.casefold() in context.closed:
        hint = f"CREATE STREAM {name} AS … can be read on from its Delta table, and a VIEW is inlined"
        faults.add(f"a statement reads on from a result stream, and {name} is none", span_of(item.this), hint)
        return Member(alias, UNKNOWN)
    if relation is None:
        hint = did_you_mean(name, [*context.relations, *context.closed])
        faults.add(f"unknown stream, table or view {name}", span_of(item.this), hint)
        return Member(alias, UNKNOWN)
    return _aliased(relation, alias)


def _window_table(item: WindowTable, context: Context) -> Member:
    member = _table(item.this, context)
    alias = item.alias or item.this.name
    clause = item.meta["clause"]
    relation = member.relation
    if relation.open:
        return Member(alias, relation)
    window = window_of(clause, Scope((member,)), context.names(), context.zone)
    check_watermark(relation, clause.span, context.faults)
    node = Windowed(Alias(context.relations[item.this.name.casefold()].node, alias), window)
    return Member(alias, replace(relation, node=node, windowed=True))


def _spread(member: Member, span: Span, context: Context) -> Member:
    """The rows of a window table with their windows' borders, for a query that has no GROUP BY to take them."""
    relation, node = member.relation, member.relation.node
    if not relation.windowed or not isinstance(node, Windowed) or not isinstance(node.input, Alias):
        return member
    if node.window.kind == "session":
        hint = "GROUP BY …, window_start, window_end"
        context.faults.add("a row alone does not know its session", span, hint)
    spread = Alias(Spread(node.input.input, node.window), node.input.name)
    columns = (*relation.columns, "window_start", "window_end")
    return Member(member.alias, replace(relation, node=spread, columns=columns, windowed=False))


def _aliased(relation: Relation, alias: str) -> Member:
    if relation.open:
        return Member(alias, relation)
    node = Alias(relation.node, alias) if alias else relation.node
    return Member(alias, replace(relation, node=node))


def _where(query: exp.Select, joined: Joined, context: Context) -> Joined:
    clause = query.args.get("where")
    if clause is None:
        return joined
    condition = clause.this
    for call in own_aggregates(condition):
        hint = "conditions on groups belong into HAVING"
        context.faults.add(f"the aggregate {call.name} has no place in WHERE", span_of(call), hint)
    _refuse_window_columns(condition, joined, context)
    text = text_of(condition, joined.scope, context.names())
    groups = any(m.relation.grouped for m in joined.scope.members)
    node = (Having if groups else Filter)(
        joined.node, text, context.faults.source.place(whole_span(condition))
    )
    return replace(joined, node=node)


def _refuse_window_columns(condition: exp.Expr, joined: Joined, context: Context) -> None:
    for part in condition.find_all(exp.Column):
        folded = part.name.casefold()
        if folded in WINDOW_COLUMNS and any(m.relation.windowed for m in joined.scope.members):
            hint = "write it as HAVING"
            context.faults.not_yet("a condition on a window's borders in WHERE", span_of(part), hint)


def _window(query: exp.Select, joined: Joined, context: Context) -> tuple[Joined, bool]:
    clause = query.args.get("stream_window")
    tables = [m for m in joined.scope.members if m.relation.windowed]
    if clause is None or joins_streams(joined.node):  # on a join it is the join's own
        return joined, False
    if tables:
        context.faults.add("two windows in one query", clause.span)
    for member in joined.scope.members:
        if member.relation.origin == "stream":
            check_watermark(member.relation, clause.span, context.faults)
    if joined.of_tables:
        hint = "a table's rows have no event time: GROUP BY date_trunc('HOUR', ts)"
        context.faults.add("a WINDOW over reference tables alone", clause.span, hint)
    window = window_of(clause, joined.scope, context.names(), context.zone)
    of_windows = any(one.window is not None for m in joined.scope.members for one in m.relation.produced)
    timeless = not window.time and (not joined.carries or (of_windows and clause.time is None))
    if timeless and not any(m.relation.open for m in joined.scope.members):
        context.faults.add(
            "the window has no event time here", clause.span, "name it: WINDOW TUMBLING(ts, …)"
        )
    refuse_changes(joined, "a window", clause.span, context.faults)
    held = held_back(window, clause.time, joined, clause.span, context.faults)
    return replace(joined, node=Windowed(joined.node, replace(window, held_back=held))), True


def _rows(joined: Joined, items: list[Item], context: Context, *, inner: bool) -> Planned:
    """A query without groups: a projection of its rows, or of the newest values of groups."""
    members = joined.scope.members
    groups = next((m.relation for m in members if m.relation.grouped), None)
    names = context.names()
    place = context.faults.source.place
    columns = [Named(i.name, text_of(i.node, joined.scope, names), place(whole_span(i.node))) for i in items]
    times = frozenset(i.name.casefold() for i in items if joined.is_time(i.node))
    keys: tuple[str, ...] = ()
    if groups is not None:
        columns, keys = with_keys(columns, list(groups.keys), windowed=False)
    taken = {column.name.casefold() for column in columns}
    carried = [name for name in SYSTEM_COLUMNS if name not in taken] if inner and joined.carries else []
    alias = joined.stream_alias if joined.scope.several else ""
    columns += [Named(name, spark_sql(column_node(name, alias))) for name in carried]
    streams = tuple(dict.fromkeys(s for m in members for s in m.relation.streams))
    relation = Relation(
        node=Project(joined.node, tuple(columns)),
        columns=tuple(item.name for item in items),
        origin="stream" if any(m.relation.origin == "stream" for m in members) else "table",
        streams=streams,
        carries=bool(inner and joined.carries),
        watermarked=all(m.relation.watermarked for m in members if m.relation.origin == "stream"),
        times=times,
        open=any(m.relation.open for m in members),
        produced=passed_on(joined, items),
    )
    return Planned(relation, keys, "rows" if groups is None else "groups")


# ---- groups ---------------------------------------------------------------------------------
def _grouped(
    query: exp.Select, joined: Joined, items: list[Item], context: Context, *, windowed: bool
) -> Planned:
    members, faults = joined.scope.members, context.faults
    by_table = any(m.relation.windowed for m in members)
    expressions, borders = group_items(query, items, joined.scope, faults)
    if by_table and not borders:
        hint = "add window_start, window_end to GROUP BY"
        span = whole_span(query.args.get("group") or query)
        faults.add("groups over all windows of a window table", span, hint)
    if not windowed:
        refuse_changes(joined, "groups", whole_span(query.args.get("group") or query), faults)
    in_windows = windowed or by_table
    unknown = any(m.relation.open for m in members)
    grouping = Grouping(joined.scope, context.names(), in_windows, joined.carries or unknown)
    shown = {grouping.quiet_text(item.node) for item in items if not has_aggregate(item.node)}
    for expression in expressions:
        grouping.add_key(expression, shown)
    selected = [grouping.above(item.node) for item in items]
    having = having_of(query, items, grouping)
    node: Node = Aggregate(joined.node, tuple(grouping.key_nodes), tuple(grouping.calls), in_windows)
    node = Having(node, *having) if having is not None else node
    place = faults.source.place
    columns = [
        Named(item.name, spark_sql(new), place(whole_span(item.node)))
        for item, new in zip(items, selected, strict=True)
    ]
    columns, keys = with_keys(columns, [named.name for named in grouping.key_nodes], windowed=in_windows)
    relation = Relation(
        node=Project(node, tuple(columns)),
        columns=tuple(item.name for item in items),
        origin="table" if joined.of_tables else "stream",
        streams=tuple(dict.fromkeys(s for m in members for s in m.relation.streams)),
        watermarked=all(m.relation.watermarked for m in members if m.relation.origin == "stream"),
        grouped=not joined.of_tables,
        open=any(m.relation.open for m in members),
    )
    return Planned(relation, keys, "groups", in_windows)


def _distinct(query: exp.Select, planned: Planned, joined: Joined, context: Context) -> Planned:
    clause = query.args["distinct"]
    span = whole_span(query.expressions[0])
    if clause.args.get("on") is not None:
        context.faults.add("DISTINCT ON", whole_span(clause))
    refuse_changes(joined, "DISTINCT", span, context.faults)
    relation = planned.relation
    if planned.shape == "groups" and relation.origin == "stream":
        hint = "SELECT DISTINCT … FROM (SELECT … GROUP BY … WINDOW …) asks the final rows of windows"
        context.faults.add("DISTINCT over groups in one query", span, hint)
        return planned
    node = bare(relation) if relation.carries else relation.node
    grouped = relation.origin == "stream"
    relation = replace(relation, node=Distinct(node), carries=False, grouped=grouped)
    return Planned(relation, relation.columns, "distinct")
