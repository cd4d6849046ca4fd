"""What carried-state operators hold behind a batch."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.runtime.carried import BATCH
from headrace.runtime.rowswindow import RowsWindows
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import RowsWindow, walk

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


def same(one: DataFrame, other: DataFrame) -> bool:
    return sorted(one.collect()) == sorted(other.select(one.columns).collect())
