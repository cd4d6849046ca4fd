"""Tables that are looked up in a real Redis: the answers of Spark's own join, whatever becomes of Redis meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from redis import Redis

from headrace.runtime import tables
from headrace.runtime.lake import Lake
from headrace.runtime.query import LivePipeline
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import Pipeline
from headrace.status import statuses
from scripts import redis_server

pytestmark = pytest.mark.streams

DDL = """
CREATE STREAM s (n INT, k STRING, x DOUBLE, ts TIMESTAMP, WATERMARK FOR ts AS ts);
CREATE TABLE pairs (
  k STRING, x DOUBLE, flag BOOLEAN, price DECIMAL(30, 4), day DATE, at TIMESTAMP, raw BINARY,
  parts ARRAY<INT>, `in` STRUCT<a: INT, b: STRING>, named MAP<STRING, INT>, PRIMARY KEY (k, x));
CREATE TABLE ids (id BIGINT, name STRING, PRIMARY KEY (id));
"""
JOINS = """
CREATE TABLE kept AS SELECT s.n, p.k, p.x, p.price, p.day, p.at, p.raw, p.parts, p.`in`, p.named, i.id
  FROM s LEFT JOIN pairs p ON s.k = p.k AND p.x = s.x AND (p.flag OR s.n > 100) LEFT JOIN ids i ON i.id = s.x;
CREATE TABLE met AS SELECT s.n, i.id, i.name, p.price
  FROM s JOIN ids AS i ON i.id = s.n LEFT JOIN pairs p USING (k, x) WHERE i.name <> 'two';
CREATE TABLE grouped AS SELECT i.name, COUNT(*) AS many, COUNT(p.k) AS pairs
  FROM s LEFT JOIN ids i ON s.n + 0 = i.id LEFT JOIN pairs p ON p.k = i.name AND p.x = s.x
  GROUP BY i.name WINDOW TUMBLING(INTERVAL '1' MINUTE) EMIT FINAL;
