"""Sessions with EMIT CHANGES: after each batch the new value of each session that it touched, and a
deletion of each one that was merged into another or has grown.

Held are *cells* of the sessions that are still open. A cell holds the rows of a key in one span of time as long
as the gap, which are in one session whatever comes: their first and last time and the calls' partial values. Where
a call has no partial values (a set, a list, the first value by time), a cell is one row. Each cell knows where the
session that was told of it started, and whether it was the last one in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headrace.runtime.carried import GONE, StoredByKey, Turn, changes_of, in_time
from headrace.runtime.lower import ADMITTED, ALL, types_of
from headrace.runtime.watermark import strictly_behind
from headrace.sql.aggregates import is_ordered, lower_call
from headrace.sql.nodes import TIME_ORDER, Aggregate, Call, Windowed
from headrace.sql.partials import Partial, split

CELL, FIRST, LAST = "__cell", "__first", "__last"  # where it begins, and its rows: microseconds since 1970
START, CLOSES, TOLD = "__start", "__closes", "__told"  # of the session as told before; TOLD is its LAST then
NEW = "__new"
END = "__end"  # of a session
_FACTS = (FIRST, LAST, START, CLOSES, TOLD, NEW)


@dataclass(frozen=True, slots=True)
class Held:
    """How a cell holds the values of calls: `many` rows' as `partials` with their types, or one row's arguments.

    `values` give each call, out of a session's merged partials or by an aggregate over its rows.
    """

    values: tuple[Column, ...]
    partials: tuple[tuple[Partial, str], ...] = ()

    @property
    def many(self) -> bool:
        return bool(self.partials) or not self.values

    def of_row(self) -> list[Column]:
        return [F.expr(f"CAST({one.row} AS {kind})").alias(one.name) for one, kind in self.partials]

    def merged(self) -> list[Column]:
        return [
            F.expr(f"CAST({one.merge}({one.name}) AS {kind})").alias(one.name) for one, kind in self.partials
        ]


@dataclass(slots=True)
class SessionChanges(StoredByKey):
    """The operator of an Aggregate over sessions. `how` is known from the first batch on."""

    node: Aggregate
    how: Held | None = None

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
        taken = in_time(pruned, self._behind(FIRST, watermark_ms), watermark_ms)
        how = self.how = self.how or self._how(pruned, calls)
        cells = self._cells(taken.rows, state, how)
        held = self._sessions(cells, watermark_ms).localCheckpoint()
        stored = [name for name in cells.columns if name not in (NEW, TOLD)]
        after = held.drop(START, CLOSES).withColumnsRenamed({"__starts": START, "__ends": CLOSES})
        return Turn(
            output=self._output(held, how),
            state=after.where("__keep").select(*stored),
            changes=changes_of(after, stored),
            taken=taken,
        )

    def _behind(self, time: str, watermark_ms: int | None) -> Column:
        """Whether a session that ends with this time is closed."""
        return strictly_behind(F.col(time) + F.lit(self.gap), watermark_ms)

    def _pruned(self, rows: DataFrame) -> tuple[DataFrame, list[Call]]:
        """Keys, time and arguments of the calls, each a column of its own; and the calls over those."""
        names = {name.casefold() for name in rows.columns}
        chosen: list[Column] = [F.expr(key.expression).alias(key.name) for key in self.node.keys]
        chosen += [] if self.node.keys else [F.lit(0).alias(ALL)]
        chosen.append(F.unix_micros(F.expr(self._windowed.window.time or "_event_time")).alias(FIRST))
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

    def _how(self, rows: DataFrame, calls: list[Call]) -> Held:
        """Cells of many rows where all calls have partial values, else of one."""
        typed = [(call, types_of(rows, call)) for call in calls]
        halves = [split(call, types, f"__part{n}_") for n, (call, types) in enumerate(typed)]
        whole = [half for half in halves if half is not None]
        if len(whole) < len(calls):
            return Held(tuple(F.expr(lower_call(call, types)).alias(call.name) for call, types in typed))
        partials = [partial for half in whole for partial in half.partials]
        one = [F.count(F.lit(1)), *(F.expr(partial.text).alias(partial.name) for partial in partials)]
        kinds = [field.dataType.simpleString() for field in rows.groupBy().agg(*one).schema.fields[1:]]
        values = [F.expr(half.whole).alias(call.name) for half, call in zip(whole, calls, strict=True)]
        return Held(tuple(values), tuple(zip(partials, kinds, strict=True)))

    def _cells(self, rows: DataFrame, state: DataFrame | None, how: Held) -> DataFrame:
        """The batch's rows and the state as cells, one for each key and span of time where they hold many rows."""
        unknown = F.lit(None).cast("bigint")
        fresh = rows.withColumns(
            {LAST: F.col(FIRST), START: unknown, CLOSES: F.lit(False), TOLD: unknown, NEW: F.lit(True)}
        )
        if how.many:
            begin = F.expr(f"{FIRST} - pmod({FIRST}, {self.gap}L)").alias(CELL)
            fresh = fresh.select(*self.keys, begin, *_FACTS, *how.of_row())
        every = fresh
        if state is not None:
            every = fresh.unionByName(state.withColumns({TOLD: F.col(LAST), NEW: F.lit(False)}))
        if not how.many:
            return every
        merged = [F.min(FIRST).alias(FIRST), *(F.max(name).alias(name) for name in _FACTS[1:])]
        return every.groupBy(*self.keys, CELL).agg(*merged, *how.merged())

    def _sessions(self, cells: DataFrame, watermark_ms: int | None) -> DataFrame:
        """Each cell with where its session starts now and whether it ends there, and what is kept of its key.

        Sessions of a key end in the order in which they start, so that the open ones are those from that of
        the first cell which itself is not behind.
        """
        gap, order = F.lit(self.gap), Window.partitionBy(*self.keys).orderBy(FIRST, CLOSES)
        before = F.max(LAST).over(order.rowsBetween(Window.unboundedPreceding, -1))
        so_far = order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        last = F.max(LAST).over(so_far)
        bordered = cells.withColumns(
            {
                "__one": before.isNull(),
                "__opens": F.coalesce(F.col(FIRST) - before > gap, F.lit(True)),
                "__ends": F.coalesce(F.lead(FIRST).over(order) - last > gap, F.lit(True)),
            }
        )
        bordered = bordered.withColumn("__starts", F.max(F.when(F.col("__opens"), F.col(FIRST))).over(so_far))
        whole = Window.partitionBy(*self.keys)
        stands = ~self._behind(LAST, watermark_ms)
        bordered = bordered.withColumns(
            {
                "__open": F.min(F.when(stands, F.col("__starts"))).over(whole),
                "__oldest": F.min("__starts").over(whole),
                "__touched": F.max(NEW).over(whole),
            }
        )
        open_ = F.col("__open")
        return bordered.withColumns(
            {
                "__keep": F.coalesce(F.col("__starts") >= open_, F.lit(False)),
                "__changed": F.col("__touched") | (F.col("__oldest") < open_),
                GONE: open_.isNull() & F.col("__one"),
            }
        ).drop("__opens", "__one", "__open", "__oldest")

    def _output(self, held: DataFrame, how: Held) -> DataFrame:
        """The touched sessions' values, and as deletions the borders that no session has any more."""
        keys, gap = list(self.keys), F.lit(self.gap)
        touched = held.where("__touched")
        sessions = touched.groupBy(*keys, F.col("__starts").alias(START))
        facts = ((F.max(LAST) + gap).alias(END), F.max(NEW).alias(ADMITTED))
        now = sessions.agg(*facts, *(how.merged() if how.many else how.values)).where(ADMITTED)
        if how.many:
            now = now.select(*keys, START, END, ADMITTED, *how.values)
        moved = f"{CLOSES} AND NOT (__ends AND {START} = __starts AND {TOLD} = {LAST})"
        end = (F.col(TOLD) + gap).alias(END)
        gone = touched.where(moved).select(*keys, START, end, F.lit(False).alias(ADMITTED))
        both = now.unionByName(gone, allowMissingColumns=True)
        return both.withColumns(
            {"window_start": F.timestamp_micros(START), "window_end": F.timestamp_micros(END)}
        ).drop(START, END, ALL)


def _asks(text: str, names: set[str]) -> bool:
    """Whether an argument names a column; else it is a literal, which an aggregate may insist on."""
    return any(word.casefold() in names for word in re.findall(r"\w+", text))
