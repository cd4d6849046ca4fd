"""What a query consumed, as temp views: each stream's accepted rows, each reference table at its pinned version.

A row is accepted when its batch is in the log and `rejected` does not name it for this query. Each row
knows the watermark that judged its batch (`__late_us`) and which set of table versions the batch had
pinned (`__epoch`). DataFrame in, DataFrame out; everything lies in one partition. Raises Unknown where
input is no longer there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.storagelevel import StorageLevel

from expectations.history import Batch, History, Offset, pieces
from headrace.errors import Unknown
from headrace.runtime.lake import Lake
from headrace.runtime.sources import read_range
from headrace.runtime.tables import read_version
from headrace.sql.nodes import Pipeline, Stream, Table

NEVER_LATE = -(2**63)
BEHIND_ALL = 2**63 - 1
INTERNAL = ("__bad", "__raw", "__position", "__own_time")
POSITIONS: Mapping[str, str] = {"files": "_offset.file", "kafka": "_offset", "rate": "_offset"}
RANGE = "partition STRING, low BIGINT, high BIGINT, __late_us BIGINT, __epoch INT"


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads a pipeline's input in a session of the baseline's own; `held` keeps what was read, by range."""

    spark: SparkSession
    pipeline: Pipeline
    lake: Lake
    held: dict[str, DataFrame] = field(default_factory=dict)


def accepted(reader: Reader, history: History, stream: Stream, *, by_watermark: bool = True) -> DataFrame:
    """The rows of a stream that the query took, tagged; one partition.

    `by_watermark` False: nothing in the query asks which watermark judged a row, and no row is late by its tag.
    """
    rows = _tagged(reader, history, stream, by_watermark=by_watermark)
    return _for_query(_without_rejected(reader, history, stream, rows))


def rejected_as_late(reader: Reader, history: History, stream: Stream) -> DataFrame | None:
    """The rows that `rejected` calls late for this query, tagged alike; None where there are none."""
    named = _rejected(reader, history, stream)
    late = named.filter(pc.equal(named.column("reason"), "late"))
    if not late.num_rows:
        return None
    rows = _tagged(reader, history, stream, by_watermark=True)
    return _for_query(_matched(rows.where("NOT __bad"), late, "left_semi"))


def lost_records(reader: Reader, history: History, stream: Stream) -> int:
    """How many bad records of the query's input `rejected` does not name; 0 is right."""
    named = _rejected(reader, history, stream)
    batches = [batch for batch in history.batches if stream.name in batch.offsets]
    bad = _whole(reader, stream, batches).where("__bad")
    return (_matched(bad, named, "left_anti") if named.num_rows else bad).count()


def table_rows(reader: Reader, history: History, table: Table) -> DataFrame:
    """The rows of a reference table: of the one pinned version, or of all with `__epoch_<table>`."""
    sets = [dict(versions) for versions in history.versions]
    frames = []
    for epoch, versions in enumerate(sets):
        if table.name not in versions:
            raise Unknown(f"{history.query}: the batch log names no version of table {table.name}")
        rows = _read_version(reader, table, versions[table.name])
        frames.append(
            rows.withColumn(f"__epoch_{table.name.lower()}", F.lit(epoch)) if len(sets) > 1 else rows
        )
    return reduce(DataFrame.unionByName, frames).coalesce(1)


def _read_version(reader: Reader, table: Table, version: int) -> DataFrame:
    try:
        return read_version(reader.spark, reader.lake, table, version)
    except (DeltaError, TableNotFoundError, PySparkException) as error:
        reason = str(error).splitlines()[0]
        raise Unknown(f"table {table.name}: version {version} can't be read again: {reason}") from error


def _for_query(rows: DataFrame) -> DataFrame:
    return rows.drop(*INTERNAL).withColumns(
        {"__time": F.col("_event_time"), "__partition": F.col("_partition"), "__place": F.col("_offset")}
    )


