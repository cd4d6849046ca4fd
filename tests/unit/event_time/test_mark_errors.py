"""What the tracker refuses, and what it says then; what is refused has changed nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.errors import HeadraceError
from headrace.event_time.marks import InvalidPartition, InvalidTime, Marks, UnknownPartition, UnknownSource


def tracker(partitions: Any = 2, idle_timeout_ms: int = 10_000) -> Marks:
    marks = Marks()
    marks.register("s", partitions, now=0, idle_timeout_ms=idle_timeout_ms)
    return marks


def test_an_unknown_source_names_the_nearest_one() -> None:
    marks = Marks()
    marks.register("flights", 1, now=0)
    for call in (
        lambda: marks.update("flihgts", "0", 0, 0, 0),
        lambda: marks.update_many("flihgts", ("0",), [0], 0, 0),
        lambda: marks.heard("flihgts", ("0",), 0),
        lambda: marks.add_partition("flihgts", "1", 0),
        lambda: marks.remove_partition("flihgts", "0", 0),
        lambda: marks.rebalance("flihgts", 1, 0),
        lambda: marks.mark_idle("flihgts", "0", 0),
        lambda: marks.source_watermark("flihgts"),
        lambda: marks.mark("flihgts", "0"),
        lambda: marks.is_idle("flihgts", "0"),
        lambda: marks.partitions("flihgts"),
        lambda: marks.find_idle(0, [("flihgts", "0")]),
    ):
        with pytest.raises(UnknownSource, match="did you mean 'flights'") as refusal:
            call()
        assert isinstance(refusal.value, HeadraceError)


def test_an_unknown_partition_names_the_nearest_one() -> None:
    marks = tracker(("EWR", "JFK", "LGA"))
    for call in (
        lambda: marks.update("s", "JFX", 0, 0, 0),
        lambda: marks.update_many("s", ("EWR", "JFX"), [0, 0], 0, 0),
        lambda: marks.update_many("s", np.array(["EWR", "JFX"]), [0, 0], 0, 0),
        lambda: marks.heard("s", ["JFX"], 0),
        lambda: marks.remove_partition("s", "JFX", 0),
        lambda: marks.mark_idle("s", "JFX", 0),
        lambda: marks.mark_active("s", "JFX", 0),
        lambda: marks.mark("s", "JFX"),
        lambda: marks.is_idle("s", "JFX"),
        lambda: marks.find_idle(0, [("s", "JFX")]),
    ):
        with pytest.raises(UnknownPartition, match="did you mean 'JFK'"):
            call()


def test_a_position_beyond_the_last_is_an_unknown_partition_and_shows_the_known_ones() -> None:
    with pytest.raises(UnknownPartition, match=r"no partition 3\n  hint: known: EWR, JFK, LGA"):
        tracker(("EWR", "JFK", "LGA")).update_many("s", np.array([0, 3]), [0, 0], 0, 0)


@pytest.mark.parametrize(
    ("partitions", "told"),
    [
        (-1, "-1 partitions"),
        (("a", ""), "'' names no"),
        (("a", "b", "a"), "'a' is there twice"),
        ("abc", "one text"),
    ],
)
def test_what_can_be_no_partition_is_refused_at_registration_and_rebalance(
    partitions: Any, told: str
) -> None:
    marks = tracker(1)
    with pytest.raises(InvalidPartition, match=told):
        marks.register("t", partitions, now=0)
    with pytest.raises(InvalidPartition, match=told):
        marks.rebalance("s", partitions, 0)
    assert (marks.sources(), marks.partitions("s"), marks.metrics().rebalances) == (("s",), ("0",), 0)


@pytest.mark.parametrize("positions", [[0, -1], [[0], [1]]])
def test_positions_below_0_or_not_flat_are_refused(positions: Any) -> None:
    with pytest.raises(InvalidPartition):
        tracker(2).update_many("s", np.array(positions), [0, 0], 0, 0)


def test_a_second_registration_is_refused() -> None:
    marks = tracker(1)
    with pytest.raises(InvalidPartition, match="registered already"):
        marks.register("s", 2, now=0)
    with pytest.raises(InvalidPartition, match="there twice"):
        marks.add_partition("s", "0", 0)
    with pytest.raises(InvalidPartition, match="without a name"):
        marks.register("", 1, now=0)


@pytest.mark.parametrize("now", [2**62 + 1, -(2**62) - 1, 1.5, None])
def test_a_now_that_is_no_whole_number_of_milliseconds_in_range_is_refused(now: Any) -> None:
    marks = tracker(1)
    before = marks.to_json()
    for call in (
        lambda: marks.update("s", "0", 0, 0, now),
        lambda: marks.update_many("s", ("0",), [0], 0, now),
        lambda: marks.rebalance("s", 2, now),
        lambda: marks.restart_idle_clock(now),
        lambda: marks.register("t", 1, now=now),
        lambda: marks.find_idle(now, [("s", "0")]),
    ):
        with pytest.raises(InvalidTime):
            call()
    assert marks.to_json() == before


def test_a_negative_idle_timeout_is_refused() -> None:
    with pytest.raises(InvalidTime, match="idle timeout -1"):
        Marks().register("s", 1, now=0, idle_timeout_ms=-1)
