"""Sessions with EMIT CHANGES: after each batch the new value of each session that it touched, and a
deletion of each one that was merged into another or has grown.

Held are the rows of the sessions that are still open, each with where its session started and whether it was
the last one in it: the borders that were told.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headrace.runtime.carried import GONE, Turn, changes_of, in_time
from headrace.runtime.lower import ADMITTED, ALL, types_of
from headrace.runtime.watermark import strictly_behind
from headrace.sql.aggregates import is_ordered, lower_call
from headrace.sql.nodes import TIME_ORDER, Aggregate, Call, Windowed

TIME, START, END = "__time", "__start", "__end"  # microseconds since 1970
LAST = "__last"  # whether the row was the last one of its session
NEW = "__new"


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
        fresh = taken.rows.withColumns(
            {START: F.lit(None).cast("bigint"), LAST: F.lit(False), NEW: F.lit(True)}
        )
        every = fresh if state is None else fresh.unionByName(state.withColumn(NEW, F.lit(False)))
        held = self._sessions(every, watermark_ms).localCheckpoint()
        stored = [*pruned.columns, START, LAST]
        after = held.drop(START, LAST).withColumnsRenamed({"__starts": START, "__ends": LAST})
        return Turn(
            output=self._output(held, calls),
            state=after.where("__keep").select(*stored),
            changes=changes_of(after, stored),
            late=taken.late,
        )

    def _pruned(self, rows: DataFrame) -> tuple[DataFrame, list[Call]]:
        """Keys, time and arguments of the calls, each a column of its own; and the calls over those."""
        names = {name.casefold() for name in rows.columns}
        chosen: list[Column] = [F.expr(key.expression).alias(key.name) for key in self.node.keys]
        chosen += [] if self.node.keys else [F.lit(0).alias(ALL)]
        chosen.append(F.unix_micros(F.expr(self._windowed.window.time or "_event_time")).alias(TIME))
        if any(is_ordered(call) for call in self.node.calls):
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
        """Each row with where its session starts now and whether it ends with the row, and what is kept of its key.

        A session is open where it ends at the watermark or later. Sessions of a key end in the order in which
        they start, so that the open ones are those from that of the first row which itself is not behind.
        """
        gap, order = F.lit(self.gap), Window.partitionBy(*self.keys).orderBy(TIME, LAST)
        before, behind = F.lag(TIME).over(order), F.lead(TIME).over(order)
        bordered = rows.withColumns(
            {
                "__first": before.isNull(),
                "__opens": F.coalesce(F.col(TIME) - before > gap, F.lit(True)),
                "__ends": F.coalesce(behind - F.col(TIME) > gap, F.lit(True)),
            }
        )
        so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        bordered = bordered.withColumn("__starts", F.max(F.when(F.col("__opens"), F.col(TIME))).over(so_far))
        whole = Window.partitionBy(*self.keys)
        stands = ~strictly_behind(F.col(TIME) + gap, watermark_ms)
        bordered = bordered.withColumns(
            {
                "__open": F.min(F.when(stands, F.col("__starts"))).over(whole),
                "__oldest": F.min("__starts").over(whole),
                "__fresh": F.max(NEW).over(whole),
            }
        )
        open_ = F.col("__open")
        return bordered.withColumns(
            {
                "__keep": F.coalesce(F.col("__starts") >= open_, F.lit(False)),
                "__changed": F.col("__fresh") | open_.isNull() | (F.col("__oldest") < open_),
                GONE: open_.isNull() & F.col("__first"),
            }
        ).drop("__opens", "__first", "__open", "__oldest")

    def _output(self, rows: DataFrame, calls: Sequence[Call]) -> DataFrame:
        """The touched sessions' values, and the borders that no session has any more as deletions."""
        keys, touched = list(self.keys), rows.where("__fresh")
        values = [F.expr(lower_call(call, types_of(touched, call))).alias(call.name) for call in calls]
        values = values or [F.count(F.lit(1)).alias("__rows")]
        end = F.col(TIME) + F.lit(self.gap)
        sessions = touched.groupBy(*keys, F.col("__starts").alias(START))
        now = sessions.agg(*values, F.max(end).alias(END), F.max(NEW).alias("__touched"))
        now = now.where("__touched").drop("__touched").withColumn(ADMITTED, F.lit(True))
        moved = f"NOT {NEW} AND {LAST} AND NOT (__ends AND {START} = __starts)"
        gone = touched.where(moved).select(*keys, START, end.alias(END), F.lit(False).alias(ADMITTED))
        both = now.unionByName(gone, allowMissingColumns=True)
        return both.withColumns(
            {"window_start": F.timestamp_micros(START), "window_end": F.timestamp_micros(END)}
        ).drop(START, END, ALL)


def _asks(text: str, names: set[str]) -> bool:
    """Whether an argument names a column; else it is a literal, which an aggregate may insist on."""
    return any(word.casefold() in names for word in re.findall(r"\w+", text))
