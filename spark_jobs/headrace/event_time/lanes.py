"""The partitions of one source as parallel arrays, and the rules that move their marks.

Rules: marks, arrivals and `now` are whole milliseconds, event times microseconds, all int64. A partition's
position is its place in `names`. `clock` is the last arrival while a partition is active and NEVER while it
is idle, so one pass over it answers both "who is active" and "who is overdue". `earliest` never lies after
the first deadline, so a look at it alone tells when no partition can have become idle.
This module must never read a clock, know a second source, or loop over partitions on the way of an update.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.event_time.mark_errors import InvalidPartition, InvalidTime, unknown_partition

Int64s = npt.NDArray[np.int64]
Positions = npt.NDArray[np.intp]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
NO_MARK = INT64_MIN  # below every mark, for a mark is microseconds divided by 1000
NEVER = INT64_MAX
WHOLE = (int, np.integer)
FURTHEST = 2**62  # milliseconds that `now` and a timeout stay within, so that their sum is an int64


@dataclass(slots=True, eq=False)
class Lane:
    """One source. All arrays have one element for each of `names`."""

    source: str
    idle_timeout_ms: int  # 0 = a silent partition is never idle
    names: tuple[str, ...]
    at: dict[str, int]  # name to position
    marks: Int64s  # ms, NO_MARK before the first record
    heard: Int64s  # ms, the last arrival, else registration or start
    clock: Int64s  # `heard` where active, NEVER where idle
    watermark: int | None = None  # ms, never backwards
    stale: bool = True  # the watermark may have to move
    earliest: int = INT64_MIN  # ms, no partition can become idle before
    everyone: Positions = field(default_factory=lambda: np.empty(0, np.intp))  # all positions, in order
    looked_up: tuple[object, Positions | None] = (None, None)  # the last tuple of names and where they are


def new_lane(source: str, partitions: Sequence[str] | int, now: int, idle_timeout_ms: int) -> Lane:
    """A lane of active partitions without marks, heard at `now`; InvalidPartition, InvalidTime."""
    names = partition_names(source, partitions)
    whole_ms(idle_timeout_ms, "idle timeout", lowest=0)
    heard = np.full(len(names), whole_ms(now, "now"), np.int64)
    marks = np.full(len(names), NO_MARK, np.int64)
    return named(Lane(source, idle_timeout_ms, (), {}, marks, heard, heard.copy()), names)


def named(lane: Lane, names: tuple[str, ...]) -> Lane:
    """The lane with these names for its arrays, and all that follows from names and clock derived anew."""
    lane.names, lane.at = names, {name: at for at, name in enumerate(names)}
    lane.everyone, lane.looked_up = np.arange(len(names), dtype=np.intp), (None, None)
    lane.earliest = deadline(lane, int(lane.clock.min()) if names else NEVER)
    lane.stale = True
    return lane


def partition_names(source: str, partitions: Sequence[str] | int) -> tuple[str, ...]:
    """The names meant: n stands for "0" … "n-1"; InvalidPartition when empty, no text, or named twice."""
    if isinstance(partitions, int):
        if partitions < 0:
            raise InvalidPartition(f"source {source!r} with {partitions} partitions", hint="give 0 or more")
        return tuple(map(str, range(partitions)))
    if isinstance(partitions, str):
        raise _one_text(partitions)
    names = tuple(partitions)
    for name in names:
        if not isinstance(name, str) or not name:
            told = f"source {source!r}: {name!r} names no partition"
            raise InvalidPartition(told, hint="give a text that is not empty")
    if len(set(names)) != len(names):
        twice = next(name for at, name in enumerate(names) if name in names[:at])
        told = f"source {source!r}: partition {twice!r} is there twice"
        raise InvalidPartition(told, hint="name each partition once")
    return names


def position(lane: Lane, partition: str) -> int:
    """Where the partition is; UnknownPartition."""
    found = lane.at.get(partition)
    if found is None:
        raise unknown_partition(lane.source, partition, lane.names)
    return found


def positions(lane: Lane, partitions: Sequence[str] | npt.NDArray[Any]) -> Positions:
    """Where the partitions are: by name, or by an integer array of positions. A tuple is looked up once."""
    if isinstance(partitions, np.ndarray):
        if partitions.dtype.kind in "iu":
            return _checked_positions(lane, partitions)
        return positions(lane, tuple(partitions.tolist()))
    if partitions is lane.names:
        return lane.everyone
    known, found = lane.looked_up
    if known is partitions and found is not None:
        return found
    if isinstance(partitions, str):
        raise _one_text(partitions)
    try:
        found = np.fromiter(map(lane.at.__getitem__, partitions), np.intp, len(partitions))
    except KeyError as missing:
        raise unknown_partition(lane.source, missing.args[0], lane.names) from None
    if isinstance(partitions, tuple):
        lane.looked_up = (partitions, found)
    return found


def regroup(lane: Lane, names: tuple[str, ...], now: int) -> None:
    """From now on exactly these partitions, in this order: those that stay keep all they had."""
    size = len(names)
    marks, heard = np.full(size, NO_MARK, np.int64), np.full(size, now, np.int64)
    clock = heard.copy()
    kept = [(at, lane.at[name]) for at, name in enumerate(names) if name in lane.at]
    if kept:
        here, there = np.array(kept, np.intp).T
        marks[here], heard[here], clock[here] = lane.marks[there], lane.heard[there], lane.clock[there]
    lane.marks, lane.heard, lane.clock = marks, heard, clock
    named(lane, names)


def move_marks(lane: Lane, at: Positions, marks: Int64s) -> None:
    """Each mark moves on to the largest given for its partition, never back."""
    if at is lane.everyone:
        np.maximum(lane.marks, marks, out=lane.marks)
    else:
        np.maximum.at(lane.marks, at, marks)


def arrive(lane: Lane, at: Positions | int, now: int) -> None:
    """Something came from these partitions: they are active and their idle clock starts anew."""
    if at is lane.everyone:
        lane.heard.fill(now)
        lane.clock.fill(now)
    else:
        lane.heard[at] = now
        lane.clock[at] = now
    if lane.idle_timeout_ms and now + lane.idle_timeout_ms < lane.earliest:
        lane.earliest = now + lane.idle_timeout_ms
    lane.stale = True


def wake(lane: Lane, at: Sequence[int]) -> None:
    """The idle ones among these positions are active again, though nothing has arrived from them yet."""
    for place in at:
        if lane.clock[place] == NEVER:
            lane.clock[place] = lane.heard[place]
            lane.earliest = min(lane.earliest, deadline(lane, int(lane.heard[place])))


def fall_idle(lane: Lane, now: int, spared: Sequence[int] = ()) -> list[str]:
    """The names of those that became idle by `now`, in order; the spared ones (positions) do not."""
    if not lane.idle_timeout_ms or now < lane.earliest or not lane.names:
        return []
    cutoff = now - lane.idle_timeout_ms
    first = int(lane.clock[lane.clock.argmin()])
    if first > cutoff:
        lane.earliest = deadline(lane, first)
        return []
    overdue = lane.clock <= cutoff
    overdue[list(spared)] = False
    gone = overdue.nonzero()[0]
    lane.clock[gone] = NEVER
    lane.earliest = deadline(lane, int(lane.clock[lane.clock.argmin()]))
    lane.stale = lane.stale or bool(gone.size)
    return [lane.names[at] for at in gone.tolist()]


def deadline(lane: Lane, last: int) -> int:
    """When a partition last heard at `last` becomes idle, ms; NEVER for an idle one or without a timeout."""
    return NEVER if last == NEVER or not lane.idle_timeout_ms else last + lane.idle_timeout_ms


def lowest_mark(lane: Lane) -> int | None:
    """The smallest mark over the active partitions, all idle the largest over all; None while one is awaited."""
    if not lane.names:
        return None
    lowest = int(np.min(lane.marks, where=lane.clock != NEVER, initial=NEVER))
    if lowest == NEVER:
        lowest = int(lane.marks.max())
    return None if lowest == NO_MARK else lowest


def settle(lane: Lane) -> None:
    """Move the source's watermark to where its partitions allow, never backwards."""
    lane.stale = False
    lowest = lowest_mark(lane)
    if lowest is not None and (lane.watermark is None or lowest > lane.watermark):
        lane.watermark = lowest


