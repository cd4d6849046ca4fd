"""The same departures by plain Structured Streaming, to measure what one global watermark loses.

The query is the one a Spark user would write: `withWatermark` on the event time with the pipeline's own
lateness, then a windowed count in append mode. The files, their order and the deliveries are Headrace's.
Spark counts its dropped rows after partial aggregation, so its own figure is not input rows; what was lost is
the difference between the rows of the windows it has closed and the rows it counted in them. A window that is
still open has lost nothing: only closed ones can.

This module must share nothing with `headrace.runtime`: it is the comparison.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery

from headrace.demo.data import AIRPORTS, Delivery, Prepared, arrived_at

SCHEMA = (
    "planned TIMESTAMP, delay INT, carrier STRING, flight INT, tailnum STRING, "
    "origin STRING, dest STRING, distance INT"
)
LATENESS = "1 hour"
NAME = "headrace_demo_plain"

# What Spark has by itself, where Headrace's session has other values.
DEFAULTS = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    ),
}


@dataclass(frozen=True, slots=True)
class PlainResult:
    """`dropped` input rows of `rows`, by airport; the watermark as Spark reports it, in UTC."""

    rows: int
    dropped: int
    by_airport: tuple[tuple[str, int], ...]
    watermark: str
    batches: int


def run_plain(spark: SparkSession, prepared: Prepared, work: Path) -> PlainResult:
    """Feed the delivered files to plain Spark, one delivery a batch; `work` is a new folder on the same disk.

    Every delivery must have been delivered already: the files are linked, not moved.
    """
    folder = work / "input"
    folder.mkdir(parents=True)
    spark = spark.newSession()
    for key, value in DEFAULTS.items():
        spark.conf.set(key, value)
    query = _start(spark, folder, work / "checkpoint")
    try:
        for delivery in prepared.deliveries:
            _arrive(prepared, delivery, folder)
            query.processAllAvailable()
        return _measure(spark, folder, query)
    finally:
        query.stop()
        spark.catalog.dropTempView(NAME)


def _start(spark: SparkSession, folder: Path, checkpoint: Path) -> StreamingQuery:
    rows = spark.readStream.schema(SCHEMA).csv(str(folder / "*"))
    counted = _hourly(_departed(rows).withWatermark("departed", LATENESS))
    return (
        counted.writeStream.format("memory")
        .queryName(NAME)
        .outputMode("append")
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def _departed(rows: DataFrame) -> DataFrame:
    return rows.withColumn("departed", sf.expr("planned + coalesce(delay, 0) * INTERVAL '1' MINUTE"))


def _hourly(rows: DataFrame) -> DataFrame:
    hour = sf.window("departed", "1 hour")
    return (
        rows.groupBy(hour, "origin", "carrier").agg(sf.count("*").alias("n")).select("window", "origin", "n")
    )


def _arrive(prepared: Prepared, delivery: Delivery, folder: Path) -> None:
    """Link the delivery's departures and show all of them at once: the query may list the folder at any moment."""
    whole = folder.parent / "arriving"
    whole.mkdir()
    for file in delivery.of("departures"):
        (whole / f"{file.airport}.csv").hardlink_to(arrived_at(prepared, file))
    whole.rename(folder / f"{delivery.number:04}")


def _measure(spark: SparkSession, folder: Path, query: StreamingQuery) -> PlainResult:
    marks = [progress.eventTime["watermark"] for progress in query.recentProgress if progress.eventTime]
    truth = _hourly(_departed(spark.read.schema(SCHEMA).csv(str(folder / "*"))))
    closed = truth.where(sf.col("window.end") <= sf.lit(marks[-1]).cast("timestamp"))
    lost = (
        _signed(closed, 1)
        .unionByName(_signed(spark.table(NAME), -1))
        .groupBy("origin")
        .agg(sf.sum("n").alias("n"))
    )
    dropped = {row["origin"]: int(row["n"]) for row in lost.collect()}
    total = truth.agg(sf.sum("n").alias("n")).collect()[0]["n"]
    by_airport = tuple((airport, dropped.get(airport, 0)) for airport in AIRPORTS)
    batches = sum(1 for progress in query.recentProgress if progress.numInputRows)
    return PlainResult(int(total), sum(count for _, count in by_airport), by_airport, marks[-1], batches)


def _signed(counted: DataFrame, sign: int) -> DataFrame:
    return counted.select("origin", (sf.col("n") * sign).alias("n"))
