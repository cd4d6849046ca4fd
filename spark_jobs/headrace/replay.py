"""`headrace replay`: repaired records go back to where their stream comes from, each once.

What comes in is what `headrace rejected --json` printed, with `raw` repaired. A record that nobody could read,
or that had no event time, was rejected by every query of its stream: its source is the way to all of them. A
late one was not, and would be late again: it stays rejected.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
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
from headrace.runtime.fileindex import LOOSE, files_of
from headrace.runtime.filesource import first_record
from headrace.runtime.lake import Lake
from headrace.runtime.records import reader_options
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
    for record in given:
        place, raw = _placed(record), record["raw"]
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
    for stream, records in _by_stream(pipeline, fresh.values()):
        _deliver(stream, records)
        _note(lake, records)
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
    for record in records if isinstance(records, list) else [records]:
        if (
            not isinstance(record, dict)
            or not wanted <= record.keys()
            or not isinstance(record["raw"], str | None)
        ):
            raise Refused(
                f"{json.dumps(record)[:80]} is no rejected record",
                hint=f"a list of objects with {', '.join(sorted(wanted))} is meant, as `headrace rejected --json` prints",
            )
    return records if isinstance(records, list) else [records]


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


def _by_stream(pipeline: Pipeline, records: Iterable[Repaired]) -> list[tuple[Stream, Sequence[Repaired]]]:
    found: dict[str, list[Repaired]] = {}
    for record in records:
        found.setdefault(record.place[0], []).append(record)
    streams = {stream.name: stream for stream in pipeline.streams}
    for name in found:
        if name not in streams:
            raise Refused(f"the pipeline has no stream {name} any more")
        _check(streams[name])
    return [(streams[name], several) for name, several in found.items()]


def _check(stream: Stream) -> None:
    """Refuse a stream that takes no records back."""
    texts = stream.connector == "files" and stream.option("format") in ("json", "csv")
    if not texts and not (stream.connector == "kafka" and stream.option("format") in ("json", "csv")):
        raise Refused(
            f"stream {stream.name} takes no text records back",
            hint="files and Kafka topics in JSON or CSV do; write to its source yourself",
            place=stream.place,
        )


# ---- delivery ----------------------------------------------------------------------------------
def _deliver(stream: Stream, records: Sequence[Repaired]) -> None:
    if stream.connector == "kafka":
        kafkasource.send(stream, [(int(one.place[1]), one.raw.encode()) for one in records])
        return
    parts: dict[str, list[str]] = {}
    for one in records:
        parts.setdefault(one.place[1], []).append(one.raw)
    for partition, lines in parts.items():
        _write_file(stream, partition, lines)


def _write_file(stream: Stream, partition: str, lines: Sequence[str]) -> None:
    """A new input file, named after what is in it: the same records again are the same file."""
    form = stream.option("format")
    text = "".join(f"{line}\n" for line in (*_header(stream), *lines))
    folder = Path(stream.option("path"))
    inside = folder / f"partition={partition}"
    if partition != LOOSE or inside.is_dir():
        folder = inside
    target = folder / f"replayed-{hashlib.sha256(text.encode()).hexdigest()[:16]}.{form}"
    if not target.exists():
        part = target.with_name(f"_{target.name}")
        part.write_text(text, encoding="utf-8")
        part.replace(target)


def _header(stream: Stream) -> tuple[str, ...]:
    """The header line of the stream's own files, where they have one."""
    if stream.option("format") != "csv" or stream.option("csv.header", "false").lower() != "true":
        return ()
    comment = reader_options(stream).get("comment", "")
    lines = (first_record(path, comment) for _, path, _ in files_of(stream.option("path")))
    line = next((line for line in lines if line is not None), None)
    if line is None:
        raise Refused(f"stream {stream.name}: no file is left to take the header from", place=stream.place)
    return (line,)


def _note(lake: Lake, records: Sequence[Repaired]) -> None:
    now = datetime.now(UTC)
    rows = [dict(zip(SCHEMA.names, (*one.place, one.raw, now), strict=True)) for one in records]
    path = _table(lake)
    deltawrite.ensure(path, SCHEMA, "rejected records that were repaired and delivered again")
    write_deltalake(DeltaTable(path), pa.Table.from_pylist(rows, SCHEMA), mode="append")


def _table(lake: Lake) -> str:
    return f"{lake.root}/_headrace/replayed"
