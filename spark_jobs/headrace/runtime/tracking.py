"""A query's event time while it runs: its tracker, and the watermark that it wants Spark to have.

The batch thread moves the marks, the driver's thread looks for idle partitions; one lock keeps both in order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping

from headrace.event_time.marks import IDLE_TIMEOUT_MS, Marks
from headrace.runtime import observe
from headrace.runtime.batchlog import FLUSHED_MS
from headrace.runtime.progress import PartitionMark
from headrace.sql.catalog import duration_ms
from headrace.sql.nodes import Stream


class Tracking:
    """The marks of one query."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.marks = Marks()
        self.ended = False  # the input has ended: every window may close
        self._lock = threading.RLock()

    def restore(self, saved: str, known: Iterable[tuple[Stream, list[str]]]) -> None:
        """Begin where the newest batch left off: `saved` marks ('' = none).

        The partitions of `known` are added, and the idle clock starts anew.
        """
        now = self.clock()
        with self._lock:
            self.marks = Marks.from_json(saved) if saved else Marks()
            for stream, partitions in known:
                if stream.watermark is None and not stream.producer:
                    continue
                if stream.name not in self.marks.sources():
                    timeout = stream.option("watermark.idle-timeout")
                    idle_ms = duration_ms(timeout) if timeout else IDLE_TIMEOUT_MS
                    self.marks.register(stream.name, partitions, now=now, idle_timeout_ms=idle_ms)
                self.add(stream.name, partitions)
            self.marks.restart_idle_clock(now)

    def advance(self, arrived: Iterable[tuple[Stream, Mapping[str, int | None]]]) -> None:
        """What a batch brought: for each stream the largest usable event time (µs, or None) by partition."""
        with self._lock:
            now = self.clock()
            for stream, maxima in arrived:
                if stream.watermark is not None and not stream.producer and maxima:
                    observe.advance(self.marks, stream, maxima, stream.watermark.lateness, now)

    def hand_on(self, stream: Stream, watermark_ms: int) -> None:
        """The watermark of the result stream that this one reads on from, in milliseconds."""
        with self._lock:
            for partition in self.marks.partitions(stream.name):
                self.marks.update(stream.name, partition, watermark_ms * 1000, 0, self.clock())

    def add(self, stream: str, partitions: Iterable[str]) -> None:
        """Make partitions known that have not delivered yet."""
        with self._lock:
            if stream in self.marks.sources():
                for partition in sorted(set(partitions) - set(self.marks.partitions(stream))):
                    self.marks.add_partition(stream, partition, self.clock())

    def find_idle(self, unread: Collection[tuple[str, str]]) -> None:
        """Mark the partitions that were silent too long; those with unread input are not idle."""
        with self._lock:
            sources = self.marks.sources()
            known = {(s, p) for s, p in unread if s in sources and p in self.marks.partitions(s)}
            self.marks.find_idle(self.clock(), known)

    def watermark(self) -> int | None:
        """The combined watermark in milliseconds; None while there is none."""
        with self._lock:
            return self.marks.watermark() if self.marks.sources() else None

    def end(self) -> None:
        """The input has ended: the last watermark, which closes every window, is wanted."""
        self.ended = True

    def wanted(self) -> int | None:
        """The watermark that Spark is to have, in milliseconds; None while there is none."""
        return FLUSHED_MS if self.ended else self.watermark()

    def to_json(self) -> str:
        with self._lock:
            return self.marks.to_json()

    def told(self) -> tuple[PartitionMark, ...]:
        """Every partition's mark, and how far the newest of its stream is ahead."""
        with self._lock:
            rows = self.marks.rows()
        newest: dict[str, int] = {}
        for row in rows:
            if row.mark_ms is not None:
                newest[row.source] = max(row.mark_ms, newest.get(row.source, row.mark_ms))
        return tuple(
            PartitionMark(
                row.source,
                row.partition,
                row.mark_ms,
                None if row.mark_ms is None else newest[row.source] - row.mark_ms,
                row.idle,
            )
            for row in rows
        )
