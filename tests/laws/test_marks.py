"""Laws of the tracker: against a plain model over any operations, and of orders, cuts, copies and shifts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import HeadraceError
from headrace.event_time.marks import Marks

TIMEOUTS = {"a": 10, "b": 25, "c": 0}
NAMES = ("p", "q", "r", "s")
unhurried = settings(deadline=None)  # a busy machine breaks no law


@dataclass
class Part:
    """One partition of the model: the largest (event time - lateness) in µs, idleness, the last arrival in ms."""

    heard: int
    reached_us: int | None = None
    idle: bool = False

    @property
    def mark(self) -> int | None:
        return None if self.reached_us is None else self.reached_us // 1000


@dataclass
class Model:
    """SEMANTICS section 3 rules 1 to 3, in the plainest words."""

    sources: dict[str, dict[str, Part]] = field(default_factory=dict)
    seen: dict[str, int | None] = field(default_factory=dict)
    combined: int | None = None
    advances: int = 0
    rebalances: int = 0

    def settle(self) -> None:
        for source, parts in self.sources.items():
            active = [part.mark for part in parts.values() if not part.idle]
            known = [part.mark for part in parts.values() if part.mark is not None]
            allowed = None
            if active and None not in active:
                allowed = min(mark for mark in active if mark is not None)
            if not active and known:
                allowed = max(known)
            if allowed is not None:
                before = self.seen[source]
                self.seen[source] = allowed if before is None else max(before, allowed)
        marks = [mark for mark in self.seen.values() if mark is not None]
        if marks and len(marks) == len(self.seen) and (self.combined is None or min(marks) > self.combined):
            self.combined, self.advances = min(marks), self.advances + 1

    def parts(self, source: str) -> dict[str, Part]:
        if source not in self.sources:
            raise LookupError(source)
        return self.sources[source]

    def part(self, source: str, name: str) -> Part:
        if name not in self.parts(source):
            raise LookupError(name)
        return self.sources[source][name]

    def register(self, source: str, names: tuple[str, ...], *, now: int, idle_timeout_ms: int) -> None:
        assert idle_timeout_ms == TIMEOUTS[source]
        if source in self.sources or len(set(names)) < len(names):
            raise ValueError(source)
        self.settle()
        self.sources[source], self.seen[source] = {name: Part(now) for name in names}, None

    def rebalance(self, source: str, names: tuple[str, ...], now: int) -> None:
        self.set_partitions(source, names, now)
        self.rebalances += 1

    def add_partition(self, source: str, name: str, now: int) -> None:
        self.set_partitions(source, (*self.parts(source), name), now)

    def remove_partition(self, source: str, name: str, now: int) -> None:
        self.part(source, name)
        self.set_partitions(source, tuple(n for n in self.parts(source) if n != name), now)

    def set_partitions(self, source: str, names: tuple[str, ...], now: int) -> None:
        before = self.parts(source)
        if len(set(names)) < len(names):
            raise ValueError(names)
        self.settle()
        self.sources[source] = {name: before.get(name, Part(now)) for name in names}

    def update(self, source: str, name: str, time_us: int, lateness_us: int, now: int) -> None:
        part = self.part(source, name)
        reached = time_us - lateness_us
        part.reached_us = reached if part.reached_us is None else max(part.reached_us, reached)
        part.idle, part.heard = False, now

    def mark_active(self, source: str, name: str, now: int) -> None:
        part = self.part(source, name)
        part.idle, part.heard = False, now

    def mark_idle(self, source: str, name: str, now: int) -> None:
        self.part(source, name).idle = True

    def find_idle(self, now: int, unread: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        awake = [self.part(*key) for key in unread]
        for part in awake:
            part.idle = False
        gone = []
        for source, parts in sorted(self.sources.items()):
            for name, part in parts.items():
                overdue = TIMEOUTS[source] and now - part.heard >= TIMEOUTS[source]
                if overdue and not part.idle and (source, name) not in unread:
                    part.idle = True
                    gone.append((source, name))
        return tuple(gone)

    def restart_idle_clock(self, now: int) -> None:
        for parts in self.sources.values():
            for part in parts.values():
                part.heard = now

    def answers(self) -> dict[str, Any]:
        self.settle()
        every = [(s, n, p) for s, parts in sorted(self.sources.items()) for n, p in parts.items()]
        active = sum(not part.idle for _, _, part in every)
        return {
            "combined": self.combined,
            "sources": dict(self.seen),
            "rows": [(s, n, p.mark, p.idle, p.heard) for s, n, p in every],
            "metrics": (len(every), active, len(every) - active, self.advances, self.rebalances),
        }


def answers(marks: Marks) -> dict[str, Any]:
    """All that a tracker can be asked, in the shape of the model's answers."""
    rows = [(row.source, row.partition, row.mark_ms, row.idle, row.last_heard_ms) for row in marks.rows()]
    assert [(s, n) for s, n, *_ in rows] == [(s, n) for s in marks.sources() for n in marks.partitions(s)]
    assert all(marks.mark(s, n) == mark and marks.is_idle(s, n) == idle for s, n, mark, idle, _ in rows)
    told = marks.metrics()
    assert told.active == marks.active_count()
    return {
        "combined": marks.watermark(),
        "sources": {source: marks.source_watermark(source) for source in marks.sources()},
        "rows": rows,
        "metrics": (told.total, told.active, told.idle, told.advances, told.rebalances),
    }


