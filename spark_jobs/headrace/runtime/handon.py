"""What follows a result stream: its rows through its Delta table, and the watermark that its producer hands on.

The producer's watermark holds for the reader once the reader has taken all that the producer had written by
then. So a pair is noted, the watermark first and then the table's version, and handed on later.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.runtime.deltarange import newest_version
from headrace.runtime.running import RunningQuery
from headrace.sql.nodes import JoinAsOf, JoinStreams, RowsWindow, Stream, Windowed, walk

MONTH_MS = 31 * 86_400_000


@dataclass(frozen=True, slots=True)
class Noted:
    """A watermark (ms) that holds behind a version of the stream's table."""

    stream: Stream
    watermark_ms: int
    version: int


@dataclass(slots=True)
class HandOn:
    """The watermarks of one reader; `producers` are those of its streams that read on, by stream."""

    reader: RunningQuery
    producers: dict[str, RunningQuery]
    waiting: dict[str, Noted] = field(default_factory=dict)

    def note(self) -> None:
        """Note where the producers are, those whose last note was handed on."""
        for scan in self.reader.loop.scans if self.reader.loop else ():
            producer = self.producers.get(scan.stream.name)
            if producer is None or scan.stream.name in self.waiting:
                continue
            watermark_ms = producer.closed_ms()
            if watermark_ms is not None:
                version = newest_version(scan.stream.option("path"))
                self.waiting[scan.stream.name] = Noted(scan.stream, watermark_ms, version)

    def pass_on(self) -> None:
        """Hand on what was noted, as far as the reader has come."""
        for scan in self.reader.loop.scans if self.reader.loop else ():
            noted = self.waiting.get(scan.stream.name)
            if noted is not None and int(scan.consumed.get("version", -1)) >= noted.version:
                del self.waiting[scan.stream.name]
                self.reader.tracking.hand_on(
                    noted.stream, noted.watermark_ms - self._held_back_ms(noted.stream)
                )

    def _held_back_ms(self, stream: Stream) -> int:
        nodes = list(walk(self.reader.result.plan))
        spans = [node.window.held_back for node in nodes if isinstance(node, Windowed)]
        if any(isinstance(node, JoinStreams | JoinAsOf | RowsWindow) for node in nodes):
            spans.append(stream.waited)  # they judge each row by its own time
        return max((span.micros // 1000 + span.months * MONTH_MS for span in spans), default=0)
