"""Carried state (DESIGN 4): what no native operator holds, as a pure function of DataFrames.

An operator takes (state, batch, watermark) and gives (output, new state); `CarriedState` keeps the state
between batches and, for restarts, a Delta table of changes: each batch appends what it changed, tagged with
its number, so that a batch that is run again finds the state it had.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, Protocol

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import Column, DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from headrace.runtime import deltawrite
from headrace.runtime.deltawrite import NO_STATISTICS, Once
from headrace.runtime.watermark import passed_by

BATCH, GONE = "__batch", "__gone"  # of a row in the table of changes; GONE: its key has nothing left
COMPACTED_EVERY = 50  # batches that changed something

_COLLECTOR = ThreadPoolExecutor(thread_name_prefix="carried-changes")


@dataclass(frozen=True, slots=True)
class Fresh:
    """A batch's rows without the late ones, and, once they were computed, how many those were."""

    rows: DataFrame
    counted: Observation | None

    @property
    def late(self) -> int:
        return 0 if self.counted is None else int(self.counted.get["late"])


@dataclass(frozen=True, slots=True)
class Turn:
    """What an operator made of a batch. `output` and `state` are over rows that are computed already.

    `changes` is what its `restored` needs; `coming` are the same rows, where they are collected already; `taken` is
    the batch's rows in time, where it judges them.
    """

    output: DataFrame
    state: DataFrame
    changes: DataFrame
    coming: Future[pa.Table] | None = None
    taken: Fresh | None = None

    @property
    def late(self) -> int:
        """How many of the batch's rows were late, once `changes` were computed."""
        return 0 if self.taken is None else self.taken.late


class Operator(Protocol):
    """A carried-state operator."""

    def turn(self, state: DataFrame | None, rows: DataFrame, watermark_ms: int | None) -> Turn:
        """Take one batch; `state` is None before the first one."""
        ...

    def resumed(self, turn: Turn, changes: Callable[[], DataFrame], watermark_ms: int | None) -> DataFrame:
        """The state behind a batch whose changes are stored, with those of all batches before it."""
        ...

    def restored(self, changes: DataFrame, watermark_ms: int | None) -> DataFrame:
        """The state out of the changes of all batches until now, each row with its BATCH, whose last one had this
        watermark.
        """
        ...

    def stored(self, state: DataFrame) -> DataFrame:
        """A state as changes that restore it."""
        ...


@dataclass(slots=True)
class CarriedState:
    """An operator with its state. `path` is its table of changes, `app` names its transactions."""

    operator: Operator
    path: str
    app: str
    held: DataFrame | None = None
    newest: int | None = None  # the batch after which `held` is the state
    written: int = 0  # appends of this process

    def take(self, rows: DataFrame, number: int, watermark_ms: int | None, before_ms: int | None) -> Turn:
        """The operator's answer to a batch; nothing is kept yet. `before_ms` was the watermark of the batch before."""
        return self.operator.turn(self._before(rows.sparkSession, number, before_ms), rows, watermark_ms)

    def keep(self, turn: Turn, number: int, watermark_ms: int | None) -> None:
        """Make the batch's changes durable, once, and go on from its state."""
        if not self.written:
            deltawrite.ensure(self.path, _stored(turn.changes.schema), "carried state", conf=NO_STATISTICS)
        rows = turn.changes.toArrow() if turn.coming is None else turn.coming.result()
        changes = _of_batch(rows, number)
        if changes.num_rows:
            if self.written % COMPACTED_EVERY == COMPACTED_EVERY - 1 and self.held is not None:
                self._compact(self.held, number)
            deltawrite.append_once(self.path, changes, Once(self.app, number))
            self.written += 1
        session = turn.changes.sparkSession
        self.held = self.operator.resumed(
            turn, lambda: self._changes(session, DeltaTable(self.path)), watermark_ms
        )
        self.newest = number

    def _before(self, session: SparkSession, number: int, before_ms: int | None) -> DataFrame | None:
        if self.newest is None or self.newest >= number:
            self.held = None
            table = deltawrite.opened(self.path)
            if table is not None:
                changes = self._changes(session, table).where(F.col(BATCH) < number)
                self.held = self.operator.restored(changes, before_ms)
            self.newest = number - 1
        return self.held

    def _changes(self, session: SparkSession, table: DeltaTable) -> DataFrame:
        """What is stored, out of its files: Delta's own reader would first read its log, by a job for each batch."""
        schema = StructType.fromJson(json.loads(table.schema().to_json()))
        # Their addresses come encoded; the table has no partitions, so they lie in its folder.
        files = [f"{self.path}/{address.rpartition('/')[2]}" for address in table.file_uris()]
        return session.read.schema(schema).parquet(*files) if files else session.createDataFrame([], schema)

    def _compact(self, held: DataFrame, number: int) -> None:
        """Put the state before the batch in the place of the changes that led to it, and delete their files."""
        rows = _of_batch(self.operator.stored(held).toArrow(), number - 1)
        deltawrite.replace_once(self.path, rows, Once(f"{self.app}:compact", number))
        deltawrite.delete_replaced(self.path)


