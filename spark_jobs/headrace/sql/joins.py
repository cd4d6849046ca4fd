"""The joins of one FROM, from left to right: a stream with reference tables, two streams within a time bound or as of.

Rules: the stream side is the left input of JoinTable, whichever side it was written on; a join of two
streams is refused for its true reason first (bound, watermark, key) and as not supported yet only then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

from sqlglot import exp

from headrace.event_time.interval import Interval
from headrace.sql.asof import AsOf, system_column, time_name
from headrace.sql.bounds import Bound, Pair, bound_of
from headrace.sql.catalog import QUERY_OPTIONS, duration_ms, signed_ms
from headrace.sql.clauses import window_of
from headrace.sql.dialect import WindowClause, spark_sql
from headrace.sql.expressions import (
    Names,
    conjuncts,
    has_aggregate,
    resolve,
    span_of,
    text_of,
    whole_span,
)
from headrace.sql.joinkeys import keys_of, side_of, table_keys, using_pair
from headrace.sql.nodes import Buffer, JoinStreams, JoinTable, Node, joins_streams, walk
from headrace.sql.scope import Member, Relation, Scope
from headrace.sql.source import Span, did_you_mean

Options = tuple[tuple[str, str, Span, Span], ...]


@dataclass(frozen=True, slots=True)
class Joined:
    """FROM as a whole: its plan, its scope, and whether the system columns of one stream are in it."""

    node: Node
    scope: Scope
    carries: bool
    stream_alias: str = ""
    untimed: frozenset[str] = (
        frozenset()
    )  # relations whose times are not the rows': as-of joined, or missing now and then
    in_columns: bool = False  # above an as-of join a relation is a column

    @classmethod
    def of(cls, first: Member) -> Joined:
        """The first relation of FROM alone."""
        relation = first.relation
        alias = first.alias if relation.origin == "stream" else ""
        return cls(relation.node, Scope((first,)), relation.carries, alias)

    @property
    def of_tables(self) -> bool:
        """Whether it reads reference tables alone."""
        return all(m.relation.origin == "table" and not m.relation.open for m in self.scope.members)

    def is_time(self, node: exp.Expr) -> bool:
        """Whether an expression is just the rows' event time."""
        if not isinstance(node, exp.Column):
            return False
        found = self.scope.find(node.name, node.table)
        if len(found) != 1 or found[0].outer or found[0].member.alias in self.untimed:
            return False
        return found[0].column == "_event_time" or found[0].member.relation.is_time(found[0].column)


@dataclass(frozen=True, slots=True)
class OnJoin:
    """A WINDOW clause that may belong to a join of two streams, and the pipeline's time zone."""

    clause: WindowClause
    zone: str


def join_all(
    joined: Joined,
    others: list[tuple[exp.Join, Member]],
    names: Names,
    options: Options,
    window: OnJoin | None,
) -> Joined | None:
    """Join to the first relation of FROM the others, in their order; None where streams can't meet."""
    valid = _valid(options, names)
    for join, member in others:
        scope = _scope(join, member, joined, names)
        if any(m.relation.open for m in scope.members):
            joined = replace(joined, scope=scope)
            continue
        whole = replace(joined, scope=scope)
        if not _two_streams(scope) or (joins_streams(joined.node) and member.relation.origin == "table"):
            joined = _join(join, member, whole, names)
            continue
        meeting = _Meeting(join, member, whole, names, valid, window)
        if len(valid) < len(options) or meeting.is_wrong():
            return None
        joined = meeting.joined()
    if options and not joins_streams(joined.node) and not any(m.relation.open for m in joined.scope.members):
        names.faults.add(f"{options[0][0]} without a join of two streams", options[0][2])
    return joined


def _valid(options: Options, names: Names) -> dict[str, str]:
    """The options that are known and have a value that fits; the others are refused."""
    found = {}
    for key, value, key_span, value_span in options:
        check = QUERY_OPTIONS.get(key)
        if check is None:
            names.faults.add(f"unknown option {key!r}", key_span, did_you_mean(key, QUERY_OPTIONS))
        elif wrong := check(value):
            names.faults.add(f"{key}: {wrong}", value_span)
        else:
            found[key] = value
    return found


def _scope(join: exp.Join, member: Member, joined: Joined, names: Names) -> Scope:
    if joined.scope.member(member.alias) and member.alias:
        hint = "give one of them another name with AS"
        names.faults.add(f"two relations are named {member.alias}", span_of(join.this), hint)
    using = [identifier.name for identifier in join.args.get("using") or []]
    return joined.scope.with_member(member, using)


