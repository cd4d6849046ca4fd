"""Which files a range of Delta versions brought, compactions and all. No JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from headrace.runtime.deltarange import _by_version, has_more, last_version


def offset(version: int, index: int = -100, *, starting: bool = False) -> dict[str, Any]:
    return {"reservoirVersion": version, "index": index, "isStartingVersion": starting}


def table(path: Path, *values: int) -> str:
    """A version for each value."""
    for value in values:
        write_deltalake(str(path), pa.table({"v": [value]}), mode="append")
    return str(path)


def values(path: str, pieces: dict[int, set[str]]) -> dict[int, set[int]]:
    """The values in the files of each piece, all of which are there."""
    found: dict[int, set[int]] = {}
    for version, files in pieces.items():
        rows = [pa.parquet.read_table(Path(path, file)).column("v").to_pylist() for file in files]
        assert files <= set(DeltaTable(path, version=version).get_add_actions()["path"].to_pylist())
        found[version] = {value for part in rows for value in part}
    return {version: part for version, part in found.items() if part}


def test_an_offset_covers_whole_versions() -> None:
    assert last_version(offset(3)) == 2
    assert last_version(offset(3, 5)) == 3
    assert last_version(offset(0, -1, starting=True)) == 0


def test_the_first_range_holds_all_rows_and_a_later_one_what_was_added(tmp_path: Path) -> None:
    path = table(tmp_path, 0, 1, 2, 3)
    assert values(path, _by_version(path, None, 1)) == {1: {0, 1}}
    assert values(path, _by_version(path, 1, 3)) == {3: {2, 3}}
    assert _by_version(path, 3, 3) == {}


def test_a_compaction_moves_no_row(tmp_path: Path) -> None:
    path = table(tmp_path, 0, 1, 2)
    DeltaTable(path).optimize.compact()
    table(tmp_path, 4)
    assert values(path, _by_version(path, 0, 4)) == {1: {1}, 2: {2}, 4: {4}}
    assert values(path, _by_version(path, None, 4)) == {2: {0, 1, 2}, 4: {4}}


def test_a_compaction_of_files_that_were_vacuumed_stays(tmp_path: Path) -> None:
    path = table(tmp_path, 0, 1)
    DeltaTable(path).optimize.compact()
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert values(path, _by_version(path, None, 2)) == {2: {0, 1}}


def test_there_is_more_where_a_later_version_brought_data(tmp_path: Path) -> None:
    path = table(tmp_path, 0, 1)
    assert has_more(path, {})
    assert has_more(path, offset(1))
    assert not has_more(path, offset(2))
    DeltaTable(path).optimize.compact()
    assert not has_more(path, offset(2))
    table(tmp_path, 3)
    assert has_more(path, offset(2))


def test_an_empty_table_has_nothing_to_read(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path), schema=pa.schema([("v", pa.int64())]))
    assert not has_more(str(tmp_path), {})
