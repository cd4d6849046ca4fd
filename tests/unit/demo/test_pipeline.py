"""The demo's pipeline agrees with the input that is written for it, and with the comparison."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from headrace.demo import package, plain
from headrace.demo.run import PIPELINE
from headrace.event_time.interval import Interval
from headrace.sql.compile import compile_file
from headrace.sql.nodes import JoinAsOf, JoinStreams, Pipeline, Scan, walk


@pytest.fixture(scope="module")
def flights() -> Pipeline:
    return compile_file(PIPELINE, {"DATA": "somewhere"})


@pytest.mark.parametrize("name", package.COLUMNS)
def test_a_stream_has_the_columns_of_its_files_in_their_order(flights: Pipeline, name: str) -> None:
    assert tuple(column.name for column in flights.stream(name).physical) == package.COLUMNS[name]


def test_plain_spark_reads_the_same_columns_and_is_as_patient(flights: Pipeline) -> None:
    stream = flights.stream("departures")
    declared = ", ".join(f"{column.name} {column.type}" for column in stream.physical)
    assert declared == plain.SCHEMA
    assert stream.watermark is not None
    assert stream.watermark.lateness == Interval(micros=3_600_000_000)
    assert plain.LATENESS == "1 hour"  # the same, in Spark's words


def test_each_reference_table_names_columns_that_its_file_has(flights: Pipeline, tmp_path: Path) -> None:
    for table in flights.tables:
        package.write_reference(package.package_data(), table.name, tmp_path / "rows.csv")
        with (tmp_path / "rows.csv").open(newline="", encoding="utf-8") as file:
            assert next(csv.reader(file)) == [column.name for column in table.columns]


def test_there_is_a_final_a_changing_and_a_keyless_result(flights: Pipeline) -> None:
    told = {result.name: (result.emit, result.keys) for result in flights.results}
    assert told["hourly"][0] == "final"
    assert told["carrier_totals"] == ("changes", ("carrier", "name"))
    assert told["daily"] == ("final", ("window_start", "window_end"))
    assert flights.setting("state.partitions") == "4"


def test_there_is_a_join_within_a_time_one_as_of_and_a_result_that_reads_on(flights: Pipeline) -> None:
    nodes = {result.name: list(walk(result.plan)) for result in flights.results}
    (within,) = (node for node in nodes["flown"] if isinstance(node, JoinStreams))
    assert (within.kind, len(within.keys)) == ("left", 5)
    (as_of,) = (node for node in nodes["in_weather"] if isinstance(node, JoinAsOf))
    assert as_of.kind == "left"
    assert [node.stream for node in nodes["by_visibility"] if isinstance(node, Scan)] == ["in_weather"]
