"""The gate of a pipeline: each result against the single-partition baseline, and a suite of checks.

Reads, never changes a result. A verdict is `equal` only where the baseline could be computed from all the
input that the batch log names; where that is not so it is `unknown`, whatever the rows look like.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from expectations import compare
from expectations.baseline import late_rows_in_time, reader_for, run_baseline
from expectations.history import History, read_history
from expectations.inputs import Reader
from expectations.known import columns_of, facts_of, result_bounds
from expectations.suites import Facts, checks_of
from expectations.verdict import NAMED, Check, Difference, ResultVerdict, Verdict
from headrace.errors import Refused, Unknown
from headrace.runtime.lake import Lake, lake_of
from headrace.runtime.session import spark_session
from headrace.sql.compile import compile_file
from headrace.sql.nodes import HIDDEN, Pipeline, Result


@dataclass(frozen=True, slots=True)
class GateRequest:
    """What to check. `since` is ISO 8601: only windows that end after it; `results` () means all.

    `docs` and `verdict_path` default to the lake's `_headrace/gate` folder.
    """

    pipeline_path: str
    lake: str = ""
    since: str | None = None
    results: tuple[str, ...] = ()
    variables: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    docs: Path | None = None
    verdict_path: Path | None = None


@dataclass(frozen=True, slots=True)
class _Compared:
    """A result that could be held against its baseline; the frames are held until the checks have run."""

    verdict: ResultVerdict
    facts: Facts
    found: DataFrame
    comparison: DataFrame
    extra_checks: tuple[Check, ...] = ()


@dataclass(frozen=True, slots=True)
class _Gate:
    """What every step needs."""

    spark: SparkSession
    pipeline: Pipeline
    lake: Lake
    folder: Path
    reader: Reader
    since: datetime | None = None


def run_gate(
    request: GateRequest,
    spark: SparkSession | None = None,
    *,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Verdict:
    """Compare, check, write the verdict and Data Docs. Raises Refused for a result or a time that isn't one."""
    begun, now = time.monotonic(), clock()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="great-expectations") as importing:
        great = importing.submit(importlib.import_module, "expectations.great")
        pipeline = compile_file(Path(request.pipeline_path), dict(request.variables))
        wanted = _wanted(pipeline, request.results)
        since = _instant(request.since)
        spark = spark or spark_session("headrace-gate")
        lake = lake_of(pipeline, request.lake)
        folder = gate_folder(lake, request)
        gate = _Gate(spark, pipeline, lake, folder, reader_for(spark, pipeline, lake), since)
        try:
            judged = [_judge(gate, result) for result in wanted]
            docs = request.docs or folder / "data_docs"
            results = _checked(great.result(), judged, docs)
        finally:
            _release(gate)
    verdict = Verdict(
        pipeline=pipeline.name,
        lake=lake.root,
        at=now.isoformat(timespec="seconds"),
        tolerance=compare.TOLERANCE,
        since=request.since or "",
        results=results,
        docs=str(docs / "index.html") if any(result.checks for result in results) else "",
        seconds=round(time.monotonic() - begun, 3),
    )
    _write(verdict, request.verdict_path or folder / "verdict.json", now)
    return verdict


def gate_folder(lake: Lake, request: GateRequest) -> Path:
    """Where the gate leaves what it found."""
    if "://" in lake.root and request.verdict_path is None:
        raise Refused(
            f"the lake {lake.root} is not a local folder", hint="say where the verdict is to be written"
        )
    return request.verdict_path.parent if request.verdict_path else Path(lake.root, "_headrace", "gate")


def _wanted(pipeline: Pipeline, names: tuple[str, ...]) -> list[Result]:
    known = {result.name: result for result in pipeline.results}
    for name in names:
        if name not in known:
            raise Refused(f"pipeline {pipeline.name} has no result {name}", hint=f"it has {', '.join(known)}")
    return [known[name] for name in names] or list(known.values())


