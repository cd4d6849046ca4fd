"""Expressions with every name resolved: sqlglot's tree in, the same tree in Spark's words out.

Rules: a column is written bare where the query has one relation, and as alias.column where it has
several or where a sub-query asks its outer query; functions are checked and otherwise untouched;
sub-queries may ask reference tables only. A fault is added to Faults and the walk goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headrace.sql.dialect import RowsWindow, WindowTable, spark_sql
from headrace.sql.functions import UNREPEATABLE, groups, is_aggregate, is_known, is_window
from headrace.sql.nodes import Scan
from headrace.sql.parse import quoted
from headrace.sql.scope import UNKNOWN, Faults, Member, Relation, Scope
from headrace.sql.source import Span, did_you_mean

# Expressions that sqlglot reads into classes of their own though they are calls by the clock.
_CLOCK = (exp.CurrentTimestamp, exp.CurrentDate, exp.CurrentTime, exp.CurrentDatetime, exp.Localtimestamp)
_FOREIGN = (exp.Placeholder, exp.Parameter, exp.SessionParameter)
_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)


@dataclass(frozen=True, slots=True)
class Names:
    """What an expression may name besides columns: reference tables and views, by folded name."""

    faults: Faults
    relations: Mapping[str, Relation] = field(default_factory=dict)
    expand: Callable[[str], exp.Expr | None] = lambda _: None  # a view's query, to stand in a sub-query


def span_of(node: exp.Expr) -> Span:
    """The characters of an expression, as far as its parts know where they stand."""
    if "start" in node.meta:
        return (node.meta["start"], node.meta["end"] + 1)
    spans = [(part.meta["start"], part.meta["end"] + 1) for part in node.walk() if "start" in part.meta]
    return (min(span[0] for span in spans), max(span[1] for span in spans)) if spans else (0, 0)


def whole_span(node: exp.Expr) -> Span:
    """Like `span_of`, but over all parts of the expression."""
    spans = [(part.meta["start"], part.meta["end"] + 1) for part in node.walk() if "start" in part.meta]
    return (min(span[0] for span in spans), max(span[1] for span in spans)) if spans else (0, 0)


def aggregate_call(node: exp.Expr) -> exp.Anonymous | None:
    """The aggregate's call where the node is one, FILTER, WITHIN GROUP and IGNORE NULLS around it included."""
    inner = node
    while isinstance(inner, _WRAPPERS):
        inner = inner.this
    if isinstance(inner, exp.Anonymous) and is_aggregate(inner.name):
        return inner
    return None


def own_aggregates(node: exp.Expr) -> list[exp.Anonymous]:
    """The aggregate calls of this very query in the expression, not those of sub-queries."""
    if isinstance(node, exp.Query | exp.Window | RowsWindow):
        return []
    call = aggregate_call(node)
    if call is not None:
        return [call]
    return [found for child in node.iter_expressions() for found in own_aggregates(child)]


def has_aggregate(node: exp.Expr) -> bool:
    """Whether an aggregate of this very query stands in the expression."""
    return bool(own_aggregates(node))


def is_grouped(query: exp.Select) -> bool:
    """Whether the query takes rows together: GROUP BY, or an aggregate in SELECT."""
    return query.args.get("group") is not None or any(map(has_aggregate, query.expressions))


def from_items(query: exp.Expr) -> list[exp.Expr]:
    """What stands in FROM and in its joins, in order."""
    items = [query.args["from_"].this] if query.args.get("from_") else []
    return items + [join.this for join in query.args.get("joins") or []]


def resolve(node: exp.Expr, scope: Scope, names: Names) -> exp.Expr:
    """A copy of the expression with its columns resolved and its functions checked."""

    copy = node.copy()
    return _resolved(copy, scope, names)


def _resolved(part: exp.Expr, scope: Scope, names: Names) -> exp.Expr:
    match part:
        case exp.Column():
            return _column(part, scope, names.faults)
        case exp.Query():
            return sub_query(part, scope, names)
        case exp.Window():
            _refuse_window(part, names.faults)
        case RowsWindow():
            hint = "give it a name in SELECT, in a query without GROUP BY"
            names.faults.add("an aggregate over a ROWS WINDOW has no place here", span_of(part), hint)
        case exp.Anonymous():
            _check_function(part, names.faults)
        case _ if isinstance(part, _CLOCK):
            _refuse_unrepeatable(part, part.sql_name().lower(), "the clock", names.faults)
        case _ if isinstance(part, _FOREIGN):
            names.faults.add("parameters have no place in a pipeline", span_of(part), "use ${NAME}")
        case _:
            pass
    for child in list(part.iter_expressions()):
        new = _resolved(child, scope, names)
        if new is not child:
            child.replace(new)
    return part


