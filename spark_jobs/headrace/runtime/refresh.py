"""`headrace refresh`: a reference table's next version, out of a file, a folder or a Delta table.

The new version is built beside the one in use and checked, and published by one commit; where it is refused, the one
in use stays. A running query takes it up between two batches. What a table is declared as is written beside
each version, so that a refresh needs no pipeline once there is one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession

from headrace.errors import HeadraceError, Refused
from headrace.runtime import deltawrite, tables
from headrace.runtime.lake import Lake
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import Pipeline, Table
from headrace.sql.source import did_you_mean

FORMATS = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}


@dataclass(frozen=True, slots=True)
class Refreshed:
    """A published version; `before` is the one that was in use, None where it is the first."""

    table: str
    version: int
    before: int | None
    rows: int
    bytes: int
    seconds: float

    def render(self) -> str:
        size = f"{self.rows:,} rows, {self.bytes:,} bytes, {self.seconds:.1f} s"
        after = "the first" if self.before is None else f"after {self.before}"
        return f"{self.table}: version {self.version}, {after} ({size})"


def refresh(spark: SparkSession, lake: Lake, table: Table, source: str) -> Refreshed:
    """Publish what lies at `source` as the table's next version.

    Raises Refused where there is nothing, where it does not fit the declaration or breaks the primary key, and
    HeadraceError (worth a retry) where another refresh was quicker.
    """
    begun, before = time.monotonic(), tables.newest_version(lake, table)
    try:
        version = tables.load_declared(spark, lake, from_source(table, source))
    except CommitFailedError as error:
        raise HeadraceError(
            f"table {table.name}: another refresh was published meanwhile: {error}"
        ) from error
    size = tables.size_of(DeltaTable(lake.table(table.name), version=version))
    return Refreshed(table.name, version, before, size.rows, size.bytes, time.monotonic() - begun)


def from_source(table: Table, source: str) -> Table:
    """The table as if it were declared over `source`; how its files are written stays as declared."""
    path = Path(source).expanduser().absolute()
    if not path.exists():
        raise Refused(f"table {table.name}: there is nothing at {path}", hint="--from names its new rows")
    if tables.is_delta(path):
        return replace(table, connector="delta", options=(("path", str(path)),))
    options = dict(table.options) if table.connector == "files" else {"csv.header": "true"}
    form = _format(path) or options.get("format")
    if form is None:
        raise Refused(
            f"table {table.name}: {path} does not tell its format",
            hint=f"a file's name ends with {', '.join(FORMATS)}; a folder has such files, or is a Delta table",
        )
    kept = {key: value for key, value in options.items() if key.startswith(f"{form}.")}
    return replace(
        table, connector="files", options=tuple({"path": str(path), "format": form, **kept}.items())
    )


def _format(path: Path) -> str | None:
    """The format that the names of the file, or of a folder's files, tell."""
    names = sorted(path.iterdir()) if path.is_dir() else [path]
    found = [FORMATS[name.suffix.lower()] for name in names if name.suffix.lower() in FORMATS]
    return found[0] if found else None


def declared_table(name: str, lake: Lake, pipeline: Pipeline | None) -> Table:
    """The table's declaration: the pipeline's, else the one beside its newest version in the lake."""
    if pipeline is not None:
        found = [table for table in pipeline.tables if table.name.casefold() == name.casefold()]
        if not found:
            known = [table.name for table in pipeline.tables]
            hint = did_you_mean(name, known) or f"it has {', '.join(known) or 'no reference table'}"
            raise Refused(f"the pipeline {pipeline.name} has no reference table {name}", hint=hint)
        return found[0]
    published = deltawrite.opened(lake.table(name))
    text = published.history(1)[0].get(tables.DECLARATION) if published is not None else None
    if text is None:
        raise Refused(
            f"the lake {lake.root} does not say what the table {name} is declared as",
            hint="name the pipeline that declares it: --pipeline FILE",
        )
    return compile_pipeline(text).tables[0]
