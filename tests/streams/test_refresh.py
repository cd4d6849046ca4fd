"""`headrace refresh`: a table's next version out of files or a Delta table, or the one in use kept."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from headrace.cases.run import START_MS
from headrace.errors import Refused
from headrace.runtime import batchlog, tables
from headrace.runtime.lake import Lake
from headrace.runtime.query import LivePipeline
from headrace.runtime.refresh import declared_table, from_source, refresh
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import Pipeline, Table

pytestmark = pytest.mark.streams

SQL = """
CREATE STREAM s (id BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
CREATE TABLE t (id BIGINT, `it's` DECIMAL(9, 2) NOT NULL, PRIMARY KEY (id))
  WITH ('connector' = 'files', 'path' = '{path}', 'format' = 'csv', 'csv.header' = 'true', 'csv.sep' = ';', 'csv.escape' = '\\\\');
CREATE TABLE r AS SELECT s.id, t.`it's` AS price FROM s JOIN t ON s.id = t.id;
"""
NEW = pa.table({"id": [1, 3], "it's": ["10.50", "30.00"]})


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """A pipeline whose table has two rows in a file."""
    path = tmp_path / "first.csv"
    path.write_text("id;it's\n1;1.50\n2;2.00\n")
    return compile_pipeline(SQL.format(path=path), name="p")


def rows(spark: SparkSession, lake: Lake, table: Table, version: int) -> list[tuple[int, str]]:
    return sorted((row[0], str(row[1])) for row in tables.read_version(spark, lake, table, version).collect())


def write(form: str, folder: Path) -> Path:
    """NEW in a form; its path."""
    folder.mkdir()
    match form:
        case "csv":
            (folder / "new.csv").write_text("it's;id\n10.50;1\n30.00;3\n")
            return folder / "new.csv"
        case "json folder":
            (folder / "part-0.json").write_text('{"id": 1, "it\'s": 10.5}\n')
            (folder / "part-1.json").write_text('{"id": 3, "it\'s": 30}\n')
        case "parquet":
            pq.write_table(NEW, folder / "new.parquet")
            return folder / "new.parquet"
        case _:
            write_deltalake(folder, NEW)
    return folder


@pytest.mark.parametrize("form", ["csv", "json folder", "parquet", "delta"])
def test_a_refresh_publishes_the_next_version(
    spark: SparkSession, tmp_path: Path, pipeline: Pipeline, form: str
) -> None:
    lake, table = Lake(str(tmp_path / "lake")), pipeline.table("t")
    tables.load_declared(spark, lake, table)
    done = refresh(spark, lake, table, str(write(form, tmp_path / "new")))
    assert (done.version, done.before, done.rows) == (1, 0, 2)
    assert done.bytes > 0
    assert rows(spark, lake, table, 0) == [(1, "1.50"), (2, "2.00")]
    assert rows(spark, lake, table, 1) == [(1, "10.50"), (3, "30.00")]


def test_the_lake_says_what_its_table_is_declared_as(
    spark: SparkSession, tmp_path: Path, pipeline: Pipeline
) -> None:
    lake, table = Lake(str(tmp_path / "lake")), pipeline.table("t")
    with pytest.raises(Refused, match="does not say what the table t is declared as"):
        declared_table("t", lake, None)
    tables.load_declared(spark, lake, table)
    refresh(spark, lake, declared_table("t", lake, None), str(write("csv", tmp_path / "new")))
    found = declared_table("t", lake, None)  # of a version that was itself published by such a declaration
    assert found.primary_key == table.primary_key
    assert [(c.name, c.type, c.not_null) for c in found.columns] == [
        (c.name, c.type, c.not_null) for c in table.columns
    ]
    assert dict(found.options) | {"path": ""} == dict(table.options) | {"path": ""}


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("id;it's\n1;1.00\n1;2.00\n", "the primary key is not unique"),
        ("id;it's\n;1.00\n", "1 rows have NULL in id"),
        ("id;it's\n1;\n", "1 rows have NULL in it's"),
        ("id;price\n1;2.00\n", "lacks the column it's"),
        ("id;it's\n1;dear\n", "can't be read as declared"),
    ],
)
def test_what_is_refused_leaves_the_version_in_use(
    spark: SparkSession,
    tmp_path: Path,
    pipeline: Pipeline,
    text: str,
    refusal: str,
) -> None:
    lake, table = Lake(str(tmp_path / "lake")), pipeline.table("t")
    tables.load_declared(spark, lake, table)
    (tmp_path / "new.csv").write_text(text)
    with pytest.raises(Refused, match=refusal):
        refresh(spark, lake, table, str(tmp_path / "new.csv"))
    assert tables.newest_version(lake, table) == 0


def test_a_source_that_tells_no_format_is_refused(tmp_path: Path, pipeline: Pipeline) -> None:
    bare = compile_pipeline("CREATE TABLE t (id BIGINT, PRIMARY KEY (id));").tables[0]
    (tmp_path / "new").write_text("1\n")
    with pytest.raises(Refused, match="does not tell its format"):
        from_source(bare, str(tmp_path / "new"))
    with pytest.raises(Refused, match="there is nothing at"):
        from_source(bare, str(tmp_path / "missing.csv"))
    assert dict(from_source(pipeline.table("t"), str(tmp_path / "new")).options)["format"] == "csv"
    with pytest.raises(Refused, match="has no reference table tt") as refused:
        declared_table("tt", Lake(str(tmp_path)), pipeline)
    assert "t" in refused.value.hint


def test_a_running_query_takes_it_up_between_two_batches(
    spark: SparkSession,
    tmp_path: Path,
    pipeline: Pipeline,
) -> None:
    lake, table = Lake(str(tmp_path / "lake")), pipeline.table("t")
    live = LivePipeline(spark, pipeline, lake, clock=lambda: START_MS, partitions=1)
    record = {"id": 1, "ts": "2026-01-01T00:00:01Z"}
    live.start()
    try:
        live.deliver({"s": [(0, [record])]})
        live.settle()
        refresh(spark, lake, table, str(write("csv", tmp_path / "new")))
        live.pump()
        live.deliver({"s": [(0, [record | {"ts": "2026-01-01T00:00:02Z"}])]})
        live.settle()
    finally:
        live.stop()
    found = spark.read.format("delta").load(lake.result("r")).collect()
    assert sorted(str(row.price) for row in found) == ["1.50", "10.50"]
    pinned = [row["tables"] for row in batchlog.read(lake, "r").to_pylist() if row["input_rows"]]
    assert pinned == ['{"t": 0}', '{"t": 1}']