"""
RESULTS = ("kept", "met", "grouped")
BY_NAME = "CREATE TABLE r AS SELECT s.n, t.name FROM s LEFT JOIN ids t ON s.n = t.id;"
NAN = float("nan")


@pytest.fixture
def server() -> Iterator[redis_server.Server]:
    with redis_server.server() as started:
        yield started


def compiled(joins: str, **settings: str) -> Pipeline:
    sets = "".join(f"SET 'lookup.{name}' = '{value}';" for name, value in settings.items())
    return compile_pipeline(sets + DDL + joins, name="p")


def record(n: int | None, k: str | None = None, x: Any = None, second: int = 1) -> dict[str, Any]:
    return {"n": n, "k": k, "x": x, "ts": f"2026-01-01T00:00:{second:02d}Z"}


def pair(k: str, x: float, number: int, *, flag: bool | None = True) -> dict[str, Any]:
    return {
        "k": k,
        "x": x,
        "flag": flag,
        "price": Decimal(number * 10**20 + 1) / 10_000 if number else None,
        "day": date(1, 1, 1) if number else None,
        "at": datetime(1890, 1, 1, 0, 0, 0, 123_456 + number, tzinfo=UTC),
        "raw": bytes([0, 255, number]),
        "parts": [number, None] if number else None,
        "in": {"a": number, "b": None} if number % 2 else None,
        "named": [("one", number)],
    }


def publish(lake: Lake, pipeline: Pipeline, name: str, rows: list[dict[str, Any]]) -> None:
    table = pipeline.table(name)
    tables.publish(lake, table, pa.Table.from_pylist(rows, tables.arrow_schema(table)))


ROWS = [
    *(record(n, "a", 0.0) for n in (1, 2, 3, None, 101)),
    record(4, "a", -0.0),
    record(5, "b", "NaN"),
    record(6, "b", 1.5),
    record(7, None, 1.5),
    record(8, "b", None),
    record(9, "", 1.5),
    record(1, "one", 1.0),
]


def answers(spark: SparkSession, folder: Path, pipeline: Pipeline) -> dict[str, list[str]]:
    """What two batches give, a refresh of both tables between them."""
    lake = Lake(str(folder))
    publish(lake, pipeline, "pairs", [pair("a", -0.0, 1), pair("b", NAN, 2), pair("b", 1.5, 0, flag=None)])
    publish(
        lake, pipeline, "ids", [{"id": n, "name": name} for n, name in ((1, "one"), (2, "two"), (4, None))]
    )
    live = LivePipeline(spark, pipeline, lake, partitions=2)
    live.deliver({"s": [(0, ROWS)]})
    live.start()
    try:
        live.settle()
        publish(lake, pipeline, "pairs", [pair("a", 0.0, 3), pair("one", 1.0, 5, flag=False)])
        publish(lake, pipeline, "ids", [{"id": 1, "name": "one"}, {"id": 9, "name": "nine"}])
        live.pump()
        live.deliver({"s": [(0, ROWS)]})
        live.flush()
    finally:
        live.stop()
    read = (spark.read.format("delta").load(lake.result(name)) for name in RESULTS)
    return {
        name: [frame.schema.simpleString(), *sorted(map(repr, frame.collect()))]
        for name, frame in zip(RESULTS, read, strict=True)
    }


def test_a_look_up_gives_what_sparks_join_gives(
    spark: SparkSession, tmp_path: Path, server: redis_server.Server
) -> None:
    pipeline = compiled(JOINS, **{"redis": server.url, "min-bytes": "0"})
    found = answers(spark, tmp_path / "looked", pipeline)
    assert found == answers(spark, tmp_path / "joined", compiled(JOINS))
    assert [len(found[name]) - 1 for name in RESULTS] == [24, 5, 4]
    pairs, ids = statuses(pipeline, Lake(str(tmp_path / "looked")), 0)
    assert pairs.way == "looked up in Redis"
    assert (pairs.pinned, pairs.newest, pairs.rows) == ({"kept": 1, "met": 1, "grouped": 1}, 1, 2)
    assert pairs.blocks["redis"] > 0
    assert (pairs.blocks["delta"], pairs.blocks["away"]) == (0, 0)
    assert ids.way == "joined by Spark, looked up in Redis"
    assert ids.why == "s.x is double, and id is bigint"


def test_redis_may_lose_blocks_go_and_come_back_empty(
    spark: SparkSession, tmp_path: Path, server: redis_server.Server, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"redis": server.url, "min-bytes": "0", "cache-bytes": "0", "timeout": "1s"}
    pipeline, lake = compiled(BY_NAME, **options), Lake(str(tmp_path))
    publish(lake, pipeline, "ids", [{"id": n, "name": f"name {n}"} for n in range(200)])
    client = Redis.from_url(server.url, decode_responses=True)
    live = LivePipeline(spark, pipeline, lake, partitions=1)
    asked: list[int] = []

    def written() -> set[str]:
        return {str(key) for key in client.keys("headrace:*")}

    def batch() -> dict[str, int]:
        first = len(asked) % 220
        asked.extend(range(first, first + 20))
        live.deliver({"s": [(0, [record(n) for n in asked[-20:]])]})
        live.settle()
        _, told = statuses(pipeline, lake, 0)
        return dict(told.blocks)

    live.start()
    try:
        assert batch()["delta"] == 0
        lost = [key for key in written() if not key.endswith((":complete", "1", "3"))]
        client.delete(*lost)
        assert batch()["delta"] > 0
        while not set(lost) <= written():
            batch()
            assert len(asked) < 4_000, "the version was not written again"
        server.stop()
        away = batch()
        assert away["away"] > 0
        server.start()
        assert client.dbsize() == 0
        while (now := batch())["redis"] == away["redis"]:
            assert len(asked) < 4_000, "Redis was not asked again"
    finally:
        live.stop()
    found = spark.read.format("delta").load(lake.result("r")).collect()
    assert sorted((row.n, row.name) for row in found) == sorted(
        (n, f"name {n}" if n < 200 else None) for n in asked
    )
    assert now["away"] >= 1
    assert capsys.readouterr().err.count("warning: table ids: Redis is away") == 1
