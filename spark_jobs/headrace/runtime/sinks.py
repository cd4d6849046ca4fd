"""Where a batch's rows go: an append, an upsert or a replacement, each once for (query, generation, batch).

Rows that fit the driver travel as Arrow to delta-rs; more than DRIVER_ROWS go through delta-spark. Each
batch is computed exactly once, because its observed counters must not be counted twice.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from delta.tables import DeltaTable as SparkDeltaTable
from deltalake import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from headrace.runtime import deltawrite
from headrace.runtime.carried import BATCH
from headrace.runtime.changelog import ROW
from headrace.runtime.kafkasink import KafkaSink
from headrace.runtime.lake import Lake
from headrace.runtime.lower import ADMITTED
from headrace.sql.nodes import HIDDEN, Pipeline, Result

DRIVER_ROWS = 500_000


class ResultSink(Protocol):
    """Where a result's rows go."""

    def prepare(self, schema: StructType) -> None:
        """See to what the rows go into, before any batch. Raises Refused where that can't be."""
        ...

    def write(self, rows: DataFrame, batch: int) -> int:
        """Compute the batch once and put its rows; gives how many there were."""
        ...


def sink_of(pipeline: Pipeline, result: Result, lake: Lake, generation: int) -> ResultSink:
    """The sink that the result's connector names; what a later statement reads lies in Delta too, exactly once."""
    table = Sink(result, lake.result(result.name), f"headrace:{result.name}:{generation}")
    if result.connector != "kafka":
        return table
    topic = KafkaSink(result)
    return Both(table, topic) if pipeline.in_delta(result) else topic


@dataclass(frozen=True, slots=True)
class Both:
    """The same rows to two sinks, computed once."""

    first: ResultSink
    second: ResultSink

    def prepare(self, schema: StructType) -> None:
        self.first.prepare(schema)
        self.second.prepare(schema)

    def write(self, rows: DataFrame, batch: int) -> int:
        held = rows.localCheckpoint(eager=True)
        self.first.write(held, batch)
        return self.second.write(held, batch)


@dataclass(slots=True)
class Sink:
    """The sink of one result in Delta, or nowhere.

    `expected` is how many rows the last batch brought (None: not known yet).
    """

    result: Result
    path: str
    app: str
    expected: int | None = None

    @property
    def blackhole(self) -> bool:
        return self.result.connector == "blackhole"

    @property
    def _appends(self) -> bool:
        return not self.result.upsert or self.result.changelog

    def prepare(self, schema: StructType) -> None:
        """Create the result's table where it is not there, its key noted in its description."""
        if self.blackhole:
            return
        fields = [f for f in schema.fields if f.name != ADMITTED]
        fields += [StructField(BATCH, LongType())] if self.result.changelog else []
        note = json.dumps({"headrace": {"keys": list(self.result.keys), "emit": self.result.emit}})
        deltawrite.ensure(self.path, to_arrow_schema(StructType(fields), timezone="UTC"), note)

    def write(self, rows: DataFrame, batch: int) -> int:
        """Compute the batch and put its rows; gives how many there were."""
        if self.result.changelog:
            rows = rows.withColumn(BATCH, F.lit(batch).cast("bigint"))
        if self.blackhole:
            rows.write.format("noop").mode("overwrite").save()
            return 0
        if self.expected is None or self.expected > DRIVER_ROWS // 2:
            return self._write_unsure(rows, batch)
        self.expected = self._put(rows.toArrow(), batch)
        return self.expected

    def _write_unsure(self, rows: DataFrame, batch: int) -> int:
        """The batch may be large: compute it in the executors, count it, then choose the way.

        A local checkpoint and not `persist`, whose plan fails where the batch comes sorted by a column
        that it does not have (Spark 4.2: key not found in InMemoryRelation).
        """
        held = rows.localCheckpoint(eager=True)
        count = held.count()
        self.expected = (
            self._put(held.toArrow(), batch) if count <= DRIVER_ROWS else self._put_bulk(held, batch)
        )
        return count

    def _put(self, rows: pa.Table, batch: int) -> int:
        count, once = int(rows.num_rows), deltawrite.Once(self.app, batch)
        if not count:
            return 0
        if self._appends:
            deltawrite.append_once(self.path, rows, once)
        elif self.result.keys:
            deltawrite.upsert_once(self.path, rows, self.result.keys, _admitted(rows), once)
        else:
            deltawrite.replace_once(self.path, _standing(rows), once)
        return count

    def _put_bulk(self, rows: DataFrame, batch: int) -> int:
        if deltawrite.Once(self.app, batch).done(deltawrite.opened(self.path)):
            return DRIVER_ROWS
        spark = rows.sparkSession
        if self._appends:
            options = {"txnAppId": self.app, "txnVersion": str(batch)}
            rows.write.format("delta").mode("append").options(**options).save(self.path)
            return DRIVER_ROWS
        spark.conf.set("spark.databricks.delta.write.txnAppId", self.app)
        spark.conf.set("spark.databricks.delta.write.txnVersion", str(batch))
        try:
            same = " AND ".join(f"t.`{key}` <=> s.`{key}`" for key in self.result.keys)
            values = {f"`{n}`": f"s.`{n}`" for n in rows.columns if n != ADMITTED}
            admitted = f"s.{ADMITTED}" if ADMITTED in rows.columns else "true"
            merge = SparkDeltaTable.forPath(spark, self.path).alias("t").merge(rows.alias("s"), same)
            merge = merge.whenMatchedDelete(F.expr(f"NOT {admitted}")).whenMatchedUpdate(set=values)  # type: ignore[arg-type]
            merge.whenNotMatchedInsert(condition=F.expr(admitted), values=values).execute()  # type: ignore[arg-type]
        finally:
            spark.conf.unset("spark.databricks.delta.write.txnAppId")
            spark.conf.unset("spark.databricks.delta.write.txnVersion")
        return DRIVER_ROWS


def read_result(lake: Lake, result: Result, *, hidden: bool = False) -> pa.Table:
    """A result table as it stands; hidden columns (`__…`) only where asked for."""
    rows = DeltaTable(lake.result(result.name)).to_pyarrow_table()
    if result.changelog:
        rows = rows.sort_by([(BATCH, "ascending"), (ROW, "ascending")])
    return (
        rows if hidden else rows.select([name for name in rows.column_names if not name.startswith(HIDDEN)])
    )


def _admitted(rows: pa.Table) -> str:
    return ADMITTED if ADMITTED in rows.column_names else ""


def _standing(rows: pa.Table) -> pa.Table:
    """The admitted rows, without the column that says so."""
    if ADMITTED not in rows.column_names:
        return rows
    return rows.filter(pc.field(ADMITTED)).drop_columns([ADMITTED])
