"""The tracker by example: each rule of SEMANTICS section 3 once, and its borders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from headrace.event_time.marks import InvalidTime, MarkRow, Marks, MarksMetrics

S = 1_000_000  # microseconds


def tracker(partitions: Any = 2, idle_timeout_ms: int = 10_000) -> Marks:
    marks = Marks()
    marks.register("s", partitions, now=0, idle_timeout_ms=idle_timeout_ms)
    return marks


# Marks


@pytest.mark.parametrize(
    ("event_time_us", "lateness_us", "mark_ms"),
    [
        (1_999, 0, 1),
        (2_000, 0, 2),
        (2_000, 1, 1),
        (0, 0, 0),
        (-1, 0, -1),
        (-1_000, 0, -1),
        (-1_001, 0, -2),
        (5, 9, -1),
    ],
)
def test_a_mark_is_event_time_less_lateness_in_whole_milliseconds_rounded_down(
    event_time_us: int, lateness_us: int, mark_ms: int
) -> None:
    single, bulk = tracker(1), tracker(1)
    single.update("s", "0", event_time_us, lateness_us, 0)
    bulk.update_many("s", np.array([0]), np.array([event_time_us]), lateness_us, 0)
    assert single.mark("s", "0") == bulk.mark("s", "0") == mark_ms


def test_an_older_record_does_not_pull_its_partitions_mark_back() -> None:
    marks = tracker(1)
    marks.update("s", "0", 20 * S, 0, 0)
    marks.update("s", "0", 15 * S, 0, 0)
    assert marks.mark("s", "0") == 20_000


def test_a_record_with_its_own_larger_lateness_does_not_pull_the_mark_back() -> None:
    marks = tracker(1)
    marks.update("s", "0", 20 * S, 0, 0)
    marks.update("s", "0", 21 * S, 5 * S, 0)
    assert marks.mark("s", "0") == 20_000


def test_the_ends_of_int64_are_event_times_and_one_beyond_is_refused() -> None:
    marks = tracker(1)
    marks.update("s", "0", -(2**63), 0, 0)
    assert marks.mark("s", "0") == -(2**63) // 1000
    marks.update_many("s", ("0",), [2**63 - 1], 0, 0)
    assert marks.mark("s", "0") == (2**63 - 1) // 1000


@pytest.mark.parametrize(
    ("event_time_us", "lateness_us"),
    [(2**63, 0), (-(2**63) - 1, 0), (-(2**63), 1), (-(2**63) + 4, 5), (0, -1), (1.5, 0), ("7", 0), (0, 0.5)],
)
def test_a_time_that_is_no_int64_is_refused_singly_and_in_bulk_and_changes_nothing(
    event_time_us: Any, lateness_us: Any
) -> None:
    marks = tracker(2)
    before = marks.to_json()
    with pytest.raises(InvalidTime):
        marks.update("s", "0", event_time_us, lateness_us, 1)
    with pytest.raises(InvalidTime):
        marks.update_many("s", ("0", "1"), [5, event_time_us], lateness_us, 1)
    with pytest.raises(InvalidTime):
        marks.update_many("s", ("0", "1"), [5, event_time_us], [0, lateness_us], 1)
    assert marks.to_json() == before


def test_a_lateness_too_large_for_one_event_time_names_that_event_time() -> None:
    with pytest.raises(InvalidTime, match="-9223372036854775808 µs less lateness 3"):
        tracker(3).update_many("s", ("0", "1", "2"), [0, -(2**63), 0], [9, 3, 9], 0)


def test_a_large_lateness_on_another_record_does_not_refuse_an_early_one() -> None:
    marks = tracker(2)
    marks.update_many("s", ("0", "1"), [-(2**63), 0], [0, 10**9], 0)
    assert marks.mark("s", "1") == -1_000_000


# Watermarks


def test_the_watermark_is_the_smallest_mark_over_the_active_partitions() -> None:
    marks = tracker(3)
    marks.update_many("s", ("0", "1", "2"), [30 * S, 10 * S, 20 * S], 0, 0)
    assert marks.watermark() == marks.source_watermark("s") == 10_000


def test_a_partition_that_never_delivered_holds_the_watermark_until_its_idle_timeout_and_no_longer() -> None:
    marks = tracker(2)
    marks.update("s", "0", 25 * S, 0, 5_000)
    assert marks.find_idle(9_999) == ()
    assert marks.watermark() is None
    assert marks.find_idle(10_000) == (("s", "1"),)
    assert marks.watermark() == 25_000


def test_a_partition_without_usable_event_times_is_active_and_holds_the_watermark() -> None:
    marks = tracker(2)
    marks.update("s", "0", 25 * S, 0, 9_000)
    marks.heard("s", ("1",), 9_000)
    assert marks.find_idle(18_999) == ()
    assert (marks.mark("s", "1"), marks.watermark()) == (None, None)


def test_when_every_partition_is_idle_the_largest_mark_counts() -> None:
    marks = tracker(3)
    marks.update_many("s", ("0", "1"), [100 * S, 50 * S], 0, 0)
    assert marks.find_idle(10_000) == (("s", "0"), ("s", "1"), ("s", "2"))
    assert marks.watermark() == 100_000


def test_when_all_are_idle_and_none_has_delivered_there_is_no_watermark() -> None:
    marks = tracker(2)
    marks.find_idle(10_000)
    assert (marks.active_count(), marks.watermark()) == (0, None)


def test_a_partition_that_wakes_up_behind_the_watermark_does_not_pull_it_back_and_joins_the_minimum() -> None:
    marks = tracker(2)
    marks.update_many("s", ("0", "1"), 20 * S * np.ones(2, np.int64), 0, 0)
    marks.update("s", "0", 50 * S, 0, 6_000)
    assert marks.watermark() == 20_000
    assert marks.find_idle(12_000) == (("s", "1"),)
    assert marks.watermark() == 50_000
    marks.update("s", "1", 15 * S, 0, 13_000)
    assert (marks.is_idle("s", "1"), marks.watermark(), marks.mark("s", "1")) == (False, 50_000, 20_000)
    marks.update("s", "0", 60 * S, 0, 13_000)
    assert marks.watermark() == 50_000
    marks.update("s", "1", 55 * S, 0, 13_000)
    assert marks.watermark() == 55_000


def test_a_batch_that_wakes_a_slow_partition_is_judged_as_a_whole() -> None:
    marks = tracker(2)
    marks.update_many("s", ("0", "1"), [20 * S, 20 * S], 0, 0)
    marks.mark_idle("s", "1", 0)
    assert marks.watermark() == 20_000
    marks.update("s", "0", 50 * S, 0, 1)
    marks.update("s", "1", 21 * S, 0, 1)
    assert marks.watermark() == 21_000


def test_the_combined_watermark_is_the_smallest_of_the_sources() -> None:
    marks = Marks()
    marks.register("a", 1, now=0)
    marks.register("b", 1, now=0)
    marks.update("a", "0", 100 * S, 0, 0)
    assert (marks.watermark(), marks.source_watermark("a"), marks.source_watermark("b")) == (
        None,
        100_000,
        None,
    )
    marks.update("b", "0", 2 * S, 0, 0)
    assert marks.watermark() == 2_000


def test_a_source_registered_later_holds_the_combined_watermark_where_it_is() -> None:
    marks = tracker(1)
    marks.update("s", "0", 7 * S, 0, 0)
    marks.register("late", 1, now=0)
    marks.update("s", "0", 9 * S, 0, 0)
    assert (marks.watermark(), marks.source_watermark("s")) == (7_000, 9_000)


def test_a_source_registered_later_and_further_behind_does_not_pull_the_combined_watermark_back() -> None:
    marks = tracker(1)
    marks.update("s", "0", 7 * S, 0, 0)
    marks.register("late", 1, now=0)
    marks.update("late", "0", 2 * S, 0, 0)
    assert (marks.watermark(), marks.source_watermark("late")) == (7_000, 2_000)
    marks.update("late", "0", 8 * S, 0, 0)
    marks.update("s", "0", 9 * S, 0, 0)
    assert (marks.watermark(), marks.metrics().advances) == (8_000, 2)


def test_a_source_without_partitions_holds_the_watermark_until_one_is_added_and_delivers() -> None:
    marks = tracker(0)
    assert (marks.find_idle(10**6), marks.watermark()) == ((), None)
    marks.add_partition("s", "0", 0)
    marks.update("s", "0", S, 0, 0)
    assert marks.watermark() == 1_000


def test_a_tracker_without_sources_has_no_watermark() -> None:
    assert (Marks().watermark(), Marks().find_idle(5), Marks().active_count()) == (None, (), 0)


# Idleness


def test_a_partition_is_idle_exactly_at_its_timeout_after_the_last_arrival() -> None:
    marks = tracker(1)
    marks.update("s", "0", S, 0, 4_000)
    assert marks.find_idle(13_999) == ()
    assert marks.find_idle(14_000) == (("s", "0"),)
    assert marks.find_idle(14_000) == ()


def test_an_idle_timeout_of_0_means_that_a_silent_partition_holds_the_watermark_for_ever() -> None:
    marks = tracker(2, idle_timeout_ms=0)
    marks.update_many("s", ("0", "1"), [5 * S, 5 * S], 0, 0)
    marks.update("s", "0", 500 * S, 0, 0)
    assert (marks.find_idle(10**12), marks.watermark()) == ((), 5_000)


def test_the_default_idle_timeout_is_30_seconds() -> None:
    marks = Marks()
    marks.register("s", 1, now=0)
    assert (marks.find_idle(29_999), marks.find_idle(30_000)) == ((), (("s", "0"),))


def test_each_source_has_its_own_idle_timeout() -> None:
    marks = Marks()
    marks.register("slow", 1, now=0, idle_timeout_ms=100)
    marks.register("fast", 1, now=0, idle_timeout_ms=10)
    assert marks.find_idle(10) == (("fast", "0"),)
    assert marks.find_idle(100) == (("slow", "0"),)


def test_a_partition_with_unread_input_does_not_become_idle() -> None:
    marks = tracker(2)
    assert marks.find_idle(10_000, unread={("s", "1")}) == (("s", "0"),)
    assert not marks.is_idle("s", "1")
    assert marks.find_idle(10_001) == (("s", "1"),)


def test_an_idle_partition_with_unread_input_is_active_again_and_holds_the_watermark() -> None:
    marks = tracker(2)
    marks.update_many("s", ("0", "1"), [5 * S, 6 * S], 0, 0)
    marks.find_idle(10_000)
    assert marks.watermark() == 6_000
    marks.update("s", "1", 9 * S, 0, 10_000)
    assert marks.find_idle(10_001, unread=[("s", "0")]) == ()
    assert (marks.is_idle("s", "0"), marks.watermark()) == (False, 6_000)
    assert marks.find_idle(10_002) == (("s", "0"),)
    assert marks.watermark() == 9_000


def test_the_idle_clock_starts_anew_with_the_query_and_what_is_idle_stays_idle() -> None:
    marks = tracker(2)
    marks.mark_idle("s", "1", 0)
    marks.restart_idle_clock(1_000_000)
    assert marks.find_idle(1_009_999) == ()
    assert marks.is_idle("s", "1")
    assert marks.find_idle(1_010_000) == (("s", "0"),)
    assert [row.last_heard_ms for row in marks.rows()] == [1_000_000, 1_000_000]


def test_a_start_on_a_clock_that_was_set_back_does_not_wait_for_the_old_time() -> None:
    marks = tracker(1)
    marks.heard("s", ("0",), 1_000_000)
    assert marks.find_idle(1_000_001) == ()
    marks.restart_idle_clock(500)
    assert (marks.find_idle(10_499), marks.find_idle(10_500)) == ((), (("s", "0"),))


def test_a_partition_marked_active_has_its_whole_timeout_again() -> None:
    marks = tracker(1)
    marks.find_idle(10_000)
    marks.mark_active("s", "0", 12_000)
    assert (marks.is_idle("s", "0"), marks.mark("s", "0")) == (False, None)
    assert (marks.find_idle(21_999), marks.find_idle(22_000)) == ((), (("s", "0"),))


def test_a_partition_marked_idle_no_longer_holds_the_watermark() -> None:
    marks = tracker(2, idle_timeout_ms=0)
    marks.update("s", "0", 5 * S, 0, 0)
    marks.mark_idle("s", "1", 0)
    assert (marks.watermark(), marks.active_count()) == (5_000, 1)


def test_a_clock_that_was_set_back_delays_idleness_and_does_not_hide_it() -> None:
    marks = tracker(1)
    marks.heard("s", ("0",), 100_000)
    marks.heard("s", ("0",), 50_000)
    assert marks.find_idle(60_000) == (("s", "0"),)


def test_idle_partitions_and_rows_come_by_source_and_then_in_the_order_of_the_partitions() -> None:
    marks = Marks()
    marks.register("b", ("y", "x"), now=0)
    marks.register("a", 1, now=0)
    keys = (("a", "0"), ("b", "y"), ("b", "x"))
    assert tuple((row.source, row.partition) for row in marks.rows()) == keys
    assert (marks.sources(), marks.find_idle(30_000)) == (("a", "b"), keys)


# Partitions that come and go


def test_a_new_partition_holds_the_watermark_where_it_is() -> None:
    marks = tracker(1)
    marks.update("s", "0", 5 * S, 0, 0)
    marks.add_partition("s", "1", 3_000)
    marks.update("s", "0", 9 * S, 0, 3_000)
    assert marks.watermark() == 5_000
    assert marks.find_idle(12_999) == ()
    assert marks.find_idle(13_000) == (("s", "0"), ("s", "1"))


def test_a_partition_added_while_all_are_idle_becomes_idle_in_its_turn() -> None:
    marks = tracker(1)
    marks.find_idle(10_000)
    marks.add_partition("s", "1", 20_000)
    assert (marks.find_idle(29_999), marks.find_idle(30_000)) == ((), (("s", "1"),))


def test_removing_the_slowest_partition_lets_the_watermark_advance() -> None:
    marks = tracker(3)
    marks.update_many("s", ("0", "1", "2"), [9 * S, 2 * S, 8 * S], 0, 0)
    assert marks.watermark() == 2_000
    marks.remove_partition("s", "1", 0)
    assert (marks.watermark(), marks.partitions("s")) == (8_000, ("0", "2"))


def test_removing_the_partition_that_gave_the_watermark_does_not_pull_it_back() -> None:
    marks = tracker(2)
    marks.update_many("s", ("0", "1"), [9 * S, 2 * S], 0, 0)
    marks.find_idle(10_000)
    marks.remove_partition("s", "0", 10_000)
    assert marks.watermark() == 9_000


def test_a_rebalance_keeps_what_stays_drops_what_went_and_starts_what_is_new() -> None:
    marks = tracker(("a", "b", "c"))
    marks.update_many("s", ("a", "b", "c"), [1 * S, 2 * S, 3 * S], 0, 1_000)
    marks.mark_idle("s", "c", 1_000)
    marks.rebalance("s", ("d", "c", "b"), 2_000)
    assert marks.rows() == (
        MarkRow("s", "d", None, False, 2_000),
        MarkRow("s", "c", 3_000, True, 1_000),
        MarkRow("s", "b", 2_000, False, 1_000),
    )
    assert marks.metrics() == MarksMetrics(total=3, active=2, idle=1, advances=1, rebalances=1)


def test_a_tuple_of_names_used_before_a_rebalance_is_looked_up_again_after_it() -> None:
    marks = tracker(("a", "b"))
    pair = ("b",)
    everyone = marks.partitions("s")
    marks.update_many("s", pair, [1 * S], 0, 0)
    marks.rebalance("s", ("b", "a"), 0)
    marks.update_many("s", pair, [2 * S], 0, 0)
    marks.update_many("s", everyone, [3 * S, 1 * S], 0, 0)
    assert (marks.mark("s", "a"), marks.mark("s", "b")) == (3_000, 2_000)


def test_a_partition_that_was_removed_and_comes_back_starts_without_a_mark() -> None:
    marks = tracker(("a", "b"))
    marks.update("s", "a", 5 * S, 0, 0)
    marks.rebalance("s", ("b",), 0)
    marks.rebalance("s", ("b", "a"), 0)
    assert marks.mark("s", "a") is None


def test_the_metrics_count_partitions_advances_and_rebalances_over_all_sources() -> None:
    marks = Marks()
    marks.register("a", 2, now=0)
    marks.register("b", ("x",), now=0)
    marks.mark_idle("a", "1", 0)
    for second in (1, 2, 2):
        marks.update("a", "0", second * S, 0, 0)
        marks.update("b", "x", second * S, 0, 0)
        marks.watermark()
    marks.rebalance("b", ("x", "y"), 0)
    assert marks.metrics() == MarksMetrics(total=4, active=3, idle=1, advances=2, rebalances=1)


# Bulk


def test_a_partition_named_several_times_in_a_batch_takes_its_largest() -> None:
    marks = tracker(2)
    marks.update_many("s", np.array([1, 0, 1]), [4 * S, 1 * S, 3 * S], [0, 0, 0], 0)
    assert (marks.mark("s", "0"), marks.mark("s", "1")) == (1_000, 4_000)


def test_an_empty_batch_changes_nothing() -> None:
    marks = tracker(2)
    marks.find_idle(10_000)
    before = marks.to_json()
    marks.update_many("s", (), [], 0, 11_000)
    marks.heard("s", np.array([], np.int64), 11_000)
    assert marks.to_json() == before


@pytest.mark.parametrize("times", [[1], [1, 2, 3], [[1, 2]], 1])
def test_another_number_of_event_times_than_of_partitions_is_refused(times: Any) -> None:
    with pytest.raises(InvalidTime, match="2 partitions with event times"):
        tracker(2).update_many("s", ("0", "1"), times, 0, 0)


@pytest.mark.parametrize("dtype", [np.float64, "datetime64[us]", bool])
def test_event_times_of_another_type_are_refused(dtype: Any) -> None:
    with pytest.raises(InvalidTime, match="no int64"):
        tracker(2).update_many("s", ("0", "1"), np.zeros(2).astype(dtype), 0, 0)


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, object])
def test_event_times_in_another_whole_type_count_when_they_fit(dtype: Any) -> None:
    marks = tracker(2)
    marks.update_many("s", ("0", "1"), np.array([3_000, 4_000], dtype), 0, 0)
    assert marks.watermark() == 3
