"""`python -m tests.fuzz.run FIRST COUNT [joins]`: fuzzed pipelines through the production runtime, judged by the gate.

Each is run as a stream, batch by batch, and its results are held against the single-partition baseline. One
that differs is made smaller while it still differs, and written as a case file with the baseline's answer.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq
import yaml
from pyspark.sql import SparkSession

from expectations.baseline import reader_for
from expectations.judge import Gate, judge
from expectations.verdict import ResultVerdict
from headrace.cases.run import START_MS, case_session
from headrace.errors import HeadraceError, Refused
from headrace.runtime.lake import Lake, bound
from headrace.runtime.query import LivePipeline
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import HIDDEN
from tests.fuzz.pipelines import FROM, JOINS, Delivery, Fuzzed, Query, Row, as_record, drawn

T = TypeVar("T")
ATTEMPTS = 60  # at making a failure smaller
FAILED = Path(__file__).parents[1] / "own_cases" / "fuzzed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a pipeline: '' where all results are equal, else the first result and why not."""

    result: str = ""
    problem: str = ""
    expected: tuple[dict[str, Any], ...] = ()


def outcome(spark: SparkSession, fuzzed: Fuzzed, folder: Path) -> Outcome:
    """Run and judge a pipeline in an empty folder."""
    try:
        pipeline = compile_pipeline(fuzzed.sql, name="fuzz")
    except Refused as refused:
        return Outcome("-", f"refused: {refused.render()}")
    lake = Lake(str(folder / "lake"))
    pipeline = bound(pipeline, lake)
    try:
        _stream(spark, fuzzed, lake)
    except HeadraceError as error:
        return Outcome("-", f"the run failed: {error.render()}")
    gate = Gate(spark, pipeline, lake, folder, reader_for(spark, pipeline, lake))
    for result in pipeline.results:
        found = judge(gate, result)
        verdict = found if isinstance(found, ResultVerdict) else found.verdict
        if isinstance(found, ResultVerdict):
            return Outcome(result.name, f"{verdict.outcome}: {verdict.reason}")
        failed = [check.name for check in found.extra_checks if not check.holds]
        found.comparison.unpersist()
        if verdict.differing or failed:
            rows = pq.read_table(folder / "expected" / result.name).to_pylist()
            return Outcome(result.name, f"{failed or verdict.differences}", tuple(rows))
    return Outcome()


def _stream(spark: SparkSession, fuzzed: Fuzzed, lake: Lake) -> None:
    def made() -> LivePipeline:
        pipeline = compile_pipeline(fuzzed.sql, name="fuzz")
        return LivePipeline(spark, pipeline, lake, clock=lambda: START_MS, partitions=fuzzed.partitions)

    live = made()
    try:
        for number, delivery in enumerate(fuzzed.batches):
            live.deliver(
                _by_stream(delivery, lambda source, rows: (source, [as_record(row) for row in rows]))
            )
            if not live.running:
                live.start()
            live.settle()
            if number in fuzzed.restarts:
                live.stop()
                live = made()
        if not live.running:
            live.start()
        live.flush()
    finally:
        live.stop()


def _by_stream(delivery: Delivery, told: Callable[[int, tuple[Row, ...]], T]) -> dict[str, list[T]]:
    """The parts of a delivery under the names of their streams."""
    found: dict[str, list[T]] = {}
    for stream, source, rows in delivery:
        found.setdefault(stream, []).append(told(source, rows))
    return found


# ---- a failure made smaller --------------------------------------------------------------------
def shrunk(spark: SparkSession, fuzzed: Fuzzed, first: Outcome) -> tuple[Fuzzed, Outcome]:
    """The smallest pipeline found that still fails in the same result's way of failing."""
    best, seen, attempts = fuzzed, first, 0
    progress = True
    while progress and attempts < ATTEMPTS:
        progress = False
        for smaller in _smaller(best):
            attempts += 1
            found = _alone(spark, smaller)
            if found.problem and found.problem.partition(":")[0] == seen.problem.partition(":")[0]:
                best, seen, progress = smaller, found, True
                break
            if attempts >= ATTEMPTS:
                break
    return best, seen


