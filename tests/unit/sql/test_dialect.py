"""Expressions go through the dialect and come out as Spark reads them."""

from __future__ import annotations

import pytest
from sqlglot import exp

from headrace.errors import Refused
from headrace.sql.compile import compile_pipeline
from headrace.sql.dialect import parser, spark_sql, tokens
from headrace.sql.nodes import Pipeline, Project

# Text in, text out; where only one is given they are the same.
SAME = """
IF(a > 1, 2, 3)
TRY_CAST(a AS INT)
a / b
a % b
a DIV b
-a
CASE WHEN a THEN 1 ELSE 2 END
CASE a WHEN 1 THEN 'x' END
ts + INTERVAL '5' SECOND
ts - INTERVAL '1 day 2 hours'
'it\\'s'
'a\\\\d+'
a || b || 'c'
a[0]
a['k']
ELEMENT_AT(a, 1)
TRY_ELEMENT_AT(a, 1)
TRANSFORM(a, x -> x + 1)
AGGREGATE(a, 0, (acc, x) -> acc + x, acc -> acc * 2)
CAST(a AS DECIMAL(9, 2))
CAST(a AS ARRAY<STRUCT<x: INT, y: STRING>>)
CAST(a AS MAP<STRING, BIGINT>)
CAST(a AS TIMESTAMP_NTZ)
X'1F'
1.5
ARRAY(1, 2)
ARRAY_SORT(COLLECT_LIST(v))
MAP('a', 1)
STRUCT(a AS x, b AS y)
NAMED_STRUCT('a', 1)
DATE(ts)
a RLIKE 'x'
a LIKE ANY ('x', 'y')
a ILIKE 'x'
a IN (1, 2)
a BETWEEN 1 AND 2
a IS NULL
NOT a
a & b | c ^ d
~a
COUNT(DISTINCT a, b)
FIRST_VALUE(a) IGNORE NULLS
APPROX_PERCENTILE(a, 0.5, 100)
EXTRACT(HOUR FROM ts)
TRIM(BOTH 'x' FROM a)
SUBSTRING(a, 1, 2)
CONCAT_WS(',', a, b)
DATE_FORMAT(ts, 'yyyy-MM-dd')
TO_TIMESTAMP(a, 'yyyy-MM-dd')
DATEDIFF(a, b)
DATE_TRUNC('hour', ts)
GET_JSON_OBJECT(a, '$.b')
FROM_JSON(a, 'x INT')
YEAR(ts)
SLICE(a, 1, 2)
SEQUENCE(1, 3)
SPLIT(a, ',')
REGEXP_EXTRACT(a, '(x)', 1)
""".strip().splitlines()
OTHER = {
    "'it''s'": "'it\\'s'",
    "''": "''",
    '"double"': "'double'",
    "r'\\d'": "'\\\\d'",
    "a::BIGINT": "CAST(a AS BIGINT)",
    "10L": "CAST(10 AS BIGINT)",
    "TIMESTAMP '2020-01-01 00:00:00'": "CAST('2020-01-01 00:00:00' AS TIMESTAMP)",
    "INTERVAL 5 MINUTES": "INTERVAL '5' MINUTES",
    "a NOT IN (1)": "NOT a IN (1)",
    "a != b": "a <> b",
    "a <=> b": "a IS NOT DISTINCT FROM b",
    "POSITION('a' IN b)": "LOCATE('a', b)",
}


def through(text: str) -> str:
    query = parser().parse(tokens(f"SELECT {text}"), f"SELECT {text}")[0]
    assert isinstance(query, exp.Select)
    return spark_sql(query.expressions[0])


@pytest.mark.parametrize("text", SAME)
def test_an_expression_stays_as_it_was_written(text: str) -> None:
    assert through(text) == text


@pytest.mark.parametrize(("text", "wanted"), OTHER.items())
def test_another_spelling_keeps_its_meaning(text: str, wanted: str) -> None:
    assert through(text) == wanted


def compiled(statement: str) -> Pipeline:
    stream = "create stream S (Key string, `odd name` int, TS timestamp, watermark for ts as TS);\n"
    return compile_pipeline(stream + statement)


def test_keywords_are_read_in_any_letter_case() -> None:
    pipeline = compiled(
        "create table R with ('connector' = 'blackhole') as select key, count(*) as n from s "
        "group by key window tumbling(interval '1' hour) having count(*) > 1 emit changes"
    )
    assert (pipeline.results[0].emit, pipeline.results[0].connector) == ("changes", "blackhole")


def test_a_column_is_written_as_it_was_declared() -> None:
    plan = compiled("CREATE TABLE r AS SELECT key, KEY AS k2 FROM s;").results[0].plan
    assert isinstance(plan, Project)
    assert [(one.name, one.expression) for one in plan.columns] == [("key", "Key"), ("k2", "Key")]


def test_an_odd_name_is_quoted() -> None:
    plan = compiled("CREATE TABLE r AS SELECT `odd name` + 1 AS x FROM s;").results[0].plan
    assert isinstance(plan, Project)
    assert plan.columns[0].expression == "`odd name` + 1"


def test_emit_and_window_are_no_aliases() -> None:
    assert compiled("CREATE TABLE r AS SELECT key FROM s EMIT CHANGES").results[0].emit == "changes"


def test_every_syntax_error_of_a_file_is_told() -> None:
    with pytest.raises(Refused) as caught:
        compile_pipeline(
            "CREATE STREAM s (k STRNG);\nCREATE TABLE r AS SELECT FROM;\nCREATE VEIW v AS SELECT 1;"
        )
    told = str(caught.value)
    assert all(place in told for place in ("1:20:", "2:", "3:8:"))
