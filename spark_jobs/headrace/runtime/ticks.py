"""The watermark by ticks (DESIGN): a stream that feeds a window is the union of its tick and its rows.

Only the tick branch carries `withWatermark`. Both are observed above the union: an operator without
generated code costs every row a copy, so there is but one, and no filter gets past it to the tick.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.event_time.interval import DAY_US

SHIFT_US = 800_000 * DAY_US  # whole days, more than there are between year 1 and 1970
STRICT_US = 1_000  # a strict query's ticks come so much lower: what equals the watermark is not behind it


def with_ticks(ticks: DataFrame, rows: DataFrame, *, strict: bool) -> DataFrame:
    """Rows and ticks under the rows' columns, all of which are NULL in a tick, `__bad` too.

    `audit.usable` drops the tick; it has done its work below, where its watermark is read.
    """
    shift = SHIFT_US - (STRICT_US if strict else 0)
    time = F.expr(f"timestamp_micros(tick_us + {shift}L)").alias("__tick")
    marked = ticks.select(time).withWatermark("__tick", "0 seconds")
    nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in rows.schema.fields]
    return rows.unionAll(marked.select(*nothing))  # in this order: the rows' tasks begin first
