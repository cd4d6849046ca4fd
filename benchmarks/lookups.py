"""Batches of a million rows joined with a reference table of 100 MB: looked up in Redis, against Spark's own join.

Both are given the same frame, in turns, in one process, on a Redis of their own on loopback; a fifth of the keys is not
in the table. The first look-ups meet empty caches. Run alone (`python -m benchmarks.lookups`) it
prints the figures as JSON: rows/s by medians, the version's size, seconds that it took to be written.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.runtime import lookups, tables
from headrace.runtime.lake import Lake
from headrace.runtime.lookups import Lookups
from headrace.runtime.session import spark_session
from headrace.runtime.ways import limits_of, ways_of
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import JoinTable, Pipeline, walk
from scripts import redis_server

ROWS, BATCH, TURNS, WARM = 1_250_000, 1_000_000, 7, 2
SQL = """
SET 'lookup.redis' = '{url}';
CREATE STREAM s (k BIGINT, v BIGINT);
CREATE TABLE t (k BIGINT, name STRING, note STRING, price DOUBLE, PRIMARY KEY (k));
CREATE TABLE r AS SELECT s.v, t.name, t.note, t.price FROM s LEFT JOIN t ON s.k = t.k;
"""
SUMS = ("sum(v)", "sum(length(name))", "max(note)", "sum(price)", "count(*)")


def compare() -> dict[str, float]:
    """The figures."""
    spark = spark_session("bench", cores=2)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    with redis_server.server() as server, tempfile.TemporaryDirectory() as folder:
        pipeline, lake = compile_pipeline(SQL.format(url=server.url)), Lake(folder)
        tables.publish(lake, pipeline.table("t"), _table())
        joined = ways_of(pipeline, lake, {"t": 0})
        version = lookups.version_of(lake, pipeline.table("t"), 0, limits_of(pipeline))
        begin = time.perf_counter()
        lookups.write(version)
        written_s = time.perf_counter() - begin
        looking = Lookups(spark.sparkContext, joined, {"t": version})
        frame = tables.read_version(spark, lake, pipeline.table("t"), 0)
        taken: dict[str, list[float]] = {"headrace": [], "spark": []}
        for turn in range(WARM + TURNS):
            rows = _batch(spark, turn)
            ours, seconds = _taken(_looked_up(pipeline, looking, rows))
            taken["headrace"].append(seconds)
            theirs, seconds = _taken(rows.join(frame.alias("t"), rows["k"] == frame["k"], "left"))
            taken["spark"].append(seconds)
            assert ours == theirs, (ours, theirs)
    spark.stop()
    rates = {way: BATCH / statistics.median(times[WARM:]) for way, times in taken.items()}
    cold = {"cold": BATCH / taken["headrace"][0], "written_s": written_s}
    return {**rates, **cold, "bytes": joined["t"].size.bytes, "rows": joined["t"].size.rows}


def _table() -> pa.Table:
    """Rows whose texts do not compress: 100 MB in Delta."""
    chance = np.random.default_rng(3)
    names, notes = (_texts(chance, size) for size in (16, 80))
    return pa.table(
        {"k": chance.permutation(ROWS), "name": names, "note": notes, "price": chance.random(ROWS)}
    )


def _texts(chance: np.random.Generator, size: int) -> pa.Array:
    """As many texts of so many hexadecimal digits."""
    digits = chance.bytes(ROWS * size // 2).hex().encode()
    ends = np.arange(ROWS + 1, dtype=np.int32) * size
    return pa.StringArray.from_buffers(ROWS, pa.py_buffer(ends), pa.py_buffer(digits))


def _batch(spark: SparkSession, turn: int) -> DataFrame:
    """Random keys; a fifth of them above those of the table."""
    key = f"CAST(rand({turn}) * {ROWS * 5 // 4} AS BIGINT) AS k"
    return spark.range(0, BATCH, numPartitions=2).selectExpr(key, "id AS v").localCheckpoint()


def _looked_up(pipeline: Pipeline, looking: Lookups, rows: DataFrame) -> DataFrame:
    join = next(node for node in walk(pipeline.results[0].plan) if isinstance(node, JoinTable))
    found = looking.join(join, "t", rows.alias("s"))
    assert found is not None
    return found.select("v", "t.name", "t.note", "t.price")


def _taken(joined: DataFrame) -> tuple[object, float]:
    """Sums over all that the join gives, and the seconds they took."""
    begin = time.perf_counter()
    sums = joined.selectExpr(*SUMS).collect()[0]
    return [
        round(value, 3) if isinstance(value, float) else value for value in sums
    ], time.perf_counter() - begin


if __name__ == "__main__":
    print(json.dumps(compare()))
