"""As-of joins: `l ASOF [LEFT] JOIN r MATCH_CONDITION (l.ts >= r.ts) ON l.k = r.k`, what is asked of one and its node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import cast

from sqlglot import exp

from headrace.event_time.interval import Interval
from headrace.sql.bounds import Bound, Pair, bound_of
from headrace.sql.catalog import duration_ms
from headrace.sql.dialect import spark_sql
from headrace.sql.expressions import Names, column_node, span_of, whole_span
from headrace.sql.joinkeys import keys_of
from headrace.sql.nodes import SYSTEM_COLUMNS, JoinAsOf, Named, Node, Shown
from headrace.sql.scope import Member, Scope

_NEWEST = Bound(upper=0)  # l.ts >= r.ts
_BEFORE = Bound(upper=-1)  # l.ts > r.ts
_BOUNDS = ("join.lower_bound", "join.upper_bound", "join.retention")


@dataclass(frozen=True, slots=True)
class AsOf:
    """An as-of join of the streams `left` and `right`, which is the last member of the scope."""

    join: exp.Join
    left: Member
    right: Member
    scope: Scope
    names: Names
    options: Mapping[str, str]

    def check(self) -> None:
        """Refuse what is no as-of join."""
        faults, where = self.names.faults, span_of(self.join.this)
        if self.join.side.lower() not in ("", "left"):
            hint = "turn the sides round: … ASOF LEFT JOIN …"
            faults.add("an as-of join keeps the rows of its left side only", where, hint)
        if not all(member.alias for member in self.scope.members):
            faults.add("a side of an as-of join has no name", where, "write (SELECT …) AS x")
        if bound := next((option for option in _BOUNDS if option in self.options), ""):
            hint = "'join.tolerance' = '10m' says how old a match may be"
            faults.add(f"{bound} on an as-of join", where, hint)
        if self.options.get("join.type", "asof") != "asof":
            faults.add(f"an as-of join of 'join.type' = '{self.options['join.type']}'", where, "leave it out")
        self._check_match()
        self._check_keys()

    def node(self, below: Node) -> JoinAsOf:
        """The join with the rows of its left side, `below`."""
        within = self.options.get("join.tolerance")
        return JoinAsOf(
            below,
            self.right.relation.node,
            "left" if self.join.side else "inner",
            keys_of(self.join, self.right, self.scope, self.names).pairs,
            (system_column("_event_time", self.left), system_column("_event_time", self.right)),
            (system_column("_partition", self.right), system_column("_offset", self.right)),
            (tuple(map(_shown, self.scope.members[:-1])), (_shown(self.right),)),
            strict=self._bound() == _BEFORE,
            within=Interval(0, duration_ms(within) * 1000) if within is not None else None,
            place=self.names.faults.source.place(span_of(self.join.this)),
        )

    def _check_match(self) -> None:
        faults, condition = self.names.faults, self.join.args.get("match_condition")
        hint = f"MATCH_CONDITION ({time_name(self.left)} >= {time_name(self.right)})"
        if condition is None:
            faults.add("an as-of join needs a MATCH_CONDITION", span_of(self.join.this), hint)
        elif self._bound() not in (_NEWEST, _BEFORE):
            message = (
                "a MATCH_CONDITION says that the right side's event time is not later than the left side's"
            )
            faults.add(message, whole_span(condition), f"write {hint}")

    def _check_keys(self) -> None:
        faults, where = self.names.faults, span_of(self.join.this)
        keys = keys_of(self.join, self.right, self.scope, self.names)
        for other in keys.others:
            hint = f"filter a side before: JOIN (SELECT … FROM … WHERE …) AS {self.right.alias}"
            faults.add("ON of an as-of join takes equalities of both sides alone", whole_span(other), hint)
        if not keys.pairs and not keys.others:
            one, two = self.left.alias, self.right.alias
            faults.add(f"the as-of join of {one} and {two} has no key", where, f"add ON {one}.k = {two}.k")

    def _bound(self) -> Bound:
        pair = Pair(self.left, self.right, self.scope, self.names.faults)
        return bound_of(cast("exp.Expr | None", self.join.args.get("match_condition")), pair)


def time_name(member: Member) -> str:
    """A relation's event time, as a query would name it."""
    times = [column for column in member.relation.columns if member.relation.is_time(column)]
    return f"{member.alias}.{times[0] if times else '_EVENT_TIME'}"


def _shown(member: Member) -> Shown:
    return Shown(member.alias, tuple(_columns(member)))


def _columns(member: Member) -> Iterable[Named]:
    own = member.relation.columns
    folded = {name.casefold() for name in own}
    yield from (Named(name, _text(name, member)) for name in own)
    system = SYSTEM_COLUMNS if member.relation.carries else ()
    yield from (Named(name, system_column(name, member)) for name in system if name not in folded)


def _text(column: str, member: Member) -> str:
    return spark_sql(column_node(column, member.alias))


def system_column(column: str, member: Member) -> str:
    """A system column of a relation as Spark SQL text."""
    return spark_sql(column_node(column, member.relation.holder or member.alias))
