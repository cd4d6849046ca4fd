"""A case -> a report: the production compiler and runtime, a clock that is set by hand, a folder of its own.

Each step is finished before the next begins: its rows are consumed, and the windows that the watermark closes
then are in the result. Nothing here sleeps.
"""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import DataType, StructField, StructType

from headrace.cases.arrange import Action, Deliver, Publish, arrange, can_be_joined, is_changelog
from headrace.cases.case import (
    Advance,
    BadCase,
    Case,
    CaseReport,
    Expected,
    Flush,
    KnowPartitions,
    Later,
    Mark,
    Rescale,
    Restart,
    SetClock,
    Variant,
)
from headrace.cases.compare import match_any_order, match_in_order
from headrace.cases.difference import difference
from headrace.cases.instants import iso_of
from headrace.errors import HeadraceError, Refused
from headrace.runtime.lake import Lake
from headrace.runtime.query import LivePipeline
from headrace.runtime.rescale import rescale
from headrace.runtime.session import CONF, spark_session
from headrace.runtime.sinks import read_result
from headrace.runtime.tables import publish
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import Column, Pipeline
from headrace.sql.source import NotYet

START_MS: Final = 1_767_225_600_000  # 2026-01-01T00:00:00Z, where a case's clock begins
_MEMORY: Final = Path("/dev/shm")
_ROOM: Final = 512 * 1024 * 1024  # bytes that must be free in memory, else the disk is used


@dataclass(slots=True)
class _Stage:
    """A run on its way. The clock is moved by steps alone; `live` is None until the first batch or control step."""

    spark: SparkSession
    pipeline: Pipeline
    folder: Path
    partitions: int
    now_ms: int = START_MS
    live: LivePipeline | None = None

    @property
    def lake(self) -> Lake:
        return Lake(str(self.folder / "lake"))


def case_session(app: str) -> SparkSession:
    """The production session for many short runs: the JVM's optimizing compiler would cost more than it gives."""
    options = {
        "spark.driver.extraJavaOptions": f"{CONF['spark.driver.extraJavaOptions']} -XX:TieredStopAtLevel=1"
        " -XX:ReservedCodeCacheSize=240m",  # of one level alone it would be 48m, and code be made again and again
        "spark.sql.streaming.stateStore.maintenanceInterval": "1h",  # no run lasts so long
        "spark.buffer.pageSize": "2m",  # a task's first row takes a page: 64 MiB of zeros by default
    }
    return spark_session(app, conf=options)


def variants(case: Case, partitions: tuple[int, ...]) -> tuple[Variant, ...]:
    """The ways in which the case must be run: each N, and each N with all batches joined where the case allows it."""
    plain = tuple(Variant(n) for n in partitions)
    try:
        pipeline = compile_pipeline(case.sql)
    except Refused:
        return plain
    return plain + (tuple(Variant(n, True) for n in partitions) if can_be_joined(case, pipeline) else ())


def run_case(
    spark: SparkSession, case: Case, partitions: int, joined: bool = False, keep: bool = False
) -> CaseReport:
    """Run a case once. Every error of the run becomes part of the report."""
    started = time.perf_counter()
    with _folder(keep) as folder:
        failure, error = _outcome(spark, case, folder, Variant(partitions, joined))
    seconds = time.perf_counter() - started
    return CaseReport(case, Variant(partitions, joined), seconds, failure, error, str(folder) if keep else "")


def _outcome(
    spark: SparkSession, case: Case, folder: Path, variant: Variant
) -> tuple[str, HeadraceError | None]:
    try:
        found = _play(spark, case, folder, variant)
    except (BadCase, NotYet) as error:
        return error.render(case.file if error.text == case.text else ""), error
    except HeadraceError as error:
        return _judge_error(case, error)
    except Exception:  # noqa: BLE001 - whatever a run dies of is the case's failure, and the other cases go on
        return traceback.format_exc(), None
    if case.then.error and not found:
        return f"an error that says {case.then.error!r} was expected, and none came", None
    return found, None


def _judge_error(case: Case, error: HeadraceError) -> tuple[str, HeadraceError | None]:
    said = error.render()
    if not case.then.error:
        return said, error
    if case.then.error.casefold() in said.casefold():
        return "", None
    return f"the error should say {case.then.error!r}; it says:\n{said}", error


def _play(spark: SparkSession, case: Case, folder: Path, variant: Variant) -> str:
    """Take all actions; the first difference, or ''."""
    for step in case.steps:
        if isinstance(step, Later):
            raise NotYet(f"not supported yet: step {step.word}", place=step.place, text=case.text)
    pipeline = compile_pipeline(case.sql, name=_slug(case.name))
    actions = arrange(case, pipeline, _schema_of, joined=variant.joined)
    stage = _Stage(spark, pipeline, folder, variant.partitions)
    try:
        found = _take_all(stage, actions, case.then)
    except BaseException:
        with suppress(HeadraceError):  # the first error is the one to tell
            _stop(stage)
        raise
    _stop(stage)
    return found


