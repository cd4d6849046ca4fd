"""`headrace skew`: how the newest input of a pipeline lies over its partitions and keys. Reads, and runs no query."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession
from rich.console import Console

from headrace.errors import ExitCode
from headrace.ops.skew import Found, show
from headrace.runtime import sources
from headrace.runtime.heat import LOOK_ROWS, heats, is_comparable
from headrace.runtime.lake import Lake
from headrace.runtime.query import LivePipeline
from headrace.runtime.running import RunningQuery
from headrace.sql.explain import title
from headrace.sql.nodes import Pipeline
from headrace.sql.skew import advice, hashed, salt_of, unsalted_because


@dataclass(frozen=True, slots=True)
class ShowSkew:
    """What to show: of the newest `rows` of each stream, and the first `keys` of each operator."""

    pipeline: Pipeline
    lake: Lake
    rows: int = LOOK_ROWS
    keys: int = 10
    as_json: bool = False


def show_skew(request: ShowSkew, spark: SparkSession, out: Console) -> ExitCode:
    """Print the heat of every hashed operator of a pipeline."""
    found = measured(spark, request.pipeline, request.lake, request.rows)
    if request.as_json:
        out.print_json(json.dumps([one.told() for one in found]))
    elif not found:
        out.print("no operator of the pipeline hashes its rows")
    else:
        show(out, found, request.keys)
    return ExitCode.DONE


def measured(spark: SparkSession, pipeline: Pipeline, lake: Lake, rows: int) -> list[Found]:
    """The heat of every hashed operator of a pipeline, whether it runs or not: nothing of its lake is changed but that
    a reference table without a version gets its first one.
    """
    live = LivePipeline(spark, pipeline, lake)
    try:
        with tempfile.TemporaryDirectory(prefix="headrace-skew-") as folder:
            index = _own_index(live.pipeline, lake, Lake(folder))
            return [one for query in live.queries for one in _of_query(query, index, rows)]
    finally:
        live.stop()


def _own_index(pipeline: Pipeline, lake: Lake, scratch: Lake) -> Lake:
    """Where the input files are numbered for us: the pipeline's own index is its driver's alone to write."""
    if any(stream.connector == sources.GIVEN for stream in pipeline.streams):
        return lake
    for stream in pipeline.streams:
        if stream.connector == "files":
            sources.discover(scratch, stream)
    return scratch


def _of_query(query: RunningQuery, index: Lake, rows: int) -> list[Found]:
    begun = query.checkpoint.planned() is not None
    look = replace(query.look(), lake=index, rows=rows)
    if begun:
        look = replace(look, partitions=query.checkpoint.partitions)
    salt, plan = salt_of(look.pipeline), query.result.plan
    kept = query.checkpoint.hot()
    found = []
    for node in dict.fromkeys(one.node for one in hashed(plan)):
        of = tuple(heats(look, node))
        because = unsalted_because(node, plan, replace(salt, mode="auto") if salt.mode == "off" else salt)
        because = because or ("" if is_comparable(look, node) else "its keys are of different types")
        helps = advice(node, because, of, salt, kept if begun else kept or ())
        found.append(Found(query.result.name, title(node), of, salt.factor, kept, helps))
    return found
