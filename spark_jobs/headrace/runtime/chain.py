"""The carried-state operators of a result, from its rows to its output, and the plan's rest between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from headrace.runtime.asof import AsOf
from headrace.runtime.carried import CarriedState, Operator, Turn
from headrace.runtime.changelog import Changelog
from headrace.runtime.lower import Inputs, lower
from headrace.runtime.rowswindow import RowsWindows
from headrace.runtime.sessionchanges import SessionChanges
from headrace.sql.nodes import Aggregate, JoinAsOf, Node, Result, RowsWindow, Windowed, walk


@dataclass(slots=True)
class Chain:
    """What stands between a query's native part and its sink. Empty for most results: rows pass through."""

    result: Result
    lookup: Callable[[str], DataFrame]
    inside: CarriedState | None  # stands for `node`
    node: Node | None
    changelog: CarriedState | None

    def __bool__(self) -> bool:
        return self.inside is not None or self.changelog is not None

    @property
    def own_watermark(self) -> bool:
        """Whether the chain itself judges rows and closes windows: no native operator does."""
        return self.inside is not None

    def take(
        self, rows: DataFrame, number: int, watermark_ms: int | None, before_ms: int | None = None
    ) -> Passed:
        """The sink's rows of a batch; nothing is kept yet. `before_ms` was the watermark of the batch before."""
        turns: list[tuple[CarriedState, Turn]] = []
        if self.inside is not None and self.node is not None:
            turns.append((self.inside, self.inside.take(rows, number, watermark_ms, before_ms)))
            above = Inputs(
                _no_scan, self.lookup, upsert=self.result.upsert, done=(self.node, turns[-1][1].output)
            )
            rows = lower(self.result.plan, above)
        if self.changelog is not None:
            turns.append((self.changelog, self.changelog.take(rows, number, watermark_ms, before_ms)))
            rows = turns[-1][1].output
        return Passed(rows, turns, watermark_ms)


@dataclass(frozen=True, slots=True)
class Passed:
    """A batch's rows behind the chain, and what its states become once they are written."""

    rows: DataFrame
    turns: list[tuple[CarriedState, Turn]]
    watermark_ms: int | None

    @property
    def late(self) -> int:
        return sum(turn.late for _, turn in self.turns)

    def keep(self, number: int) -> None:
        """Make the new states durable, once."""
        for state, turn in self.turns:
            state.keep(turn, number, self.watermark_ms)


Carried = Aggregate | RowsWindow | JoinAsOf


def carried_node(result: Result) -> Carried | None:
    """The node of the plan that a carried-state operator computes."""
    for node in walk(result.plan):
        if isinstance(node, RowsWindow | JoinAsOf):
            return node
        if isinstance(node, Aggregate) and result.upsert and _over_sessions(node):
            return node
    return None


def native_part(result: Result) -> Node:
    """The plan below the carried-state operator: what Spark's streaming query computes."""
    match carried_node(result):
        case None:
            return result.plan
        case JoinAsOf() as node:
            return node  # the rows of both sides
        case RowsWindow(input=below) | Aggregate(input=Windowed(input=below)):
            return below
        case Aggregate():
            raise AssertionError("sessions without their window")


def chain_of(result: Result, lookup: Callable[[str], DataFrame], folder: str, generation: int) -> Chain:
    """The chain of a result, its states in `folder`."""

    def state(operator: Operator, name: str) -> CarriedState:
        return CarriedState(operator, f"{folder}/{name}", f"headrace:{result.name}:{generation}:{name}")

    node = carried_node(result)
    inside = state(*_operator(node)) if node is not None else None
    changes = state(Changelog(result, _end_column(result)), "changelog") if result.changelog else None
    return Chain(result, lookup, inside, node, changes)


def _operator(node: Carried) -> tuple[Operator, str]:
    """The operator of a node, and what its state is called."""
    match node:
        case RowsWindow():
            return RowsWindows(node), "rows"
        case JoinAsOf():
            return AsOf(node), "asof"
        case Aggregate():
            return SessionChanges(node), "sessions"


def _over_sessions(node: Aggregate) -> bool:
    return isinstance(node.input, Windowed) and node.input.window.kind == "session"


def _end_column(result: Result) -> str:
    """The result's column that holds its window's end; '' without a window."""
    if not any(isinstance(node, Aggregate) and node.windowed for node in walk(result.plan)):
        return ""
    return next(iter(result.showing("window_end")), "")


def _no_scan(_number: int, stream: str) -> DataFrame:
    raise AssertionError(f"stream {stream} is read above a carried-state operator")
