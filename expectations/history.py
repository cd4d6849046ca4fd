"""What the batch log says that a query consumed: batches, their input ranges, table versions and watermarks.

The log is read as plain rows. It must be whole: a batch whose input does not begin where the one before
ended, or a query without batches, is Unknown, never an empty history. No Spark here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import Unknown
from headrace.runtime import batchlog
from headrace.runtime.lake import Lake

Offset = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)  # a batch is itself: it may be the key of a map
class Batch:
    """One batch of a query. `watermark_ms` judged its rows: since 1970, None while there was none."""

    number: int
    generation: int
    watermark_ms: int | None
    offsets: Mapping[str, tuple[Offset | None, Offset]]  # stream: (start, end]
    tables: tuple[tuple[str, int], ...]  # the pinned versions, by name


@dataclass(frozen=True, slots=True)
class History:
    """All living batches of a query in order; at least one."""

    query: str
    batches: tuple[Batch, ...]

    @property
    def watermark_ms(self) -> int | None:
        """The largest watermark: what it has passed is closed."""
        return max((b.watermark_ms for b in self.batches if b.watermark_ms is not None), default=None)

    @property
    def versions(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        """The distinct sets of pinned versions, in order of their first use."""
        return tuple(dict.fromkeys(batch.tables for batch in self.batches))


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of a stream's input whose batches had the same table versions, and the batches it covers."""

    stream: str
    start: Offset | None
    end: Offset
    batches: tuple[Batch, ...]


def read_history(lake: Lake, query: str) -> History:
    """The living batches of a query. Raises Unknown where it never ran, or where the log has a gap."""
    rows = batchlog.read(lake, query).to_pylist()
    batches = tuple(_living([_batch(row) for row in rows]))
    if not batches:
        raise Unknown(f"{query}: the batch log has no batch of this query", hint="run the pipeline first")
    for stream in sorted({name for batch in batches for name in batch.offsets}):
        _check_chain(query, stream, batches)
    return History(query, batches)


def _batch(row: Mapping[str, Any]) -> Batch:
    offsets = {
        stream: (span.get("start"), span["end"])
        for stream, span in json.loads(row["offsets"] or "{}").items()
        if span.get("end") is not None
    }
    tables = tuple(sorted(json.loads(row["tables"] or "{}").items()))
    return Batch(row["batch"], row["generation"], row["watermark_ms"], offsets, tables)


def _living(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Of each number the newest generation; what an older one did at or after a newer one's start is undone."""
    first: dict[int, int] = {}
    several = list(batches)
    for batch in several:
        first[batch.generation] = min(batch.number, first.get(batch.generation, batch.number))
    for batch in sorted(several, key=lambda one: (one.number, one.generation)):
        if not any(g > batch.generation and start <= batch.number for g, start in first.items()):
            yield batch


def _check_chain(query: str, stream: str, batches: Iterable[Batch]) -> None:
    reached: Offset | None = None
    begun = False
    for batch in batches:
        if stream not in batch.offsets:
            continue
        start, end = batch.offsets[stream]
        if begun and (start or {}) != (reached or {}):
            raise Unknown(
                f"{query}: the batch log has a gap before batch {batch.number}: "
                f"its input of {stream} begins at {json.dumps(start)}, the batch before ended at {json.dumps(reached)}"
            )
        reached, begun = end, True


def pieces(history: History, stream: str, *, by_watermark: bool) -> tuple[Piece, ...]:
    """The stream's input as few ranges: neighbours that had the same versions (and watermark) are one."""
    found: list[Piece] = []
    for batch in history.batches:
        if stream not in batch.offsets:
            continue
        start, end = batch.offsets[stream]
        last = found[-1] if found else None
        if last and _alike(last.batches[-1], batch, by_watermark=by_watermark):
            found[-1] = Piece(stream, last.start, end, (*last.batches, batch))
        else:
            found.append(Piece(stream, start, end, (batch,)))
    return tuple(piece for piece in found if piece.start != piece.end)


def _alike(one: Batch, other: Batch, *, by_watermark: bool) -> bool:
    return one.tables == other.tables and (not by_watermark or one.watermark_ms == other.watermark_ms)
