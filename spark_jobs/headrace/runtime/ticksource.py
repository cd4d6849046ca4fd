"""The tick source: one row for each new watermark, and the tracker's whole state as its offset.

The driver publishes `{"tick": ms | null, "marks": …}` by an atomic rename; Spark's own offset log then
makes it durable, so that a replayed batch sees the tick that it had. Runs in a Python worker: it
imports nothing of Headrace.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

SCHEMA = "tick_us BIGINT, is_tick BOOLEAN"
NOTHING: Mapping[str, Any] = {"tick": None}


class Ticks(DataSource):
    """`spark.readStream.format("headrace_ticks").option("file", …)`."""

    @classmethod
    def name(cls) -> str:
        return "headrace_ticks"

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return TickReader(self.options["file"])


class TickReader(DataSourceStreamReader):
    """Offers what the driver published last."""

    def __init__(self, file: str) -> None:
        self.file = file

    def initialOffset(self) -> dict[str, Any]:
        return dict(NOTHING)

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        try:
            with open(self.file, encoding="utf-8") as published:
                offset: dict[str, Any] = json.load(published)
        except FileNotFoundError:
            return start
        return offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition(end["tick"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if partition.value is not None:
            yield pa.RecordBatch.from_pydict({"tick_us": [partition.value * 1000], "is_tick": [True]})


def publish(file: str, tick_ms: int | None, marks: str) -> None:
    """Replace the published tick, atomically."""
    offset = {"tick": tick_ms, "marks": json.loads(marks)}
    with open(f"{file}.new", "w", encoding="utf-8") as new:
        json.dump(offset, new, sort_keys=True, separators=(",", ":"))
    os.replace(f"{file}.new", file)
