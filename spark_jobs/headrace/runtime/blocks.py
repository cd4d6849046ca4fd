"""A version of a reference table as blocks of rows, found by the hashes of their keys; and the cache of such blocks.

The leading `bits` bits of a key's hash are the number of its block. A block holds all rows of its number, as one
Arrow message, so that a key that is not in its block is not in the table; every number has a block. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.runtime.keyhash import Words

Numbers = npt.NDArray[np.int64]

HASH: Final = "__hash"  # the first column of a block
ROWS: Final = 16  # of a block, at most and on average
BYTES: Final = 4096  # that a block aims at where rows are wide
PART: Final = 256 * 1024 * 1024  # bytes that are encoded together
SEGMENTS: Final = 12  # of a cache, before the smallest are put together
MERGED: Final = 8
LARGEST: Final = 4  # of them make a whole cache, so that not too much goes at a time


def bits_for(rows: int, size: int) -> int:
    """How many bits tell a block, for a version of so many rows and bytes."""
    each = max(1, min(ROWS, BYTES * rows // max(size, 1)))
    return (max(1, -(-rows // each)) - 1).bit_length()


def numbers_of(hashes: Words, bits: int) -> Numbers:
    """The number of each hash's block."""
    return (hashes >> np.uint64(64 - bits)).astype(np.int64) if bits else np.zeros(len(hashes), np.int64)


# ---- as they are stored ------------------------------------------------------------------------
def block_schema(columns: pa.Schema) -> pa.Schema:
    """The schema of a block of rows with these columns."""
    return pa.schema([pa.field(HASH, pa.uint64()), *(field.with_nullable(True) for field in columns)])


def encoded(rows: pa.Table, hashes: Words, bits: int) -> Iterator[tuple[int, bytes]]:
    """All blocks of a version, by number. Raises ValueError where two keys have one hash."""
    order = _rising(hashes)
    hashes, schema = hashes[order], block_schema(rows.schema)
    ends = np.searchsorted(numbers_of(hashes, bits), np.arange((1 << bits) + 1)).tolist()
    step = max(1, PART * (1 << bits) // max(rows.nbytes, 1))  # blocks
    for first in range(0, 1 << bits, step):
        last = min(first + step, 1 << bits)
        part = slice(ends[first], ends[last])
        columns = [_whole(column.take(pa.array(order[part]))) for column in rows.columns]
        batch = pa.record_batch([pa.array(hashes[part]), *columns], schema=schema)
        for number in range(first, last):
            start, size = ends[number] - ends[first], ends[number + 1] - ends[number]
            yield number, batch.slice(start, size).serialize().to_pybytes()


def decoded(blocks: Sequence[bytes], numbers: Numbers, bits: int, columns: pa.Schema) -> Segment:
    """Blocks of rising numbers, in one go. Raises ValueError where they are not what `encoded` made of those."""
    stream = b"".join((block_schema(columns).serialize().to_pybytes(), *blocks))
    try:
        rows = pa.ipc.open_stream(stream).read_all()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"what is no block: {error}") from error
    hashes = np.asarray(_whole(rows.column(HASH)))
    sizes = [len(chunk) for chunk in rows.column(HASH).chunks]
    own = len(sizes) == len(numbers) and np.array_equal(np.repeat(numbers, sizes), numbers_of(hashes, bits))
    if not own or np.any(hashes[1:] <= hashes[:-1]):
        raise ValueError("a block that is not of this version")
    return Segment(hashes, _batch(rows.drop_columns([HASH])), numbers)


def of_rows(rows: pa.Table, hashes: Words, numbers: Numbers) -> Segment:
    """The same out of all the rows of these blocks, in any order. Raises ValueError as `encoded`."""
    order = _rising(hashes)
    return Segment(hashes[order], _batch(rows.take(pa.array(order))), numbers)


