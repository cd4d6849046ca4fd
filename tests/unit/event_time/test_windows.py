"""Windows in Python and as text for Spark; that both agree is shown with Spark in tests/streams."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.event_time.interval import DAY_US, EPOCH, Interval
from headrace.event_time.windows import Windows, last_end, window_struct, windows_of

SECOND = 1_000_000
unhurried = settings(deadline=None)  # a busy machine breaks no law
ZONES = (
    "UTC",
    "America/New_York",
    "Asia/Kolkata",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",
    "Europe/London",
)
micros = st.integers(min_value=-60 * 365 * DAY_US, max_value=120 * 365 * DAY_US)
spans = st.integers(min_value=1, max_value=400).map(lambda seconds: Interval(0, seconds * SECOND))
days = st.integers(min_value=1, max_value=9).map(lambda number: Interval(0, number * DAY_US))
months = st.integers(min_value=1, max_value=14).map(Interval)


@st.composite
def windows(draw: st.DrawFn) -> Windows:
    sizes = draw(st.sampled_from([spans, days, months]))
    kind = draw(st.sampled_from(["tumbling", "sliding", "cumulate"]))
    slide = draw(sizes)
    size = draw(sizes)
    if kind == "cumulate":
        times = draw(st.integers(min_value=1, max_value=9))
        size = Interval(slide.months * times, slide.micros * times)
    offset = Interval(0, draw(st.integers(min_value=-7200, max_value=7200)) * SECOND)
    return Windows(kind, size, slide, offset, draw(st.sampled_from(ZONES)))  # type: ignore[arg-type]


def at(text: str) -> int:
    return (datetime.fromisoformat(text).replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)


@unhurried
@given(windows(), micros)
def test_every_window_of_a_row_holds_it(which: Windows, moment: int) -> None:
    assert all(start <= moment < end for start, end in windows_of(which, moment))


@unhurried
@given(windows(), micros)
def test_the_windows_of_a_row_are_in_order_and_none_comes_twice(which: Windows, moment: int) -> None:
    found = windows_of(which, moment)
    assert list(found) == sorted(set(found))


@unhurried
@given(windows(), micros)
def test_a_row_has_one_tumbling_window_and_as_many_sliding_ones_as_fit(which: Windows, moment: int) -> None:
    count = len(windows_of(which, moment))
    size, slide, _ = which.numbers
    if which.kind == "tumbling":
        assert count == 1
    if which.kind == "sliding":
        assert size // slide <= count <= -(-size // slide)


@unhurried
@given(windows(), micros)
def test_the_first_instant_of_a_window_has_that_window_too(which: Windows, moment: int) -> None:
    for start, end in windows_of(which, moment):
        if which.kind != "cumulate":
            assert (start, end) in windows_of(which, start)


@unhurried
@given(windows(), micros)
def test_the_end_of_a_window_is_no_part_of_it(which: Windows, moment: int) -> None:
    for window in windows_of(which, moment):
        assert window not in windows_of(which, window[1])


@unhurried
@given(days, st.sampled_from(ZONES), micros)
def test_calendar_days_begin_at_local_midnight_or_after_the_gap_that_took_it(
    size: Interval, zone: str, moment: int
) -> None:
    for start, _ in windows_of(Windows("tumbling", size, zone=zone), moment):
        local = (EPOCH + timedelta(microseconds=start)).astimezone(ZoneInfo(zone))
        before = (EPOCH + timedelta(microseconds=start - 1)).astimezone(ZoneInfo(zone))
        assert local.date() > before.date()


def test_a_day_may_have_23_and_25_hours() -> None:
    day = Windows("tumbling", Interval(0, DAY_US), zone="America/New_York")
    spring, autumn = windows_of(day, at("2026-03-08T12:00")), windows_of(day, at("2026-11-01T12:00"))
    assert [(end - start) // 3_600_000_000 for start, end in (*spring, *autumn)] == [23, 25]


def test_hours_of_a_zone_that_is_half_an_hour_off_begin_at_the_half_hour() -> None:
    hour = Windows("tumbling", Interval(0, 3600 * SECOND), zone="Asia/Kolkata")
    assert windows_of(hour, at("2026-05-05T10:29:59")) == ((at("2026-05-05T09:30"), at("2026-05-05T10:30")),)


def test_months_are_calendar_months() -> None:
    month = Windows("tumbling", Interval(1))
    assert windows_of(month, at("2024-02-29T23:59")) == ((at("2024-02-01T00:00"), at("2024-03-01T00:00")),)


def test_a_sliding_window_with_gaps_may_miss_a_row() -> None:
    gaps = Windows("sliding", Interval(0, 3 * SECOND), Interval(0, 10 * SECOND))
    assert windows_of(gaps, 2 * SECOND)
    assert not windows_of(gaps, 3 * SECOND)


def text(which: Windows, shift_us: int = 0) -> str:
    return window_struct(which.kind, which.size, which.slide, which.offset, which.zone, "ts", shift_us)


def test_a_tumbling_window_in_utc_is_one_remainder() -> None:
    assert text(Windows("tumbling", Interval(0, 10 * SECOND)), 7) == (
        "named_struct('start', timestamp_micros(unix_micros(ts) - pmod(unix_micros(ts), 10000000) + 7), "
        "'end', timestamp_micros(unix_micros(ts) - pmod(unix_micros(ts), 10000000) + 10000000 + 7))"
    )


def test_only_calendar_windows_of_a_zone_look_at_the_zone() -> None:
    zone = "America/New_York"
    assert zone not in text(Windows("tumbling", Interval(0, 3600 * SECOND), zone=zone))
    assert zone in text(Windows("tumbling", Interval(0, DAY_US), zone=zone))
    assert zone in text(Windows("tumbling", Interval(1), zone=zone))


def test_a_few_windows_stand_one_by_one_and_many_in_a_lambda() -> None:
    few = Windows("sliding", Interval(0, 60 * SECOND), Interval(0, 10 * SECOND))
    many = Windows("sliding", Interval(0, 6000 * SECOND), Interval(0, 10 * SECOND))
    assert text(few).count("named_struct") == 6
    assert "transform" in text(many)


def test_a_session_is_no_function_of_one_row() -> None:
    with pytest.raises(ValueError, match="session"):
        text(Windows("session", Interval(0, SECOND)))


def test_the_last_end_of_a_row_without_a_window_is_null() -> None:
    gaps = last_end("sliding", Interval(0, SECOND), Interval(0, 9 * SECOND), Interval(), "UTC", "ts")
    assert gaps.startswith("CASE WHEN pmod(unix_micros(ts), 9000000) < 1000000 THEN")
