"""Every case file, each case with N = 1 and 4 and, where it allows it, with all batches joined into one. Of what was
found besides the shared cases, each with N = 1 batch by batch and with N = 4 joined: two runs that differ in both.

A case in pending.txt must fail, and speaks up when it passes: the list only shrinks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.cases.case import Case, Variant
from headrace.cases.pending import FILE, broken_promise, missing_feature, read_pending
from headrace.cases.read import read_file
from headrace.cases.run import run_case, variants

TESTS = Path(__file__).parents[1]
FOLDER, OWN = TESTS / "cases", TESTS / "own_cases"  # the shared ones, and what was found besides
PENDING = read_pending((FOLDER / FILE).read_text(encoding="utf-8"))
SHARED = {path.name: read_file(path) for path in sorted(FOLDER.glob("*.yaml"))}
CASES = {**SHARED, **{f"own {path.name}": read_file(path) for path in sorted(OWN.glob("*.yaml"))}}
PARTITIONS = (1, 4)


def _runs() -> Iterator[object]:
    for file, cases in CASES.items():
        for case in cases:
            several = variants(case, PARTITIONS)
            for variant in several if file in SHARED else (several[0], several[-1]):
                yield pytest.param(case, variant, id=f"{file.removesuffix('.yaml')}: {case.name}: {variant}")


@pytest.mark.streams
@pytest.mark.parametrize(("case", "variant"), tuple(_runs()))
def test_the_case_holds(spark: SparkSession, case: Case, variant: Variant) -> None:
    report = run_case(spark, case, variant.partitions, variant.joined)
    feature = missing_feature(PENDING, case)
    problem = broken_promise(report, feature) if feature else report.failure
    if problem:
        pytest.fail(problem, pytrace=False)


def test_pending_names_only_cases_that_there_are() -> None:
    known = {(file, case.name) for file, cases in SHARED.items() for case in cases}
    assert set(PENDING) <= known
