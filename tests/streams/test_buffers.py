"""A limit on the rows that a join holds: it says so, it stops, or the side that is ahead waits."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.errors import Refused
from headrace.runtime.lake import Lake
from headrace.runtime.progress import Progress
from headrace.runtime.query import LivePipeline
from headrace.sql.compile import compile_pipeline

pytestmark = pytest.mark.streams

STREAM = "CREATE STREAM {} (k BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts{}){};"
ON = "l.k = m.k AND m.ts BETWEEN l.ts AND l.ts + INTERVAL '1' HOUR"
EARLY = {"a": [(1, second) for second in range(10)], "b": [(1, 0)]}
LATER = {"a": [(2, 50)], "b": [(1, 5)]}
MATCHES = [(0, 0), *((second, 5) for second in range(6))]


class Run:
    """A pipeline with a limit over what it is given."""

    def __init__(self, spark: SparkSession, root: Path, options: str, sources: str = "") -> None:
        streams = [STREAM.format("a", "", sources), STREAM.format("b", " - INTERVAL '1' HOUR", sources)]
        join = (
            f"CREATE TABLE r AS SELECT l.ts AS one, m.ts AS two FROM a l JOIN b m ON {ON} WITH ({options});"
        )
        self.lake, self.told = Lake(str(root / "lake")), list[Progress]()
        pipeline = compile_pipeline("\n".join([*streams, join]), name="p")
        self.live = LivePipeline(spark, pipeline, self.lake, partitions=2, on_progress=self.told.append)

    def give(self, rows: dict[str, list[tuple[int, int]]]) -> None:
        stamped = {
            stream: [(0, [{"k": k, "ts": f"2026-01-01T00:00:{second:02d}Z"} for k, second in given])]
            for stream, given in rows.items()
        }
        self.live.deliver(stamped)

    def found(self) -> list[tuple[int, int]]:
        rows = DeltaTable(self.lake.result("r")).to_pyarrow_table().to_pylist()
        return sorted((row["one"].second, row["two"].second) for row in rows)

    @property
    def notes(self) -> list[str]:
        return [progress.note for progress in self.told if progress.note]


def test_a_join_says_once_that_it_holds_too_many_rows(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(spark, tmp_path, "'join.buffer_rows' = '5'")
    run.live.start()
    for rows in (EARLY, LATER):
        run.give(rows)
        run.live.settle()
    run.live.stop()
    assert run.notes == ["the join holds 11 rows, more than 'join.buffer_rows' = 5"]
    assert run.found() == MATCHES


def test_a_join_that_fails_takes_the_batch_again_with_more_room(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(spark, tmp_path, "'join.buffer_rows' = '5', 'join.buffer_policy' = 'fail'")
    run.give(EARLY)
    run.live.start()
    with pytest.raises(Refused, match=r"holds 11 rows, more than 'join\.buffer_rows' = 5"):
        run.live.settle()
    run.live.stop()
    roomy = Run(spark, tmp_path, "'join.buffer_rows' = '50', 'join.buffer_policy' = 'fail'")
    roomy.give(LATER)
    roomy.live.start()
    roomy.live.settle()
    roomy.live.stop()
    assert roomy.found() == MATCHES


def test_the_side_that_is_ahead_waits_until_the_other_has_nothing_left(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = Run(spark, tmp_path, "'join.buffer_rows' = '5', 'join.buffer_policy' = 'block'")
    run.live.start()
    query = run.live.queries[0]
    assert query.query is not None
    assert query.loop is not None
    run.give(EARLY)
    query.query.processAllAvailable()
    run.give(LATER)
    query.query.processAllAvailable()
    assert [scan.consumed for scan in query.loop.scans] == [{"0": 1}, {"0": 2}]
    assert run.notes == ["the join holds 11 rows, more than 'join.buffer_rows' = 5; a, which is ahead, waits"]
    run.live.settle()
    assert [scan.consumed for scan in query.loop.scans] == [{"0": 2}, {"0": 2}]
    run.live.stop()
    assert run.found() == MATCHES


def test_a_source_that_is_not_ours_can_not_wait(spark: SparkSession, tmp_path: Path) -> None:
    options = "'join.buffer_rows' = '5', 'join.buffer_policy' = 'block'"
    join = f"CREATE TABLE r AS SELECT l.value FROM a l JOIN a2 m ON l.value = m.value AND m.timestamp = l.timestamp WITH ({options});"
    rate = "(timestamp TIMESTAMP, value BIGINT, WATERMARK FOR timestamp AS timestamp) WITH ('connector' = 'rate');"
    pipeline = compile_pipeline(f"CREATE STREAM a {rate} CREATE STREAM a2 {rate} {join}", name="p")
    live = LivePipeline(spark, pipeline, Lake(str(tmp_path)), partitions=2)
    with pytest.raises(Refused, match="the source of a can't be told to wait"):
        live.start()
