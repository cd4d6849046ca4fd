"""A Delta table as a stream of files: which files its versions brought, with their place.

An offset is `{"first": version of the first snapshot, "version": the last one taken}`: the first batch takes
the table as it stands, each later one whatever versions were committed since. Every file is read where it was
when its version was taken, so a compaction afterwards moves no row; files that were vacuumed are gone, and
said to be. A file's number is its version x PER_VERSION + its place in that version. Only appends can be
followed: a version that took rows away is refused. Runs in Python workers too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from headrace.errors import Refused
from headrace.runtime.fileindex import Entry

Offset = dict[str, int]
PARTITION = "0"
PER_VERSION = 1_000_000
# What a table may ask of its readers: nothing that changes which rows a file holds, or under which name.
UNDERSTOOD = frozenset(
    {"timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"}
)

# The columns of a snapshot's files, and what the log calls them.
SNAPSHOT: Mapping[str, str] = MappingProxyType(
    {
        "path": "path",
        "size_bytes": "size",
        "modification_time": "modificationTime",
        "partition": "partitionValues",
    }
)


@dataclass(frozen=True, slots=True)
class DeltaFile:
    """A file and the values of the table's partition columns for all of its rows."""

    entry: Entry
    constants: dict[str, Any] = field(default_factory=dict)


def latest(path: str, start: Offset) -> Offset:
    """The offset of all that is committed now, for a stream that began with `start` ({} = begins now)."""
    newest = newest_version(path)
    return {"first": start.get("first", newest), "version": max(newest, start.get("version", newest))}


def has_more(path: str, consumed: Offset) -> bool:
    """Whether anything was committed after `consumed`; {} = nothing was consumed yet."""
    return not consumed or newest_version(path) > consumed["version"]


def newest_version(path: str) -> int:
    """Raises FileNotFoundError where there is no table."""
    found = [
        match
        for name in os.listdir(Path(path, "_delta_log"))
        if (match := re.fullmatch(r"(\d{20})\.json", name))
    ]
    if not found:
        raise FileNotFoundError(f"there is no Delta table at {path}")
    return max(int(match.group(1)) for match in found)


def newest_versions(path: str, size: int) -> tuple[Offset | None, Offset]:
    """The offsets between which the newest versions lie whose files have so many bytes together; the table as it stands
    where its versions can't be told apart any more.
    """
    end = latest(path, {})
    for version in range(end["version"], 0, -1):
        try:
            size -= sum(file.entry.size for file in _added(path, version))
        except (FileNotFoundError, Refused):
            return None, end
        if size <= 0:
            return {"first": version - 1, "version": version - 1}, end
    return None, end


def files_between(path: str, start: Offset, end: Offset) -> list[DeltaFile]:
    """The files of the versions in (start, end], in order.

    Raises FileNotFoundError where the log or a file of the range is no longer there, and Refused where a
    version in it took rows away.
    """
    if not end:
        return []
    found = [] if start else _snapshot(path, end["first"])
    for version in range(start.get("version", end["first"]) + 1, end["version"] + 1):
        found += _added(path, version)
    for file in found:
        if not os.path.exists(file.entry.path):
            raise FileNotFoundError(f"file {file.entry.path} is no longer there")
    return found


def table_schema(path: str) -> dict[str, Any]:
    """The table's columns, as Delta and Spark write them in JSON. Raises Refused where we can't read its files."""
    table = DeltaTable(path)
    protocol, settings = table.protocol(), table.metadata().configuration
    strange = set(protocol.reader_features or ()) - UNDERSTOOD
    if settings.get("delta.columnMapping.mode", "none") != "none":
        strange.add("columnMapping")
    if strange:
        raise Refused(
            f"the Delta table at {path} can't be followed: it uses {', '.join(sorted(strange))}",
            hint=f"ALTER TABLE … DROP FEATURE {min(strange)}",
        )
    schema: dict[str, Any] = json.loads(table.schema().to_json())
    return schema


def _snapshot(path: str, version: int) -> list[DeltaFile]:
    """The files of the table as it stood at a version, oldest first."""
    try:
        actions = DeltaTable(path, version=version).get_add_actions()
    except DeltaError as error:
        raise FileNotFoundError(f"{path} can't be read at version {version}: {error}") from error
    names = actions.schema.names
    columns = {own: actions[name].to_pylist() for name, own in SNAPSHOT.items() if name in names}
    adds = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    adds.sort(key=lambda add: (add["modificationTime"], add["path"]))
    return [_file(path, version, place, add) for place, add in enumerate(adds)]


@lru_cache(maxsize=256)
def _commit(path: str, version: int) -> list[dict[str, Any]]:
    log = Path(path, "_delta_log", f"{version:020d}.json")
    try:
        return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        raise FileNotFoundError(f"the log of version {version} of {path} is no longer there") from None


def _added(path: str, version: int) -> list[DeltaFile]:
    actions = _commit(path, version)
    if any(action["remove"].get("dataChange", True) for action in actions if "remove" in action):
        raise Refused(
            f"version {version} of the Delta table at {path} took rows away: only appends can be followed",
            hint="start the pipeline in another lake, to read the table as it stands now",
        )
    adds = [action["add"] for action in actions if "add" in action]
    fresh = sorted((add for add in adds if add.get("dataChange", True)), key=lambda add: str(add["path"]))
    if any(add.get("deletionVector") for add in fresh):
        raise Refused(f"version {version} of the Delta table at {path} uses deletion vectors")
    return [_file(path, version, place, add) for place, add in enumerate(fresh)]


def _file(path: str, version: int, place: int, add: Mapping[str, Any]) -> DeltaFile:
    where = unquote(add["path"])
    full = re.sub("^file:(//)?", "", where) if where.startswith("file:") else os.path.join(path, where)
    entry = Entry(PARTITION, version * PER_VERSION + place, full, add["modificationTime"], add["size"])
    return DeltaFile(entry, dict(add.get("partitionValues") or {}))
