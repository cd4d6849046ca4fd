"""What a statement may name: settings, connectors, options, types, with the check of each value.

Literal tables; adding a word is one row. A value check takes the text and gives what is wrong with it
('' when nothing is). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

Check = Callable[[str], str]

_UNITS_MS = MappingProxyType(
    {
        **dict.fromkeys(("ms", "millisecond", "milliseconds"), 1),
        **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000),
        **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000),
        **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
        **dict.fromkeys(("d", "day", "days"), 86_400_000),
        **dict.fromkeys(("w", "week", "weeks"), 604_800_000),
    }
)
_UNITS_BYTES = MappingProxyType({"": 1, "b": 1, "kb": 2**10, "mb": 2**20, "gb": 2**30, "tb": 2**40})
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(|[kmgt]?b)", re.IGNORECASE)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")


def duration_ms(text: str) -> int:
    """Milliseconds of `30s`, `5m`, `10 minutes`, `1h 30m` or `0`. Raises ValueError for anything else."""
    text = text.strip()
    if text == "0":
        return 0
    position, total = 0, 0.0
    while position < len(text):
        part = _DURATION_PART.match(text, position)
        if part is None or part.group(2).lower() not in _UNITS_MS:
            raise ValueError(f"{text!r} is no duration")
        total += float(part.group(1)) * _UNITS_MS[part.group(2).lower()]
        position = part.end()
    if not text:
        raise ValueError("an empty text is no duration")
    return round(total)


def bytes_of(text: str) -> int:
    """Bytes of `10MB`, `64 kB` or `0`, in steps of 1024. Raises ValueError for anything else."""
    part = _SIZE.fullmatch(text.strip())
    if part is None:
        raise ValueError(f"{text!r} is no size")
    return round(float(part.group(1)) * _UNITS_BYTES[part.group(2).lower()])


def signed_ms(text: str) -> int:
    """Milliseconds of a duration that may be negative: `-5m`. Raises ValueError as `duration_ms`."""
    text = text.strip()
    return -duration_ms(text[1:]) if text.startswith("-") else duration_ms(text)


def zone_error(zone: str) -> str:
    """What is wrong with a time zone's name; '' when nothing is."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, IsADirectoryError):
        return f"unknown time zone {zone!r}"
    return ""


@cache
def zones() -> frozenset[str]:
    """All names of time zones, for the hint."""
    return frozenset(available_timezones())


def _text(value: str) -> str:
    return "" if value else "may not be empty"


def _plain_name(value: str) -> str:
    plain = re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", value)
    return "" if plain else f"{value!r} is no name: letters, digits, _, - and . (it names a folder)"


def _duration(value: str) -> str:
    try:
        duration_ms(value)
    except ValueError:
        return f"{value!r} is no duration; write for instance '30s', '5m', '10 minutes' or '0'"
    return ""


def _signed(value: str) -> str:
    return _duration(value.strip().removeprefix("-"))


def _some_time(value: str) -> str:
    return _duration(value) or ("must be longer than 0" if duration_ms(value) == 0 else "")


def _size(value: str) -> str:
    try:
        bytes_of(value)
    except ValueError:
        return f"{value!r} is no size; write for instance '100MB', '64 kB' or '0'"
    return ""


def _redis_url(value: str) -> str:
    found = re.fullmatch(r"(?:rediss?://[^/\s]+(?:/\d+)?|unix://\S+)(?:\?\S*)?", value)
    return "" if found else f"{value!r} is no address; write for instance 'redis://127.0.0.1:6379/0'"


def _natural(value: str) -> str:
    return "" if value.isdecimal() and int(value) > 0 else f"{value!r} is no whole number of 1 or more"


def _whole(value: str) -> str:
    return "" if re.fullmatch(r"-?\d+", value) else f"{value!r} is no whole number"


def _salt(value: str) -> str:
    wrong = (
        ""
        if value in ("auto", "off") or value.isdecimal()
        else f"{value!r} is none of auto, off and a number"
    )
    return wrong or ("a number of salts is 2 or more" if value.isdecimal() and int(value) < 2 else "")


def _factor(value: str) -> str:
    plain = re.fullmatch(r"\d+(\.\d+)?", value)
    return "" if plain and float(value) > 0 else f"{value!r} is no number above 0"


@dataclass(frozen=True, slots=True)
class OneOf:
    """The check that a value is one of a few words."""

    words: tuple[str, ...]

    def __call__(self, value: str) -> str:
        return "" if value in self.words else f"{value!r} is none of {', '.join(self.words)}"


