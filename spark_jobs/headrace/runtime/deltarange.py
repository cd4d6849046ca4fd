"""A Delta stream's range read again: the rows of the files that its versions added.

Spark's Delta source gives offsets `{reservoirVersion, index, isStartingVersion}`; Headrace lets it take
whole versions only, so a range is a set of versions. Every file is read as it was when the stream took it:
a compaction afterwards moves no row to another position. Files that were vacuumed are gone, and said to be.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

Offset = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Commit:
    """The files of one version, by their paths in the table: added with new data, moved (a compaction), removed."""

    added: frozenset[str]
    moved: frozenset[str]
    removed: frozenset[str]


def delta_range(spark: SparkSession, path: str, start: Offset | None, end: Offset) -> Iterator[DataFrame]:
    """The rows that the versions in (start, end] added, in pieces; all rows up to `end` where start is None.

    Raises FileNotFoundError where the log or a file of the range is no longer there.
    """
    last = last_version(end)
    first = None if start is None else last_version(start)
    for version, files in _by_version(path, first, last).items():
        gone = next((file for file in sorted(files) if not _there(path, file)), None)
        if gone:
            raise FileNotFoundError(f"{path}: file {gone} of version {version} is no longer there")
        names = [file.rsplit("/", 1)[-1] for file in sorted(files)]
        frame = spark.read.format("delta").option("versionAsOf", version).load(path)
        yield frame.where(F.col("_metadata.file_name").isin(names))


def has_more(path: str, consumed: Offset) -> bool:
    """Whether versions after `consumed` brought data; before anything was consumed, whether there is a file."""
    newest = int(DeltaTable(path).version())
    if not consumed:
        return bool(_active(path, newest))
    return any(_commit(path, version).added for version in range(last_version(consumed) + 1, newest + 1))


def last_version(offset: Offset) -> int:
    """The newest version that the offset covers whole (its index below 0 means: nothing of this version)."""
    version = int(offset["reservoirVersion"])
    untouched = int(offset["index"]) < 0 and not offset.get("isStartingVersion")
    return version - 1 if untouched else version


def _by_version(path: str, first: int | None, last: int) -> dict[int, set[str]]:
    """The files of a range, each with a version at which it is part of the table: the last one, if it can be."""
    standing = _active(path, last)
    if first is None:
        found = {last: set(standing)}
        _undo_compactions(path, last, found)
        return found
    pieces: dict[int, set[str]] = {}
    for version in range(first + 1, last + 1):
        for file in _commit(path, version).added:
            pieces.setdefault(last if file in standing else version, set()).add(file)
    return pieces


def _undo_compactions(path: str, last: int, found: dict[int, set[str]]) -> None:
    """Put the files that a compaction read back in place of what it wrote, while they are there."""
    for version in range(last, 0, -1):
        try:
            commit = _commit(path, version)
        except FileNotFoundError:
            return  # the log before is cleaned away
        holding = next((files for files in found.values() if commit.moved & files), None)
        if holding is not None and all(_there(path, file) for file in commit.removed):
            for files in found.values():
                files -= commit.moved
            found.setdefault(version - 1, set()).update(commit.removed)


def _active(path: str, version: int) -> frozenset[str]:
    actions = DeltaTable(path, version=version).get_add_actions(flatten=True)
    return frozenset(unquote(file) for file in actions["path"].to_pylist())


@lru_cache(maxsize=4096)
def _commit(path: str, version: int) -> Commit:
    log = Path(path, "_delta_log", f"{version:020d}.json")
    actions = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    adds = [action["add"] for action in actions if "add" in action]
    removes = [action["remove"] for action in actions if "remove" in action]
    return Commit(
        added=frozenset(unquote(add["path"]) for add in adds if add.get("dataChange", True)),
        moved=frozenset(unquote(add["path"]) for add in adds if not add.get("dataChange", True)),
        removed=frozenset(unquote(remove["path"]) for remove in removes),
    )


def _there(path: str, file: str) -> bool:
    return "://" in file or Path(path, file).exists()
