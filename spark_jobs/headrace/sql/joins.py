"""The joins of one FROM, from left to right: a stream with reference tables; two streams are checked.

Rules: the stream side is the left input of JoinTable, whichever side it was written on; a join of two
streams is refused for its true reason first (bound, watermark) and as not supported yet only then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from headrace.sql.bounds import missing_bound
from headrace.sql.catalog import QUERY_OPTIONS
from headrace.sql.dialect import spark_sql
from headrace.sql.expressions import Names, column_node, has_aggregate, resolve, span_of, whole_span
from headrace.sql.nodes import JoinTable, Node
from headrace.sql.scope import Member, Scope
from headrace.sql.source import Span, did_you_mean

Options = tuple[tuple[str, str, Span, Span], ...]


@dataclass(frozen=True, slots=True)
class Joined:
    """FROM as a whole: its plan, its scope, and whether the system columns of one stream are in it."""

    node: Node
    scope: Scope
    carries: bool
    stream_alias: str = ""

    @property
    def of_tables(self) -> bool:
        """Whether it reads reference tables alone."""
        return all(m.relation.origin == "table" and not m.relation.open for m in self.scope.members)

    def is_time(self, node: exp.Expr) -> bool:
        """Whether an expression is just the rows' event time."""
        if not isinstance(node, exp.Column):
            return False
        found = self.scope.find(node.name, node.table)
        if len(found) != 1 or found[0].outer:
            return False
        return found[0].column == "_event_time" or found[0].member.relation.is_time(found[0].column)


def join_all(
    first: Member, others: list[tuple[exp.Join, Member]], names: Names, options: Options, windowed: bool
) -> Joined | None:
    """Join the relations of FROM in the order in which they are written; None where streams meet."""
    _check_options(options, names)
    relation = first.relation
    alias = first.alias if relation.origin == "stream" else ""
    joined = Joined(relation.node, Scope((first,)), relation.carries, alias)
    for join, member in others:
        scope = _scope(join, member, joined, names)
        if any(m.relation.open for m in scope.members):
            joined = replace(joined, scope=scope)
            continue
        if _two_streams(scope):
            _refuse_stream_join(join, member, replace(joined, scope=scope), names, (options, windowed))
            return None
        joined = _join(join, member, replace(joined, scope=scope), names)
    return joined


def _check_options(options: Options, names: Names) -> None:
    for key, value, key_span, value_span in options:
        check = QUERY_OPTIONS.get(key)
        if check is None:
            names.faults.add(f"unknown option {key!r}", key_span, did_you_mean(key, QUERY_OPTIONS))
        elif wrong := check(value):
            names.faults.add(f"{key}: {wrong}", value_span)


def _scope(join: exp.Join, member: Member, joined: Joined, names: Names) -> Scope:
    if joined.scope.member(member.alias) and member.alias:
        hint = "give one of them another name with AS"
        names.faults.add(f"two relations are named {member.alias}", span_of(join.this), hint)
    using = [identifier.name for identifier in join.args.get("using") or []]
    return joined.scope.with_member(member, using)


def _join(join: exp.Join, member: Member, joined: Joined, names: Names) -> Joined:
    side = _side(join, names)
    swapped = member.relation.origin == "stream"
    if member.relation.windowed or any(m.relation.windowed for m in joined.scope.members):
        names.faults.not_yet("a join with a window table", span_of(join.this), "write GROUP BY … WINDOW …")
    if any(m.relation.grouped for m in joined.scope.members):
        hint = "give the inner query a WINDOW, so that its rows are final; or join first, then group"
        names.faults.add("a join with groups that still change", span_of(join.this), hint)
    kind: Literal["inner", "left"] = "inner"
    if side:
        kind = "left"
        if (side == "left") == swapped or side == "full":
            hint = "the stream's side may be kept: stream LEFT JOIN table"
            message = "an outer join may not keep the unmatched rows of a reference table"
            names.faults.add(message, span_of(join.this), hint)
    condition = _condition(join, member, joined, names)
    right, left = (joined.node, member.relation.node) if swapped else (member.relation.node, joined.node)
    node = JoinTable(left, right, kind, condition, names.faults.source.place(span_of(join.this)))
    carries = member.relation.carries if swapped else joined.carries
    alias = member.alias if swapped else joined.stream_alias
    return Joined(node, joined.scope, carries, alias)


