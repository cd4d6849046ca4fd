"""A worker's look-ups in a real Redis: what it lacks, and what it is away for, comes from Delta."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.accumulators import Accumulator, AddingAccumulatorParam
from pyspark.sql import SparkSession
from redis import Redis

from headrace.errors import HeadraceError
from headrace.runtime import lookups, tables
from headrace.runtime.keyhash import key_hashes
from headrace.runtime.lake import Lake
from headrace.runtime.lookup import Counts, Reader, Version
from headrace.runtime.ways import limits_of
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import Table
from scripts import redis_server

pytestmark = pytest.mark.streams

COUNT = 500
DDL = "CREATE TABLE t (id BIGINT, name STRING, PRIMARY KEY (id));"
TABLE: Table = compile_pipeline(DDL).tables[0]


@pytest.fixture(scope="module")
def server() -> Iterator[redis_server.Server]:
    with redis_server.server() as started:
        yield started


@pytest.fixture
def version(spark: SparkSession, tmp_path: Path, server: redis_server.Server) -> Version:
    """A version that is written to Redis; nothing of it is remembered from block to block."""
    if server.process is None:
        server.start()
    rows = {"id": list(range(COUNT)), "name": [f"name {number}" for number in range(COUNT)]}
    tables.publish(Lake(str(tmp_path)), TABLE, pa.table(rows))
    made = version_of(tmp_path, server, 0)
    lookups.write(made)
    return made


def version_of(folder: Path, server: redis_server.Server, number: int) -> Version:
    settings = f"SET 'lookup.redis' = '{server.url}'; SET 'lookup.cache-bytes' = '0'; {DDL}"
    return lookups.version_of(Lake(str(folder)), TABLE, number, limits_of(compile_pipeline(settings)))


class Worker:
    """A reader with a clock that is set by hand, and the sums of what it counted."""

    def __init__(self, version: Version) -> None:
        self.now = 0.0
        self.reader = Reader(version, now=lambda: self.now)
        sums: list[Accumulator[int]] = [Accumulator(n, 0, AddingAccumulatorParam(0)) for n in range(4)]
        self.counts = Counts(*sums)

    def ask(self, *keys: int | None) -> list[str | None]:
        found = self.reader.answer([key_hashes([pa.array(keys, pa.int64())])], self.counts)
        return [None if row is None else row["name"] for row in next(iter(found)).to_pylist()]

    @property
    def counted(self) -> tuple[int, int, int, int]:
        """Blocks from Redis and from Delta, blocks that Redis lacked, and how often it was away."""
        counts = self.counts
        return counts.redis.value, counts.delta.value, counts.lacking.value, counts.away.value


def test_every_key_finds_its_row(version: Version) -> None:
    worker = Worker(version)
    assert worker.ask(*range(COUNT)) == [f"name {number}" for number in range(COUNT)]
    assert worker.ask(None, -1, COUNT, 7, 7) == [None, None, None, "name 7", "name 7"]
    redis, *others = worker.counted
    assert redis >= 1 << version.bits
    assert others == [0, 0, 0]


@pytest.mark.parametrize("state", ["deleted", "foreign", "of another block"])
def test_a_block_that_is_gone_or_not_right_is_read_from_delta(
    version: Version, server: redis_server.Server, state: str
) -> None:
    client, worker = Redis.from_url(server.url), Worker(version)
    for number in range(0, 1 << version.bits, 2):
        match state:
            case "deleted":
                client.delete(f"{version.prefix}:{number}")
            case "foreign":
                client.set(f"{version.prefix}:{number}", b"not ours")
            case _:
                client.copy(f"{version.prefix}:{number + 1}", f"{version.prefix}:{number}", replace=True)
    assert worker.ask(None, *range(COUNT + 3)) == [
        None,
        *(f"name {number}" for number in range(COUNT)),
        *[None] * 3,
    ]
    redis, delta, lacking, away = worker.counted
    assert (redis > 0, lacking, away) == ((True, delta, 0) if state == "deleted" else (False, 0, 1))
    assert delta > 0


def test_a_redis_that_is_away_is_left_alone_for_a_while(
    version: Version, server: redis_server.Server
) -> None:
    worker = Worker(version)
    assert worker.ask(1) == ["name 1"]
    server.stop()
    assert worker.ask(1, 2, COUNT) == ["name 1", "name 2", None]
    assert worker.reader.together() > 0
    assert worker.ask(3) == ["name 3"]
    assert worker.counted[3] == 1
    server.start()
    lookups.write(version)
    before = worker.counted
    assert worker.ask(4) == ["name 4"]
    assert worker.counted[0] == before[0]  # its pause is not over
    worker.now += 1.0
    assert worker.ask(5) == ["name 5"]
    assert worker.counted[0] == before[0] + 1


def test_another_version_and_another_lake_have_other_blocks(
    tmp_path: Path, version: Version, server: redis_server.Server
) -> None:
    tables.publish(Lake(str(tmp_path)), TABLE, pa.table({"id": [1], "name": ["new"]}))
    new = version_of(tmp_path, server, 1)
    assert Worker(new).ask(1, 2) == ["new", None]  # from Delta: it is not written yet
    lookups.write(new)
    assert Worker(new).ask(1, 2) == ["new", None]
    assert Worker(version).ask(1, 2) == ["name 1", "name 2"]
    again = tmp_path / "again"
    tables.publish(Lake(str(again)), TABLE, pa.table({"id": [1], "name": ["elsewhere"]}))
    assert version_of(again, server, 0).prefix != version.prefix
    assert version.prefix.endswith(":t:0")


def test_a_version_whose_keys_can_not_be_told_apart_is_refused(
    version: Version, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one_hash(columns: list[pa.Array]) -> tuple[object, object]:
        hashes, known = key_hashes(columns)
        return hashes * 0, known

    monkeypatch.setattr(lookups, "key_hashes", one_hash)
    with pytest.raises(HeadraceError, match="two keys have one hash"):
        lookups.write(version)


def test_a_version_that_is_not_what_its_log_says_is_not_written(version: Version) -> None:
    with pytest.raises(HeadraceError, match="it has 500 rows, and 501 by its log"):
        lookups.write(replace(version, rows=COUNT + 1))
