"""One run of a pipeline whose rows are given: from its start to its stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from headrace.runtime.lake import Lake
from headrace.runtime.query import LivePipeline
from headrace.sql.nodes import Pipeline


def take(
    spark: SparkSession,
    pipeline: Pipeline,
    lake: Lake,
    rows: Sequence[Mapping[str, Any]],
    *,
    partitions: int = 1,
    flush: bool = False,
) -> None:
    """Take the rows, of the stream `s`, in one batch; with `flush` they are the last ones."""
    live = LivePipeline(spark, pipeline, lake, partitions=partitions)
    live.deliver({"s": [(0, rows)]})
    live.start()
    try:
        if flush:
            live.flush()
        else:
            live.settle()
    finally:
        live.stop()
