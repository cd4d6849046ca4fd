"""The text of windows, evaluated by Spark, against the same windows in Python."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession

from headrace.event_time.interval import DAY_US, Interval
from headrace.event_time.windows import Windows, last_end, window_struct, windows_of

pytestmark = pytest.mark.streams

SECOND = 1_000_000
SHIFT_US = 800_000 * DAY_US


def time(seconds: int) -> Interval:
    return Interval(0, seconds * SECOND)


DAY = time(86_400)
WINDOWS = [
    Windows("tumbling", time(10), offset=time(3)),
    Windows("tumbling", time(3600), zone="Asia/Kolkata"),
    Windows("tumbling", DAY, offset=time(6 * 3600), zone="America/New_York"),
    Windows("tumbling", time(7 * 86_400), zone="America/Sao_Paulo"),
    Windows("tumbling", Interval(3), offset=time(5 * 86_400), zone="Europe/London"),
    Windows("sliding", time(10), time(5)),
    Windows("sliding", time(10), time(3), time(1)),
    Windows("sliding", time(3), time(10)),
    Windows("sliding", time(1001), time(10)),
    Windows("sliding", time(2 * 86_400), DAY, zone="America/Havana"),
    Windows("sliding", Interval(3), Interval(1), zone="Asia/Kolkata"),
    Windows("cumulate", time(30), time(10)),
    Windows("cumulate", time(1000), time(10), time(7)),
    Windows("cumulate", time(7 * 86_400), DAY, zone="America/New_York"),
]


def moments() -> list[int]:
    """Times around the epoch, at random, and around two changes of New York's clocks (2026-03-08, 2026-11-01)."""
    chance = random.Random(1)
    changes = [
        at + chance.randrange(-3 * DAY_US, 3 * DAY_US)
        for at in (1_772_953_200_000_000, 1_793_512_800_000_000)
    ]
    far = [chance.randrange(-(10**15), 2 * 10**15) for _ in range(40)]
    near = [at + step * 3_600_000_000 for at in changes for step in range(-20, 20)]
    return [0, -1, -SECOND, 1, DAY_US - 1, -DAY_US, *far, *near]


@pytest.mark.parametrize("which", WINDOWS, ids=str)
def test_spark_and_python_see_the_same_windows(spark: SparkSession, which: Windows) -> None:
    fields = (which.kind, which.size, which.slide, which.offset, which.zone, "ts")
    text = window_struct(*fields, SHIFT_US)
    several = f"array({text})" if which.kind == "tumbling" else text
    back = f"unix_micros(w.start) - {SHIFT_US}L AS start, unix_micros(w.end) - {SHIFT_US}L AS end"
    rows = (
        spark.createDataFrame([(moment,) for moment in moments()], "at BIGINT")
        .selectExpr("at", "timestamp_micros(at) AS ts")
        .selectExpr(
            "at",
            f"transform({several}, w -> struct({back})) AS found",
            f"unix_micros({last_end(*fields)}) AS last",
        )
        .collect()
    )
    for row in rows:
        wanted = windows_of(which, row["at"])
        assert tuple((one["start"], one["end"]) for one in row["found"]) == wanted
        assert row["last"] == max((end for _, end in wanted), default=None)
