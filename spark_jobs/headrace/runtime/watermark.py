"""Spark's own watermark, moved by the tracker and by nothing else (docs/decisions/0005).

A query has no `withWatermark`. A batch sets what the next one shall have; Spark writes it with the batch's
commit and in the next one's entry of the offset log, so it is durable, and the same in a replay.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from headrace.event_time.interval import DAY_US
from headrace.runtime import execution

SHIFT_US = 800_000 * DAY_US  # whole days, more than there are between year 1 and 1970
SHIFT_MS = SHIFT_US // 1000
STRICT_MS = 1  # a strict query's watermark is set so much lower: what equals it is not behind it


class SparkWatermark:
    """The watermark of one query: milliseconds since 1970 outside, shifted and lowered inside Spark.

    `strict`: a native operator closes only what is strictly behind it. `asleep`: there is no native operator
    for which Spark would run a batch when the watermark alone has moved. `asked_ms`: what was set, or woken for.
    """

    def __init__(self, wakes: Path, *, strict: bool, asleep: bool) -> None:
        self.asked_ms: int | None = None
        self._wakes = wakes
        self._shift_ms = SHIFT_MS - (STRICT_MS if strict else 0)
        self._asleep = asleep
        self._lock = threading.Lock()

    def with_wakes(self, session: SparkSession, frame: DataFrame) -> DataFrame:
        """The frame with one more source, behind the others, that has no rows: its news make Spark run a batch.

        The optimizer removes its branch from the plan; the source is asked all the same.
        """
        self._wakes.mkdir(parents=True, exist_ok=True)
        nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in frame.schema.fields]
        source = session.readStream.text(str(self._wakes)).where("false")
        return frame.unionAll(source.select(*nothing))

    def set(self, query: StreamingQuery, watermark_ms: int) -> None:
        """From inside a batch: the next one has this watermark, unless Spark's is ahead."""
        tracker, shifted = execution.watermark_tracker(query), watermark_ms + self._shift_ms
        if tracker.currentWatermark() < shifted:
            tracker.setWatermark(shifted)
            with self._lock:
                self._ask(watermark_ms)
                if self._asleep:
                    self._wake()

    def wake(self, watermark_ms: int) -> bool:
        """From between the batches: have one run, which sets this watermark; gives whether that is news.

        Spark's own can't be set here: it has worked out already what its next batch would have.
        """
        with self._lock:
            news = self._ask(watermark_ms)
            if news:
                self._wake()
        return news

    def read(self, logged_ms: int) -> int | None:
        """A watermark of Spark's logs; None while there is none."""
        return None if logged_ms == 0 else logged_ms - self._shift_ms

    def _ask(self, watermark_ms: int) -> bool:
        """Raise what was asked for; gives whether it rose."""
        news = self.asked_ms is None or self.asked_ms < watermark_ms
        if news:
            self.asked_ms = watermark_ms
        return news

    def _wake(self) -> None:
        for old in self._wakes.iterdir():
            old.unlink()
        (self._wakes / str(time.time_ns())).touch()


def strictly_behind(micros: Column, watermark_ms: int | None) -> Column:
    """Whether a time (µs) is behind the watermark by at least a millisecond; false without one."""
    return F.lit(False) if watermark_ms is None else micros <= _last_behind(watermark_ms)


def passed_by(time: Column, watermark_ms: int | None) -> Column:
    """`strictly_behind` of a timestamp, in a form that a file's statistics can answer."""
    return F.lit(False) if watermark_ms is None else time <= F.timestamp_micros(_last_behind(watermark_ms))


def _last_behind(watermark_ms: int) -> Column:
    """The last time (µs) that is strictly behind the watermark."""
    return F.lit((watermark_ms - STRICT_MS) * 1000)
