"""Rows a second and CPU seconds of a stretch of work: wall clock, and the process tree's own accounting."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Figure:
    """What one run of one engine took."""

    engine: str
    query: str
    rows: int
    seconds: float
    cpu_seconds: float

    def told(self) -> dict[str, object]:
        """The figure as its fields."""
        return asdict(self)

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds

    @property
    def cpu_per_million(self) -> float:
        return self.cpu_seconds / (self.rows / 1_000_000)


@dataclass(frozen=True, slots=True)
class Moment:
    """A wall clock's and a CPU clock's reading."""

    wall: float
    cpu: float

    @staticmethod
    def now() -> Moment:
        return Moment(time.perf_counter(), tree_cpu_seconds(os.getpid()))


def tree_cpu_seconds(root: int) -> float:
    """CPU seconds of a process and all its living descendants (the JVM, Python workers)."""
    parents = _processes()
    wanted, found = {root}, True
    while found:
        more = {pid for pid, (parent, _) in parents.items() if parent in wanted} - wanted
        wanted |= more
        found = bool(more)
    return sum(parents[pid][1] for pid in wanted if pid in parents)


def _processes() -> dict[int, tuple[int, float]]:
    """Of each process its parent and its CPU seconds, ended children's included."""
    result = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        result[int(folder.name)] = (int(fields[1]), sum(int(fields[n]) for n in (11, 12, 13, 14)) / TICKS)
    return result
