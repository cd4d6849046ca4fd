"""Calls in two steps: what their partial values are, and which calls have none."""

from __future__ import annotations

import pytest

from headrace.sql.nodes import Call
from headrace.sql.partials import Partial, Split, split


def test_a_count_and_an_extreme_are_their_own_partial_values() -> None:
    assert split(Call("n", "count", ()), (), "p") == Split(
        (Partial("p0", "count(1)", "CASE WHEN (1) IS NOT NULL THEN 1L ELSE 0L END", "sum"),), "p0"
    )
    assert split(Call("m", "max", ("v",), where="w"), ("string",), "p") == Split(
        (Partial("p0", "max(CASE WHEN w THEN v END)", "(CASE WHEN w THEN v END)", "max"),), "p0"
    )


def test_a_sum_of_bigint_has_its_two_halves_and_an_average_a_sum_and_a_count() -> None:
    halves = split(Call("s", "sum", ("v",)), ("bigint",), "p")
    assert halves is not None
    assert [(one.name, one.text, one.row, one.merge) for one in halves.partials] == [
        ("p0", "sum(shiftright(v, 22))", "(shiftright(v, 22))", "sum"),
        ("p1", "sum(v & 4194303)", "(v & 4194303)", "sum"),
    ]
    assert halves.whole.startswith(
        "CASE WHEN p0 IS NOT NULL THEN coalesce(TRY_CAST(CAST(p0 AS DECIMAL(38, 0))"
    )
    mean = split(Call("a", "avg", ("v",)), ("int",), "p")
    assert mean is not None
    assert mean.whole == "(p0 / nullif(p1, 0L))"


def test_the_extreme_of_pairs_is_taken_apart_behind_the_merge() -> None:
    pairs = split(Call("b", "min_by", ("v", "o")), ("string", "bigint"), "p")
    assert pairs is not None
    assert pairs.whole == "p0.v"


@pytest.mark.parametrize(
    "call",
    [
        Call("c", "count", ("v",), distinct=True),
        Call("c", "collect_list", ("v",)),
        Call("c", "first_value", ("v",)),
        Call("c", "stddev", ("v",)),
        Call("c", "top_k", ("v", "2")),
        Call("c", "percentile", ("v", "0.5"), where="w"),
        Call("c", "listagg", ("v", "','"), within="ORDER BY v"),
    ],
)
def test_what_is_no_sum_and_no_extreme_has_no_partial_values(call: Call) -> None:
    assert split(call, ("bigint",), "p") is None
