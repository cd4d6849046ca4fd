"""The gate of a pipeline: each result against the single-partition baseline, and a suite of checks.

Reads, never changes a result. A verdict is `equal` only where the baseline could be computed from all the
input that the batch log names; where that is not so it is `unknown`, whatever the rows look like.
"""

from __future__ import annotations

import importlib
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from expectations import compare
from expectations.baseline import reader_for
from expectations.judge import Compared, Gate, judge
from expectations.suites import Suite, checks_of
from expectations.verdict import Check, ResultVerdict, Verdict
from headrace.errors import Refused
from headrace.runtime.lake import Lake, bound, lake_of
from headrace.runtime.session import spark_session
from headrace.sql.compile import compile_file
from headrace.sql.nodes import Pipeline, Result


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


def run_gate(
    request: GateRequest,
    spark: SparkSession | None = None,
    *,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Verdict:
    """Compare, check, write the verdict and Data Docs. Raises Refused for a result or a time that isn't one."""
    begun, now = time.monotonic(), clock()
    pipeline = compile_file(Path(request.pipeline_path), dict(request.variables))
    wanted, since = _wanted(pipeline, request.results), _instant(request.since)
    lake = lake_of(pipeline, request.lake)
    folder = gate_folder(lake, request)
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="great-expectations") as importing:
        great = importing.submit(importlib.import_module, "expectations.great")
        spark = spark or spark_session("headrace-gate")
        pipeline = bound(pipeline, lake)
        gate = Gate(spark, pipeline, lake, folder, reader_for(spark, pipeline, lake), since)
        try:
            judged = [judge(gate, result) for result in wanted]
            docs = request.docs or _emptied(folder / "data_docs")
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


def _emptied(folder: Path) -> Path:
    """The gate's own folder of Data Docs shows the newest verdict alone."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


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
        if not pipeline.in_delta(known[name]):
            raise Refused(f"the result {name} is in no Delta table", hint="the gate compares tables")
    wanted = [known[name] for name in names] or [one for one in known.values() if pipeline.in_delta(one)]
    if not wanted:
        raise Refused(
            f"no result of pipeline {pipeline.name} is in a Delta table", hint="the gate compares tables"
        )
    return wanted


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


# ---- all results -------------------------------------------------------------------------------
def _checked(great: Any, judged: list[Compared | ResultVerdict], docs: Path) -> tuple[ResultVerdict, ...]:
    """Run the suites of the results that were compared; a check that fails makes a result unequal."""
    suites = [
        Suite(one.verdict.result, checks_of(one.facts), one.found)
        for one in judged
        if isinstance(one, Compared)
    ]
    outcomes = great.run_suites(suites, docs) if suites else {}
    return tuple(one if isinstance(one, ResultVerdict) else _with_checks(one, outcomes) for one in judged)


def _with_checks(one: Compared, outcomes: dict[str, tuple[Check, ...]]) -> ResultVerdict:
    checks = (*one.extra_checks, *outcomes[one.verdict.result])
    holds = all(check.holds for check in checks) and one.verdict.differing == 0
    one.comparison.unpersist()
    return replace(one.verdict, checks=checks, outcome="equal" if holds else "unequal")


def _release(gate: Gate) -> None:
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
