"""The salt of hot keys: one more key of a join, or of a shuffle before an aggregate. DataFrame in, DataFrame out.

Which keys are hot is known here already (`sql/skew.py` says what they mean). A salted join has its salt as a
key even where no key is hot, so that one may become so at a later start.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, DataType, IntegerType, LongType, ShortType

from headrace.sql.nodes import Aggregate, JoinStreams
from headrace.sql.skew import HotKey, position

SALTS = ("__left_salt", "__right_salt")
SAME_SALT = f"{SALTS[0]} = {SALTS[1]}"
HASH = "__key_hash"
SUB_GROUP = "__sub_group"
INTEGERS = (ByteType, ShortType, IntegerType, LongType)  # the wider ones later


def join_keys(
    node: JoinStreams, sides: Sequence[DataFrame]
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The keys of both sides in the types in which they are compared; None where those are for Spark to find out."""
    pairs = []
    for left, right in node.keys:
        one, other = (
            side.select(F.expr(key)).schema.fields[0].dataType
            for side, key in zip(sides, (left, right), strict=True)
        )
        if one == other:
            pairs.append((left, right))
        elif (wider := _wider(one, other)) is not None:
            pairs.append((f"CAST({left} AS {wider})", f"CAST({right} AS {wider})"))
        else:
            return None
    lefts, rights = zip(*pairs, strict=True)
    return tuple(lefts), tuple(rights)


def _wider(one: DataType, other: DataType) -> str | None:
    if not (isinstance(one, INTEGERS) and isinstance(other, INTEGERS)):
        return None
    return max(one, other, key=lambda kind: INTEGERS.index(type(kind))).simpleString()


def key_hash(keys: Sequence[str]) -> str:
    """What tells a key in this module: two that share it are both hot or both not."""
    return f"xxhash64({', '.join(keys)})"


def salted(
    node: JoinStreams, hot: Sequence[HotKey], sides: Sequence[DataFrame], times: tuple[str, str]
) -> list[DataFrame]:
    """Both sides with their column of SALTS, rows that are copied once for each salt.

    `times` are the columns (µs) that `HotKey.since` is about, '' where there is none.
    """
    keys = join_keys(node, sides)
    assert keys is not None
    return [
        _with_salt(side, n, key_hash(keys[n]), hot, (position(side_node), times[n]))
        for n, (side, side_node) in enumerate(zip(sides, (node.left, node.right), strict=True))
    ]


def _with_salt(side: DataFrame, n: int, hashed: str, hot: Sequence[HotKey], by: tuple[str, str]) -> DataFrame:
    spread = {_when(key, by[1]): _one_of(key, by[0]) for key in hot if key.side == n}
    copied = {f"{HASH} = {key.hash}L": f"array({_list(key)})" for key in hot if key.side != n}
    rows = side.withColumn(HASH, F.expr(hashed))
    none = f"CAST(pmod({HASH}, 1L) AS INT)"  # 0: Spark would drop a literal from the keys
    if copied:
        arrays = {**{when: f"array({salt})" for when, salt in spread.items()}, **copied}
        salt = F.explode(F.expr(_case(arrays, f"array({none})")))
    else:
        salt = F.expr(_case(spread, none))
    return rows.select("*", salt.alias(SALTS[n])).drop(HASH)


def spread_groups(node: Aggregate, hot: Sequence[HotKey], rows: DataFrame) -> DataFrame:
    """The rows hashed by key and salt, so that hot groups are aggregated in parts before those are merged."""
    partitions = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    keys = [F.expr(key.expression) for key in node.keys]
    hashed = rows.withColumn(HASH, F.expr(key_hash([key.expression for key in node.keys])))
    by = position(node.input)
    salt = _case({_when(key, ""): _one_of(key, by) for key in hot}, "0")
    told = hashed.withColumn(SUB_GROUP, F.expr(salt)).drop(HASH)
    return told.repartition(partitions, *keys, F.col(SUB_GROUP)).drop(SUB_GROUP)


def _when(key: HotKey, time: str) -> str:
    told = f"{HASH} = {key.hash}L"
    return told if key.since is None else f"{told} AND {time} > {key.since}L"


def _one_of(key: HotKey, by: str) -> str:
    return f"array({_list(key)})[CAST(pmod(xxhash64({by}), {len(key.salts)}L) AS INT)]"


def _list(key: HotKey) -> str:
    return ", ".join(str(salt) for salt in key.salts)


def _case(cases: dict[str, str], otherwise: str) -> str:
    if not cases:
        return otherwise
    return f"CASE {' '.join(f'WHEN {when} THEN {then}' for when, then in cases.items())} ELSE {otherwise} END"