# ---- tags --------------------------------------------------------------------------------------
def _tagged(reader: Reader, history: History, stream: Stream, *, by_watermark: bool) -> DataFrame:
    batches = [batch for batch in history.batches if stream.name in batch.offsets]
    epochs = {versions: number for number, versions in enumerate(history.versions)}
    tags = {
        batch: (_late_us(batch) if by_watermark else NEVER_LATE, epochs[batch.tables]) for batch in batches
    }
    distinct = set(tags.values())
    if len(distinct) == 1:
        return _with_tag(_whole(reader, stream, batches), *distinct.pop())
    if stream.connector in POSITIONS:
        ranges = reader.spark.createDataFrame(list(_ranges(stream, tags)), RANGE)
        return _by_position(_whole(reader, stream, batches), ranges, POSITIONS[stream.connector])
    frames = [
        _with_tag(_read(reader, stream, piece.start, piece.end), *tags[piece.batches[0]])
        for piece in pieces(history, stream.name, by_watermark=by_watermark)
    ]
    return reduce(DataFrame.unionByName, frames).coalesce(1)


def _whole(reader: Reader, stream: Stream, batches: list[Batch]) -> DataFrame:
    if not batches:
        raise Unknown(f"stream {stream.name}: the batch log names no range of its input")
    return _read(reader, stream, batches[0].offsets[stream.name][0], batches[-1].offsets[stream.name][1])


def _read(reader: Reader, stream: Stream, start: Offset | None, end: Offset) -> DataFrame:
    key = f"{stream.name} {start} {end}"
    if key not in reader.held:
        rows = read_range(reader.spark, reader.lake, stream, start, end)
        reader.held[key] = rows.coalesce(1).persist(StorageLevel.MEMORY_AND_DISK)
    return reader.held[key]


def _late_us(batch: Batch) -> int:
    return NEVER_LATE if batch.watermark_ms is None else batch.watermark_ms * 1000


def _with_tag(rows: DataFrame, late_us: int, epoch: int) -> DataFrame:
    return rows.withColumns({"__late_us": F.lit(late_us).cast("bigint"), "__epoch": F.lit(epoch).cast("int")})


def _ranges(
    stream: Stream, tags: Mapping[Batch, tuple[int, int]]
) -> Iterator[tuple[str, int, int, int, int]]:
    """Per partition the positions [low, high) of each run of batches with the same tag."""
    open_: dict[str, tuple[int, int, int, int]] = {}
    for batch, tag in tags.items():
        start, end = batch.offsets[stream.name]
        before, after = _by_partition(stream, start), _by_partition(stream, end)
        for partition, high in after.items():
            low = before.get(partition, 0)
            if partition in open_ and open_[partition][2:] == tag:
                low = open_[partition][0]
            elif partition in open_:
                yield (partition, *open_[partition])
            open_[partition] = (low, high, *tag)
    for partition, run in open_.items():
        yield (partition, *run)


def _by_partition(stream: Stream, offset: Offset | None) -> dict[str, int]:
    match stream.connector:
        case _ if offset is None:
            return {}
        case "kafka":
            return {partition: int(n) for topic in offset.values() for partition, n in topic.items()}
        case "rate":
            return {"0": int(offset["offset"])}
        case _:
            return {partition: int(n) for partition, n in offset.items()}


def _by_position(rows: DataFrame, ranges: DataFrame, position: str) -> DataFrame:
    at = F.col(position).cast("bigint")
    within = (
        (F.col("_partition").cast("string") == F.col("partition"))
        & (at >= F.col("low"))
        & (at < F.col("high"))
    )
    return rows.join(F.broadcast(ranges), within).drop("partition", "low", "high")


# ---- rejected ----------------------------------------------------------------------------------
def _without_rejected(reader: Reader, history: History, stream: Stream, rows: DataFrame) -> DataFrame:
    named = _rejected(reader, history, stream)
    good = rows.where("NOT __bad")
    return _matched(good, named, "left_anti") if named.num_rows else good


def _matched(rows: DataFrame, named: pa.Table, how: str) -> DataFrame:
    places = rows.sparkSession.createDataFrame(named.select(["partition", "offset"]))
    same = (F.col("_partition").cast("string") == F.col("at.partition")) & (
        F.col("__position") == F.col("at.offset")
    )
    return rows.join(F.broadcast(places.alias("at")), same, how)


def _rejected(reader: Reader, history: History, stream: Stream) -> pa.Table:
    """The positions that `rejected` names for this query and stream, with the reason."""
    names = ["partition", "offset", "reason"]
    try:
        table = DeltaTable(reader.lake.rejected)
    except TableNotFoundError:
        return pa.schema([(name, pa.string()) for name in names]).empty_table()
    mine = [("query", "=", history.query), ("stream", "=", stream.name)]
    return table.to_pyarrow_table(columns=names, filters=mine)
