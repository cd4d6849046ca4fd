"""The demo's input: departures, arrivals and weather of 2013, as New York's three airports would have told them.

The rows are those of the package (`headrace.demo.package`), none left out and none made up. What is ours is the
order and the cut:

- An airport reports once an hour what left in that hour, in the order of its timetable. A cancelled flight is
  reported in the hour for which it was planned. So a report is never ahead of what it reports, and the event
  times of one airport are out of order by less than an hour. The flights that left it are reported alike in the hour
  in which they arrived, wherever that was; and the weather once an hour.
- The reports are cut into deliveries: spans of equal length, for each stream one file per airport. What left
  LaGuardia is told `BEHIND` the others, so a delivery's file of its departures ends a day earlier. The last
  delivery holds all that is left.
- The table of planes has two versions: the planes that were built in the year itself are in the second one alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from headrace.demo import package
from headrace.demo.package import COLUMNS, REFERENCE, SECONDS, UTC_SECONDS, YEAR
from headrace.errors import Refused

AIRPORTS = ("EWR", "JFK", "LGA")
BEHIND = {("departures", "LGA"): timedelta(days=1)}
TIMES = {"departures": "planned", "arrivals": "arrived", "weather": "observed"}  # as the files have them
REFRESHED = "planes_new.csv"  # the second version of the planes
WINTER_OFFSET = timedelta(hours=5)  # New York in winter: its midnight is 05:00 UTC


@dataclass(frozen=True, slots=True)
class File:
    """What one airport tells of one stream in a delivery; `path` is where it waits."""

    stream: str
    airport: str
    path: Path
    rows: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """What arrives at one time: of each stream a file per airport, below `Prepared.staged`."""

    number: int  # from 1
    until: datetime  # reports end here, those that are `BEHIND` earlier
    files: tuple[File, ...]

    def of(self, stream: str) -> tuple[File, ...]:
        return tuple(file for file in self.files if file.stream == stream)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Input ready to be delivered. `data` is what `${DATA}` names: reference tables, and what was delivered."""

    data: Path
    staged: Path
    deliveries: tuple[Delivery, ...]

    @property
    def rows(self) -> int:
        return sum(delivery.rows for delivery in self.deliveries)

    @property
    def refreshed(self) -> Path:
        """The next version of the table of planes."""
        return self.data / REFRESHED

    def count(self, stream: str) -> int:
        """How many rows of a stream are delivered in all."""
        return sum(file.rows for delivery in self.deliveries for file in delivery.of(stream))


def prepare(root: Path, *, months: int = 12, deliveries: int = 8) -> Prepared:
    """Write the input of the first `months` months below `root`, nothing delivered yet.

    Raises Refused as `check_request` does, before anything is written.
    """
    source = check_request(months, deliveries)
    data, staged = root / "input", root / "staged"
    for folder in (data, staged):
        for stream in COLUMNS:
            for airport in AIRPORTS:
                partition_folder(folder, stream, airport).mkdir(parents=True, exist_ok=True)
    for name in REFERENCE:
        package.write_reference(source, name, data / f"{name}.csv", before=YEAR if name == "planes" else None)
    package.write_reference(source, "planes", data / REFRESHED)
    cuts = cut_times(months, deliveries)
    return Prepared(data, staged, tuple(_write_deliveries(reports(source, months), cuts, staged)))


def check_request(months: int, deliveries: int) -> Path:
    """The package's data; Refused where it is missing or a number is out of range."""
    if not 1 <= months <= 12:
        raise Refused(f"--months {months}: there is one year of flights", hint="give 1 to 12")
    if not 1 <= deliveries <= 366:
        raise Refused(f"--deliveries {deliveries}", hint="give 1 to 366")
    return package.package_data()


def deliver(prepared: Prepared, delivery: Delivery) -> None:
    """Let one delivery arrive: each file appears whole, under its final name (a rename, no copy)."""
    for file in delivery.files:
        file.path.rename(arrived_at(prepared, file))


