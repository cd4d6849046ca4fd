"""`headrace replay`: which repaired records go back, and what their source then holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from rich.console import Console

from headrace.errors import ExitCode, Refused
from headrace.replay import replay
from headrace.runtime import fileindex
from headrace.runtime.lake import Lake
from headrace.runtime.sources import index_file
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import Pipeline

PIPELINE = """
CREATE STREAM s (k STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts)
  WITH ('connector' = 'files', 'path' = '{folder}', 'format' = '{format}', 'csv.header' = 'true');
CREATE STREAM t (k STRING) WITH ('connector' = 'delta', 'path' = 'nowhere');
CREATE TABLE r AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
CREATE TABLE u AS SELECT k FROM t;
"""
REJECTED = (
    ("r", "s", "A", "0:0", "bad_record", "{'k'"),
    ("v", "s", "A", "0:0", "bad_record", "{'k'"),  # by another query too
    ("r", "s", "A", "0:1", "null_event_time", '{"k": "a"}'),
    ("r", "s", "0", "0:2", "bad_record", "{"),
    ("r", "s", "A", "0:3", "late", '{"k": "late"}'),
    ("u", "t", "0", "0:0", "bad_record", None),
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    names = ("query", "stream", "partition", "offset", "reason", "raw")
    rows = [dict(zip(names, row, strict=True)) for row in REJECTED]
    write_deltalake(str(tmp_path / "lake/rejected"), pa.Table.from_pylist(rows))
    return Lake(str(tmp_path / "lake"))


def pipeline(tmp_path: Path, form: str = "json") -> Pipeline:
    (tmp_path / "in/partition=A").mkdir(parents=True, exist_ok=True)
    return compile_pipeline(PIPELINE.format(folder=tmp_path / "in", format=form), name="p")


def record(offset: str, raw: str | None, partition: str = "A", stream: str = "s") -> dict[str, Any]:
    return {"stream": stream, "partition": partition, "offset": offset, "raw": raw, "reason": "?"}


def replayed(pipeline: Pipeline, lake: Lake, *records: dict[str, Any]) -> str:
    out = Console(record=True, width=200)
    assert replay(out, pipeline, lake, json.dumps(records)) == ExitCode.DONE
    return out.export_text().strip()


def files(folder: Path) -> dict[str, list[str]]:
    """The lines of the input files by the folder that they are in."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.*")):
        found.setdefault(path.parent.name, []).extend(path.read_text().splitlines())
    return found


def test_repaired_records_come_into_their_partitions_once(tmp_path: Path, lake: Lake) -> None:
    compiled = pipeline(tmp_path)
    repaired = (record("0:0", '{"k": 1}'), record("0:1", '{"k": 2}'), record("0:2", '{"k": 3}', "0"))
    assert replayed(compiled, lake, *repaired) == "3 replayed"
    there = {"partition=A": ['{"k": 1}', '{"k": 2}'], "in": ['{"k": 3}']}
    assert {place: sorted(lines) for place, lines in files(tmp_path / "in").items()} == there
    assert replayed(compiled, lake, *repaired) == "0 replayed, 3 replayed before"
    assert sum(map(len, files(tmp_path / "in").values())) == 3


def test_a_crash_before_the_note_delivers_nothing_twice(tmp_path: Path, lake: Lake) -> None:
    compiled = pipeline(tmp_path)
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr("headrace.replay._note", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            replayed(compiled, lake, record("0:0", '{"k": 1}'))
    assert replayed(compiled, lake, record("0:0", '{"k": 1}')) == "1 replayed"
    assert files(tmp_path / "in") == {"partition=A": ['{"k": 1}']}


def test_late_and_unrepaired_records_stay_where_they_are(tmp_path: Path, lake: Lake) -> None:
    said = replayed(pipeline(tmp_path), lake, record("0:3", '{"k": "x"}'), record("0:1", '{"k": "a"}'))
    assert said == "0 replayed, 1 late, and stay rejected, 1 not repaired (raw is what it was)"
    assert files(tmp_path / "in") == {}


def test_a_csv_file_with_a_header_gets_one(tmp_path: Path, lake: Lake) -> None:
    compiled = pipeline(tmp_path, "csv")
    stream, folder = compiled.stream("s"), tmp_path / "in/partition=A"
    (folder / "0.csv").write_text("ts,k\n2026,a\n")
    fileindex.discover(index_file(lake, stream), str(tmp_path / "in"))
    (folder / "1.csv").write_text("k,ts\n")  # another order than that of the record's own file
    fileindex.discover(index_file(lake, stream), str(tmp_path / "in"))
    assert replayed(compiled, lake, record("0:0", "2027,b")) == "1 replayed"
    assert files(tmp_path / "in")["partition=A"][-2:] == ["ts,k", "2027,b"]


def test_two_records_repaired_to_one_text_are_two(tmp_path: Path, lake: Lake) -> None:
    compiled = pipeline(tmp_path)
    assert replayed(compiled, lake, record("0:0", '{"k": 1}')) == "1 replayed"
    assert replayed(compiled, lake, record("0:1", '{"k": 1}'), record("0:0", '{"k": 1}')) == (
        "1 replayed, 1 replayed before"
    )
    assert files(tmp_path / "in") == {"partition=A": ['{"k": 1}', '{"k": 1}']}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[", "the file is no JSON"),
        ('[{"stream": "s"}]', "is no rejected record"),
        (json.dumps([record("9:9", "x")]), "no record 9:9 of partition A of stream s was rejected"),
        (json.dumps([record("0:0", '{"k":\n 1}')]), "has several lines"),
        (json.dumps([record("0:0", "x", "0", "t")]), "stream t takes no text records back"),
    ],
)
def test_what_can_t_be_replayed_is_refused_and_nothing_is_delivered(
    tmp_path: Path, lake: Lake, text: str, said: str
) -> None:
    with pytest.raises(Refused, match=said):
        replay(Console(), pipeline(tmp_path), lake, text)
    assert files(tmp_path / "in") == {}
