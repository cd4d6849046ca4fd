"""Kafka as a source, on a real broker: partitions, restarts, growth, bad records, and what a broker no longer has."""

from __future__ import annotations

import io
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.errors import HeadraceError, Refused, Unknown
from headrace.runtime import batchlog, sources
from headrace.runtime.lake import Lake
from headrace.runtime.query import LivePipeline
from headrace.runtime.session import spark_session
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import Pipeline
from scripts import kafka

pytestmark = pytest.mark.system

START = 1_767_225_600_000  # 2026-01-01T00:00:00Z
MINUTE = 60_000
PIPELINE = """
CREATE STREAM s (k STRING NOT NULL, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts)
  WITH ('connector' = 'kafka', 'watermark.idle-timeout' = '0', {options});
CREATE TABLE r AS SELECT k, v, ts, _PARTITION AS p, _OFFSET AS o, _TIMESTAMP AS at, _EVENT_TIME AS et FROM s;
"""
WINDOWED = """
CREATE TABLE w AS SELECT window_start, COUNT(*) AS n, SUM(v) AS total FROM s
  GROUP BY WINDOW TUMBLING(INTERVAL '10' MINUTE) EMIT FINAL;
"""
SENT = """
CREATE STREAM plain WITH ('connector' = 'kafka', 'bootstrap.servers' = '{servers}', 'topic' = 'plain') AS
  SELECT k, v, ts, CAST(NULL AS STRING) AS nothing FROM s WHERE v > 1;
CREATE STREAM changes WITH ('connector' = 'kafka', 'bootstrap.servers' = '{servers}', 'topic' = 'changes') AS
  SELECT k AS name, SUM(v) AS total FROM s GROUP BY k;
"""
READ = """
CREATE TABLE counted AS SELECT k, COUNT(*) AS n FROM plain GROUP BY k;
CREATE TABLE grown AS SELECT name, total FROM changes WHERE _op = '+U';
"""
AVRO = json.dumps(
    {
        "type": "record",
        "name": "row",
        "fields": [
            {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "k", "type": ["null", "string"]},
            {"name": "v", "type": "int"},
        ],
    }
)
Row = dict[str, Any]


@pytest.fixture(scope="module")
def broker() -> Iterator[kafka.Broker]:
    with kafka.broker() as started:
        yield started


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    return spark_session("headrace tests")


def topic(broker: kafka.Broker, name: str, partitions: int) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": broker.servers})
    admin.create_topics([NewTopic(name, num_partitions=partitions)])[name].result(30)
    return admin


def produce(broker: kafka.Broker, name: str, *records: tuple[int, bytes | None]) -> None:
    """Records as (partition, value); they are in the broker when it returns."""
    producer = Producer({"bootstrap.servers": broker.servers, "linger.ms": 0})
    for partition, value in records:
        producer.produce(name, value=value, partition=partition)
    assert producer.flush(30) == 0


def consumed(broker: kafka.Broker, name: str) -> list[tuple[Any, Any, dict[str, str]]]:
    """All records of a topic of one partition: key, value, headers."""
    consumer = Consumer({"bootstrap.servers": broker.servers, "group.id": "test"})
    place = TopicPartition(name, 0, 0)
    _, end = consumer.get_watermark_offsets(place, timeout=30)
    consumer.assign([place])
    records = consumer.consume(end, timeout=30) if end else []
    consumer.close()
    return [
        (
            key and json.loads(key),
            json.loads(record.value() or b""),
            {header: bytes(value).decode() for header, value in dict(record.headers() or {}).items()},  # type: ignore[arg-type]
        )
        for record, key in ((record, record.key()) for record in records)
    ]


