"""What a stream's rows tell while they pass: counters and per-partition maxima, by Spark's `observe`.

Frame in, frame out; and from what a batch observed to the tracker. A batch with rows that the fast form
can't place (an unknown partition, a record without a usable time) is asked again from its own input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.event_time.interval import Interval
from headrace.event_time.marks import Marks
from headrace.sql.catalog import duration_ms
from headrace.sql.nodes import Stream


@dataclass(frozen=True, slots=True)
class Seen:
    """What one Scan saw in a batch. `maxima`: largest usable event time (µs) by partition; `heard`: all
    partitions that delivered; both only what the fast form knew where `exact` is false.
    """

    rows: int
    bad: int
    missing: int
    future: int
    maxima: Mapping[str, int]
    exact: bool


def observing(rows: DataFrame, stream: Stream, name: str, partitions: Sequence[str]) -> DataFrame:
    """The rows unchanged, observed under `name`."""
    if stream.watermark is None:
        return rows.observe(name, F.count(F.lit(1)).alias("rows"), F.count_if("__bad").alias("bad"))
    time = F.when(_usable(stream, _processing_time(stream)), F.unix_micros("__own_time"))
    partition = F.col("_partition").cast("string")
    alone = len(partitions) == 1 and stream.connector in ("delta", "rate")
    maxima = [
        F.max(time if alone else F.when(partition == name_, time)).alias(f"m{i}")
        for i, name_ in enumerate(partitions)
    ]
    elsewhere = F.lit(False) if alone else ~partition.isin(list(partitions))
    return rows.observe(
        name,
        F.count(F.lit(1)).alias("rows"),
        F.count_if("__bad").alias("bad"),
        F.count_if(~F.col("__bad") & F.col("__own_time").isNull()).alias("missing"),
        F.count_if(_future(stream, _processing_time(stream))).alias("future"),
        F.count_if(elsewhere).alias("elsewhere"),
        *maxima,
    )


def seen(metrics: Mapping[str, Any], partitions: Sequence[str]) -> Seen:
    """The observed metrics of a Scan, read."""
    counts = {key: int(metrics.get(key) or 0) for key in ("rows", "bad", "missing", "future", "elsewhere")}
    maxima = {
        name: int(metrics[f"m{i}"]) for i, name in enumerate(partitions) if metrics.get(f"m{i}") is not None
    }
    unplaced = counts["bad"] + counts["missing"] + counts["future"] + counts["elsewhere"]
    return Seen(counts["rows"], counts["bad"], counts["missing"], counts["future"], maxima, unplaced == 0)


def maxima_of(rows: DataFrame, stream: Stream, at_ms: int) -> dict[str, int | None]:
    """By partition that delivered, its largest usable event time (µs; None: it has none); an action."""
    now = F.col("_timestamp") if not stream.connector else F.timestamp_millis(F.lit(at_ms))
    time = F.when(_usable(stream, now), F.unix_micros("__own_time"))
    grouped = rows.groupBy(F.col("_partition").cast("string").alias("partition")).agg(
        F.max(time).alias("time")
    )
    return {row["partition"]: row["time"] for row in grouped.collect()}


def advance(
    marks: Marks, stream: Stream, maxima: Mapping[str, int | None], lateness: Interval, now: int
) -> None:
    """Tell the tracker what a batch brought: marks move, silent partitions are active again."""
    known = set(marks.partitions(stream.name))
    for partition in sorted(set(maxima) - known):
        marks.add_partition(stream.name, partition, now)
    silent = [partition for partition, time in maxima.items() if time is None]
    if silent:
        marks.heard(stream.name, silent, now)
    moved = {partition: time for partition, time in maxima.items() if time is not None}
    if moved:
        times = np.array(list(moved.values()), dtype=np.int64)
        late = np.array([time - lateness.before(time) for time in moved.values()], dtype=np.int64)
        marks.update_many(stream.name, list(moved), times, late, now)


def _processing_time(stream: Stream) -> Column:
    """A record's processing time: the batch's own, or the case's clock when it was delivered."""
    return F.col("_timestamp") if not stream.connector else F.current_timestamp()


def _future(stream: Stream, now: Column) -> Column:
    ahead = stream.option("watermark.max-ahead")
    if not ahead:
        return F.lit(False)
    border = F.unix_micros(now) + F.lit(duration_ms(ahead) * 1000)
    return F.col("__own_time").isNotNull() & (F.unix_micros("__own_time") > border)


def _usable(stream: Stream, now: Column) -> Column:
    return F.col("__own_time").isNotNull() & ~_future(stream, now)
