"""One engine on one benchmark query in a process of its own: `python -m benchmarks.engines ENGINE QUERY`.

Prints one JSON line: rows, seconds, CPU seconds. The streaming engines run the warm-up's rows first. With `--turns`
they then stop after each batch, print its line and wait for one on standard input: two engines that take
turns batch by batch meet the same machine, however its speed drifts (`benchmarks.pairs`).
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import duckdb
from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import Figure, Moment
from benchmarks.queries import BATCH_ROWS, BENCHMARKS, CARRIED, PARTITIONS, Benchmark
from headrace.runtime.lake import Lake
from headrace.runtime.progress import Progress
from headrace.runtime.query import LivePipeline
from headrace.runtime.session import spark_session
from headrace.sql.compile import compile_pipeline

CONF = {"spark.sql.shuffle.partitions": str(PARTITIONS), "spark.default.parallelism": str(PARTITIONS)}


class Laps:
    """The moments at which the warm-up and the measured rows were done, told batch by batch."""

    def __init__(self, benchmark: Benchmark, *, turns: bool) -> None:
        self.benchmark = benchmark
        self.turns = turns
        self.rows = 0
        self.begin: Moment | None = None
        self.end: Moment | None = None
        self.done = threading.Event()

    def batch(self) -> None:
        """A batch is done. Where turns are taken, returns when it is this engine's turn again."""
        self.rows += BATCH_ROWS
        warm = self.benchmark.warm
        if self.turns and self.rows >= warm:
            self._turn()
        elif self.rows == warm:
            self.begin = Moment.now()
        elif self.rows == warm + self.benchmark.rows:
            self.end = Moment.now()
            self.done.set()

    def _turn(self) -> None:
        now = Moment.now()
        begin = self.begin or now
        print(json.dumps([now.wall - begin.wall, now.cpu - begin.cpu]), flush=True)
        if sys.stdin.readline():
            self.begin = Moment.now()
        else:  # the end of the turns
            self.end = now
            self.done.set()

    def figure(self, engine: str) -> Figure:
        assert self.begin is not None
        assert self.end is not None
        query, rows = self.benchmark.name, self.benchmark.rows
        return Figure(engine, query, rows, self.end.wall - self.begin.wall, self.end.cpu - self.begin.cpu)


def headrace(benchmark: Benchmark, *, turns: bool = False) -> Figure:
    """The production compiler and runtime, into the blackhole connector."""
    laps = Laps(benchmark, turns=turns)

    def told(progress: Progress) -> None:
        if progress.input_rows:
            laps.batch()

    with tempfile.TemporaryDirectory() as folder:
        spark = spark_session("bench", cores=PARTITIONS, conf=CONF)
        pipeline = compile_pipeline(benchmark.headrace, name="bench")
        live = LivePipeline(spark, pipeline, Lake(folder), on_progress=told)
        live.start()
        while not laps.done.wait(0.2):
            live.pump()
        live.stop()
        spark.stop()
    return laps.figure("headrace")


def handwritten(benchmark: Benchmark, *, turns: bool = False) -> Figure:
    """The same query as plain Structured Streaming: same source, N, state store, batch size, noop sink."""
    laps = Laps(benchmark, turns=turns)
    with tempfile.TemporaryDirectory() as folder:
        spark = spark_session("bench", cores=PARTITIONS, conf=CONF)
        options = {
            "rowsPerBatch": str(benchmark.view_rows),
            "advanceMillisPerBatch": "1000",
            "startTimestamp": "0",
        }
        for name, chosen in benchmark.views.items():
            source = spark.readStream.format("rate-micro-batch").options(**options).load()
            source.selectExpr(*chosen).withWatermark("ts", "10 seconds").createOrReplaceTempView(name)

        def batch(frame: DataFrame, _number: int) -> None:
            frame.write.format("noop").mode("overwrite").save()
            laps.batch()

        writer = spark.sql(benchmark.spark).writeStream.outputMode(benchmark.mode).foreachBatch(batch)
        query = writer.option("checkpointLocation", str(Path(folder, "checkpoint"))).start()
        laps.done.wait()
        query.stop()
        spark.stop()
    return laps.figure("structured streaming")


def spark_batch(benchmark: Benchmark) -> Figure:
    """One pass of Spark batch over the same rows, warm."""
    spark = spark_session("bench", cores=PARTITIONS, conf=CONF)
    for name, chosen in benchmark.views.items():
        values = spark.range(0, benchmark.rows // len(benchmark.views), 1, PARTITIONS)
        values.withColumnRenamed("id", "value").selectExpr(*chosen).createOrReplaceTempView(name)
    figure = timed("spark batch", benchmark, lambda: _noop(spark, benchmark.spark))
    spark.stop()
    return figure


def duck(benchmark: Benchmark) -> Figure:
    """DuckDB on the same rows and cores, warm."""
    database = duckdb.connect()
    database.execute(f"SET threads = {PARTITIONS}")
    return timed(
        "duckdb", benchmark, lambda: database.execute(f"CREATE OR REPLACE TABLE r AS {benchmark.duckdb}")
    )


def timed(engine: str, benchmark: Benchmark, work: Callable[[], object]) -> Figure:
    """The second of two runs."""
    work()
    begin = Moment.now()
    work()
    end = Moment.now()
    return Figure(engine, benchmark.name, benchmark.rows, end.wall - begin.wall, end.cpu - begin.cpu)


def _noop(spark: SparkSession, text: str) -> None:
    spark.sql(text).write.format("noop").mode("overwrite").save()


STREAMING = {"headrace": headrace, "handwritten": handwritten}
ENGINES: dict[str, Callable[[Benchmark], Figure]] = {
    **STREAMING,
    "batch": spark_batch,
    "duckdb": duck,
}


def main() -> None:
    benchmark = {**BENCHMARKS, **CARRIED}[sys.argv[2]]
    if sys.argv[3:] == ["--turns"]:
        STREAMING[sys.argv[1]](benchmark, turns=True)
        return
    figure = ENGINES[sys.argv[1]](benchmark)
    print(json.dumps(figure.told()), flush=True)


if __name__ == "__main__":
    main()
