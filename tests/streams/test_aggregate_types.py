"""Each aggregate as it is lowered has the type that Spark's own call has; sums of wide decimals are exact."""

from __future__ import annotations

import random
from decimal import Context, Decimal
from functools import reduce

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

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


def drawn(chance: random.Random, digits: int, scale: int) -> Decimal:
    """A decimal of the type: now a large one, now one of any size, now one at the edge."""
    largest = 10**digits - 1
    edge = chance.choice((largest, -largest, 1, -1, 0, 10 ** (digits - 1)))
    anything = chance.randint(-largest, largest)
    whole = chance.choice((edge, anything, anything // 10 ** chance.randrange(digits)))
    return Decimal(whole).scaleb(-scale, EXACT)


EXACT = Context(prec=80)


@pytest.mark.parametrize(("digits", "scale"), [(38, 0), (38, 7), (38, 20), (38, 38), (29, 2), (30, 29)])
@pytest.mark.parametrize("distinct", [False, True])
def test_a_sum_of_wide_decimals_is_exact_or_overflows(
    spark: SparkSession, digits: int, scale: int, distinct: bool
) -> None:
    chance = random.Random(digits * 100 + scale)
    groups = {g: [drawn(chance, digits, scale) for _ in range(chance.randint(1, 6))] for g in range(40)}
    rows = [(g, value) for g, values in groups.items() for value in values]
    kind = f"decimal({digits},{scale})"
    text = lower_call(Call("c", "sum", ("v",), distinct), (kind,))
    frame = spark.createDataFrame(rows, f"g INT, v {kind}").repartition(3)
    totals = {g: reduce(EXACT.add, set(v) if distinct else v) for g, v in groups.items()}
    fit = [g for g, total in totals.items() if abs(total.scaleb(scale, EXACT)) < Decimal(10) ** 38]
    assert (len(fit) < len(groups)) == (digits == 38)  # of fewer digits no six values overflow
    summed = frame.groupBy("g").agg(F.expr(text).alias("total"))
    found = {row["g"]: row["total"] for row in summed.where(F.col("g").isin(fit)).collect()}
    assert found == {g: totals[g] for g in fit}
    if len(fit) == len(groups):
        return
    with pytest.raises(
        PySparkException, match=rf"overflow: SUM\(v\) does not fit into DECIMAL\(38, {scale}\)"
    ):
        summed.collect()
