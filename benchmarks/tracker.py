"""What the tracker costs: bulk updates per partition, and idle checks of 100 partitions.

Rules: a figure is CPU time, so that a busy machine does not blur it: the median over rounds of many calls, or,
where a call changes what it measures, the median over single calls. The making of the input is left out. The dear cases (names never seen before, partitions that do become idle) are in
the table next to the cheap ones. It must never show a figure without the call that it stands for.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

from headrace.event_time.marks import Marks

ROUNDS = 15
ROUND_SECONDS = 0.02
TIMEOUT_MS = 30_000
Row = tuple[str, float, str]


def rows() -> list[Row]:
    """The figures, as (name, figure, unit)."""
    found = [row for size in (100, 1_000, 100_000) for row in update_rows(size)]
    return [*found, *idle_rows(100), *look_rows(1_000)]


def update_rows(size: int) -> list[Row]:
    """ns per partition of one `update_many` over all partitions of a source, in a random order."""
    chance = np.random.default_rng(3)
    order = chance.permutation(size)
    times = chance.integers(0, 2**50, size)
    lateness = chance.integers(0, 2**20, size)
    marks = tracker(size)
    names = tuple(str(at) for at in order)
    fresh = list(names)  # a list is looked up each time
    calls: dict[str, Callable[[], object]] = {
        "positions": lambda: marks.update_many("s", order, times, 5_000_000, 0),
        "positions, own lateness each": lambda: marks.update_many("s", order, times, lateness, 0),
        "the same tuple of names": lambda: marks.update_many("s", names, times, 5_000_000, 0),
        "names looked up each time": lambda: marks.update_many("s", fresh, times, 5_000_000, 0),
    }
    return [
        (f"update_many, {size:,} partitions by {how}", seconds(call) / size * 1e9, "ns/partition")
        for how, call in calls.items()
    ]


def idle_rows(size: int) -> list[Row]:
    """µs of one `find_idle` over all partitions of a source."""
    marks = tracker(size)
    everyone, quarter = marks.partitions("s"), marks.partitions("s")[: size // 4]
    clock = [0]

    def stale_bound() -> float:
        """All have delivered since the deadline was last worked out, so that it has to be worked out again."""
        clock[0] += TIMEOUT_MS
        marks.heard("s", everyone, clock[0] - 1)
        return timed(lambda: marks.find_idle(clock[0]))

    def some_idle() -> float:
        """A quarter has been silent for too long and becomes idle."""
        clock[0] += 2 * TIMEOUT_MS
        marks.heard("s", everyone, clock[0])
        marks.heard("s", everyone[size // 4 :], clock[0] + 1)
        spent = timed(lambda: marks.find_idle(clock[0] + TIMEOUT_MS))
        if not all(marks.is_idle("s", name) for name in quarter):
            raise RuntimeError("the measured call found nothing idle")
        return spent

    def unread_left() -> None:
        marks.find_idle(clock[0], (("s", "0"),))

    fresh = tracker(size)
    return [
        (f"find_idle, {size} partitions, none can be idle", seconds(lambda: fresh.find_idle(1)) * 1e6, "µs"),
        (f"find_idle, {size} partitions, deadline worked out anew", median(stale_bound) * 1e6, "µs"),
        (f"find_idle, {size} partitions, a quarter becomes idle", median(some_idle) * 1e6, "µs"),
        (f"find_idle, {size} partitions, one with unread input", seconds(unread_left) * 1e6, "µs"),
        (f"find_idle, {size} partitions, mean of a check each 100 ms", mean_check(size) * 1e6, "µs"),
    ]


def mean_check(size: int) -> float:
    """Seconds a check over ten minutes of a stream in which each partition delivers each second but for one tenth.

    That tenth delivers once a minute, so that it becomes idle and wakes up again each time.
    """
    marks = tracker(size)
    lively, sleepy = np.arange(size // 10, size), np.arange(size // 10)
    spent, checks, fell = 0.0, 0, 0
    for now in range(0, 600_000, 100):
        if now % 1_000 == 0:
            marks.heard("s", lively, now)
        if now % 60_000 == 0:
            marks.heard("s", sleepy, now)
        begin = time.process_time()
        gone = marks.find_idle(now)
        spent += time.process_time() - begin
        checks, fell = checks + 1, fell + len(gone)
    if fell != 10 * sleepy.size:
        raise RuntimeError(f"{fell} partitions became idle, not {10 * sleepy.size}")
    return max(0.0, spent / checks - nothing())


def look_rows(size: int) -> list[Row]:
    """µs of a tick: the watermark after all partitions moved, and the state as JSON."""
    marks = tracker(size)
    order = np.arange(size)
    moment = [0]

    def tick() -> float:
        moment[0] += 1_000
        marks.update_many("s", order, np.full(size, moment[0]), 0, 0)
        return timed(marks.watermark)

    return [
        (f"watermark, {size:,} partitions that have all moved", median(tick) * 1e6, "µs"),
        (f"to_json, {size:,} partitions", seconds(marks.to_json) * 1e6, "µs"),
        (
            f"update of one among {size:,} partitions",
            seconds(lambda: marks.update("s", "7", 9, 0, 0)) * 1e6,
            "µs",
        ),
    ]


def tracker(size: int) -> Marks:
    """One source `s` with `size` partitions, all of which have delivered."""
    marks = Marks()
    marks.register("s", size, now=0, idle_timeout_ms=TIMEOUT_MS)
    marks.update_many("s", np.arange(size), np.zeros(size, np.int64), 0, 0)
    return marks


def seconds(call: Callable[[], object]) -> float:
    """The median over rounds of the mean time of one call; for calls that leave things as they were."""
    call()
    once = max(timed(call), 1e-7)
    count = max(1, int(ROUND_SECONDS / once))
    return statistics.median(timed(lambda: [call() for _ in range(count)]) / count for _ in range(ROUNDS))


def median(measure: Callable[[], float], times: int = 2_001) -> float:
    """The median of single measurements, less what measuring nothing takes."""
    return max(0.0, statistics.median(measure() for _ in range(times)) - nothing())


def nothing() -> float:
    """What it takes to look at the clock twice, and to call."""
    return statistics.median(timed(lambda: None) for _ in range(2_001))


def timed(call: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


if __name__ == "__main__":
    for name, figure, unit in rows():
        print(f"{name:<66}{figure:>10.2f} {unit}")
