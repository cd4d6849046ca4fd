"""Queries that are cut out of queries: which, under what names, and that text and tree are cut alike."""

from __future__ import annotations

import pytest

from headrace.sql.cascade import cascade
from headrace.sql.dialect import spark_sql
from headrace.sql.parse import CreateQuery, statements
from headrace.sql.source import expand

STREAMS = "CREATE STREAM s (k STRING, ts TIMESTAMP, v BIGINT); CREATE TABLE t (k STRING, PRIMARY KEY (k)); "
MINUTE = "WINDOW TUMBLING(INTERVAL '1' MINUTE)"


def cut(text: str) -> list[CreateQuery]:
    """The queries of a pipeline after the cut."""
    read = statements(expand(STREAMS + text, {}))
    assert read.errors == []
    return [one for one in cascade(read.statements) if isinstance(one, CreateQuery)]


def texts(text: str) -> list[tuple[str, str, str]]:
    return [(one.form, one.name.text, " ".join(one.text.split())) for one in cut(text)]


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT k, COUNT(*) AS n FROM s GROUP BY k {MINUTE} EMIT FINAL",
        "SELECT DISTINCT k FROM s",
        "SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM s GROUP BY k) AS x WHERE n > 1",
        "WITH a AS (SELECT k FROM s) SELECT k FROM a UNION ALL SELECT k FROM s",
        "SELECT s.k FROM s JOIN (SELECT DISTINCT k FROM t) AS d ON d.k = s.k",
        "SELECT k FROM s WHERE k IN (SELECT DISTINCT k FROM t)",
        f"SELECT k, n FROM (SELECT k, COUNT(*) AS n FROM s GROUP BY k {MINUTE} EMIT CHANGES) AS x",
        "SELECT x FROM (VALUES (1)) AS v (x)",
    ],
)
def test_what_holds_no_state_inside_stays_as_it_is(query: str) -> None:
    assert texts(f"CREATE TABLE r AS {query};") == [("table", "r", query)]


def test_a_windowed_query_in_from_becomes_a_stream_before_its_reader() -> None:
    inner = f"SELECT k, window_end AS we FROM s GROUP BY k {MINUTE}"
    assert texts(f"CREATE TABLE r AS SELECT k FROM ({inner}) AS x WHERE k > 'a';") == [
        ("stream", "r__x", inner),
        ("table", "r", "SELECT k FROM (SELECT * FROM r__x) AS x WHERE k > 'a'"),
    ]


def test_the_cut_goes_from_the_inside_out() -> None:
    inner = "SELECT DISTINCT k, ts FROM s"
    outer = f"SELECT k, COUNT(*) AS n FROM ({{}}) GROUP BY k {MINUTE}"
    assert texts(f"CREATE TABLE r AS SELECT DISTINCT n FROM ({outer.format(inner)}) AS counts;") == [
        ("stream", "r__1", inner),
        ("stream", "r__counts", outer.format("SELECT * FROM r__1")),
        ("table", "r", "SELECT DISTINCT n FROM (SELECT * FROM r__counts) AS counts"),
    ]


def test_a_query_that_is_cut_out_takes_along_what_it_names_of_with() -> None:
    text = f"""CREATE TABLE r AS
      WITH other AS (SELECT k FROM s), a AS (SELECT k, ts FROM s), b AS (SELECT k, ts FROM a),
           c AS (WITH own AS (SELECT k FROM b) SELECT k FROM own GROUP BY k {MINUTE})
      SELECT k FROM c UNION ALL SELECT k FROM c UNION ALL SELECT k FROM other;"""
    lifted, kept = texts(text)
    assert lifted == (
        "stream",
        "r__c",
        "WITH `a` AS (SELECT k, ts FROM s ), `b` AS (SELECT k, ts FROM a ), own AS (SELECT k FROM b) "
        f"SELECT k FROM own GROUP BY k {MINUTE}",
    )
    assert kept[2].endswith(
        "c AS (SELECT * FROM r__c) SELECT k FROM c UNION ALL SELECT k FROM c UNION ALL SELECT k FROM other"
    )


def test_each_side_of_a_union_is_cut_out_alone_and_a_union_of_distinct_rows_whole() -> None:
    one = f"SELECT k FROM s GROUP BY k {MINUTE}"
    assert texts(f"CREATE TABLE r AS {one} UNION ALL ({one}) UNION ALL SELECT k FROM s EMIT FINAL;") == [
        ("stream", "r__1", one),
        ("stream", "r__2", one),
        (
            "table",
            "r",
            "SELECT * FROM r__1 UNION ALL (SELECT * FROM r__2) UNION ALL SELECT k FROM s EMIT FINAL",
        ),
    ]
    assert texts("CREATE TABLE r AS SELECT k FROM s UNION SELECT k FROM s UNION ALL SELECT k FROM s;") == [
        ("stream", "r__1", "SELECT k FROM s UNION SELECT k FROM s"),
        ("table", "r", "SELECT * FROM r__1 UNION ALL SELECT k FROM s"),
    ]


def test_a_view_becomes_a_stream_of_its_own_name_where_a_statement_reads_it() -> None:
    view = f"CREATE VIEW v AS SELECT k FROM s GROUP BY k {MINUTE};"
    assert [one[:2] for one in texts(view + "CREATE TABLE r AS SELECT k FROM V;")] == [
        ("stream", "v"),
        ("table", "r"),
    ]
    assert [one[:2] for one in texts(view)] == [("view", "v")]
    plain = "CREATE VIEW v AS SELECT k FROM s; CREATE TABLE r AS SELECT DISTINCT k FROM v;"
    assert [one[:2] for one in texts(plain)] == [("view", "v"), ("table", "r")]


def test_a_name_that_is_taken_is_not_given_again() -> None:
    text = "CREATE TABLE r__x AS SELECT k FROM s; CREATE TABLE r AS SELECT COUNT(*) AS n FROM (SELECT DISTINCT k FROM s) AS X;"
    assert [one[1] for one in texts(text)] == ["r__x", "r__1", "r"]


def test_text_and_tree_are_cut_alike() -> None:
    text = f"""CREATE TABLE r AS WITH a AS (SELECT k, ts FROM s)
      SELECT COUNT(*) AS n FROM (SELECT DISTINCT k FROM a UNION ALL SELECT k FROM (SELECT k FROM a GROUP BY k {MINUTE})) AS x;"""
    for one in cut(text):
        again = statements(expand(f"CREATE TABLE r AS {one.text};", {})).statements[0]
        assert isinstance(again, CreateQuery)
        assert spark_sql(again.query).replace("`", "") == spark_sql(one.query).replace("`", "")
