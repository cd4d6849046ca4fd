"""What a running query tells about each of its batches: plain frozen values, for views and records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionMark:
    """A source partition: its mark (ms since 1970, None before its first row), how far the stream's newest
    mark is ahead of it (ms), and whether it is idle.
    """

    source: str
    partition: str
    mark_ms: int | None
    lag_ms: int | None
    idle: bool


@dataclass(frozen=True, slots=True)
class Progress:
    """One batch of one query. `state_rows` counts the keys of each hash partition, where it is known; `note` is
    something that people should see at once.
    """

    query: str
    batch: int
    input_rows: int
    output_rows: int
    seconds: float
    watermark_ms: int | None
    marks: tuple[PartitionMark, ...] = ()
    state_rows: tuple[int, ...] = ()
    note: str = ""

    @property
    def rows_per_second(self) -> float:
        return self.input_rows / self.seconds if self.seconds else 0.0
