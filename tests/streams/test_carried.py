"""What carried-state operators hold behind a batch."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.runtime.carried import BATCH
from headrace.runtime.lake import Lake
from headrace.runtime.rowswindow import RowsWindows
from headrace.runtime.sinks import read_result
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import RowsWindow, walk
from tests.streams.one_run import take

pytestmark = pytest.mark.streams


def operator(buffer: int) -> RowsWindows:
    over = f"OVER (ROWS WINDOW BUFFER {buffer} ROWS PARTITION BY k ORDER BY ts)"
    pipeline = compile_pipeline(
        "CREATE STREAM s (k STRING, ts TIMESTAMP, v BIGINT, WATERMARK FOR ts AS ts);"
        f"CREATE TABLE r AS SELECT k, ts, SUM(v) {over} AS total FROM s;"
    )
    node = next(node for node in walk(pipeline.result("r").plan) if isinstance(node, RowsWindow))
    return RowsWindows(node)


@pytest.mark.parametrize("buffer", [1, 2, 3])
def test_a_rows_window_holds_what_waits_and_the_last_rows_that_its_buffer_needs(
    spark: SparkSession, buffer: int
) -> None:
    """Of A three rows come out and none waits; of B one comes out and one waits."""
    given = [("A", second, second) for second in (1, 2, 3)] + [("B", 4, 4), ("B", 90, 90)]
    rows = spark.createDataFrame(given, "k STRING, second BIGINT, v BIGINT").selectExpr(
        "k", "timestamp_seconds(second) AS ts", "v", "timestamp_seconds(second) AS _event_time",
        "'0' AS _partition", "second AS _offset",
    )  # fmt: skip
    rows_window = operator(buffer)
    waiting = rows_window.turn(None, rows, None)
    assert waiting.output.count() == 0
    changes = waiting.changes.withColumn(BATCH, F.lit(0))
    state = rows_window.resumed(waiting, lambda: changes, None)
    assert state.count() == 5
    turn = rows_window.turn(state, rows.limit(0), 50_000)
    state = rows_window.resumed(turn, lambda: changes, 50_000)
    assert sorted(row["v"] for row in turn.output.collect()) == [1, 2, 3, 4]
    came_out: list[tuple[str, int]] = {1: [], 2: [("A", 3), ("B", 4)], 3: [("A", 2), ("A", 3), ("B", 4)]}[
        buffer
    ]
    assert sorted((row["k"], row["v"]) for row in state.collect()) == [*came_out, ("B", 90)]
    assert turn.changes.count() == 0
    restored = rows_window.restored(changes, 50_000)
    assert same(restored, state)
    stored = rows_window.stored(restored).withColumn(BATCH, F.lit(0))
    assert same(rows_window.restored(stored, 50_000), state)


def test_a_rows_window_goes_on_in_a_lake_with_a_space_and_an_umlaut_in_its_path(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = compile_pipeline(
        "CREATE STREAM s (k STRING, ts TIMESTAMP, v BIGINT, WATERMARK FOR ts AS ts);"
        "CREATE TABLE r AS SELECT k, SUM(v) OVER (ROWS WINDOW BUFFER 2 ROWS PARTITION BY k ORDER BY ts) AS two FROM s;",
        name="rows",
    )
    lake = Lake(str(tmp_path / "my läke"))
    for second in (1, 2, 3):  # each in a start of its own, which reads the state out of its files
        row = {"k": "A", "ts": f"2026-01-01T00:00:0{second}Z", "v": second}
        take(spark, pipeline, lake, [row], partitions=2, flush=second == 3)
    found = read_result(lake, pipeline.result("r")).to_pylist()
    assert sorted(row["two"] for row in found) == [1, 3, 5]


def same(one: DataFrame, other: DataFrame) -> bool:
    return sorted(one.collect()) == sorted(other.select(one.columns).collect())