def arrived_at(prepared: Prepared, file: File) -> Path:
    """Where a file is once it was delivered."""
    return partition_folder(prepared.data, file.stream, file.airport) / file.path.name


def partition_folder(root: Path, stream: str, airport: str) -> Path:
    return root / stream / f"partition={airport}"


def reports(source: Path, months: int) -> Mapping[str, pa.Table]:
    """Each stream's rows in the order in which they are told, with `reported` (UTC).

    They are what was planned in the first `months` months of the year by New York's winter time, and the weather until then.
    """
    end = pa.scalar(_month_start(months), UTC_SECONDS)
    flights, weather = package.read_flights(source), package.read_weather(source)
    flights = flights.filter(pc.less(flights["planned"], end))
    weather = weather.filter(pc.less(weather["observed"], end))
    arrivals = package.arrivals(flights, package.read_zones(source))
    return {
        "departures": _in_report_order(package.departures(flights), "departed", "planned"),
        "arrivals": _in_report_order(arrivals, "arrived", "day"),
        "weather": weather.append_column("reported", weather["observed"]).sort_by("reported"),
    }


def _in_report_order(rows: pa.Table, time: str, then: str) -> pa.Table:
    """Adds `reported` (the end of the hour of `time`) and sorts by it, then by the timetable."""
    reported = pc.add(pc.floor_temporal(rows[time], unit="hour"), pa.scalar(timedelta(hours=1), SECONDS))
    return rows.append_column("reported", reported).sort_by(
        [(name, "ascending") for name in ("reported", then, "carrier", "flight")]
    )


def cut_times(months: int, deliveries: int) -> tuple[datetime, ...]:
    """The start of the year and the end of each delivery, on whole hours: `deliveries` + 1 times."""
    start, end = _month_start(0), _month_start(months)
    hours = (end - start) // timedelta(hours=1)
    return tuple(start + timedelta(hours=hours * number // deliveries) for number in range(deliveries + 1))


def _write_deliveries(
    told: Mapping[str, pa.Table], cuts: tuple[datetime, ...], staged: Path
) -> Iterator[Delivery]:
    by_airport = {
        (stream, airport): rows.filter(pc.equal(rows["origin"], airport))
        for stream, rows in told.items()
        for airport in AIRPORTS
    }
    last = len(cuts) - 1
    for number, (start, end) in enumerate(pairwise(cuts), 1):
        files = []
        for (stream, airport), all_rows in by_airport.items():
            behind = BEHIND.get((stream, airport), timedelta())
            span = _reported_in(
                all_rows, behind, None if number == 1 else start, None if number == last else end
            )
            path = partition_folder(staged, stream, airport) / f"{number:04}.csv"
            _write_rows(span, stream, path)
            files.append(File(stream, airport, path, span.num_rows))
        yield Delivery(number, end, tuple(files))


def _reported_in(rows: pa.Table, behind: timedelta, start: datetime | None, end: datetime | None) -> pa.Table:
    """The rows that are told after `start` and not after `end`, so long after their report; None is no bound."""
    told = pc.add(rows["reported"], pa.scalar(behind, SECONDS))
    if start is not None:
        rows, told = (part.filter(pc.greater(told, pa.scalar(start, UTC_SECONDS))) for part in (rows, told))
    if end is not None:
        rows = rows.filter(pc.less_equal(told, pa.scalar(end, UTC_SECONDS)))
    return rows


def _write_rows(rows: pa.Table, stream: str, path: Path) -> None:
    """A stream's `COLUMNS` without a header: times in ISO 8601 with Z, nothing for NULL."""
    time = TIMES[stream]
    written = pc.strftime(rows[time], format="%Y-%m-%dT%H:%M:%SZ")
    table = rows.select(COLUMNS[stream]).set_column(0, time, written)
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    pyarrow.csv.write_csv(table, path, write_options=options)


def _month_start(months: int) -> datetime:
    """Midnight, by New York's winter time, after `months` months of the year, in UTC."""
    year, month = divmod(months, 12)
    return datetime(YEAR + year, month + 1, 1, tzinfo=UTC) + WINTER_OFFSET
