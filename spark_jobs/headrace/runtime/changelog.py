"""A changelog: for each key that a batch touched the old and the new value, as `_op` +I, -U, +U or -D.

Held is the value that each key shows, until its window can't change any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from headrace.runtime.carried import StoredByKey, Turn, by_key, changes_of
from headrace.runtime.lower import ADMITTED, ALL
from headrace.sql.nodes import OP, Result

ROW = "__row"  # numbers the changes of a batch


@dataclass(frozen=True, slots=True)
class Changelog(StoredByKey):
    """The operator of a result stream over groups. `ends` is the column that holds a window's end, '' without one."""

    result: Result
    ends: str = ""

    @property
    def keys(self) -> Sequence[str]:
        return self.result.keys or (ALL,)

    def turn(self, state: DataFrame | None, rows: DataFrame, watermark_ms: int | None) -> Turn:
        columns = [name for name in rows.columns if name != ADMITTED]
        admitted = F.col(ADMITTED) if ADMITTED in rows.columns else F.lit(True)
        one = {} if self.result.keys else {ALL: F.lit(0)}
        fresh = rows.withColumns({**one, "__admitted_now": admitted, "__fresh": F.lit(True)}).drop(ADMITTED)
        stored = [*columns, *one]
        every = fresh
        if state is not None:
            held = state.withColumns({"__admitted_now": F.lit(True), "__fresh": F.lit(False)})
            every = fresh.unionByName(held)
        value = F.struct(*[F.col(f"`{name}`") for name in columns])
        paired = every.groupBy(*self.keys).agg(
            F.first(F.when(~F.col("__fresh"), value), ignorenulls=True).alias("old"),
            F.first(F.when(F.col("__fresh") & F.col("__admitted_now"), value), ignorenulls=True).alias("new"),
            F.max("__fresh").alias("__touched"),
        )
        paired = paired.localCheckpoint()
        after = self._after(paired, stored, watermark_ms)
        return Turn(
            output=self._output(paired.where("__touched"), columns),
            state=after.where("__keep").select(*stored),
            changes=changes_of(after, stored),
        )

    def _after(self, paired: DataFrame, stored: Sequence[str], watermark_ms: int | None) -> DataFrame:
        now = paired.withColumn("now", F.when(F.col("__touched"), F.col("new")).otherwise(F.col("old")))
        fields = [F.col(name) if name in self.keys else F.col(f"now.`{name}`").alias(name) for name in stored]
        rows = now.select(*fields, "__touched", F.col("now").isNotNull().alias("__there"))
        keep = F.col("__there")
        if self.ends and watermark_ms is not None:
            keep = keep & (F.unix_millis(self.ends) > F.lit(watermark_ms))
        rows = rows.withColumn("__keep", keep)
        changed = F.col("__touched") | (F.col("__there") & ~F.col("__keep"))
        return rows.withColumns(by_key(self.keys, F.col("__keep"), changed))

    def _output(self, paired: DataFrame, columns: Sequence[str]) -> DataFrame:
        old, new = F.col("old"), F.col("new")

        def change(op: str, value: Column) -> Column:
            return F.struct(F.lit(op).alias(OP), value.alias("row"))

        changes = (
            F.when(old.isNull() & new.isNotNull(), F.array(change("+I", new)))
            .when(old.isNotNull() & new.isNull(), F.array(change("-D", old)))
            .when(~old.eqNullSafe(new), F.array(change("-U", old), change("+U", new)))
        )
        rows = paired.select(*self.keys, F.posexplode(changes).alias("__at", "change"))
        order = Window.orderBy(*self.keys, "__at")
        numbered = rows.withColumn(ROW, F.row_number().over(order).cast("bigint"))
        return numbered.select(
            F.col(f"change.{OP}"), *[F.col(f"change.row.`{name}`").alias(name) for name in columns], ROW
        )
