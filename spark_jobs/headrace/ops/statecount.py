"""How many rows of state each hash partition of a running query holds, told by Spark's task-end events.

A stateful operator's task reports the rows of its own partition ("number of total state rows"), and the task's
index is the partition's number. Spark sums them up before it shows them, so they are picked up here on their
way: a SparkListener, whose events come after the fact and on a thread of their own, so no batch waits for it.

Rules: a count is what was heard so far, for a view and not for a check. Several stateful operators of
one query are added up, partition by partition. Nothing here may raise into Spark's listener bus.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

# A task's accumulators as text: AccumulableInfo(17,Some(number of total state rows),Some(120),…)
STATE_ROWS = re.compile(r"AccumulableInfo\((\d+),Some\(number of total state rows\),Some\((\d+)\)")
STATEFUL = (
    "Some(time to commit changes)"  # every stateful task has it; a count of 0 rows is left out by Spark
)
# A streaming job's description, four lines: the query's name, id = …, runId = …, batch = 7
BATCH = re.compile(r"(?P<query>[^\n]+)\nid = [^\n]+\nrunId = [^\n]+\nbatch = (?P<batch>\d+)")
NO_OPERATOR = -1
KEPT = 1_000  # stages, and batches of a query


class StateCounter:
    """State rows by query, batch and hash partition; safe from any thread. `counting` feeds it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batch_of: dict[int, tuple[str, int]] = {}  # by stage
        self._counts: dict[
            str, dict[int, dict[tuple[int, int], int]]
        ] = {}  # query, batch, (operator, partition)
        self._width: dict[str, int] = {}  # partitions ever heard of

    def rows(self, query: str, batch: int | None = None) -> tuple[int, ...]:
        """The rows of partitions 0, 1, … after a batch, the newest by default; () where nothing was heard."""
        with self._lock:
            batches = self._counts.get(query, {})
            counts = batches.get(max(batches, default=0) if batch is None else batch)
            if counts is None:
                return ()
            return tuple(
                sum(rows for (_, at), rows in counts.items() if at == index)
                for index in range(self._width[query])
            )

    def job_started(self, description: str, stages: list[int]) -> None:
        """A job began that will run these stages; one that is no batch of a named query is passed over."""
        named = BATCH.match(description)
        if named is None:
            return
        with self._lock:
            self._batch_of |= dict.fromkeys(stages, (named["query"], int(named["batch"])))
            _keep_newest(self._batch_of)

    def task_ended(self, stage: int, partition: int, accumulators: str) -> None:
        """A task of a stage ended, with the text of its accumulators."""
        found = STATE_ROWS.findall(accumulators)
        with self._lock:
            if stage not in self._batch_of or not (found or STATEFUL in accumulators):
                return
            query, batch = self._batch_of[stage]
            batches = self._counts.setdefault(query, {})
            counts = batches.setdefault(batch, {})
            _keep_newest(batches)
            self._width[query] = max(self._width.get(query, 0), partition + 1)
            counts.setdefault((NO_OPERATOR, partition), 0)
            counts.update({(int(operator), partition): int(rows) for operator, rows in found})


def _keep_newest(by_number: dict[int, Any]) -> None:
    for number in sorted(by_number)[:-KEPT]:
        del by_number[number]


@contextmanager
def counting(spark: SparkSession) -> Iterator[StateCounter]:
    """A counter that hears of every task of this session's context until the block ends."""
    counter = StateCounter()
    context = spark.sparkContext
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
    held = context._jvm.java.util.ArrayList()  # type: ignore[union-attr]
    held.add(_Listener(counter))  # each passing of the Python object would make another Java listener
    java = context._jsc.sc()
    java.addSparkListener(held.get(0))
    try:
        yield counter
    finally:
        java.removeSparkListener(held.get(0))


class _Listener:
    """What Spark's listener bus calls: any method of SparkListenerInterface, of which two matter."""

    def __init__(self, counter: StateCounter) -> None:
        self._counter = counter

    def onJobStart(self, event: Any) -> None:
        properties = event.properties()
        description = properties.getProperty("spark.job.description") if properties is not None else None
        stages = event.stageIds()
        self._counter.job_started(description or "", [int(stages.apply(i)) for i in range(stages.size())])

    def onTaskEnd(self, event: Any) -> None:
        info = event.taskInfo()
        self._counter.task_ended(int(event.stageId()), int(info.index()), info.accumulables().toString())

    def __getattr__(self, name: str) -> Callable[[Any], None]:
        if name.startswith("on"):
            return lambda event: None
        raise AttributeError(name)

    class Java:
        """Read by py4j."""

        implements: ClassVar = ["org.apache.spark.scheduler.SparkListenerInterface"]
