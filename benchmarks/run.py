"""`make bench`: all engines on all queries, the sink, the tracker, into benchmarks/results.md.

Headrace and the hand-written query take turns batch by batch (`benchmarks.pairs`): the machine's speed drifts
by a third within minutes, and bends both alike. Their figures are medians over several pairs of processes,
their ratio is the median of the pairs' ratios. The others run alone, and their ratios are as rough as the drift.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import tracker
from benchmarks.lookups import BATCH
from benchmarks.measure import Figure
from benchmarks.pairs import PAIRS, side_by_side
from benchmarks.queries import (
    BATCH_ROWS,
    BENCHMARKS,
    CARRIED,
    JOINED_ROWS,
    KEYS,
    PARTITIONS,
    ROWS,
    WARM_ROWS,
)

ALONE = ("batch", "duckdb")
OUT = Path(__file__).parent / "results.md"


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    compared = {query: _compared(query, pairs) for query in BENCHMARKS}
    carried = [_telling(Figure(**_alone("benchmarks.engines", "headrace", query))) for query in CARRIED]
    sink, looked = _alone("benchmarks.sink"), _alone("benchmarks.lookups")
    OUT.write_text(_page(compared, carried, sink, looked, pairs), encoding="utf-8")
    print(f"written: {OUT}")


def _compared(query: str, pairs: int) -> list[str]:
    """The table's rows of one query: Headrace, then each other engine with Headrace's share of its speed."""
    turns = [tuple(_telling(one) for one in side_by_side(query)) for _ in range(pairs)]
    ours, theirs = (list(engine) for engine in zip(*turns, strict=True))
    shares = sorted(a.rows_per_second / b.rows_per_second for a, b in turns)
    share = f"{statistics.median(shares):.2f} ({shares[0]:.2f} – {shares[-1]:.2f})"
    rows = [_row(ours, "1.00"), _row(theirs, share)]
    for engine in ALONE:
        alone = _telling(Figure(**_alone("benchmarks.engines", engine, query)))
        rows.append(_row([alone], f"{_speed(ours) / alone.rows_per_second:.2f}"))
    return rows


def _speed(figures: list[Figure]) -> float:
    return statistics.median(one.rows_per_second for one in figures)


def _row(figures: list[Figure], share: str) -> str:
    cpu = statistics.median(one.cpu_per_million for one in figures)
    return f"| {figures[0].query} | {figures[0].engine} | {_speed(figures):,.0f} | {cpu:.2f} | {share} |"


def _telling(figure: Figure) -> Figure:
    print(f"{figure.query} {figure.engine}: {figure.rows_per_second:,.0f} rows/s", flush=True)
    return figure


def _alone(module: str, *arguments: str) -> dict[str, Any]:
    """The last line that a module prints, run in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    result: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return result


def _page(
    compared: dict[str, list[str]],
    carried: list[Figure],
    sink: dict[str, float],
    looked: dict[str, float],
    pairs: int,
) -> str:
    lines = [
        "# Benchmarks",
        "",
        f"`make bench` on {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores ({platform.machine()}), "
        f"Python {platform.python_version()}. Generated rows, {KEYS:,} keys, N = {PARTITIONS}, "
        f"{BATCH_ROWS:,} rows a batch, noop sink, RocksDB, {WARM_ROWS:,} rows of warm-up. Headrace and structured "
        f"streaming took turns batch by batch, {ROWS:,} rows each, in each of {pairs} pairs of "
        "processes: medians, and in brackets the extremes of the pairs' ratios. The others: one run each. Interval "
        f"joins: two streams of {JOINED_ROWS // 2:,} rows each, after as many of warm-up.",
        "",
        "| query | engine | rows/s | CPU s per million rows | Headrace's share of it |",
        "|---|---|---:|---:|---:|",
    ]
    for rows in compared.values():
        lines += rows
    lines += [
        "",
        "Headrace alone, one run each; sessions of 20 rows:",
        "",
        "| query | rows/s | CPU s per million rows |",
        "|---|---:|---:|",
    ]
    lines += [f"| {one.query} | {one.rows_per_second:,.0f} | {one.cpu_per_million:.2f} |" for one in carried]
    ratio = sink["headrace"] / sink["merge"]
    lines += [
        "",
        "One batch of 2,000 changed keys into a Delta table of 10,000:",
        "",
        "| way | seconds | |",
        "|---|---:|---:|",
        f"| MERGE in foreachBatch, `snapshotPartitions` = 1 | {sink['merge']:.3f} | 1.00 |",
        f"| Headrace's sink | {sink['headrace']:.3f} | {ratio:.2f} |",
        "",
        *lookup_lines(looked),
        "",
        "The tracker:",
        "",
        "| | |",
        "|---|---:|",
    ]
    lines += [f"| {name} | {figure:,.2f} {unit} |" for name, figure, unit in tracker.rows()]
    return "\n".join(lines) + "\n"


def lookup_lines(looked: dict[str, float]) -> list[str]:
    """The section of `benchmarks.lookups`."""
    return [
        f"Batches of {BATCH:,} rows LEFT JOIN a reference table of {looked['rows']:,.0f} rows, "
        f"{looked['bytes'] / 2**20:.0f} MB in Delta; it was written to Redis in {looked['written_s']:.1f} s:",
        "",
        "| way | rows/s | |",
        "|---|---:|---:|",
        f"| Spark's own join with the Delta version | {looked['spark']:,.0f} | 1.00 |",
        f"| looked up in Redis, by workers that know most of it | {looked['headrace']:,.0f} "
        f"| {looked['headrace'] / looked['spark']:.2f} |",
        f"| the first look-ups: nothing is known, workers start | {looked['cold']:,.0f} "
        f"| {looked['cold'] / looked['spark']:.2f} |",
    ]


if __name__ == "__main__":
    main()
