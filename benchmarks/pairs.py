"""Headrace and the hand-written query side by side, batch by batch: `python -m benchmarks.pairs QUERY [PAIRS]`.

Both are started and warmed up; then each runs one batch while the other waits, in the order A B B A A B ….
A JVM compiles the same query a tenth better or worse from one start to the next, so several pairs of
processes are asked. Prints one JSON line for each engine of each pair, as `benchmarks.engines` does.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.measure import Figure
from benchmarks.queries import BATCH_ROWS, BENCHMARKS

PAIRS = 7
NAMES = {"headrace": "headrace", "handwritten": "structured streaming"}


@dataclass(slots=True)
class Engine:
    """A warm engine that waits for its turn."""

    process: subprocess.Popen[str]
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    def turn(self) -> None:
        """One batch."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        seconds, cpu_seconds = self.told()
        self.seconds += seconds
        self.cpu_seconds += cpu_seconds

    def told(self) -> tuple[float, float]:
        """What the engine says of the batch that it has just done."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"an engine ended with exit status {self.process.wait()}")
        seconds, cpu_seconds = json.loads(line)
        return seconds, cpu_seconds


def side_by_side(query: str) -> tuple[Figure, Figure]:
    """Headrace's figure and the hand-written query's, from one pair of processes."""
    batches = BENCHMARKS[query].rows // BATCH_ROWS
    with ExitStack() as started:
        engines = [_warm(started, name, query) for name in NAMES]
        for n in range(batches):
            for engine in engines if n % 2 == 0 else engines[::-1]:
                engine.turn()
        ours, theirs = (
            Figure(name, query, batches * BATCH_ROWS, one.seconds, one.cpu_seconds)
            for name, one in zip(NAMES.values(), engines, strict=True)
        )
        return ours, theirs


def _warm(started: ExitStack, name: str, query: str) -> Engine:
    command = [sys.executable, "-m", "benchmarks.engines", name, query, "--turns"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    started.enter_context(process)  # closes its input, which ends it, and waits
    engine = Engine(process)
    engine.told()
    return engine


if __name__ == "__main__":
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 1):
        for figure in side_by_side(sys.argv[1]):
            print(json.dumps(figure.told()), flush=True)
