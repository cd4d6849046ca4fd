"""One batch of 2,000 changed keys into a Delta table of 10,000: Headrace's sink against MERGE in foreachBatch.

Both are given the same frame, alternately, in one process; MERGE with `snapshotPartitions` = 1. Run alone
(`python -m benchmarks.sink`) it prints the two medians in seconds as JSON.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable

from delta.tables import DeltaTable
from pyspark.sql import DataFrame

from headrace.runtime.session import spark_session
from headrace.runtime.sinks import Sink
from headrace.sql.nodes import Result, Scan

KEYS, CHANGED, TURNS, WARM = 10_000, 2_000, 15, 5


def compare() -> dict[str, float]:
    """Median seconds of a batch by each way."""
    spark = spark_session("bench", cores=2)
    with tempfile.TemporaryDirectory() as folder:
        sink = Sink(_result(), f"{folder}/headrace", "bench")
        first = spark.range(KEYS).selectExpr("id AS k", "id AS n")
        sink.prepare(first.schema)
        sink.write(first, 0)
        first.write.format("delta").save(f"{folder}/merge")
        target = DeltaTable.forPath(spark, f"{folder}/merge")

        def merge(rows: DataFrame) -> None:
            joined = target.alias("t").merge(rows.alias("s"), "t.k <=> s.k")
            joined.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

        taken: dict[str, list[float]] = {"headrace": [], "merge": []}
        for turn in range(1, WARM + TURNS + 1):
            changed = spark.range(CHANGED).selectExpr(f"(id * 5 + {turn}) % {KEYS} AS k", f"id + {turn} AS n")
            taken["headrace"].append(_seconds(sink.write, changed, turn))
            taken["merge"].append(_seconds(merge, changed))
    spark.stop()
    return {way: statistics.median(times[WARM:]) for way, times in taken.items()}


def _result() -> Result:
    return Result("r", "table", Scan("s"), "changes", keys=("k",), upsert=True)


def _seconds(work: Callable[..., object], *arguments: object) -> float:
    begin = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - begin


if __name__ == "__main__":
    print(json.dumps(compare()))
