"""Sessions with EMIT CHANGES: after each batch the new value of each session that it touched, and a
deletion of each one that was merged into another or has grown.

Held are the rows of the sessions that are still open, with the borders that their session had.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headrace.runtime.carried import Turn, by_key, changes_of, in_time
from headrace.runtime.lower import ADMITTED, ALL, types_of
from headrace.runtime.watermark import strictly_behind
from headrace.sql.aggregates import lower_call
from headrace.sql.nodes import TIME_ORDER, Aggregate, Call, Windowed

TIME, START, END = "__time", "__start", "__end"  # microseconds since 1970


@dataclass(frozen=True, slots=True)
class SessionChanges:
    """The operator of an Aggregate over sessions."""

    node: Aggregate

    @property
    def keys(self) -> Sequence[str]:
        return [key.name for key in self.node.keys] or [ALL]

    @property
    def gap(self) -> int:
        return self._windowed.window.size.micros

    @property
    def _windowed(self) -> Windowed:
        assert isinstance(self.node.input, Windowed)
        return self.node.input

    def turn(self, state: DataFrame | None, rows: DataFrame, watermark_ms: int | None) -> Turn:
        pruned, calls = self._pruned(rows)
        behind = strictly_behind(F.col(TIME) + F.lit(self.gap), watermark_ms)
        taken = in_time(pruned, behind, watermark_ms)
        unknown = F.lit(None).cast("bigint")
        fresh = taken.rows.withColumns({START: unknown, END: unknown})
        every = fresh if state is None else fresh.unionByName(state)
        held = self._sessions(every, watermark_ms).localCheckpoint()
        columns = every.columns
        after = held.drop(START, END).withColumnsRenamed({"__new_start": START, "__new_end": END})
        return Turn(
            output=self._output(held, calls),
            state=after.where("__keep").select(*columns),
            changes=changes_of(after, columns),
            late=taken.late,
        )

    def _pruned(self, rows: DataFrame) -> tuple[DataFrame, list[Call]]:
        """Keys, time and arguments of the calls, each a column of its own; and the calls over those."""
        names = {name.casefold() for name in rows.columns}
        chosen: list[Column] = [F.expr(key.expression).alias(key.name) for key in self.node.keys]
        chosen += [] if self.node.keys else [F.lit(0).alias(ALL)]
        chosen.append(F.unix_micros(F.expr(self._windowed.window.time or "_event_time")).alias(TIME))
        chosen += [F.col(name) for name in TIME_ORDER if name in rows.columns]
        calls = []
        for number, call in enumerate(self.node.calls):
            arguments = []
            for position, text in enumerate(call.arguments):
                if not _asks(text, names):
                    arguments.append(text)
                    continue
                arguments.append(f"__arg{number}_{position}")
                chosen.append(F.expr(text).alias(arguments[-1]))
            where = f"__where{number}" if call.where else ""
            chosen += [F.expr(call.where).alias(where)] if where else []
            calls.append(replace(call, arguments=tuple(arguments), where=where))
        return rows.select(*chosen), calls

    def _sessions(self, rows: DataFrame, watermark_ms: int | None) -> DataFrame:
        """Each row with its session's borders now, and whether it is new, its session open, its key changed."""
        order = Window.partitionBy(*self.keys).orderBy(TIME)
        opens = F.coalesce(F.col(TIME) - F.lag(TIME).over(order) > F.lit(self.gap), F.lit(True))
        numbered = rows.withColumn("__opens", opens.cast("int"))
        numbered = numbered.withColumn("__number", F.sum("__opens").over(order))
        session = Window.partitionBy(*self.keys, "__number")
        bordered = numbered.withColumns(
            {
                "__new": F.col(START).isNull(),
                "__new_start": F.min(TIME).over(session),
                "__new_end": F.max(TIME).over(session) + F.lit(self.gap),
                "__touched": F.max(F.col(START).isNull()).over(session),
            }
        )
        open_ = ~strictly_behind(F.col("__new_end"), watermark_ms)
        kept = bordered.withColumn("__keep", open_).drop("__opens", "__number")
        changed = F.col("__new") | ~F.col("__keep")
        return kept.withColumns(by_key(self.keys, F.col("__keep"), changed))

    def _output(self, rows: DataFrame, calls: Sequence[Call]) -> DataFrame:
        """The touched sessions' values, and the borders that their rows no longer have as deletions."""
        keys, touched = list(self.keys), rows.where("__touched")
        values = [F.expr(lower_call(call, types_of(touched, call))).alias(call.name) for call in calls]
        values = values or [F.count(F.lit(1)).alias("__rows")]
        sessions = touched.groupBy(*keys, F.col("__new_start").alias(START), F.col("__new_end").alias(END))
        now = sessions.agg(*values).withColumn(ADMITTED, F.lit(True))
        moved = f"NOT __new AND ({START} <> __new_start OR {END} <> __new_end)"
        gone = touched.where(moved).select(*keys, START, END).distinct().withColumn(ADMITTED, F.lit(False))
        both = now.unionByName(gone, allowMissingColumns=True)
        return both.withColumns(
            {"window_start": F.timestamp_micros(START), "window_end": F.timestamp_micros(END)}
        ).drop(START, END, ALL)


def _asks(text: str, names: set[str]) -> bool:
    """Whether an argument names a column; else it is a literal, which an aggregate may insist on."""
    return any(word.casefold() in names for word in re.findall(r"\w+", text))
