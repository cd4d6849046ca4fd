"""The numbers of input files: given once, kept whatever comes later."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.errors import Refused
from headrace.runtime.fileindex import Entry, append, check_there, discover, partitions_of, read_index


def numbered(index: Path) -> dict[str, list[tuple[int, str]]]:
    found = read_index(str(index))
    return {name: [(e.number, Path(e.path).name) for e in entries] for name, entries in found.items()}


def test_files_are_numbered_by_name_within_their_partition(tmp_path: Path) -> None:
    folder, index = tmp_path / "in", tmp_path / "index.jsonl"
    for name in ("partition=a/2", "partition=a/1", "partition=b/9", "loose"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    discover(str(index), str(folder))
    assert numbered(index) == {"a": [(0, "1"), (1, "2")], "b": [(0, "9")], "0": [(0, "loose")]}


def test_a_number_stays_whatever_comes_later(tmp_path: Path) -> None:
    folder, index = tmp_path / "in", tmp_path / "index.jsonl"
    folder.mkdir()
    (folder / "m").write_text("1")
    assert [entry.number for entry in discover(str(index), str(folder))] == [0]
    (folder / "a").write_text("2")
    assert [(entry.number, entry.size) for entry in discover(str(index), str(folder))] == [(1, 1)]
    assert discover(str(index), str(folder)) == []
    (folder / "m").unlink()
    (folder / "b").write_text("3")
    discover(str(index), str(folder))
    assert numbered(index) == {"0": [(0, "m"), (1, "a"), (2, "b")]}


def test_names_of_files_being_written_are_passed_over(tmp_path: Path) -> None:
    for name in ("_half", ".hidden"):
        (tmp_path / name).write_text("x")
    assert discover(str(tmp_path / ".index"), str(tmp_path)) == []
    assert partitions_of(str(tmp_path)) == []


def test_an_empty_partition_folder_is_a_partition(tmp_path: Path) -> None:
    (tmp_path / "partition=b").mkdir()
    assert partitions_of(str(tmp_path)) == ["b"]
    (tmp_path / "loose").touch()
    assert partitions_of(str(tmp_path)) == ["0", "b"]


def test_a_folder_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    assert partitions_of(str(tmp_path / "no")) == []
    assert discover(str(tmp_path / "index"), str(tmp_path / "no")) == []


def test_a_numbered_file_of_another_size_is_refused(tmp_path: Path) -> None:
    folder, index = tmp_path / "in", tmp_path / "index.jsonl"
    folder.mkdir()
    (folder / "1").write_text("one")
    (entry,) = discover(str(index), str(folder))
    check_there(entry)
    os.utime(folder / "1", ns=(0, 0))
    assert discover(str(index), str(folder)) == []  # a time alone is no change
    (folder / "1").write_text("one and more")
    with pytest.raises(Refused, match="it had 3 bytes and has 12"):
        discover(str(index), str(folder))
    with pytest.raises(FileNotFoundError, match="was changed"):
        check_there(entry)
    (folder / "1").unlink()
    with pytest.raises(FileNotFoundError, match="no longer there"):
        check_there(entry)


def test_a_torn_last_line_is_written_anew(tmp_path: Path) -> None:
    index = tmp_path / "index.jsonl"
    append(str(index), [Entry("0", 0, "a", 1)])
    whole = index.read_bytes()
    index.write_bytes(whole + b'{"partition": "0", "num')
    assert len(read_index(str(index))["0"]) == 1
    append(str(index), [Entry("0", 1, "b", 1, 7)])
    assert read_index(str(index))["0"] == [Entry("0", 0, "a", 1), Entry("0", 1, "b", 1, 7)]
