"""The text that tells how a result differs from a case."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from headrace.cases.compare import Wanted, match_any_order, match_in_order
from headrace.cases.difference import difference


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second, UTC)


def told(wanted: Any, actual: Any) -> str:
    return difference("r", wanted, actual, match_any_order(wanted, actual), in_order=False)


def test_missing_extra_and_nearly_equal_rows_are_shown_with_the_columns_that_differ() -> None:
    wanted = [{"k": "A", "t": 100, "n": 1}, {"k": "B", "t": 100, "n": 2}, {"k": "C", "t": 300, "n": 3}]
    actual = [
        {"k": "A", "t": at(100), "n": 1, "other": 0},
        {"k": "B", "t": at(100), "n": 5, "other": 0},
        {"k": "Z", "t": at(900), "n": 9, "other": 0},
    ]
    assert told(wanted, actual).splitlines() == [
        "r: 1 of 3 expected rows are there, 3 rows in all",
        "    k  t    n",
        "  - B  100  2",
        "  + B  100  5",
        "            ^",
        "  - C  300  3",
        "  + Z  900  9",
    ]


def test_a_lone_pair_is_compared_column_by_column_even_if_all_differ() -> None:
    assert told([{"n": 10, "m": 1.5}], [{"n": 2, "m": 2.5}]).splitlines()[1:] == [
        "    n   m",
        "  - 10  1.5",
        "  + 2   2.5",
        "    ^^  ^^^",
    ]


def test_times_are_shown_as_the_case_writes_them() -> None:
    wanted = [{"t": "2026-01-01T10:00:00Z", "u": 1}]
    actual = [{"t": datetime(2026, 1, 1, 11, tzinfo=UTC), "u": at(2)}]
    assert "  + 2026-01-01T11:00:00Z  2" in told(wanted, actual)


def test_null_nan_blanks_and_arrays_can_be_told_apart() -> None:
    lines = told([], [{"a": None, "b": math.nan, "c": "", "d": "a ", "e": [1, None], "f": True}]).splitlines()
    assert lines[-1] == '  + NULL  NaN  ""  "a "  [1, NULL]  true'


def test_a_column_that_the_result_does_not_have_is_named() -> None:
    assert "  r has no column 'totl'; did you mean 'total'?" in told([{"totl": 1}], [{"total": 1}])


def test_a_changelog_keeps_the_rows_that_agree_in_between() -> None:
    wanted: list[Wanted] = [{"_op": "+I", "n": 1}, {"_op": "-U", "n": 1}, {"_op": "+U", "n": 2}]
    actual = [{"_op": "+I", "n": 1}, {"_op": "+U", "n": 2}, {"_op": "-D", "n": 2}]
    text = difference("r", wanted, actual, match_in_order(wanted, actual), in_order=True)
    assert text.splitlines()[1:] == ["    _op  n", "    +I   1", "  - -U   1", "    +U   2", "  + -D   2"]
