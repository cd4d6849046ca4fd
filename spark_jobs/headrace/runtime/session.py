"""The one Spark session of a process: offline jars, Delta on, UTC, RocksDB state with changelog checkpoints.

Under `spark-submit` the master that was given there is kept; started by hand it is `local[*]`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.errors import Refused
from headrace.runtime.filesource import Files

STREAMING = "org.apache.spark.sql.execution.streaming"

CONF: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.streaming.stateStore.providerClass": f"{STREAMING}.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # The default one renames through FileContext, which on a local disk starts a `readlink` for each file.
    "spark.sql.streaming.checkpointFileManagerClass": f"{STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.noDataProgressEventInterval": "86400000",
    "spark.sql.streaming.pollingDelay": "50",
    "spark.sql.streaming.statefulOperator.allowMultiple": "false",  # late by the batch's own watermark
    "spark.sql.streaming.statefulOperator.checkCorrectness.enabled": "false",  # of that: see lower._join_streams
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100",  # files of carried state, listed without a job
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # It would drop the `observe` below a stage without rows, and with it the count of late ones.
    "spark.sql.adaptive.optimizer.excludedRules": "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.codegen.cache.maxEntries": "2000",  # classes; 100 hold those of a few queries' batches
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.extraJavaOptions": "-Xss4m -XX:+UseParallelGC -Dio.netty.tryReflectionSetAccessible=true",
    "spark.driver.memory": "3g",
    "spark.log.level": "ERROR",
}


PROJECT = Path(__file__).resolve().parents[3]


def jar_folder() -> Path:
    """The folder that set-up filled: $HEADRACE_JARS, else `.jars` in the project."""
    named = os.environ.get("HEADRACE_JARS")
    return Path(named) if named else PROJECT / ".jars"


def spark_session(
    app: str = "headrace", *, cores: int | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """The process's session, made at the first call. Raises Refused where set-up has not fetched the jars."""
    jars = sorted(str(path) for path in jar_folder().glob("*.jar"))
    if not jars:
        raise Refused(f"no Spark jars in {jar_folder()}", hint="run `make setup`, or set HEADRACE_JARS")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if (PROJECT / "conf").is_dir():
        os.environ.setdefault("SPARK_CONF_DIR", str(PROJECT / "conf"))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(app).config("spark.jars", ",".join(jars))
    if cores is not None or "PYSPARK_GATEWAY_PORT" not in os.environ:
        builder = builder.master(f"local[{cores or '*'}]")
    for key, value in {**CONF, **(conf or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(Files)
    return spark


def own_session(spark: SparkSession) -> SparkSession:
    """A session of the same Spark with its own settings and temporary views (a new one would lack our sources)."""
    return SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
