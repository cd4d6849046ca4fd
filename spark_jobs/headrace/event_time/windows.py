"""Windows as computed columns: Spark SQL text that gives the windows of a row, and the same in Python.

Rules (SEMANTICS 3.5): a window is [start, end), aligned to 1970-01-01T00:00:00 in the zone plus the
offset. Whole days and months follow the zone's calendar; any other size is a fixed span of time. Where a
sliding window mixes the two (a day that slides by an hour), both are fixed spans.

The text is an expression over BIGINT *positions*: microseconds since 1970 (UTC, or local for calendar
days), or whole months since January 1970. The session's time zone must be UTC. Borders are shifted
forward by `shift_us`, because Spark's watermark can't be negative. Never touches Spark itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

from headrace.event_time.interval import DAY_US, EPOCH, Interval

UNROLLED = (
    48  # up to so many windows of a row stand in the text one by one; lambdas are not compiled by Spark
)


Kind = Literal["tumbling", "sliding", "cumulate", "session"]


@dataclass(frozen=True, slots=True)
class Windows:
    """Which windows there are. `slide` is the slide of sliding and the step of cumulate windows."""

    kind: Kind
    size: Interval
    slide: Interval = Interval()
    offset: Interval = Interval()
    zone: str = "UTC"

    @property
    def unit(self) -> Literal["time", "day", "month"]:
        """What is counted: fixed spans of time, calendar days of the zone, or months."""
        spans = (self.size, self.slide) if self.kind != "tumbling" else (self.size,)
        if all(span.months for span in spans):
            return "month"
        if self.zone != "UTC" and all(span.micros and span.micros % DAY_US == 0 for span in spans):
            return "day"
        return "time"

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Size, slide and offset in positions."""
        if self.unit == "month":
            return self.size.months, self.slide.months, self.offset.months
        origin = _micros_of(datetime(1970, 1, 1), self.zone) if self.unit == "time" else 0
        return self.size.micros, self.slide.micros, origin + self.offset.micros


def window_struct(  # noqa: PLR0913 the fields of a window clause, one by one
    kind: Kind, size: Interval, slide: Interval, offset: Interval, zone: str, time_sql: str, shift_us: int = 0
) -> str:
    """Tumbling: STRUCT<start: TIMESTAMP, end: TIMESTAMP>; sliding and cumulate: an ARRAY of such, by start and end.

    `time_sql` is a TIMESTAMP expression that is not NULL. A sliding window with gaps (slide > size) may
    give an empty array. Raises ValueError for a session, which no single row tells.
    """
    windows = Windows(kind, size, slide, offset, zone)
    position = _position(windows, time_sql)
    match windows.kind:
        case "tumbling":
            return _tumbling(windows, position, shift_us)
        case "sliding":
            return _sliding(windows, position, shift_us)
        case "cumulate":
            return _cumulate(windows, position, shift_us)
        case "session":
            raise ValueError("a session is not a function of one row")


def last_end(  # noqa: PLR0913 the fields of a window clause, one by one
    kind: Kind, size: Interval, slide: Interval, offset: Interval, zone: str, time_sql: str, shift_us: int = 0
) -> str:
    """The TIMESTAMP at which the last window of a row ends, shifted; NULL where the row has no window."""
    windows = Windows(kind, size, slide, offset, zone)
    return _last_end(windows, time_sql, shift_us)


def _last_end(windows: Windows, time_sql: str, shift_us: int) -> str:
    position = _position(windows, time_sql)
    size, slide, offset = windows.numbers
    if windows.kind != "sliding":
        return _timestamp(windows, f"{position} - {_mod(position, offset, size)} + {size}", shift_us)
    end = _timestamp(windows, f"{position} - {_mod(position, offset, slide)} + {size}", shift_us)
    return end if slide <= size else f"CASE WHEN {_mod(position, offset, slide)} < {size} THEN {end} END"


def _tumbling(windows: Windows, position: str, shift_us: int) -> str:
    size, _, offset = windows.numbers
    start = f"{position} - {_mod(position, offset, size)}"
    return _struct(windows, start, f"{start} + {size}", shift_us)


def _cumulate(windows: Windows, position: str, shift_us: int) -> str:
    size, step, offset = windows.numbers
    count = size // step
    start = f"{position} - {_mod(position, offset, size)}"
    first = f"{_mod(position, offset, size)} DIV {step}"
    if count > UNROLLED:
        one = _struct(windows, start, f"{start} + (i + 1) * {step}", shift_us)
        return f"transform(sequence({first}, CAST({count - 1} AS BIGINT)), i -> {one})"
    structs = [_struct(windows, start, f"{start} + {end}", shift_us) for end in range(step, size + 1, step)]
    return f"slice(array({', '.join(structs)}), CAST({first} AS INT) + 1, {count})"


