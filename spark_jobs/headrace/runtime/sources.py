"""The connectors: how each delivers raw records, live and read again, and which partitions it has.

`read_stream` and `read_range` give the same columns for the same records; the second must find exactly
the records between two offsets, or say that they are gone. Nothing is consumed here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from headrace.errors import Refused, Unknown
from headrace.runtime import csvlayout, fileindex, kafkasource
from headrace.runtime.deltarange import files_between, has_more, newest_versions, table_schema
from headrace.runtime.filesource import (
    LINES,
    LINES_UNDER_HEADER,
    POSITION,
    POSITION_NAMES,
    file_range,
    first_record,
)
from headrace.runtime.lake import Lake
from headrace.runtime.records import check_options, reader_options, rows_of, under_header
from headrace.sql.nodes import Stream

Offset = dict[str, Any]
RECORD_BYTES = 100  # of a record in a file, where a few of them are looked at
GIVEN = ""  # the connector of a stream whose rows a case delivers
RATE = ("timestamp", "value")
GONE = (FileNotFoundError, PySparkException, DeltaError, TableNotFoundError)


def index_file(lake: Lake, stream: Stream) -> str:
    return f"{lake.files}/{stream.name}.jsonl"


def read_stream(spark: SparkSession, lake: Lake, stream: Stream, hold: str = "") -> DataFrame:
    """The stream as an unbounded frame of rows (see `records.rows_of`). Raises Refused where it can't be read.

    While there is a file `hold`, the source has nothing new; of files and Delta tables.
    """
    check_options(stream)
    header = _header(stream)
    return rows_of(_raw_stream(spark, lake, stream, header, hold), stream, header)


def read_range(
    spark: SparkSession, lake: Lake, stream: Stream, start: Offset | None, end: Offset
) -> DataFrame:
    """The rows in (start, end], as a batch. Raises Unknown where the input is no longer there."""
    header = _header(stream)
    try:
        raw = _raw_range(spark, lake, stream, header, (start, end))
    except GONE as error:
        raise Unknown(f"stream {stream.name}: its input can't be read again: {_first_line(error)}") from error
    return rows_of(raw, stream, header)


def known_partitions(lake: Lake, stream: Stream) -> list[str]:
    """The source partitions that are known before anything was read. Raises Refused where there is no such source."""
    match stream.connector:
        case "":
            return sorted(fileindex.read_index(index_file(lake, stream)))
        case "files":
            return fileindex.partitions_of(_folder(stream))
        case "kafka":
            return kafkasource.partitions(stream)
        case _:
            return ["0"]


def discover(lake: Lake, stream: Stream) -> list[str]:
    """Look for new input that only the driver finds (files); gives the source partitions that there are now."""
    if stream.connector == "files":
        fileindex.discover(index_file(lake, stream), _folder(stream))
    return known_partitions(lake, stream)


def unread(lake: Lake, stream: Stream, consumed: Offset) -> set[str]:
    """The source partitions that are known to have input beyond `consumed` ({} = nothing was consumed yet)."""
    match stream.connector:
        case "" | "files":
            index = fileindex.read_index(index_file(lake, stream))
            return {name for name, entries in index.items() if len(entries) > int(consumed.get(name, 0))}
        case "kafka":
            return kafkasource.unread(stream, consumed)
        case "delta":
            return {"0"} if has_more(_existing(stream), consumed) else set()
        case _:
            return {"0"}


def newest_range(lake: Lake, stream: Stream, rows: int) -> tuple[Offset | None, Offset]:
    """The offsets between which about the newest `rows` records lie; what is in files is judged by their size."""
    size = rows * RECORD_BYTES
    match stream.connector:
        case "" | "files":
            index = fileindex.read_index(index_file(lake, stream))
            taken = {name: fileindex.newest(entries, size // len(index)) for name, entries in index.items()}
            ends = {name: len(entries) for name, entries in index.items()}
            return {name: ends[name] - taken[name] for name in ends}, ends
        case "kafka":
            return kafkasource.newest_range(stream, rows)
        case "delta":
            return newest_versions(_existing(stream), size)
        case _:
            return {"offset": 0}, {"offset": rows}


def is_endless(stream: Stream) -> bool:
    """Whether all input present can never have been consumed, because each batch makes more."""
    return stream.connector == "rate"


def can_be_bad(stream: Stream) -> bool:
    """Whether a record may be malformed; those that Spark makes can't."""
    return stream.connector != "rate"