def _join(join: exp.Join, member: Member, joined: Joined, names: Names) -> Joined:
    side = _side(join, names)
    if join.method.lower() == "asof":
        hint = "its rows have no event time: declare it with CREATE STREAM, or write JOIN"
        names.faults.add("an as-of join with a reference table", span_of(join.this), hint)
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
    if joined.in_columns:
        aliases = {one.alias.casefold() for one in joined.scope.members[:-1]}
        for column in (one for one in member.relation.columns if one.casefold() in aliases):
            hint = f"give the relation {column} another name with AS"
            names.faults.add(
                f"{column} is a relation and a column of {member.alias}", span_of(join.this), hint
            )
    before = len(names.faults.errors)
    condition = _condition(join, member, joined, names)
    table = joined.scope.members[0] if swapped else member
    alone = not swapped or len(joined.scope.members) == 2  # else the table side is several
    sound = alone and len(names.faults.errors) == before
    keys = table_keys(join, table, joined.scope, names) if sound else ()
    right, left = (joined.node, member.relation.node) if swapped else (member.relation.node, joined.node)
    node = JoinTable(left, right, kind, condition, names.faults.source.place(span_of(join.this)), keys)
    carries = member.relation.carries if swapped else joined.carries
    alias = member.alias if swapped else joined.stream_alias
    return replace(joined, node=node, carries=carries, stream_alias=alias)


def _side(join: exp.Join, names: Names) -> str:
    side, kind, method = join.side.lower(), join.kind.lower(), join.method.lower()
    if method and method != "asof":
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
    pair = using_pair(identifier, member, joined.scope, names)
    return "TRUE" if pair is None else " = ".join(pair)


def _two_streams(scope: Scope) -> bool:
    return sum(member.relation.origin == "stream" for member in scope.members) > 1


