"""What happens in one micro-batch, in order: write, measure, refuse, audit, advance, log, set the watermark, tell.

All of it runs inside Spark's `foreachBatch`, before Spark commits the batch, and each part is idempotent
for it: a batch that is run again changes nothing twice (docs/decisions/0001).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from headrace.errors import Refused
from headrace.runtime import audit, batchlog, execution, observe, sources
from headrace.runtime.batchlog import FLUSHED_MS, BatchRow
from headrace.runtime.buffers import Buffers
from headrace.runtime.chain import Chain
from headrace.runtime.checkpoint import BatchOffsets, Checkpoint
from headrace.runtime.lake import Lake
from headrace.runtime.lookups import Lookups
from headrace.runtime.progress import Progress
from headrace.runtime.sinks import ResultSink
from headrace.runtime.tracking import Tracking
from headrace.runtime.watermark import SparkWatermark
from headrace.sql.nodes import Pipeline, Result, Stream

GENERATION = 0


@dataclass(frozen=True, slots=True)
class Setting:
    """What all queries of a run share."""

    spark: SparkSession
    pipeline: Pipeline
    lake: Lake
    partitions: int
    scratch: Path
    clock: Callable[[], int]
    on_progress: Callable[[Progress], None] | None
    trigger: str


@dataclass(slots=True)
class Scanned:
    """One Scan of the plan: its stream, the partitions it is watched for, and how far it was read."""

    stream: Stream
    name: str  # of its observed metrics
    partitions: list[str]
    consumed: sources.Offset = field(default_factory=dict)


@dataclass(slots=True)
class Loop:
    """What the batches of one started query need; made at its start."""

    setting: Setting
    result: Result
    checkpoint: Checkpoint
    sink: ResultSink
    tracking: Tracking
    watermark: SparkWatermark | None  # None where nothing waits for it
    chain: Chain
    tables: Mapping[str, int]
    lookup: Callable[[str], DataFrame]
    buffers: Buffers | None
    lookups: Lookups
    scans: list[Scanned] = field(default_factory=list)
    stateful: list[execution.Path] = field(default_factory=list)
    watermark_ms: int | None = None  # of the newest batch that is done

    def offset(self, plan: BatchOffsets | None, n: int) -> sources.Offset | None:
        """The offset of the n-th Scan in a batch; the source that wakes comes behind them all."""
        return plan.sources[n] if plan is not None and n < len(plan.sources) else None


@dataclass(frozen=True, slots=True)
class Planned:
    """A batch as the offset log has it. `watermark_ms` judges its rows and closes its windows."""

    number: int
    plan: BatchOffsets
    before: BatchOffsets | None
    watermark_ms: int | None
    before_ms: int | None  # the watermark of the batch before

    @property
    def moved(self) -> bool:
        """Whether the watermark is another than in the batch before."""
        return self.before is None or self.before.watermark_ms != self.plan.watermark_ms


def run_batch(loop: Loop, query: StreamingQuery, rows: DataFrame, number: int) -> None:
    """Take one batch. Raises Refused where a stream's options make its records an error."""
    began = time.monotonic()
    batch = planned(loop, number)
    log = batchlog.opening(loop.setting.lake)
    passed = loop.chain.take(rows, number, batch.watermark_ms, batch.before_ms)
    output = loop.sink.write(passed.rows, number)
    passed.keep(number)
    judged = loop.watermark is not None  # else no operator drops a row
    dropped = passed.late + (execution.dropped_rows(query, loop.stateful) if judged else 0)
    seen = _seen(loop, batch, execution.observed(query, [scan.name for scan in loop.scans]))
    _refuse(loop, batch, seen)
    late = _audit(loop, batch, seen, dropped=dropped > 0)
    _advance(loop, batch, seen)
    note = _buffered(loop, query)
    counts = {
        "input_rows": sum(one.rows for one in seen),
        "late_rows": late,
        "bad_records": sum(one.bad for one in seen),
        "null_event_time_rows": sum(one.missing for one in seen),
        "future_rows": sum(one.future for one in seen),
        "output_rows": output,
    }
    seconds = time.monotonic() - began
    if counts["input_rows"] or batch.moved:
        batchlog.write(log.result(), _log_row(loop, batch, counts, seconds))
    loop.watermark_ms = batch.watermark_ms
    wanted = loop.tracking.wanted()
    if loop.watermark is not None and wanted is not None:
        loop.watermark.set(query, wanted)
    if loop.setting.on_progress is not None:
        loop.setting.on_progress(_progress(loop, number, counts, seconds, note))


def planned(loop: Loop, number: int) -> Planned:
    """The batch in the offset log, where Spark wrote it before it ran."""
    plan = loop.checkpoint.offsets(number)
    if plan is None:
        raise FileNotFoundError(f"the offset log has no batch {number}")
    before = loop.checkpoint.offsets(number - 1)

    def watermark_ms(offsets: BatchOffsets | None) -> int | None:
        return loop.watermark.read(offsets.watermark_ms) if loop.watermark and offsets else None

    return Planned(number, plan, before, watermark_ms(plan), watermark_ms(before))


