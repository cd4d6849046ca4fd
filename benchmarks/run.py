"""`make bench`: all engines on all queries, the sink, the tracker, into benchmarks/results.md.

Headrace and the hand-written query take turns batch by batch (`benchmarks.pairs`): the machine's speed drifts
by a third within minutes, and bends both alike. The others run alone, and their ratios are as rough as that.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import pairs, tracker
from benchmarks.measure import Figure
from benchmarks.queries import BATCH_ROWS, BENCHMARKS, CARRIED, KEYS, PARTITIONS, WARM_ROWS

ALONE = ("batch", "duckdb")
OUT = Path(__file__).parent / "results.md"


def main() -> None:
    batches = int(sys.argv[1]) if len(sys.argv) > 1 else pairs.BATCHES
    figures: list[Figure] = []
    for query in BENCHMARKS:
        figures += _telling(pairs.side_by_side(query, batches))
        figures += _telling([Figure(**_alone("benchmarks.engines", engine, query)) for engine in ALONE])
    for query in CARRIED:
        figures += _telling([Figure(**_alone("benchmarks.engines", "headrace", query))])
    sink = _alone("benchmarks.sink")
    OUT.write_text(_page(figures, sink), encoding="utf-8")
    print(f"written: {OUT}")


def _telling(figures: list[Figure]) -> list[Figure]:
    for figure in figures:
        print(f"{figure.query} {figure.engine}: {figure.rows_per_second:,.0f} rows/s", flush=True)
    return figures


def _alone(module: str, *arguments: str) -> dict[str, Any]:
    """The last line that a module prints, run in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    result: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return result


def _page(figures: list[Figure], sink: dict[str, float]) -> str:
    lines = [
        "# Benchmarks",
        "",
        f"`make bench` on {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores ({platform.machine()}), "
        f"Python {platform.python_version()}. {figures[0].rows:,} generated rows, {KEYS:,} keys, N = {PARTITIONS}, "
        f"{BATCH_ROWS:,} rows a batch, noop sink, RocksDB, {WARM_ROWS:,} rows of warm-up. Headrace and structured "
        "streaming took turns batch by batch.",
        "",
        "| query | engine | rows/s | CPU s per million rows | Headrace's share of it |",
        "|---|---|---:|---:|---:|",
    ]
    for query in BENCHMARKS:
        lines += _rows([figure for figure in figures if figure.query == query])
    lines += [
        "",
        "Headrace alone, one run each; sessions of 20 rows:",
        "",
        "| query | rows/s | CPU s per million rows |",
        "|---|---:|---:|",
    ]
    lines += [
        f"| {one.query} | {one.rows_per_second:,.0f} | {one.cpu_per_million:.2f} |"
        for one in figures
        if one.query in CARRIED
    ]
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
        "The tracker:",
        "",
        "| | |",
        "|---|---:|",
    ]
    lines += [f"| {name} | {figure:,.2f} {unit} |" for name, figure, unit in tracker.rows()]
    return "\n".join(lines) + "\n"


def _rows(figures: list[Figure]) -> list[str]:
    """Of one query, Headrace first."""
    ours = figures[0].rows_per_second
    return [
        f"| {one.query} | {one.engine} | {one.rows_per_second:,.0f} | {one.cpu_per_million:.2f} "
        f"| {ours / one.rows_per_second:.2f} |"
        for one in figures
    ]


if __name__ == "__main__":
    main()
