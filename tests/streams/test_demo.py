"""What plain Spark drops on the demo's input is what its rule for one global watermark says."""

from __future__ import annotations

import csv
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.demo.data import Delivery, deliver, prepare
from headrace.demo.plain import run_plain

pytestmark = pytest.mark.streams

HOUR = timedelta(hours=1)


def departed(path: Path) -> list[datetime]:
    with path.open(newline="", encoding="utf-8") as file:
        return [
            datetime.fromisoformat(row[0]) + timedelta(minutes=int(row[1] or 0)) for row in csv.reader(file)
        ]


def behind(deliveries: tuple[Delivery, ...]) -> dict[str, int]:
    """Rows whose hour had ended an hour before the newest departure of all deliveries before theirs."""
    lost: dict[str, int] = {}
    newest: datetime | None = None
    for one in deliveries:
        arrived = {file.airport: departed(file.path) for file in one.of("departures")}
        for airport, times in arrived.items():
            late = [at for at in times if newest and at.replace(minute=0) + HOUR <= newest - HOUR]
            lost[airport] = lost.get(airport, 0) + len(late)
        newest = max([*([newest] if newest else []), *(at for times in arrived.values() for at in times)])
    return lost


def test_plain_spark_drops_exactly_the_rows_behind_its_global_watermark(
    spark: SparkSession, tmp_path: Path
) -> None:
    prepared = prepare(tmp_path, months=1, deliveries=3)
    expected = behind(prepared.deliveries)
    for one in prepared.deliveries:
        deliver(prepared, one)
    found = run_plain(spark, prepared, tmp_path / "plain")
    assert dict(found.by_airport) == expected
    assert found.dropped == expected["LGA"] > 0
    assert found.rows == prepared.count("departures")