Step = tuple[str, tuple[Any, ...], int]  # method, arguments, milliseconds since the step before

sources = st.sampled_from("ab" * 3 + "c")
names = st.sampled_from(NAMES)
name_tuples = st.lists(names, max_size=4).map(tuple)
times_us = st.integers(-20_000, 20_000) | st.integers(-(2**50), 2**50)
lateness_us = st.integers(0, 5_000)
strides = st.integers(0, 12) | st.integers(-5, 40)
keys = st.lists(st.tuples(st.just("a"), names), max_size=2).map(tuple)
step_kinds = st.one_of(
    *[st.tuples(st.just("update"), st.tuples(sources, names, times_us, lateness_us), strides)] * 4,
    st.tuples(st.just("find_idle"), st.tuples(), strides),
    st.tuples(st.just("find_idle_unread"), st.tuples(keys), strides),
    st.tuples(st.sampled_from(["mark_idle", "mark_active"]), st.tuples(sources, names), strides),
    st.tuples(st.sampled_from(["add_partition", "remove_partition"]), st.tuples(sources, names), strides),
    st.tuples(st.sampled_from(["rebalance", "register"]), st.tuples(sources, name_tuples), strides),
    st.tuples(st.sampled_from(["restart_idle_clock", "look"]), st.tuples(), strides),
)
openings = st.lists(st.tuples(st.just("register"), st.tuples(sources, name_tuples), strides), max_size=3)
histories = st.tuples(openings, st.lists(step_kinds, max_size=30)).map(lambda pair: pair[0] + pair[1])
batches = st.lists(st.tuples(names, times_us, lateness_us), min_size=1, max_size=12)


def run(target: Any, step: Step, now: int) -> Any:
    """What the step returns, or the kind of its refusal."""
    method, given_, _ = step
    try:
        match method:
            case "look":
                return None
            case "find_idle":
                return target.find_idle(now, ())
            case "find_idle_unread":
                return target.find_idle(now, *given_)
            case "register":
                return target.register(*given_, now=now, idle_timeout_ms=TIMEOUTS[given_[0]])
            case _:
                return getattr(target, method)(*given_, now)
    except (HeadraceError, LookupError, ValueError) as refusal:
        return LookupError if isinstance(refusal, LookupError) else ValueError


def replay(history: list[Step], after: Callable[[Step, int], None]) -> None:
    now = 0
    for step in history:
        now += step[2]
        after(step, now)


