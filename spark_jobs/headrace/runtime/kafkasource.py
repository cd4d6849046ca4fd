"""Kafka topics: what Spark's reader and writer are told, and what the broker itself is asked.

The broker is asked with confluent-kafka for a topic's partitions and for the offsets that it holds, each time
with a limit: a broker that is away is an error with a hint, never a wait without end. Topics are never made.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from headrace.errors import HeadraceError, Refused
from headrace.sql.nodes import Result, Stream

Offset = dict[str, Any]
ASK_S = 10.0  # how long a start waits for the broker
GLANCE_S = 3.0  # how long a running query's driver does
EARLIEST, LATEST = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]

# Kafka's own client options -> their names in confluent-kafka.
CLIENT: Mapping[str, str] = MappingProxyType(
    {
        "security.protocol": "security.protocol",
        "sasl.mechanism": "sasl.mechanisms",
        "sasl.kerberos.service.name": "sasl.kerberos.service.name",
        "ssl.endpoint.identification.algorithm": "ssl.endpoint.identification.algorithm",
        "client.id": "client.id",
    }
)


def reader_options(stream: Stream, note: Path) -> dict[str, str]:
    """What Spark's stream reader is told. `note` keeps where the stream began, for every query of the lake."""
    known = partitions(stream)
    if not note.exists():
        spec = LATEST if stream.option("starting-offsets") == "latest" else EARLIEST
        note.parent.mkdir(parents=True, exist_ok=True)
        fresh = note.with_name(f"_{note.name}")
        fresh.write_text(json.dumps({stream.option("topic"): _asked(stream, known, spec)}), encoding="utf-8")
        fresh.replace(note)
    begun = _since(stream, _begun(note), known)
    options = {**_common(stream), "subscribe": stream.option("topic")}
    options["startingOffsets"] = json.dumps({stream.option("topic"): begun})
    if stream.option("max-records-per-batch"):
        options["maxOffsetsPerTrigger"] = stream.option("max-records-per-batch")
    return options


def range_options(stream: Stream, note: Path, start: Offset | None, end: Offset) -> dict[str, str]:
    """What Spark's batch reader is told to read (start, end] again.

    Raises FileNotFoundError where the broker no longer holds all of it, or does not answer.
    """
    topic = stream.option("topic")
    upto: dict[str, int] = end.get(topic, {})
    try:
        low, high = (_offsets(stream, list(upto), spec) for spec in (EARLIEST, LATEST))
    except KafkaException as error:
        raise FileNotFoundError(
            f"topic {topic} at {stream.option('bootstrap.servers')}: {_told(error)}"
        ) from error
    since = _since(stream, start or _begun(note), list(upto))
    for partition, first in since.items():
        if first < min(low[partition], upto[partition]) or upto[partition] > high[partition]:
            raise FileNotFoundError(
                f"topic {topic}, partition {partition}: the broker holds offsets {low[partition]} to "
                f"{high[partition]}, not {first} to {upto[partition]}"
            )
    options = _common(stream)
    options["assign"] = json.dumps({topic: [int(partition) for partition in upto]})
    options["startingOffsets"] = json.dumps({topic: since})
    options["endingOffsets"] = json.dumps({topic: upto})
    return options


