"""A tracker's whole state as one JSON text, and back.

Rules: one state has one text (sorted keys, no spaces); a source's columns stand side by side in the order of
its partitions, since positions are part of the state; the watermarks are stored, not worked out again.
This module must never repair what it reads: a text that is not whole is refused.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.event_time.lanes import FURTHEST, NEVER, NO_MARK, Int64s, Lane, named, new_lane
from headrace.event_time.mark_errors import UnreadableMarks

FORMAT = 1
WRONG = (ValueError, LookupError, TypeError, AttributeError, OverflowError)  # met in a text of another shape


@dataclass(frozen=True, slots=True)
class Saved:
    """What a tracker is made of: its lanes by source, the combined watermark (ms) and two counters."""

    lanes: dict[str, Lane]
    watermark: int | None
    advances: int
    rebalances: int


def write(saved: Saved) -> str:
    """The JSON text: times in ms, a mark null where there is none, idle partitions by position."""
    tree = {
        "format": FORMAT,
        "watermark_ms": saved.watermark,
        "advances": saved.advances,
        "rebalances": saved.rebalances,
        "sources": {source: _columns(lane) for source, lane in saved.lanes.items()},
    }
    return json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def read(text: str) -> Saved:
    """What `write` wrote; UnreadableMarks with the first thing that is wrong."""
    try:
        tree = json.loads(text)
        if tree["format"] != FORMAT:
            raise ValueError(f"format {tree['format']!r}, where this version reads {FORMAT}")
        lanes = {source: _lane(source, told) for source, told in sorted(tree["sources"].items())}
        watermark = None if tree["watermark_ms"] is None else _whole(tree["watermark_ms"])
        return Saved(lanes, watermark, _whole(tree["advances"], 0), _whole(tree["rebalances"], 0))
    except WRONG as wrong:
        told = f"no tracker state: {type(wrong).__name__}: {wrong}"
        raise UnreadableMarks(told, hint="start from the last whole one") from wrong


def _columns(lane: Lane) -> dict[str, Any]:
    return {
        "idle_timeout_ms": lane.idle_timeout_ms,
        "watermark_ms": lane.watermark,
        "partitions": list(lane.names),
        "marks_ms": [None if mark == NO_MARK else mark for mark in lane.marks.tolist()],
        "heard_ms": lane.heard.tolist(),
        "idle": (lane.clock == NEVER).nonzero()[0].tolist(),
    }


def _lane(source: str, told: dict[str, Any]) -> Lane:
    lane = new_lane(source, told["partitions"], now=0, idle_timeout_ms=told["idle_timeout_ms"])
    lane.marks = _column([NO_MARK if mark is None else _whole(mark) for mark in told["marks_ms"]], lane)
    lane.heard = _column([_whole(moment) for moment in told["heard_ms"]], lane)
    lane.clock = lane.heard.copy()
    lane.clock[[_whole(at, 0) for at in told["idle"]]] = NEVER
    lane.watermark = None if told["watermark_ms"] is None else _whole(told["watermark_ms"])
    return named(lane, lane.names)


def _column(values: list[int], lane: Lane) -> Int64s:
    if len(values) != len(lane.names):
        raise ValueError(f"{len(values)} values for the {len(lane.names)} partitions of {lane.source!r}")
    return np.array(values, np.int64)


def _whole(value: object, lowest: int = -FURTHEST) -> int:
    if type(value) is not int or not lowest <= value <= FURTHEST:
        raise ValueError(f"{value!r} where a whole number from {lowest} to {FURTHEST} is due")
    return value
