"""The tracker's state as one text: its exact form, what comes back, and what is no state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.event_time.marks import Marks, UnreadableMarks

S = 1_000_000  # microseconds


def tracker(partitions: Any = 2, idle_timeout_ms: int = 10_000) -> Marks:
    marks = Marks()
    marks.register("s", partitions, now=0, idle_timeout_ms=idle_timeout_ms)
    return marks


def test_the_state_is_one_compact_text_with_sorted_keys() -> None:
    marks = Marks()
    marks.register("s", ("EWR", "Zürich"), now=5, idle_timeout_ms=1_000)
    marks.register("a", 1, now=5, idle_timeout_ms=0)
    marks.update("s", "EWR", -1, 0, 7)
    marks.update("a", "0", S, 0, 7)
    marks.mark_idle("s", "Zürich", 7)
    assert marks.to_json() == (
        '{"advances":1,"format":1,"rebalances":0,"sources":{'
        '"a":{"heard_ms":[7],"idle":[],"idle_timeout_ms":0,"marks_ms":[1000],"partitions":["0"],"watermark_ms":1000},'
        '"s":{"heard_ms":[7,5],"idle":[1],"idle_timeout_ms":1000,"marks_ms":[-1,null],'
        '"partitions":["EWR","Zürich"],"watermark_ms":-1}},"watermark_ms":-1}'
    )


def test_a_restored_watermark_is_the_one_that_was_and_not_one_worked_out_again() -> None:
    marks = tracker(2)
    marks.update_many("s", ("0", "1"), [9 * S, 2 * S], 0, 0)
    marks.find_idle(10_000)
    assert marks.watermark() == 9_000
    marks.update("s", "1", 3 * S, 0, 10_000)
    copy = Marks.from_json(marks.to_json())
    assert (copy.watermark(), copy.source_watermark("s")) == (9_000, 9_000)


def test_a_restored_tracker_still_finds_who_becomes_idle() -> None:
    marks = Marks.from_json(tracker(2).to_json())
    assert (marks.find_idle(9_999), marks.find_idle(10_000)) == ((), (("s", "0"), ("s", "1")))


def broken(**changes: Any) -> str:
    tree = json.loads(tracker(2).to_json())
    lane = tree["sources"]["s"]
    for key, value in changes.items():
        (lane if key in lane and key != "watermark_ms" else tree)[key] = value
    return json.dumps(tree)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "{}",
        tracker(2).to_json()[:-1],
        broken(format=2),
        broken(sources=[]),
        broken(watermark_ms="soon"),
        broken(advances=-1),
        broken(advances=None),
        broken(partitions=["0", "0"]),
        broken(partitions=["0"]),
        broken(partitions=None),
        broken(marks_ms=[1]),
        broken(marks_ms=[1, 2.5]),
        broken(marks_ms=[1, 2**80]),
        broken(heard_ms=[None, 1]),
        broken(idle=[2]),
        broken(idle=[-1]),
        broken(idle_timeout_ms=-1),
        broken(idle_timeout_ms="10s"),
    ],
)
def test_a_text_that_is_no_whole_state_is_refused(text: str) -> None:
    with pytest.raises(UnreadableMarks):
        Marks.from_json(text)


def test_a_text_that_was_only_parsed_and_printed_again_is_read() -> None:
    assert Marks.from_json(broken()).to_json() == tracker(2).to_json()
