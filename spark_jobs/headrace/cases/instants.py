"""Instants as case files write them: seconds since 1970 or ISO 8601. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from headrace.event_time.interval import EPOCH

_MICRO = timedelta(microseconds=1)


def micros_of(value: object) -> int | None:
    """Microseconds since 1970 (UTC); None where the value is no instant. A time without a zone is UTC."""
    match value:
        case bool():
            return None
        case int():
            return value * 1_000_000
        case float():
            return round(Decimal(repr(value)) * 1_000_000) if abs(value) < 1e15 else None
        case datetime():
            return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH) // _MICRO
        case str():
            return _parsed(value)
        case _:
            return None


def iso_of(micros: int) -> str:
    """`2026-01-01T10:00:00.000000Z`. Raises OverflowError beyond the years 1 to 9999."""
    return (EPOCH + timedelta(microseconds=micros)).strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


def _parsed(text: str) -> int | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return micros_of(moment)
