"""Reference tables: built from their connectors as declared, published only when right, read at a version."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from headrace.errors import Refused
from headrace.runtime import tables
from headrace.runtime.lake import Lake
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import Table

pytestmark = pytest.mark.streams

COLUMNS = "id BIGINT, name STRING, since DATE, PRIMARY KEY (id)"
ROWS = [
    {"id": 1, "name": "one, first", "since": date(2026, 1, 1)},
    {"id": 2, "name": None, "since": None},
]


def declared(columns: str = COLUMNS, **options: str) -> Table:
    text = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
    tail = f" WITH ({text})" if options else ""
    return compile_pipeline(f"CREATE TABLE t ({columns}){tail};").tables[0]


def loaded(spark: SparkSession, folder: Path, table: Table) -> list[dict[str, Any]]:
    lake = Lake(str(folder / "lake"))
    version = tables.load_declared(spark, lake, table)
    rows = tables.read_version(spark, lake, table, version)
    assert [field.name for field in rows.schema.fields] == [column.name for column in table.columns]
    return sorted((row.asDict() for row in rows.collect()), key=lambda row: row["id"])


def files(path: Path, form: str, **options: str) -> dict[str, str]:
    return {"connector": "files", "path": str(path), "format": form, **options}


# ---- where they come from ----------------------------------------------------------------------
def test_csv_goes_by_its_header_and_keeps_nulls(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('since,spare,NAME,id\n01.01.2026,x,"one, first",1\n,,NA,2\n')
    options = files(
        path, "csv", **{"csv.header": "true", "csv.nullValue": "NA", "csv.dateFormat": "dd.MM.yyyy"}
    )
    options["csv.emptyValue"] = "-"
    assert loaded(spark, tmp_path, declared(**options)) == ROWS


def test_csv_without_header_goes_by_declared_order(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("1;one, first;2026-01-01\n2;;\n")
    assert loaded(spark, tmp_path, declared(**files(path, "csv", **{"csv.sep": ";"}))) == ROWS


def test_json_parquet_and_delta_give_the_declared_rows(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(
        '{"name": "one, first", "id": 1, "since": "2026-01-01", "more": 0}\n{"id": 2}\n'
    )
    assert loaded(spark, tmp_path / "json", declared(**files(tmp_path / "t.json", "json"))) == ROWS
    rows = pa.table(
        {
            "since": pa.array([date(2026, 1, 1), None], pa.date32()),
            "ID": pa.array([1, 2], pa.int32()),
            "name": ["one, first", None],
        }
    )
    pq.write_table(rows, tmp_path / "t.parquet")
    assert loaded(spark, tmp_path / "parquet", declared(**files(tmp_path / "t.parquet", "parquet"))) == ROWS
    write_deltalake(str(tmp_path / "t"), rows)
    table = declared(connector="delta", path=str(tmp_path / "t"))
    assert loaded(spark, tmp_path / "delta", table) == ROWS


def test_a_table_without_connector_begins_empty(spark: SparkSession, tmp_path: Path) -> None:
    assert loaded(spark, tmp_path, declared()) == []


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("id,name\n1,a\n", {"csv.header": "true"}, "lacks the column since"),
        ("id,name,since\nx,a,2026-01-01\n", {"csv.header": "true"}, "can't be read as declared: Malformed"),
        ("1,a\n", {}, "can't be read as declared"),
        ("1,a,2026-01-01\n1,b,\n", {}, "primary key is not unique, for instance {'id': 1}"),
        (",a,2026-01-01\n", {}, "1 rows have NULL in id"),
    ],
)
def test_csv_that_is_not_as_declared_is_refused(
    spark: SparkSession, tmp_path: Path, text: str, options: dict[str, str], told: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    lake = Lake(str(tmp_path / "lake"))
    table = declared(**files(path, "csv", **options))
    with pytest.raises(Refused, match=told):
        tables.load_declared(spark, lake, table)
    assert tables.newest_version(lake, table) is None


def test_files_whose_headers_differ_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_text("id,name,since\n1,a,\n")
    (tmp_path / "in" / "2.csv").write_text("name,id,since\nb,2,\n")
    table = declared(**files(tmp_path / "in", "csv", **{"csv.header": "true"}))
    with pytest.raises(Refused, match="can't be read as declared"):
        tables.load_declared(spark, Lake(str(tmp_path / "lake")), table)


def test_nothing_at_the_path_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="there is nothing at"):
        tables.load_declared(spark, Lake(str(tmp_path)), declared(**files(tmp_path / "no", "csv")))


# ---- versions ----------------------------------------------------------------------------------
def version(*rows: tuple[int | None, str | None]) -> pa.Table:
    return pa.table(
        {
            "name": pa.array([name for _, name in rows], pa.string()),
            "id": pa.array([key for key, _ in rows], pa.int32()),
            "since": pa.nulls(len(rows), pa.date32()),
        }
    )


def test_each_version_is_read_as_it_was_published(spark: SparkSession, tmp_path: Path) -> None:
    lake, table = Lake(str(tmp_path)), declared()
    first = tables.publish(lake, table, version((1, "a"), (2, "b")))
    second = tables.publish(lake, table, version((2, "c")))
    assert tables.newest_version(lake, table) == second > first
    for limit in (tables.SMALL, 0):  # a small one, and one that is read from Delta by the executors
        then = tables.read_version(spark, lake, table, first, small=limit)
        now = tables.read_version(spark, lake, table, second, small=limit)
        assert sorted((row.id, row.name) for row in then.collect()) == [(1, "a"), (2, "b")]
        assert [(row.id, row.name, row.since) for row in now.collect()] == [(2, "c", None)]
        assert then.schema.simpleString() == "struct<id:bigint,name:string,since:date>"
        assert ("parquet" in then._jdf.queryExecution().optimizedPlan().toString()) is (limit == 0)
        joined = then.alias("a").join(now, "id")._jdf.queryExecution()
        assert ("strategy=broadcast" in joined.optimizedPlan().toString()) is (limit != 0)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (version((1, "a"), (1, "b")), "not unique"),
        (version((None, "a")), "NULL in id"),
        (version((1, None)), "NULL in name"),
        (version((1, "a")).drop_columns(["since"]), "lacks the column since"),
        (version((1, "a")).set_column(1, "id", pa.array(["one"])), "does not fit its type"),
        (version((1, "a")).set_column(1, "id", pa.array([1.5])), "does not fit its type"),
    ],
)
def test_a_version_that_is_wrong_leaves_the_one_before(
    spark: SparkSession, tmp_path: Path, rows: pa.Table, told: str
) -> None:
    lake, table = (
        Lake(str(tmp_path)),
        declared("id BIGINT, name STRING NOT NULL, since DATE, PRIMARY KEY (id)"),
    )
    first = tables.publish(lake, table, version((7, "kept")))
    with pytest.raises(Refused, match=told):
        tables.publish(lake, table, rows)
    assert tables.newest_version(lake, table) == first
    assert [row.id for row in tables.read_version(spark, lake, table, first).collect()] == [7]


@pytest.mark.parametrize("values", [[0.0, -0.0], [float("nan"), float("nan")]])
def test_zeros_are_one_key_and_so_are_nans(spark: SparkSession, tmp_path: Path, values: list[float]) -> None:
    table = declared("x DOUBLE, PRIMARY KEY (x)")
    with pytest.raises(Refused, match="not unique"):
        tables.publish(Lake(str(tmp_path)), table, pa.table({"x": values}))


def test_a_key_of_several_columns_and_times_stays_exact(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    table = declared("a STRING, b TIMESTAMP, n DECIMAL(10,2), PRIMARY KEY (a, b)")
    at = datetime(2026, 1, 1, 12, 0, 0, 123_456, tzinfo=UTC)
    rows = pa.table({"a": ["x", "y"], "b": pa.array([at, at], pa.timestamp("us", tz="UTC")), "n": [1, None]})
    tables.publish(lake, table, rows)
    found = (
        tables.read_version(spark, lake, table, tables.newest_version(lake, table) or 0).toArrow().to_pylist()
    )
    assert [(row["a"], row["b"], str(row["n"])) for row in found] == [("x", at, "1.00"), ("y", at, "None")]
