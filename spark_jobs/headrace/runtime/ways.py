"""How a reference table is joined: by the size of its version and the pipeline's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from deltalake import DeltaTable

from headrace.runtime.blockstore import Store
from headrace.runtime.lake import Lake
from headrace.runtime.tables import SMALL, Size, size_of
from headrace.sql.catalog import bytes_of, duration_ms
from headrace.sql.nodes import Pipeline

LARGE = 100 * 1024 * 1024  # bytes from which on a version is looked up
NO_REDIS = "'lookup.redis' is not set"


class Way(StrEnum):
    """How the rows of a table come to those of a stream."""

    BROADCAST = "broadcast"  # the table whole to every task
    SPARK = "joined by Spark"  # as Spark's planner finds best
    REDIS = "looked up in Redis"


@dataclass(frozen=True, slots=True)
class Limits:
    """The options of a pipeline that decide; `store` is None where no Redis is named. Sizes are bytes."""

    broadcast: int = SMALL
    lookup: int = LARGE
    cache: int = 128 * 1024 * 1024  # of blocks in each Python worker
    store: Store | None = None

    def way(self, size: Size) -> tuple[Way, str]:
        """The way for a version of that size, and why a large one is not looked up."""
        if size.bytes >= self.lookup:
            return (Way.REDIS, "") if self.store else (self._joined(size), NO_REDIS)
        return self._joined(size), ""

    def _joined(self, size: Size) -> Way:
        return Way.BROADCAST if size.bytes <= self.broadcast else Way.SPARK


def limits_of(pipeline: Pipeline) -> Limits:
    """The limits as the pipeline sets them."""
    settings, url = dict(pipeline.settings), pipeline.setting("lookup.redis")
    timeout_s = duration_ms(settings.get("lookup.timeout", "2s")) / 1000
    ttl_s = max(1, duration_ms(settings.get("lookup.ttl", "7d")) // 1000)
    default = Limits()
    return Limits(
        bytes_of(settings.get("broadcast.max-bytes", str(default.broadcast))),
        bytes_of(settings.get("lookup.min-bytes", str(default.lookup))),
        bytes_of(settings.get("lookup.cache-bytes", str(default.cache))),
        Store(url, timeout_s, ttl_s) if url else None,
    )


@dataclass(frozen=True, slots=True)
class Joined:
    """How a version of a table is joined, and why not otherwise."""

    version: int
    size: Size
    way: Way
    why: str = ""

    def render(self, table: str) -> str:
        size = f"version {self.version}, {self.size.rows:,} rows, {self.size.bytes:,} bytes"
        return f"table {table}: {size}: {self.way}{f' ({self.why})' if self.why else ''}"


def ways_of(pipeline: Pipeline, lake: Lake, versions: Mapping[str, int]) -> dict[str, Joined]:
    """The way of each of these versions, by their sizes alone."""
    limits = limits_of(pipeline)
    sizes = {name: size_of(DeltaTable(lake.table(name), version=number)) for name, number in versions.items()}
    return {name: Joined(versions[name], size, *limits.way(size)) for name, size in sizes.items()}
