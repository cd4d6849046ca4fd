"""What can be partitioned, and how."""

from __future__ import annotations

import pytest

from headrace.sql.classify import BY_SOURCE, EVERYWHERE, ONE, edges
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import Aggregate, Distinct, JoinTable, Result

STREAM = (
    "CREATE STREAM s (k STRING, ts TIMESTAMP, v BIGINT, WATERMARK FOR ts AS ts);"
    "CREATE TABLE t (k STRING, label STRING, PRIMARY KEY (k));"
)


def result(query: str) -> Result:
    return compile_pipeline(f"{STREAM} CREATE TABLE r AS {query};").results[0]


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("SELECT k FROM s WHERE v > 1", ("passthrough",)),
        ("SELECT k, COUNT(*) AS n FROM s GROUP BY k", ("fully_partitionable",)),
        (
            "SELECT k, COUNT(*) AS n FROM s GROUP BY k WINDOW TUMBLING(INTERVAL '1' HOUR)",
            ("fully_partitionable",),
        ),
        ("SELECT COUNT(*) AS n FROM s", ("two_phase",)),
        ("SELECT COUNT(*) AS n FROM s GROUP BY WINDOW TUMBLING(INTERVAL '1' HOUR)", ("two_phase",)),
        ("SELECT DISTINCT k FROM s", ("fully_partitionable",)),
        ("SELECT s.k, label FROM s JOIN t ON s.k = t.k", ("broadcast_join",)),
        (
            "SELECT label, COUNT(*) AS n FROM s JOIN t ON s.k = t.k GROUP BY label",
            ("broadcast_join", "fully_partitionable"),
        ),
    ],
)
def test_the_kinds_of_a_result(query: str, kinds: tuple[str, ...]) -> None:
    assert result(query).kinds == kinds


def arriving(query: str, kind: type) -> list[tuple[str, bool]]:
    return [
        (one.partitioning, bool(one.why)) for one in edges(result(query).plan) if isinstance(one.parent, kind)
    ]


def test_groups_are_hashed_by_key_and_window_and_it_is_said_why() -> None:
    query = "SELECT k, v, COUNT(*) AS n FROM s GROUP BY k, v WINDOW TUMBLING(INTERVAL '1' HOUR)"
    assert arriving(query, Aggregate) == [("hash(k, v, window) % N", True)]


def test_a_global_aggregate_ends_in_one_partition() -> None:
    assert arriving("SELECT COUNT(*) AS n FROM s", Aggregate) == [(ONE, True)]


def test_distinct_rows_are_hashed_by_all_columns() -> None:
    assert arriving("SELECT DISTINCT k, v FROM s", Distinct) == [("hash(all columns) % N", True)]


def test_a_join_with_a_reference_table_moves_no_row_of_the_stream() -> None:
    query = "SELECT s.k, label FROM s JOIN t ON s.k = t.k"
    assert arriving(query, JoinTable) == [(BY_SOURCE, False), (EVERYWHERE, True)]
