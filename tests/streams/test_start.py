"""A query starts although one of its sources, a Python process, is slower than Spark waits for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.runtime.filesource import Files
from headrace.runtime.lake import Lake
from headrace.runtime.sinks import read_result
from headrace.sql.compile import compile_pipeline
from tests.streams.one_run import take

pytestmark = pytest.mark.streams

LONGER_THAN_SPARK_WAITS_S = 11


@pytest.fixture
def slow_at_first(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """The Python of sources sleeps too long when it is started for the first time; gives what it leaves behind then."""
    marker, python = tmp_path / "was-slow", tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\nif [ ! -e {marker} ]; then touch {marker}; sleep {LONGER_THAN_SPARK_WAITS_S}; fi\n"
        f'exec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    context = spark.sparkContext
    before, context.pythonExec = context.pythonExec, str(python)
    spark.dataSource.register(Files)
    yield marker
    context.pythonExec = before
    spark.dataSource.register(Files)


def test_a_source_that_answers_too_late_is_started_again(
    spark: SparkSession, tmp_path: Path, slow_at_first: Path
) -> None:
    pipeline = compile_pipeline(
        "CREATE STREAM s (k STRING); CREATE TABLE r AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;",
        name="slow",
    )
    lake = Lake(str(tmp_path / "lake"))
    take(spark, pipeline, lake, [{"k": "A"}, {"k": "A"}])
    assert slow_at_first.exists()
    assert read_result(lake, pipeline.result("r")).to_pylist() == [{"k": "A", "n": 2}]
