"""Carried state (DESIGN 4): what no native operator holds, as a pure function of DataFrames.

An operator takes (state, batch, watermark) and gives (output, new state); `CarriedState` keeps the state
between batches in memory and, for restarts, in a Delta table of changes: each batch appends the rows of
the keys that it changed, tagged with its number, so that a batch that is run again finds the state it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BooleanType, LongType, StructField, StructType

from headrace.runtime import deltawrite
from headrace.runtime.deltawrite import NO_STATISTICS, Once

BATCH, GONE = "__batch", "__gone"  # of a row in the table of changes; GONE: the key has nothing left
COMPACTED_EVERY = 50  # batches that changed something


@dataclass(frozen=True, slots=True)
class Turn:
    """What an operator made of a batch; over rows that are computed already.

    `changes` has the state's columns and GONE: all rows of each key that the batch changed.
    `late` is how many of the batch's rows were late.
    """

    output: DataFrame
    state: DataFrame
    changes: DataFrame
    late: int = 0


class Operator(Protocol):
    """A carried-state operator. `keys` are columns of its state; what is stored is stored key by key."""

    @property
    def keys(self) -> Sequence[str]: ...

    def turn(self, state: DataFrame | None, rows: DataFrame, watermark_ms: int | None) -> Turn:
        """Take one batch; `state` is None before the first one."""
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

    def take(self, rows: DataFrame, number: int, watermark_ms: int | None) -> Turn:
        """The operator's answer to a batch; nothing is kept yet."""
        return self.operator.turn(self._before(rows.sparkSession, number), rows, watermark_ms)

    def keep(self, turn: Turn, number: int) -> None:
        """Make the batch's changes durable, once, and go on from its state."""
        if not self.written:
            deltawrite.ensure(self.path, _stored(turn.changes.schema), "carried state", conf=NO_STATISTICS)
        changes = turn.changes.withColumn(BATCH, F.lit(number).cast("bigint")).toArrow()
        if changes.num_rows:
            if self.written % COMPACTED_EVERY == COMPACTED_EVERY - 1:
                self._compact(turn.changes.sparkSession, number)
            deltawrite.append_once(self.path, changes, Once(self.app, number))
            self.written += 1
        self.held, self.newest = turn.state, number

    def _before(self, session: SparkSession, number: int) -> DataFrame | None:
        if self.newest is None or self.newest >= number:
            self.held = self._stored_before(session, number)
            self.newest = number - 1
        return self.held

    def _stored_before(self, session: SparkSession, number: int) -> DataFrame | None:
        rows = self._latest(session, number)
        return None if rows is None else rows.where(f"NOT {GONE}").drop(BATCH, GONE).localCheckpoint()

    def _latest(self, session: SparkSession, number: int) -> DataFrame | None:
        """Of each key the rows of the last batch before `number` that changed it."""
        if deltawrite.opened(self.path) is None:
            return None
        before = session.read.format("delta").load(self.path).where(F.col(BATCH) < number)
        newest = F.max(BATCH).over(Window.partitionBy(*self.operator.keys))
        return before.withColumn("__newest", newest).where(f"{BATCH} = __newest").drop("__newest")

    def _compact(self, session: SparkSession, number: int) -> None:
        """Drop what later batches replaced; the state before `number` stays to be read."""
        latest = self._latest(session, number)
        if latest is not None:
            deltawrite.replace_once(self.path, latest.toArrow(), Once(f"{self.app}:compact", number))


@dataclass(frozen=True, slots=True)
class Fresh:
    """A batch's rows without the late ones, and, once they were computed, how many those were."""

    rows: DataFrame
    counted: Observation | None

    @property
    def late(self) -> int:
        return 0 if self.counted is None else int(self.counted.get["late"])


def in_time(rows: DataFrame, behind: Column, watermark_ms: int | None) -> Fresh:
    """The rows that are not `behind` the watermark; without one none is."""
    if watermark_ms is None:
        return Fresh(rows, None)
    counted = Observation()
    return Fresh(rows.observe(counted, F.count_if(behind).alias("late")).where(~behind), counted)


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


def _stored(schema: StructType) -> pa.Schema:
    wanted = [StructField(f.name, f.dataType) for f in schema.fields if f.name != GONE]
    return to_arrow_schema(
        StructType([*wanted, StructField(GONE, BooleanType()), StructField(BATCH, LongType())]),
        timezone="UTC",
    )
