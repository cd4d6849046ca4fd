"""The demo's input: all real rows, in an order that never makes one late for its own airport.

Arrivals are where the clocks of their airports and the times in the air say that they are.
"""

from __future__ import annotations

import csv
import io
import itertools
import zipfile
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.demo import package
from headrace.demo.data import AIRPORTS, Delivery, Prepared, arrived_at, deliver, prepare
from headrace.errors import Refused

HOUR = timedelta(hours=1)
ROWS_OF_2013 = {"departures": 336_776, "arrivals": 328_063, "weather": 26_115}
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
    return {(one.number, airport): departures(path) for one in year.deliveries for airport, path in told(one)}


def told(delivery: Delivery, stream: str = "departures") -> list[tuple[str, Path]]:
    """(airport, file) of one stream in a delivery."""
    return [(file.airport, file.path) for file in delivery.of(stream)]


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


@pytest.mark.parametrize("stream", ROWS_OF_2013)
def test_every_row_of_the_year_arrives_once(year: Prepared, stream: str) -> None:
    lines = Counter(
        line
        for one in year.deliveries
        for _, path in told(one, stream)
        for line in path.read_text().splitlines()
    )
    assert year.count(stream) == sum(lines.values()) == ROWS_OF_2013[stream]
    assert max(lines.values()) == 1
    assert year.rows == sum(one.rows for one in year.deliveries) == sum(ROWS_OF_2013.values())


@pytest.mark.parametrize("stream", ROWS_OF_2013)
def test_each_delivery_has_a_file_for_each_airport_and_no_row_of_another(year: Prepared, stream: str) -> None:
    origin = package.COLUMNS[stream].index("origin")
    for one in year.deliveries:
        assert [airport for airport, _ in told(one, stream)] == list(AIRPORTS)
        for airport, path in told(one, stream):
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
            assert newest < one.until - (timedelta(days=1) if airport == "LGA" else timedelta())


@pytest.mark.parametrize("stream", ["arrivals", "weather"])
def test_arrivals_and_weather_of_all_airports_come_at_once_and_within_their_lateness(
    year: Prepared, stream: str
) -> None:
    lateness = HOUR if stream == "arrivals" else timedelta()
    for airport in AIRPORTS:
        newest, ends = datetime(2012, 1, 1, tzinfo=UTC), datetime(2012, 1, 1, tzinfo=UTC)
        for one in year.deliveries:
            (path,) = (path for name, path in told(one, stream) if name == airport)
            with path.open(newline="", encoding="utf-8") as file:
                times = [datetime.fromisoformat(row[0]) for row in csv.reader(file)]
            assert min(times) > ends - HOUR
            for at in times:
                assert at >= newest - lateness
                newest = max(newest, at)
            assert newest <= one.until or one is year.deliveries[-1]
            ends = one.until


def test_an_arrival_is_when_its_airports_clock_said_so_after_the_time_in_the_air(year: Prepared) -> None:
    """Between both ends of a flight lie its minutes in the air and some on the ground, in each of eight time zones."""
    keys, arrived = ("carrier", "flight", "tailnum", "day", "origin"), {}
    for one in year.deliveries:
        for _, path in told(one, "arrivals"):
            with path.open(newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file, package.COLUMNS["arrivals"]):
                    arrived[tuple(row[key] for key in keys)] = datetime.fromisoformat(row["arrived"])
    assert len(arrived) == ROWS_OF_2013["arrivals"]  # the keys of the join are one flight's
    with zipfile.ZipFile(package.package_data() / "flights.csv.zip") as archive:
        text = io.StringIO(archive.read("flights.csv").decode())
    ground = []
    for row in csv.DictReader(text):
        day = f"{row['year']}-{int(row['month']):02}-{int(row['day']):02}"
        at = arrived.pop((row["carrier"], row["flight"], row["tailnum"], day, row["origin"]), None)
        if at is not None and row["air_time"] not in ("", "NA"):
            hour = datetime.fromisoformat(row["time_hour"])
            left = hour + timedelta(minutes=int(row["minute"]) + int(row["dep_delay"]))
            ground.append(at - left - timedelta(minutes=int(row["air_time"])))
    assert not arrived
    assert len(ground) == 327_346
    assert timedelta(minutes=5) == min(ground) < max(ground) == timedelta(minutes=235)


def test_the_first_flight_of_the_day_is_at_five_by_new_yorks_clock_in_winter_and_in_summer(
    year_rows: Rows,
) -> None:
    planned = {at for rows in year_rows.values() for at, _ in rows}
    for day, utc in ((datetime(2013, 1, 10, tzinfo=UTC), 10), (datetime(2013, 7, 4, tzinfo=UTC), 9)):
        assert min(at for at in planned if at > day.replace(hour=6)).hour == utc


def test_a_delivery_appears_under_its_own_name_and_leaves_nothing_behind(month: Prepared) -> None:
    first = month.deliveries[0]
    deliver(month, first)
    assert len(first.files) == 9
    for file in first.files:
        assert not file.path.exists()
        assert [path.name for path in arrived_at(month, file).parent.iterdir()] == [file.path.name]


def reference(path: Path) -> list[str]:
    """The keys of a reference table."""
    with path.open(newline="", encoding="utf-8") as file:
        return [row[0] for row in csv.reader(file)][1:]


def test_reference_keys_are_unique(month: Prepared) -> None:
    for name in package.REFERENCE:
        keys = reference(month.data / f"{name}.csv")
        assert keys
        assert len(keys) == len(set(keys))


def test_the_planes_that_were_built_in_the_year_come_with_the_second_version_alone(month: Prepared) -> None:
    first, second = reference(month.data / "planes.csv"), reference(month.refreshed)
    assert set(first) < set(second)
    assert (len(first), len(second)) == (3_230, 3_322)


def test_fewer_months_hold_only_flights_planned_in_them(month: Prepared) -> None:
    end = datetime(2013, 2, 1, 5, tzinfo=UTC)
    planned = [at for one in month.deliveries for _, path in told(one) for at, _ in departures(path)]
    assert max(planned) < end
    assert len(planned) == month.count("departures") == 27_004


@pytest.mark.parametrize(("months", "deliveries"), [(0, 1), (13, 1), (1, 0), (1, 367)])
def test_numbers_out_of_range_are_refused(tmp_path: Path, months: int, deliveries: int) -> None:
    with pytest.raises(Refused):
        prepare(tmp_path, months=months, deliveries=deliveries)
    assert not list(tmp_path.iterdir())
