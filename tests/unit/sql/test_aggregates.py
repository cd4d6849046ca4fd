"""How aggregate calls become text for Spark."""

from __future__ import annotations

import pytest

from headrace.sql.aggregates import AGGREGATES, lower_call, takes_distinct
from headrace.sql.functions import groups, is_aggregate
from headrace.sql.nodes import Call


def call(function: str, *arguments: str, **parts: object) -> Call:
    return Call("__agg0", function, arguments, **parts)  # type: ignore[arg-type]


def test_every_row_is_an_aggregate_that_may_be_called() -> None:
    assert all(is_aggregate(name) for name in AGGREGATES)


@pytest.mark.parametrize("name", [name for name in AGGREGATES if name != "top_k"])
def test_every_row_filters_its_rows(name: str) -> None:
    text = lower_call(call(name, "x", *(("y",) if name.endswith("_by") else ()), where="w > 1"))
    assert "w > 1" in text
    assert "FILTER" not in text


def test_an_aggregate_without_a_row_is_spark_s_own() -> None:
    text = lower_call(call("regr_slope", "y", "x", where="w"))
    assert text == "regr_slope(y, x) FILTER (WHERE w)"


def test_count_distinct_is_the_size_of_a_set() -> None:
    assert lower_call(call("count", "x", distinct=True)) == "CAST(size(collect_set(x)) AS BIGINT)"


def test_minus_zero_and_zero_are_one_value_of_a_set() -> None:
    text = lower_call(call("count", "x", distinct=True), ["double"])
    assert text == "CAST(size(collect_set((x + CAST(0 AS DOUBLE)))) AS BIGINT)"


def test_a_row_with_a_null_among_several_columns_is_not_counted() -> None:
    text = lower_call(call("count", "a", "b OR c", distinct=True))
    assert (
        text
        == "CAST(size(collect_set(CASE WHEN a IS NOT NULL AND (b OR c) IS NOT NULL THEN struct(a, b OR c) END)) AS BIGINT)"
    )


def test_a_sum_of_bigint_is_kept_in_two_halves() -> None:
    text = lower_call(call("sum", "x"), ["bigint"])
    assert "sum(shiftright(x, 22))" in text
    assert "AS BIGINT)" in text


def test_the_error_of_a_sum_names_it_and_its_group() -> None:
    text = lower_call(call("sum", "x || 'it'"), ["decimal(38,2)"], "'k = ' || k")
    assert r"raise_error(concat('overflow: ', concat('SUM(x || \'it\')', ' for ', 'k = ' || k)" in text


@pytest.mark.parametrize("kind", ["int", "smallint", "double", "decimal(9,2)", ""])
def test_any_other_sum_is_native(kind: str) -> None:
    assert lower_call(call("sum", "x"), [kind]) == "sum(x)"


def test_the_last_value_goes_by_event_time_partition_and_offset() -> None:
    text = lower_call(call("last_value", "x"))
    assert text == "max_by(x, struct(_event_time, _partition, _offset))"


def test_ignore_nulls_leaves_rows_without_a_value_out() -> None:
    text = lower_call(call("first_value", "x", "TRUE", where="w"))
    assert (
        text == "min_by(x, CASE WHEN (w) AND x IS NOT NULL THEN struct(_event_time, _partition, _offset) END)"
    )


@pytest.mark.parametrize(
    "kind", ["int", "bigint", "double", "decimal(9,2)", "timestamp", "date", "boolean", "string"]
)
def test_ties_of_max_by_take_the_smallest_value(kind: str) -> None:
    assert lower_call(call("max_by", "v", "o"), ["string", kind]).startswith("min(CASE WHEN o IS NOT NULL")


def test_top_k_keeps_no_more_than_k() -> None:
    assert lower_call(call("top_k", "x", "3")) == "coalesce(max_by(x, x, 3), array())"


def test_distinct_without_a_row_is_a_fault() -> None:
    assert not takes_distinct("corr")
    with pytest.raises(ValueError, match="DISTINCT"):
        lower_call(call("corr", "x", "y", distinct=True))


def test_the_list_of_functions_is_spark_s() -> None:
    assert len(groups()) > 500
    assert {"sum": "agg_funcs", "explode": "generator_funcs"}.items() <= groups().items()