def _instant(text: str | None) -> datetime | None:
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Refused(
            f"{text!r} is not a time", hint="write ISO 8601, for instance 2013-06-01T00:00:00Z"
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


# ---- one result --------------------------------------------------------------------------------
def _judge(gate: _Gate, result: Result) -> _Compared | ResultVerdict:
    try:
        history = read_history(gate.lake, result.name)
        return _compare(gate, result, history)
    except Unknown as error:
        return ResultVerdict(result.name, "unknown", reason=error.message)
    except PySparkException as error:
        return ResultVerdict(result.name, "unknown", reason=f"Spark failed: {str(error).splitlines()[0]}")


def _compare(gate: _Gate, result: Result, history: History) -> _Compared:
    found = _found(gate, result)
    shown = [name for name in found.columns if not name.startswith(HIDDEN) and name != "_op"]
    path = str(gate.folder / "expected" / result.name)
    windows = run_baseline(gate.reader, result, history, shown, path).plain.windows
    expected = gate.spark.read.parquet(path)
    types = _types(expected, found)
    bounds = result_bounds(result)
    strict = windows is not None and windows.kind == "session"
    closed = _region(gate, result, history, strict=strict)
    left = expected.where(closed.format(end="__window_end")) if windows else expected
    region = closed.format(end=bounds[1]) if bounds else "true"
    right = found.where(region)
    net = "_op" in found.columns
    columns = columns_of(result, shown)
    rows = compare.comparison(left, _net(right, shown) if net else right, columns).persist()
    expected_rows, found_rows, differing = _counted(rows)
    late = late_rows_in_time(gate.reader, result, history)
    verdict = ResultVerdict(
        result.name,
        "equal",
        rows=expected_rows,
        differing=differing,
        differences=_named(rows) if differing else (),
        watermark_ms=history.closed_ms,
        batches=len(history.batches),
        not_compared=DeltaTable(gate.lake.result(result.name)).count() - found_rows if bounds else 0,
    )
    view = f"headrace_comparison_{result.name}"
    rows.createOrReplaceTempView(f"`{view}`")
    facts = facts_of(gate.pipeline, result, shown)
    facts = replace(facts, region=region, expected_rows=expected_rows, net=net, comparison=f"`{view}`")
    own = (types, Check("no row in time was rejected as late", holds=late == 0, against=late))
    return _Compared(verdict, facts, found, rows, own)


def _counted(rows: DataFrame) -> tuple[int, int, int]:
    """How many rows were expected, found, and speak for a difference."""
    against = F.sum(F.when(F.col("kind") != "equal", F.col("times")))
    first = rows.agg(F.sum("expected"), F.sum("found"), against).first()
    return (int(first[0] or 0), int(first[1] or 0), int(first[2] or 0)) if first else (0, 0, 0)


def _found(gate: _Gate, result: Result) -> DataFrame:
    path = gate.lake.result(result.name)
    if not DeltaTable.is_deltatable(path):
        raise Unknown(f"{result.name}: there is no result table at {path}")
    return gate.spark.read.format("delta").load(path)


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


def _region(gate: _Gate, result: Result, history: History, *, strict: bool) -> str:
    """Which windows are compared: a SQL condition over the column `{end}`."""
    conditions = ["true"]
    if result.emit == "final":
        closed = history.closed_ms
        sign = "<" if strict else "<="
        conditions.append("false" if closed is None else f"unix_micros(`{{end}}`) {sign} {closed * 1000}L")
    if gate.since is not None:
        micros = int(gate.since.timestamp() * 1_000_000)
        conditions.append(f"unix_micros(`{{end}}`) > {micros}L")
    return " AND ".join(conditions)


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


# ---- all results -------------------------------------------------------------------------------
def _checked(great: Any, judged: list[_Compared | ResultVerdict], docs: Path) -> tuple[ResultVerdict, ...]:
    """Run the suites of the results that were compared; a check that fails makes a result unequal."""
    suites = [
        great.Suite(
            one.verdict.result, checks_of(one.facts), {"result": one.found, "comparison": one.comparison}
        )
        for one in judged
        if isinstance(one, _Compared)
    ]
    outcomes = great.run_suites(suites, docs) if suites else {}
    return tuple(one if isinstance(one, ResultVerdict) else _with_checks(one, outcomes) for one in judged)


def _with_checks(one: _Compared, outcomes: dict[str, tuple[Check, ...]]) -> ResultVerdict:
    checks = (*one.extra_checks, *outcomes[one.verdict.result])
    holds = all(check.holds for check in checks) and one.verdict.differing == 0
    one.comparison.unpersist()
    return replace(one.verdict, checks=checks, outcome="equal" if holds else "unequal")


def _release(gate: _Gate) -> None:
    for frame in gate.reader.held.values():
        frame.unpersist()


def _write(verdict: Verdict, path: Path, now: datetime) -> None:
    """The verdict as JSON, under its name and under its time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = verdict.to_json() + "\n"
    for target in (path, path.with_name(f"{path.stem}-{now:%Y%m%dT%H%M%S}{path.suffix}")):
        part = target.with_suffix(".part")
        part.write_text(text, encoding="utf-8")
        part.replace(target)