def _sliding(windows: Windows, position: str, shift_us: int) -> str:
    size, slide, offset = windows.numbers
    rest = _mod(position, offset, slide)
    count = -(-size // slide)
    oldest_is_certain = size % slide == 0
    if count > UNROLLED:
        number = f"CAST({count - 1} AS BIGINT)" if oldest_is_certain else f"({size - 1} - {rest}) DIV {slide}"
        start = f"{position} - {rest} - i * {slide}"
        one = _struct(windows, start, f"{start} + {size}", shift_us)
        return f"transform(sequence({number}, CAST(0 AS BIGINT), CAST(-1 AS BIGINT)), i -> {one})"
    starts = [f"{position} - {rest} - {back * slide}" for back in range(count - 1, -1, -1)]
    structs = [_struct(windows, start, f"{start} + {size}", shift_us) for start in starts]
    every = f"array({', '.join(structs)})"
    if oldest_is_certain:
        return every
    return f"CASE WHEN {rest} < {size - (count - 1) * slide} THEN {every} ELSE slice({every}, 2, {max(count - 1, 1)}) END"


# ---- positions ------------------------------------------------------------------------------
def _position(windows: Windows, time_sql: str) -> str:
    """The position of a time, BIGINT or INT."""
    local = time_sql if windows.zone == "UTC" else f"from_utc_timestamp({time_sql}, '{windows.zone}')"
    match windows.unit:
        case "time":
            return f"unix_micros({time_sql})"
        case "day":
            return f"unix_micros({local})"
        case "month":
            moved = local
            if windows.offset.micros:
                moved = f"timestamp_micros(unix_micros({local}) - {windows.offset.micros})"
            return f"((year({moved}) - 1970) * 12 + month({moved}) - 1)"


def _mod(position: str, offset: int, size: int) -> str:
    moved = f"{position} - {offset}" if offset > 0 else f"{position} + {-offset}" if offset else position
    return f"pmod({moved}, {size})"


def _struct(windows: Windows, start: str, end: str, shift_us: int) -> str:
    first, last = _timestamp(windows, start, shift_us), _timestamp(windows, end, shift_us)
    return f"named_struct('start', {first}, 'end', {last})"


def _timestamp(windows: Windows, position: str, shift_us: int) -> str:
    """A position back as TIMESTAMP, shifted."""
    if windows.unit == "time":
        return f"timestamp_micros({position}{_plus(shift_us)})"
    micros = position
    if windows.unit == "month":
        month = f"CAST(add_months(DATE '1970-01-01', CAST({position} AS INT)) AS TIMESTAMP)"
        micros = f"unix_micros({month}){_plus(windows.offset.micros)}"
    if windows.zone != "UTC":
        micros = f"unix_micros(to_utc_timestamp(timestamp_micros({micros}), '{windows.zone}'))"
    return f"timestamp_micros({micros}{_plus(shift_us)})"


def _plus(number: int) -> str:
    return f" + {number}" if number > 0 else f" - {-number}" if number else ""


# ---- the same in Python -----------------------------------------------------------------------
def windows_of(windows: Windows, micros: int) -> tuple[tuple[int, int], ...]:
    """The (start, end) in microseconds since 1970 of all windows that hold the instant, by start and end."""
    pairs = _pairs(windows, _position_of(windows, micros))
    return tuple((_instant(windows, start), _instant(windows, end)) for start, end in pairs)


def _pairs(windows: Windows, position: int) -> list[tuple[int, int]]:
    size, slide, offset = windows.numbers
    start = position - (position - offset) % size
    match windows.kind:
        case "tumbling":
            return [(start, start + size)]
        case "sliding":
            last = position - (position - offset) % slide
            return [(first, first + size) for first in reversed(range(last, position - size, -slide))]
        case "cumulate":
            return [(start, end) for end in range(start + slide, start + size + 1, slide) if end > position]
        case "session":
            raise ValueError("a session is not a function of one row")


def _position_of(windows: Windows, micros: int) -> int:
    if windows.unit == "time":
        return micros
    moment = (EPOCH + timedelta(microseconds=micros)).astimezone(ZoneInfo(windows.zone)).replace(tzinfo=None)
    if windows.unit == "day":
        return _since_1970(moment)
    moment -= timedelta(microseconds=windows.offset.micros)
    return (moment.year - 1970) * 12 + moment.month - 1


def _instant(windows: Windows, position: int) -> int:
    if windows.unit == "time":
        return position
    if windows.unit == "day":
        return _micros_of(datetime(1970, 1, 1) + timedelta(microseconds=position), windows.zone)
    year, month = divmod(position, 12)
    moment = datetime(1970 + year, month + 1, 1) + timedelta(microseconds=windows.offset.micros)
    return _micros_of(moment, windows.zone)


def _since_1970(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def _micros_of(local: datetime, zone: str) -> int:
    """The instant of a local time; of two the earlier one, and for a skipped one the end of the gap."""
    return (local.replace(tzinfo=ZoneInfo(zone)) - EPOCH) // timedelta(microseconds=1)
