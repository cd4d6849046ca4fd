"""The tick source: one row for each new watermark, and the tracker's whole state as its offset.

The driver publishes `{"tick": ms | null, "marks": …}` by an atomic rename; Spark's own offset log then
makes it durable, so that a replayed batch sees the tick that it had. Runs in Spark's Python process
beside the driver, which hands the row on with the plan: a batch starts no Python worker for its tick
(a worker's round trip costs 75 ms). It imports nothing of Headrace.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

SCHEMA = "tick_us BIGINT"
NOTHING: Mapping[str, Any] = {"tick": None}


class Ticks(DataSource):
    """`spark.readStream.format("headrace_ticks").option("file", …)`."""

    @classmethod
    def name(cls) -> str:
        return "headrace_ticks"

    def schema(self) -> str:
        return SCHEMA

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        return TickReader(self.options["file"])


class TickReader(SimpleDataSourceStreamReader):
    """Offers what the driver published last."""

    def __init__(self, file: str) -> None:
        self.file = file

    def initialOffset(self) -> dict[str, Any]:
        return dict(NOTHING)

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[int]], dict[str, Any]]:
        try:
            with open(self.file, encoding="utf-8") as published:
                offset: dict[str, Any] = json.load(published)
        except FileNotFoundError:
            return iter(()), start
        rows = iter(()) if offset == start else self.readBetweenOffsets(start, offset)
        return rows, offset

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[int]]:
        """The tick's row; asked for alone where a planned batch is run again after a start."""
        tick = end["tick"]
        return iter(() if tick is None else ((tick * 1000,),))


def publish(file: str, tick_ms: int | None, marks: str) -> None:
    """Replace the published tick, atomically."""
    offset = {"tick": tick_ms, "marks": json.loads(marks)}
    with open(f"{file}.new", "w", encoding="utf-8") as new:
        json.dump(offset, new, sort_keys=True, separators=(",", ":"))
    os.replace(f"{file}.new", file)
