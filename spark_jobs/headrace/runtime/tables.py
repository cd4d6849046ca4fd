"""Reference tables: versions of a Delta table, each replaced as a whole, read at a pinned version.

A version is published only after it was checked: the declared schema, the primary key unique and not
NULL. A version that fails leaves the one before in place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, write_deltalake
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from headrace.errors import Refused
from headrace.runtime import deltawrite
from headrace.runtime.arrowcast import fitted
from headrace.runtime.lake import Lake
from headrace.sql.aggregates import literal
from headrace.sql.nodes import Table
from headrace.sql.parse import quoted

DECLARATION = "headrace.declaration"  # in a version's commit
SMALL = 10 * 1024 * 1024  # bytes up to which a version travels as a local relation and is broadcast


def arrow_schema(table: Table) -> pa.Schema:
    """The declared columns as Arrow types."""
    return to_arrow_schema(_struct(table), timezone="UTC")


def newest_version(lake: Lake, table: Table) -> int | None:
    """The newest published version; None where there is none yet."""
    published = deltawrite.opened(lake.table(table.name))
    return None if published is None else int(published.version())


def publish(lake: Lake, table: Table, rows: pa.Table) -> int:
    """Publish the rows as the table's next version, in one commit; the declared columns of them, by name.

    Raises Refused where a column is lacking or does not fit its declared type, where the primary key repeats
    or is NULL, or where a column declared NOT NULL has a NULL.
    """
    declared = _as_declared(table, rows)
    _check(table, declared)
    path = lake.table(table.name)
    write_deltalake(
        path,
        declared,
        mode="overwrite",
        schema_mode="overwrite" if is_delta(path) else None,
        commit_properties=CommitProperties(custom_metadata={DECLARATION: ddl(table)}),
    )
    return int(DeltaTable(path).version())


def ddl(table: Table) -> str:
    """The table's declaration, as a pipeline has it."""
    columns = [f"{quoted(c.name)} {c.type}{' NOT NULL' if c.not_null else ''}" for c in table.columns]
    keys = ", ".join(map(quoted, table.primary_key))
    named = {"connector": table.connector, **dict(table.options)} if table.connector else {}
    options = ", ".join(f"{literal(key)} = {literal(value)}" for key, value in named.items())
    tail = f" WITH ({options})" if options else ""
    return f"CREATE TABLE {quoted(table.name)} ({', '.join(columns)}, PRIMARY KEY ({keys})){tail};"


@dataclass(frozen=True, slots=True)
class Size:
    """Of one version of a table."""

    rows: int
    bytes: int


def size_of(version: DeltaTable) -> Size:
    """By the log alone."""
    actions = version.get_add_actions(flatten=True)
    rows, sizes = (actions[name].to_pylist() for name in ("num_records", "size_bytes"))
    return Size(sum(rows), sum(sizes))


def read_version(
    spark: SparkSession, lake: Lake, table: Table, version: int, *, small: int = SMALL
) -> DataFrame:
    """The rows of one version: of up to `small` bytes as a local relation that is broadcast where it is joined,
    whatever Spark takes its size for; larger ones as Spark finds best.
    """
    path = lake.table(table.name)
    held = DeltaTable(path, version=version)
    if size_of(held).bytes > small:
        frame = spark.read.format("delta").option("versionAsOf", version).load(path)
        return frame.select(*(f"`{c.name}`" for c in table.columns))
    rows = _as_declared(table, held.to_pyarrow_table())
    return F.broadcast(spark.createDataFrame(rows, schema=_struct(table)))


def load_declared(spark: SparkSession, lake: Lake, table: Table) -> int:
    """Publish a version from the table's connector (`files`: csv, json or parquet; `delta`).

    Raises Refused where there is nothing, where it can't be read as declared, or what `publish` raises.
    """
    path = table.option("path")
    if not table.connector:
        return publish(lake, table, arrow_schema(table).empty_table())
    if not Path(path).exists():
        raise Refused(
            f"table {table.name}: there is nothing at {path}",
            hint="put its rows there; it is read once, at the first start",
            place=table.place,
        )
    try:
        frame = _declared_frame(spark, table)
        _complete(table, frame.columns, path)
        casts = (f"CAST(`{c.name}` AS {c.type}) AS `{c.name}`" for c in table.columns)
        rows = frame.selectExpr(*casts).toArrow()
    except (PySparkException, Py4JJavaError) as error:  # toArrow raises the latter
        raise Refused(
            f"table {table.name}: {path} can't be read as declared: {_cause(error)}", place=table.place
        ) from error
    return publish(lake, table, rows)


