"""The clauses of our own: intervals, windows and watermarks as written -> Interval, Window, Watermark."""

from __future__ import annotations

import re

from sqlglot import exp

from headrace.event_time.interval import DAY_US, Interval
from headrace.sql.catalog import zone_error, zones
from headrace.sql.dialect import WindowClause
from headrace.sql.expressions import Names, resolve, span_of, text_of
from headrace.sql.nodes import Watermark, Window
from headrace.sql.parse import CreateSource, WatermarkDef
from headrace.sql.scope import Faults, Relation, Scope
from headrace.sql.source import Span, did_you_mean

_UNITS_US = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": 1_000_000,
    "MINUTE": 60_000_000,
    "HOUR": 3_600_000_000,
    "DAY": DAY_US,
    "WEEK": 7 * DAY_US,
}
_UNITS_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_NUMBER = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*")
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)")


def interval_of(node: exp.Expr, faults: Faults) -> Interval:
    """The span of an INTERVAL literal; refused where it is no literal or mixes months with time."""
    if isinstance(node, exp.Paren):
        return interval_of(node.this, faults)
    if isinstance(node, exp.Neg):
        inner = interval_of(node.this, faults)
        return Interval(-inner.months, -inner.micros)
    if not isinstance(node, exp.Interval):
        faults.add("expected an INTERVAL", span_of(node))
        return Interval()
    text, unit = node.this.name if node.this is not None else "", node.args.get("unit")
    if isinstance(node.this, exp.Neg):
        text = f"-{node.this.this.name}"
    parts = _interval_parts(text, unit.name if unit is not None else "")
    if parts is None:
        word = unit.name if unit is not None else ""
        near = did_you_mean(word, (*_UNITS_US, *_UNITS_MONTHS)) if word else ""
        hint = near or "write for instance INTERVAL '10' SECOND"
        faults.add("this interval is not understood", span_of(node), hint)
        return Interval()
    return Interval(sum(part.months for part in parts), sum(part.micros for part in parts))


def _interval_parts(text: str, unit: str) -> list[Interval] | None:
    number = _NUMBER.fullmatch(text)
    pairs = [(number.group(1), unit)] if number and unit else _PART.findall(text) if not unit else []
    if not pairs or (not number and _PART.sub("", text).strip()):
        return None
    found = []
    for amount, word in pairs:
        word = word.upper().rstrip("S") if word.upper() != "S" else "SECOND"
        if word in _UNITS_US:
            found.append(Interval(0, round(float(amount) * _UNITS_US[word])))
        elif word in _UNITS_MONTHS and float(amount).is_integer():
            found.append(Interval(int(float(amount)) * _UNITS_MONTHS[word], 0))
        else:
            return None
    return found


def watermark_of(create: CreateSource, written: WatermarkDef, faults: Faults) -> Watermark | None:
    """`WATERMARK FOR ts AS ts - INTERVAL …`: the column must be declared, the interval not negative."""
    declared = {column.name.text.casefold(): column.name.text for column in create.columns}
    column = declared.get(written.column.text.casefold())
    if column is None:
        hint = did_you_mean(written.column.text, declared.values())
        faults.add(f"unknown column {written.column.text} in WATERMARK FOR", written.column.span, hint)
        return None
    kind = next(one.type for one in create.columns if one.name.text == column)
    if kind and not kind.startswith("TIMESTAMP"):
        hint = f"compute it: at AS to_timestamp({column}), WATERMARK FOR at AS at"
        faults.add(f"the event time {column} is a {kind} and no TIMESTAMP", written.column.span, hint)
    base, lateness = written.expression, Interval()
    if isinstance(base, exp.Sub):
        base, lateness = base.this, interval_of(base.expression, faults)
    if not isinstance(base, exp.Column) or base.name.casefold() != column.casefold():
        hint = f"write WATERMARK FOR {column} AS {column} - INTERVAL '10' SECOND"
        faults.add("a watermark is its own column less an interval", span_of(written.expression), hint)
        return None
    if lateness.months < 0 or lateness.micros < 0:
        faults.add("the allowed lateness is negative", span_of(written.expression))
    if lateness.months and lateness.micros:
        faults.add("the allowed lateness mixes months with a span of time", span_of(written.expression))
    return Watermark(column, lateness)


