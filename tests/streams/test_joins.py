"""Joins of two streams: what they hold, what they reject, and what the gate says of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from expectations.baseline import reader_for
from expectations.judge import Compared, Gate, judge
from headrace.runtime.lake import Lake, bound
from headrace.runtime.query import LivePipeline
from headrace.sql.compile import compile_pipeline

pytestmark = pytest.mark.streams

PIPELINE = """
CREATE STREAM a (k BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
CREATE STREAM b (k BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
CREATE TABLE r AS SELECT l.k, m.k AS other, l.ts AS lts FROM a l FULL JOIN b m
  ON l.k = m.k AND m.ts BETWEEN l.ts - INTERVAL '2' SECOND AND l.ts + INTERVAL '5' SECOND;
"""
Given = list[tuple[int, int]]  # key and second


def rows(given: Given) -> list[dict[str, object]]:
    return [{"k": k, "ts": f"2026-01-01T00:00:{second:02d}Z"} for k, second in given]


class Run:
    """The pipeline over what it is given, batch by batch."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.root, self.lake = spark, root, Lake(str(root / "lake"))
        self.pipeline = bound(compile_pipeline(PIPELINE, name="p"), self.lake)
        self.live = LivePipeline(spark, self.pipeline, self.lake, partitions=2)

    def take(self, left: Given, right: Given) -> None:
        self.live.deliver({"a": [(0, rows(left))], "b": [(0, rows(right))]})
        if not self.live.running:
            self.live.start()
        self.live.settle()

    def found(self) -> list[tuple[int | None, int | None]]:
        table = DeltaTable(self.lake.result("r")).to_pyarrow_table().to_pylist()
        return sorted(((row["k"], row["other"]) for row in table), key=str)

    def verdict(self) -> Compared:
        gate = Gate(
            self.spark, self.pipeline, self.lake, self.root, reader_for(self.spark, self.pipeline, self.lake)
        )
        judged = judge(gate, self.pipeline.result("r"))
        assert isinstance(judged, Compared), judged.reason
        judged.comparison.unpersist()
        return judged

    def waiting(self) -> dict[str, int]:
        """How many rows of each side the state holds."""
        reader = self.spark.read.format("statestore").option("path", self.live.queries[0].checkpoint.spark)
        return {side: reader.option("joinSide", side).load().count() for side in ("left", "right")}


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Iterator[Run]:
    started = Run(spark, tmp_path)
    yield started
    started.live.stop()


def test_the_gate_expects_of_the_rows_without_a_match_those_that_are_due(run: Run) -> None:
    run.take([(1, 10), (2, 10), (3, 20)], [(1, 12), (4, 11)])
    run.take([(5, 30)], [(5, 14)])
    assert run.found() == [(1, 1), (None, 4)]
    verdict = run.verdict().verdict
    assert (verdict.differing, verdict.rows) == (0, 2)
    run.take([], [(6, 16)])
    assert run.found() == [(1, 1), (2, None), (None, 4)]
    assert run.verdict().verdict.differing == 0


def test_the_gate_names_a_match_that_is_missing_and_a_miss_that_is_none(run: Run) -> None:
    run.take([(1, 10), (2, 10)], [(1, 12)])
    run.live.flush()
    assert run.verdict().verdict.differing == 0
    table = DeltaTable(run.lake.result("r"))
    table.delete("other = 1")
    found = run.verdict().verdict
    assert {difference.kind for difference in found.differences} == {"missing"}


def test_late_rows_are_rejected_by_side(run: Run) -> None:
    run.take([(1, 30)], [(1, 30)])
    run.take([(2, 29), (3, 31)], [(3, 28), (3, 31)])
    rejected = DeltaTable(run.lake.rejected).to_pyarrow_table().to_pylist()
    assert sorted((row["stream"], row["reason"], row["event_time"].second) for row in rejected) == [
        ("a", "late", 29),
        ("b", "late", 28),
    ]
    assert run.live.metrics()["late_rows"] == 2
    assert run.verdict().verdict.differing == 0


def test_no_row_stays_in_state_once_its_bound_has_passed(run: Run) -> None:
    run.take([(1, 10), (2, 10), (3, 19)], [(1, 12), (4, 19)])
    run.take([(5, 40)], [(6, 20)])
    run.live.stop()
    assert run.waiting() == {"left": 2, "right": 2}  # 3 and 5; 4 and 6
    run.live = LivePipeline(run.spark, run.pipeline, run.lake, partitions=2)
    run.live.start()
    run.live.flush()
    run.live.stop()
    assert run.waiting() == {"left": 0, "right": 0}