# ---- live --------------------------------------------------------------------------------------
def _raw_stream(
    spark: SparkSession, lake: Lake, stream: Stream, header: tuple[str, ...], hold: str
) -> DataFrame:
    reader = spark.readStream
    match stream.connector:
        case "" | "files":
            reader = reader.format("headrace_files").schema(_file_schema(stream, header))
            options = {**_file_options(lake, stream, header), "hold": hold}
            return _positioned_file(reader.options(**options).load(), stream)
        case "kafka":
            options = kafkasource.reader_options(stream, _kafka_note(lake, stream))
            return _positioned_kafka(reader.format("kafka").options(**options).load())
        case "delta":
            reader = reader.format("headrace_files").schema(_delta_schema(stream))
            options = {"index": _existing(stream), "format": "delta", "hold": hold}
            return _positioned_file(reader.options(**options).load(), stream)
        case "rate":
            return _positioned_rate(reader.format("rate-micro-batch").options(**_rate_options(stream)).load())
        case other:
            raise Refused(f"connector {other!r} can't be read as a stream", place=stream.place)


# ---- read again --------------------------------------------------------------------------------
def _raw_range(
    spark: SparkSession,
    lake: Lake,
    stream: Stream,
    header: tuple[str, ...],
    span: tuple[Offset | None, Offset],
) -> DataFrame:
    start, end = span
    match stream.connector:
        case "" | "files":
            options = _file_options(lake, stream, header)
            file_range(options["index"], start or {}, end)  # what is gone is said now, not when it is read
            options |= {"start": json.dumps(start or {}), "end": json.dumps(end)}
            reader = spark.read.format("headrace_files").schema(_file_schema(stream, header))
            return _positioned_file(reader.options(**options).load(), stream)
        case "kafka":
            options = kafkasource.range_options(stream, _kafka_note(lake, stream), start, end)
            return _positioned_kafka(spark.read.format("kafka").options(**options).load())
        case "delta":
            options = {"index": stream.option("path"), "format": "delta"}
            files_between(options["index"], start or {}, end)
            options |= {"start": json.dumps(start or {}), "end": json.dumps(end)}
            reader = spark.read.format("headrace_files").schema(_delta_schema(stream))
            return _positioned_file(reader.options(**options).load(), stream)
        case "rate":
            return _positioned_rate(_rate_range(spark, stream, start, end))
        case other:
            raise Refused(f"connector {other!r} can't be read again", place=stream.place)


def _rate_range(spark: SparkSession, stream: Stream, start: Offset | None, end: Offset) -> DataFrame:
    """`rate-micro-batch` gives each batch of `rows-per-batch` rows one timestamp, the batch's start."""
    options = _rate_options(stream)
    rows, advance = int(options["rowsPerBatch"]), int(options["advanceMillisPerBatch"])
    first = int(start["offset"]) if start else 0
    values = spark.range(first, int(end["offset"])).withColumnRenamed("id", "value")
    at = f"timestamp_millis({options['startTimestamp']}L + (value DIV {rows}L) * {advance}L)"
    return values.select(F.expr(at).alias("timestamp"), "value")


def _kafka_note(lake: Lake, stream: Stream) -> Path:
    return Path(lake.files, f"{stream.name}.begin.json")


# ---- position columns --------------------------------------------------------------------------
def _positioned_file(raw: DataFrame, stream: Stream) -> DataFrame:
    rest = [F.col(f"`{name}`") for name in raw.columns if name not in POSITION_NAMES]
    at = F.timestamp_millis("__at").alias("_timestamp")
    if stream.connector == GIVEN:
        offset = F.col("__file") + F.col("__line")
        partition, position = F.col("__partition").cast("int"), offset.cast("string")
    else:
        offset = F.struct(F.col("__file").alias("file"), F.col("__line").alias("line"))
        delta = stream.connector == "delta"
        partition = F.lit(0) if delta else F.col("__partition")
        position = F.concat_ws(":", "__file", "__line")
    return raw.select(
        partition.alias("_partition"), offset.alias("_offset"), at, position.alias("__position"), *rest
    )


