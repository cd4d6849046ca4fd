"""The looked-up tables of one query, in its driver: which joins ask them, their blocks in Redis, what came from where.

Before each batch a version that Redis has not whole is written there; where Redis is away, the batch reads
Delta, and Redis is asked again after a pause that grows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from pyspark import SparkContext
from pyspark.sql import DataFrame

from headrace.errors import HeadraceError
from headrace.runtime import tables
from headrace.runtime.blocks import bits_for, encoded
from headrace.runtime.blockstore import Away
from headrace.runtime.keyhash import key_hashes
from headrace.runtime.lake import Lake
from headrace.runtime.lookup import (
    FIRST_PAUSE_S,
    LAST_PAUSE_S,
    Counts,
    Version,
    looked_up,
    prefix_of,
    unfit,
    version_rows,
)
from headrace.runtime.ways import Joined, Limits, Way, limits_of, ways_of
from headrace.sql.nodes import JoinTable, Pipeline, Table

HELD = 3  # times its bytes in Delta that a version has in memory, about
NOT_ASKED = "it is read in a sub-query or behind a carried operator alone"
REST = 20  # times as long as a version took to write, until it is written again


def version_of(lake: Lake, table: Table, number: int, limits: Limits) -> Version:
    """A version as it is looked up; a Redis is named."""
    assert limits.store is not None
    path, columns = lake.table(table.name), tables.arrow_schema(table)
    held = DeltaTable(path, version=number)
    size = tables.size_of(held)
    bits = bits_for(size.rows, size.bytes)
    return Version(
        table=table.name,
        version=number,
        path=path,
        prefix=prefix_of(path, held, columns, bits),
        bits=bits,
        rows=size.rows,
        block=HELD * size.bytes >> bits,
        keys=table.primary_key,
        columns=columns,
        store=limits.store,
        cache=limits.cache,
    )


@dataclass(slots=True)
class Looked:
    """A version that joins may look up, and how that went."""

    version: Version
    counts: Counts
    joins: int = 0
    refused: list[str] = field(default_factory=list)  # why joins of it are Spark's
    asked_at: float = 0.0  # when Redis is to be asked again
    pause: float = FIRST_PAUSE_S
    written_at: float = 0.0  # before which it is not written again
    seen: dict[str, int] = field(default_factory=dict)


def lookups_of(context: SparkContext, pipeline: Pipeline, lake: Lake, versions: Mapping[str, int]) -> Lookups:
    """What a query looks up of the versions that are pinned for it."""
    limits, ways = limits_of(pipeline), ways_of(pipeline, lake, versions)
    large = [name for name, joined in ways.items() if joined.way is Way.REDIS]
    looked = {name: version_of(lake, pipeline.table(name), versions[name], limits) for name in large}
    return Lookups(context, ways, looked)


class Lookups:
    """How the tables of a started query are joined. Its batches call `prepare` before and `note` after their rows."""

    def __init__(
        self,
        context: SparkContext,
        ways: Mapping[str, Joined],
        versions: Mapping[str, Version],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ways = ways
        self.looked = {
            name: Looked(version, Counts(*(context.accumulator(0) for _ in range(4))))
            for name, version in versions.items()
        }
        self._now = now
        self._told: set[str] = set()

    def join(self, join: JoinTable, table: str, left: DataFrame) -> DataFrame | None:
        """The join as a look-up; None where it is Spark's."""
        looked = self.looked.get(table)
        if looked is None:
            return None
        reason = unfit(join, left, looked.version)
        if reason:
            looked.refused.append(reason)
            return None
        looked.joins += 1
        return looked_up(join, left, looked.version, looked.counts)

    def prepare(self) -> None:
        """See to it that Redis has every version whole that is looked up. Raises HeadraceError where one can't be."""
        for looked in self.looked.values():
            if looked.joins and self._now() >= looked.asked_at:
                try:
                    self._complete(looked)
                    looked.pause = FIRST_PAUSE_S
                except Away as error:
                    looked.asked_at = self._now() + looked.pause
                    looked.pause = min(LAST_PAUSE_S, looked.pause * 2)
                    self._warn(looked.version, str(error))

    def note(self) -> bool:
        """After a batch: whether its tasks have counted something new. What Redis lacked is written again, in time."""
        news = False
        for looked in self.looked.values():
            before, looked.seen = looked.seen, self._counted(looked.counts)
            grown = {name: count - before.get(name, 0) for name, count in looked.seen.items()}
            news = news or any(grown.values())
            if grown["away"]:
                self._warn(looked.version, "no answer")
            if grown["lacking"]:
                self._doubt(looked)
        return news

    def joined(self) -> dict[str, Joined]:
        """How each table is joined, as the plan has it; complete once the query's plan was lowered."""
        return {name: self._joined(name, joined) for name, joined in self._ways.items()}

    def told(self) -> dict[str, dict[str, Any]]:
        """The same in plain values, with the blocks of look-ups by where they were found."""
        return {
            name: {
                "version": joined.version,
                "way": str(joined.way),
                "why": joined.why,
                "blocks": self._counted(self.looked[name].counts) if joined.way is Way.REDIS else {},
            }
            for name, joined in self.joined().items()
        }

    def _joined(self, name: str, joined: Joined) -> Joined:
        looked = self.looked.get(name)
        if looked is None:
            return joined
        why = "; ".join(dict.fromkeys(looked.refused)) or ("" if looked.joins else NOT_ASKED)
        return replace(joined, way=Way.REDIS if looked.joins else Way.SPARK, why=why)

    # ---- Redis ----
    def _complete(self, looked: Looked) -> None:
        version = looked.version
        counts = {"rows": version.rows, "blocks": 1 << version.bits}
        if version.store.complete(version.prefix) == counts or self._now() < looked.written_at:
            return
        began = self._now()
        try:
            write(version)
            version.store.finish(version.prefix, counts)
        finally:
            looked.written_at = self._now() + REST * (self._now() - began)

    def _doubt(self, looked: Looked) -> None:
        try:
            looked.version.store.doubt(looked.version.prefix)
        except Away as error:
            self._warn(looked.version, str(error))

    def _warn(self, version: Version, reason: str) -> None:
        if version.table not in self._told:
            self._told.add(version.table)
            sys.stderr.write(
                f"warning: table {version.table}: Redis is away ({version.store.name}: {reason});"
                f" version {version.version} is read from Delta until it is back\n"
            )

    @staticmethod
    def _counted(counts: Counts) -> dict[str, int]:
        named = (("redis", counts.redis), ("delta", counts.delta), ("lacking", counts.lacking))
        return {name: int(one.value) for name, one in (*named, ("away", counts.away))}


def write(version: Version) -> None:
    """Write all blocks of a version; it is held in memory meanwhile, as when it was published. Raises Away, and
    HeadraceError where the version is not what its log says or two of its keys have one hash.
    """
    batches = list(version_rows(version))
    hashed = [key_hashes([batch.column(key) for key in version.keys])[0] for batch in batches]
    hashes = np.concatenate([np.empty(0, np.uint64), *hashed])
    rows = pa.Table.from_batches(batches, version.columns)
    try:
        if rows.num_rows != version.rows:
            raise ValueError(f"it has {rows.num_rows} rows, and {version.rows} by its log")
        version.store.write(version.prefix, encoded(rows, hashes, version.bits))
    except ValueError as error:
        raise HeadraceError(
            f"table {version.table}: version {version.version} can't be looked up: {error}",
            hint="set 'lookup.min-bytes' above its size",
        ) from error
