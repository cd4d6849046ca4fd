"""ROWS windows: aggregates over the last n rows of each key, one output row for each input row.

A row comes out when the watermark is strictly past it, so that no row can come before it any more. Held
are the rows that wait, and of those that came out the last n-1 of each key. A row is stored once, when it
came: which rows wait, and which came out last, follows from the watermark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headrace.runtime.carried import BATCH, Turn, in_time
from headrace.runtime.lower import ALL, types_of
from headrace.runtime.watermark import strictly_behind
from headrace.sql.aggregates import over
from headrace.sql.nodes import TIME_ORDER, RowsWindow

OUT = "__out"  # whether the row came out before this batch
NEW = "__new"  # whether it came in this batch


@dataclass(frozen=True, slots=True)
class RowsWindows:
    """The operator of a RowsWindow node."""

    node: RowsWindow

    def turn(self, state: DataFrame | None, rows: DataFrame, watermark_ms: int | None) -> Turn:
        behind = _behind(watermark_ms)
        taken = in_time(rows, behind, watermark_ms)
        one = {} if self.node.keys else {ALL: F.lit(0)}
        fresh = taken.rows.withColumns(one)
        held = fresh.where("false").withColumn(OUT, F.lit(False)) if state is None else state
        partitions = int(str(rows.sparkSession.conf.get("spark.sql.shuffle.partitions")))
        still = held.where(~F.col(OUT) & ~behind).drop(OUT)
        waiting = fresh.withColumn(NEW, F.lit(True)).unionByName(still.withColumn(NEW, F.lit(False)))
        waiting = waiting.coalesce(partitions).localCheckpoint()
        last = {"__keep": ~self._followed(self._most - 1)}
        passed = held.where(F.col(OUT) | behind).withColumns(self._calls(held) | last).localCheckpoint()
        return Turn(
            output=passed.where(~F.col(OUT)).select(
                *rows.columns, *[call.name for call, _ in self.node.calls]
            ),
            state=_state(waiting.drop(NEW), passed.where("__keep").select(*fresh.columns)),
            changes=waiting.where(NEW).drop(NEW),
            late=taken.late,
        )

    def restored(self, changes: DataFrame, watermark_ms: int | None) -> DataFrame:
        behind = _behind(watermark_ms)
        rows = changes.drop(BATCH)
        passed = rows.where(behind).withColumn("__keep", ~self._followed(self._most - 1))
        return _state(rows.where(~behind), passed.where("__keep").drop("__keep"))

    def stored(self, state: DataFrame) -> DataFrame:
        return state.drop(OUT)

    @property
    def _keys(self) -> Sequence[str]:
        return self.node.keys or (ALL,)

    @property
    def _most(self) -> int:
        return max(buffer for _, buffer in self.node.calls)

    def _calls(self, rows: DataFrame) -> dict[str, Column]:
        keys, order = ", ".join(self._keys), ", ".join(TIME_ORDER)
        frame = f"PARTITION BY {keys} ORDER BY {order} ROWS BETWEEN {{}} PRECEDING AND CURRENT ROW"
        return {
            call.name: F.expr(over(call, types_of(rows, call), f"({frame.format(buffer - 1)})"))
            for call, buffer in self.node.calls
        }

    def _followed(self, rows: int) -> Column:
        """Whether so many rows behind this one, of those that came out, another one did."""
        order = Window.partitionBy(*self._keys).orderBy(*TIME_ORDER)
        return F.lead(F.lit(True), rows, False).over(order)


def _behind(watermark_ms: int | None) -> Column:
    return strictly_behind(F.unix_micros("_event_time"), watermark_ms)


def _state(waiting: DataFrame, came_out: DataFrame) -> DataFrame:
    return waiting.withColumn(OUT, F.lit(False)).unionByName(came_out.withColumn(OUT, F.lit(True)))
