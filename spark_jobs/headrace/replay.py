"""`headrace replay`: repaired records go back to where their stream comes from, each once.

What comes in is what `headrace rejected --json` printed, with `raw` repaired. A record that nobody could read,
or that had no event time, was rejected by every query of its stream: its source is the way to all of them. A
late one was not, and would be late again: it stays rejected.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from rich.console import Console

from headrace.errors import ExitCode, Refused
from headrace.rejections import read_rejected
from headrace.runtime import deltawrite, kafkasource
from headrace.runtime.fileindex import LOOSE, check_there, read_index
from headrace.runtime.filesource import first_record
from headrace.runtime.lake import Lake
from headrace.runtime.records import reader_options, under_header
from headrace.runtime.sources import index_file
from headrace.sql.nodes import Pipeline, Stream

Place = tuple[str, str, str]  # stream, partition, offset: what tells a record apart
SCHEMA = pa.schema(
    [
        ("stream", pa.string()),
        ("partition", pa.string()),
        ("offset", pa.string()),
        ("raw", pa.string()),
        ("replayed_at", pa.timestamp("us", tz="UTC")),
    ]
)


@dataclass(frozen=True, slots=True)
class Repaired:
    """A rejected record with its text as it should have been."""

    place: Place
    raw: str


def replay(out: Console, pipeline: Pipeline, lake: Lake, text: str) -> ExitCode:
    """Deliver the repaired records of a JSON document; tell how many were, and why others were not."""
    given = _parsed(text)
    known = _rejected(lake)
    done = _replayed(lake)
    left: dict[str, int] = {}
    fresh: dict[Place, Repaired] = {}
    for row in given:
        place, raw = _placed(row), row["raw"]
        if place not in known:
            raise Refused(
                f"no record {place[2]} of partition {place[1]} of stream {place[0]} was rejected in {lake.root}",
                hint="only what `headrace rejected --json` printed can be replayed; change nothing but raw",
            )
        if "\n" in (raw or ""):
            raise Refused(
                f"the repaired record {place[2]} of stream {place[0]} has several lines",
                hint="write it in one",
            )
        why = _left_out(known[place], place, raw, done)
        if why:
            left[why] = left.get(why, 0) + 1
        else:
            fresh[place] = Repaired(place, raw)
    streams = {place[0]: _taking(pipeline, place[0]) for place in fresh}
    if fresh:
        deltawrite.ensure(_table(lake), SCHEMA, "rejected records that were repaired and delivered again")
    for record in fresh.values():
        _deliver(lake, streams[record.place[0]], record)
        _note(lake, record)
    told = [f"{len(fresh)} replayed", *(f"{count} {why}" for why, count in sorted(left.items()))]
    out.print(", ".join(told), highlight=False)
    return ExitCode.DONE


def _parsed(text: str) -> list[dict[str, Any]]:
    try:
        records = json.loads(text)
    except json.JSONDecodeError as error:
        raise Refused(
            f"the file is no JSON: {error}", hint="`headrace rejected --json` prints what is meant"
        ) from error
    wanted = {"stream", "partition", "offset", "raw"}
    records = records if isinstance(records, list) else [records]
    for record in records:
        if (
            not isinstance(record, dict)
            or not wanted <= record.keys()
            or not isinstance(record["raw"], str | None)
        ):
            raise Refused(
                f"{json.dumps(record)[:80]} is no rejected record",
                hint=f"a list of objects with {', '.join(sorted(wanted))} is meant, as `headrace rejected --json` prints",
            )
    return list(records)


def _placed(record: Mapping[str, Any]) -> Place:
    return str(record["stream"]), str(record["partition"]), str(record["offset"])


def _rejected(lake: Lake) -> dict[Place, dict[str, Any]]:
    """What was rejected, by place; of a record that several queries rejected, a reason other than late."""
    rows = sorted(read_rejected(lake).to_pylist(), key=lambda row: row["reason"] != "late")
    return {_placed(row): row for row in rows}


def _replayed(lake: Lake) -> set[Place]:
    table = deltawrite.opened(_table(lake))
    return set() if table is None else {_placed(row) for row in table.to_pyarrow_table().to_pylist()}


def _left_out(rejected: Mapping[str, Any], place: Place, raw: str | None, done: set[Place]) -> str:
    """Why a record is not delivered; '' where it is."""
    if place in done:
        return "replayed before"
    if rejected["reason"] == "late":
        return "late, and stay rejected"
    if raw is None or raw == rejected["raw"]:
        return "not repaired (raw is what it was)"
    return ""


def _taking(pipeline: Pipeline, name: str) -> Stream:
    """The stream of that name; refused where it is gone, or takes no records back."""
    stream = next((one for one in pipeline.streams if one.name == name), None)
    if stream is None:
        raise Refused(f"the pipeline has no stream {name} any more")
    if stream.connector not in ("files", "kafka") or stream.option("format") not in ("json", "csv"):
        raise Refused(
            f"stream {name} takes no text records back",
            hint="files and Kafka topics in JSON or CSV do; write to its source yourself",
            place=stream.place,
        )
    return stream


# ---- delivery ----------------------------------------------------------------------------------
def _deliver(lake: Lake, stream: Stream, record: Repaired) -> None:
    partition = record.place[1]
    if stream.connector == "kafka":
        kafkasource.send(stream, int(partition), record.raw.encode())
        return
    folder = Path(stream.option("path"))
    inside = folder / f"partition={partition}"
    if partition != LOOSE or inside.is_dir():
        folder = inside
    name = hashlib.sha256(repr(record.place).encode()).hexdigest()[:16]
    target = folder / f"replayed-{name}.{stream.option('format')}"  # one name for each record: never twice
    if not target.exists():
        part = target.with_name(f"_{target.name}")
        lines = (*_header(lake, stream, record), record.raw)
        part.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        part.replace(target)


def _header(lake: Lake, stream: Stream, record: Repaired) -> tuple[str, ...]:
    """The header of the file that the record came from: files may have their columns in other orders."""
    if not under_header(stream):
        return ()
    entries = read_index(index_file(lake, stream)).get(record.place[1], [])
    number = int(record.place[2].partition(":")[0])
    try:
        entry = entries[number]
        check_there(entry)
        line = first_record(entry.path, reader_options(stream).get("comment", ""))
    except (IndexError, FileNotFoundError):
        line = None
    if line is None:
        raise Refused(
            f"stream {stream.name}: the file of record {record.place[2]} is gone, and its header with it",
            hint="write the record into a new file of the stream's folder",
            place=stream.place,
        )
    return (line,)


def _note(lake: Lake, record: Repaired) -> None:
    row = dict(zip(SCHEMA.names, (*record.place, record.raw, datetime.now(UTC)), strict=True))
    write_deltalake(DeltaTable(_table(lake)), pa.Table.from_pylist([row], SCHEMA), mode="append")


def _table(lake: Lake) -> str:
    return f"{lake.root}/_headrace/replayed"
