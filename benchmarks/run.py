"""`make bench`: all engines on all queries, the sink, the tracker; medians into benchmarks/results.md.

The engines take turns (A B C D, A B C D, …), each in a process of its own, so that a machine whose speed
drifts bends all alike; ratios are taken turn by turn.
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
from benchmarks.measure import Figure
from benchmarks.queries import BATCH_ROWS, BENCHMARKS, CARRIED, KEYS, PARTITIONS, ROWS, WARM_ROWS

TURNS = 3
ENGINES = ("headrace", "handwritten", "batch", "duckdb")
OUT = Path(__file__).parent / "results.md"


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else TURNS
    figures: list[Figure] = []
    for turn in range(turns):
        for query in BENCHMARKS:
            for engine in ENGINES:
                figure = Figure(**_alone("benchmarks.engines", engine, query))
                figures.append(figure)
                print(
                    f"{turn + 1}/{turns} {query} {figure.engine}: {figure.rows_per_second:,.0f} rows/s",
                    flush=True,
                )
    for query in CARRIED:
        figures.append(Figure(**_alone("benchmarks.engines", "headrace", query)))
        print(f"{query}: {figures[-1].rows_per_second:,.0f} rows/s", flush=True)
    sink = _alone("benchmarks.sink")
    OUT.write_text(_page(figures, sink), encoding="utf-8")
    print(f"written: {OUT}")


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
        f"Python {platform.python_version()}. {ROWS:,} generated rows, {KEYS:,} keys, N = {PARTITIONS}, "
        f"{BATCH_ROWS:,} rows a batch, noop sink, RocksDB, {WARM_ROWS:,} rows of warm-up; medians.",
        "",
        "| query | engine | rows/s | CPU s per million rows | Headrace's share of it |",
        "|---|---|---:|---:|---:|",
    ]
    for query in BENCHMARKS:
        lines += [_row(query, engine, figures) for engine in dict.fromkeys(f.engine for f in figures)]
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


def _row(query: str, engine: str, figures: list[Figure]) -> str:
    own = [figure for figure in figures if (figure.query, figure.engine) == (query, engine)]
    ours = [figure for figure in figures if (figure.query, figure.engine) == (query, "headrace")]
    speed = statistics.median(figure.rows_per_second for figure in own)
    cpu = statistics.median(figure.cpu_per_million for figure in own)
    pairs = zip(ours, own, strict=True)
    ratio = statistics.median(a.rows_per_second / b.rows_per_second for a, b in pairs)
    return f"| {query} | {engine} | {speed:,.0f} | {cpu:.2f} | {ratio:.2f} |"


if __name__ == "__main__":
    main()