# ---- as they are held --------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Segment:
    """The rows of some blocks, by rising hash; the blocks' numbers."""

    hashes: Words
    rows: pa.RecordBatch
    numbers: Numbers

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes + self.hashes.nbytes + self.numbers.nbytes)


@dataclass(slots=True)
class Cache:
    """Segments of one version, of `limit` bytes together; those that came first go first. For one thread."""

    bits: int
    columns: pa.Schema
    limit: int
    segments: dict[int, Segment] = field(default_factory=dict)  # by their slot, oldest first
    slots: npt.NDArray[np.uint8] = field(init=False)  # of the segment that has a block; 0 for none

    def __post_init__(self) -> None:
        self.slots = np.zeros(1 << self.bits, np.uint8)

    def missing(self, hashes: Words) -> Numbers:
        """The blocks of these hashes that are not held, by number."""
        numbers = numbers_of(hashes, self.bits)
        return np.unique(numbers[self.slots[numbers] == 0])

    def add(self, segment: Segment) -> None:
        """Hold a segment, until `trim`; its blocks are not held yet."""
        slot = next(free for free in range(1, 256) if free not in self.segments)
        self.segments[slot] = segment
        self.slots[segment.numbers] = slot

    def find(self, hashes: Words, known: npt.NDArray[np.bool_]) -> pa.StructArray:
        """The row of each hash; NULL where the table has none, or the key is not known. All blocks are held."""
        slots = self.slots[numbers_of(hashes, self.bits)]
        parts, places = [], []
        for slot, segment in self.segments.items():
            asked = np.flatnonzero((slots == slot) & known)
            at = np.searchsorted(segment.hashes, hashes[asked])
            there = at < len(segment.hashes)
            asked, at = asked[there], at[there]
            same = segment.hashes[at] == hashes[asked]
            parts.append(segment.rows.take(pa.array(at[same])))
            places.append(asked[same])
        return _placed(pa.Table.from_batches(parts, self.columns), places, len(hashes))

    def trim(self) -> None:
        """Let go what is too much, and put small segments together: there are some 30 at most to look through."""
        total = sum(segment.nbytes for segment in self.segments.values())
        for slot in list(self.segments):
            if total > self.limit:
                total -= self.segments[slot].nbytes
                self._drop(slot)
        if len(self.segments) > SEGMENTS:
            slots = sorted(self.segments, key=lambda slot: self.segments[slot].nbytes)[:MERGED]
            smallest = [self.segments[slot] for slot in slots]
            if sum(segment.nbytes for segment in smallest) * LARGEST <= self.limit:
                for slot in slots:
                    self._drop(slot)
                self.add(_merged(smallest))

    def _drop(self, slot: int) -> None:
        self.slots[self.segments.pop(slot).numbers] = 0


def _rising(hashes: Words) -> Numbers:
    """The order in which the hashes rise. Raises ValueError where two of them are one."""
    order = np.argsort(hashes)
    rising = hashes[order]
    if np.any(rising[1:] == rising[:-1]):
        raise ValueError("two keys have one hash")
    return order


def _merged(segments: Sequence[Segment]) -> Segment:
    hashes = np.concatenate([segment.hashes for segment in segments])
    rows = pa.Table.from_batches([segment.rows for segment in segments])
    return of_rows(rows, hashes, np.concatenate([segment.numbers for segment in segments]))


def _placed(found: pa.Table, places: Sequence[Numbers], size: int) -> pa.StructArray:
    """The found rows at their places among `size` ones, the others NULL."""
    at = np.full(size, -1, np.int64)
    order = np.concatenate(places) if places else np.empty(0, np.int64)
    at[order] = np.arange(len(order))
    absent = at < 0
    rows = found.take(pa.array(at, mask=absent))
    columns = [_whole(column) for column in rows.columns]
    return pa.StructArray.from_arrays(columns, fields=list(found.schema), mask=pa.array(absent))


def _batch(rows: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([_whole(column) for column in rows.columns], schema=rows.schema)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