# ---- reading what was declared -----------------------------------------------------------------
def _declared_frame(spark: SparkSession, table: Table) -> DataFrame:
    """What lies at the table's path; a CSV header's names decide, not the order of columns."""
    path, form = table.option("path"), table.option("format", "csv")
    if table.connector == "delta":
        return spark.read.format("delta").load(path)
    if form == "parquet":
        return spark.read.parquet(path)
    passed = {k.removeprefix(f"{form}."): v for k, v in table.options if k.startswith(f"{form}.")}
    options = {**passed, "mode": "FAILFAST"}
    types = {column.name.casefold(): column.type for column in table.columns}
    names: Sequence[str] = [column.name for column in table.columns]
    if form == "csv" and passed.get("header", "false").lower() == "true":
        names = spark.read.csv(path, **_without(options, "header"), header=True).columns
        options["enforceSchema"] = "false"  # each file's header is compared
    schema = ", ".join(f"`{name}` {types.get(name.casefold(), 'STRING')}" for name in names)
    return spark.read.format(form).options(**options).schema(schema).load(path)


def _without(options: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in options.items() if key != name}


def _cause(error: Exception) -> str:
    """Spark's own words for the record, or the value, that it could not read; not the whole way down to Java's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    spark = [line for line in lines if line.startswith("Caused by: org.apache.spark.")]
    told = re.sub(r"^Caused by: [\w.$]+: ", "", spark[-1] if spark else lines[0])
    return re.sub(r"^\[[A-Z_.]+\] ", "", told)


# ---- checks ------------------------------------------------------------------------------------
def _struct(table: Table) -> StructType:
    ddl = ", ".join(f"`{c.name}` {c.type}" for c in table.columns)
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return schema


def is_delta(path: str | Path) -> bool:
    """Whether a Delta table lies there."""
    return Path(path, "_delta_log").is_dir()


def _complete(table: Table, names: Sequence[str], where: str) -> None:
    lacking = {c.name.casefold() for c in table.columns} - {name.casefold() for name in names}
    if lacking:
        raise Refused(
            f"table {table.name}: {where} lacks the column {', '.join(sorted(lacking))}",
            hint=f"it has: {', '.join(names)}",
            place=table.place,
        )


def _as_declared(table: Table, rows: pa.Table) -> pa.Table:
    """The declared columns, in their order, as their declared types; a value that does not fit is refused."""
    _complete(table, rows.column_names, "the new version")
    own = {name.casefold(): name for name in rows.column_names}
    schema, columns = arrow_schema(table), []
    for declared in schema:
        column = rows.column(own[declared.name.casefold()])
        try:
            columns.append(fitted(column, declared.type))
        except ValueError as error:
            raise Refused(
                f"table {table.name}: column {declared.name} is {column.type} and does not fit its type: {error}",
                place=table.place,
            ) from error
    return pa.table(columns, schema=schema)


def _check(table: Table, rows: pa.Table) -> None:
    for name in sorted({c.name for c in table.columns if c.not_null} | set(table.primary_key)):
        if rows.column(name).null_count:
            raise Refused(
                f"table {table.name}: {rows.column(name).null_count} rows have NULL in {name}",
                hint="the version before stays in use",
                place=table.place,
            )
    if not table.primary_key:
        return
    names = list(table.primary_key)
    keys = pa.table([_one_zero(rows.column(name)) for name in names], names=names)
    counted = keys.group_by(names).aggregate([([], "count_all")])
    twice = counted.filter(pc.greater(counted.column("count_all"), 1))
    if twice.num_rows:
        example = {name: twice.column(name)[0].as_py() for name in names}
        raise Refused(
            f"table {table.name}: the primary key is not unique, for instance {example}",
            hint=f"{twice.num_rows} keys come more than once; the version before stays in use",
            place=table.place,
        )


def _one_zero(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """-0.0 and 0.0 are one key (SEMANTICS 5)."""
    return pc.add(keys, 0.0) if pa.types.is_floating(keys.type) else keys
