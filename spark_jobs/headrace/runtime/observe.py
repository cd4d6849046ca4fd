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
from headrace.runtime.records import own_time
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
    """The rows unchanged, observed under `name`.

    Each metric costs every row: those that can't be anything but zero are left out.
    """
    metrics = [F.count(F.lit(1)).alias("rows")]
    if "__bad" in rows.columns:
        metrics.append(F.count(_one_if(F.col("__bad"))).alias("bad"))
    if stream.watermark is not None:
        metrics += _of_event_time(stream, own_time(rows), partitions)
    return rows.observe(name, *metrics)


def _of_event_time(stream: Stream, own: Column, partitions: Sequence[str]) -> list[Column]:
    """How many records have an event time, how many of a known partition, and each partition's largest."""
    future = _future(stream, own, _processing_time(stream))
    time = _moving(own, future)
    metrics = [F.count(own).alias("timed")]
    if future is not None:
        metrics.append(F.count(_one_if(future)).alias("future"))
    if len(partitions) == 1 and stream.connector in ("delta", "rate"):
        return [*metrics, F.max(time).alias("m0")]
    partition = F.col("_partition").cast("string")
    metrics.append(F.count(_one_if(partition.isin(list(partitions)))).alias("placed"))
    return metrics + [
        F.max(F.when(partition == known, time)).alias(f"m{i}") for i, known in enumerate(partitions)
    ]


def _one_if(condition: Column) -> Column:
    return F.when(condition, F.lit(1))


def seen(metrics: Mapping[str, Any], partitions: Sequence[str]) -> Seen:
    """The observed metrics of a Scan, read."""
    rows, bad, future = (int(metrics.get(key) or 0) for key in ("rows", "bad", "future"))
    missing = rows - bad - int(metrics["timed"]) if "timed" in metrics else 0
    elsewhere = rows - int(metrics["placed"]) if "placed" in metrics else 0
    maxima = {
        name: int(metrics[f"m{i}"]) for i, name in enumerate(partitions) if metrics.get(f"m{i}") is not None
    }
    return Seen(rows, bad, missing, future, maxima, exact=bad + missing + future + elsewhere == 0)


def maxima_of(rows: DataFrame, stream: Stream, at_ms: int) -> dict[str, int | None]:
    """By partition that delivered, its largest usable event time (µs; None: it has none); an action."""
    now = F.col("_timestamp") if not stream.connector else F.timestamp_millis(F.lit(at_ms))
    own = own_time(rows)
    time = _moving(own, _future(stream, own, now))
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


def _future(stream: Stream, own: Column, now: Column) -> Column | None:
    """Whether a record's event time is too far ahead; None where the stream does not ask."""
    ahead = stream.option("watermark.max-ahead")
    if not ahead:
        return None
    return F.unix_micros(own) > F.unix_micros(now) + F.lit(duration_ms(ahead) * 1000)


def _moving(own: Column, future: Column | None) -> Column:
    """The event time (µs) that moves a mark; NULL where the record has none, or one too far ahead."""
    return F.unix_micros(own) if future is None else F.when(~future, F.unix_micros(own))