# ---- two streams ----------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Meeting:
    """A stream that joins what stands left of it, another stream."""

    join: exp.Join
    member: Member
    whole: Joined  # the left side, and the scope of both
    names: Names
    options: Mapping[str, str]
    window: OnJoin | None

    @property
    def on(self) -> exp.Expr | None:
        on: exp.Expr | None = self.join.args.get("on")
        return on

    def is_wrong(self) -> bool:
        """Refuse what can't be run: names first, then watermarks, what is for later, the bound, the key."""
        faults, where, windowed = self.names.faults, span_of(self.join.this), self.window is not None
        before = len(faults.errors)
        _side(self.join, self.names)
        for condition in (self.on, self.join.args.get("match_condition")):
            if condition is not None:
                resolve(condition, self.whole.scope, self.names)
        if len(faults.errors) > before:
            return True
        sides = [m for m in self.whole.scope.members if m.relation.origin == "stream"]
        bare = [m.alias for m in sides if not m.relation.watermarked]
        bounds = [key for key in ("join.lower_bound", "join.upper_bound") if key in self.options]
        kinds = (("an as-of join", self._asof), ("an outer join", self.join.side), ("a window", windowed))
        needing = [what for what, it_is in kinds if it_is] + bounds
        if bare and needing:
            hint = "add WATERMARK FOR ts AS ts to its CREATE STREAM"
            faults.add(
                f"{needing[0]} needs a WATERMARK on both sides, and {', '.join(bare)} has none", where, hint
            )
        elif not self._is_unfit(sides, where):
            self._check_buffer(where)
            if self._asof:
                self._as_of().check()
            elif self.window is None:
                self._check_bound(where)
                self._check_key(where)
            else:
                self._check_window(self.window)
                self._check_key(where)
        return len(faults.errors) > before

    @property
    def _asof(self) -> bool:
        return self.join.method.lower() == "asof"

    def _as_of(self) -> AsOf:
        return AsOf(self.join, self._left, self.member, self.whole.scope, self.names, self.options)

    def joined(self) -> Joined:
        """The join."""
        if self._asof:
            as_of = self._as_of().node(self.whole.node)
            untimed = self.whole.untimed | {self.member.alias}
            return replace(self.whole, node=as_of, untimed=untimed, in_columns=True)
        condition, own = self._conditions()
        kind = cast(Literal["inner", "left", "right", "full"], self.join.side.lower() or "inner")
        place = self.names.faults.source.place(span_of(self.join.this))
        sides = (self.whole.node, self.member.relation.node)
        if self.window is not None:
            window = window_of(self.window.clause, Scope(()), self.names, self.window.zone)
            node = JoinStreams(
                *sides,
                kind,
                condition,
                self._keys(),
                self._times(),
                own=own,
                window=window,
                buffer=self._buffer,
                place=place,
            )
            borders = Member("", Relation(node, ("window_start", "window_end"), origin="table"))
            return Joined(node, self.whole.scope.with_member(borders), carries=False, untimed=self._untimed)
        bound, times = self._bound(), self._times()
        for key, sign in (("join.lower_bound", ">="), ("join.upper_bound", "<=")):
            if key in self.options:
                moved = Interval(0, signed_ms(self.options[key]) * 1000).sql
                condition = f"({condition}) AND {times[1]} {sign} {times[0]} + {moved}"
        span = Interval(0, bound.lower or 0), Interval(0, bound.upper or 0)
        node = JoinStreams(
            *sides, kind, condition, self._keys(), times, *span, own=own, buffer=self._buffer, place=place
        )
        return Joined(node, self.whole.scope, carries=False, untimed=self._untimed)

    @property
    def _buffer(self) -> Buffer | None:
        rows = self.options.get("join.buffer_rows")
        policy = cast('Literal["warn", "fail", "block"]', self.options.get("join.buffer_policy", "warn"))
        return None if rows is None else Buffer(int(rows), policy)

    def _check_buffer(self, where: Span) -> None:
        """Refuse a limit that nothing could keep."""
        faults, policy = self.names.faults, self.options.get("join.buffer_policy")
        given = [key for key in ("join.buffer_rows", "join.buffer_policy") if key in self.options]
        if given and self._asof:
            faults.not_yet(f"{given[0]} on an as-of join", where, "'join.tolerance' lets old rows go")
        elif policy == "drop-oldest":
            hint = "'warn', 'fail' or 'block'; a shorter bound holds fewer rows"
            message = "'join.buffer_policy' = 'drop-oldest': Spark holds the rows of this join, and lets none be taken out"
            faults.add(message, where, hint)
        elif given == ["join.buffer_policy"]:
            faults.add("join.buffer_policy without join.buffer_rows", where, "'join.buffer_rows' = '1000000'")

    def _conditions(self) -> tuple[str, tuple[str, str]]:
        """The join's condition without what it asks of one side alone, and that of the left and of the right side."""
        whole = _condition(self.join, self.member, self.whole, self.names)
        parts = [] if self.join.args.get("using") or self.on is None else conjuncts(self.on)
        found: dict[str, list[str]] = {"": [], "left": [], "right": []}
        for part in parts:
            nested = part.find(exp.Query) is not None
            side = "" if nested else side_of(part, self.member, self.whole.scope)
            found[side].append(text_of(part, self.whole.scope, self.names))
        if not found["left"] and not found["right"]:
            return whole, ("", "")
        both, left, right = (" AND ".join(f"({one})" for one in texts) for texts in found.values())
        return both, (left, right)

    @property
    def _untimed(self) -> frozenset[str]:
        """The relations whose rows may be missing behind the join."""
        left, right = {m.alias for m in self.whole.scope.members[:-1]}, {self.member.alias}
        missing = {"": set(), "left": right, "right": left}.get(self.join.side.lower(), left | right)
        return self.whole.untimed | missing

    @property
    def _left(self) -> Member:
        """The stream of the left side whose time the bound is about; the nearest one where none is bounded."""
        streams = [m for m in self.whole.scope.members[:-1] if m.relation.origin == "stream"]
        bounded = [m for m in streams if not self._bound_with(m).missing]
        return bounded[0] if bounded else streams[-1]

    def _times(self) -> tuple[str, str]:
        left, right = (
            system_column("_event_time", m) if m.relation.watermarked else ""
            for m in (self._left, self.member)
        )
        return left, right

    def _bound(self) -> Bound:
        return self._bound_with(self._left)

    def _bound_with(self, left: Member) -> Bound:
        pair = Pair(left, self.member, self.whole.scope, self.names.faults)
        found = bound_of(self.on, pair)
        given = {
            key: signed_ms(self.options[f"join.{key}_bound"]) * 1000
            for key in ("lower", "upper")
            if f"join.{key}_bound" in self.options
        }
        return found.within(Bound(**given))

    def _bound_message(self, missing: str) -> str:
        one, two = self._left.alias, self.member.alias
        if missing == "both":
            return f"the join of the streams {one} and {two} has no time bound, so that its state would grow for ever"
        return f"the time bound of the join of {one} and {two} lacks its {missing} bound"

    def _bound_hint(self, missing: str) -> str:
        one, two = time_name(self._left), time_name(self.member)
        if missing == "lower":
            return f"add AND {two} >= {one} - INTERVAL '1' HOUR"
        if missing == "upper":
            return f"add AND {two} <= {one} + INTERVAL '1' HOUR"
        return f"add AND {two} BETWEEN {one} AND {one} + INTERVAL '1' HOUR"

    def _is_unfit(self, sides: list[Member], where: Span) -> bool:
        """Refuse what is no stream of rows, and what one query can't join."""
        faults, before = self.names.faults, len(self.names.faults.errors)
        several = [node.kind for node in walk(self.whole.node) if isinstance(node, JoinStreams)]
        if any(m.relation.grouped or any(p.changelog for p in m.relation.produced) for m in sides):
            hint = "give the inner query a WINDOW, so that its rows are final"
            faults.add("a join with groups that still change", where, hint)
        elif any(m.relation.windowed for m in sides):
            faults.not_yet("a join with a window table", where, "write GROUP BY … WINDOW …")
        elif joins_streams(self.member.relation.node):
            faults.not_yet("a join inside a join", where, "write the joins one after the other")
        elif joins_streams(self.whole.node) and (self._asof or not several):
            hint = "CREATE STREAM j AS SELECT … of the first join, then join j"
            faults.not_yet("as-of joins of three and more streams", where, hint)
        elif self._asof and self.window is not None:
            hint = "CREATE STREAM j AS SELECT … of the join, then SELECT … FROM j GROUP BY … WINDOW …"
            faults.not_yet("a WINDOW on an as-of join", self.window.clause.span, hint)
        elif several and self.window is not None:
            faults.not_yet("a WINDOW on a join of three and more streams", where)
        elif several and (self.join.side or set(several) != {"inner"}):
            hint = "CREATE STREAM j AS SELECT … of the first join, then join j"
            faults.not_yet("outer joins of three and more streams", where, hint)
        elif several and self.options:
            faults.not_yet("join options for three and more streams", where, "write the bounds in ON")
        elif any(m.relation.watermarked and not m.relation.carries for m in sides):
            faults.not_yet("a join with a result stream that has no event time", where)
        return len(faults.errors) > before

    def _check_bound(self, where: Span) -> None:
        bound, faults = self._bound(), self.names.faults
        lower, upper = bound.lower or 0, bound.upper or 0
        retention = self.options.get("join.retention")
        if missing := bound.missing:
            faults.add(self._bound_message(missing), where, self._bound_hint(missing))
        elif lower > upper:
            faults.add("the time bound of the join is empty: its lower bound is above its upper bound", where)
        elif "join.tolerance" in self.options:
            faults.add(
                "join.tolerance is of as-of joins", where, "the time bound says how far a match may be"
            )
        elif self.options.get("join.type") == "asof":
            hint = "write … ASOF JOIN … MATCH_CONDITION (…) ON …"
            faults.add("'join.type' = 'asof' of a join within a time bound", where, hint)
        elif retention is not None and duration_ms(retention) * 1000 < max(upper, -lower):
            hint = "leave it out: state is held just as long as the bound needs"
            faults.add("join.retention is shorter than the bound, and matches would be lost", where, hint)

    def _check_window(self, window: OnJoin) -> None:
        faults, span = self.names.faults, window.clause.span
        if window.clause.kind == "session":
            faults.not_yet("a SESSION window on a join of two streams", span)
        if window.clause.time is not None:
            hint = "leave the column out"
            faults.add("a WINDOW on a join takes the event time of each side", span, hint)
        bounds = [key for key in self.options if not key.startswith("join.buffer_")]
        if bounds:
            faults.add(f"{bounds[0]} beside a WINDOW, which is the bound", span)

    def _check_key(self, where: Span) -> None:
        one, two, faults = self._left.alias, self.member.alias, self.names.faults
        if not self._keys():
            hint = f"add AND {one}.k = {two}.k; without a key every row would have to meet every other one"
            faults.add(f"the join of the streams {one} and {two} has no key", where, hint)

    def _keys(self) -> tuple[tuple[str, str], ...]:
        return keys_of(self.join, self.member, self.whole.scope, self.names).pairs
