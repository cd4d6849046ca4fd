"""ROWS windows: aggregates over the last n rows of each key, one output row for each input row.

A row comes out when the watermark is strictly past it; of those that came out the last n-1 of each key are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headrace.runtime.carried import KEEP, OUT, StoredOnce, Turn, collecting, in_time
from headrace.runtime.lower import ALL, types_of
from headrace.sql.aggregates import over
from headrace.sql.nodes import TIME_ORDER, RowsWindow


@dataclass(frozen=True, slots=True)
class RowsWindows(StoredOnce):
    """The operator of a RowsWindow node."""

    node: RowsWindow
    time: ClassVar[str] = "_event_time"

    def turn(self, state: DataFrame | None, rows: DataFrame, watermark_ms: int | None) -> Turn:
        keyed = rows.withColumns({} if self.node.keys else {ALL: F.lit(0)})
        taken = in_time(keyed, self.behind(watermark_ms), watermark_ms)
        coming = collecting(taken.rows)
        due = self.due(state, keyed, watermark_ms)
        passed = due.withColumns(self._calls(due) | {KEEP: self.needed()}).localCheckpoint()
        calls = [call.name for call, _ in self.node.calls]
        return Turn(
            output=passed.where(~F.col(OUT)).select(*rows.columns, *calls),
            state=passed.where(KEEP).select(*keyed.columns),
            changes=taken.rows,
            coming=coming,
            taken=taken,
        )

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

    def needed(self) -> Column:
        """Whether a row is one of the last n-1 of its key."""
        order = Window.partitionBy(*self._keys).orderBy(*TIME_ORDER)
        most = max(buffer for _, buffer in self.node.calls)
        return ~F.lead(F.lit(True), most - 1, False).over(order)
