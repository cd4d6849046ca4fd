"""Rewrites of a plan, one node at a time, bottom up, until none applies.

RULES is the whole list, in order. A rule takes a node and gives another one with the same output, or
None where it does not apply; it never looks at a catalog.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from headrace.sql.nodes import (
    Aggregate,
    Alias,
    Distinct,
    Filter,
    Having,
    JoinAsOf,
    JoinStreams,
    JoinTable,
    Lookup,
    Node,
    Project,
    RowsWindow,
    Scan,
    Spread,
    Union,
    Windowed,
    walk,
)

Rule = Callable[[Node], Node | None]


def merge_filters(node: Node) -> Node | None:
    """Two conditions in a row are one."""
    if isinstance(node, Filter) and isinstance(node.input, Filter):
        inner = node.input
        return Filter(inner.input, f"({inner.condition}) AND ({node.condition})", node.place)
    return None


def filter_before_window(node: Node) -> Node | None:
    """Rows are dropped before they are given to windows (no condition here names a window's borders)."""
    if isinstance(node, Filter) and isinstance(node.input, Windowed):
        windowed = node.input
        return Windowed(Filter(windowed.input, node.condition, node.place), windowed.window)
    return None


def flatten_unions(node: Node) -> Node | None:
    """A UNION ALL of a UNION ALL is one."""
    if isinstance(node, Union) and any(isinstance(one, Union) for one in node.inputs):
        parts = [part for one in node.inputs for part in (one.inputs if isinstance(one, Union) else (one,))]
        return Union(tuple(parts))
    return None


def drop_double_alias(node: Node) -> Node | None:
    """Only the outermost name of a relation can be asked."""
    if isinstance(node, Alias) and isinstance(node.input, Alias):
        return Alias(node.input.input, node.name)
    return None


RULES: tuple[Rule, ...] = (merge_filters, filter_before_window, flatten_unions, drop_double_alias)


def rewrite(node: Node) -> Node:
    """The plan with every rule applied wherever it fits."""
    node = _over(node, rewrite)
    for rule in RULES:
        new = rule(node)
        if new is not None:
            return rewrite(new)
    return node


def narrow(plan: Node) -> Node:
    """An as-of join, which keeps rows for long, gives on only what something above it names."""
    join = next((node for node in walk(plan) if isinstance(node, JoinAsOf)), None)
    if join is None:
        return plan
    above = repr(_exchanged(plan, join, Scan(""))).casefold()
    left, right = (
        tuple(
            replace(one, columns=tuple(named for named in one.columns if _names(above, named.name)))
            for one in side
        )
        for side in join.shown
    )
    return _exchanged(plan, join, replace(join, shown=(left, right)))


def _names(text: str, column: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(column.casefold())}(?!\w)", text) is not None


def _exchanged(plan: Node, old: Node, new: Node) -> Node:
    return new if plan is old else _over(plan, lambda node: _exchanged(node, old, new))


def _over(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node over its changed inputs."""
    match node:
        case Scan() | Lookup():
            return node
        case JoinTable() | JoinStreams() | JoinAsOf():
            return replace(node, left=change(node.left), right=change(node.right))
        case Union():
            return Union(tuple(change(one) for one in node.inputs))
        case (
            Alias()
            | Filter()
            | Project()
            | Windowed()
            | Spread()
            | Aggregate()
            | RowsWindow()
            | Having()
            | Distinct()
        ):
            return replace(node, input=change(node.input))