SETTINGS: Mapping[str, Check] = MappingProxyType(
    {
        "pipeline.name": _plain_name,
        "state.partitions": _natural,
        "trigger.interval": _duration,
        "lake": _text,
        "checkpoint": _text,
        "time.zone": zone_error,
        "broadcast.max-bytes": _size,
        "lookup.redis": _redis_url,
        "lookup.min-bytes": _size,
        "lookup.timeout": _some_time,
        "lookup.cache-bytes": _size,
        "lookup.ttl": _some_time,
        "skew.salt": _salt,
        "skew.factor": _factor,
    }
)

# Options of every stream, whatever its connector.
STREAM_OPTIONS: Mapping[str, Check] = MappingProxyType(
    {
        "watermark.idle-timeout": _duration,
        "watermark.max-ahead": _some_time,
        "event-time.on-missing": OneOf(("skip", "error", "wall-clock")),
        "on-bad-record": OneOf(("reject", "error")),
    }
)


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector's own options; `prefixes` pass through to Spark unseen."""

    options: Mapping[str, Check]
    required: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()


SOURCES: Mapping[str, Connector] = MappingProxyType(
    {
        "kafka": Connector(
            MappingProxyType(
                {
                    "topic": _text,
                    "bootstrap.servers": _text,
                    "format": OneOf(("json", "csv", "avro")),
                    "avro.schema": _text,
                    "starting-offsets": OneOf(("earliest", "latest")),
                    "max-records-per-batch": _natural,
                }
            ),
            required=("topic", "bootstrap.servers", "format"),
            prefixes=("kafka.", "json.", "csv."),
        ),
        "delta": Connector(
            MappingProxyType({"path": _text}),
            required=("path",),
        ),
        "files": Connector(
            MappingProxyType(
                {"path": _text, "format": OneOf(("json", "csv", "parquet")), "max-files-per-batch": _natural}
            ),
            required=("path", "format"),
            prefixes=("csv.", "json."),
        ),
        "rate": Connector(
            MappingProxyType(
                {"rows-per-batch": _natural, "advance-per-batch-ms": _natural, "start-ms": _whole}
            ),
        ),
    }
)

TABLE_SOURCES: Mapping[str, Connector] = MappingProxyType(
    {
        "delta": Connector(MappingProxyType({"path": _text}), required=("path",)),
        "files": Connector(
            MappingProxyType({"path": _text, "format": OneOf(("json", "csv", "parquet"))}),
            required=("path", "format"),
            prefixes=("csv.", "json."),
        ),
    }
)

SINKS: Mapping[str, Connector] = MappingProxyType(
    {
        "delta": Connector(MappingProxyType({"path": _text})),
        "kafka": Connector(
            MappingProxyType({"topic": _text, "bootstrap.servers": _text, "format": OneOf(("json",))}),
            required=("topic", "bootstrap.servers"),
            prefixes=("kafka.",),
        ),
        "blackhole": Connector(MappingProxyType({})),
    }
)

QUERY_OPTIONS: Mapping[str, Check] = MappingProxyType(
    {
        "join.type": OneOf(("interval", "asof")),
        "join.lower_bound": _signed,
        "join.upper_bound": _signed,
        "join.retention": _duration,
        "join.tolerance": _duration,
        "join.buffer_rows": _natural,
        "join.buffer_policy": OneOf(("warn", "fail", "block", "drop-oldest")),
    }
)

# Spark's types: the word as it may be written -> Spark's own word for it.
SIMPLE_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "BOOLEAN": "BOOLEAN",
        "TINYINT": "TINYINT",
        "BYTE": "TINYINT",
        "SMALLINT": "SMALLINT",
        "SHORT": "SMALLINT",
        "INT": "INT",
        "INTEGER": "INT",
        "BIGINT": "BIGINT",
        "LONG": "BIGINT",
        "FLOAT": "FLOAT",
        "REAL": "FLOAT",
        "DOUBLE": "DOUBLE",
        "DECIMAL": "DECIMAL",
        "DEC": "DECIMAL",
        "NUMERIC": "DECIMAL",
        "STRING": "STRING",
        "CHAR": "CHAR",
        "CHARACTER": "CHAR",
        "VARCHAR": "VARCHAR",
        "BINARY": "BINARY",
        "DATE": "DATE",
        "TIMESTAMP": "TIMESTAMP",
        "TIMESTAMP_LTZ": "TIMESTAMP",
        "TIMESTAMP_NTZ": "TIMESTAMP_NTZ",
        "VARIANT": "VARIANT",
    }
)
NESTED_TYPES = ("ARRAY", "MAP", "STRUCT")
# How many numbers may stand in parentheses behind the type.
TYPE_NUMBERS: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"DECIMAL": (0, 1, 2), "CHAR": (1,), "VARCHAR": (1,)}
)


NO_OPTIONS: Mapping[str, Check] = MappingProxyType({})


def known_options(table: Mapping[str, Check], connector: Connector | None) -> dict[str, Check]:
    """All options that a WITH clause may name."""
    own = dict(connector.options) if connector else {}
    return {"connector": _text, **table, **own}
