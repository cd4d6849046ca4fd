"""A stopped pipeline's state moved to another number of hash partitions, query by query.

Each query changes over in one step, when the file that names its checkpoint and N is replaced: interrupted before
that it goes on as it was, and a second call finishes what the first one left.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from headrace.errors import Refused
from headrace.runtime.checkpoint import Checkpoint
from headrace.runtime.lake import Lake
from headrace.runtime.session import own_session
from headrace.sql.nodes import Pipeline
from headrace.state.repartition import repartition


def rescale(spark: SparkSession, pipeline: Pipeline, lake: Lake, partitions: int) -> None:
    """Move the state of every query to `partitions` hash partitions. Raises Refused where a batch is unfinished."""
    for result in pipeline.results:
        checkpoint = Checkpoint.at(Path(lake.checkpoint(result.name)))
        if checkpoint.planned() is None or checkpoint.partitions == partitions:
            continue
        if checkpoint.planned() != checkpoint.committed():
            raise Refused(
                f"{result.name}: its last batch was planned and is not done",
                hint="run the pipeline once more, so that the batch is finished, and stop it",
            )
        moved = checkpoint.moved(partitions)
        repartition(own_session(spark), Path(checkpoint.spark), Path(moved.spark), partitions)
        moved.take_over(partitions)
