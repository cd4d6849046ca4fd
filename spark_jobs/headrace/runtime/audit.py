"""The audit of a batch: which records were rejected, and why. Runs only where the batch counted some.

The batch's own input range is read again; what was late, unreadable or without event time goes to the
table `rejected`, once for (query, generation, batch).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.runtime import deltawrite
from headrace.runtime.lake import Lake
from headrace.runtime.lower import IDENTITY, Inputs, late_rows, late_windows
from headrace.runtime.records import own_time
from headrace.sql.nodes import Result, Stream

REASONS = ("late", "bad_record", "null_event_time")
SCHEMA = pa.schema(
    [
        ("query", pa.string()),
        ("generation", pa.int64()),
        ("batch", pa.int64()),
        ("stream", pa.string()),
        ("partition", pa.string()),
        ("offset", pa.string()),
        ("reason", pa.string()),
        ("event_time", pa.timestamp("us", tz="UTC")),
        ("watermark", pa.timestamp("us", tz="UTC")),
        ("raw", pa.string()),
        ("detail", pa.string()),
        ("rejected_at", pa.timestamp("us", tz="UTC")),
    ]
)


@dataclass(frozen=True, slots=True)
class Rejection:
    """What a batch must be audited for: `watermark_ms` is the watermark that judged it (None: nothing was late)."""

    query: str
    generation: int
    batch: int
    watermark_ms: int | None
    unusable: bool  # whether bad records or missing event times were counted


def rejected_rows(
    result: Result,
    ranges: Sequence[tuple[Stream, DataFrame]],
    lookup: Callable[[str], DataFrame],
    what: Rejection,
) -> pa.Table:
    """The rejected records of a batch, one row for each; `ranges` are its Scans' inputs in plan order."""
    parts = []
    if what.unusable:
        parts += [part for stream, rows in ranges for part in _unusable(stream, rows)]
    if what.watermark_ms is not None:
        parts += _late(result, ranges, lookup, what.watermark_ms)
    if not parts:
        return SCHEMA.empty_table()
    found = reduce(DataFrame.unionAll, parts).dropDuplicates(["stream", "partition", "offset"])
    return _as_table(found.toArrow(), what)


def prepare(lake: Lake) -> None:
    """Create `rejected` empty where it is not there."""
    deltawrite.ensure(lake.rejected, SCHEMA, "records that a query left out, and why")


def write(lake: Lake, rows: pa.Table, what: Rejection) -> None:
    """Append the rejected records, once for the batch; the table was prepared."""
    if rows.num_rows:
        once = deltawrite.Once(f"rejected:{what.query}:{what.generation}", what.batch)
        deltawrite.append_once(lake.rejected, rows, once)


def usable(rows: DataFrame, stream: Stream) -> DataFrame:
    """The rows that a query sees: well-formed, and with an event time where the stream has a watermark."""
    good = rows.where("NOT __bad") if "__bad" in rows.columns else rows
    return good.where("_event_time IS NOT NULL") if stream.watermark else good


def with_identity(rows: DataFrame, stream: Stream) -> DataFrame:
    """The usable rows with IDENTITY, which tells each record apart."""
    identity = F.struct(
        F.lit(stream.name).alias("stream"),
        F.col("_partition").cast("string").alias("partition"),
        F.col("__position").alias("offset"),
        F.col("_event_time").alias("event_time"),
        F.col("__raw").alias("raw"),
    )
    return usable(rows, stream).withColumn(IDENTITY, identity)


def _unusable(stream: Stream, rows: DataFrame) -> list[DataFrame]:
    kinds = [("bad_record", F.col("__bad"))]
    if stream.watermark:
        kinds.append(("null_event_time", ~F.col("__bad") & F.col("_event_time").isNull()))
    return [
        rows.where(condition).select(
            F.lit(stream.name).alias("stream"),
            F.col("_partition").cast("string").alias("partition"),
            F.col("__position").alias("offset"),
            F.lit(reason).alias("reason"),
            own_time(rows).alias("event_time"),
            F.col("__raw").alias("raw"),
        )
        for reason, condition in kinds
    ]


def _late(
    result: Result,
    ranges: Sequence[tuple[Stream, DataFrame]],
    lookup: Callable[[str], DataFrame],
    watermark_ms: int,
) -> list[DataFrame]:
    marked = [with_identity(rows, stream) for stream, rows in ranges]
    found = []
    for window in late_windows(result.plan):
        inputs = Inputs(scan=lambda n, _: marked[n], lookup=lookup, carry=True)
        identities = late_rows(window, inputs, watermark_ms).select(f"{IDENTITY}.*")
        found.append(
            identities.select(
                "stream", "partition", "offset", F.lit("late").alias("reason"), "event_time", "raw"
            )
        )
    return found


def _as_table(found: pa.Table, what: Rejection) -> pa.Table:
    count = found.num_rows
    watermark = None if what.watermark_ms is None else what.watermark_ms * 1000
    columns = {
        "query": pa.repeat(what.query, count),
        "generation": pa.repeat(what.generation, count),
        "batch": pa.repeat(what.batch, count),
        "watermark": pa.repeat(pa.scalar(watermark, pa.int64()), count).cast(pa.timestamp("us", tz="UTC")),
        "detail": pa.repeat(pa.scalar(None, pa.string()), count),
        "rejected_at": pa.repeat(pa.scalar(datetime.now(UTC), pa.timestamp("us", tz="UTC")), count),
    }
    columns |= {name: found.column(name) for name in found.column_names}
    return pa.table(
        [_flat(columns[name]).cast(SCHEMA.field(name).type) for name in SCHEMA.names], schema=SCHEMA
    )


def _flat(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
