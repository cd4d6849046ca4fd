"""As-of joins: each left row with the newest right row of its keys that is not later than it.

Both sides are one table of rows in order of time, in which a left row sees the last right row before it. It comes
out when the watermark is strictly past it, since an earlier right row may come until then; of the right rows that
the watermark has passed the last one of each key is kept, for ever or as long as it may be matched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.runtime.carried import KEEP, OUT, StoredOnce, Turn, collecting, in_time
from headrace.sql.nodes import JoinAsOf, Named

TIME = "__time"
IS_RIGHT = "__is_right"
ORDER = ("__order0", "__order1")  # of right rows with one time
MATCH = "__match"  # the right row that a left row sees: its TIME and its columns


def both_sides(node: JoinAsOf, left: DataFrame, right: DataFrame) -> DataFrame:
    """The rows of both sides in one frame, which is what the operator takes: `alias$column` of each relation."""
    frames = [_side(node, n, side) for n, side in enumerate((left, right))]
    return frames[0].unionByName(frames[1], allowMissingColumns=True)


def _side(node: JoinAsOf, n: int, rows: DataFrame) -> DataFrame:
    keys = [F.expr(pair[n]).alias(name) for pair, name in zip(node.keys, _keys(node), strict=True)]
    time, side = F.expr(node.times[n]).alias(TIME), F.lit(bool(n)).alias(IS_RIGHT)
    order = [F.expr(text).alias(name) for text, name in zip(node.order, ORDER, strict=True)] if n else []
    shown = [F.expr(column.expression).alias(name) for name, column, _ in _columns(node, n)]
    return rows.select(*keys, time, side, *order, *shown)


def _columns(node: JoinAsOf, n: int) -> list[tuple[str, Named, str]]:
    """The columns of a side: the name of each between its rows, itself, and the relation that it is of."""
    return [
        (f"{one.alias}${column.name}", column, one.alias) for one in node.shown[n] for column in one.columns
    ]


def _keys(node: JoinAsOf) -> list[str]:
    return [f"__key{n}" for n in range(len(node.keys))]


@dataclass(frozen=True, slots=True)
class AsOf(StoredOnce):
    """The operator of a JoinAsOf node, over the rows of `both_sides`."""

    node: JoinAsOf
    time: ClassVar[str] = TIME

    def turn(self, state: DataFrame | None, rows: DataFrame, watermark_ms: int | None) -> Turn:
        taken = in_time(rows, self.behind(watermark_ms), watermark_ms)
        coming = collecting(taken.rows)
        due = self.due(state, rows, watermark_ms)
        asks = ~F.col(OUT) & ~F.col(IS_RIGHT)
        passed = due.withColumns({MATCH: self._last_right(), KEEP: self.needed()}).where(asks | F.col(KEEP))
        passed = passed.localCheckpoint()
        found = passed.where(asks).withColumn(MATCH, self._match())
        if self.node.kind == "inner":
            found = found.where(F.col(MATCH).isNotNull())
        return Turn(
            output=found.select(*self._relations()),
            state=passed.where(F.col(KEEP) & self._may_match(watermark_ms)).select(*rows.columns),
            changes=taken.rows,
            coming=coming,
            taken=taken,
        )

    def needed(self) -> Column:
        """Whether it is the last right row of its keys."""
        later = F.expr(f"lead(CASE WHEN {IS_RIGHT} THEN TRUE END) IGNORE NULLS OVER ({self._in_order})")
        return F.col(IS_RIGHT) & later.isNull()

    def _last_right(self) -> Column:
        """The last right row of its keys so far, itself included."""
        row = ", ".join([TIME, *(f"`{name}`" for name, _, _ in _columns(self.node, 1))])
        until_here = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
        right = f"CASE WHEN {IS_RIGHT} THEN struct({row}) END"
        return F.expr(f"last({right}) IGNORE NULLS OVER ({self._in_order} {until_here})")

    def _match(self) -> Column:
        """The last right row, where it fits: NULL keys never match, nor does one that is too old."""
        fits = [f"{key} IS NOT NULL" for key in _keys(self.node)]
        if self.node.within is not None:
            fits.append(f"unix_micros({TIME}) - unix_micros({MATCH}.{TIME}) <= {self.node.within.micros}L")
        return F.expr(f"CASE WHEN {' AND '.join(fits)} THEN {MATCH} END")

    def _relations(self) -> list[Column]:
        """Each relation as a column of its alias."""
        found: dict[str, list[Column]] = {}
        for n, at in enumerate(("", f"{MATCH}.")):
            for name, column, alias in _columns(self.node, n):
                found.setdefault(alias, []).append(F.col(f"{at}`{name}`").alias(column.name))
        return [F.struct(*columns).alias(alias) for alias, columns in found.items()]

    @property
    def _in_order(self) -> str:
        """Of rows with one time the right ones come first, so that they are seen; or last."""
        side = "" if self.node.strict else " DESC"
        return f"PARTITION BY {', '.join(_keys(self.node))} ORDER BY {TIME}, {IS_RIGHT}{side}, {', '.join(ORDER)}"

    def _may_match(self, watermark_ms: int | None) -> Column:
        """Whether a row that is yet to come may be near enough to it."""
        if self.node.within is None or watermark_ms is None:
            return F.lit(True)
        return F.unix_micros(TIME) + F.lit(self.node.within.micros) >= F.lit(watermark_ms * 1000)