def _smaller(one: Fuzzed) -> Iterator[Fuzzed]:
    """The pipeline without one of its parts, the large ones first."""
    for queries in _without_one(one.queries):
        yield replace(one, queries=queries)
    if one.restarts:
        yield replace(one, restarts=frozenset())
    if one.salt:
        yield replace(one, salt=0)
    for n, batches in enumerate(_without_one(one.batches)):
        restarts = frozenset(r - (r > n) for r in one.restarts if r != n)
        yield replace(one, batches=batches, restarts=restarts)
    for n, query in enumerate(one.queries):
        for simpler in _simpler(query):
            yield replace(one, queries=(*one.queries[:n], simpler, *one.queries[n + 1 :]))
    for n, delivery in enumerate(one.batches):
        for fewer in _fewer_rows(delivery):
            yield replace(one, batches=(*one.batches[:n], fewer, *one.batches[n + 1 :]))


def _without_one(parts: tuple[T, ...]) -> Iterator[tuple[T, ...]]:
    if len(parts) > 1:
        yield from (parts[:n] + parts[n + 1 :] for n in range(len(parts)))


def _simpler(query: Query) -> Iterator[Query]:
    changes = [replace(query, where=""), replace(query, having="")]
    changes += [replace(query, calls=calls) for calls in _without_one(query.calls)]
    yield from (simpler for simpler in changes if simpler != query)


def _fewer_rows(delivery: Delivery) -> Iterator[Delivery]:
    for p, (stream, source, rows) in enumerate(delivery):
        for r in range(len(rows)):
            kept = rows[:r] + rows[r + 1 :]
            parts = (*delivery[:p], *(((stream, source, kept),) if kept else ()), *delivery[p + 1 :])
            if parts:
                yield parts


def _alone(spark: SparkSession, fuzzed: Fuzzed) -> Outcome:
    folder = Path(tempfile.mkdtemp(prefix="headrace-fuzz-"))
    try:
        return outcome(spark, fuzzed, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def as_case(fuzzed: Fuzzed, found: Outcome) -> str:
    """The pipeline as a case file; what must come out is the baseline's answer, where there is one."""
    given: list[Any] = []
    for number, delivery in enumerate(fuzzed.batches):
        given.append(
            _by_stream(
                delivery,
                lambda source, rows: {"partition": source, "rows": [_listed(fuzzed, row) for row in rows]},
            )
        )
        given += ["restart"] if number in fuzzed.restarts else []
    then = {found.result: [_shown(row) for row in found.expected]} if found.expected else {}
    case = {
        "name": f"fuzzed {fuzzed.seed}",
        "about": f"seed {fuzzed.seed}, N = {fuzzed.partitions}: {found.problem[:200]}",
        "sql": fuzzed.sql,
        "given": [*given, "flush"],
        "then": then,
    }
    return yaml.safe_dump(case, sort_keys=False, allow_unicode=True, width=120)


def _listed(fuzzed: Fuzzed, row: dict[str, Any]) -> list[Any]:
    ts = row["ts"]
    return [*(row[name] for name, _ in fuzzed.columns), None if ts is None else round(ts - FROM, 3)]


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {key: _plain(value) for key, value in row.items() if not key.startswith(HIDDEN)}


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return round((value.replace(tzinfo=UTC) - datetime.fromtimestamp(FROM, UTC)).total_seconds(), 3)
        case Decimal():
            return str(value)
        case _:
            return value


# ---- many ------------------------------------------------------------------------------------------
def _judged(seed: int, kinds: tuple[str, ...]) -> tuple[int, str]:
    """A seed's pipeline, run and judged in this process's session; a failure is made smaller and written."""
    spark, fuzzed = case_session("headrace-fuzz"), drawn(seed, kinds)
    found = _alone(spark, fuzzed)
    if not found.problem:
        return seed, ""
    small, why = shrunk(spark, fuzzed, found)
    FAILED.mkdir(exist_ok=True)
    (FAILED / f"{seed}.yaml").write_text(as_case(small, why), encoding="utf-8")
    return seed, f"{found.result} {found.problem}\n  written: {FAILED / f'{seed}.yaml'}: {why.problem}"


def main() -> int:
    """Run seeds FIRST … FIRST + COUNT - 1, a process for each core; gives how many failed."""
    first, count = int(sys.argv[1]), int(sys.argv[2])
    kinds = JOINS if sys.argv[3:] == ["joins"] else ()
    begun, failed = time.monotonic(), []
    workers = min(count, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        judged = [pool.submit(_judged, seed, kinds) for seed in range(first, first + count)]
        for done in as_completed(judged):
            seed, problem = done.result()
            failed += [seed] if problem else []
            print(f"{seed}: {problem or 'equal'}", flush=True)
    print(
        f"{count} pipelines, {len(failed)} failed {sorted(failed)}, {time.monotonic() - begun:.0f} s",
        flush=True,
    )
    return len(failed)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
