"""One Spark session for all of tests/streams: a JVM takes seconds to start and needs some batches to get warm."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from headrace.cases.run import case_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = case_session("headrace tests")
    yield session
    session.stop()
