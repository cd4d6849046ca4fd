"""Which files a range of Delta versions brought, compactions and all. No JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.errors import Refused
from headrace.runtime.deltarange import PER_VERSION, files_between, has_more, latest, table_schema


def table(path: Path, *values: int) -> str:
    """A version for each value."""
    for value in values:
        write_deltalake(str(path), pa.table({"v": [value]}), mode="append")
    return str(path)


def read(path: str, start: int | None, end: int, first: int = 0) -> list[tuple[int, Any]]:
    """(version, value) of each row in the range."""
    begun = {} if start is None else {"first": first, "version": start}
    files = files_between(path, begun, {"first": first, "version": end})
    return [
        (file.entry.number // PER_VERSION, value)
        for file in files
        for value in pq.read_table(file.entry.path).column("v").to_pylist()
    ]


def test_the_first_range_holds_the_table_and_a_later_one_what_was_added(tmp_path: Path) -> None:
    path = table(tmp_path, 0, 1, 2, 3)
    assert latest(path, {}) == {"first": 3, "version": 3}
    assert read(path, None, 1, first=1) == [(1, 0), (1, 1)]
    assert read(path, 1, 3) == [(2, 2), (3, 3)]
    assert read(path, 3, 3) == []
    assert files_between(path, {}, {}) == []


def test_numbers_go_up_with_versions_and_stay(tmp_path: Path) -> None:
    path = table(tmp_path, 0, 1)
    write_deltalake(path, pa.table({"v": [1, 2, 3]}), mode="append", target_file_size=1)
    files = files_between(path, {"first": 0, "version": 0}, {"first": 0, "version": 2})
    numbers = [file.entry.number for file in files]
    assert numbers == sorted(set(numbers))
    assert files == files_between(path, {"first": 0, "version": 0}, {"first": 0, "version": 2})


def test_a_compaction_moves_no_row_and_brings_none(tmp_path: Path) -> None:
    path = table(tmp_path, 0, 1, 2)
    before = read(path, None, 2, first=1)
    DeltaTable(path).optimize.compact()
    table(tmp_path, 4)
    assert read(path, 0, 4) == [(1, 1), (2, 2), (4, 4)]
    assert read(path, None, 2, first=1) == before
    assert latest(path, {"first": 1, "version": 2}) == {"first": 1, "version": 4}


def test_a_stream_that_begins_behind_a_compaction_reads_its_files(tmp_path: Path) -> None:
    path = table(tmp_path, 0, 1)
    DeltaTable(path).optimize.compact()
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert sorted(read(path, None, 2, first=2)) == [(2, 0), (2, 1)]
    with pytest.raises(FileNotFoundError, match="no longer there"):
        read(path, 0, 1)


def test_a_log_that_was_cleaned_is_said_to_be_gone(tmp_path: Path) -> None:
    path = table(tmp_path, 0, 1, 2)
    (tmp_path / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(FileNotFoundError, match="log of version 1"):
        read(path, 0, 2)
    with pytest.raises(FileNotFoundError):
        latest(str(tmp_path / "none"), {})


def test_a_version_that_took_rows_away_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path, 0, 1)
    DeltaTable(path).delete("v = 0")
    with pytest.raises(Refused, match=r"version 2 .* took rows away"):
        read(path, 1, 2)
    assert read(path, None, 2, first=2) == [(2, 1)]


def test_partition_columns_are_constants_of_the_file(tmp_path: Path) -> None:
    path = str(tmp_path)
    for values in (["x y", None], ["b"]):
        rows = pa.table({"v": list(range(len(values))), "d": pa.array(values, pa.string())})
        write_deltalake(path, rows, mode="append", partition_by=["d"])
    snapshot = files_between(path, {}, {"first": 1, "version": 1})
    assert sorted(str(file.constants["d"]) for file in snapshot) == ["None", "b", "x y"]
    (added,) = files_between(path, {"first": 0, "version": 0}, {"first": 0, "version": 1})
    assert added.constants == {"d": "b"}


def test_there_is_more_after_each_commit(tmp_path: Path) -> None:
    path = table(tmp_path, 0, 1)
    assert has_more(path, {})
    assert has_more(path, {"first": 0, "version": 0})
    assert not has_more(path, {"first": 0, "version": 1})


def test_a_table_that_needs_more_than_its_files_is_refused(tmp_path: Path) -> None:
    path = table(tmp_path, 0)
    assert [field["name"] for field in table_schema(path)["fields"]] == ["v"]
    log = tmp_path / "_delta_log" / f"{0:020d}.json"
    text = log.read_text()
    features = '"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors"]'
    protocol = next(line for line in text.splitlines() if '"protocol"' in line)
    log.write_text(text.replace(protocol, f'{{"protocol":{{{features}}}}}'))
    with pytest.raises(Refused, match="uses deletionVectors"):
        table_schema(path)
