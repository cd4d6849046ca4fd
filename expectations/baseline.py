"""The baseline: a result's own text as one Spark batch at one partition over what the query consumed.

Runs in a session of its own (one shuffle partition, its own temp views) and leaves its rows as a parquet
file in the lake's gate folder, so that a verdict can be looked into afterwards. It shares no code with
`sql/plan.py` and `runtime/lower.py`. Raises Unknown where the rows can't be computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    ParseException,
    PySparkException,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from expectations.history import History
from expectations.inputs import Reader, accepted, lost_records, rejected_as_late, table_rows
from expectations.known import hidden_keys, waits_of
from expectations.relations import Names
from expectations.rewrite import Plain, plain
from expectations.words import read
from headrace.errors import HeadraceError, Unknown
from headrace.runtime.lake import Lake
from headrace.runtime.session import own_session
from headrace.sql.nodes import Pipeline, Result, Stream

ONE_PARTITION: Mapping[str, str] = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    # The input is held in memory, and Spark would skip what has only NaN: no maximum counts it.
    "spark.sql.inMemoryColumnarStorage.partitionPruning": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
}


ABOUT_THE_TEXT = (
    AnalysisException,
    ParseException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
)


@dataclass(frozen=True, slots=True)
class Expected:
    """The baseline's rows: a parquet folder whose columns are named like the result table's."""

    path: str
    plain: Plain
    schema: StructType


def reader_for(spark: SparkSession, pipeline: Pipeline, lake: Lake) -> Reader:
    """A reader in a new session, set up for one partition."""
    session = own_session(spark)
    for key, value in ONE_PARTITION.items():
        session.conf.set(key, value)
    return Reader(session, pipeline, lake)


def plain_text(pipeline: Pipeline, result: Result, history: History) -> Plain:
    """The result's query for Spark batch, its hidden group keys appended in the order of GROUP BY."""
    names = Names(
        streams=frozenset(stream.name.lower() for stream in pipeline.streams),
        tables=frozenset(table.name.lower() for table in pipeline.tables),
        views=dict(pipeline.views),
        zone=pipeline.setting("time.zone", "UTC"),
        several_versions=len(history.versions) > 1,
        waits=waits_of(result),
    )
    return plain(result.query, names, hidden_keys(result).values())


def run_baseline(reader: Reader, result: Result, history: History, columns: list[str], path: str) -> Expected:
    """Compute the baseline's rows and leave them at `path`, under the names of the result table's columns."""
    text = plain_text(reader.pipeline, result, history)
    judged = "__late_us" in text.text
    _register_tables(reader, result, history)
    for stream in _streams(reader, history):
        accepted(reader, history, stream, by_watermark=judged).createOrReplaceTempView(f"`{stream.name}`")
    rows = _query(reader, result, text)
    named = _named(rows, result, text, columns)
    try:
        named.coalesce(1).write.mode("overwrite").parquet(path)
    except PySparkException as error:
        raise _refused(result, error) from error
    return Expected(path, text, named.schema)


def late_rows_in_time(reader: Reader, result: Result, history: History) -> int:
    """How many windows the rows that were rejected as late could still have reached; 0 is right.

    The same text over the rejected rows alone: whatever comes out was rejected wrongly. Only for windows.
    """
    text = plain_text(reader.pipeline, result, history)
    if text.windows is None or text.windows.kind == "session":
        return 0
    found = False
    for stream in _streams(reader, history):
        late = rejected_as_late(reader, history, stream)
        found = found or late is not None
        rows = accepted(reader, history, stream).limit(0) if late is None else late
        rows.createOrReplaceTempView(f"`{stream.name}`")
    return _query(reader, result, text).count() if found else 0


def bad_records_lost(reader: Reader, history: History) -> int:
    """How many bad records of all streams took no part and are not in `rejected`; 0 is right."""
    return sum(lost_records(reader, history, stream) for stream in _streams(reader, history))


def _streams(reader: Reader, history: History) -> list[Stream]:
    names = {name for batch in history.batches for name in batch.offsets}
    return [stream for stream in reader.pipeline.streams if stream.name in names]


def _register_tables(reader: Reader, result: Result, history: History) -> None:
    written = {
        word.name for text in (result.query, *dict(reader.pipeline.views).values()) for word in read(text)
    }
    for table in reader.pipeline.tables:
        if table.name.lower() in written:
            table_rows(reader, history, table).createOrReplaceTempView(f"`{table.name}`")


def _query(reader: Reader, result: Result, text: Plain) -> DataFrame:
    try:
        return reader.spark.sql(text.text)
    except PySparkException as error:
        raise _refused(result, error) from error


def _named(rows: DataFrame, result: Result, text: Plain, columns: list[str]) -> DataFrame:
    """The baseline's columns by position under the result's names, hidden keys and window bounds behind."""
    hidden = [*hidden_keys(result), *(("__window_start", "__window_end") if text.windows else ())]
    hidden += ["__row_time"] if text.timed else []
    if len(rows.columns) != len(columns) + len(hidden):
        raise Unknown(
            f"{result.name}: the baseline has {len(rows.columns) - len(hidden)} columns, the result {len(columns)}"
        )
    return rows.toDF(*columns, *hidden)


def _refused(result: Result, error: PySparkException) -> HeadraceError:
    """Spark's error about the text or its values: the baseline is not known. Any other is a fault, worth a retry."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reason = next((line for line in lines if "is no longer there" in line), lines[0])
    if isinstance(error, ABOUT_THE_TEXT) or "is no longer there" in reason:
        return Unknown(f"{result.name}: Spark batch can't run the query's text: {reason}")
    return HeadraceError(f"{result.name}: the baseline failed: {lines[0]}", hint="\n".join(lines[-3:]))
