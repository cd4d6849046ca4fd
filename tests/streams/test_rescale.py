"""State moved to another number of partitions: refused, interrupted, and finished by a second call."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.errors import HeadraceError, Refused
from headrace.runtime.checkpoint import Checkpoint
from headrace.runtime.lake import Lake
from headrace.runtime.rescale import rescale
from headrace.runtime.sinks import read_result
from headrace.sql.compile import compile_pipeline
from headrace.state.repartition import repartition
from tests.streams.one_run import take

pytestmark = pytest.mark.streams

PIPELINE = compile_pipeline(
    "CREATE STREAM s (k STRING, v BIGINT);"
    "CREATE TABLE a AS SELECT k, SUM(v) AS total FROM s GROUP BY k;"
    "CREATE TABLE b AS SELECT v, COUNT(*) AS n FROM s GROUP BY v;",
    name="rescaled",
)


def run(spark: SparkSession, lake: Lake, partitions: int, value: int) -> dict[str, int]:
    take(spark, PIPELINE, lake, [{"k": key, "v": value} for key in ("A", "B", "C")], partitions=partitions)
    rows = read_result(lake, PIPELINE.result("a")).to_pylist()
    return {row["k"]: row["total"] for row in rows}


def moved_to(lake: Lake) -> list[tuple[str, int]]:
    found = [Checkpoint.at(Path(lake.checkpoint(result.name))) for result in PIPELINE.results]
    return [(checkpoint.active, checkpoint.partitions) for checkpoint in found]


def test_interrupted_between_two_queries_the_first_has_moved_the_second_not_and_a_second_call_finishes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(tmp_path))
    assert run(spark, lake, 2, 1) == {"A": 1, "B": 1, "C": 1}
    calls: list[Path] = []

    def interrupted(session: SparkSession, checkpoint: Path, copy: Path, partitions: int) -> None:
        calls.append(checkpoint)
        repartition(session, checkpoint, copy, partitions)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("headrace.runtime.rescale.repartition", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rescale(spark, PIPELINE, lake, 3)
    assert moved_to(lake) == [("spark-3", 3), ("spark", 2)]
    with pytest.raises(Refused, match="its state has 3 partitions, asked for 2"):
        run(spark, lake, 2, 10)
    rescale(spark, PIPELINE, lake, 3)
    assert moved_to(lake) == [("spark-3", 3), ("spark-3", 3)]
    assert not Path(lake.checkpoint("a"), "spark").exists()
    assert run(spark, lake, 3, 100) == {"A": 111, "B": 111, "C": 111}


def test_state_whose_rows_differ_afterwards_is_not_taken(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(str(tmp_path))
    run(spark, lake, 2, 1)
    digests = iter(["before", "after"])
    monkeypatch.setattr("headrace.state.repartition._digest", lambda _rows: next(digests))
    with pytest.raises(HeadraceError, match="changed rows of operator 0, store default"):
        rescale(spark, PIPELINE, lake, 3)
    assert moved_to(lake) == [("spark", 2), ("spark", 2)]


def test_an_unfinished_batch_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    run(spark, lake, 2, 1)
    offsets = Path(Checkpoint.at(Path(lake.checkpoint("a"))).spark, "offsets")
    newest = max(int(path.name) for path in offsets.iterdir() if path.name.isdigit())
    (offsets / str(newest + 1)).write_text((offsets / str(newest)).read_text())
    with pytest.raises(Refused, match="its last batch was planned and is not done"):
        rescale(spark, PIPELINE, lake, 3)
