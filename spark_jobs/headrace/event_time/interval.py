"""A span of time as SQL writes it: whole calendar months and microseconds, kept apart.

A month has no fixed length, so an Interval is never one number; pure, no clock, no I/O.
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """`months` calendar months and `micros` microseconds, either may be 0 or negative."""

    months: int = 0
    micros: int = 0

    def __str__(self) -> str:
        parts = [f"{self.months} months"] if self.months else []
        if self.micros or not parts:
            seconds = self.micros / 1_000_000
            parts.append(f"{seconds:g}s")
        return " ".join(parts)

    @property
    def sql(self) -> str:
        """The span as a Spark SQL literal for `timestamp ± interval`."""
        months = f"make_ym_interval(0, {self.months})"
        micros = f"make_dt_interval(0, 0, 0, CAST({self.micros} / 1000000 AS DECIMAL(18, 6)))"
        if self.months and self.micros:
            raise ValueError("months and a time span can't stand in one SQL interval")
        return months if self.months else micros

    def before(self, micros: int) -> int:
        """The instant (microseconds since 1970, UTC) that lies this span before `micros`.

        A month back from the 31st ends on the last day of a shorter month, as Spark's
        `timestamp - interval` has it.
        """
        return _months_back(micros, self.months) - self.micros if self.months else micros - self.micros


def _months_back(micros: int, months: int) -> int:
    moment = EPOCH + timedelta(microseconds=micros)
    index = moment.year * 12 + moment.month - 1 - months
    year, month = divmod(index, 12)
    day = min(moment.day, calendar.monthrange(year, month + 1)[1])
    back = moment.replace(year=year, month=month + 1, day=day)
    return (back - EPOCH) // timedelta(microseconds=1)
