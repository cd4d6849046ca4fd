"""The demo's input: all real rows, in an order that never makes one late for its own airport."""

from __future__ import annotations

import csv
import itertools
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.demo import data
from headrace.demo.data import AIRPORTS, Prepared, deliver, partition_folder, prepare
from headrace.errors import Refused

HOUR = timedelta(hours=1)
DEPARTURES_OF_2013 = 336_776
Rows = dict[tuple[int, str], list[tuple[datetime, datetime]]]


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """The whole year in twelve deliveries, none delivered yet."""
    return prepare(tmp_path_factory.mktemp("year"))


@pytest.fixture
def month(tmp_path: Path) -> Prepared:
    """January in four deliveries."""
    return prepare(tmp_path, months=1, deliveries=4)


@pytest.fixture(scope="module")
def year_rows(year: Prepared) -> Rows:
    """(planned, departed) of each row, in the order of the files, by delivery and airport."""
    return {(one.number, airport): departures(path) for one in year.deliveries for airport, path in one.files}


def departures(path: Path) -> list[tuple[datetime, datetime]]:
    """(planned, departed) of each row, in the order of the file."""
    with path.open(newline="", encoding="utf-8") as file:
        return [_times(row) for row in csv.reader(file)]


def _times(row: list[str]) -> tuple[datetime, datetime]:
    planned = datetime.fromisoformat(row[0])
    return planned, planned + timedelta(minutes=int(row[1] or 0))


def in_order(rows: Rows, airport: str) -> list[datetime]:
    """An airport's event times in the order in which they arrive."""
    return [departed for (_, name), part in sorted(rows.items()) if name == airport for _, departed in part]


def test_every_flight_of_the_year_arrives_once(year: Prepared) -> None:
    lines = Counter(
        line for one in year.deliveries for _, path in one.files for line in path.read_text().splitlines()
    )
    assert year.rows == sum(lines.values()) == DEPARTURES_OF_2013
    assert max(lines.values()) == 1
    assert sum(one.rows for one in year.deliveries) == DEPARTURES_OF_2013


def test_each_delivery_has_a_file_for_each_airport_and_no_row_of_another(year: Prepared) -> None:
    origin = data.COLUMNS.index("origin")
    for one in year.deliveries:
        assert [airport for airport, _ in one.files] == list(AIRPORTS)
        for airport, path in one.files:
            with path.open(newline="", encoding="utf-8") as file:
                assert {row[origin] for row in csv.reader(file)} == {airport}


def test_no_row_is_late_for_the_mark_of_its_own_airport(year_rows: Rows) -> None:
    lateness = HOUR
    for airport in AIRPORTS:
        newest = datetime(2012, 1, 1, tzinfo=UTC)
        for departed in in_order(year_rows, airport):
            assert departed.replace(minute=0) + HOUR > newest - lateness
            newest = max(newest, departed)


def test_an_airport_reports_out_of_order_by_less_than_an_hour(year_rows: Rows) -> None:
    for airport in AIRPORTS:
        times = in_order(year_rows, airport)
        newest = list(itertools.accumulate(times, max))
        behind = max(new - departed for new, departed in zip(newest, times, strict=True))
        assert timedelta() < behind < HOUR


def test_laguardia_is_a_day_behind_in_every_delivery_but_the_last(year: Prepared, year_rows: Rows) -> None:
    for one in year.deliveries[:-1]:
        for airport in AIRPORTS:
            newest = max(departed for _, departed in year_rows[one.number, airport])
            assert newest < one.until - data.BEHIND.get(airport, timedelta())


def test_the_first_flight_of_the_day_is_at_five_by_new_yorks_clock_in_winter_and_in_summer(
    year_rows: Rows,
) -> None:
    planned = {at for rows in year_rows.values() for at, _ in rows}
    for day, utc in ((datetime(2013, 1, 10, tzinfo=UTC), 10), (datetime(2013, 7, 4, tzinfo=UTC), 9)):
        assert min(at for at in planned if at > day.replace(hour=6)).hour == utc


def test_a_delivery_appears_under_its_own_name_and_leaves_nothing_behind(month: Prepared) -> None:
    first = month.deliveries[0]
    deliver(month, first)
    for airport, staged in first.files:
        assert not staged.exists()
        assert [path.name for path in partition_folder(month.data, airport).iterdir()] == [staged.name]


def test_reference_keys_are_unique(month: Prepared) -> None:
    for name in data.REFERENCE:
        with (month.data / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            keys = [row[0] for row in csv.reader(file)][1:]
        assert keys
        assert len(keys) == len(set(keys))


def test_fewer_months_hold_only_flights_planned_in_them(month: Prepared) -> None:
    end = datetime(2013, 2, 1, 5, tzinfo=UTC)
    planned = [at for one in month.deliveries for _, path in one.files for at, _ in departures(path)]
    assert max(planned) < end
    assert len(planned) == month.rows == 27_004


@pytest.mark.parametrize(("months", "deliveries"), [(0, 1), (13, 1), (1, 0), (1, 367)])
def test_numbers_out_of_range_are_refused(tmp_path: Path, months: int, deliveries: int) -> None:
    with pytest.raises(Refused):
        prepare(tmp_path, months=months, deliveries=deliveries)
    assert not list(tmp_path.iterdir())