def text_of(node: exp.Expr, scope: Scope, names: Names) -> str:
    """The Spark SQL text of the expression, resolved."""
    return spark_sql(resolve(node, scope, names))


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """The conditions that AND ties together."""
    node = node.unnest()
    if isinstance(node, exp.And):
        return [*conjuncts(node.left), *conjuncts(node.right)]
    return [node]


# ---- columns --------------------------------------------------------------------------------
def column_node(column: str, alias: str = "", like: exp.Expr | None = None) -> exp.Column:
    """A reference to a column, quoted where it must be; `like` lends its position."""
    node = exp.Column(
        this=exp.Identifier(this=column, quoted=quoted(column) != column),
        table=exp.Identifier(this=alias, quoted=quoted(alias) != alias) if alias else None,
    )
    if like is not None:
        span = span_of(like)
        node.meta.update(start=span[0], end=span[1] - 1)
    return node


def _column(node: exp.Column, scope: Scope, faults: Faults) -> exp.Expr:
    if isinstance(node.this, exp.Star):
        faults.add("a * has no place here", span_of(node))
        return node
    parts = [part.name for part in node.parts]
    for cut in (2, 1):  # alias.column, then column; what is left are fields of a struct
        if len(parts) < cut:
            continue
        alias, name = (parts[0], parts[1]) if cut == 2 else ("", parts[0])
        found = scope.find(name, alias)
        if len(found) > 1:
            owners = ", ".join(f"{one.member.alias}.{one.column}" for one in found)
            faults.add(f"the column {name} is ambiguous", span_of(node.parts[0]), f"it may be {owners}")
            return node
        if found:
            one = found[0]
            qualify = one.outer or scope.several
            reference = column_node(one.column, one.member.alias if qualify else "", node)
            return _fields(reference, parts[cut:])
    _unknown_column(node, parts, scope, faults)
    return node


def _fields(reference: exp.Column, fields: list[str]) -> exp.Expr:
    result: exp.Expr = reference
    for name in fields:
        result = exp.Dot(this=result, expression=exp.Identifier(this=name, quoted=quoted(name) != name))
    return result


def _unknown_column(node: exp.Column, parts: list[str], scope: Scope, faults: Faults) -> None:
    if len(parts) > 1 and scope.member(parts[0]):
        word = node.parts[1]
        faults.add(f"{parts[0]} has no column {parts[1]}", span_of(word), scope.hint(parts[1], parts[0]))
    elif len(parts) > 1:
        aliases = [member.alias for member in scope.members]
        hint = did_you_mean(parts[0], [*aliases, *scope.names()])
        faults.add(f"unknown name {parts[0]}", span_of(node.parts[0]), hint)
    else:
        faults.add(f"unknown column {parts[0]}", span_of(node), scope.hint(parts[0]))


# ---- functions ------------------------------------------------------------------------------
def _check_function(node: exp.Anonymous, faults: Faults) -> None:
    name = node.name
    if not is_known(name):
        faults.add(f"unknown function {name}", span_of(node), did_you_mean(name, groups()))
    elif is_window(name) and not isinstance(node.parent, exp.Window):
        faults.add(f"{name} needs rows in an order, which a stream never has all of", span_of(node))
    elif name.lower() in UNREPEATABLE:
        _refuse_unrepeatable(node, name, UNREPEATABLE[name.lower()], faults)
    elif name.lower() in ("grouping", "grouping_id"):
        faults.add(f"{name} needs grouping sets, which results do not have", span_of(node))


def _refuse_unrepeatable(node: exp.Expr, name: str, cause: str, faults: Faults) -> None:
    hint = "the time of a record is _TIMESTAMP or _EVENT_TIME" if cause == "the clock" else ""
    faults.add(f"{name} depends on {cause}, so that no replay gives the same answer", span_of(node), hint)


def _refuse_window(node: exp.Window, faults: Faults) -> None:
    hint = "OVER (ROWS WINDOW BUFFER n ROWS PARTITION BY k ORDER BY ts) looks at the last n rows"
    faults.add("OVER needs all rows of its partition, which a stream never has", span_of(node), hint)


