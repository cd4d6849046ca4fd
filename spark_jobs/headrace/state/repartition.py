"""Spark's offline repartition of a streaming checkpoint: on a copy, and checked before anything uses the copy.

Checked are each row of state, by digests over all of them, and that it lies where Spark will look for it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.errors import HeadraceError
from headrace.sql.nodes import SESSION

# The last field of some keys, which their partition does not go by: of a session, and of a row that waits in a join.
SESSION_KEY = "sessionStartTime"
JOINED = "keyWithIndexToValue"


@dataclass(frozen=True, slots=True)
class Digest:
    """All rows of a state store, in any order."""

    rows: int
    hashes: int


def repartition(spark: SparkSession, checkpoint: Path, copy: Path, partitions: int) -> None:
    """Make `copy` that checkpoint with its state in so many hash partitions; nothing may run on it.

    State without a key stays in its one partition, and a query without state has none to move: their copy is
    the checkpoint as it was. Raises HeadraceError where the copy's state is not that of the checkpoint.
    """
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(checkpoint, copy)
    before = dict(_stores(spark, checkpoint))
    if not any(_routed_by(store, rows) for store, rows in before.items()):
        return
    spark._streamingCheckpointManager.repartition(str(copy), partitions)
    after = dict(_stores(spark, copy))
    for store, rows in before.items():
        moved = after[store]
        if _digest(rows) != _digest(moved):
            raise HeadraceError(f"the repartition of {checkpoint} changed rows of {store}; nothing uses it")
        routed_by = _routed_by(store, moved)
        astray = moved.where(F.pmod(F.hash(*routed_by), F.lit(partitions)) != F.col("partition_id"))
        if not astray.isEmpty():
            raise HeadraceError(f"the repartition of {checkpoint} put rows of {store} into other partitions")


def _stores(spark: SparkSession, checkpoint: Path) -> Iterator[tuple[str, DataFrame]]:
    """The rows of each state store: `key`, `value`, `partition_id`."""
    if not (checkpoint / "state").is_dir():
        return
    assert spark.streams.active is not None  # the reader needs what the first use of `streams` starts
    for store in spark.read.format("state-metadata").load(str(checkpoint)).collect():
        reader = spark.read.format("statestore").option("operatorId", store["operatorId"])
        rows = reader.option("storeName", store["stateStoreName"]).load(str(checkpoint))
        yield f"operator {store['operatorId']}, store {store['stateStoreName']}", rows


def _routed_by(store: str, rows: DataFrame) -> list[str]:
    """The columns of a state's key whose hash tells its partition."""
    key, value = rows.schema["key"].dataType, rows.schema["value"].dataType
    assert isinstance(key, StructType)
    assert isinstance(value, StructType)
    names = key.names
    session = names[-1:] == [SESSION_KEY] and SESSION in value.names
    if session or store.endswith(JOINED):
        names = names[:-1]
    return [f"key.`{name}`" for name in names]


def _digest(rows: DataFrame) -> Digest:
    hashes = F.sum(F.xxhash64("key", "value").cast("decimal(38, 0)"))
    row = rows.agg(F.count(F.lit(1)), hashes).collect()[0]
    return Digest(int(row[0]), int(row[1] or 0))
