"""What the demo says on the terminal, in the order of the run."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from expectations.verdict import Verdict
from headrace.demo.data import Prepared
from headrace.demo.plain import PlainResult
from headrace.demo.record import Streamed

SHOWN = 5  # rows of a result
# Follow from another column, or would not fit into 80.
UNSHOWN = (
    *("window_end", "airport", "unknown_planes", "day", "tailnum", "minutes"),
    *("left_late", "arrived_late"),
)
UNTOLD = ("in_weather",)  # what by_visibility sums up
ORDER = {
    "hourly": [("window_start", "ascending"), ("departures", "descending")],
    "carrier_totals": [("departures", "descending")],
    "daily": [("cancellations", "descending")],
    "flown": [("made_up", "descending"), ("departed", "ascending"), ("flight", "ascending")],
    "by_visibility": [("mean_delay", "descending")],
}
TITLE = {
    "hourly": "hourly: each hour, airport and carrier (FINAL); the first rows",
    "carrier_totals": "carrier_totals: running totals by carrier (CHANGES); the largest",
    "daily": "daily: each day over everything (FINAL); the days with most cancellations",
    "flown": "flown: departures joined with arrivals (LEFT, within 24 hours); most minutes made up in the air",
    "by_visibility": "by_visibility: each month and what one could see (AS OF each departure); the longest delays",
}


def prepared(console: Console, input_: Prepared, seconds: float) -> None:
    """How much input there is, and how it will come."""
    count = len(input_.deliveries)
    console.print(
        f"{input_.count('departures'):,} departures from EWR, JFK and LGA, {input_.count('arrivals'):,} arrivals and "
        f"{input_.count('weather'):,} readings of the weather, to come in {count} "
        f"{'delivery' if count == 1 else 'deliveries'}, LaGuardia's departures a day behind  [dim]({seconds:.1f} s)[/dim]"
    )


def prepared_only(console: Console, input_: Prepared, pipeline: Path) -> None:
    """How to run the pipeline on input that is all there."""
    data, path = shlex.quote(str(input_.data)), shlex.quote(_near(pipeline))
    console.print("All of it has arrived. Run the pipeline on it with one of")
    for command in ("headrace run", "spark-submit spark_jobs/stream.py"):
        console.print(f"  {command} {path} --flush --set DATA={data}", soft_wrap=True, highlight=False)


def streamed(console: Console, run: Streamed, queries: int) -> None:
    """The run in a line, and what was refreshed meanwhile."""
    late = run.metrics.get("late_rows", 0)
    console.print(
        f"[bold]{run.rows:,}[/bold] rows of three streams through {queries} queries in "
        f"[bold]{run.seconds:.0f} s[/bold] ({run.rows_per_second:,.0f} rows/s), [bold]{late:,}[/bold] late"
    )
    if run.refreshed is not None:
        console.print(f"Refreshed in mid-run: {run.refreshed.render()}", highlight=False)
    console.print()


def results(console: Console, tables: Mapping[str, pa.Table]) -> None:
    """A few rows of each result."""
    for name, rows in tables.items():
        if name in UNTOLD:
            continue
        console.print(Text(TITLE.get(name, name), "bold"))
        console.print(result_table(name, rows))
        console.print()


def result_table(name: str, rows: pa.Table) -> Table:
    """The first rows of a result, in an order that says something."""
    ordered = rows.sort_by(ORDER[name]) if name in ORDER else rows
    ordered = ordered.select([column for column in ordered.column_names if column not in UNSHOWN])
    table = Table(
        caption=f"{min(SHOWN, rows.num_rows):,} of {rows.num_rows:,} rows{_more(name, rows)}",
        caption_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
        header_style="dim",
    )
    for field in ordered.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        text = pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        heading = field.name.replace("_", "\n")
        table.add_column(heading, justify="right" if number else "left", no_wrap=not text, vertical="bottom")
    for row in ordered.slice(0, SHOWN).to_pylist():
        table.add_row(*(cell(value) for value in row.values()))
    return table


def _more(name: str, rows: pa.Table) -> str:
    """What the first rows don't show."""
    return f"; {rows['arrived'].null_count:,} never arrived" if name == "flown" else ""


def cell(value: Any) -> str:
    """A value for people: times in UTC to the minute, floats to two digits, nothing as a dash."""
    match value:
        case None:
            return "–"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M}"
        case date():
            return f"{value:%Y-%m-%d}"
        case float():
            return "NaN" if math.isnan(value) else f"{value:,.2f}"
        case int():
            return f"{value:,}"
        case _:
            return str(value)


def plain(console: Console, result: PlainResult) -> None:
    """What one global watermark lost, and what this one did not."""
    console.print(
        f"Plain Structured Streaming, one global watermark, same files and lateness: "
        f"[bold red]{result.dropped:,}[/bold red] rows dropped, "
        + ", ".join(f"{airport} {count:,}" for airport, count in result.by_airport)
        + "\n"
    )


def verdict(console: Console, found: Verdict) -> None:
    """The gate's verdict in its own words, the outcome so that nobody overlooks it."""
    said = Text(found.render())
    said.stylize("bold green" if found.outcome == "equal" else "bold red", 0, len(found.outcome))
    console.print(said, soft_wrap=True)


def report(console: Console, path: Path, seconds: float) -> None:
    """Where the report is, and how long all of it took."""
    console.print(
        f"\nreport: {path.as_uri()}  [dim]({seconds:.0f} s in all)[/dim]", soft_wrap=True, highlight=False
    )


def _near(path: Path) -> str:
    """The path from the working folder, where it lies below it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
