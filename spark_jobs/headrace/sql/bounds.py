"""The time bound of a join of two streams: how far the right side's time may lie from the left side's.

`bound_of` reads the conditions of ON that compare the times of two streams, each with or without an interval.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headrace.sql.clauses import interval_of
from headrace.sql.expressions import conjuncts, span_of
from headrace.sql.scope import Faults, Member, Scope

_TICK_US = 1  # x < y is x <= y less this


@dataclass(frozen=True, slots=True)
class Bound:
    """The least and the largest distance of the right side's time from the left side's (µs); None: no limit."""

    lower: int | None = None
    upper: int | None = None

    @property
    def missing(self) -> str:
        """Which limit is missing: '', 'lower', 'upper' or 'both'."""
        if self.lower is None:
            return "both" if self.upper is None else "lower"
        return "upper" if self.upper is None else ""

    def within(self, other: Bound) -> Bound:
        """Both bounds at once."""
        lowers = [one for one in (self.lower, other.lower) if one is not None]
        uppers = [one for one in (self.upper, other.upper) if one is not None]
        return Bound(max(lowers, default=None), min(uppers, default=None))


@dataclass(frozen=True, slots=True)
class _Time:
    """One side's time, moved by so many microseconds."""

    right: bool
    moved: int


@dataclass(frozen=True, slots=True)
class Pair:
    """The two streams whose times are compared, and where their names are looked up."""

    left: Member
    right: Member
    scope: Scope
    faults: Faults


def bound_of(on: exp.Expr | None, pair: Pair) -> Bound:
    """The bound that ON puts on the right one's time. Intervals that have no fixed length are refused."""
    found = Bound()
    for part in conjuncts(on) if on is not None else []:
        for one, other, kind in _comparisons(part):
            found = found.within(_bound(_time(one, pair), _time(other, pair), kind))
    return found


def _comparisons(part: exp.Expr) -> list[tuple[exp.Expr, exp.Expr, type[exp.Expr]]]:
    match part:
        case exp.Between():
            return [(part.this, part.args["low"], exp.GTE), (part.this, part.args["high"], exp.LTE)]
        case exp.EQ():
            return [(part.left, part.right, exp.GTE), (part.left, part.right, exp.LTE)]
        case exp.LT() | exp.LTE() | exp.GT() | exp.GTE():
            return [(part.left, part.right, type(part))]
        case _:
            return []


def _bound(one: _Time | None, other: _Time | None, kind: type[exp.Expr]) -> Bound:
    if one is None or other is None or one.right == other.right:
        return Bound()
    above = kind in (exp.GT, exp.GTE)  # whether `one` is the later time
    strict = _TICK_US if kind in (exp.GT, exp.LT) else 0
    right, left = (one, other) if one.right else (other, one)
    distance = left.moved - right.moved
    if above == one.right:  # right >= left + distance
        return Bound(lower=distance + strict)
    return Bound(upper=distance - strict)


def _time(node: exp.Expr, pair: Pair) -> _Time | None:
    """The stream whose time the expression is; None where it is anything else."""
    match node:
        case exp.Paren():
            return _time(node.this, pair)
        case exp.Add() | exp.Sub():
            return _moved(node, pair)
        case exp.Column():
            return _column(node, pair)
        case _:
            return None


def _moved(node: exp.Add | exp.Sub, pair: Pair) -> _Time | None:
    base, span = node.left, node.right
    if isinstance(node, exp.Add) and isinstance(base, exp.Interval):
        base, span = span, base
    time = _time(base, pair)
    if time is None or not isinstance(span.unnest(), exp.Interval | exp.Neg):
        return None
    interval = interval_of(span, pair.faults)
    if interval.months:
        hint = "write it in days: a month has no fixed length"
        pair.faults.add("the time bound of a join has months in it", span_of(span), hint)
    sign = -1 if isinstance(node, exp.Sub) else 1
    return _Time(time.right, time.moved + sign * interval.micros)


def _column(node: exp.Column, pair: Pair) -> _Time | None:
    found = pair.scope.find(node.name, node.table)
    if len(found) != 1 or found[0].outer or found[0].member not in (pair.left, pair.right):
        return None
    relation, column = found[0].member.relation, found[0].column
    moved = 0
    if relation.watermarked and not relation.is_time(column) and column != "_event_time":
        sizes = [one.fixed_us for one in relation.produced if column.casefold() in one.starts and one.ends]
        if not sizes or sizes[0] is None:
            return None
        moved = -sizes[0]  # the row's time is its window's end
    return _Time(found[0].member is pair.right, moved)