def mark_ms(event_time_us: int, lateness_us: int) -> int:
    """floor((event time - lateness) / 1000) in ms; InvalidTime outside int64 or with a negative lateness."""
    try:
        time, lateness = index(event_time_us), index(lateness_us)
    except TypeError:
        told = f"event time {event_time_us!r} with lateness {lateness_us!r} is no whole number"
        raise InvalidTime(told, hint="give whole microseconds") from None
    if lateness < 0:
        raise _negative_lateness(lateness)
    if time > INT64_MAX or time - lateness < INT64_MIN:
        raise _out_of_range(time, lateness)
    return (time - lateness) // 1000


def marks_ms(event_times_us: npt.ArrayLike, lateness_us: npt.ArrayLike, size: int) -> Int64s:
    """The same for `size` event times, each with its own lateness or all with one."""
    times, lateness = _int64s(event_times_us, "event times"), _int64s(lateness_us, "lateness")
    if times.shape != (size,) or lateness.shape not in ((), (size,)):
        told = f"{size} partitions with event times {times.shape} and lateness {lateness.shape}"
        raise InvalidTime(told, hint="give one event time for each partition, and one lateness or as many")
    if not size:
        return times
    least, most = _ends(lateness)
    if least < 0:
        raise _negative_lateness(least)
    if most == 0:
        return times // 1000
    if _ends(times)[0] - most < INT64_MIN:
        below = times < INT64_MIN + lateness
        if below.any():
            first = int(below.argmax())
            raise _out_of_range(int(times[first]), int(np.broadcast_to(lateness, (size,))[first]))
    return (times - lateness) // 1000


