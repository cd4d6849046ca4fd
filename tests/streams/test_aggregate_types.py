"""Each aggregate as it is lowered has the type that Spark's own call has; sums of wide decimals are exact."""

from __future__ import annotations

import random
from decimal import Context, Decimal
from functools import reduce

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.sql.aggregates import AGGREGATES, limbs_of, lower_call, takes_distinct
from headrace.sql.nodes import Call
from headrace.sql.partials import Split, split

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


def test_the_limbs_of_a_bigint_are_it(spark: SparkSession) -> None:
    edges = [n + d for n in (0, 2**32, -(2**32), 2**31, -(2**31)) for d in (-1, 0, 1)]
    values = [
        *edges,
        2**63 - 1,
        -(2**63),
        *(random.Random(7).randint(-(2**63), 2**63 - 1) for _ in range(200)),
    ]
    high, low = limbs_of("v")
    frame = spark.createDataFrame([(v,) for v in values], "v BIGINT")
    for row in frame.selectExpr("v", f"{high} AS high", f"{low} AS low").collect():
        assert row["high"] * 2**22 + row["low"] == row["v"]
        assert 0 <= row["low"] < 2**22


def test_a_call_in_two_steps_is_the_call(spark: SparkSession) -> None:
    """Partial values of rows, merged within parts and then over all parts, give what the call gives."""
    chance = random.Random(11)
    rows = [
        (
            chance.randrange(4),
            chance.randrange(3),
            *(None if chance.random() < 0.2 else value for value in (
                chance.randint(-(2**57), 2**57), chance.randint(-9, 9), chance.randint(-99, 99) / 4,
                Decimal(chance.randint(-999, 999)).scaleb(-2), chance.choice("abc"), chance.random() < 0.5,
            )),
        )
        for _ in range(120)
    ]  # fmt: skip
    frame = spark.createDataFrame(
        rows, "g INT, part INT, b BIGINT, i INT, d DOUBLE, m DECIMAL(9,2), s STRING, o BOOLEAN"
    )
    types = dict(frame.dtypes)
    split_calls: list[tuple[Call, tuple[str, ...], Split]] = []
    for function, arguments in (
        *((f, (a,)) for f in ("sum", "avg", "min", "max", "count") for a in "bidm"),
        *((f, ("o",)) for f in ("bool_and", "bool_or", "every", "any", "count_if")),
        *((f, (a, by)) for f in ("min_by", "max_by") for a in "bs" for by in "idm"),
        ("count", ()), ("min", ("s",)), ("count", ("s", "o")),
    ):  # fmt: skip
        call = Call(
            f"c{len(split_calls)}", function, arguments, where="i > -5" if len(split_calls) % 3 else ""
        )
        kinds = tuple(types[one] for one in arguments)
        halves = split(call, kinds, f"{call.name}_")
        if halves is None:  # a decimal average has no partial values that keep its digits
            assert (function, kinds) == ("avg", ("decimal(9,2)",))
            continue
        split_calls.append((call, kinds, halves))
    assert len(split_calls) > 35
    partials = [partial for _, _, halves in split_calls for partial in halves.partials]
    whole = frame.groupBy("g").agg(*[F.expr(p.text).alias(p.name) for p in partials]).dtypes
    kinds_of = dict(whole)
    single = frame.select(
        "g", "part", *[F.expr(f"CAST({p.row} AS {kinds_of[p.name]})").alias(p.name) for p in partials]
    )

    def merged() -> list[Column]:
        return [F.expr(f"CAST({p.merge}({p.name}) AS {kinds_of[p.name]})").alias(p.name) for p in partials]

    parts = single.groupBy("g", "part").agg(*merged()).groupBy("g").agg(*merged())
    found = parts.select("g", *[F.expr(halves.whole).alias(call.name) for call, _, halves in split_calls])
    wanted = frame.groupBy("g").agg(
        *[F.expr(lower_call(call, kinds)).alias(call.name) for call, kinds, _ in split_calls]
    )
    assert found.dtypes == wanted.dtypes
    assert told(found) == told(wanted)


def told(frame: DataFrame) -> list[list[object]]:
    """The rows in the order of their groups, doubles by their first nine digits: they may be added in any order."""
    rows = frame.sort("g").collect()
    return [[f"{value:.9g}" if isinstance(value, float) else value for value in row] for row in rows]
