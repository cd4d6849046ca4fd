"""Comparing a result with what a case expects."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cases.compare import Wanted, match_any_order, match_in_order, same

MOMENT = datetime(2026, 1, 1, 10, 0, 3, 500_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("wanted", "actual"),
    [
        (None, None),
        (1, 1),
        (5, 5.0),
        (5.0, 5),
        (0.1 + 0.2, 0.3),
        (1e12, 1e12 + 100),
        (math.nan, math.nan),
        (math.inf, math.inf),
        (0.0, -0.0),
        ("1.50", Decimal("1.5")),
        (7, Decimal("7.000")),
        (0.1, Decimal("0.1")),
        ("99999999999999999999999999999999999999", Decimal("99999999999999999999999999999999999999")),
        (1_767_261_603.5, MOMENT),
        ("2026-01-01T10:00:03.5Z", MOMENT),
        ("2026-01-01T11:00:03.5+01:00", MOMENT),
        ("2026-01-01T10:00:03.5Z", MOMENT.replace(tzinfo=None)),
        (-11, datetime(1969, 12, 31, 23, 59, 49, tzinfo=UTC)),
        ("2026-01-01", date(2026, 1, 1)),
        ("A", "A"),
        ("A", b"A"),
        (True, True),
        ([1, None, [2.0]], [1, None, [2]]),
        ({"a": 1, "b": None}, {"a": 1, "b": None}),
    ],
)
def test_values_that_are_the_same(wanted: Any, actual: Any) -> None:
    assert same(wanted, actual)


@pytest.mark.parametrize(
    ("wanted", "actual"),
    [
        (None, 0),
        (0, None),
        (None, ""),
        (None, math.nan),
        (True, 1),
        (1, True),
        (1, "1"),
        ("1", 1),
        ("1.0", 1.0),
        (1.0, 1.0 + 1e-8),
        (0.0, 1e-300),
        (math.nan, 0.0),
        (math.inf, -math.inf),
        ("1.5", Decimal("1.51")),
        ("x", Decimal("1")),
        (1_767_261_603, MOMENT),
        ("A", MOMENT),
        (None, MOMENT),
        ("a", "A"),
        ("a", "a "),
        ("\u00e1", "a\u0301"),
        ([1, 2], [2, 1]),
        ([1], [1, 2]),
        ([], None),
        ({"a": 1}, {"a": 1, "b": None}),
    ],
)
def test_values_that_differ(wanted: Any, actual: Any) -> None:
    assert not same(wanted, actual)


def test_rows_are_matched_whatever_their_order() -> None:
    matching = match_any_order([{"k": "A"}, {"k": "B"}], [{"k": "B", "n": 1}, {"k": "A", "n": 2}])
    assert matching.complete
    assert matching.pairs == ((0, 1), (1, 0))


def test_a_partial_row_leaves_the_better_partner_to_the_row_that_needs_it() -> None:
    wanted: list[Wanted] = [{"k": "A"}, {"k": "A", "n": 1}, {"n": 1}]
    actual = [{"k": "A", "n": 1}, {"k": "B", "n": 1}, {"k": "A", "n": 2}]
    assert match_any_order(wanted, actual).complete


def test_two_equal_rows_need_two_rows() -> None:
    matching = match_any_order([{"k": "C"}, {"k": "C"}], [{"k": "C"}])
    assert (matching.missing, matching.extra) == ((1,), ())
    matching = match_any_order([{"k": "C"}], [{"k": "C"}, {"k": "C"}])
    assert (matching.missing, matching.extra) == ((), (1,))


def test_no_rows_expected_and_one_there_is_an_extra_row() -> None:
    assert match_any_order([], [{"k": "A"}]).extra == (0,)


def test_a_column_that_is_not_there_matches_nothing_not_even_null() -> None:
    assert match_any_order([{"m": None}], [{"k": 1}]).missing == (0,)


def test_a_changelog_in_another_order_is_not_the_same() -> None:
    first: Wanted = {"_op": "+I", "n": 1}
    second: Wanted = {"_op": "-D", "n": 1}
    assert match_in_order([first, second], [first, second]).complete
    matching = match_in_order([first, second], [second, first])
    assert len(matching.pairs) == 1
    assert not matching.complete


ROWS = st.lists(
    st.fixed_dictionaries({"k": st.integers(0, 2)}, optional={"n": st.integers(0, 1)}), max_size=7
)
FULL = st.lists(st.fixed_dictionaries({"k": st.integers(0, 2), "n": st.integers(0, 1)}), max_size=7)


def _largest(wanted: Any, actual: Any) -> int:
    """The size of a largest matching, by trying everything."""
    if not wanted:
        return 0
    found = _largest(wanted[1:], actual)
    for j, row in enumerate(actual):
        if all(row[c] == v for c, v in wanted[0].items()):
            found = max(found, 1 + _largest(wanted[1:], actual[:j] + actual[j + 1 :]))
    return found


@given(ROWS.map(lambda rows: rows[:4]), FULL.map(lambda rows: rows[:5]))
def test_the_matching_is_a_largest_one(wanted: Any, actual: Any) -> None:
    matching = match_any_order(wanted, actual)
    assert len(matching.pairs) == _largest(wanted, actual)
    assert len(matching.pairs) + len(matching.missing) == len(wanted)
    assert len(matching.pairs) + len(matching.extra) == len(actual)


@given(FULL, st.randoms())
def test_a_shuffled_result_is_the_same_and_one_row_less_is_not(rows: Any, random: Any) -> None:
    shuffled = random.sample(rows, len(rows))
    assert match_any_order(rows, shuffled).complete
    if rows:
        assert not match_any_order(rows, shuffled[1:]).complete
