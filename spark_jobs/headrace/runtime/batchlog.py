"""The batch log: one Delta row for each batch of a query that read input or moved its watermark.

Written inside the batch, after the sink and before Spark's commit, once for (query, generation, batch).
The gate reads from it which input each batch had, which table versions, and which watermark judged it;
a start reads from it how far each source partition had come.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from headrace.runtime.deltawrite import NO_STATISTICS, Once, append_once, ensure
from headrace.runtime.lake import Lake

COUNTERS = ("input_rows", "late_rows", "bad_records", "null_event_time_rows", "future_rows", "output_rows")
FLUSHED_MS = 253_402_300_799_999  # the watermark of an ended input: the end of year 9999

_OPENER = ThreadPoolExecutor(thread_name_prefix="batch-log")

SCHEMA = pa.schema(
    [
        ("query", pa.string()),
        ("generation", pa.int64()),
        ("batch", pa.int64()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("watermark_ms", pa.int64()),
        ("offsets", pa.string()),
        ("tables", pa.string()),
        ("marks", pa.string()),
        *((name, pa.int64()) for name in COUNTERS),
        ("seconds", pa.float64()),
    ]
)


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A row of the log; see SCHEMA. `watermark_ms` judged its rows and closed its windows: milliseconds since
    1970, None while there was none.
    """

    query: str
    generation: int
    batch: int
    at_ms: int
    watermark_ms: int | None
    offsets: str
    tables: str
    marks: str
    counts: dict[str, int]
    seconds: float


def prepare(lake: Lake) -> None:
    """Create the log empty where it is not there: two queries that both found none would both create it."""
    ensure(lake.batches, SCHEMA, conf=NO_STATISTICS)


def opening(lake: Lake) -> Future[DeltaTable]:
    """Open the log, which was prepared, beside other work: it takes as long as the append itself."""
    return _OPENER.submit(DeltaTable, lake.batches)


def write(log: DeltaTable, row: BatchRow) -> None:
    """Append the row, once. `log` may have been opened while the row's batch ran, not earlier."""
    record: dict[str, Any] = {name: getattr(row, name) for name in SCHEMA.names if hasattr(row, name)}
    record |= {"at": datetime.fromtimestamp(row.at_ms / 1000, UTC), **row.counts}
    table = pa.Table.from_pylist([record], SCHEMA)
    append_once(log, table, Once(f"batches:{row.query}:{row.generation}", row.batch))


def read(lake: Lake, query: str = "") -> pa.Table:
    """The rows of a query (of all, without a name), by query and batch; empty where nothing ran yet."""
    try:
        rows = DeltaTable(lake.batches).to_pyarrow_table()
    except TableNotFoundError:
        return SCHEMA.empty_table()
    if query:
        rows = rows.filter(pc.equal(rows.column("query"), query))
    return rows.sort_by([("query", "ascending"), ("generation", "ascending"), ("batch", "ascending")])


def totals(lake: Lake) -> dict[str, int]:
    """The counters, summed over all queries and batches."""
    rows = read(lake)
    return {name: pc.sum(rows.column(name)).as_py() or 0 for name in COUNTERS}
