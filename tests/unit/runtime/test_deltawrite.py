"""deltawrite: each change once, and writers that don't get into each other's way."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from headrace.runtime.deltawrite import Once, append_once, ensure, replace_once, upsert_once

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])
COMMITS = 12


@pytest.fixture
def table(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    ensure(path, SCHEMA)
    return path


def rows(*pairs: tuple[str | None, int]) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "v": v} for k, v in pairs], SCHEMA)


def content(path: str) -> list[tuple[str | None, int]]:
    found = DeltaTable(path).to_pyarrow_table().to_pylist()
    return sorted(((row["k"], row["v"]) for row in found), key=repr)


def test_an_append_of_a_version_that_was_is_not_made_again(table: str) -> None:
    assert append_once(table, rows(("a", 1)), Once("q", 3))
    assert not append_once(table, rows(("a", 1)), Once("q", 3))
    assert not append_once(table, rows(("b", 1)), Once("q", 2))
    assert append_once(table, rows(("a", 1)), Once("other", 3))
    assert content(table) == [("a", 1), ("a", 1)]


def test_a_replacement_and_an_upsert_are_made_once_too(table: str) -> None:
    assert replace_once(table, rows(("a", 1), (None, 2)), Once("q", 0))
    assert upsert_once(table, rows(("b", 3), (None, 4)), ["k"], "", Once("q", 1))
    assert not upsert_once(table, rows(("b", 5)), ["k"], "", Once("q", 1))
    assert not replace_once(table, rows(("c", 5)), Once("q", 1))
    assert content(table) == [("a", 1), ("b", 3), (None, 4)]


def test_queries_that_write_to_one_table_at_the_same_time_lose_nothing(table: str) -> None:
    def query(name: str) -> None:
        for batch in range(COMMITS):
            assert append_once(table, rows((name, batch)), Once(name, batch))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(query, "abcd"))
    assert sorted(content(table)) == [(name, batch) for name in "abcd" for batch in range(COMMITS)]


def test_no_writer_creates_a_table_because_a_second_one_would_do_so_too(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        append_once(str(tmp_path / "t"), rows(("a", 1)), Once("q", 0))
    with pytest.raises(TableNotFoundError):
        replace_once(str(tmp_path / "t"), rows(("a", 1)), Once("q", 0))


def test_a_log_is_read_from_a_checkpoint_at_most_ten_commits_old(table: str) -> None:
    for batch in range(COMMITS):
        append_once(table, rows(("a", batch)), Once("q", batch))
    assert list(Path(table, "_delta_log").glob("*.checkpoint.parquet"))
