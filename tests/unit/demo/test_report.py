"""The report: every number it needs is there, and nothing has to be fetched."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser

import pyarrow as pa
import pytest

from headrace.demo import course, figures
from headrace.demo.plain import PlainResult
from headrace.demo.record import Demo, Proof, Sample, Streamed
from headrace.demo.report import page
from headrace.runtime.progress import PartitionMark, Progress
from headrace.runtime.refresh import Refreshed

HOUR_MS = 3_600_000
MIDNIGHT = datetime(2013, 7, 1, 4, tzinfo=UTC)  # in New York
TIME = pa.timestamp("us", "UTC")


def hourly() -> pa.Table:
    """Two carriers at EWR at 08:00 New York time, one at LGA at 09:00, and an hour in which nothing left."""
    at = [MIDNIGHT + timedelta(hours=hour) for hour in (8, 8, 9, 9)]
    return pa.table(
        {
            "origin": ["EWR", "EWR", "LGA", "JFK"],
            "window_start": pa.array(at, TIME),
            "departures": [1, 3, 2, 0],
            "mean_delay": [10.0, 2.0, 7.0, None],
        }
    )


def totals() -> pa.Table:
    return pa.table(
        {
            "carrier": ["SC", "BA"],
            "name": ["Small & Co", "Big Air"],
            "departures": [2, 5],
            "cancellations": [1, 0],
            "mean_delay": [7.0, -1.5],
            "largest_delay": [9, 3],
            "seats_flown": [100, None],
            "unknown_planes": [0, 5],
        }
    )


def flown() -> pa.Table:
    """Three flights of one carrier, of which one never arrived and one was diverted, and one of the other."""
    left = [MIDNIGHT + timedelta(hours=hour) for hour in (8, 9, 10, 11)]
    return pa.table(
        {
            "carrier": ["BA", "BA", "BA", "SC"],
            "departed": pa.array(left, TIME),
            "arrived": pa.array([left[1], None, left[3], left[3] + timedelta(hours=1)], TIME),
            "minutes": [60, None, 60, 60],
            "made_up": [5, None, None, -3],
        }
    )


def by_visibility() -> pa.Table:
    """Two months."""
    return pa.table(
        {
            "visibility": ["under 1", "10 miles", "10 miles"],
            "departures": [1, 3, 1],
            "mean_delay": [40.0, 2.0, 6.0],
        }
    )


def results() -> dict[str, pa.Table]:
    return {
        "hourly": hourly(),
        "carrier_totals": totals(),
        "daily": daily(),
        "flown": flown(),
        "by_visibility": by_visibility(),
    }


def daily() -> pa.Table:
    days = pa.array([MIDNIGHT, MIDNIGHT + timedelta(days=1)], TIME)
    return pa.table({"window_start": days, "departures": [6, 1], "cancellations": [0, 4]})


def samples() -> tuple[Sample, ...]:
    def marks(hour: int) -> tuple[PartitionMark, ...]:
        behind = {"EWR": 0, "JFK": 1, "LGA": 24}
        return tuple(
            PartitionMark("departures", name, (hour - lag) * HOUR_MS, lag * HOUR_MS, False)
            for name, lag in behind.items()
        )

    first = Progress("hourly", 0, 4, 0, 2.0, 76 * HOUR_MS, marks(100), (1, 2, 3, 2))
    tick = Progress("hourly", 1, 0, 3, 0.5, 76 * HOUR_MS, marks(100), (0, 0, 1, 0))
    other = Progress("daily", 0, 4, 0, 1.0, 76 * HOUR_MS, marks(100))
    return (Sample(2.0, first), Sample(2.5, tick), Sample(3.0, other))


@pytest.fixture
def demo() -> Demo:
    return Demo(
        partitions=4,
        months=1,
        deliveries=2,
        streamed=Streamed(
            4, 4.0, samples(), {"late_rows": 0}, (3.0,), Refreshed("planes", 1, 0, 3_322, 1, 0.1)
        ),
        results=results(),
        plain=PlainResult(4, 3, (("EWR", 0), ("JFK", 0), ("LGA", 3)), "", 2),
        proof=Proof("equal", (("hourly", "equal", 4),), 1e-9),
        sql="SELECT 1 < 2",
    )


class Tags(HTMLParser):
    """The tags that are open, and every attribute that could fetch something."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "img"):
            self.open.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_fetches_nothing_and_closes_its_tags(demo: Demo) -> None:
    tags, text = Tags(), page(demo)
    tags.feed(text)
    assert tags.open == []
    assert tags.fetched == []
    assert "<script" not in text
    assert not re.search(r"url\(|@import|https?:", text)


def test_the_page_says_rows_lateness_what_plain_spark_dropped_and_the_verdict(demo: Demo) -> None:
    text = page(demo)
    for fact in (
        "<b>4</b>",
        "<b>0</b>",
        "<b>3</b>",
        "<b>equal</b>",
        "1 &lt; 2",
        "Small &amp; Co",
        "version 1, 3,322 rows",
    ):
        assert fact in text


def test_the_mean_of_an_hour_is_weighted_by_departures_and_in_new_york_time() -> None:
    figure = figures.delay_by_hour(hourly())
    assert figure.columns == ("hour", "EWR", "JFK", "LGA")
    assert figure.rows == (("8:00", "4.0", "–", "–"), ("9:00", "–", "–", "7.0"))


def test_carriers_are_ordered_by_departures() -> None:
    assert [row[0] for row in figures.carriers(totals()).rows] == ["Big Air", "Small & Co"]


def test_the_day_with_most_cancellations_is_named() -> None:
    assert "02 Jul: 4 of 5" in figures.cancellations(daily()).svg


def test_the_mean_of_what_was_made_up_leaves_out_what_never_arrived() -> None:
    figure = figures.made_up(flown(), totals())
    assert figure.rows == (("Big Air", "3", "1", "60", "5.0"), ("Small & Co", "1", "0", "60", "-3.0"))
    assert "1 never arrived" in figure.caption


def test_the_mean_of_a_visibility_is_weighted_by_departures() -> None:
    assert figures.visibility(by_visibility()).rows == (("10 miles", "4", "3.0"), ("under 1", "1", "40.0"))


def test_the_lag_is_that_of_each_partition_in_hours(demo: Demo) -> None:
    assert "LGA: 1 d 0 h behind" in course.lags(demo.streamed).svg


def test_balance_shows_the_batch_that_held_most_state(demo: Demo) -> None:
    (figure,) = course.balance(demo.streamed)
    assert figure.title == "hourly"
    assert figure.caption.startswith("8 rows in batch 0; the fullest partition holds 1.50 of the mean")


def test_a_report_without_gate_and_comparison_leaves_them_out(demo: Demo) -> None:
    bare = Demo(4, 1, 2, demo.streamed, demo.results, None, None, "")
    text = page(bare)
    assert "The gate" not in text
    assert "dropped" not in text


def test_a_run_that_recorded_nothing_still_makes_a_page(demo: Demo) -> None:
    nothing = {name: rows.slice(0, 0) for name, rows in demo.results.items()}
    tags = Tags()
    tags.feed(page(Demo(4, 1, 2, Streamed(0, 0.0, (), {}, ()), nothing, None, None, "")))
    assert tags.open == []