def window_of(clause: WindowClause, relation: Scope, names: Names, zone: str) -> Window:
    """The window of a clause over the relations in scope; `zone` is the pipeline's own."""
    faults = names.faults
    parts = {role: interval_of(node, faults) for role, node in clause.parts.items()}
    size = parts.get("size", Interval())
    slide = parts.get("slide", parts.get("step", Interval()))
    window = Window(
        kind=clause.kind,  # type: ignore[arg-type]
        size=size,
        slide=slide,
        offset=parts.get("offset", Interval()),
        zone=_zone(clause, zone, faults),
        time=_time(clause, relation, names),
        place=faults.source.place(clause.span),
    )
    _check_sizes(window, clause, faults)
    return window


def _check_sizes(window: Window, clause: WindowClause, faults: Faults) -> None:
    for role, span in (("size", window.size), ("slide", window.slide)):
        where = _where(clause, role)
        if span.months and span.micros:
            faults.add(f"the {role} of a window mixes months with a span of time", where)
        if (
            span.months < 0
            or span.micros < 0
            or (role in _roles(clause) and not (span.months or span.micros))
        ):
            faults.add(f"the {role} of a window must be longer than 0", where)
    if window.kind == "session" and window.size.months:
        faults.add("the gap of a session has no calendar: give days or less", _where(clause, "size"))
    if window.kind == "cumulate" and not _divides(window.slide, window.size):
        faults.add("the SIZE of a CUMULATE window must be a multiple of its STEP", _where(clause, "step"))
    if window.kind == "sliding" and bool(window.size.months) != bool(window.slide.months):
        faults.add("SIZE and SLIDE must both be months or both spans of time", _where(clause, "slide"))


def _divides(step: Interval, size: Interval) -> bool:
    if step.months or size.months:
        return bool(step.months and not step.micros and not size.micros) and size.months % step.months == 0
    return step.micros == 0 or size.micros % step.micros == 0


def _roles(clause: WindowClause) -> tuple[str, ...]:
    return ("size", "slide") if clause.kind in ("sliding", "cumulate") else ("size",)


def _where(clause: WindowClause, role: str) -> Span:
    node = clause.parts.get(role) or clause.parts.get("step" if role == "slide" else role)
    return span_of(node) if node is not None else clause.span


def _zone(clause: WindowClause, default: str, faults: Faults) -> str:
    if not clause.zone:
        return default
    wrong = zone_error(clause.zone)
    if wrong:
        faults.add(wrong, clause.zone_span, did_you_mean(clause.zone, zones()))
    return clause.zone


def _time(clause: WindowClause, scope: Scope, names: Names) -> str:
    """The text of the window's time; '' where it is the event time of the stream."""
    if clause.time is None:
        return ""
    if isinstance(clause.time, exp.Column):
        alias = clause.time.table
        found = scope.find(clause.time.name, alias)
        if (
            len(found) == 1
            and not found[0].outer
            and _is_event_time(found[0].member.relation, found[0].column)
        ):
            resolve(clause.time, scope, names)
            return ""
    return text_of(clause.time, scope, names)


def _is_event_time(relation: Relation, column: str) -> bool:
    return relation.carries and (relation.is_time(column) or column == "_event_time")


def check_watermark(relation: Relation, span: tuple[int, int], faults: Faults) -> None:
    """A window needs a stream with a WATERMARK."""
    if relation.open or relation.watermarked:
        return
    if relation.origin == "table":
        faults.add("a window needs a stream, and this is a reference table", span)
        return
    streams = ", ".join(relation.streams) or "its input"
    hint = "add WATERMARK FOR ts AS ts - INTERVAL '10' SECOND to CREATE STREAM"
    faults.add(f"a window needs a WATERMARK, and {streams} has none", span, hint)
