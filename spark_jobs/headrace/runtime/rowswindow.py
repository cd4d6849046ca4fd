"""ROWS windows: aggregates over the last n rows of each key, one output row for each input row.

A row comes out when the watermark is strictly past it, so that no row can come before it any more. Held
are the rows that wait, and of those that came out the last n-1 of each key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from headrace.runtime.carried import GONE, Turn, in_time
from headrace.runtime.lower import ALL, types_of
from headrace.runtime.watermark import strictly_behind
from headrace.sql.aggregates import over
from headrace.sql.nodes import TIME_ORDER, RowsWindow

OUT = "__out"  # whether the row came out before this batch


@dataclass(frozen=True, slots=True)
class RowsWindows:
    """The operator of a RowsWindow node."""

    node: RowsWindow

    @property
    def keys(self) -> Sequence[str]:
        return self.node.keys or (ALL,)

    def turn(self, state: DataFrame | None, rows: DataFrame, watermark_ms: int | None) -> Turn:
        columns = rows.columns
        behind = strictly_behind(F.unix_micros("_event_time"), watermark_ms)
        taken = in_time(rows, behind, watermark_ms)
        one = {} if self.node.keys else {ALL: F.lit(0)}
        fresh = taken.rows.withColumns({**one, OUT: F.lit(False), "__new": F.lit(True)})
        every = fresh if state is None else fresh.unionByName(state.withColumn("__new", F.lit(False)))
        held = self._judged(every.withColumn("__due", ~F.col(OUT) & behind)).localCheckpoint()
        output = held.where("__due").select(*columns, *[call.name for call, _ in self.node.calls])
        state_columns = [*columns, *one, OUT]
        kept = held.where("__keep").withColumn(OUT, F.col(OUT) | F.col("__due"))
        changed = F.max(F.col("__new") | F.col("__due")).over(Window.partitionBy(*self.keys))
        return Turn(
            output=output,
            state=kept.select(*state_columns),
            changes=kept.withColumn("__changed", changed)
            .where("__changed")
            .select(*state_columns, F.lit(False).alias(GONE)),
            late=taken.late,
        )

    def _judged(self, rows: DataFrame) -> DataFrame:
        """The calls' values, and whether a row is kept: it waits, or is one of the last that came out.

        Rows come out in their order. So of each key at least the last that came out is kept, and where any row
        is new or came out just now, one that is kept is.
        """
        most = max(2, *(buffer for _, buffer in self.node.calls))
        keys = ", ".join(self.keys)
        calls = {
            call.name: F.expr(
                over(
                    call,
                    types_of(rows, call),
                    f"(PARTITION BY {keys} ORDER BY {', '.join(TIME_ORDER)} "
                    f"ROWS BETWEEN {buffer - 1} PRECEDING AND CURRENT ROW)",
                )
            )
            for call, buffer in self.node.calls
        }
        order = Window.partitionBy(*self.keys).orderBy(*TIME_ORDER)
        past = F.col(OUT) | F.col("__due")
        followed = F.lead(past, most - 1, False).over(order)  # by so many that came out
        return rows.withColumns({**calls, "__keep": ~(past & followed)})
