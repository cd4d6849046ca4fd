"""A result stream in a Kafka topic: a record for each row, its value JSON, its key that of the row's group.

A batch that is run again after a crash is sent again. So each record says which it is (`headrace.query`,
`headrace.batch`, `headrace.row` among its headers), and the same row has the same number each time: rows
are numbered, and sent by one task, in the order of their changes, or else of their text.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.runtime import kafkasource
from headrace.runtime.changelog import ROW
from headrace.sql.nodes import HIDDEN, Result

HEADERS = ("headrace.query", "headrace.batch", "headrace.row")
JSON_OPTIONS = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}


@dataclass(frozen=True, slots=True)
class KafkaSink:
    """The sink of one result. Delivers each row at least once."""

    result: Result

    def prepare(self, schema: StructType) -> None:
        """Refuse a topic that is not there; topics are never made."""
        kafkasource.partitions(self.result)

    def write(self, rows: DataFrame, batch: int) -> int:
        """Compute the batch once and send its rows; gives how many there were."""
        records = self._records(rows, batch).localCheckpoint(eager=True)
        count = records.count()
        if count:
            writer = records.write.format("kafka").options(**kafkasource.client_options(self.result))
            writer.option("topic", self.result.option("topic")).mode("append").save()
        return count

    def _records(self, rows: DataFrame, batch: int) -> DataFrame:
        shown = [name for name in rows.columns if not name.startswith(HIDDEN)]
        order = [F.col(ROW)] if ROW in rows.columns else [F.col("value"), F.col("key")]
        key = _json(list(self.result.keys)) if self.result.keys else F.lit(None).cast("string")
        numbered = rows.withColumns({"value": _json(shown), "key": key}).withColumn(
            "number", F.row_number().over(Window.orderBy(*order))
        )
        told = (F.lit(self.result.name), F.lit(batch), F.col("number"))
        headers = [
            F.struct(F.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))
            for name, value in zip(HEADERS, told, strict=True)
        ]
        return numbered.select("key", "value", F.array(*headers).alias("headers"))


def _json(names: list[str]) -> Column:
    return F.to_json(F.struct(*(F.col(f"`{name}`") for name in names)), JSON_OPTIONS)
