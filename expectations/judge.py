"""One result against its baseline: the rows compared, and what its checks must know.

Raises nothing for a result that can't be judged: its verdict is `unknown`, with the reason. A failure of
Spark that a new try may not meet leaves as HeadraceError.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from expectations import compare
from expectations.baseline import bad_records_lost, late_rows_in_time, run_baseline
from expectations.history import History, read_history
from expectations.inputs import Reader
from expectations.known import columns_of, facts_of, result_bounds
from expectations.suites import Facts
from expectations.verdict import NAMED, Check, Difference, ResultVerdict
from headrace.errors import Unknown
from headrace.runtime.lake import Lake
from headrace.sql.nodes import HIDDEN, Pipeline, Result


@dataclass(frozen=True, slots=True)
class Compared:
    """A result that could be held against its baseline; the frames are held until the checks have run."""

    verdict: ResultVerdict
    facts: Facts
    found: DataFrame
    comparison: DataFrame
    extra_checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class Gate:
    """What every step needs."""

    spark: SparkSession
    pipeline: Pipeline
    lake: Lake
    folder: Path
    reader: Reader
    since: datetime | None = None


def judge(gate: Gate, result: Result) -> Compared | ResultVerdict:
    try:
        history = read_history(gate.lake, result.name)
        return _compare(gate, result, history)
    except Unknown as error:
        return ResultVerdict(result.name, "unknown", reason=error.message)
    except AnalysisException as error:
        reason = f"the rows can't be compared: {str(error).splitlines()[0]}"
        return ResultVerdict(result.name, "unknown", reason=reason)


def _compare(gate: Gate, result: Result, history: History) -> Compared:
    found = _found(gate, result)
    shown = [name for name in found.columns if not name.startswith(HIDDEN) and name != "_op"]
    path = str(gate.folder / "expected" / result.name)
    baseline = run_baseline(gate.reader, result, history, shown, path)
    windows = baseline.plain.windows
    expected = gate.spark.read.schema(baseline.schema).parquet(path)
    types = _types(expected, found)
    bounds = result_bounds(result)
    columns = columns_of(result, shown)
    _check_columns(result, (expected, found), columns, bounds if windows else None)
    strict = windows is not None and windows.kind == "session"
    closed = _region(gate, result, history, strict=strict)
    left = expected.where(closed.format(end="__window_end")) if windows else expected
    if baseline.plain.timed:  # a row comes out when the watermark is strictly past its time
        due = _behind("__row_time", history.watermark_ms, strict=True)
        left = expected.where(f"__row_time IS NULL OR {due}")
    region = closed.format(end=bounds[1]) if bounds else "true"
    right = found.where(region)
    net = "_op" in found.columns
    rows = compare.comparison(left, _net(right, shown) if net else right, columns).persist()
    expected_rows, found_rows, differing = _counted(rows)
    verdict = ResultVerdict(
        result.name,
        "equal",
        rows=expected_rows,
        differing=differing,
        differences=_named(rows) if differing else (),
        watermark_ms=history.watermark_ms,
        batches=len(history.batches),
        not_compared=DeltaTable(gate.lake.result(result.name)).count() - found_rows if bounds else 0,
    )
    view = f"`headrace_comparison_{result.name}`"
    rows.createOrReplaceTempView(view)
    facts = facts_of(gate.pipeline, result, shown)
    facts = replace(facts, region=region, expected_rows=expected_rows, net=net, comparison=view)
    return Compared(verdict, facts, found, rows, (types, *_about_rejected(gate, result, history)))


def _about_rejected(gate: Gate, result: Result, history: History) -> tuple[Check, Check]:
    """Whether the records that took no part are those that had to."""
    late = late_rows_in_time(gate.reader, result, history)
    lost = bad_records_lost(gate.reader, history)
    return (
        Check("no row in time was rejected as late", holds=late == 0, against=late),
        Check("each bad record is in rejected", holds=lost == 0, against=lost),
    )


def _counted(rows: DataFrame) -> tuple[int, int, int]:
    """How many rows were expected, found, and speak for a difference."""
    against = F.sum(F.when(F.col("kind") != "equal", F.col("times")))
    first = rows.agg(F.sum("expected"), F.sum("found"), against).first()
    return (int(first[0] or 0), int(first[1] or 0), int(first[2] or 0)) if first else (0, 0, 0)


def _found(gate: Gate, result: Result) -> DataFrame:
    """The result table at its newest version: its parquet files, or by Spark's Delta where they aren't all of it."""
    path = gate.lake.result(result.name)
    try:
        table = DeltaTable(path)
    except TableNotFoundError as error:
        raise Unknown(f"{result.name}: there is no result table at {path}") from error
    if table.metadata().partition_columns or "deletionVectors" in (table.protocol().reader_features or ()):
        return gate.spark.read.format("delta").option("versionAsOf", table.version()).load(path)
    schema = StructType.fromJson(json.loads(table.schema().to_json()))
    files = table.file_uris()
    return gate.spark.read.schema(schema).parquet(*files) if files else gate.spark.createDataFrame([], schema)


def _check_columns(
    result: Result,
    sides: tuple[DataFrame, DataFrame],
    columns: compare.Columns,
    bounds: tuple[str, str] | None,
) -> None:
    """Both sides must have the key, and the result the window that its text has."""
    lacking = {key for side in sides for key in columns.keys if key not in side.columns}
    lacking |= {name for name in bounds or () if name not in sides[1].columns}
    if lacking or bool(bounds) != bool(result_bounds(result)):
        what = f"the columns {', '.join(sorted(lacking))}" if lacking else "its window"
        raise Unknown(f"{result.name}: the gate does not find {what} in the result and in the baseline")


def _types(expected: DataFrame, found: DataFrame) -> Check:
    other = {field.name: field.dataType for field in found.schema.fields}
    unlike = [
        f"{field.name}: {field.dataType.simpleString()} expected, {other[field.name].simpleString()} found"
        for field in expected.schema.fields
        if field.name in other and field.dataType.simpleString() != other[field.name].simpleString()
    ]
    return Check(
        "columns have the types of the query", holds=not unlike, against=len(unlike), detail="; ".join(unlike)
    )


def _region(gate: Gate, result: Result, history: History, *, strict: bool) -> str:
    """Which windows are compared: a SQL condition over the column `{end}`."""
    conditions = ["true"]
    if result.emit == "final":
        conditions.append(_behind("{end}", history.watermark_ms, strict=strict))
    if gate.since is not None:
        micros = int(gate.since.timestamp() * 1_000_000)
        conditions.append(f"unix_micros(`{{end}}`) > {micros}L")
    return " AND ".join(conditions)


def _behind(column: str, watermark_ms: int | None, *, strict: bool) -> str:
    """The condition that a time is at or before the watermark; `strict`: a millisecond before it."""
    if watermark_ms is None:
        return "false"
    return f"unix_micros(`{column}`) <= {(watermark_ms - strict) * 1000}L"


def _net(changes: DataFrame, shown: list[str]) -> DataFrame:
    """A changelog's rows that stand at its end: given more often than taken back."""
    sign = F.when(F.col("_op").isin("+I", "+U"), 1).otherwise(-1)
    standing = changes.groupBy(*[f"`{name}`" for name in shown]).agg(F.sum(sign).alias("__times"))
    return standing.where("__times > 0").withColumn("__nth", F.explode(F.sequence(F.lit(1), "__times")))


def _named(rows: DataFrame) -> tuple[Difference, ...]:
    """The first differing rows, by kind and key; of a changed row one entry for each column."""
    first = (
        rows.where("kind <> 'equal'")
        .orderBy("kind", F.map_entries("key").cast("string"))
        .limit(NAMED)
        .collect()
    )
    return tuple(
        Difference(
            row["kind"], tuple(row["key"].items()), one["column"], one["expected"] or "", one["found"] or ""
        )
        for row in first
        for one in row["differing"]
    )
