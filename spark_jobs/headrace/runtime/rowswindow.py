"""ROWS windows: aggregates over the last n rows of each key, one output row for each input row.

A row comes out when the watermark is strictly past it, so that no row can come before it any more. The state
is the rows that wait, and of those that came out the last n-1 of each key. A row is stored once, when it
comes, and read when it comes out; which rows wait, and which came out last, follows from the watermark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headrace.runtime.carried import BATCH, Turn, collecting, in_time
from headrace.runtime.lower import ALL, types_of
from headrace.runtime.watermark import passed_by
from headrace.sql.aggregates import over
from headrace.sql.nodes import TIME_ORDER, RowsWindow

OUT = "__out"  # whether the row came out before this batch
KEEP = "__keep"  # whether it is one of the last that came out


@dataclass(frozen=True, slots=True)
class RowsWindows:
    """The operator of a RowsWindow node."""

    node: RowsWindow

    def turn(self, state: DataFrame | None, rows: DataFrame, watermark_ms: int | None) -> Turn:
        behind = _behind(watermark_ms)
        taken = in_time(rows, behind, watermark_ms)
        one = {} if self.node.keys else {ALL: F.lit(0)}
        fresh = taken.rows.withColumns(one)
        coming = collecting(fresh)
        held = rows.limit(0).withColumns({**one, OUT: F.lit(False)}) if state is None else state
        passed = (
            held.where(F.col(OUT) | behind)
            .withColumns(self._calls(held) | {KEEP: self._last()})
            .localCheckpoint()
        )
        return Turn(
            output=passed.where(~F.col(OUT)).select(
                *rows.columns, *[call.name for call, _ in self.node.calls]
            ),
            state=passed.where(KEEP).select(*fresh.columns),
            changes=fresh,
            coming=coming,
            taken=taken,
        )

    def resumed(self, turn: Turn, changes: Callable[[], DataFrame], watermark_ms: int | None) -> DataFrame:
        return _state(changes().drop(BATCH).where(~_behind(watermark_ms)), turn.state)

    def restored(self, changes: DataFrame, watermark_ms: int | None) -> DataFrame:
        rows, behind = changes.drop(BATCH), _behind(watermark_ms)
        passed = rows.where(behind).withColumn(KEEP, self._last())
        return _state(rows.where(~behind), passed.where(KEEP).drop(KEEP).localCheckpoint())

    def stored(self, state: DataFrame) -> DataFrame:
        return state.drop(OUT)

    @property
    def _keys(self) -> Sequence[str]:
        return self.node.keys or (ALL,)

    def _calls(self, rows: DataFrame) -> dict[str, Column]:
        keys, order = ", ".join(self._keys), ", ".join(TIME_ORDER)
        frame = f"PARTITION BY {keys} ORDER BY {order} ROWS BETWEEN {{}} PRECEDING AND CURRENT ROW"
        return {
            call.name: F.expr(over(call, types_of(rows, call), f"({frame.format(buffer - 1)})"))
            for call, buffer in self.node.calls
        }

    def _last(self) -> Column:
        """Whether a row, of those that came out, is one of the last n-1 of its key."""
        order = Window.partitionBy(*self._keys).orderBy(*TIME_ORDER)
        most = max(buffer for _, buffer in self.node.calls)
        return ~F.lead(F.lit(True), most - 1, False).over(order)


def _behind(watermark_ms: int | None) -> Column:
    return passed_by(F.col("_event_time"), watermark_ms)


def _state(waiting: DataFrame, came_out: DataFrame) -> DataFrame:
    return waiting.withColumn(OUT, F.lit(False)).unionByName(came_out.withColumn(OUT, F.lit(True)))