def _of_batch(changes: pa.Table, number: int) -> pa.Table:
    return changes.append_column(BATCH, pa.repeat(pa.scalar(number, pa.int64()), changes.num_rows))


def collecting(rows: DataFrame) -> Future[pa.Table]:
    """Collect rows beside other work: their way to the driver is one thread's, and leaves a core idle."""
    return _COLLECTOR.submit(rows.toArrow)


def in_time(rows: DataFrame, behind: Column, watermark_ms: int | None) -> Fresh:
    """The rows that are not `behind` the watermark; without one none is."""
    if watermark_ms is None:
        return Fresh(rows, None)
    counted = Observation()
    return Fresh(rows.observe(counted, F.count_if(behind).alias("late")).where(~behind), counted)


# ---- states that are stored key by key: all rows of each key that a batch changed ----------------
def by_key(keys: Sequence[str], keep: Column, changed: Column) -> dict[str, Column]:
    """Columns of a row that tell of its whole key: whether it changed, and of one row of it that nothing is kept."""
    whole = Window.partitionBy(*keys)
    first = F.row_number().over(whole.orderBy(*keys)) == 1
    return {
        "__changed": F.max(changed).over(whole),
        GONE: (F.max(keep).over(whole) == F.lit(False)) & first,
    }


def changes_of(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """From rows with `__keep`, `__changed` and GONE: what is to be stored."""
    return rows.where(f"__changed AND (__keep OR {GONE})").select(*columns, GONE)


class StoredByKey:
    """What operators share whose changes are all rows of the keys that changed."""

    __slots__ = ()

    @property
    def keys(self) -> Sequence[str]:
        """Columns of the state."""
        raise NotImplementedError

    def resumed(self, turn: Turn, changes: Callable[[], DataFrame], watermark_ms: int | None) -> DataFrame:
        return turn.state

    def restored(self, changes: DataFrame, watermark_ms: int | None) -> DataFrame:
        """Of each key the rows of the last batch that changed it."""
        newest = F.max(BATCH).over(Window.partitionBy(*self.keys))
        last = changes.withColumn("__newest", newest).where(f"{BATCH} = __newest AND NOT {GONE}")
        return last.drop("__newest", BATCH, GONE).localCheckpoint()

    def stored(self, state: DataFrame) -> DataFrame:
        return state.withColumn(GONE, F.lit(False))


# ---- states whose rows are stored once, when they come ------------------------------------------
OUT = "__out"  # whether the row's turn came before this batch
KEEP = "__keep"  # whether it is needed when its turn has come


class StoredOnce:
    """What operators share that take their rows in order of time, each when the watermark is strictly past it, so
    that none can come before it any more.

    The state is the rows that wait, and of those whose turn has come the ones that are needed for later rows. A
    row is stored when it comes and read when it is its turn: which wait, and which are needed, follows from the
    watermark.
    """

    __slots__ = ()

    time: ClassVar[str]  # the column of the rows' time

    def needed(self) -> Column:
        """Whether a row is needed for later ones, among those whose turn has come."""
        raise NotImplementedError

    def behind(self, watermark_ms: int | None) -> Column:
        return passed_by(F.col(self.time), watermark_ms)

    def due(self, state: DataFrame | None, rows: DataFrame, watermark_ms: int | None) -> DataFrame:
        """The rows whose turn has come, now or (OUT) before."""
        held = rows.limit(0).withColumn(OUT, F.lit(False)) if state is None else state
        return held.where(F.col(OUT) | self.behind(watermark_ms))

    def resumed(self, turn: Turn, changes: Callable[[], DataFrame], watermark_ms: int | None) -> DataFrame:
        return _in_order(changes().drop(BATCH).where(~self.behind(watermark_ms)), turn.state)

    def restored(self, changes: DataFrame, watermark_ms: int | None) -> DataFrame:
        rows, behind = changes.drop(BATCH), self.behind(watermark_ms)
        passed = rows.where(behind).withColumn(KEEP, self.needed())
        return _in_order(rows.where(~behind), passed.where(KEEP).drop(KEEP).localCheckpoint())

    def stored(self, state: DataFrame) -> DataFrame:
        return state.drop(OUT)


def _in_order(waiting: DataFrame, came_out: DataFrame) -> DataFrame:
    return waiting.withColumn(OUT, F.lit(False)).unionByName(came_out.withColumn(OUT, F.lit(True)))


def _stored(schema: StructType) -> pa.Schema:
    fields = [StructField(field.name, field.dataType) for field in schema.fields]
    return to_arrow_schema(StructType([*fields, StructField(BATCH, LongType())]), timezone="UTC")
