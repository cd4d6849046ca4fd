"""Window clauses read from the text."""

from __future__ import annotations

import pytest

from expectations.clauses import read_query
from expectations.spans import DAY, Span, Windows, pairs_sql, read_clause, read_function, span_of
from expectations.words import read

SECOND = 1_000_000


def clause(text: str, zone: str = "UTC") -> Windows:
    query = f"SELECT 1 FROM s GROUP BY k {text} HAVING true"
    words = read(query)
    select = read_query(words, 0, len(words)).parts[0]
    assert select.window is not None  # type: ignore[union-attr]
    return read_clause(query, words, select.window, zone)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("written", "span"),
    [
        ("INTERVAL '10' SECOND", Span(micros=10 * SECOND)),
        ("interval 10 seconds", Span(micros=10 * SECOND)),
        ("INTERVAL '10 seconds'", Span(micros=10 * SECOND)),
        ("INTERVAL '0.5' SECOND", Span(micros=SECOND // 2)),
        ("INTERVAL -5 MINUTES", Span(micros=-300 * SECOND)),
        ("INTERVAL 1 WEEK", Span(micros=7 * DAY)),
        ("INTERVAL '2' YEAR", Span(months=24)),
    ],
)
def test_an_interval_is_months_or_microseconds(written: str, span: Span) -> None:
    assert span_of(written) == span


@pytest.mark.parametrize("written", ["INTERVAL '1:30' HOUR TO MINUTE", "INTERVAL 3 LIGHTYEARS", "x"])
def test_another_form_of_interval_is_an_error_and_never_a_guess(written: str) -> None:
    with pytest.raises(ValueError, match="is not of the form"):
        span_of(written)


def test_the_short_sliding_form_takes_the_size_first() -> None:
    found = clause("WINDOW SLIDING(INTERVAL '20' SECOND, INTERVAL '10' SECOND)")
    assert (found.kind, found.size.micros, found.step.micros) == ("sliding", 20 * SECOND, 10 * SECOND)


def test_named_roles_may_come_in_any_order_with_a_time_an_offset_and_a_zone() -> None:
    found = clause(
        "WINDOW HOPPING(t.at, SLIDE INTERVAL '5' SECOND, SIZE INTERVAL '10' SECOND, "
        "OFFSET INTERVAL '2' SECOND, TIME ZONE 'Asia/Kolkata')"
    )
    ten, five, two = (Span(micros=n * SECOND) for n in (10, 5, 2))
    assert found == Windows("sliding", "t.at", ten, five, two, "Asia/Kolkata")


def test_offset_and_zone_may_stand_behind_the_parentheses() -> None:
    found = clause("WINDOW TUMBLING(INTERVAL '1' DAY) OFFSET INTERVAL '5' HOUR TIME ZONE 'America/New_York'")
    assert (found.offset.micros, found.zone) == (5 * 3600 * SECOND, "America/New_York")


def test_the_zone_of_the_pipeline_holds_where_none_is_written() -> None:
    assert clause("WINDOW TUMBLING(INTERVAL '1' DAY)", zone="Europe/Berlin").zone == "Europe/Berlin"


def test_the_table_function_hop_takes_the_slide_first() -> None:
    text = "TABLE(HOP(TABLE s, DESCRIPTOR(ts), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) AS t"
    word, found, end = read_function(text, read(text), 0, "UTC")
    assert text[word.start : word.end] == "s"
    assert (found.time, found.size.micros, found.step.micros) == ("ts", 10 * SECOND, 5 * SECOND)
    assert read(text)[end].says == "AS"


def test_whole_days_follow_the_calendar_only_in_a_zone() -> None:
    day = "WINDOW TUMBLING(INTERVAL '1' DAY)"
    assert "from_utc_timestamp" not in pairs_sql(clause(day), "ts")
    assert "from_utc_timestamp" in pairs_sql(clause(day, zone="America/New_York"), "ts")
    assert "from_utc_timestamp" in pairs_sql(clause("WINDOW TUMBLING(INTERVAL '1' MONTH)"), "ts")


@pytest.mark.parametrize(
    "text",
    [
        "WINDOW TUMBLING(INTERVAL '1' DAY, OFFSET INTERVAL '1' MONTH)",
        "WINDOW SLIDING(INTERVAL '1' MONTH, INTERVAL '1' DAY)",
        "WINDOW CUMULATE(STEP INTERVAL '1' MONTH, SIZE INTERVAL '3' MONTH)",
    ],
)
def test_windows_without_a_plain_form_are_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="month"):
        pairs_sql(clause(text), "ts")
