"""Small idempotent commits by delta-rs: a table is changed once for (application, version), or not at all.

Results that fit the driver go this way (tens of milliseconds a commit; FINDINGS); bulk goes through
delta-spark in `sinks`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import TableNotFoundError

CONF: Mapping[str, str] = {
    "delta.checkpointInterval": "10"
}  # a commit reads the log since the newest checkpoint
NO_STATISTICS: Mapping[str, str] = {"delta.dataSkippingNumIndexedCols": "0"}  # of columns, for each file


@dataclass(frozen=True, slots=True)
class Once:
    """What makes a change happen once: a Delta application transaction, versions rising."""

    app: str
    version: int

    def done(self, table: DeltaTable | None) -> bool:
        """Whether the table already has this change or a later one."""
        last = None if table is None else table.transaction_version(self.app)
        return last is not None and int(last) >= self.version

    @property
    def commit(self) -> CommitProperties:
        return CommitProperties(app_transactions=[Transaction(self.app, self.version)])


def opened(path: str) -> DeltaTable | None:
    """The table at its newest version; None where there is none."""
    try:
        return DeltaTable(path)
    except TableNotFoundError:
        return None


def ensure(
    path: str, schema: pa.Schema, description: str = "", conf: Mapping[str, str] | None = None
) -> None:
    """Create the table empty where it is not there yet. Not for two threads at once."""
    if opened(path) is None:
        wanted = {**CONF, **(conf or {})}
        DeltaTable.create(
            path, schema=schema, mode="ignore", description=description or None, configuration=wanted
        )


def append_once(to: str | DeltaTable, rows: pa.Table, once: Once) -> bool:
    """Append the rows, once; says whether it wrote. Raises TableNotFoundError where there is no table.

    A table that is open already may miss what other applications committed since, not what this one did.
    """
    table = to if isinstance(to, DeltaTable) else DeltaTable(to)
    if once.done(table):
        return False
    write_deltalake(table, rows, mode="append", commit_properties=once.commit)
    return True


def replace_once(path: str, rows: pa.Table, once: Once) -> bool:
    """Make the rows the table's whole content, once; says whether it wrote. Raises as `append_once`."""
    table = DeltaTable(path)
    if once.done(table):
        return False
    write_deltalake(table, rows, mode="overwrite", commit_properties=once.commit)
    return True


def delete_replaced(path: str) -> None:
    """Delete the files that only older versions of the table have. Nothing may read one of those any more."""
    DeltaTable(path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def upsert_once(path: str, rows: pa.Table, keys: Sequence[str], admitted: str, once: Once) -> bool:
    """Upsert the rows by their keys (NULL is a key like any other), once; says whether it wrote.

    Rows whose `admitted` column is false are deleted; '' means that all are admitted. Raises
    TableNotFoundError where there is no table.
    """
    table = DeltaTable(path)
    if once.done(table):
        return False
    values = {f"`{name}`": f"s.`{name}`" for name in rows.column_names if name != admitted}
    same = " AND ".join(f"(t.`{key}` IS NOT DISTINCT FROM s.`{key}`)" for key in keys)
    merge = table.merge(rows, same, source_alias="s", target_alias="t", commit_properties=once.commit)
    if admitted:
        merge = merge.when_matched_delete(f"NOT s.`{admitted}`")
    merge = merge.when_matched_update(values)
    merge.when_not_matched_insert(values, predicate=f"s.`{admitted}`" if admitted else None).execute()
    return True
