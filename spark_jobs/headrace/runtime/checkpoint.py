"""A query's checkpoint folder: what Spark wrote there, read; and the few small files of our own.

    spark/            Spark's own checkpoint (offsets, commits, state, metadata); `spark-3` once it was moved to N = 3
    carried/          the states of carried-state operators, Delta tables of their changes
    wakes/            a file for each batch that nothing else than the watermark asked for
    holds/            a file for each Scan of a join that must wait, because the join holds too many rows
    tables.json       how each reference table is joined by the query that ran last, and what look-ups found where
    pins.json         from which batch on which version of each reference table is read
    hot.json          the keys that its state is salted by; not there where nothing is salted
    query.json        the plan's fingerprint and N, against a changed query on old state; which folder is Spark's
    ended             there once the pipeline was flushed

Nothing of Spark's is ever written here. Offsets come in the order of the plan's sources.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.errors import Refused
from headrace.sql.explain import plan_lines
from headrace.sql.nodes import Result
from headrace.sql.skew import HotKey

NO_OFFSET = "-"

STATE_FORMAT = 3  # of states of one and the same plan; 3: rows of a ROWS window are stored once


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """One file of the offset log: the end of each source, the batch's watermark (Spark's, shifted) and time."""

    batch: int
    watermark_ms: int
    at_ms: int
    sources: tuple[dict[str, Any] | None, ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The folder of one query; `active` is Spark's in it."""

    folder: Path
    active: str = "spark"

    @classmethod
    def at(cls, folder: Path) -> Checkpoint:
        """The checkpoint as it is in use."""
        return cls(folder, cls(folder)._query().get("spark", "spark"))

    @property
    def spark(self) -> str:
        return str(self.folder / self.active)

    @property
    def carried(self) -> str:
        """The folder of the states of carried-state operators, a Delta table each."""
        return str(self.folder / "carried")

    @property
    def wakes(self) -> Path:
        return self.folder / "wakes"

    @property
    def holds(self) -> Path:
        return self.folder / "holds"

    def committed(self) -> int | None:
        """The newest committed batch."""
        return _newest(Path(self.spark, "commits"))

    def planned(self) -> int | None:
        """The newest batch in the offset log; it is committed, or will be run again as it was planned."""
        return _newest(Path(self.spark, "offsets"))

    def is_committed(self, batch: int) -> bool:
        return Path(self.spark, "commits", str(batch)).exists()

    def offsets(self, batch: int) -> BatchOffsets | None:
        """What was planned for a batch; None where the log has no such batch (any more)."""
        try:
            lines = Path(self.spark, "offsets", str(batch)).read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return None
        head = json.loads(lines[1])
        sources = tuple(None if line == NO_OFFSET else json.loads(line) for line in lines[2:])
        return BatchOffsets(batch, int(head["batchWatermarkMs"]), int(head["batchTimestampMs"]), sources)

    # ---- pins ----
    def pins(self, batch: int) -> dict[str, int] | None:
        """The table versions that a batch reads; None where nothing was pinned for it yet."""
        held = [pin for pin in self._pins() if pin["from"] <= batch]
        return held[-1]["tables"] if held else None

    def pinned(self) -> dict[str, int]:
        """The table versions that were pinned last; none before the first start."""
        pins = self._pins()
        return dict(pins[-1]["tables"]) if pins else {}

    def pin(self, batch: int, tables: dict[str, int]) -> None:
        """From `batch` on these versions are read; written before the batch runs."""
        kept = [pin for pin in self._pins() if pin["from"] < batch]
        self._write("pins.json", [*kept, {"from": batch, "tables": tables}])

    def _pins(self) -> list[dict[str, Any]]:
        try:
            pins: list[dict[str, Any]] = json.loads((self.folder / "pins.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return []
        return pins

    def note_tables(self, told: dict[str, dict[str, Any]]) -> None:
        """How each reference table is joined, for `headrace status`."""
        self._write("tables.json", told)

    def noted_tables(self) -> dict[str, dict[str, Any]]:
        """The same; nothing before the first start."""
        try:
            told: dict[str, dict[str, Any]] = json.loads(
                (self.folder / "tables.json").read_text(encoding="utf-8")
            )
        except FileNotFoundError:
            return {}
        return told

    # ---- hot keys ----
    def hot(self) -> tuple[HotKey, ...] | None:
        """The keys that were kept; None where the state is not salted."""
        try:
            kept = json.loads((self.folder / "hot.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return tuple(HotKey(**{**key, "salts": tuple(key["salts"])}) for key in kept)

    def keep_hot(self, keys: tuple[HotKey, ...] | None) -> None:
        """Keep the keys for the starts to come; written before a batch runs that is salted by them."""
        if keys is None:
            (self.folder / "hot.json").unlink(missing_ok=True)
        else:
            self._write("hot.json", [asdict(key) for key in keys])

    # ---- the query itself ----
    def same_query(self, result: Result, partitions: int) -> None:
        """Refuse a changed plan or another N on existing state; note both at the first start."""
        now = {
            "fingerprint": fingerprint(result),
            "partitions": partitions,
            "spark": self.active,
            "plan": plan_lines(result),
        }
        before = self._query()
        if self.planned() is None:
            self._write("query.json", now)
        elif before["partitions"] != partitions:
            raise Refused(
                f"{result.name}: its state has {before['partitions']} partitions, asked for {partitions}",
                hint=f"set 'state.partitions' back to {before['partitions']}, or use another lake",
            )
        elif before["fingerprint"] != now["fingerprint"]:
            raise Refused(
                f"{result.name}: the query has changed, and its state belongs to the query before",
                hint=f"{_difference(before['plan'], plan_lines(result))}; keep the old text, or use another lake",
                place=result.place,
            )

    @property
    def partitions(self) -> int:
        """N of the state that is there."""
        return int(self._query()["partitions"])

    def moved(self, partitions: int) -> Checkpoint:
        """Where Spark's checkpoint lies once its state is in so many partitions."""
        return Checkpoint(self.folder, f"spark-{partitions}")

    def take_over(self, partitions: int) -> None:
        """Make this the checkpoint in use, in one step, and delete the one before."""
        before = Checkpoint.at(self.folder)
        self._write("query.json", {**self._query(), "partitions": partitions, "spark": self.active})
        shutil.rmtree(before.spark)

    def _query(self) -> dict[str, Any]:
        try:
            noted: dict[str, Any] = json.loads((self.folder / "query.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return noted

    @property
    def ended(self) -> bool:
        return (self.folder / "ended").exists()

    def end(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "ended").touch()

    def _write(self, name: str, content: object) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        new = self.folder / f".{name}.new"
        new.write_text(json.dumps(content), encoding="utf-8")
        os.replace(new, self.folder / name)


def fingerprint(result: Result) -> str:
    """A short digest of what a result computes; a renamed place or comment does not change it."""
    parts = repr((STATE_FORMAT, result.plan, result.emit, result.keys, result.upsert))
    return hashlib.sha256(_without_places(parts).encode()).hexdigest()[:16]


def _difference(before: list[str] | str, now: list[str]) -> str:
    """The nodes of a plan that are not what they were."""
    old = before.splitlines() if isinstance(before, str) else before
    changes = [line for line in difflib.ndiff(old, now) if line[:2] in ("- ", "+ ")]
    told = "; ".join(f"{'was' if line[0] == '-' else 'is now'} `{line[2:]}`" for line in changes)
    return told or "its plan reads the same, and is built otherwise"


def _without_places(text: str) -> str:
    return re.sub(r"place=(None|Place\([^)]*\))", "", text)


def _newest(folder: Path) -> int | None:
    if not folder.is_dir():
        return None
    batches = [int(path.name) for path in folder.iterdir() if path.name.isdigit()]
    return max(batches, default=None)