def newest_range(stream: Stream, rows: int) -> tuple[Offset, Offset]:
    """The offsets between which the newest `rows` records that the broker holds lie, the same number of each partition."""
    known = partitions(stream)
    low, high = (_asked(stream, known, spec) for spec in (EARLIEST, LATEST))
    each = -(-rows // max(len(known), 1))
    topic = stream.option("topic")
    return {topic: {p: max(low[p], high[p] - each) for p in known}}, {topic: high}


def _begun(note: Path) -> Offset:
    begun: Offset = json.loads(note.read_text(encoding="utf-8"))
    return begun


def _since(stream: Stream, start: Offset, wanted: list[str]) -> dict[str, int]:
    """The first offset by partition; one that `start` does not know came later, and its records begin at 0."""
    begun: dict[str, int] = start.get(stream.option("topic"), {})
    return {partition: begun.get(partition, 0) for partition in wanted}


def partitions(of: Stream | Result) -> list[str]:
    """The topic's partitions. Raises Refused where there is no such topic, or no broker answers."""
    servers, topic = of.option("bootstrap.servers"), of.option("topic")
    name = f"{'result' if isinstance(of, Result) else 'stream'} {of.name}"
    try:
        # All topics: to ask for one by name would make it, where the broker makes topics by itself.
        topics = _admin(of).list_topics(timeout=ASK_S).topics
    except KafkaException as error:
        raise Refused(
            f"{name}: no Kafka broker answers at {servers}: {_told(error)}",
            hint="see 'bootstrap.servers' and the 'kafka.*' options",
            place=of.place,
        ) from error
    if topic not in topics:
        raise Refused(
            f"{name}: there is no topic {topic} at {servers}",
            hint="create the topic first",
            place=of.place,
        )
    return [str(partition) for partition in sorted(topics[topic].partitions)]


def send(stream: Stream, partition: int, value: bytes) -> None:
    """A record into the stream's topic; it is in the broker when this returns. Raises HeadraceError else."""
    failed: list[str] = ["the broker did not answer"]
    producer = _producer(tuple(sorted(_settings(stream).items())))
    producer.produce(
        stream.option("topic"),
        value=value,
        partition=partition,
        on_delivery=lambda error, _: failed.append(str(error)) if error else failed.clear(),
    )
    producer.flush(ASK_S * 2)
    if failed:
        raise HeadraceError(f"stream {stream.name}: a record did not reach the topic: {failed[-1]}")


def unread(stream: Stream, consumed: Offset) -> set[str]:
    """The partitions with records beyond `consumed`; all of them where the broker can't say.

    A partition that no batch knows yet is not named: the tracker doesn't know it either.
    """
    taken: dict[str, int] = consumed.get(stream.option("topic"), {})
    try:
        topics = _admin(stream).list_topics(stream.option("topic"), timeout=GLANCE_S).topics
        every = [str(partition) for partition in topics[stream.option("topic")].partitions]
        found = [partition for partition in every if partition in taken] if taken else every
        low, high = (_offsets(stream, found, spec) for spec in (EARLIEST, LATEST))
    except KafkaException:
        return set(taken)
    return {p for p in found if high[p] > max(taken.get(p, 0), low[p])}


def _asked(stream: Stream, wanted: list[str], spec: OffsetSpec) -> dict[str, int]:
    try:
        return _offsets(stream, wanted, spec)
    except KafkaException as error:
        raise Refused(
            f"stream {stream.name}: the broker does not tell its offsets: {_told(error)}", place=stream.place
        ) from error


def _offsets(stream: Stream, wanted: list[str], spec: OffsetSpec) -> dict[str, int]:
    """The offset by partition: the earliest held, or the one behind the newest record."""
    topic = stream.option("topic")
    asked = {TopicPartition(topic, int(partition)): spec for partition in wanted}
    if not asked:
        return {}
    answers = _admin(stream).list_offsets(asked, request_timeout=GLANCE_S)
    return {
        str(place.partition): int(answer.result(GLANCE_S * 2).offset) for place, answer in answers.items()
    }


def client_options(of: Stream | Result) -> dict[str, str]:
    """What Spark tells Kafka's own client."""
    passed = {name: value for name, value in of.options if name.startswith("kafka.")}
    return {"kafka.bootstrap.servers": of.option("bootstrap.servers"), **passed}


def _common(stream: Stream) -> dict[str, str]:
    return {**client_options(stream), "failOnDataLoss": "true"}


def _admin(of: Stream | Result) -> AdminClient:
    return _client(tuple(sorted(_settings(of).items())))


def _settings(of: Stream | Result) -> dict[str, Any]:
    """What confluent-kafka is told of the broker."""
    own = {name.removeprefix("kafka."): value for name, value in of.options if name.startswith("kafka.")}
    settings: dict[str, Any] = {"bootstrap.servers": of.option("bootstrap.servers"), "log_level": 0}
    settings |= {CLIENT[name]: value for name, value in own.items() if name in CLIENT}
    login = own.get("sasl.jaas.config", "")
    for name in ("username", "password"):
        if found := re.search(rf'{name}\s*=\s*"([^"]*)"', login):
            settings[f"sasl.{name}"] = found.group(1)
    if own.get("ssl.truststore.type", "").upper() == "PEM" and "ssl.truststore.location" in own:
        settings["ssl.ca.location"] = own["ssl.truststore.location"]
    return settings


@cache
def _client(settings: tuple[tuple[str, Any], ...]) -> AdminClient:
    """One connection a broker for the whole process."""
    return AdminClient(dict(settings))


@cache
def _producer(settings: tuple[tuple[str, Any], ...]) -> Producer:
    """One connection a broker for the whole process."""
    return Producer({**dict(settings), "message.timeout.ms": int(ASK_S * 1000)})


def _told(error: KafkaException) -> str:
    return str(error.args[0].str()) if error.args else str(error)
