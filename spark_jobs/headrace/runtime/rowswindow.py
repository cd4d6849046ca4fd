"""ROWS windows: aggregates over the last n rows of each key, one output row for each input row.

A row comes out when the watermark is strictly past it, so that no row can come before it any more. Held
are the rows that wait, and of those that came out the last n-1 of each key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headrace.runtime.carried import Turn, by_key, changes_of, in_time
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
        told = by_key(self.keys, F.col("__keep"), F.col("__new") | F.col("__due"))
        after = held.where("__keep OR __last").withColumns(told).withColumn(OUT, F.col(OUT) | F.col("__due"))
        return Turn(
            output=output,
            state=held.where("__keep").withColumn(OUT, F.col(OUT) | F.col("__due")).select(*state_columns),
            changes=changes_of(after, state_columns),
            late=taken.late,
        )

    def _judged(self, rows: DataFrame) -> DataFrame:
        """The calls' values; whether a row is kept: it waits, or is one of the last that came out; and whether it
        is the `__last` of its key that came out.

        Rows come out in their order. So where any row of a key is new or came out just now, one that waits or
        the last one is.
        """
        most = max(buffer for _, buffer in self.node.calls)
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

        def followed(rows: int) -> Column:
            """Whether so many rows behind this one another came out."""
            return F.lead(past, rows, False).over(order)

        return rows.withColumns(
            {**calls, "__keep": ~(past & followed(most - 1)), "__last": past & ~followed(1)}
        )
