"""The file source: records of numbered files, per source partition, with their exact position.

The driver lists folders and numbers each file once in an index (`runtime/fileindex.py`); this source
only reads that index, so an offset is `{partition: number of files consumed}` and a batch's range can
be read again at any time; of a Delta table its log is the index (`runtime/deltarange.py`). Text formats come as raw lines (Spark parses them, as it does Kafka's values);
parquet and delta come typed. Lines are counted from 0 in the file as it is, its header and blank lines too; blank
lines are no records. Whole Arrow batches, never a row in Python, except where a CSV file has another header
than the stream's first. Runs in a Python worker: of Headrace it imports only what does so too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.runtime import csvlayout, deltarange
from headrace.runtime.arrowcast import fitted
from headrace.runtime.deltarange import DeltaFile
from headrace.runtime.fileindex import Entry, check_there, read_index

POSITION = "__partition STRING, __file BIGINT, __line BIGINT, __at BIGINT"
LINES = f"{POSITION}, __value STRING"
POSITION_NAMES = ("__partition", "__file", "__line", "__at")
WRITTEN = "__written"  # a line as it stands in the file, where `__value` is that line rearranged; else NULL
LINES_UNDER_HEADER = f"{LINES}, {WRITTEN} STRING"
CHUNK = 65_536  # records in one Arrow batch
BEGINNING = 1 << 20  # bytes in which a header is looked for
BOM = b"\xef\xbb\xbf"


class Files(DataSource):
    """Options: index (file, of delta the table's path), format (json | csv | parquet | delta), comment (a character), limit (files a partition
    and batch), header (JSON: the names by which CSV is parsed; '' = no header), declared (JSON: names), and
    csv.sep, csv.quote, csv.escape.
    """

    @classmethod
    def name(cls) -> str:
        return "headrace_files"

    def schema(self) -> str:
        return LINES

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return FileStreamReader(dict(self.options), schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        return FileReader(dict(self.options), schema)


class _Records:
    """What both readers share: the options and how a file becomes Arrow batches."""

    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self.options = options
        self.columns = schema.fieldNames()[len(POSITION_NAMES) :]
        self.types = [kind.type for kind in to_arrow_schema(schema, timezone="UTC")][len(POSITION_NAMES) :]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        file: DeltaFile = partition.value
        entry = file.entry
        form = self.options.get("format", "json")
        pieces = (
            self._lines(entry.path)
            if form in ("json", "csv")
            else self._typed(file, strict=form == "parquet")
        )
        for lines, arrays in pieces:
            count = len(lines)
            position = [
                pa.repeat(entry.partition, count),
                pa.repeat(pa.scalar(entry.number, pa.int64()), count),
                pa.array(lines, pa.int64()),
                pa.repeat(pa.scalar(entry.at_ms, pa.int64()), count),
            ]
            yield pa.RecordBatch.from_arrays([*position, *arrays], [*POSITION_NAMES, *self.columns])

    def _lines(self, path: str) -> Iterator[tuple[Sequence[int], list[pa.Array]]]:
        lines = lines_of(path)
        kept: Sequence[int] = _records_of(lines, self.options.get("comment", ""))
        rearranged = None
        if header := self.options.get("header", ""):
            rearranged = self._rearranging(lines[kept[0]], json.loads(header)) if kept else None
            kept = kept[1:]
        for begin in range(0, len(kept), CHUNK):
            numbers = kept[begin : begin + CHUNK]
            written = [lines[number] for number in numbers]
            arrays = [_strings(written)]
            if header:
                arrays.append(pa.nulls(len(written), pa.string()) if rearranged is None else arrays[0])
            if rearranged is not None:
                arrays[0] = _strings([_encoded(rearranged(_decoded(line))) for line in written])
            yield numbers, arrays

    def _rearranging(self, line: bytes, wanted: list[str]) -> Any:
        passed = {
            name: self.options[f"csv.{name}"]
            for name in ("sep", "quote", "escape")
            if f"csv.{name}" in self.options
        }
        dialect = csvlayout.dialect_of(passed)
        declared = json.loads(self.options["declared"])
        return csvlayout.rearranging(csvlayout.names_of(_decoded(line), dialect), wanted, declared, dialect)

    def _typed(self, file: DeltaFile, *, strict: bool) -> Iterator[tuple[Sequence[int], list[pa.Array]]]:
        """The columns by name; one that a file lacks is an error where `strict`, else NULL (it came later)."""
        path, line = file.entry.path, 0
        opened = pq.ParquetFile(path)
        own = {name.casefold(): name for name in reversed(opened.schema_arrow.names)}
        names = {name: own.get(name.casefold(), "") for name in self.columns}
        lacking = [name for name, found in names.items() if not found and name not in file.constants]
        if strict and lacking:
            raise ValueError(f"{path} has no column {lacking[0]}")
        wanted = [name for name in names.values() if name]
        for batch in opened.iter_batches(batch_size=CHUNK, columns=wanted):
            count = batch.num_rows
            arrays = []
            for name, kind in zip(self.columns, self.types, strict=True):
                value = pa.scalar(file.constants.get(name))
                values = batch.column(names[name]) if names[name] else pa.repeat(value, count)
                arrays.append(_cast(values, kind, f"{path}, column {name}"))
            yield range(line, line + count), arrays
            line += count


class FileStreamReader(_Records, DataSourceStreamReader):
    """Files that the index lists beyond the committed offset."""

    def initialOffset(self) -> dict[str, int]:
        return {}

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        if (hold := self.options.get("hold")) and Path(hold).exists():
            return start  # a join has no room for more (runtime/buffers.py)
        if self.options.get("format") == "delta":
            return deltarange.latest(self.options["index"], start)
        index = read_index(self.options["index"])
        most = int(self.options.get("limit", "1000"))
        return {
            partition: min(len(entries), start.get(partition, 0) + most)
            for partition, entries in sorted(index.items())
        }

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        return input_of(self.options, start, end)


class FileReader(_Records, DataSourceReader):
    """The batch twin: the files between two offsets, given as JSON in the options `start` and `end`."""

    def partitions(self) -> Sequence[InputPartition]:
        start, end = json.loads(self.options["start"]), json.loads(self.options["end"])
        return input_of(self.options, start, end) or [InputPartition(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return iter(()) if partition.value is None else super().read(partition)


def input_of(options: Mapping[str, str], start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
    """One input partition for each file in (start, end]; FileNotFoundError where one is gone or was changed."""
    if options.get("format") == "delta":
        return [InputPartition(file) for file in deltarange.files_between(options["index"], start, end)]
    return [InputPartition(DeltaFile(entry)) for entry in file_range(options["index"], start, end)]


def file_range(index: str, start: dict[str, int], end: dict[str, int]) -> list[Entry]:
    """The files in (start, end], each there and as it was numbered; else FileNotFoundError."""
    entries = read_index(index)
    short = [partition for partition, upto in end.items() if len(entries.get(partition, [])) < upto]
    if short:
        raise FileNotFoundError(f"the index {index} lacks files of partition {', '.join(short)}")
    wanted = [
        entry
        for partition, upto in sorted(end.items())
        for entry in entries.get(partition, [])[start.get(partition, 0) : upto]
    ]
    for entry in wanted:
        check_there(entry)
    return wanted


def lines_of(path: str, limit: int | None = None) -> list[bytes]:
    """The lines of a file, decompressed by its ending (.gz, .bz2, .zst …), without line ends and byte order mark.

    With a limit only those of its first bytes.
    """
    with pa.input_stream(path, compression="detect") as file:
        text: bytes = file.read(limit) if limit else file.read()
    text = text.removeprefix(BOM)
    lines = (text.replace(b"\r\n", b"\n") if b"\r" in text else text).split(b"\n")
    if not lines[-1]:
        lines.pop()
    elif lines[-1].endswith(b"\r"):
        lines[-1] = lines[-1][:-1]
    return lines


def first_record(path: str, comment: str = "") -> str | None:
    """The first line of a file that is neither blank nor a comment; None where its beginning has none."""
    lines = lines_of(path, BEGINNING)
    kept = _records_of(lines, comment)
    return _decoded(lines[kept[0]]) if kept else None


def _records_of(lines: list[bytes], comment: str) -> Sequence[int]:
    """The numbers of the lines that are records."""
    kept = [number for number, line in enumerate(lines) if line.strip()]
    if comment:
        mark = comment.encode()
        kept = [number for number in kept if not lines[number].startswith(mark)]
    return kept


def _strings(lines: list[bytes]) -> pa.Array:
    """The lines as they are, valid UTF-8 or not: what is not is a bad record, with its bytes in `rejected`."""
    return pa.array(lines, pa.binary()).cast(pa.string(), safe=False)


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", errors="surrogateescape")


def _encoded(line: str) -> bytes:
    return line.encode("utf-8", errors="surrogateescape")


def _cast(values: pa.Array, kind: pa.DataType, where: str) -> pa.Array:
    try:
        return fitted(values, kind)
    except ValueError as error:
        raise ValueError(
            f"{where} is {values.type}, which does not fit the declared type: {error}"
        ) from error
