"""The index that numbers a stream's input files: one JSON line for each, appended by the driver alone.

A file's number within its partition never changes, whatever arrives later and whatever its name; `_OFFSET`
of a file record is (file number, line). A numbered file must stay as it is: one that has grown is refused,
never half read. Imported by Python workers: the standard library and Headrace's errors alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.errors import Refused

ANY_SIZE = -1
LOOSE = "0"  # the partition of files that lie beside the partition folders


@dataclass(frozen=True, slots=True)
class Entry:
    """One input file. `number` counts from 0 in its partition (for a case's rows: the first row's offset);
    `size` is what it had in bytes when it was numbered.
    """

    partition: str
    number: int
    path: str
    at_ms: int
    size: int = ANY_SIZE


def read_index(index: str) -> dict[str, list[Entry]]:
    """All entries by partition, in the order in which they were numbered; {} where there is no index yet."""
    entries: dict[str, list[Entry]] = {}
    try:
        with open(index, encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):  # a line being written just now has no end yet
                    entry = Entry(**json.loads(line))
                    entries.setdefault(entry.partition, []).append(entry)
    except FileNotFoundError:
        return {}
    return entries


def newest(entries: list[Entry], size: int) -> int:
    """How many of the newest files have so many bytes together; one at least, where there is one."""
    taken = 0
    for entry in reversed(entries):
        if taken and size <= 0:
            break
        taken += 1
        size -= max(entry.size, 0)
    return taken


def append(index: str, entries: list[Entry]) -> None:
    """Add entries at the end of the index, in one write, on disk before it returns."""
    if not entries:
        return
    Path(index).parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(asdict(entry)) + "\n" for entry in entries)
    with open(index, "r+b" if os.path.exists(index) else "w+b") as file:
        file.seek(_whole_lines(file.read()))
        file.write(text.encode())
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def discover(index: str, folder: str) -> list[Entry]:
    """Number the files of `folder` that the index does not know yet; gives the new entries.

    `partition=P` sub-folders are source partitions; files beside them are partition '0'. Names that begin
    with '.' or '_' are passed over, as Spark does: write there, then rename. Raises Refused where a file
    that has a number is of another size now.
    """
    known = read_index(index)
    sizes = {entry.path: entry.size for entries in known.values() for entry in entries}
    counts = {partition: len(entries) for partition, entries in known.items()}
    fresh: list[Entry] = []
    for partition, path, stat in files_of(folder):
        before = sizes.get(path)
        if before is None:
            number = counts.get(partition, 0)
            counts[partition] = number + 1
            fresh.append(Entry(partition, number, path, stat.st_mtime_ns // 1_000_000, stat.st_size))
        elif before not in (ANY_SIZE, stat.st_size):
            raise _changed(path, before, stat.st_size)
    append(index, fresh)
    return fresh


def files_of(folder: str) -> Iterator[tuple[str, str, os.stat_result]]:
    """(partition, path, stat) of each file in `folder`, by partition and name."""
    for path, stat in _visible(folder):
        yield LOOSE, path, stat
    for partition in _named(folder):
        for path, stat in _visible(os.path.join(folder, f"partition={partition}")):
            yield partition, path, stat


def partitions_of(folder: str) -> list[str]:
    """The source partitions that a folder has: its partition folders, and LOOSE where files lie beside them."""
    loose = [LOOSE] if next(iter(_visible(folder)), None) else []
    return sorted({*loose, *_named(folder)})


def check_there(entry: Entry) -> None:
    """Raise FileNotFoundError where the entry's file is gone, or is no longer the one that got the number."""
    try:
        size = os.stat(entry.path).st_size
    except FileNotFoundError:
        raise FileNotFoundError(f"input file {entry.path} is no longer there") from None
    if entry.size not in (ANY_SIZE, size):
        raise FileNotFoundError(str(_changed(entry.path, entry.size, size)))


def _changed(path: str, before: int, now: int) -> Refused:
    return Refused(
        f"input file {path} was changed after it was taken: it had {before} bytes and has {now}",
        hint="a file is complete when it appears: write it under a name that begins with _, then rename it",
    )


def _whole_lines(text: bytes) -> int:
    """How many bytes of an index are whole lines: a driver that was killed may have left a torn one."""
    return text.rfind(b"\n") + 1


def _named(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as found:
            folders = [
                entry.name for entry in found if entry.name.startswith("partition=") and entry.is_dir()
            ]
    except FileNotFoundError:
        return []
    return sorted(name.partition("=")[2] for name in folders)


def _visible(folder: str) -> list[tuple[str, os.stat_result]]:
    try:
        with os.scandir(folder) as found:
            files = [
                (entry.path, entry.stat()) for entry in found if entry.name[0] not in "._" and entry.is_file()
            ]
    except FileNotFoundError:
        return []
    return sorted(files, key=lambda one: one[0])