def _take_all(stage: _Stage, actions: tuple[Action, ...], then: Expected) -> str:
    for number, action in enumerate(actions, 1):
        if isinstance(action, Expected):
            found = _differences(stage, action)
            if found:
                return f"expect (step {number} of {len(actions)}):\n{found}"
        else:
            _take(stage, action)
    _running(stage)
    return "" if then.error else _differences(stage, then)


def _take(stage: _Stage, action: Action) -> None:
    match action:
        case Publish(table, rows):
            publish(stage.lake, table, rows)
            if stage.live:
                stage.live.pump()
        case Deliver(batch):  # before a start, so that the first batch of every query has what came first
            _made(stage).deliver(batch, stage.now_ms)
            _running(stage).settle()
        case SetClock(ms):
            _move_clock(stage, ms)
        case Advance(ms):
            _running(stage)
            _move_clock(stage, stage.now_ms + ms)
        case KnowPartitions(stream, count, _):
            live = _running(stage)
            live.know_partitions(stream, count)
            live.settle()
        case Flush():
            _running(stage).flush()
        case Restart() | Rescale():
            _running(stage)
            _stop(stage)
            if isinstance(action, Rescale):
                stage.partitions = action.partitions
                rescale(stage.spark, stage.pipeline, stage.lake, stage.partitions)
            _running(stage).settle()
        case Later() | Expected():
            raise AssertionError(f"not an action to take: {action}")


def _move_clock(stage: _Stage, ms: int) -> None:
    stage.now_ms = ms
    if stage.live:
        stage.live.pump()
        stage.live.settle()


def _running(stage: _Stage) -> LivePipeline:
    """The live pipeline, started over the lake where it is not running."""
    live = _made(stage)
    if not live.running:
        live.start()
    return live


def _made(stage: _Stage) -> LivePipeline:
    """The live pipeline, which may not be started yet."""
    if stage.live is None:
        stage.live = LivePipeline(
            stage.spark,
            stage.pipeline,
            stage.lake,
            clock=lambda: stage.now_ms,
            partitions=stage.partitions,
        )
    return stage.live


def _stop(stage: _Stage) -> None:
    live, stage.live = stage.live, None
    if live:
        live.stop()


def _differences(stage: _Stage, expected: Expected) -> str:
    live = _running(stage)
    found = []
    for result in expected.results:
        actual = read_result(stage.lake, stage.pipeline.result(result.name)).to_pylist()
        in_order = is_changelog(stage.pipeline, result.name)
        matching = (match_in_order if in_order else match_any_order)(list(result.rows), actual)
        if not matching.complete:
            found.append(difference(result.name, list(result.rows), actual, matching, in_order=in_order))
    counted = live.metrics() if expected.metrics else {}
    for name, count in expected.metrics:
        if counted[name] != count:
            found.append(f"metric {name}: {count} expected, {counted[name]} counted")
    if expected.watermark and (mark := live.watermark()) != expected.watermark.ms:
        found.append(f"watermark: {_instant(expected.watermark)} expected, it is {_instant(Mark(mark))}")
    return "\n".join(found)


def _instant(mark: Mark) -> str:
    return "none" if mark.ms is None else f"{mark.ms / 1000:g} ({iso_of(mark.ms * 1000)})"


def _schema_of(columns: tuple[Column, ...]) -> pa.Schema:
    kinds = {column.name: DataType.fromDDL(column.type) for column in columns}
    return to_arrow_schema(StructType([StructField(n, kind) for n, kind in kinds.items()]), timezone="UTC")


def _slug(name: str) -> str:
    return re.sub(r"\W+", "_", name.casefold()).strip("_")[:60] or "case"


@contextmanager
def _folder(keep: bool) -> Iterator[Path]:
    """A folder for one run, removed afterwards unless it is to be kept."""
    if keep:
        yield Path(tempfile.mkdtemp(prefix="headrace-case-"))
        return
    folder = Path(tempfile.mkdtemp(dir=_all_folders()))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def _all_folders() -> Path:
    """Where this process's runs lie, in memory where there is room.

    It goes at the process's end: Spark's maintenance of state stores may write into a run's folder again
    after the run has ended and its folder was removed.
    """
    in_memory = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM
    folder = Path(tempfile.mkdtemp(prefix="headrace-cases-", dir=_MEMORY if in_memory else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
