"""What a stream's rows tell while they pass: counters and per-partition maxima, by Spark's `observe`.

Frame in, frame out; and from what a batch observed to the tracker. Each metric costs every row, so that the
fast form counts the rows and keeps the maxima; one row that it can't place (a bad record, none or too far an
event time, an unknown partition) makes it say no more than that, and the batch's input is asked again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.event_time.interval import Interval
from headrace.event_time.marks import Marks
from headrace.runtime.records import own_time
from headrace.sql.catalog import duration_ms
from headrace.sql.nodes import Stream

UNPLACED_US = 2**63 - 1  # no event time: those end with the year 9999


@dataclass(frozen=True, slots=True)
class Seen:
    """What one Scan saw in a batch. `maxima`: by partition that delivered its largest usable event time (µs;
    None: it has none).
    """

    rows: int
    bad: int
    missing: int
    future: int
    maxima: Mapping[str, int | None]


def observing(rows: DataFrame, stream: Stream, name: str, partitions: Sequence[str]) -> DataFrame:
    """The rows unchanged, observed under `name`."""
    metrics = [F.count(F.lit(1)).alias("rows")]
    if stream.watermark is not None:
        metrics += _maxima(stream, own_time(rows), partitions)
    elif "__bad" in rows.columns:
        metrics.append(F.count(_one_if(F.col("__bad"))).alias("bad"))
    return rows.observe(name, *metrics)


def _maxima(stream: Stream, own: Column, partitions: Sequence[str]) -> list[Column]:
    """Each partition's largest event time (µs); the first is UNPLACED_US where a row can't be placed."""
    time = F.unix_micros(own)
    unplaced, future = F.lit(UNPLACED_US), _future(stream, own, _processing_time(stream))
    odd = [own.isNull()] if future is None else [own.isNull(), future]
    if len(partitions) == 1 and stream.connector in ("delta", "rate"):
        return [F.max(F.when(reduce(or_, odd), unplaced).otherwise(time)).alias("m0")]
    partition = F.col("_partition").cast("string")
    odd.append(~partition.isin(list(partitions)))
    times = [F.when(partition == known, time) for known in partitions] or [F.lit(None).cast("long")]
    times[0] = F.when(reduce(or_, odd), unplaced).otherwise(times[0])
    return [F.max(of_one).alias(f"m{i}") for i, of_one in enumerate(times)]


def _one_if(condition: Column) -> Column:
    return F.when(condition, F.lit(1))


def seen(metrics: Mapping[str, Any], partitions: Sequence[str]) -> Seen | None:
    """The observed metrics of a Scan, read; None where they can't tell, and its input must be `counted`."""
    if metrics.get("m0") == UNPLACED_US:
        return None
    rows, bad = (int(metrics.get(key) or 0) for key in ("rows", "bad"))
    found = {name: metrics.get(f"m{i}") for i, name in enumerate(partitions)}
    return Seen(rows, bad, 0, 0, {name: time for name, time in found.items() if time is not None})


def counted(rows: DataFrame, stream: Stream, at_ms: int) -> Seen:
    """What a batch saw, from its input read again; an action. `at_ms` was its processing time."""
    now = F.col("_timestamp") if not stream.connector else F.timestamp_millis(F.lit(at_ms))
    own, bad = own_time(rows), F.col("__bad")
    ahead = _future(stream, own, now)
    future = F.lit(False) if ahead is None else F.coalesce(ahead, F.lit(False))
    by_partition = rows.groupBy(F.col("_partition").cast("string").alias("partition")).agg(
        F.count(F.lit(1)).alias("rows"),
        F.count(_one_if(bad)).alias("bad"),
        F.count(_one_if(~bad & own.isNull())).alias("missing"),
        F.count(_one_if(future)).alias("future"),
        F.max(F.when(~future, F.unix_micros(own))).alias("time"),
    )
    found = by_partition.collect()
    rows_of, bad_of, missing, future_of = (
        sum(row[name] for row in found) for name in ("rows", "bad", "missing", "future")
    )
    return Seen(rows_of, bad_of, missing, future_of, {row["partition"]: row["time"] for row in found})


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
