"""A short seeded run of the fuzzer: the stream against the single-partition baseline. `make fuzz` runs longer."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.sql.compile import compile_pipeline
from tests.fuzz.pipelines import FROM, Fuzzed, Query, drawn
from tests.fuzz.run import Outcome, outcome

SEEDS = range(4)


@pytest.mark.streams
@pytest.mark.parametrize("seed", SEEDS)
def test_a_fuzzed_pipeline_gives_what_the_baseline_gives(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    assert outcome(spark, drawn(seed), tmp_path) == Outcome()


@pytest.mark.streams
def test_the_baseline_finds_what_is_greater_where_all_is_nan(spark: SparkSession, tmp_path: Path) -> None:
    query = Query("r", "TABLE", ("v",), ("COUNT(*)",), where="v > 0")  # seed 627
    rows = (("s", 0, ({"v": float("nan"), "ts": FROM + 8},)),)
    fuzzed = Fuzzed(0, (("v", "DOUBLE"),), 0, (query,), (rows,), frozenset(), 1)
    assert outcome(spark, fuzzed, tmp_path) == Outcome()


@pytest.mark.parametrize("seed", range(100))
def test_whatever_is_drawn_compiles_and_is_drawn_again(seed: int) -> None:
    assert repr(drawn(seed)) == repr(drawn(seed))
    assert compile_pipeline(drawn(seed).sql).results
