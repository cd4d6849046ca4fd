"""A pipeline as it runs: all its queries in one session, and the driver's turns between their batches."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from headrace.errors import HeadraceError, Refused
from headrace.runtime import batchlog, execution, fileindex, sources
from headrace.runtime.batch import Setting
from headrace.runtime.fileindex import Entry
from headrace.runtime.handon import HandOn
from headrace.runtime.lake import Lake, bound, check_path
from headrace.runtime.progress import Progress
from headrace.runtime.running import RunningQuery
from headrace.sql.catalog import duration_ms
from headrace.sql.nodes import Pipeline, Stream

DEFAULT_PARTITIONS = 4
Rows = Sequence[Mapping[str, Any]]


def wall_clock() -> int:
    """Processing time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class LivePipeline:
    """One query for each result. Not for two threads at once; batches run in Spark's own threads."""

    def __init__(  # noqa: PLR0913 the optional ones have names
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        lake: Lake,
        *,
        clock: Callable[[], int] = wall_clock,
        on_progress: Callable[[Progress], None] | None = None,
        partitions: int | None = None,
    ) -> None:
        check_path(lake)
        self.pipeline = pipeline = bound(pipeline, lake)
        self.lake = lake
        self.clock = clock
        self._scratch = tempfile.TemporaryDirectory(prefix="headrace-")
        setting = Setting(
            spark=spark,
            pipeline=pipeline,
            lake=lake,
            partitions=partitions or int(pipeline.setting("state.partitions", str(DEFAULT_PARTITIONS))),
            scratch=Path(self._scratch.name),
            clock=clock,
            on_progress=on_progress,
            trigger=f"{duration_ms(pipeline.setting('trigger.interval', '0'))} milliseconds",
        )
        self.queries = [RunningQuery(setting, result) for result in pipeline.results]
        by_name = {query.result.name: query for query in self.queries}
        producers = {s.name: by_name[s.producer] for s in pipeline.streams if s.producer}
        self._readers = [HandOn(query, query.reads(producers)) for query in self.queries]

    # ---- life ----
    def start(self) -> None:
        """Start every query; where one is refused, those that run already are stopped again."""
        self._discover()
        try:
            for query in self.queries:
                query.start()
        except BaseException as error:
            if isinstance(error, HeadraceError) and error.place and not error.text:
                error.text = self.pipeline.text
            self.stop()
            raise

    def pump(self) -> None:
        """One turn of the driver: new files, idle partitions, refreshed tables; raises what a query died of."""
        self._discover()
        for query, reader in zip(self.queries, self._readers, strict=True):
            query.check()
            query.find_idle()
            reader.note()
            reader.pass_on()
            if query.has_new_table_version():
                query.stop()
                query.start()

    def settle(self) -> None:
        """Return when all input that is there is consumed, and the windows that it closes are written."""
        self._discover()
        for query, reader in zip(self.queries, self._readers, strict=True):
            self._settle(query, reader)
        for query in self.queries:
            query.check()

    def _settle(self, query: RunningQuery, reader: HandOn) -> None:
        """Settle a query whose producers are settled: their rows first, then their watermarks."""
        for _ in range(2 if reader.producers else 0):  # what was noted while they ran, and what holds now
            reader.note()
            query.settle()
            reader.pass_on()
        query.settle()

    def flush(self) -> None:
        """The end of the input: settle, close every window by a last watermark, and mark the pipeline as ended.

        A pipeline that was stopped meanwhile has not ended: the next start goes on.
        """
        self.settle()
        for query, reader in zip(self.queries, self._readers, strict=True):
            self._settle(query, reader)
            if query.stopped:
                return
            query.tracking.end()
            query.settle()
        for query in self.queries:
            query.check()
            if query.stopped:
                return
            query.check_flushed()
        for query in self.queries:
            query.checkpoint.end()

    def stop(self) -> None:
        """Stop every query between two of its batches."""
        for query in self.queries:
            query.stop()
        self._scratch.cleanup()

    # ---- facts ----
    @property
    def running(self) -> bool:
        """Whether it was started, and not stopped since."""
        return any(not query.stopped for query in self.queries)

    def watermark(self, result: str = "") -> int | None:
        """A result's watermark in milliseconds; without a name the smallest of those that have one."""
        marks = [q.tracking.watermark() for q in self.queries if not result or q.result.name == result]
        return min((mark for mark in marks if mark is not None), default=None)

    def metrics(self) -> dict[str, int]:
        """The counters of all batches so far, over restarts too."""
        return batchlog.totals(self.lake)

    # ---- a case's input ----
    def deliver(self, rows: Mapping[str, Sequence[tuple[int, Rows]]], now_ms: int | None = None) -> None:
        """Rows for streams without a connector: `{stream: [(partition, rows), …]}`, all in one batch."""
        at = self.clock() if now_ms is None else now_ms
        written = [
            (stream, [self._segment(stream, str(partition), part, at) for partition, part in parts])
            for stream, parts in ((self.pipeline.stream(name), parts) for name, parts in rows.items())
        ]
        running = [query.query for query in self.queries if query.query is not None]
        with execution.between_triggers(running):
            for stream, entries in written:
                fileindex.append(sources.index_file(self.lake, stream), entries)

    def know_partitions(self, stream: str, count: int) -> None:
        """The stream has this many source partitions, whether they have delivered or not."""
        for query in self.queries:
            query.tracking.add(stream, [str(n) for n in range(count)])

    def _segment(self, stream: Stream, partition: str, rows: Rows, at_ms: int) -> Entry:
        """Rows as a file whose number is the offset of its first row."""
        if stream.connector != sources.GIVEN:
            raise Refused(f"stream {stream.name} has a connector: rows can't be given to it")
        known = fileindex.read_index(sources.index_file(self.lake, stream)).get(partition, [])
        first = sum(_lines(entry.path) for entry in known)
        folder = Path(self.lake.files, stream.name, f"partition={partition}")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{first:020d}-{len(known)}.json"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return Entry(partition, first, str(path), at_ms)

    def _discover(self) -> None:
        for stream in self.pipeline.streams:
            if stream.connector == "files":
                named = sources.discover(self.lake, stream)
                for query in self.queries:
                    if query.query is not None:
                        query.tracking.add(stream.name, named)


def _lines(path: str) -> int:
    with open(path, "rb") as file:
        return sum(1 for _ in file)
