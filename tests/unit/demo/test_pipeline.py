"""The demo's pipeline agrees with the input that is written for it, and with the comparison."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from headrace.demo import data, plain
from headrace.demo.run import PIPELINE
from headrace.event_time.interval import Interval
from headrace.sql.compile import compile_file
from headrace.sql.nodes import Pipeline


@pytest.fixture(scope="module")
def flights() -> Pipeline:
    return compile_file(PIPELINE, {"DATA": "somewhere"})


def test_the_stream_has_the_columns_of_its_files_in_their_order(flights: Pipeline) -> None:
    assert tuple(column.name for column in flights.stream("departures").physical) == data.COLUMNS


def test_plain_spark_reads_the_same_columns_and_is_as_patient(flights: Pipeline) -> None:
    stream = flights.stream("departures")
    declared = ", ".join(f"{column.name} {column.type}" for column in stream.physical)
    assert declared == plain.SCHEMA
    assert stream.watermark is not None
    assert stream.watermark.lateness == Interval(micros=3_600_000_000)
    assert plain.LATENESS == "1 hour"  # the same, in Spark's words


def test_each_reference_table_names_columns_that_its_file_has(flights: Pipeline, tmp_path: Path) -> None:
    for table in flights.tables:
        data.write_reference(data.package_data(), table.name, tmp_path)
        with (tmp_path / f"{table.name}.csv").open(newline="", encoding="utf-8") as file:
            assert next(csv.reader(file)) == [column.name for column in table.columns]


def test_there_is_a_final_a_changing_and_a_keyless_result(flights: Pipeline) -> None:
    told = {result.name: (result.emit, result.keys) for result in flights.results}
    assert told["hourly"][0] == "final"
    assert told["carrier_totals"] == ("changes", ("carrier", "name"))
    assert told["daily"] == ("final", ("window_start", "window_end"))
    assert flights.setting("state.partitions") == "4"