def whole_ms(value: int, what: str, lowest: int = -FURTHEST) -> int:
    """The value, when it is a whole number of ms within range; InvalidTime."""
    if not isinstance(value, WHOLE) or not lowest <= value <= FURTHEST:
        hint = f"give whole milliseconds from {lowest} to {FURTHEST}"
        raise InvalidTime(f"{what} {value!r} is out of range", hint=hint)
    return int(value)


def _checked_positions(lane: Lane, positions: npt.NDArray[Any]) -> Positions:
    if positions.ndim != 1:
        raise InvalidPartition(f"positions of shape {positions.shape}", hint="give a flat array")
    if positions.size:
        least, most = _ends(positions)
        if least < 0:
            raise InvalidPartition(f"position {least} in source {lane.source!r}", hint="positions start at 0")
        if most >= len(lane.names):
            raise unknown_partition(lane.source, most, lane.names)
    return positions.astype(np.intp, copy=False)


def _ends(values: Int64s) -> tuple[int, int]:
    """The smallest and the largest; by position, which takes half as long on short arrays."""
    if not values.ndim:
        return int(values), int(values)
    return int(values[values.argmin()]), int(values[values.argmax()])


def _one_text(text: str) -> InvalidPartition:
    return InvalidPartition(f"one text, {text!r}, where names are due", hint="give a tuple of names")


def _int64s(values: npt.ArrayLike, what: str) -> Int64s:
    array = np.asarray(values)
    if array.dtype == np.int64:
        return array
    if not array.size:
        return array.astype(np.int64)
    kind = array.dtype.kind
    whole = kind in "iu" or (kind == "O" and all(isinstance(value, int) for value in array.flat))
    if not whole or array.max() > INT64_MAX or array.min() < INT64_MIN:
        hint = "give whole microseconds since 1970 as int64"
        raise InvalidTime(f"{what} that are no int64 ({array.dtype})", hint=hint)
    return array.astype(np.int64)


def _negative_lateness(lateness_us: int) -> InvalidTime:
    return InvalidTime(f"lateness {lateness_us} µs is negative", hint="give 0 µs or more")


def _out_of_range(event_time_us: int, lateness_us: int) -> InvalidTime:
    told = f"event time {event_time_us} µs less lateness {lateness_us} µs is no int64"
    return InvalidTime(told, hint="give microseconds since 1970, and skip records that lie further out")
