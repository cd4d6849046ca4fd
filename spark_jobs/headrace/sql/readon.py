"""Reading on from a result stream: what a later statement sees of it, and which of its times may open windows."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from headrace.event_time.interval import Interval
from headrace.sql.context import Planned
from headrace.sql.joins import Joined
from headrace.sql.nodes import (
    OP,
    Column,
    JoinStreams,
    Result,
    Scan,
    Stream,
    Watermark,
    Window,
    Windowed,
    waited,
    walk,
)
from headrace.sql.scope import Faults, Member, Produced, Relation
from headrace.sql.select_list import Item
from headrace.sql.source import Span


def read_on(result: Result, planned: Planned) -> tuple[Stream, Relation]:
    """The stream that a later statement reads where it names a result stream."""
    shown = planned.relation.columns
    columns = (OP, *shown) if result.changelog else shown
    produced = _produced(result, planned)
    event_time = _event_time(result, planned, produced)
    times = frozenset({event_time.casefold()} if event_time else ())
    stream = Stream(
        name=result.name,
        columns=tuple(Column(name, "") for name in columns),
        watermark=Watermark(event_time) if event_time else None,
        connector="delta",
        options=(("watermark.idle-timeout", "0"),),
        place=result.place,
        producer=result.name,
        waited=longest(one.waited for one in produced),
    )
    relation = Relation(
        node=Scan(result.name),
        columns=columns,
        streams=(result.name,),
        direct=True,
        carries=bool(event_time),
        watermarked=planned.relation.watermarked,
        times=times,
        produced=produced,
    )
    return stream, relation


def _event_time(result: Result, planned: Planned, produced: tuple[Produced, ...]) -> str:
    """The column with the time by which the rows are ordered behind the watermark; '' where none has it.

    A window's row comes when the watermark reaches its end, which is its time then.
    """
    shown, times = planned.relation.columns, planned.relation.times
    if result.changelog:
        return ""
    if any(one.window is not None for one in produced):
        times = frozenset(name for one in produced for name in one.ends)
    return next((name for name in shown if name.casefold() in times), "")


def _produced(result: Result, planned: Planned) -> tuple[Produced, ...]:
    window = next((node.window for node in walk(result.plan) if isinstance(node, Windowed)), None)
    join = next((node for node in walk(result.plan) if isinstance(node, JoinStreams)), None)
    if join is not None and join.window is not None:
        window = join.window
    elif join is not None:
        return (Produced(waited=Interval(0, waited(result.plan))),)
    if window is None and not result.changelog:
        return planned.relation.produced
    starts, ends = (
        frozenset(name.casefold() for name in result.showing(border))
        for border in ("window_start", "window_end")
    )
    return (Produced(window, starts, ends, result.changelog),)


def passed_on(joined: Joined, items: list[Item]) -> tuple[Produced, ...]:
    """What is known of a projection's rows: the windows' borders, under their new names."""
    found: list[Produced] = []
    for member in joined.scope.members:
        columns = [(_column_of(item.node, member, joined), item.name) for item in items]
        old, new = (tuple(names) for names in zip(*columns, strict=True)) if columns else ((), ())
        found += [produced.under(old, new) for produced in member.relation.produced]
    return tuple(found)


def _column_of(node: exp.Expr, member: Member, joined: Joined) -> str:
    """The member's column that an expression is; '' where it is none."""
    if not isinstance(node, exp.Column):
        return ""
    found = joined.scope.find(node.name, node.table)
    return found[0].column if len(found) == 1 and found[0].member is member else ""


def refuse_changes(joined: Joined, what: str, span: Span, faults: Faults) -> None:
    """Old and new values of a key can't be counted as rows."""
    for member in joined.scope.members:
        relation = member.relation
        if relation.grouped:
            hint = "give the inner query a WINDOW, so that its rows are final"
            faults.add(f"{what} over groups that still change would count old values too", span, hint)
        elif any(produced.changelog for produced in relation.produced):
            hint = f"filter and project it, or read {member.alias} as a result table"
            faults.add(f"{what} over the changelog {member.alias} would count old values too", span, hint)


def held_back(window: Window, time: exp.Expr | None, joined: Joined, span: Span, faults: Faults) -> Interval:
    """How far a row's time may lie behind the producer's watermark when it comes (SEMANTICS 3.6).

    A row of a join comes when its match does, or when none can come any more: it has waited. A window's row
    comes when the watermark reached its end. Its start lies before that; where the windows of
    the later statement hold those of the producer whole, it is in time all the same.
    """
    if time is None:
        return longest(one.waited for m in joined.scope.members for one in m.relation.produced)
    if not isinstance(time, exp.Column):
        return Interval()
    found = joined.scope.find(time.name, time.table)
    produced = found[0].member.relation.produced if len(found) == 1 else ()
    column = found[0].column.casefold() if found else ""
    inner = [one.window for one in produced if one.window is not None and column not in one.ends]
    if any(one.kind == "session" for one in inner):
        hint = "name the column that holds window_end"
        faults.add("a session may have begun long before the watermark", span, hint)
        return Interval()
    spans = [one.size for one in inner if not _holds(window, one)]
    return longest([*spans, *(one.waited for one in produced)])


def _holds(outer: Window, inner: Window) -> bool:
    """Whether each inner window lies in whole outer ones; for fixed spans of time only."""
    plain = inner.kind == "tumbling" and not (inner.size.months or outer.size.months or outer.slide.months)
    steps = (
        outer.size.micros,
        outer.slide.micros or outer.size.micros,
        outer.offset.micros - inner.offset.micros,
    )
    return plain and outer.zone == inner.zone and all(step % inner.size.micros == 0 for step in steps)


def longest(spans: Iterable[Interval]) -> Interval:
    """The longest of some intervals; none at all is one of nothing."""
    return max(spans, key=lambda one: (one.months, one.micros), default=Interval())
