"""A join that is cut out of its statement: the texts that the gate reads, and the names that the streams get."""

from __future__ import annotations

import pytest

from headrace.errors import Refused
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import Pipeline

STREAMS = """
CREATE STREAM a (k INT, ts TIMESTAMP, x INT, `odd name` INT, WATERMARK FOR ts AS ts);
CREATE STREAM b (k INT, ts TIMESTAMP, y INT, WATERMARK FOR ts AS ts);
CREATE STREAM c (k INT, ts TIMESTAMP, z INT, WATERMARK FOR ts AS ts);
"""
NEAR = "a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '10' SECOND"


def compiled(query: str) -> Pipeline:
    return compile_pipeline(f"{STREAMS} CREATE TABLE r AS {query};", name="p")


def texts(query: str) -> dict[str, str]:
    return {result.name: result.query for result in compiled(query).results}


def test_where_goes_with_the_join_and_the_rest_stays() -> None:
    query = f"SELECT a.k, SUM(x + `odd name`) AS s FROM a JOIN b ON {NEAR} WHERE y > 0 GROUP BY a.k HAVING COUNT(*) > 1 EMIT CHANGES"
    columns = "NAMED_STRUCT('k', a.k, 'x', a.x, 'odd name', a.`odd name`) AS a, a.ts AS event_time"
    source = "(SELECT a, a.k AS k, a.x AS x, a.`odd name` AS `odd name` FROM r__a_b) AS r__a_b"
    assert texts(query) == {
        "r__a_b": f"SELECT {columns} FROM a JOIN b ON {NEAR} WHERE y > 0",
        "r": f"SELECT a.k, SUM(x + `odd name`) AS s FROM {source} GROUP BY a.k HAVING COUNT(*) > 1 EMIT CHANGES",
    }


def test_a_join_behind_an_outer_one_reads_it_and_keeps_where() -> None:
    last = "LEFT OUTER JOIN c ON c.k = a.k AND c.ts = a.ts WHERE z > 0"
    found = texts(
        f"WITH q AS (SELECT * FROM b WHERE y > 1) SELECT x, y, z FROM a LEFT JOIN q b ON {NEAR} {last}"
    )
    assert found["r__a_b"].endswith(f"FROM a LEFT JOIN q b ON {NEAR}")
    assert found["r"].endswith(f"FROM r__a_b) AS r__a_b {last}")
    assert all(text.startswith("WITH q AS (SELECT * FROM b WHERE y > 1) SELECT") for text in found.values())


def test_a_taken_name_gives_way_to_a_number() -> None:
    first = f"CREATE TABLE r__a_b AS SELECT x FROM a; CREATE TABLE r AS SELECT a.k, COUNT(*) AS n FROM a JOIN b ON {NEAR} GROUP BY a.k;"
    pipeline = compile_pipeline(f"{STREAMS} {first}", name="p")
    assert [result.name for result in pipeline.results] == ["r__a_b", "r__1", "r"]


def test_an_unknown_name_above_a_join_is_refused_once_and_with_its_place() -> None:
    with pytest.raises(Refused, match="5:36: unknown column q"):
        compiled(f"SELECT a.k, SUM(q) AS s FROM a JOIN b ON {NEAR} GROUP BY a.k")