def _positioned_kafka(raw: DataFrame) -> DataFrame:
    return raw.select(
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
        F.col("offset").cast("string").alias("__position"),
        F.col("value").alias("__value"),
    )


def _positioned_rate(raw: DataFrame) -> DataFrame:
    return raw.select(
        F.lit(0).alias("_partition"),
        F.col("value").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
        F.col("value").cast("string").alias("__position"),
        *RATE,
    )


# ---- options -----------------------------------------------------------------------------------
def _file_schema(stream: Stream, header: tuple[str, ...]) -> str:
    if stream.option("format", "json") == "parquet":
        return ", ".join([POSITION, *(f"`{c.name}` {c.type}" for c in stream.physical)])
    return LINES_UNDER_HEADER if header else LINES


def _file_options(lake: Lake, stream: Stream, header: tuple[str, ...]) -> dict[str, str]:
    form = stream.option("format", "json")
    options = {
        "index": index_file(lake, stream),
        "format": form,
        "limit": stream.option("max-files-per-batch", "1000"),
    }
    if form == "csv":
        passed = reader_options(stream)
        options |= {f"csv.{name}": passed[name] for name in ("sep", "quote", "escape") if name in passed}
        options["comment"] = passed.get("comment", "")
    if header:
        options |= {"header": json.dumps(header), "declared": json.dumps([c.name for c in stream.physical])}
    return options


def _delta_schema(stream: Stream) -> StructType:
    """The position, and the declared columns as the table has them; one that it lacks is left out."""
    declared = {column.name.casefold() for column in stream.physical}
    table = StructType.fromJson(table_schema(_existing(stream)))
    position = StructType.fromDDL(POSITION)
    assert isinstance(position, StructType)
    own = [StructField(f.name, f.dataType) for f in table.fields if f.name.casefold() in declared]
    return StructType([*position.fields, *own])


def _rate_options(stream: Stream) -> dict[str, str]:
    start = stream.option("start-ms", "0")
    if int(start) < 0:
        raise Refused(f"stream {stream.name}: a rate stream can't start before 1970", place=stream.place)
    return {
        "rowsPerBatch": stream.option("rows-per-batch", "1000"),
        "advanceMillisPerBatch": stream.option("advance-per-batch-ms", "1000"),
        "startTimestamp": start,
    }


def _header(stream: Stream) -> tuple[str, ...]:
    """The names by which CSV files with a header are parsed, those of the first file; () without a header.

    Raises Refused where the header lacks a declared column; a later file without it is a file of bad records.
    Parquet has its names inside, and is checked alike.
    """
    form = stream.option("format", "json")
    headed = under_header(stream)
    if stream.connector != "files" or not (headed or form == "parquet"):
        return ()
    passed = reader_options(stream)
    declared = tuple(column.name for column in stream.physical)
    for _, path, stat in fileindex.files_of(stream.option("path")):
        try:
            if form == "parquet":
                _complete(stream, path, pq.read_schema(path).names if stat.st_size else declared)
                return ()
            line = first_record(path, passed.get("comment", ""))
        except (pa.ArrowInvalid, OSError) as error:
            raise Refused(f"stream {stream.name}: {path} is no {form} file: {_first_line(error)}") from error
        if line is not None:
            names = csvlayout.names_of(line, csvlayout.dialect_of(passed))
            _complete(stream, path, names)
            return tuple(names)
    return declared if headed else ()


def _complete(stream: Stream, path: str, names: list[str] | tuple[str, ...]) -> None:
    lacking = {c.name.casefold() for c in stream.physical} - {name.casefold() for name in names}
    if lacking:
        raise Refused(
            f"stream {stream.name}: {path} lacks the column {', '.join(sorted(lacking))}",
            hint=f"it has: {', '.join(names)}",
            place=stream.place,
        )


def _folder(stream: Stream) -> str:
    path = stream.option("path")
    if not Path(path).is_dir():
        raise Refused(
            f"stream {stream.name}: there is no folder {path}",
            hint="the folder must be there, empty or not; files may come at any time",
            place=stream.place,
        )
    return path


def _existing(stream: Stream) -> str:
    path = stream.option("path")
    if not Path(path, "_delta_log").is_dir():
        raise Refused(f"stream {stream.name}: there is no Delta table at {path}", place=stream.place)
    return path


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