def input_range(loop: Loop, number: int) -> str:
    """What a batch reads, for error messages."""
    batch = planned(loop, number)
    return "; ".join(
        f"{scan.stream.name} from {json.dumps(loop.offset(batch.before, n))} to {json.dumps(loop.offset(batch.plan, n))}"
        for n, scan in enumerate(loop.scans)
    )


def _seen(loop: Loop, batch: Planned, metrics: Mapping[str, Mapping[str, Any]]) -> list[observe.Seen]:
    """What each Scan saw: as observed, or where that does not tell all, from its input read again."""
    observed = [observe.seen(metrics.get(scan.name, {}), scan.partitions) for scan in loop.scans]
    return [
        one if one is not None else observe.counted(_reread(loop, batch, n), scan.stream, batch.plan.at_ms)
        for n, (scan, one) in enumerate(zip(loop.scans, observed, strict=True))
    ]


def _refuse(loop: Loop, batch: Planned, seen: list[observe.Seen]) -> None:
    ended = loop.checkpoint.ended or batch.watermark_ms == FLUSHED_MS
    for scan, one in zip(loop.scans, seen, strict=True):
        name = scan.stream.name
        if one.missing and scan.stream.option("event-time.on-missing") == "error":
            raise Refused(
                f"stream {name}: {one.missing} records have no event time",
                hint="'event-time.on-missing' = 'skip' sends them to the rejected table",
            )
        if one.bad and scan.stream.option("on-bad-record") == "error":
            raise Refused(
                f"stream {name}: {one.bad} bad records",
                hint="'on-bad-record' = 'reject' sends them to the rejected table",
            )
        if one.rows and ended:
            raise Refused(
                f"{loop.result.name} was flushed: its windows are closed, and {one.rows} new rows came after that",
                hint="start it in another lake to read everything again",
            )


def _audit(loop: Loop, batch: Planned, seen: list[observe.Seen], *, dropped: bool) -> int:
    """Write the batch's rejected records; gives how many of them were late."""
    skipped = any(
        one.missing and scan.stream.option("event-time.on-missing") != "wall-clock"
        for one, scan in zip(seen, loop.scans, strict=True)
    )
    what = audit.Rejection(
        loop.result.name,
        GENERATION,
        batch.number,
        batch.watermark_ms if dropped else None,
        skipped or any(one.bad for one in seen),
    )
    if what.watermark_ms is None and not what.unusable:
        return 0
    ranges = [(scan.stream, _reread(loop, batch, n)) for n, scan in enumerate(loop.scans)]
    found = audit.rejected_rows(loop.result, ranges, loop.lookup, what)
    audit.write(loop.setting.lake, found, what)
    return list(found.column("reason").to_pylist()).count("late")


def _advance(loop: Loop, batch: Planned, seen: list[observe.Seen]) -> None:
    """Move the marks. Only then is the input no longer unread: a partition that delivered it must not be
    found idle before.
    """
    arrived = [
        (scan.stream, one.maxima)
        for scan, one in zip(loop.scans, seen, strict=True)
        if scan.stream.watermark is not None and one.rows
    ]
    loop.tracking.advance(arrived)
    for n, scan in enumerate(loop.scans):
        scan.consumed = loop.offset(batch.plan, n) or scan.consumed


def _reread(loop: Loop, batch: Planned, n: int) -> DataFrame:
    start, end = loop.offset(batch.before, n), loop.offset(batch.plan, n)
    return sources.read_range(loop.setting.spark, loop.setting.lake, loop.scans[n].stream, start, end or {})


def _log_row(loop: Loop, batch: Planned, counts: dict[str, int], seconds: float) -> BatchRow:
    ranges = {
        name: {"start": loop.offset(batch.before, n), "end": loop.offset(batch.plan, n)}
        for n, name in enumerate(range_names([scan.stream.name for scan in loop.scans]))
    }
    return BatchRow(
        query=loop.result.name,
        generation=GENERATION,
        batch=batch.number,
        at_ms=loop.setting.clock(),
        watermark_ms=batch.watermark_ms,
        offsets=json.dumps(ranges),
        tables=json.dumps(dict(loop.tables)),
        marks=loop.tracking.to_json(),
        counts=counts,
        seconds=seconds,
    )


def range_names(streams: list[str]) -> list[str]:
    """The names of the Scans' ranges in the log: the stream's; the second Scan of one stream is `name#2`."""
    counts = [streams[: n + 1].count(stream) for n, stream in enumerate(streams)]
    return [stream if k == 1 else f"{stream}#{k}" for stream, k in zip(streams, counts, strict=True)]


def _buffered(loop: Loop, query: StreamingQuery) -> str:
    """Judge what a join with a limit holds; gives words for people. Raises Refused where it is to fail."""
    if loop.buffers is None:
        return ""
    rows = execution.held_rows(query, loop.stateful)
    return loop.buffers.after(rows, [scan.stream for scan in loop.scans], loop.tracking.told())


def _progress(loop: Loop, number: int, counts: dict[str, int], seconds: float, note: str) -> Progress:
    return Progress(
        query=loop.result.name,
        batch=number,
        input_rows=counts["input_rows"],
        output_rows=counts["output_rows"],
        seconds=seconds,
        watermark_ms=loop.tracking.watermark(),
        marks=loop.tracking.told(),
        note=note,
    )