def row(k: str, v: int, minute: float) -> bytes:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((START + minute * MINUTE) // 1000))
    return json.dumps({"k": k, "v": v, "ts": moment}).encode()


def pipeline_of(
    broker: kafka.Broker | str, name: str, form: str = "json", more: str = "", **options: str
) -> Pipeline:
    servers = broker if isinstance(broker, str) else broker.servers
    every = {"bootstrap.servers": servers, "topic": name, "format": form, **options}
    text = ", ".join(f"'{option}' = '{value}'" for option, value in every.items())
    return compile_pipeline(PIPELINE.format(options=text) + more, name="p")


@contextmanager
def running(spark: SparkSession, pipeline: Pipeline, lake: Lake) -> Iterator[LivePipeline]:
    live = LivePipeline(spark, pipeline, lake, partitions=2)
    live.start()
    try:
        yield live
    finally:
        live.stop()


def written(lake: Lake, result: str = "r") -> list[Row]:
    rows: list[Row] = DeltaTable(lake.result(result)).to_pyarrow_table().to_pylist()
    return rows


def batches(lake: Lake, query: str = "r") -> list[tuple[Any, Any]]:
    log = [json.loads(text)["s"] for text in batchlog.read(lake, query).column("offsets").to_pylist()]
    return [(one["start"], one["end"]) for one in log]


def same_rows(spark: SparkSession, pipeline: Pipeline, lake: Lake) -> list[Row]:
    """What the stream delivered is what its ranges give when they are read again; returns the latter."""
    again: list[Row] = []
    for start, end in batches(lake):
        found = sources.read_range(spark, lake, pipeline.stream("s"), start, end).collect()
        again += [one.asDict(recursive=True) for one in found]
    taken = [
        (
            one["_partition"],
            one["_offset"],
            one["k"],
            one["v"],
            one["_timestamp"].timestamp(),
            one["_event_time"],
        )
        for one in again
        if not one["__bad"] and one["_event_time"] is not None
    ]
    kept = [
        (one["p"], one["o"], one["k"], one["v"], one["at"].timestamp(), one["et"]) for one in written(lake)
    ]
    assert sorted(one[:5] for one in taken) == sorted(one[:5] for one in kept)
    assert sum(one["__bad"] for one in again) == sum(
        batchlog.read(lake, "r").column("bad_records").to_pylist()
    )
    return again


def test_partitions_restarts_and_growth_lose_and_double_nothing(
    spark: SparkSession, broker: kafka.Broker, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path))
    admin = topic(broker, "json", 3)
    pipeline = pipeline_of(broker, "json", more=WINDOWED)
    stream = pipeline.stream("s")
    assert sources.known_partitions(lake, stream) == ["0", "1", "2"]
    assert sources.unread(lake, stream, {}) == set()
    produce(broker, "json", (0, row("fast", 1, 31)), (1, row("fast", 2, 32)))
    assert sources.unread(lake, stream, {}) == {"0", "1"}
    with running(spark, pipeline, lake) as live:
        live.settle()
        assert live.watermark("w") is None  # partition 2 has not delivered
        produce(broker, "json", (2, row("slow", 3, 1)), (0, row("fast", 4, 41)))
        live.settle()
        assert live.watermark("w") == START + MINUTE
        assert sources.unread(lake, stream, batches(lake)[-1][1]) == set()
    assert written(lake, "w") == []
    produce(
        broker, "json", (2, row("slow", 5, 12)), (2, row("slow", 6, 2)), (1, b"{"), (1, None), (1, b" \n")
    )
    assert sources.unread(lake, stream, batches(lake)[-1][1]) == {"1", "2"}
    with running(spark, pipeline, lake) as live:
        live.settle()
        assert live.watermark("w") == START + 12 * MINUTE
        assert [(one["n"], one["total"]) for one in written(lake, "w")] == [
            (2, 9)
        ]  # nothing of the slow one was late
        admin.create_partitions([NewPartitions("json", 4)])["json"].result(30)
        wait_for_partitions(lake, pipeline, 4)
        assert sources.discover(lake, stream) == ["0", "1", "2", "3"]
        produce(broker, "json", (3, row("new", 7, 13)), (2, row("slow", 8, 45)))
        live.settle()
        assert "3" in live.queries[1].tracking.marks.partitions("s")
        assert live.watermark("w") == START + 13 * MINUTE
    again = same_rows(spark, pipeline, lake)
    assert sorted(one["v"] for one in written(lake)) == [1, 2, 3, 4, 5, 6, 7, 8]
    found = DeltaTable(lake.rejected).to_pyarrow_table().to_pylist()
    told = {(one["partition"], one["offset"], one["raw"]) for one in found if one["query"] == "r"}
    assert told == {("1", "1", "{"), ("1", "2", None), ("1", "3", " \n")}
    assert {
        (str(one["_partition"]), one["__position"], one["__raw"]) for one in again if one["__bad"]
    } == told
    assert live.metrics()["late_rows"] == 0
    whole = sources.read_range(spark, lake, stream, None, batches(lake)[-1][1])
    assert whole.count() == len(again)


def wait_for_partitions(lake: Lake, pipeline: Pipeline, count: int) -> None:
    """The broker tells of new partitions a moment after it made them."""
    end = time.monotonic() + 30
    while len(sources.known_partitions(lake, pipeline.stream("s"))) < count:
        assert time.monotonic() < end


