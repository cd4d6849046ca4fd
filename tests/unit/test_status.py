"""`headrace status`: what a lake tells of a pipeline's reference tables, running or not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.cli import main
from headrace.runtime.checkpoint import Checkpoint
from headrace.runtime.lake import Lake
from headrace.sql.compile import compile_pipeline
from headrace.status import age, statuses

SQL = """
SET 'lookup.min-bytes' = '1kB';
SET 'broadcast.max-bytes' = '0';
CREATE STREAM s (id BIGINT);
CREATE TABLE t (id BIGINT, PRIMARY KEY (id));
CREATE TABLE never (id BIGINT, PRIMARY KEY (id));
CREATE TABLE a AS SELECT s.id FROM s JOIN t ON s.id = t.id;
CREATE TABLE b AS SELECT s.id FROM s LEFT JOIN t ON s.id = t.id;
"""


def told(way: str, why: str = "", **blocks: int) -> dict[str, dict[str, Any]]:
    return {"t": {"version": 0, "way": way, "why": why, "blocks": blocks}}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A lake with two versions of the table: 3 rows, then 1,000."""
    lake = Lake(str(tmp_path / "lake"))
    for rows in ([1, 2, 3], range(1_000)):
        write_deltalake(lake.table("t"), pa.table({"id": rows}), mode="overwrite")
    return lake


def out(
    lake: Lake, folder: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> tuple[int | str | None, str]:
    (folder / "p.sql").write_text(SQL)
    with pytest.raises(SystemExit) as ended:
        main(["status", str(folder / "p.sql"), "--lake", lake.root, *options])
    return ended.value.code, capsys.readouterr().out


def test_before_the_first_start_the_size_tells(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = out(lake, tmp_path, capsys)
    assert code == 0
    head, first, second = (line.rstrip() for line in text.splitlines())
    assert head.split() == ["table", "pinned", "newest", "age", "rows", "bytes", "joined"]
    cells = first.split()
    assert [cells[0], cells[1], cells[2], cells[4]] == ["t", "–", "1", "1,000"]
    assert first.endswith("joined by Spark ('lookup.redis' is not set)")
    assert second.split(maxsplit=6)[0::6] == ["never", "not published yet"]


def test_what_the_queries_noted_is_told(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, version in (("a", 0), ("b", 1)):
        Checkpoint.at(Path(lake.checkpoint(name))).pin(0, {"t": version})
    Checkpoint.at(Path(lake.checkpoint("a"))).note_tables(told("looked up in Redis", redis=30, delta=4))
    Checkpoint.at(Path(lake.checkpoint("b"))).note_tables(told("looked up in Redis", redis=6))
    code, text = out(lake, tmp_path, capsys, "--json")
    assert code == 0
    found, never = json.loads(text)["tables"]
    assert found["pinned"] == {"a": 0, "b": 1}
    assert (found["newest"], found["rows"], found["way"]) == (1, 1_000, "looked up in Redis")
    assert found["blocks"] == {"redis": 36, "delta": 4}
    assert found["bytes"] > 0
    assert 0 <= found["age_s"] < 600
    assert (never["newest"], never["why"]) == (None, "not published yet")
    _, drawn = out(lake, tmp_path, capsys)
    assert "0, 1" in drawn
    assert "looked up in Redis (4 of 40 blocks from Delta)" in drawn


def test_the_size_is_that_of_the_version_in_use(lake: Lake) -> None:
    Checkpoint.at(Path(lake.checkpoint("a"))).pin(0, {"t": 0})
    found, _ = statuses(compile_pipeline(SQL), lake, 0)
    assert (found.newest, found.rows, found.age_s) == (1, 3, 0)
    assert found.way == "joined by Spark"


def test_an_age_has_its_two_largest_units() -> None:
    assert [age(seconds) for seconds in (0, 59, 60, 3_661, 90_000)] == [
        "0s",
        "59s",
        "1m 0s",
        "1h 1m",
        "1d 1h",
    ]