def tracker_of(history: list[Step]) -> tuple[Marks, int]:
    marks, last = Marks(), [0]

    def apply(step: Step, now: int) -> None:
        run(marks, step, now)
        last[0] = now
        if step[0] == "look":
            marks.watermark()

    replay(history, apply)
    return marks, last[0]


def four(idle_timeout_ms: int = 10) -> Marks:
    marks = Marks()
    marks.register("a", NAMES, now=0, idle_timeout_ms=idle_timeout_ms)
    return marks


@unhurried
@given(histories)
def test_after_any_operations_the_tracker_answers_as_the_plain_model(history: list[Step]) -> None:
    marks, model = Marks(), Model()

    def both(step: Step, now: int) -> None:
        assert run(marks, step, now) == run(model, step, now)
        if step[0] == "look":
            assert answers(marks) == model.answers()

    replay(history, both)
    assert answers(marks) == model.answers()


@unhurried
@given(histories)
def test_no_watermark_ever_moves_back_and_no_mark_does_while_its_partition_stays(history: list[Step]) -> None:
    marks = Marks()
    before: dict[tuple[str, ...], int] = {}

    def watched(step: Step, now: int) -> None:
        run(marks, step, now)
        seen: dict[tuple[str, ...], int | None] = {("combined",): marks.watermark()}
        seen |= {(source,): marks.source_watermark(source) for source in marks.sources()}
        seen |= {(row.source, row.partition): row.mark_ms for row in marks.rows()}
        for key, value in before.items():
            if len(key) == 2 and step[0] in ("rebalance", "remove_partition"):
                continue
            now_there = seen[key]
            assert now_there is not None
            assert now_there >= value
        before.clear()
        before.update({key: value for key, value in seen.items() if value is not None})

    replay(history, watched)


@unhurried
@given(histories, batches, st.randoms(use_true_random=False))
def test_the_order_of_the_updates_within_a_batch_does_not_matter(
    history: list[Step], batch: list[tuple[str, int, int]], chance: Any
) -> None:
    text = tracker_of([*history, ("register", ("a", NAMES), 0), ("rebalance", ("a", NAMES), 0)])[0].to_json()
    one, other = Marks.from_json(text), Marks.from_json(text)
    for name, time, lateness in batch:
        one.update("a", name, time, lateness, 7)
    chance.shuffle(batch)
    for name, time, lateness in batch:
        other.update("a", name, time, lateness, 7)
    assert one.to_json() == other.to_json()


@unhurried
@given(histories, batches, st.sampled_from(["names", "tuple", "positions", "array of names"]))
def test_a_bulk_update_is_its_updates_one_by_one(
    history: list[Step], batch: list[tuple[str, int, int]], how: str
) -> None:
    text = tracker_of([*history, ("register", ("a", NAMES), 0), ("rebalance", ("a", NAMES), 0)])[0].to_json()
    single, bulk = Marks.from_json(text), Marks.from_json(text)
    for name, time, lateness in batch:
        single.update("a", name, time, lateness, 7)
    named = [name for name, _, _ in batch]
    given_: Any = {
        "names": named,
        "tuple": tuple(named),
        "positions": np.array([NAMES.index(name) for name in named]),
        "array of names": np.array(named),
    }[how]
    times, lateness_each = np.array([t for _, t, _ in batch]), np.array([late for _, _, late in batch])
    bulk.update_many("a", given_, times, lateness_each, 7)
    assert bulk.to_json() == single.to_json()
    bulk.update_many("a", given_, times, lateness_each, 7)
    assert bulk.to_json() == single.to_json()


@unhurried
@given(st.lists(times_us, min_size=4, max_size=4), lateness_us)
def test_a_bulk_update_of_all_partitions_is_its_updates_one_by_one(times: list[int], lateness: int) -> None:
    single, bulk = four(), four()
    for name, time in zip(NAMES, times, strict=True):
        single.update("a", name, time, lateness, 3)
    bulk.update_many("a", bulk.partitions("a"), times, lateness, 3)
    assert bulk.to_json() == single.to_json()


