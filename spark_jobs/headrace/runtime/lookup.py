"""A join with a reference table that is looked up: the table's row for each row of a stream, found by its primary key.

The Python workers get nothing but the columns of the key, in Arrow, and give the table's columns as one struct under the
table's name; the join's whole condition is then Spark's own, over both. So a look-up may find no row too few, and one
that does not fit does no harm. A block that Redis does not give is read from the Delta version.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable
from pyspark.accumulators import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DataType, IntegralType, StringType, StructType

from headrace.runtime.arrowcast import fitted
from headrace.runtime.blocks import Cache, Numbers, Segment, decoded, numbers_of, of_rows
from headrace.runtime.blockstore import Away, Store
from headrace.runtime.fields import analysed
from headrace.runtime.keyhash import Flags, Words, can_hash, key_hashes
from headrace.sql.nodes import Alias, JoinTable, Lookup
from headrace.sql.parse import quoted

FORMAT = 1  # of blocks and hashes; another one must not read these
FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 60.0  # before a Redis that was away is asked again
SCANNED_FOR = 1_000_000  # rows at most that one reading of the Delta version answers
AT_ONCE = 1_000  # blocks that are read at once, however small the cache is
WHOLE = ("tinyint", "smallint", "int", "bigint")  # each fits the next
Hashed = tuple[Words, Flags]


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a table that is looked up: where it lies, in Delta and in Redis, and how its blocks are made."""

    table: str
    version: int
    path: str
    prefix: str
    bits: int
    rows: int
    block: int  # bytes of one, on average, as it is held
    keys: tuple[str, ...]
    columns: pa.Schema
    store: Store
    cache: int

    @property
    def at_once(self) -> int:
        """How many blocks are read at once: as many as a cache has room for."""
        return max(AT_ONCE, self.cache // max(self.block, 1))


@dataclass(frozen=True, slots=True)
class Counts:
    """Sums over all tasks: blocks by where they came from, blocks that Redis lacked, and times that it was away."""

    redis: Accumulator[int]
    delta: Accumulator[int]
    lacking: Accumulator[int]
    away: Accumulator[int]


def prefix_of(path: str, held: DeltaTable, columns: pa.Schema, bits: int) -> str:
    """What all keys of a version begin with; two versions that differ in a file or in a type never share it."""
    made_of = repr((FORMAT, path, bits, str(columns), sorted(held.file_uris())))
    digest = hashlib.sha256(made_of.encode()).hexdigest()[:24]
    return f"headrace:{digest}:{path.rsplit('/', 1)[-1]}:{held.version()}"


# ---- in the plan -------------------------------------------------------------------------------
def unfit(join: JoinTable, left: DataFrame, version: Version) -> str:
    """Why the join can't be a look-up; '' where it can."""
    if not (isinstance(join.right, Alias) and isinstance(join.right.input, Lookup)):
        return "the join is with a query over it"
    alias, keys = join.right.name, join.compared()
    if "variant" in _struct(version).simpleString():
        return "it has a column of type VARIANT"
    if set(keys) != set(version.keys):
        return f"the join does not compare its whole primary key ({', '.join(version.keys)}) by ="
    if alias.casefold() in (name.casefold() for name in left.columns):
        return f"{alias} is the name of a column too"
    compared = analysed(
        lambda f: f.select(*(F.expr(keys[name]) for name in version.keys)), left, join.place, "JOIN"
    )
    for name, one in zip(version.keys, compared.schema.fields, strict=True):
        own = _type(version, name)
        if not can_hash(version.columns.field(name).type) or not _widens(one.dataType, own):
            return f"{keys[name]} is {one.dataType.simpleString()}, and {name} is {own.simpleString()}"
    return ""


def looked_up(join: JoinTable, left: DataFrame, version: Version, counts: Counts) -> DataFrame:
    """The join, which is not unfit. The table's columns are fields of a column that is called like the table."""
    assert isinstance(join.right, Alias)
    keys, name = join.compared(), join.right.name
    arguments = [F.expr(keys[key]).cast(_type(version, key)) for key in version.keys]
    asked: Any = arrow_udf(_asking(version, counts), _struct(version))  # type: ignore[call-overload]
    once = (
        asked.asNondeterministic()
    )  # else Spark may ask for a filter, and again for the rows that it leaves
    rows, column = left.select("*", once(*arguments).alias(name)), quoted(name)
    holds = F.expr(f"CASE WHEN {column} IS NOT NULL THEN {join.condition} ELSE FALSE END")
    if join.kind == "inner":
        return analysed(lambda f: f.where(holds), rows, join.place, "JOIN")
    return analysed(lambda f: f.withColumn(name, F.when(holds, F.col(column))), rows, join.place, "JOIN")


def _widens(one: DataType, own: DataType) -> bool:
    """Whether values of one type are compared with a key's as that key's type, and all fit it."""
    if isinstance(one, IntegralType) and isinstance(own, IntegralType):
        return WHOLE.index(one.simpleString()) <= WHOLE.index(own.simpleString())
    return one == own and (not isinstance(own, StringType) or own.simpleString() == "string")  # by its bytes


def _struct(version: Version) -> StructType:
    return from_arrow_schema(version.columns)


def _type(version: Version, column: str) -> DataType:
    return _struct(version)[column].dataType


def _asking(version: Version, counts: Counts) -> Callable[..., Iterator[pa.StructArray]]:
    """The function that the workers run, over keys as arrays or as tuples of arrays; Spark goes by its annotations."""

    def several(keys: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.StructArray]:
        return answers(version, counts, keys)

    def one(keys: Iterator[pa.Array]) -> Iterator[pa.StructArray]:
        return answers(version, counts, ((key,) for key in keys))

    given = Iterator[pa.Array]
    several.__annotations__ = {"keys": Iterator[tuple[pa.Array, ...]], "return": given}
    one.__annotations__ = {"keys": given, "return": given}
    return several if len(version.keys) > 1 else one


# ---- in a worker -------------------------------------------------------------------------------
_readers: dict[str, Reader] = {}  # of this process, by prefix


def answers(
    version: Version, counts: Counts, batches: Iterable[Sequence[pa.Array]]
) -> Iterator[pa.StructArray]:
    """The rows of the table for batches of keys, NULL where there is none; as many batches, as long."""
    reader = _reader(version)
    waiting: list[Hashed] = []
    for keys in batches:
        waiting.append(key_hashes(keys))
        if sum(len(hashes) for hashes, _ in waiting) >= reader.together():
            yield from reader.answer(waiting, counts)
            waiting = []
    yield from reader.answer(waiting, counts)


def _reader(version: Version) -> Reader:
    """This process's reader of the version; those of the table's other versions go."""
    if version.prefix not in _readers:
        for prefix in [prefix for prefix, one in _readers.items() if one.version.path == version.path]:
            del _readers[prefix]
        _readers[version.prefix] = Reader(version)
    return _readers[version.prefix]


@dataclass(slots=True)
class Reader:
    """Gets blocks of a version, and remembers them. A Redis that was away is left alone for a while."""

    version: Version
    now: Callable[[], float] = time.monotonic
    cache: Cache = field(init=False)
    again_at: float = 0.0
    pause: float = FIRST_PAUSE_S
    lacking: bool = False  # whether Redis did not have all blocks when it was asked last

    def __post_init__(self) -> None:
        self.cache = Cache(self.version.bits, self.version.columns, self.version.cache)

    def together(self) -> int:
        """How many rows should be asked for together: many where the Delta version must be read for them."""
        slow = self.lacking or self.now() < self.again_at
        return min(SCANNED_FOR, self.version.at_once) if slow else 1

    def answer(self, several: Sequence[Hashed], counts: Counts) -> Iterator[pa.StructArray]:
        """The rows for batches of hashes."""
        if not several:
            return
        wanted = np.concatenate([hashes[known] for hashes, known in several])
        missing = self.cache.missing(wanted)
        for start in range(0, len(missing), self.version.at_once):
            for segment in self._segments(missing[start : start + self.version.at_once], counts):
                self.cache.add(segment)
        found = [self.cache.find(hashes, known) for hashes, known in several]
        self.cache.trim()
        yield from found

    def _segments(self, numbers: Numbers, counts: Counts) -> Iterator[Segment]:
        segment = self._from_redis(numbers, counts)
        if segment is not None and len(segment.numbers):
            counts.redis.add(len(segment.numbers))
            numbers = np.setdiff1d(numbers, segment.numbers, assume_unique=True)
            yield segment
        if len(numbers):
            counts.delta.add(len(numbers))
            yield from_delta(self.version, numbers)

    def _from_redis(self, numbers: Numbers, counts: Counts) -> Segment | None:
        """Those of the blocks that are there; None where Redis is away, or gives what is no block."""
        if self.now() < self.again_at:
            return None
        version = self.version
        try:
            found = version.store.read(version.prefix, numbers.tolist())
            there = [block for block in found if block is not None]
            held = numbers[[block is not None for block in found]]
            segment = decoded(there, held, version.bits, version.columns)
        except (Away, ValueError):
            self.again_at, self.pause = self.now() + self.pause, min(LAST_PAUSE_S, self.pause * 2)
            counts.away.add(1)
            return None
        self.pause, self.lacking = FIRST_PAUSE_S, len(there) < len(numbers)
        counts.lacking.add(len(numbers) - len(there))
        return segment


def from_delta(version: Version, numbers: Numbers) -> Segment:
    """Blocks out of the Delta version, read once for all of them."""
    wanted = np.zeros(1 << version.bits, np.bool_)
    wanted[numbers] = True
    parts, hashed = [], []
    for rows in version_rows(version):
        hashes, _ = key_hashes([rows.column(key) for key in version.keys])
        kept = wanted[numbers_of(hashes, version.bits)]
        parts.append(rows.filter(pa.array(kept)))
        hashed.append(hashes[kept])
    none = np.empty(0, np.uint64)
    return of_rows(pa.Table.from_batches(parts, version.columns), np.concatenate([none, *hashed]), numbers)


def version_rows(version: Version) -> Iterator[pa.RecordBatch]:
    """The rows of the Delta version as declared, batch by batch."""
    dataset = DeltaTable(version.path, version=version.version).to_pyarrow_dataset()
    for batch in dataset.to_batches(columns=version.columns.names):
        columns = [fitted(batch.column(one.name), one.type) for one in version.columns]
        yield pa.RecordBatch.from_arrays(columns, schema=version.columns)
