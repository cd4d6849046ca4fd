"""A stop finds its moment between two batches, also while input never pauses."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.runtime.lake import Lake
from headrace.runtime.progress import Progress
from headrace.runtime.query import LivePipeline
from headrace.sql.compile import compile_pipeline

pytestmark = pytest.mark.streams

PIPELINE = """
CREATE STREAM s (timestamp TIMESTAMP, value BIGINT, k AS value % 3, ts AS timestamp_micros(value * 1000000),
    WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
  WITH ('connector' = 'rate', 'rows-per-batch' = '100');
CREATE TABLE r AS SELECT k, window_start, COUNT(*) AS n FROM s
  GROUP BY k WINDOW TUMBLING(INTERVAL '1' MINUTE) EMIT FINAL;
"""


def test_a_stream_that_never_pauses_is_stopped_between_two_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    batches = threading.Semaphore(0)

    def told(progress: Progress) -> None:
        if progress.input_rows:
            batches.release()

    live = LivePipeline(
        spark, compile_pipeline(PIPELINE, name="endless"), Lake(str(tmp_path)), on_progress=told
    )
    query = live.queries[0]
    for _ in range(3):  # each start goes on where the stop before it left off
        live.start()
        for _ in range(2):
            assert batches.acquire(timeout=120)
        stopping = threading.Thread(target=query.stop, daemon=True)
        stopping.start()
        stopping.join(timeout=60)
        assert not stopping.is_alive(), "the stop waits for a commit that waits for it"
        assert query.checkpoint.planned() == query.checkpoint.committed()
    live.stop()
