"""Two frames with the same columns, held against each other row by row.

With keys: a full outer join on them, NULL and NaN equal to themselves. Without: rows are counted, and equal
rows must be equally many. Floats may differ by a relative TOLERANCE, everything else is exact; bags (arrays
that a collect gave) are compared sorted. DataFrame in, DataFrame out: no action runs here.

The comparison has the columns `kind` (equal | changed | missing | extra), `times` (rows that speak for it),
`expected` and `found` (rows on each side), `key` (map of texts), and `differing`, an array of (column,
expected, found) as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

TOLERANCE = 1e-9  # relative (SEMANTICS, 5)
KINDS = ("equal", "changed", "missing", "extra")
DIFFERING = "array<struct<column: string, expected: string, found: string>>"


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns identify a row and which are compared; `bags` are arrays in which order means nothing.

    `keyed` False: rows have no identity. True without `keys`: there is one row.
    """

    keys: tuple[str, ...]
    values: tuple[str, ...]
    keyed: bool = True
    bags: frozenset[str] = frozenset()


def comparison(expected: DataFrame, found: DataFrame, columns: Columns) -> DataFrame:
    """Each row of both, matched by key or by its whole content."""
    if columns.keyed:
        return _by_key(expected, found, columns)
    return _by_content(expected, found, columns)


def _by_key(expected: DataFrame, found: DataFrame, columns: Columns) -> DataFrame:
    names = (*columns.keys, *columns.values)
    one = expected.select(F.lit(1).alias("e_here"), *_renamed("e", names))
    keys = [_quoted(key) for key in columns.keys] or [F.lit(1)]
    nth = F.row_number().over(Window.partitionBy(*keys).orderBy(F.lit(1)))  # a key's second row is extra
    other = found.select(nth.alias("f_here"), *_renamed("f", names))
    same = [F.col(_side("e", key)).eqNullSafe(F.col(_side("f", key))) for key in columns.keys]
    joined = one.join(other, reduce(Column.__and__, same, F.col("e_here") == F.col("f_here")), "full_outer")
    kinds = {field.name: field.dataType for field in expected.schema.fields}
    differing = F.filter(
        F.array(*[_difference(name, kinds[name], bag=name in columns.bags) for name in columns.values]).cast(
            DIFFERING
        )
        if columns.values
        else F.array().cast(DIFFERING),
        lambda d: d.isNotNull(),
    )
    whole = F.array(
        F.struct(
            F.lit("").alias("column"), _row("e", columns).alias("expected"), _row("f", columns).alias("found")
        )
    )
    kind = (
        F.when(F.col("f_here").isNull(), "missing")
        .when(F.col("e_here").isNull(), "extra")
        .when(F.size("differing") > 0, "changed")
        .otherwise("equal")
    )
    alone = F.col("e_here").isNull() | F.col("f_here").isNull()
    texts = F.when(alone, whole.cast(DIFFERING)).otherwise(F.col("differing"))
    return (
        joined.withColumn("differing", differing)
        .withColumn("kind", kind)
        .select(
            "kind",
            F.lit(1).cast("bigint").alias("times"),
            F.col("e_here").isNotNull().cast("bigint").alias("expected"),
            F.col("f_here").isNotNull().cast("bigint").alias("found"),
            F.when(F.col("kind") != "equal", _key(columns.keys)).alias(
                "key"
            ),  # texts only where they are read
            F.when(F.col("kind") != "equal", texts).alias("differing"),
        )
    )


def _by_content(expected: DataFrame, found: DataFrame, columns: Columns) -> DataFrame:
    names = (*columns.keys, *columns.values)
    one, other = (
        _counted(frame, names, columns.bags, side) for frame, side in ((expected, "e"), (found, "f"))
    )
    same = reduce(
        Column.__and__,
        [F.col(_side("e", name)).eqNullSafe(F.col(_side("f", name))) for name in names],
        F.lit(True),
    )
    joined = one.join(other, same, "full_outer").na.fill(0, ["e_times", "f_times"])
    surplus = F.col("f_times") - F.col("e_times")
    kind = F.when(surplus < 0, "missing").when(surplus > 0, "extra").otherwise("equal")
    texts = F.array(
        F.struct(
            F.lit("").alias("column"),
            F.concat_ws(" × ", F.col("e_times").cast("string"), _row("e", columns)).alias("expected"),
            F.concat_ws(" × ", F.col("f_times").cast("string"), _row("f", columns)).alias("found"),
        )
    )
    return joined.select(
        kind.alias("kind"),
        F.when(surplus == 0, F.col("e_times")).otherwise(F.abs(surplus)).alias("times"),
        F.col("e_times").alias("expected"),
        F.col("f_times").alias("found"),
        F.map_from_arrays(F.array().cast("array<string>"), F.array().cast("array<string>")).alias("key"),
        F.when(surplus != 0, texts.cast(DIFFERING)).alias("differing"),
    )


