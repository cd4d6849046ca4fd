"""The limit on the rows that a join of two streams holds, and what is done where it is passed.

After each batch the join's held rows are counted (Spark's own count of its state). Above the limit `warn` says so once,
`fail` stops the pipeline before the batch is committed, and `block` lets the side that is ahead in event time wait: its
sources see no new input until the join holds fewer rows, or the other side has nothing left to read.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace.errors import Refused
from headrace.runtime.progress import PartitionMark
from headrace.sql.nodes import Buffer, JoinStreams, Node, Result, Scan, Stream, walk

HELD_BY_US = ("", "files", "delta")  # connectors whose sources can be told to wait


@dataclass(slots=True)
class Buffers:
    """The limited join of a query. `sides` are the numbers of the Scans on its left and on its right."""

    join: JoinStreams
    limit: Buffer
    sides: tuple[tuple[int, ...], tuple[int, ...]]
    folder: Path  # of a file for each Scan that waits
    over: bool = False  # as the newest batch left it
    _held: set[int] = field(default_factory=set)

    @property
    def held(self) -> frozenset[int]:
        """The Scans that wait."""
        return frozenset(self._held)

    def clear(self) -> None:
        """Nothing waits; at a start."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self._held.clear()

    def hold_file(self, scan: int) -> str:
        """The file whose presence tells a Scan's source to wait."""
        return str(self.folder / str(scan))

    def after(self, rows: int, streams: Sequence[Stream], marks: Sequence[PartitionMark]) -> str:
        """Judge what a batch left; gives words for people where the limit was passed just now, else ''.

        `streams` are those of the Scans. Raises Refused where the policy is to fail.
        """
        was, self.over = self.over, rows > self.limit.rows
        words = f"the join holds {rows:,} rows, more than 'join.buffer_rows' = {self.limit.rows:,}"
        if self.over and self.limit.policy == "fail":
            hint = "raise the limit, shorten the bound, or 'join.buffer_policy' = 'block'"
            raise Refused(words, hint=hint, place=self.join.place)
        if self.limit.policy == "block":
            ahead = self._ahead(streams, marks) if self.over else ()
            self._wait(ahead)
            if ahead:
                words += (
                    f"; {', '.join(dict.fromkeys(streams[n].name for n in ahead))}, which is ahead, waits"
                )
        return words if self.over and not was else ""

    def release(self, unread: set[int]) -> bool:
        """Let nothing wait for a side that has nothing to read; `unread` are the Scans that have. Gives whether a
        Scan has input that it may take again.
        """
        side = next((side for side in self.sides if self._held & set(side)), ())
        other = self.sides[1] if side == self.sides[0] else self.sides[0]
        if not side or unread & set(other):
            return False
        waited = bool(unread & set(side))
        self._wait(())
        return waited

    def _ahead(self, streams: Sequence[Stream], marks: Sequence[PartitionMark]) -> tuple[int, ...]:
        newest = [
            max((m.mark_ms for m in marks if m.mark_ms is not None and m.source in names), default=None)
            for names in ({streams[n].name for n in side} for side in self.sides)
        ]
        left, right = newest
        if left is None or right is None or left == right:
            return ()
        return self.sides[0] if left > right else self.sides[1]

    def _wait(self, scans: Sequence[int]) -> None:
        for scan in self._held - set(scans):
            Path(self.hold_file(scan)).unlink(missing_ok=True)
        for scan in scans:
            Path(self.hold_file(scan)).touch()
        self._held = set(scans)


def buffers_of(result: Result, streams: Sequence[Stream], folder: Path) -> Buffers | None:
    """The limited join of a result; None where no join has a limit. Raises Refused where a side can't wait."""
    join = next((n for n in walk(result.plan) if isinstance(n, JoinStreams) and n.buffer), None)
    if join is None or join.buffer is None:
        return None
    left = _scans(join.left)
    sides = tuple(range(left)), tuple(range(left, left + _scans(join.right)))
    by_name = {stream.name: stream for stream in streams}
    read = [by_name[node.stream] for node in walk(join) if isinstance(node, Scan)]
    if join.buffer.policy == "block":
        if {read[n].name for n in sides[0]} & {read[n].name for n in sides[1]}:
            hint = "'warn' or 'fail'"
            message = "'join.buffer_policy' = 'block' where a stream joins itself: no side is ahead"
            raise Refused(message, hint=hint, place=join.place)
        others = [stream.name for stream in read if stream.connector not in HELD_BY_US]
        if others:
            hint = (
                "'warn' or 'fail'; or read it through CREATE STREAM … AS SELECT, whose Delta table can wait"
            )
            raise Refused(
                f"'join.buffer_policy' = 'block': the source of {others[0]} can't be told to wait",
                hint=hint,
                place=join.place,
            )
    return Buffers(join, join.buffer, sides, folder)


def _scans(node: Node) -> int:
    return sum(isinstance(one, Scan) for one in walk(node))
