"""Files as Arrow batches: every record with its place, nothing of the line's ends. No JVM."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import IntegerType, LongType, StringType, StructType, TimestampType

from headrace.runtime import filesource
from headrace.runtime.fileindex import Entry, append
from headrace.runtime.filesource import POSITION_NAMES, WRITTEN, FileReader, FileStreamReader

POSITIONS = StructType()
for _name in POSITION_NAMES:
    POSITIONS = POSITIONS.add(_name, StringType() if _name == "__partition" else LongType())


def schema(*names: str) -> StructType:
    found = StructType(list(POSITIONS.fields))
    for name in names:
        found = found.add(name, StringType())
    return found


def read(path: Path, columns: StructType, **options: str) -> list[dict[str, Any]]:
    index = path.with_name("_index")
    index.unlink(missing_ok=True)
    append(str(index), [Entry("p", 5, str(path), 7)])
    reader = FileReader({"index": str(index), "start": "{}", "end": '{"p": 1}', **options}, columns)
    (partition,) = reader.partitions()
    return [row for batch in reader.read(partition) for row in batch.to_pylist()]


def lines(path: Path, **options: str) -> list[tuple[int, str]]:
    return [(row["__line"], row["__value"]) for row in read(path, schema("__value"), **options)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"a\nb\n", [(0, "a"), (1, "b")]),
        (b"a\nb", [(0, "a"), (1, "b")]),
        (b"a\r\nb\r\n", [(0, "a"), (1, "b")]),
        (b"a\r\nb\r", [(0, "a"), (1, "b")]),
        (b"\xef\xbb\xbfa\n", [(0, "a")]),
        (b"\n\na\n \t\nb\n\n", [(2, "a"), (4, "b")]),
        (b"", []),
        (b"\n", []),
        (b"\xef\xbb\xbf", []),
        ("é\n".encode(), [(0, "é")]),
    ],
)
def test_lines_are_counted_as_they_stand(
    tmp_path: Path, content: bytes, expected: list[tuple[int, str]]
) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(content)
    assert lines(path) == expected


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_packed_files_are_opened(tmp_path: Path, ending: str, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / f"f.json{ending}"
    path.write_bytes(pack(b"\xef\xbb\xbfa\r\nb\n"))
    assert lines(path) == [(0, "a"), (1, "b")]
    assert filesource.first_record(str(path)) == "a"


def test_a_record_has_its_partition_file_and_time(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("a")
    (row,) = read(path, schema("__value"))
    assert row == {"__partition": "p", "__file": 5, "__line": 0, "__at": 7, "__value": "a"}


def test_many_records_come_in_several_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesource, "CHUNK", 3)
    path = tmp_path / "f"
    path.write_text("".join(f"{n}\n\n" for n in range(10)))
    assert lines(path) == [(2 * n, str(n)) for n in range(10)]


def test_comments_are_no_records_and_the_header_stands_below_them(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("# what it is\nk,v\n# more\n1,2\n")
    options = {"comment": "#", "header": '["k", "v"]', "declared": '["k", "v"]'}
    assert filesource.first_record(str(path), "#") == "k,v"
    rows = read(path, schema("__value", WRITTEN), **options)
    assert [(row["__line"], row["__value"], row[WRITTEN]) for row in rows] == [(3, "1,2", None)]


def test_lines_under_another_header_are_rearranged_and_kept_as_written(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(b'v,k\n1,"a,b"\n2\n3,\xff\n')
    options = {"header": json.dumps(["k", "v"]), "declared": json.dumps(["k", "v"])}
    batch = read_binary(path, **options)
    assert batch == [(1, b'"a,b",1', b'1,"a,b"'), (2, b"", b"2"), (3, b"\xff,3", b"3,\xff")]


def read_binary(path: Path, **options: str) -> list[tuple[int, bytes, bytes]]:
    """Like `read`, for lines that are not UTF-8."""
    reader = FileReader(options, schema("__value", WRITTEN))
    found = []
    for numbers, arrays in reader._lines(str(path)):
        value, written = (array.cast(pa.binary()).to_pylist() for array in arrays)
        found += list(zip(numbers, value, written, strict=True))
    return found


def test_parquet_comes_by_name_as_the_declared_types(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    moment = pa.array([1_500], pa.timestamp("ns"))
    pq.write_table(pa.table({"other": [1], "T": moment, "v": pa.array([3], pa.int16())}), path)
    columns = StructType(list(POSITIONS.fields)).add("v", LongType()).add("t", TimestampType())
    (row,) = read(path, columns, format="parquet")
    assert (row["v"], row["t"].microsecond) == (3, 1)


def test_parquet_that_does_not_fit_is_an_error_that_names_file_and_column(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"v": [2**40]}), path)
    narrow = StructType(list(POSITIONS.fields)).add("v", IntegerType())
    with pytest.raises(ValueError, match=r"f\.parquet, column v is int64"):
        read(path, narrow, format="parquet")
    with pytest.raises(ValueError, match=r"f\.parquet has no column w"):
        read(path, StructType(list(POSITIONS.fields)).add("w", LongType()), format="parquet")


def test_a_batch_takes_at_most_the_limit_of_files_a_partition(tmp_path: Path) -> None:
    index = str(tmp_path / "index")
    append(index, [Entry(p, n, f"{p}{n}", 0) for p in ("a", "b") for n in range(3 if p == "a" else 1)])
    reader = FileStreamReader({"index": index, "limit": "2"}, schema("__value"))
    assert reader.latestOffset(reader.initialOffset(), None) == {"a": 2, "b": 1}
    assert reader.latestOffset({"a": 2, "b": 1}, None) == {"a": 3, "b": 1}


def test_a_range_beyond_the_index_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="lacks files of partition a"):
        filesource.file_range(str(tmp_path / "none"), {}, {"a": 1})