def _counted(frame: DataFrame, names: Sequence[str], bags: frozenset[str], side: str) -> DataFrame:
    columns = [
        (F.sort_array(_quoted(name)) if name in bags else _comparable(frame, name)).alias(_side(side, name))
        for name in names
    ]
    return (
        frame.select(*columns)
        .groupBy(*[f"`{_side(side, name)}`" for name in names])
        .agg(F.count(F.lit(1)).alias(f"{side}_times"))
    )


def _comparable(frame: DataFrame, name: str) -> Column:
    """Maps can't be grouped: their sorted entries can."""
    column = _quoted(name)
    return (
        F.sort_array(F.map_entries(column)) if isinstance(frame.schema[name].dataType, T.MapType) else column
    )


# ---- values ------------------------------------------------------------------------------------
def _difference(name: str, kind: T.DataType, *, bag: bool) -> Column:
    expected, found = F.col(_side("e", name)), F.col(_side("f", name))
    if bag and isinstance(kind, T.ArrayType):
        expected, found = F.sort_array(expected), F.sort_array(found)
    text = F.struct(
        F.lit(name).alias("column"), _text(expected).alias("expected"), _text(found).alias("found")
    )
    return F.when(~same_value(expected, found, kind), text)


def same_value(expected: Column, found: Column, kind: T.DataType) -> Column:
    """Whether two values of a type are the same; never NULL."""
    match kind:
        case T.DoubleType() | T.FloatType():
            one, other = expected.cast("double"), found.cast("double")
            size = F.greatest(F.abs(one), F.abs(other))
            near = (F.abs(one - other) <= F.lit(TOLERANCE) * size) & (size < F.lit(float("inf")))
            return one.eqNullSafe(other) | F.coalesce(near, F.lit(False))
        case T.ArrayType(elementType=inner):
            pairs = F.zip_with(expected, found, lambda a, b: same_value(a, b, inner))
            alike = (F.size(expected) == F.size(found)) & F.forall(pairs, lambda same: same)
            return (expected.isNull() & found.isNull()) | F.coalesce(alike, F.lit(False))
        case T.StructType(fields=fields):
            each = [same_value(expected.getField(f.name), found.getField(f.name), f.dataType) for f in fields]
            alike = reduce(Column.__and__, each, F.lit(True))
            return expected.isNull().eqNullSafe(found.isNull()) & (expected.isNull() | alike)
        case T.MapType(keyType=key, valueType=value):
            entries = T.ArrayType(T.StructType([T.StructField("key", key), T.StructField("value", value)]))
            return same_value(
                F.sort_array(F.map_entries(expected)), F.sort_array(F.map_entries(found)), entries
            )
        case _:
            return expected.eqNullSafe(found)


def _text(column: Column) -> Column:
    return F.coalesce(column.cast("string"), F.lit("NULL"))


def _row(side: str, columns: Columns) -> Column:
    """A whole row as text `a=1, b=x`; '' where this side has none."""
    parts = [F.concat(F.lit(f"{name}="), _text(F.col(_side(side, name)))) for name in columns.values]
    here = F.col(f"{side}_here").isNotNull() if columns.keyed else F.col(f"{side}_times") > 0
    return F.when(here, F.concat_ws(", ", *parts)).otherwise("")


def _key(keys: Sequence[str]) -> Column:
    """The key as map name → text, from whichever side has the row."""
    if not keys:
        return F.map_from_arrays(F.array().cast("array<string>"), F.array().cast("array<string>"))
    pairs: list[Column] = []
    for key in keys:
        here = F.when(F.col("e_here").isNotNull(), _text(F.col(_side("e", key)))).otherwise(
            _text(F.col(_side("f", key)))
        )
        pairs += [F.lit(key), here]
    return F.create_map(*pairs)


def _renamed(side: str, names: Sequence[str]) -> list[Column]:
    return [_quoted(name).alias(_side(side, name)) for name in names]


def _side(side: str, name: str) -> str:
    return f"{side}_{name}"


def _quoted(name: str) -> Column:
    return F.col(f"`{name}`")
