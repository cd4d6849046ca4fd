"""The end of the input: what ends a pipeline, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.errors import Refused
from headrace.runtime.lake import Lake
from headrace.runtime.query import LivePipeline
from headrace.sql.compile import compile_pipeline

pytestmark = pytest.mark.streams

PIPELINE = """
CREATE STREAM s (k STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts);
CREATE TABLE r AS SELECT k, window_start, COUNT(*) AS n FROM s GROUP BY k WINDOW TUMBLING(INTERVAL '10' SECOND);
"""
ROWS = [{"k": "A", "ts": f"2026-01-01T00:00:0{second}Z"} for second in range(3)]


def started(spark: SparkSession, root: Path) -> LivePipeline:
    live = LivePipeline(spark, compile_pipeline(PIPELINE, name="p"), Lake(str(root)), partitions=1)
    live.start()
    return live


def counts(root: Path) -> list[int]:
    return [row["n"] for row in DeltaTable(str(root / "r")).to_pyarrow_table().to_pylist()]


def test_a_pipeline_that_is_stopped_before_its_end_goes_on_later(spark: SparkSession, tmp_path: Path) -> None:
    live = started(spark, tmp_path)
    live.deliver({"s": [(0, ROWS[:2])]})
    live.stop()
    live.flush()
    assert not live.queries[0].checkpoint.ended
    live = started(spark, tmp_path)
    live.deliver({"s": [(0, ROWS[2:])]})
    live.flush()
    live.stop()
    assert live.queries[0].checkpoint.ended
    assert counts(tmp_path) == [3]


def test_rows_behind_the_last_watermark_are_refused_though_the_end_was_not_noted(
    spark: SparkSession, tmp_path: Path
) -> None:
    live = started(spark, tmp_path)
    live.deliver({"s": [(0, ROWS)]})
    live.flush()
    live.stop()
    (live.queries[0].checkpoint.folder / "ended").unlink()  # as if it had died in between
    live = started(spark, tmp_path)
    live.deliver({"s": [(0, ROWS)]})
    with pytest.raises(Refused, match="was flushed"):
        live.settle()
    live.stop()
    assert counts(tmp_path) == [3]


def test_a_lake_whose_path_looks_like_a_pattern_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"run\[1\] has \[ \] in its path"):
        started(spark, tmp_path / "run[1]")