@unhurried
@given(histories, st.lists(step_kinds, max_size=15))
def test_a_copy_by_json_answers_and_goes_on_like_the_original(history: list[Step], more: list[Step]) -> None:
    marks, last = tracker_of(history)
    text = marks.to_json()
    copy = Marks.from_json(text)
    assert copy.to_json() == text

    def both(step: Step, now: int) -> None:
        assert run(marks, step, last + now) == run(copy, step, last + now)

    replay(more, both)
    assert answers(copy) == answers(marks)
    assert copy.to_json() == marks.to_json()


@unhurried
@given(histories, step_kinds)
def test_what_is_refused_has_changed_nothing(history: list[Step], step: Step) -> None:
    marks, last = tracker_of(history)
    before = marks.to_json()
    if run(marks, step, last) in (LookupError, ValueError):
        assert marks.to_json() == before


@unhurried
@given(st.lists(times_us, min_size=4, max_size=4), st.sets(names))
def test_the_watermark_is_the_smallest_active_mark_and_the_largest_of_all_when_none_is_active(
    times: list[int], idle: set[str]
) -> None:
    marks = four(idle_timeout_ms=0)
    marks.update_many("a", NAMES, times, 0, 0)
    for name in idle:
        marks.mark_idle("a", name, 0)
    active = [time // 1000 for name, time in zip(NAMES, times, strict=True) if name not in idle]
    assert marks.watermark() == (min(active) if active else max(times) // 1000)


@unhurried
@given(histories, st.integers(0, 9))
def test_a_new_silent_partition_moves_no_watermark_and_holds_it_while_others_go_on(
    history: list[Step], ahead: int
) -> None:
    marks, last = tracker_of([*history, ("register", ("a", NAMES), 0)])
    before = answers(marks)
    marks.add_partition("a", "silent", last)
    for name in marks.partitions("a")[:-1]:
        marks.update("a", name, 2**60, 0, last)
    marks.find_idle(last + ahead)  # the timeout is 10
    assert marks.source_watermark("a") == before["sources"]["a"]


@unhurried
@given(batches, st.lists(st.booleans(), min_size=12, max_size=12))
def test_while_all_are_active_it_does_not_matter_where_the_input_is_cut(
    batch: list[tuple[str, int, int]], cuts: list[bool]
) -> None:
    whole, cut = four(), four()
    for (name, time, lateness), look in zip(batch, cuts, strict=False):
        whole.update("a", name, time, lateness, 1)
        cut.update("a", name, time, lateness, 1)
        if look:
            cut.watermark()
    assert whole.watermark() == cut.watermark()


@unhurried
@given(batches, st.integers(-(2**40), 2**40))
def test_event_times_moved_by_whole_milliseconds_move_the_watermark_by_as_many(
    batch: list[tuple[str, int, int]], shift_ms: int
) -> None:
    here, there = four(), four()
    for marks, shift in ((here, 0), (there, shift_ms)):
        for name, time, lateness in batch:
            marks.update("a", name, time + shift * 1000, lateness, 5)
        marks.find_idle(12)
    before, after = here.watermark(), there.watermark()
    assert before is not None
    assert after == before + shift_ms


@unhurried
@given(histories, st.integers(0, 100))
def test_an_idle_check_split_in_two_finds_what_one_finds(history: list[Step], ahead: int) -> None:
    marks, last = tracker_of(history)
    once, twice = Marks.from_json(marks.to_json()), Marks.from_json(marks.to_json())
    at_once = once.find_idle(last + ahead)
    in_two = twice.find_idle(last + ahead // 2) + twice.find_idle(last + ahead)
    assert sorted(in_two) == sorted(at_once)
    assert twice.find_idle(last + ahead) == ()