# ---- sub-queries over reference tables ---------------------------------------------------------
def sub_query(node: exp.Expr, outer: Scope, names: Names) -> exp.Expr:
    """A sub-query as text for Spark: its tables keep their names, outer columns are qualified."""
    query = node
    if isinstance(query, exp.Subquery):
        query.set("this", sub_query(query.this, outer, names))
        return query
    names = _with_ctes(query, outer, names)
    if isinstance(query, exp.SetOperation):
        query.set("this", sub_query(query.this, outer, names))
        query.set("expression", sub_query(query.expression, outer, names))
        return query
    scope = Scope((), outer)
    for item in from_items(query):
        scope = scope.with_member(_sub_member(item, outer, names))
    for key, value in list(query.args.items()):
        if key in ("from_", "joins", "with_"):
            continue
        parts = value if isinstance(value, list) else [value]
        for part in [part for part in parts if isinstance(part, exp.Expr)]:
            _resolve_inside(
                part, scope, names, _aliases(query) if key in ("order", "having", "group") else ()
            )
    for join in query.args.get("joins") or []:
        if isinstance(on := join.args.get("on"), exp.Expr):
            _resolve_inside(on, scope, names)
    return query


def _resolve_inside(part: exp.Expr, scope: Scope, names: Names, aliases: tuple[str, ...] = ()) -> None:
    """Check the columns of a clause of a sub-query and qualify those of the outer query, in place."""
    for found in list(_own_columns(part)):
        if isinstance(found, exp.Column):
            if isinstance(found.this, exp.Star) or found.name.casefold() in aliases:
                continue
            first = found.parts[0].name
            inner = scope.find(found.parts[1].name, first) if len(found.parts) > 1 else []
            inner = inner or scope.find(first)
            if inner and not inner[0].outer:
                continue
            found.replace(_column(found, scope, names.faults))
        elif isinstance(found, exp.Query):
            sub_query(found, scope, names)
        elif isinstance(found, exp.Anonymous):
            _check_function(found, names.faults)


def _own_columns(part: exp.Expr) -> list[exp.Expr]:
    if isinstance(part, exp.Column | exp.Query):
        return [part]
    found: list[exp.Expr] = [part] if isinstance(part, exp.Anonymous) else []
    for child in part.iter_expressions():
        found += _own_columns(child)
    return found


def _aliases(query: exp.Expr) -> tuple[str, ...]:
    return tuple(part.alias.casefold() for part in query.expressions if part.alias)


def _sub_member(item: exp.Expr, outer: Scope, names: Names) -> Member:
    if isinstance(item, exp.Subquery):
        sub_query(item.this, Scope(()), names)
        return Member(item.alias, _shape(item.this, names))
    if isinstance(item, WindowTable) or not isinstance(item, exp.Table):
        names.faults.add("a sub-query may ask reference tables only", span_of(item))
        return Member("", UNKNOWN)
    relation = _sub_table(item, names)
    return Member(item.alias or item.name, relation)


def _sub_table(item: exp.Table, names: Names) -> Relation:
    relation = names.relations.get(item.name.casefold())
    if relation is None:
        hint = did_you_mean(item.name, names.relations)
        names.faults.add(f"unknown table {item.name}", span_of(item), hint)
        return UNKNOWN
    if relation.origin == "stream":
        hint = "a join of two streams says in which time they meet"
        names.faults.add(
            f"a sub-query may ask reference tables only, and {item.name} is a stream", span_of(item), hint
        )
        return UNKNOWN
    view = names.expand(item.name.casefold())
    if view is not None:
        alias = exp.TableAlias(this=exp.to_identifier(item.alias or item.name))
        item.replace(exp.Subquery(this=view.copy(), alias=alias))
    return relation


def _with_ctes(query: exp.Expr, outer: Scope, names: Names) -> Names:
    clause = query.args.get("with_")
    if clause is None:
        return names
    relations = dict(names.relations)
    for cte in clause.expressions:
        names = replace(names, relations=relations)
        sub_query(cte.this, outer, names)
        relations = {**relations, cte.alias.casefold(): _shape(cte.this, names)}
    return replace(names, relations=relations)


def _shape(query: exp.Expr, names: Names) -> Relation:
    """The columns that a sub-query gives; any column where it says *."""
    first = query
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    if any(isinstance(part, exp.Star) or part.is_star for part in first.expressions):
        return replace(UNKNOWN, origin="table")
    columns = tuple(part.alias_or_name for part in first.expressions)
    return Relation(node=Scan(""), columns=columns, origin="table")