def _side(join: exp.Join, names: Names) -> str:
    side, kind, method = join.side.lower(), join.kind.lower(), join.method.lower()
    if method == "asof":
        names.faults.not_yet("ASOF JOIN", span_of(join.this))
    elif method:
        names.faults.add(f"{method.upper()} JOIN", span_of(join.this), "write JOIN … ON")
    if kind in ("semi", "anti"):
        names.faults.add(f"{kind.upper()} JOIN", span_of(join.this), "write WHERE [NOT] EXISTS (SELECT …)")
    if kind == "cross":
        names.faults.add("a join without a condition", span_of(join.this), "write JOIN … ON …")
    return side


def _condition(join: exp.Join, member: Member, joined: Joined, names: Names) -> str:
    if using := join.args.get("using"):
        return " AND ".join(_using(identifier, member, joined, names) for identifier in using)
    on = join.args.get("on")
    if on is None or (isinstance(on, exp.Boolean) and "start" not in on.meta and not on.args.get("written")):
        if join.kind.lower() != "cross":
            names.faults.add("a join needs ON or USING", span_of(join.this))
        return "TRUE"
    if has_aggregate(on):
        names.faults.add("an aggregate in ON", whole_span(on))
    return spark_sql(resolve(on, joined.scope, names))


def _using(identifier: exp.Expr, member: Member, joined: Joined, names: Names) -> str:
    name = identifier.name
    right = member.relation.column(name)
    left = Scope(joined.scope.members[:-1]).find(name)
    if len(left) != 1 or not right:
        names.faults.add(
            f"USING needs a column {name} on both sides", span_of(identifier), joined.scope.hint(name)
        )
        return "TRUE"
    one = spark_sql(column_node(left[0].column, left[0].member.alias))
    return f"{one} = {spark_sql(column_node(right, member.alias))}"


def _two_streams(scope: Scope) -> bool:
    return sum(member.relation.origin == "stream" for member in scope.members) > 1


# ---- two streams ----------------------------------------------------------------------------
def _refuse_stream_join(
    join: exp.Join, member: Member, joined: Joined, names: Names, stream_options: tuple[Options, bool]
) -> None:
    faults, where = names.faults, span_of(join.this)
    options, windowed = stream_options
    before = len(faults.errors)
    if join.args.get("on") is not None:
        resolve(join.args["on"], joined.scope, names)
    if len(faults.errors) > before:
        return
    sides = [m for m in joined.scope.members if m.relation.origin == "stream"]
    bare = [m.alias for m in sides if not m.relation.watermarked]
    asof = join.method.lower() == "asof"
    if bare and (join.side or asof or windowed):
        what = "an as-of join" if asof else "an outer join" if join.side else "a window"
        hint = "add WATERMARK FOR ts AS ts to its CREATE STREAM"
        faults.add(f"{what} needs a WATERMARK on both sides, and {', '.join(bare)} has none", where, hint)
        return
    if asof or windowed:
        faults.not_yet("ASOF JOIN" if asof else "a WINDOW on a join of two streams", where)
        return
    given = {key for key, *_ in options}
    missing = missing_bound(join.args.get("on"), joined.scope, member)
    if missing in ("both", "lower") and "join.lower_bound" in given:
        missing = "upper" if missing == "both" else ""
    if missing in ("both", "upper") and "join.upper_bound" in given:
        missing = "lower" if missing == "both" else ""
    if missing:
        faults.add(_bound_message(missing, member, joined), where, _bound_hint(missing, member, joined))
        return
    faults.not_yet("joins of two streams", where)


def _bound_message(missing: str, member: Member, joined: Joined) -> str:
    left = joined.scope.members[-2].alias
    if missing == "both":
        return f"the join of the streams {left} and {member.alias} has no time bound, so that its state would grow for ever"
    return f"the time bound of the join of {left} and {member.alias} lacks its {missing} bound"


def _bound_hint(missing: str, member: Member, joined: Joined) -> str:
    left, right = joined.scope.members[-2], member
    one, two = _time_name(left), _time_name(right)
    if missing == "lower":
        return f"add AND {two} >= {one} - INTERVAL '1' HOUR"
    if missing == "upper":
        return f"add AND {two} <= {one} + INTERVAL '1' HOUR"
    return f"add AND {two} BETWEEN {one} AND {one} + INTERVAL '1' HOUR"


def _time_name(member: Member) -> str:
    times = [column for column in member.relation.columns if member.relation.is_time(column)]
    return f"{member.alias}.{times[0] if times else '_EVENT_TIME'}"
