"""One result as a running Spark query: checked, pinned, started, looked after, stopped between two batches."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from headrace.errors import HeadraceError, Refused
from headrace.runtime import audit, batchlog, execution, hotkeys, observe, records, sources, tables
from headrace.runtime.batch import GENERATION, Loop, Scanned, Setting, input_range, run_batch
from headrace.runtime.buffers import buffers_of
from headrace.runtime.chain import chain_of, native_part
from headrace.runtime.checkpoint import Checkpoint
from headrace.runtime.faults import fault_of
from headrace.runtime.heat import Look
from headrace.runtime.lookups import lookups_of
from headrace.runtime.lower import Inputs, closes_strictly, lower, waits_for_watermark, wakes_spark
from headrace.runtime.session import own_session
from headrace.runtime.sinks import sink_of
from headrace.runtime.tracking import Tracking
from headrace.runtime.watermark import SparkWatermark
from headrace.runtime.ways import limits_of
from headrace.sql.nodes import Lookup, Result, Scan, walk
from headrace.sql.skew import HotKey, salt_of, salted_node

STARTED_WITHIN_S = 60.0
ANSWERS_WITHIN_S = 15.0  # a source, or it is one that may take long, such as a broker out of reach
STARTS = 3  # of a query whose sources did not answer in time
TOO_SLOW = "Python worker failed to connect back"
STOP_POLL_S = 0.005  # shorter than a commit, so that one is always met
EXPECTED = ("0", "1", "2", "3")  # partitions that a case's stream is watched for from the start


class RunningQuery:
    """The query of one result. The driver's thread calls everything but `on_batch`."""

    def __init__(self, setting: Setting, result: Result) -> None:
        self.setting = setting
        self.result = result
        self.waits = waits_for_watermark(result.plan)
        self.checkpoint = Checkpoint.at(Path(setting.lake.checkpoint(result.name)))
        self.tracking = Tracking(setting.clock)
        self.query: StreamingQuery | None = None
        self.failure: HeadraceError | None = None
        self.loop: Loop | None = None
        self._stopping = False
        self._started = threading.Event()

    # ---- start ----
    def start(self) -> None:
        """Check, pin, restore the marks and start Spark's query; raises Refused before anything runs."""
        self.checkpoint.same_query(self.result, self.setting.partitions)
        self._stopping, self.failure = False, None
        self._started.clear()
        session = self._session()
        self.loop = self._loop(session, self._pin(session))
        hot = hotkeys.at_start(self.result, self.checkpoint, self._look(session, self.loop))
        frame = self._frame(session, self.loop, hot)
        self._note_tables(self.loop)
        self.loop.sink.prepare(self._output_schema(frame, self.loop))
        batchlog.prepare(self.setting.lake)
        audit.prepare(self.setting.lake)
        self._restore(self.loop)
        if self.loop.buffers is not None:
            self.loop.buffers.clear()
        if self.loop.watermark is not None:
            frame = self.loop.watermark.with_wakes(session, frame)
        writer = frame.writeStream.foreachBatch(self.on_batch).queryName(self.result.name)
        mode = "update" if self.result.upsert and not self.loop.chain.own_watermark else "append"
        writer = writer.outputMode(mode).option("checkpointLocation", self.checkpoint.spark)
        for _ in range(STARTS):
            self.query = writer.trigger(processingTime=self.setting.trigger).start()
            self._started.set()
            if self._has_sources(self.query):
                break

    def _has_sources(self, query: StreamingQuery) -> bool:
        """Wait until the query's sources have answered for the first time, or it has died; false where it died of
        one that was too slow.

        Each source of ours is a Python process that must answer within ten seconds; those of many queries that
        start at once on few cores do not, nor does a single one on a machine that is busy enough.
        """
        until = time.monotonic() + ANSWERS_WITHIN_S
        while query.isActive and time.monotonic() < until:
            if not str(query.status["message"]).startswith(("Initializing", "Getting offsets")):
                return True
            time.sleep(STOP_POLL_S)
        error = None if query.isActive else query.exception()
        return error is None or TOO_SLOW not in str(error)

    def spark_plan(self) -> str:
        """How its reference tables are joined, and Spark's optimized plan of the query; nothing is started."""
        session = self._session()
        loop = self._loop(session, {name: self._version(session, name) for name in self._tables()})
        salted = salted_node(self.result.plan, salt_of(self.setting.pipeline)) is not None
        hot = self.checkpoint.hot() or (() if salted else None)
        plan = execution.optimized(session, self._frame(session, loop, hot))
        ways = [joined.render(name) for name, joined in loop.lookups.joined().items()]
        return "\n".join([*ways, plan])

    def look(self) -> Look:
        """Where its input can be looked at; nothing is started."""
        session = self._session()
        loop = self._loop(session, {name: self._version(session, name) for name in self._tables()})
        return self._look(session, loop)

    def _look(self, session: SparkSession, loop: Loop) -> Look:
        setting = self.setting
        return Look(session, setting.pipeline, setting.lake, loop.lookup, setting.partitions)

    def _session(self) -> SparkSession:
        session = own_session(self.setting.spark)
        session.conf.set("spark.sql.shuffle.partitions", str(self.setting.partitions))
        return session

    def _loop(self, session: SparkSession, versions: dict[str, int]) -> Loop:
        """All that the batches will need; the table versions also become views, for sub-queries."""
        lake, pipeline = self.setting.lake, self.setting.pipeline
        limits = limits_of(pipeline)
        frames = {
            name: tables.read_version(session, lake, pipeline.table(name), version, small=limits.broadcast)
            for name, version in versions.items()
        }
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        chain = chain_of(self.result, frames.__getitem__, self.checkpoint.carried, GENERATION)
        native, wakes = native_part(self.result), self.checkpoint.wakes
        return Loop(
            setting=self.setting,
            result=self.result,
            checkpoint=self.checkpoint,
            sink=sink_of(pipeline, self.result, lake, GENERATION),
            tracking=self.tracking,
            watermark=SparkWatermark(wakes, strict=closes_strictly(native), asleep=not wakes_spark(native))
            if self.waits
            else None,
            chain=chain,
            tables=versions,
            lookup=frames.__getitem__,
            buffers=buffers_of(self.result, pipeline.streams, self.checkpoint.holds),
            lookups=lookups_of(session.sparkContext, pipeline, lake, versions),
        )

    def _output_schema(self, frame: DataFrame, loop: Loop) -> StructType:
        """The columns of the result: what no rows at all give behind the chain."""
        if not loop.chain:
            return frame.schema
        nothing = frame.sparkSession.createDataFrame([], frame.schema)
        plain = chain_of(self.result, loop.lookup, str(self.setting.scratch / "nothing"), GENERATION)
        return plain.take(nothing, 0, None).rows.schema

    def _frame(self, session: SparkSession, loop: Loop, hot: tuple[HotKey, ...] | None = None) -> DataFrame:
        inputs = Inputs(
            scan=lambda n, stream: self._scan(session, loop, n, stream),
            lookup=loop.lookup,
            upsert=self.result.upsert,
            look_up=loop.lookups.join,
            hot=hot,
        )
        frame = lower(native_part(self.result), inputs)
        if self.waits and execution.observers(session, frame) < len(loop.scans):
            raise Refused(
                f"{self.result.name}: Spark optimized its input away, so no window would ever close",
                hint="a condition that is never true, such as WHERE false, does this",
                place=self.result.place,
                text=self.setting.pipeline.text,
            )
        return frame

    def _scan(self, session: SparkSession, loop: Loop, n: int, name: str) -> DataFrame:
        stream = self.setting.pipeline.stream(name)
        known = sources.known_partitions(self.setting.lake, stream)
        watched = sorted({*known, *EXPECTED}) if stream.connector == sources.GIVEN else known
        loop.scans.append(Scanned(stream, f"scan{n}_{name}", watched))
        hold = loop.buffers.hold_file(n) if loop.buffers is not None else ""
        rows = sources.read_stream(session, self.setting.lake, stream, hold).drop("__raw", "__position")
        rows = rows if sources.can_be_bad(stream) else rows.drop("__bad")
        rows = execution.collapsed(session, rows)
        rows = observe.observing(rows, stream, loop.scans[n].name, watched)
        return audit.usable(rows, stream).drop("__bad", records.OWN_TIME)

    def _pin(self, session: SparkSession) -> dict[str, int]:
        """Fix the table versions for the batches to come; a batch that was planned keeps those it had."""
        committed = self.checkpoint.committed()
        following = 0 if committed is None else committed + 1
        before = self.checkpoint.pins(following)
        if self.checkpoint.planned() == following and before is not None:
            return before
        newest = {name: self._version(session, name) for name in self._tables()}
        if newest != before:
            self.checkpoint.pin(following, newest)
        return newest

    def _tables(self) -> list[str]:
        """The reference tables that the result reads, in joins or in sub-queries of its text."""
        joined = {node.table for node in walk(self.result.plan) if isinstance(node, Lookup)}
        text = repr(self.result.plan).lower()
        named = {table.name for table in self.setting.pipeline.tables if table.name.lower() in text}
        return sorted(joined | named)

    def _version(self, session: SparkSession, name: str) -> int:
        table = self.setting.pipeline.table(name)
        newest = tables.newest_version(self.setting.lake, table)
        return tables.load_declared(session, self.setting.lake, table) if newest is None else newest

    def _note_tables(self, loop: Loop) -> None:
        """What `headrace status` tells of the query's reference tables."""
        self.checkpoint.note_tables(loop.lookups.told())

    def _restore(self, loop: Loop) -> None:
        """The marks as the newest batch left them; the input of the newest commit: a planned batch is unread."""
        log = batchlog.read(self.setting.lake, self.result.name)
        saved = log.column("marks")[-1].as_py() if log.num_rows else ""
        loop.watermark_ms = log.column("watermark_ms")[-1].as_py() if log.num_rows else None
        if loop.watermark is not None:
            loop.watermark.asked_ms = loop.watermark_ms
        number = self.checkpoint.committed()
        plan = None if number is None else self.checkpoint.offsets(number)
        for n, scan in enumerate(loop.scans):
            scan.consumed = loop.offset(plan, n) or {}
        known = [
            (scan.stream, sources.known_partitions(self.setting.lake, scan.stream)) for scan in loop.scans
        ]
        self.tracking.restore(saved, known)

    # ---- batches ----
    def on_batch(self, rows: DataFrame, number: int) -> None:
        """Spark's callback; an error is kept, so that the driver can raise it as it was."""
        self._started.wait(STARTED_WITHIN_S)
        assert self.query is not None
        assert self.loop is not None
        try:
            self.loop.lookups.prepare()
            run_batch(self.loop, self.query, rows, number)
            if self.loop.lookups.note():
                self._note_tables(self.loop)
        except HeadraceError as error:
            self.failure = error
            raise
        except (PySparkException, Py4JJavaError) as error:  # `toArrow` raises the second
            self.failure = fault_of(error, self.result, number, input_range(self.loop, number))
            raise

    # ---- the driver's turns ----
    @property
    def stopped(self) -> bool:
        """Whether it is not running, or is being stopped just now."""
        return self._stopping or self.query is None

    def find_idle(self) -> None:
        """Mark the partitions that were silent too long; those with unread input are not."""
        self.tracking.find_idle(self._unread())
        self.release()
        self.wake()

    def wake(self) -> bool:
        """Have a batch run where the watermark moved without one; gives whether it did."""
        wanted = self.tracking.wanted()
        if self.loop is None or self.loop.watermark is None or wanted is None:
            return False
        return self.loop.watermark.wake(wanted)

    def release(self) -> bool:
        """Let no side of a join wait for one that has nothing to read; gives whether there is input to take again."""
        buffers, scans = (self.loop.buffers, self.loop.scans) if self.loop is not None else (None, [])
        if buffers is None or not buffers.held:
            return False
        return buffers.release(
            {n for n, one in enumerate(scans) if sources.unread(self.setting.lake, one.stream, one.consumed)}
        )

    def _unread(self) -> set[tuple[str, str]]:
        return {
            (scan.stream.name, partition)
            for scan in (self.loop.scans if self.loop else [])
            if scan.stream.watermark is not None
            for partition in sources.unread(self.setting.lake, scan.stream, scan.consumed)
        }

    def reads(self, producers: dict[str, RunningQuery]) -> dict[str, RunningQuery]:
        """Those of the producers, by stream, whose streams this query reads."""
        read = {node.stream for node in walk(self.result.plan) if isinstance(node, Scan)}
        return {name: producer for name, producer in producers.items() if name in read}

    def closed_ms(self) -> int | None:
        """The watermark (ms) up to which all is written that there is to write; None while there is none."""
        if not self.waits:
            return self.tracking.watermark()
        return self.loop.watermark_ms if self.loop else None

    def has_new_table_version(self) -> bool:
        """Whether a reference table was refreshed since the pin."""
        lake, pipeline = self.setting.lake, self.setting.pipeline
        pinned = self.loop.tables if self.loop else {}
        return any(tables.newest_version(lake, pipeline.table(name)) != v for name, v in pinned.items())

    def check(self) -> None:
        """Raise what the query died of, if it did."""
        if self.failure is not None:
            raise self.failure
        if self.query is not None and not self.query.isActive and not self._stopping:
            error = self.query.exception()
            if error is not None:
                raise fault_of(error, self.result, None, "")

    def check_flushed(self) -> None:
        """Raise where the last watermark did not come through."""
        if self.waits and self.closed_ms() != batchlog.FLUSHED_MS:
            raise HeadraceError(f"{self.result.name}: the end of the input did not close its windows")

    def settle(self) -> None:
        """Wait until all input that is there was taken, and every watermark that it moved."""
        query = self.query  # which another thread may stop meanwhile
        if query is None:
            return
        try:
            query.processAllAvailable()
            while self.release() or self.wake():
                query.processAllAvailable()
        except PySparkException as error:
            raise self.failure or fault_of(error, self.result, None, "") from error

    def stop(self) -> None:
        """Stop between two batches: the batch that runs is finished and committed."""
        if self.query is None:
            return
        self._stopping = True
        query, ending = self.query, threading.Thread(target=self.query.stop)
        while query.isActive and not self._end_between_batches(query, ending):
            time.sleep(STOP_POLL_S)
        if ending.ident is None:  # it died by itself
            ending.start()
        ending.join()
        self.query = None

    def _end_between_batches(self, query: StreamingQuery, ending: threading.Thread) -> bool:
        """Begin to end the query if no batch is under way. The lock can't be held until one is done:
        a batch needs it for its commit.
        """
        with execution.between_triggers([query]):
            if self.checkpoint.planned() != self.checkpoint.committed():
                return False
            ending.start()
            ending.join(timeout=0.1)  # it ends once the lock is free; until then no batch can begin
        return True
