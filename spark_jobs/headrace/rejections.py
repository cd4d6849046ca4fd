"""`headrace rejected`: the records that took part in no result, each with its reason. Reads one Delta table, by delta-rs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from headrace.errors import ExitCode
from headrace.runtime.lake import Lake

# The columns of the table that people read, in their order.
SHOWN = (
    "rejected_at",
    "query",
    "stream",
    "partition",
    "offset",
    "reason",
    "event_time",
    "watermark",
    "raw",
    "detail",
)


def show_rejected(out: Console, lake: Lake, limit: int, as_json: bool) -> ExitCode:
    """Print the last `limit` rejected records, newest first, and how many there are by reason."""
    rows = read_rejected(lake)
    last = newest(rows, limit)
    if as_json:
        out.print_json(json.dumps(last, default=str))
    elif not last:
        out.print(f"no record was rejected in {lake.root}", highlight=False, soft_wrap=True)
    else:
        drawn = table(last)
        whole = out.options.update(max_width=10_000)
        out.print(drawn, width=Measurement.get(out, whole, drawn).maximum, crop=False, no_wrap=True)
        shown = f"the newest {len(last)} of " if len(last) < rows.num_rows else ""
        out.print(shown + summary(rows), style="dim", highlight=False, soft_wrap=True)
    return ExitCode.DONE


def read_rejected(lake: Lake) -> pa.Table:
    """All rejected records; an empty table without columns where there is none."""
    try:
        return DeltaTable(lake.rejected).to_pyarrow_table()
    except TableNotFoundError:
        return pa.table({})


def newest(rows: pa.Table, limit: int) -> list[dict[str, Any]]:
    """The records rejected last come first; records of one batch by stream and partition."""
    if not rows.num_rows:
        return []
    order = [
        ("rejected_at", "descending"),
        ("query", "ascending"),
        ("stream", "ascending"),
        ("partition", "ascending"),
    ]
    found: list[dict[str, Any]] = rows.sort_by(order).slice(0, limit).to_pylist()
    return found


def summary(rows: pa.Table) -> str:
    """`12 records: 10 late, 2 bad_record`."""
    counts = pc.value_counts(rows.column("reason")).to_pylist()
    by_reason = ", ".join(f"{each['counts']} {each['values']}" for each in counts)
    return f"{rows.num_rows} record{'s' * (rows.num_rows != 1)}: {by_reason}"


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The records as a table; a column in which no record has a value is left out."""
    names = [name for name in SHOWN if any(row.get(name) not in (None, "") for row in rows)]
    drawn = Table(box=None, header_style="dim")
    for name in names:
        drawn.add_column(name, no_wrap=True)
    for row in rows:
        drawn.add_row(*(Text(_cell(row.get(name))) for name in names))
    return drawn


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return "" if value is None else str(value).replace("\n", "\\n")