def test_csv_and_avro_are_read_as_declared(spark: SparkSession, broker: kafka.Broker, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "csv"))
    topic(broker, "csv", 1)
    produce(
        broker,
        "csv",
        (0, b"a;1;2026-01-01 00:00:00"),
        (0, b"b;two;2026-01-01"),
        (0, b"c;3"),
        (0, b"'d;d';NA;\n"),
    )
    pipeline = pipeline_of(
        broker, "csv", "csv", **{"csv.sep": ";", "csv.quote": "\\'", "csv.nullValue": "NA"}
    )
    with running(spark, pipeline, lake) as live:
        live.settle()
    assert [(one["k"], one["v"]) for one in written(lake)] == [("a", 1)]
    assert {key: live.metrics()[key] for key in ("bad_records", "null_event_time_rows")} == {
        "bad_records": 2,
        "null_event_time_rows": 1,
    }
    same_rows(spark, pipeline, lake)

    lake = Lake(str(tmp_path / "avro"))
    topic(broker, "avro", 1)
    produce(broker, "avro", (0, avro("a", 1)), (0, b"\xff\xff\xff"), (0, avro(None, 3)), (0, None))
    pipeline = pipeline_of(broker, "avro", "avro", **{"avro.schema": AVRO})
    with running(spark, pipeline, lake) as live:
        live.settle()
    assert [(one["k"], one["v"]) for one in written(lake)] == [("a", 1)]
    assert live.metrics()["bad_records"] == 3
    raw = {one["offset"]: one["raw"] for one in DeltaTable(lake.rejected).to_pyarrow_table().to_pylist()}
    assert (raw["1"], json.loads(raw["2"])["v"], raw["3"]) == ("////", 3, None)
    same_rows(spark, pipeline, lake)
    with pytest.raises(Refused, match=r"avro\.schema"):
        LivePipeline(spark, pipeline_of(broker, "avro", "avro"), Lake(str(tmp_path / "none"))).start()


def avro(k: str | None, v: int) -> bytes:
    """One record in Avro's binary form: longs zigzag, strings with their length."""
    packed = io.BytesIO()
    for number in (START, *((0,) if k is None else (1, len(k)))):
        packed.write(_zigzag(number))
    packed.write((k or "").encode() + _zigzag(v))
    return packed.getvalue()


def _zigzag(number: int) -> bytes:
    rest, packed = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        packed.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*packed, rest])


def test_records_that_the_broker_has_deleted_are_unknown(
    spark: SparkSession, broker: kafka.Broker, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path))
    admin = topic(broker, "short", 1)
    produce(broker, "short", *((0, row("k", n, n)) for n in range(5)))
    delete_until(admin, "short", 1)
    pipeline = pipeline_of(broker, "short", **{"max-records-per-batch": "2"})
    stream = pipeline.stream("s")
    with running(spark, pipeline, lake) as live:
        live.settle()
    assert [end for _, end in batches(lake)] == [{"short": {"0": 3}}, {"short": {"0": 5}}]
    assert len(same_rows(spark, pipeline, lake)) == 4
    delete_until(admin, "short", 4)
    with pytest.raises(Unknown, match="the broker holds offsets 4 to 5, not 1 to 3"):
        sources.read_range(spark, lake, stream, *batches(lake)[0])
    with pytest.raises(Unknown, match="not 3 to 5"):
        sources.read_range(spark, lake, stream, *batches(lake)[1])
    assert sources.unread(lake, stream, {"short": {"0": 5}}) == set()
    assert sources.read_range(spark, lake, stream, {"short": {"0": 4}}, {"short": {"0": 5}}).count() == 1
    with pytest.raises(Unknown, match="not 5 to 9"):
        sources.read_range(spark, lake, stream, {"short": {"0": 5}}, {"short": {"0": 9}})


def delete_until(admin: AdminClient, name: str, offset: int) -> None:
    next(iter(admin.delete_records([TopicPartition(name, 0, offset)]).values())).result(30)


def test_a_stream_that_begins_with_the_latest_record_is_read_again_from_there(
    spark: SparkSession, broker: kafka.Broker, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path))
    topic(broker, "latest", 1)
    produce(broker, "latest", (0, row("before", 1, 1)), (0, b"bad before"))
    pipeline = pipeline_of(broker, "latest", **{"starting-offsets": "latest"})
    with running(spark, pipeline, lake) as live:
        live.settle()
        produce(broker, "latest", (0, b"bad"), (0, row("after", 2, 1)))
        live.settle()
    assert [one["k"] for one in written(lake)] == ["after"]
    assert [one["raw"] for one in DeltaTable(lake.rejected).to_pyarrow_table().to_pylist()] == ["bad"]
    same_rows(spark, pipeline, lake)
    whole = sources.read_range(spark, lake, pipeline.stream("s"), None, batches(lake)[-1][1])
    assert whole.count() == 2


