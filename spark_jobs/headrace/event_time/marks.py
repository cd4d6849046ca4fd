"""The tracker: how far event time has come in each source partition, and so for a whole query (SEMANTICS 3).

Rules: event times are microseconds since 1970, marks and watermarks whole milliseconds rounded down, and
processing time comes in as `now`, in milliseconds. A partition's mark is the largest (event time - lateness)
it delivered. A source's watermark is the smallest mark over its active partitions; an active one that has
delivered nothing yet holds it; when all are idle, the largest mark counts. The combined watermark is the
smallest over the sources. None of the three ever moves back.
A watermark moves when it is looked at (`watermark`, `source_watermark`, `metrics`, `to_json`) and before the
set of partitions changes; so the arrivals between two looks are one batch, and their order is no matter.
This module must never read a clock, touch a file, import Spark or guess: whatever it can't place is an error
from `mark_errors`, and nothing has changed then. It is not made for two threads at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.event_time import lanes, marks_json
from headrace.event_time.lanes import NEVER, NO_MARK, Lane, whole_ms
from headrace.event_time.mark_errors import (
    InvalidPartition,
    InvalidTime,
    UnknownPartition,
    UnknownSource,
    UnreadableMarks,
    unknown_source,
)

__all__ = [
    "IDLE_TIMEOUT_MS",
    "InvalidPartition",
    "InvalidTime",
    "MarkRow",
    "Marks",
    "MarksMetrics",
    "UnknownPartition",
    "UnknownSource",
    "UnreadableMarks",
]

IDLE_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class MarksMetrics:
    """Partitions now, and how often the combined watermark advanced and a source was rebalanced."""

    total: int
    active: int
    idle: int
    advances: int
    rebalances: int


@dataclass(frozen=True, slots=True)
class MarkRow:
    """One partition as people see it; `last_heard_ms` is its last arrival, else its registration or the start."""

    source: str
    partition: str
    mark_ms: int | None
    idle: bool
    last_heard_ms: int


class Marks:
    """The marks of all source partitions of one query. Partitions keep the order in which they were given."""

    __slots__ = ("_advances", "_earliest", "_lanes", "_rebalances", "_watermark")

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}  # by source, sorted
        self._watermark: int | None = None
        self._advances = 0
        self._rebalances = 0
        self._earliest = NEVER  # ms, no partition of any source can become idle before

    # The partitions that are known

    def register(
        self,
        source: str,
        partitions: Sequence[str] | int,
        *,
        now: int,
        idle_timeout_ms: int = IDLE_TIMEOUT_MS,
    ) -> None:
        """A new source with these partitions, or with "0" … "n-1"; a timeout of 0 means never idle.

        InvalidPartition for an empty name, a negative number, a second mention or a second registration.
        """
        if source in self._lanes or not source:
            told = f"source {source!r} is registered already" if source else "a source without a name"
            raise InvalidPartition(
                told, hint="add_partition or rebalance changes it" if source else "name it"
            )
        lane = lanes.new_lane(source, partitions, now, idle_timeout_ms)
        self._settle()
        self._lanes = dict(sorted([*self._lanes.items(), (source, lane)]))
        self._earliest = min(self._earliest, lane.earliest)

    def add_partition(self, source: str, partition: str, now: int) -> None:
        """One more partition, at the end; it holds the watermark until it delivers or becomes idle.

        Where a batch brings a new partition, add it before the batch's updates.
        """
        self._regroup(source, (*self._lane(source).names, partition), now)

    def remove_partition(self, source: str, partition: str, now: int) -> None:
        """The partition no longer counts, and those behind it move up by one position."""
        names, at = self.partitions(source), lanes.position(self._lane(source), partition)
        self._regroup(source, names[:at] + names[at + 1 :], now)

    def rebalance(self, source: str, partitions: Sequence[str] | int, now: int) -> None:
        """From now on exactly these partitions, in this order; those that stay keep mark, clock, idleness."""
        self._regroup(source, partitions, now)
        self._rebalances += 1

    # What arrives

    def update(self, source: str, partition: str, event_time_us: int, lateness_us: int, now: int) -> None:
        """A record, or the largest of a batch: the partition is active, and its mark moves on if it can."""
        lane, now = self._lane(source), whole_ms(now, "now")
        at, mark = lanes.position(lane, partition), lanes.mark_ms(event_time_us, lateness_us)
        lane.marks[at] = max(int(lane.marks[at]), mark)
        self._arrive(lane, at, now)

    def update_many(
        self,
        source: str,
        partitions: Sequence[str] | npt.NDArray[Any],
        event_times_us: npt.ArrayLike,
        lateness_us: npt.ArrayLike,
        now: int,
    ) -> None:
        """`update` for many at once: names or int positions, as many event times, one lateness or as many.

        A partition may be there several times. The same tuple of names again is not looked up again.
        """
        lane, now = self._lane(source), whole_ms(now, "now")
        at = lanes.positions(lane, partitions)
        marks = lanes.marks_ms(event_times_us, lateness_us, at.size)
        if at.size:
            lanes.move_marks(lane, at, marks)
            self._arrive(lane, at, now)

    def heard(self, source: str, partitions: Sequence[str] | npt.NDArray[Any], now: int) -> None:
        """Records without a usable event time came: these partitions are active, and no mark moves."""
        lane, now = self._lane(source), whole_ms(now, "now")
        at = lanes.positions(lane, partitions)
        if at.size:
            self._arrive(lane, at, now)

    # Idleness

    def mark_idle(self, source: str, partition: str, now: int) -> None:
        """The partition no longer holds the watermark, until it delivers; its timeout does not matter."""
        lane, _ = self._lane(source), whole_ms(now, "now")
        lane.clock[lanes.position(lane, partition)] = NEVER
        lane.stale = True

    def mark_active(self, source: str, partition: str, now: int) -> None:
        """As if something had arrived that moves no mark."""
        self.heard(source, (partition,), now)

    def find_idle(self, now: int, unread: Collection[tuple[str, str]] = ()) -> tuple[tuple[str, str], ...]:
        """Those that became idle by `now` (now - last >= timeout), as (source, partition); they are marked idle.

        One with known `unread` input is never idle: it is active again if it was idle, its clock as it was.
        Takes no longer for many partitions than for one while none can have become idle.
        """
        if not unread and now < self._earliest:
            return ()
        now = whole_ms(now, "now")
        spared = self._wake(unread) if unread else {}
        gone: list[tuple[str, str]] = []
        for source, lane in self._lanes.items():
            if lane.earliest <= now:
                gone += [(source, name) for name in lanes.fall_idle(lane, now, spared.get(source, ()))]
        self._find_earliest()
        return tuple(gone)

    def restart_idle_clock(self, now: int) -> None:
        """The query starts: silence counts from `now`. What is idle stays idle until it delivers."""
        now = whole_ms(now, "now")
        for lane in self._lanes.values():
            lane.heard[:] = now
            lane.clock[lane.clock != NEVER] = now
            lane.earliest = lanes.deadline(lane, now)
        self._find_earliest()

    # Answers

    def watermark(self) -> int | None:
        """The combined watermark, ms; None until every source has had one."""
        self._settle()
        return self._watermark

    def source_watermark(self, source: str) -> int | None:
        """The watermark of one source, ms; None until it is known."""
        lane = self._lane(source)
        self._settle()
        return lane.watermark

    def mark(self, source: str, partition: str) -> int | None:
        """The mark of one partition, ms; None before its first record."""
        lane = self._lane(source)
        mark = int(lane.marks[lanes.position(lane, partition)])
        return None if mark == NO_MARK else mark

    def is_idle(self, source: str, partition: str) -> bool:
        lane = self._lane(source)
        return bool(lane.clock[lanes.position(lane, partition)] == NEVER)

    def active_count(self) -> int:
        """How many partitions of all sources are active."""
        return sum(int(np.count_nonzero(lane.clock != NEVER)) for lane in self._lanes.values())

    def sources(self) -> tuple[str, ...]:
        return tuple(self._lanes)

    def partitions(self, source: str) -> tuple[str, ...]:
        """Its partitions, each at its position; handing this very tuple to `update_many` needs no look-up."""
        return self._lane(source).names

    def metrics(self) -> MarksMetrics:
        self._settle()
        total, active = sum(len(lane.names) for lane in self._lanes.values()), self.active_count()
        return MarksMetrics(total, active, total - active, self._advances, self._rebalances)

    def rows(self) -> tuple[MarkRow, ...]:
        """All partitions, by source and then in their own order."""
        return tuple(
            MarkRow(lane.source, name, None if mark == NO_MARK else mark, clock == NEVER, heard)
            for lane in self._lanes.values()
            for name, mark, clock, heard in zip(
                lane.names, lane.marks.tolist(), lane.clock.tolist(), lane.heard.tolist(), strict=True
            )
        )

    def to_json(self) -> str:
        """The whole state; equal states have equal texts."""
        self._settle()
        saved = marks_json.Saved(self._lanes, self._watermark, self._advances, self._rebalances)
        return marks_json.write(saved)

    @classmethod
    def from_json(cls, text: str) -> Marks:
        """The tracker that wrote the text; UnreadableMarks."""
        saved, tracker = marks_json.read(text), cls()
        tracker._lanes, tracker._watermark = saved.lanes, saved.watermark
        tracker._advances, tracker._rebalances = saved.advances, saved.rebalances
        tracker._find_earliest()
        return tracker

    # Within

    def _lane(self, source: str) -> Lane:
        lane = self._lanes.get(source)
        if lane is None:
            raise unknown_source(source, self._lanes)
        return lane

    def _arrive(self, lane: Lane, at: lanes.Positions | int, now: int) -> None:
        lanes.arrive(lane, at, now)
        if lane.earliest < self._earliest:
            self._earliest = lane.earliest

    def _find_earliest(self) -> None:
        self._earliest = min([lane.earliest for lane in self._lanes.values()], default=NEVER)

    def _regroup(self, source: str, partitions: Sequence[str] | int, now: int) -> None:
        lane, now = self._lane(source), whole_ms(now, "now")
        names = lanes.partition_names(source, partitions)
        self._settle()
        lanes.regroup(lane, names, now)
        self._earliest = min(self._earliest, lane.earliest)

    def _wake(self, unread: Collection[tuple[str, str]]) -> dict[str, list[int]]:
        """The positions of the unread partitions by source; the idle ones among them are active again."""
        found: dict[str, list[int]] = {}
        for source, partition in unread:
            found.setdefault(source, []).append(lanes.position(self._lane(source), partition))
        for source, at in found.items():
            lanes.wake(self._lanes[source], at)
        return found

    def _settle(self) -> None:
        """Move the watermarks to where the marks allow."""
        if not any(lane.stale for lane in self._lanes.values()):
            return
        for lane in self._lanes.values():
            if lane.stale:
                lanes.settle(lane)
        known = [lane.watermark for lane in self._lanes.values() if lane.watermark is not None]
        if len(known) < len(self._lanes):
            return
        if self._watermark is None or min(known) > self._watermark:
            self._watermark = min(known)
            self._advances += 1
