"""Which checks a result has, and what is known of it from its declaration."""

from __future__ import annotations

import pytest

from expectations.known import columns_of, facts_of, hidden_keys, result_bounds
from expectations.suites import CHECKS, Facts, checks_of
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import Pipeline

DECLARED = """
CREATE STREAM s (k STRING NOT NULL, ts TIMESTAMP, v BIGINT, WATERMARK FOR ts AS ts);
CREATE TABLE ref (k STRING, price BIGINT, PRIMARY KEY (k));
CREATE TABLE r AS """


def pipeline(query: str) -> Pipeline:
    return compile_pipeline(DECLARED + query + ";", name="p")


def facts(query: str, *shown: str) -> Facts:
    compiled = pipeline(query)
    return facts_of(compiled, compiled.result("r"), shown)


def names(known: Facts) -> list[str]:
    return [check.name for check in checks_of(known)]


def test_a_windowed_count_has_every_check() -> None:
    query = "SELECT k, window_start, COUNT(*) AS n FROM s GROUP BY k WINDOW TUMBLING(INTERVAL '1' HOUR)"
    known = facts(query, "k", "window_start", "n")
    assert known.keys == ("k", "window_start", "__window_end")
    assert known.window == ("window_start", "__window_end")
    assert known.not_null == ("k",)
    assert known.counts == ("n",)
    assert names(known) == [name for name, _ in CHECKS if "taken back" not in name]


def test_rows_without_identity_are_counted_and_compared_only() -> None:
    known = facts("SELECT v, v + 1 AS w FROM s", "v", "w")
    assert not known.keyed
    assert names(known) == ["there are as many rows as in the baseline", "each row equals the baseline's"]


def test_a_global_aggregate_is_one_row() -> None:
    known = facts("SELECT COUNT(*) AS n, SUM(v) AS total FROM s", "n", "total")
    assert (known.keyed, known.keys, known.counts) == (True, (), ("n",))
    assert checks_of(known)[0].query.endswith("HAVING COUNT(*) > 1")


def test_a_join_promises_no_not_null_column() -> None:
    query = "SELECT s.k, COUNT(*) AS n FROM s LEFT JOIN ref ON s.k = ref.k GROUP BY s.k"
    assert facts(query, "k", "n").not_null == ()


def test_hidden_group_keys_are_known_by_their_place_in_group_by() -> None:
    result = pipeline("SELECT COUNT(*) AS n FROM s GROUP BY k, upper(k), v").result("r")
    assert sorted(hidden_keys(result).values()) == [0, 1, 2]
    selected = pipeline("SELECT upper(k) AS u, COUNT(*) AS n FROM s GROUP BY k, upper(k)").result("r")
    assert list(hidden_keys(selected).values()) == [0]


def test_renamed_window_columns_are_found() -> None:
    query = "SELECT window_end AS e, window_start AS b, COUNT(*) AS n FROM s GROUP BY WINDOW TUMBLING(INTERVAL '1' HOUR)"
    assert result_bounds(pipeline(query).result("r")) == ("b", "e")
    assert result_bounds(pipeline("SELECT v FROM s").result("r")) is None


def test_a_collected_list_is_a_bag_and_a_sorted_one_is_not() -> None:
    query = "SELECT k, COLLECT_LIST(v) AS bag, ARRAY_SORT(COLLECT_LIST(v)) AS sorted FROM s GROUP BY k"
    assert columns_of(pipeline(query).result("r"), ["k", "bag", "sorted"]).bags == {"bag"}


def test_a_changelog_is_counted_by_its_signs() -> None:
    known = Facts("r", columns=("k",), keys=("k",), net=True, expected_rows=5)
    by_name = {check.name: check.query for check in checks_of(known)}
    assert "each key has one row" not in by_name
    assert "< 0" in by_name["no row is taken back that was not given"]
    assert "'+I', '+U'" in by_name["there are as many rows as in the baseline"]


@pytest.mark.parametrize("check", checks_of(Facts("r", ("k",), True, ("a", "b"), ("k",), ("n",))))
def test_each_query_asks_the_batch(check: object) -> None:
    assert "{batch}" in check.query  # type: ignore[attr-defined]
