"""Each aggregate as it is lowered has the type that Spark's own call has."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from headrace.sql.aggregates import AGGREGATES, lower_call, takes_distinct
from headrace.sql.nodes import Call

pytestmark = pytest.mark.streams

COLUMNS = {
    "b": "BIGINT", "i": "INT", "d": "DOUBLE", "f": "FLOAT", "m": "DECIMAL(9,2)", "w": "DECIMAL(38,4)",
    "s": "STRING", "o": "BOOLEAN", "t": "TIMESTAMP", "a": "DATE",
}  # fmt: skip
NUMBERS, WHOLE = ("b", "i", "d", "f", "m", "w"), ("b", "i")
SYSTEM = "_event_time TIMESTAMP, _partition INT, _offset BIGINT"
ARGUMENTS = {
    **dict.fromkeys(("sum", "try_sum", "avg", "mean", "stddev", "std", "stddev_samp", "stddev_pop"), NUMBERS),
    **dict.fromkeys(("variance", "var_samp", "var_pop", "skewness", "kurtosis"), NUMBERS),
    **dict.fromkeys(("count_if", "bool_and", "every", "bool_or", "any", "some"), ("o",)),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), WHOLE),
    **dict.fromkeys(("approx_percentile", "percentile_approx"), ("b, 0.5", "d, 0.5", "m, 0.5")),
    **dict.fromkeys(("min_by", "max_by"), tuple(f"{name}, {by}" for name in COLUMNS for by in "bdmsta")),
}


def calls() -> list[tuple[str, str, bool]]:
    found = []
    for function in AGGREGATES.keys() - {"top_k"}:  # Spark has none
        for arguments in ARGUMENTS.get(function, tuple(COLUMNS)):
            found.append((function, arguments, False))
            if takes_distinct(function) and (function == "count" or arguments in NUMBERS):
                found.append((function, arguments, True))
    return sorted(found)


def test_a_lowered_call_has_the_type_of_the_call(spark: SparkSession) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    rows = spark.createDataFrame([], f"{columns}, {SYSTEM}")
    unlike = {}
    for function, text, distinct in calls():
        arguments = tuple(text.split(", "))
        types = tuple(COLUMNS.get(one, "decimal(1,1)").lower() for one in arguments)
        own = f"{function}({'DISTINCT ' if distinct else ''}{text})"
        wanted = rows.selectExpr(own).schema.fields[0].dataType.simpleString()
        lowered = lower_call(Call("c", function, arguments, distinct), types)
        found = rows.selectExpr(lowered).schema.fields[0].dataType.simpleString()
        if found != wanted:
            unlike[own, COLUMNS[arguments[0]]] = f"{found} instead of {wanted}"
    assert not unlike
