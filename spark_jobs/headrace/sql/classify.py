"""How a plan is cut over partitions: its kinds, and the partitioning of every edge with the reason.

Partitioning is told in words that `headrace explain` prints; N stands for `state.partitions`.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.sql.nodes import (
    Aggregate,
    Alias,
    Distinct,
    Filter,
    Having,
    JoinAsOf,
    JoinStreams,
    JoinTable,
    Kind,
    Lookup,
    Node,
    Project,
    RowsWindow,
    Scan,
    Spread,
    Union,
    Windowed,
    has_sessions,
    inputs,
    joins_streams,
    reads_stream,
    walk,
)

BY_SOURCE = "source partitions"
EVERYWHERE = "a whole copy in every task"
ONE = "1 partition"


@dataclass(frozen=True, slots=True)
class Edge:
    """Rows on their way from `child` up to `parent`. `why` is '' where nothing is moved."""

    parent: Node
    child: Node
    partitioning: str
    why: str = ""


def kinds_of(plan: Node) -> tuple[Kind, ...]:
    """The kinds of work in a plan, joins first."""
    found: list[Kind] = []
    nodes = list(walk(plan))
    if any(isinstance(node, JoinTable) for node in nodes):
        found.append("broadcast_join")
    if joins_streams(plan):
        found.append("copartitioned_join")
    for node in nodes:
        if not reads_stream(node):
            continue
        if isinstance(node, Aggregate):
            found.append("fully_partitionable" if node.keys else "two_phase")
        elif isinstance(node, Distinct | RowsWindow):
            found.append("fully_partitionable")
    return tuple(dict.fromkeys(found)) or ("passthrough",)


def edges(plan: Node) -> tuple[Edge, ...]:
    """Every edge of a plan, parents first; the last word on an edge is how its rows arrive."""
    return tuple(edge for parent in walk(plan) for edge in _edges_into(parent))


def output(node: Node) -> str:
    """How the output of a node lies over partitions."""
    match node:
        case Scan():
            return BY_SOURCE
        case Lookup():
            return EVERYWHERE
        case (
            Alias(input=one)
            | Filter(input=one)
            | Project(input=one)
            | Windowed(input=one)
            | Spread(input=one)
            | Having(input=one)
        ):
            return output(one)
        case Aggregate() | Distinct() | RowsWindow():
            return _hashed(node) if reads_stream(node) else EVERYWHERE
        case JoinTable(left=left):
            return output(left)
        case JoinStreams() | JoinAsOf():
            return _joined_by(node)[0]
        case Union(inputs=several):
            return output(several[0])


def _edges_into(parent: Node) -> list[Edge]:
    if not reads_stream(parent):
        return [Edge(parent, child, EVERYWHERE) for child in inputs(parent)]
    match parent:
        case Aggregate():
            return [Edge(parent, parent.input, _hashed(parent), _why(parent))]
        case Distinct():
            return [Edge(parent, parent.input, _hashed(parent), "equal rows must meet in one partition")]
        case RowsWindow():
            return [Edge(parent, parent.input, _hashed(parent), "the last rows of a key must meet, in order")]
        case JoinTable():
            return [
                Edge(parent, parent.left, output(parent.left)),
                Edge(parent, parent.right, EVERYWHERE, "a pinned reference table is given to every task"),
            ]
        case JoinStreams() | JoinAsOf():
            why = "rows of both sides with equal keys must meet, and wait for each other"
            if isinstance(parent, JoinAsOf):
                why = "rows of both sides with equal keys must meet, in order of time"
            sides = zip(inputs(parent), _joined_by(parent), strict=True)
            return [Edge(parent, child, way, why) for child, way in sides]
        case _:
            return [Edge(parent, child, output(child)) for child in inputs(parent)]


def _hashed(node: Aggregate | Distinct | RowsWindow) -> str:
    if isinstance(node, Distinct):
        return "hash(all columns) % N"
    if isinstance(node, RowsWindow):
        return f"hash({', '.join(node.keys)}) % N" if node.keys else ONE
    whole = node.windowed and not has_sessions(node.input)  # sessions of a key must meet to merge
    keys = [key.name for key in node.keys] + (["window"] if whole else [])
    return f"hash({', '.join(keys)}) % N" if keys else ONE


def _joined_by(node: JoinStreams | JoinAsOf) -> list[str]:
    """How the rows of both sides lie."""
    window = ["window"] if isinstance(node, JoinStreams) and node.window else []
    return [f"hash({', '.join([*keys, *window])}) % N" for keys in zip(*node.keys, strict=True)]


def _why(node: Aggregate) -> str:
    if node.windowed and has_sessions(node.input):
        return "all rows of a key must meet, where its sessions grow and merge"
    if node.keys and node.windowed:
        return "all rows of a key and window must meet, after partial sums where they are"
    if node.keys:
        return "all rows of a key must meet, after partial sums where they are"
    if node.windowed:
        return "the partial results of all partitions are merged, one merge for each window"
    return "the partial results of all partitions are merged in one"
