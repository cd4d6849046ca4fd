"""What Spark will run: the physical plan of each result, printed without starting anything."""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.runtime.lake import Lake
from headrace.runtime.query import LivePipeline
from headrace.sql.nodes import Pipeline


def spark_plan(spark: SparkSession, pipeline: Pipeline, lake: Lake | None = None) -> str:
    """The analysed and optimized plan of every result, in the order of the statements.

    Reference tables that have no version yet are read from their connectors, into a lake that is
    thrown away. Raises Refused where an expression's type does not fit.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-explain-") as folder:
        live = LivePipeline(spark, pipeline, lake or Lake(str(Path(folder, "lake"))))
        try:
            return "\n\n".join(f"{query.result.name}\n{query.spark_plan()}" for query in live.queries)
        finally:
            live.stop()