def test_an_unknown_topic_or_a_broker_that_is_away_is_refused_in_time(
    spark: SparkSession, broker: kafka.Broker, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path))
    with (
        pytest.raises(Refused, match="there is no topic nothing"),
        running(spark, pipeline_of(broker, "nothing"), lake),
    ):
        pass
    with socket.socket() as reserved:
        reserved.bind((kafka.HOST, 0))
        away = f"{kafka.HOST}:{reserved.getsockname()[1]}"
        began = time.monotonic()
        with (
            pytest.raises(Refused, match="no Kafka broker answers"),
            running(spark, pipeline_of(away, "json"), lake),
        ):
            pass
        assert time.monotonic() - began < 60
        stream = pipeline_of(away, "json").stream("s")
        assert sources.unread(lake, stream, {"json": {"0": 1, "1": 5}}) == {"0", "1"}
        with pytest.raises(Unknown):
            sources.read_range(spark, lake, stream, None, {"json": {"0": 1}})


def test_a_topic_that_is_made_anew_is_an_error_not_a_loss(
    spark: SparkSession, broker: kafka.Broker, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path))
    admin = topic(broker, "anew", 1)
    produce(broker, "anew", (0, row("k", 1, 1)), (0, row("k", 2, 1)))
    pipeline = pipeline_of(broker, "anew")
    with running(spark, pipeline, lake) as live:
        live.settle()
    admin.delete_topics(["anew"])["anew"].result(30)
    end = time.monotonic() + 30
    while "anew" in admin.list_topics(timeout=10).topics:
        assert time.monotonic() < end
    topic(broker, "anew", 1)
    produce(broker, "anew", (0, row("k", 3, 1)))
    with pytest.raises(HeadraceError), running(spark, pipeline, lake) as live:
        live.settle()
    assert sorted(one["v"] for one in written(lake)) == [1, 2]


def test_result_streams_go_to_topics_and_a_replayed_batch_is_told_by_its_headers(
    spark: SparkSession, broker: kafka.Broker, tmp_path: Path
) -> None:
    lake = Lake(str(tmp_path))
    for name in ("sent", "plain", "changes"):
        topic(broker, name, 1)
    pipeline = pipeline_of(broker, "sent", more=SENT.format(servers=broker.servers) + READ)
    produce(broker, "sent", (0, row("b", 3, 1)), (0, row("a", 2, 0.5)), (0, row("a", 1, 2)))
    with running(spark, pipeline, lake) as live:
        live.settle()
        produce(broker, "sent", (0, row("a", 4, 3)))
        live.settle()
        assert live.metrics()["output_rows"] == 4 + 3 + 4 + 3 + 1  # r, plain, changes, counted, grown

    def tag(query: str, batch: int, number: int) -> dict[str, str]:
        return {"headrace.query": query, "headrace.batch": str(batch), "headrace.row": str(number)}

    first = [
        (None, {"k": "a", "v": 2, "ts": "2026-01-01T00:00:30.000000Z", "nothing": None}, tag("plain", 0, 1)),
        (None, {"k": "b", "v": 3, "ts": "2026-01-01T00:01:00.000000Z", "nothing": None}, tag("plain", 0, 2)),
    ]
    second = (
        None,
        {"k": "a", "v": 4, "ts": "2026-01-01T00:03:00.000000Z", "nothing": None},
        tag("plain", 1, 1),
    )
    assert consumed(broker, "plain") == [*first, second]
    changes = [(key, value) for key, value, _ in consumed(broker, "changes")]
    assert sorted(changes[:2], key=repr) == [
        ({"name": "a"}, {"_op": "+I", "name": "a", "total": 3}),
        ({"name": "b"}, {"_op": "+I", "name": "b", "total": 3}),
    ]
    assert changes[2:] == [
        ({"name": "a"}, {"_op": "-U", "name": "a", "total": 3}),
        ({"name": "a"}, {"_op": "+U", "name": "a", "total": 7}),
    ]
    (Path(lake.checkpoint("plain")) / "spark/commits/1").unlink()  # as if it had died before its commit
    with running(spark, pipeline, lake) as live:
        live.settle()
        assert live.metrics()["output_rows"] == 15
    assert consumed(broker, "plain") == [*first, second, second]
    assert sorted(one["v"] for one in written(lake, "plain")) == [2, 3, 4]
    assert sorted((one["k"], one["n"]) for one in written(lake, "counted")) == [("a", 2), ("b", 1)]
    assert [(one["name"], one["total"]) for one in written(lake, "grown")] == [("a", 7)]


def test_a_result_s_topic_must_be_there(spark: SparkSession, broker: kafka.Broker, tmp_path: Path) -> None:
    topic(broker, "alone", 1)
    pipeline = pipeline_of(
        broker, "alone", more=SENT.format(servers=broker.servers).replace("'plain'", "'no-such'")
    )
    with pytest.raises(Refused, match="result plain: there is no topic no-such"):
        LivePipeline(spark, pipeline, Lake(str(tmp_path))).start()
