"""What the batch that runs just now has measured, asked of Spark's own execution from inside `foreachBatch`.

The one place that reaches into the JVM: observed metrics and the operators' counters of
`StreamExecution.lastExecution`, its watermark, and the lock that a trigger holds while it fixes its offsets.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

DROPPED = "numRowsDroppedByWatermark"
HELD = "numTotalStateRows"
Path = tuple[int, ...]


def observed(query: StreamingQuery, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The metrics of the running batch's `observe` of these names; complete once the batch was computed.

    One that the optimizer took away, because its source had nothing new, is left out.
    """
    metrics = _execution(query).observedMetrics()
    return {name: json.loads(metrics.apply(name).json()) for name in names if metrics.contains(name)}


def dropped_rows(query: StreamingQuery, paths: list[Path]) -> int:
    """How many rows the stateful operators of the running batch dropped as late.

    `paths` remembers where those stand in the plan: empty at a query's first batch, filled by it.
    """
    return _counted(query, paths, DROPPED)


def held_rows(query: StreamingQuery, paths: list[Path]) -> int:
    """How many rows the stateful operators hold behind the running batch; `paths` as in `dropped_rows`."""
    return _counted(query, paths, HELD)


def _counted(query: StreamingQuery, paths: list[Path], metric: str) -> int:
    plan = _execution(query).executedPlan()
    if not paths:
        paths += _stateful(plan, ()) or [()]
    metrics = [_at(plan, path).metrics() for path in paths]
    return sum(int(m.apply(metric).value()) for m in metrics if m.contains(metric))


def observers(session: SparkSession, frame: DataFrame) -> int:
    """How many `observe` are left in the frame's plan after Spark's optimizer."""
    return optimized(session, frame).count("CollectMetrics")


def watermark_tracker(query: StreamingQuery) -> Any:
    """Spark's `WatermarkTracker` of the query; None while it has not read its logs."""
    return query._jsq.streamingQuery().watermarkTracker()


def optimized(session: SparkSession, frame: DataFrame) -> str:
    """The frame's plan after Spark's optimizer, printed; a streaming frame has no other way to show it."""
    analyzed = frame._jdf.queryExecution().analyzed()
    return str(session._jsparkSession.sessionState().optimizer().execute(analyzed).toString())


def collapsed(session: SparkSession, frame: DataFrame) -> DataFrame:
    """The same frame with projections that stand on one another made one, for good.

    Spark optimizes a streaming plan anew in every batch, and each projection in it costs a millisecond there.
    """
    jvm = session._jvm
    assert jvm is not None
    spark = jvm.org.apache.spark.sql
    plan = spark.catalyst.optimizer.CollapseProject.apply(frame._jdf.queryExecution().analyzed())
    return DataFrame(spark.classic.Dataset.ofRows(session._jsparkSession, plan), session)


@contextmanager
def between_triggers(queries: list[StreamingQuery]) -> Iterator[None]:
    """While this is held, no trigger of these queries fixes its offsets: several sources change as one."""
    with ExitStack() as held:
        for query in queries:
            lock = query._jsq.streamingQuery().awaitProgressLock()
            lock.lock()
            held.callback(lock.unlock)
        yield


def _execution(query: StreamingQuery) -> Any:
    return query._jsq.streamingQuery().lastExecution()


def _stateful(plan: Any, path: Path) -> list[Path]:
    """The operators that count DROPPED, as the numbers of the children that lead to them."""
    found = [path] if plan.metrics().contains(DROPPED) else []
    children = plan.children()
    for index in range(children.size()):
        child = children.apply(index)
        if child.nodeName() != "MicroBatchScan":
            found += _stateful(child, (*path, index))
    return found


def _at(plan: Any, path: Path) -> Any:
    for index in path:
        plan = plan.children().apply(index)
    return plan
