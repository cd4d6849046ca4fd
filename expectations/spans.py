"""A window clause read from its words, and the windows of a row as Spark SQL text.

Written from the language's rules alone (windows are `[start, end)`, aligned to 1970-01-01T00:00 in the
query's zone plus the offset; whole days and months follow the zone's calendar, shorter ones are spans of
time) and deliberately not from the compiler. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from expectations.clauses import Stretch
from expectations.words import Word, closing, split
from headrace.sql.catalog import signed_ms

DAY = 86_400_000_000  # microseconds
EPOCH = "timestamp_micros(0L)"

KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {  # word: kind, roles of unnamed intervals in order
    "TUMBLING": ("tumbling", ("SIZE",)),
    "SLIDING": ("sliding", ("SIZE", "SLIDE")),
    "HOPPING": ("sliding", ("SIZE", "SLIDE")),
    "CUMULATE": ("cumulate", ("STEP", "SIZE")),
    "SESSION": ("session", ("SIZE",)),
}
TABLE_FUNCTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "TUMBLE": ("tumbling", ("SIZE",)),
    "HOP": ("sliding", ("SLIDE", "SIZE")),
    "CUMULATE": ("cumulate", ("STEP", "SIZE")),
    "SESSION": ("session", ("SIZE",)),
}
UNITS: Mapping[str, tuple[int, int]] = {  # months, microseconds
    "YEAR": (12, 0),
    "QUARTER": (3, 0),
    "MONTH": (1, 0),
    "WEEK": (0, 7 * DAY),
    "DAY": (0, DAY),
    "HOUR": (0, 3_600_000_000),
    "MINUTE": (0, 60_000_000),
    "SECOND": (0, 1_000_000),
    "MILLISECOND": (0, 1_000),
    "MICROSECOND": (0, 1),
}
_INTERVAL = re.compile(
    r"""\s*INTERVAL\s+(['"]?)\s*([+-]?\d+(?:\.\d+)?)\s*\1\s*([A-Z]+?)S?\s*""", re.IGNORECASE
)
_INSIDE = re.compile(r"""\s*INTERVAL\s+(['"])\s*([+-]?\d+(?:\.\d+)?)\s+([A-Z]+?)S?\s*\1\s*""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Span:
    """Whole months or microseconds; never both."""

    months: int = 0
    micros: int = 0


@dataclass(frozen=True, slots=True)
class Windows:
    """A window clause. `time` is the expression it names, '' for the event time of the row."""

    kind: str
    time: str
    size: Span
    step: Span  # the slide of sliding windows, the step of cumulating ones, the size of tumbling ones
    offset: Span
    zone: str


def read_clause(text: str, words: Sequence[Word], stretch: Stretch, zone: str) -> Windows:
    """The clause behind the word WINDOW. Raises ValueError where it can't be understood."""
    start, stop = stretch
    kind, roles = KINDS[words[start].says]
    end = closing(words, start + 1)
    pieces = [_text(text, words, *piece) for piece in split(words, start + 2, end)]
    behind = _text(text, words, end + 1, stop)
    pieces += re.findall(
        r"OFFSET\s+INTERVAL\s+.*?(?=\s+TIME\s+ZONE|$)|TIME\s+ZONE\s+'[^']*'", behind, re.I | re.S
    )
    return _windows(kind, roles, pieces, zone)


def read_function(text: str, words: Sequence[Word], start: int, zone: str) -> tuple[Word, Windows, int]:
    """`TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), …))` at the word TABLE: the stream's word, the windows, the end."""
    kind, roles = TABLE_FUNCTIONS[words[start + 2].says]
    inner = closing(words, start + 3)
    first, *rest = split(words, start + 4, inner)
    pieces = [_text(text, words, *piece) for piece in rest]
    pieces[0] = re.sub(r"(?is)^.*?DESCRIPTOR\s*\((.*)\)\s*$", r"\1", pieces[0])
    return words[first[0] + 1], _windows(kind, roles, pieces, zone), closing(words, start + 1) + 1


def _text(text: str, words: Sequence[Word], start: int, stop: int) -> str:
    return text[words[start].start : words[stop - 1].end] if start < stop else ""


def _windows(kind: str, roles: tuple[str, ...], pieces: Sequence[str], zone: str) -> Windows:
    spans: dict[str, Span] = {}
    unnamed = list(roles)
    time = ""
    for piece in pieces:
        if named := re.match(r"(?i)\s*(SIZE|SLIDE|STEP|GAP|OFFSET)\s+(?=INTERVAL\b)", piece):
            role = named[1].upper().replace("GAP", "SIZE")
            spans[role] = span_of(piece[named.end() :])
            unnamed = [other for other in unnamed if other != role]
        elif zoned := re.match(r"(?i)\s*TIME\s+ZONE\s+'([^']*)'", piece):
            zone = zoned[1]
        elif re.match(r"(?i)\s*INTERVAL\b", piece):
            spans[unnamed.pop(0) if unnamed else "OFFSET"] = span_of(piece)
        else:
            time = piece.strip()
    size = spans["SIZE"]
    return Windows(
        kind, time, size, spans.get("SLIDE", spans.get("STEP", size)), spans.get("OFFSET", Span()), zone
    )


def span_of(written: str) -> Span:
    """`INTERVAL '10' SECOND` as a Span. Raises ValueError on other forms."""
    found = _INTERVAL.fullmatch(written) or _INSIDE.fullmatch(written)
    unit = found[3].upper() if found else ""
    if found is None or unit not in UNITS:
        raise ValueError(f"the interval {written.strip()!r} is not of the form INTERVAL 'n' UNIT")
    months, micros = UNITS[unit]
    amount = Decimal(found[2])
    if months:
        return Span(months=int(amount) * months)
    return Span(micros=int(amount * micros))


# ---- as SQL ------------------------------------------------------------------------------------
def pairs_sql(windows: Windows, time: str) -> str:
    """An array of structs (a, b): start and end, timestamps, of each window that holds the instant `time`."""
    if windows.offset.months:
        raise ValueError("an offset of months")
    if not _calendar(windows):
        return _fixed(windows, f"unix_micros({time})")
    if windows.kind == "cumulate":
        raise ValueError("CUMULATE over days of a zone or months")
    return _by_calendar(windows, time)


def _calendar(windows: Windows) -> bool:
    spans = (windows.size, windows.step)
    if any(span.months for span in spans):
        return True
    return windows.zone.upper() != "UTC" and all(span.micros % DAY == 0 for span in spans)


def _fixed(windows: Windows, t: str) -> str:
    size, step = windows.size.micros, windows.step.micros
    zero = f"(unix_micros(to_utc_timestamp({EPOCH}, '{windows.zone}')) + {windows.offset.micros}L)"
    if windows.kind == "cumulate":
        first = f"({t} - pmod({t} - {zero}, {size}L))"
        bounds = (
            f"transform(sequence(1, {size // step}), i -> struct({first} AS a, {first} + i * {step}L AS b))"
        )
    else:
        last = f"({t} - pmod({t} - {zero}, {step}L))"
        many = -(-size // step)
        bounds = (
            f"transform(sequence(0, {many - 1}), "
            f"i -> struct({last} - i * {step}L AS a, {last} - i * {step}L + {size}L AS b))"
        )
    held = f"filter({bounds}, w -> w.a <= {t} AND {t} < w.b)"
    return f"transform({held}, w -> struct(timestamp_micros(w.a) AS a, timestamp_micros(w.b) AS b))"


def _by_calendar(windows: Windows, time: str) -> str:
    """Borders are wall-clock times, turned into instants; those windows are kept that hold the instant."""
    zone, offset = windows.zone, windows.offset.micros
    wall = f"(unix_micros(from_utc_timestamp({time}, '{zone}')) - {offset}L)"
    if windows.size.months and windows.step.months:
        size, step = windows.size.months, windows.step.months
        date = f"timestamp_micros({wall})"
        index = f"((year({date}) - 1970) * 12 + month({date}) - 1)"
        moment = (
            f"timestamp_micros(unix_micros({EPOCH} + make_ym_interval(0, CAST({{at}} AS INT))) + {offset}L)"
        )
    elif not windows.size.months and not windows.step.months:
        size, step = windows.size.micros, windows.step.micros
        index = wall
        moment = f"timestamp_micros({{at}} + {offset}L)"
    else:
        raise ValueError("windows of months that move on by days")
    near = f"(({index} - pmod({index}, {step})) div {step})"
    many = -(-size // step)
    border = f"to_utc_timestamp({moment}, '{zone}')"
    start, end = border.format(at=f"(i * {step})"), border.format(at=f"(i * {step} + {size})")
    bounds = f"transform(sequence({near} - {many}, {near} + 1), i -> struct({start} AS a, {end} AS b))"
    return f"filter({bounds}, w -> w.a <= {time} AND {time} < w.b)"


# ---- joins -------------------------------------------------------------------------------------
def join_bounds(text: str, words: Sequence[Word]) -> list[tuple[str, int]]:
    """`WITH ('join.lower_bound' = '-5m', …)` as comparisons of the right time with the left one: sign and distance (µs)."""
    signs = (("join.lower_bound", ">="), ("join.upper_bound", "<="))
    return [(sign, micros) for option, sign in signs for micros in _option(text, words, option)]


def join_tolerance(text: str, words: Sequence[Word]) -> list[int]:
    """`WITH ('join.tolerance' = '10m')` in microseconds, where it is there."""
    return _option(text, words, "join.tolerance")


def _option(text: str, words: Sequence[Word], option: str) -> list[int]:
    found = []
    for index, word in enumerate(words):
        if text[word.start : word.end].strip("'\"") == option and words[index + 1].says == "=":
            value = words[index + 2]
            found.append(signed_ms(text[value.start : value.end].strip("'\"")) * 1000)
    return found
