"""Reading on from a result stream: what a later statement sees of it, and which of its times may open windows."""

from __future__ import annotations

from sqlglot import exp

from headrace.event_time.interval import Interval
from headrace.sql.context import Planned
from headrace.sql.joins import Joined
from headrace.sql.nodes import OP, Column, Result, Scan, Stream, Watermark, Window, Windowed, walk
from headrace.sql.scope import Faults, Produced, Relation
from headrace.sql.source import Span


def read_on(result: Result, planned: Planned) -> tuple[Stream, Relation]:
    """The stream that a later statement reads where it names a result stream."""
    shown = planned.relation.columns
    columns = (OP, *shown) if result.changelog else shown
    times = frozenset() if result.changelog else planned.relation.times
    event_time = next((name for name in shown if name.casefold() in times), "")
    stream = Stream(
        name=result.name,
        columns=tuple(Column(name, "") for name in columns),
        watermark=Watermark(event_time) if event_time else None,
        connector="delta",
        options=(("watermark.idle-timeout", "0"),),
        place=result.place,
        producer=result.name,
    )
    relation = Relation(
        node=Scan(result.name),
        columns=columns,
        streams=(result.name,),
        direct=True,
        carries=bool(event_time),
        watermarked=planned.relation.watermarked,
        times=times,
        produced=_produced(result),
    )
    return stream, relation


def _produced(result: Result) -> Produced:
    window = next((node.window for node in walk(result.plan) if isinstance(node, Windowed)), None)
    starts, ends = (
        frozenset(name.casefold() for name in result.showing(border))
        for border in ("window_start", "window_end")
    )
    return Produced(window, starts, ends, result.changelog)


def refuse_changelog(joined: Joined, what: str, span: Span, faults: Faults) -> None:
    """Old and new values of a key can't be counted as rows."""
    for member in joined.scope.members:
        produced = member.relation.produced
        if produced is not None and produced.changelog:
            hint = f"filter and project it, or read {member.alias} as a result table"
            faults.add(f"{what} over the changelog {member.alias} would count old values too", span, hint)


def held_back(window: Window, time: exp.Expr | None, joined: Joined, span: Span, faults: Faults) -> Interval:
    """How far a row's time may lie behind the producer's watermark when it comes (SEMANTICS 3.6).

    A window's row comes when the watermark reached its end. Its start lies before that; where the windows of
    the later statement hold those of the producer whole, it is in time all the same.
    """
    if not isinstance(time, exp.Column):
        return Interval()
    found = joined.scope.find(time.name, time.table)
    produced = found[0].member.relation.produced if len(found) == 1 else None
    if produced is None or produced.window is None or found[0].column.casefold() in produced.ends:
        return Interval()
    inner = produced.window
    if inner.kind == "session":
        hint = "name the column that holds window_end"
        faults.add("a session may have begun long before the watermark", span, hint)
        return Interval()
    return Interval() if _holds(window, inner) else inner.size


def _holds(outer: Window, inner: Window) -> bool:
    """Whether each inner window lies in whole outer ones; for fixed spans of time only."""
    plain = inner.kind == "tumbling" and not (inner.size.months or outer.size.months or outer.slide.months)
    steps = (
        outer.size.micros,
        outer.slide.micros or outer.size.micros,
        outer.offset.micros - inner.offset.micros,
    )
    return plain and outer.zone == inner.zone and all(step % inner.size.micros == 0 for step in steps)
