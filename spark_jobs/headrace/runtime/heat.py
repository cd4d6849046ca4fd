"""How hot the keys of a hashed operator are: the newest input of its streams, run as a batch through the plan below it.

First a sketch finds the keys with the most rows of each partition, then those are counted. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.runtime import audit, records, sources
from headrace.runtime.lake import Lake
from headrace.runtime.lower import END, MATCHED, SIDES, START, Inputs, lower
from headrace.runtime.salting import HASH, join_keys, key_hash
from headrace.runtime.watermark import SHIFT_US
from headrace.sql.nodes import SESSION, Aggregate, JoinAsOf, JoinStreams, Node, Pipeline
from headrace.sql.skew import SIDES as SIDE_NAMES
from headrace.sql.skew import Hashed, Heat, Top, hashed

LOOK_ROWS = 1_000_000  # of each stream, about so many
TOP = 10  # keys that are told
TRACKED = 10_000  # counters of a sketch; Spark's default
PARTITION = "__state_partition"
KEY = "__key"


@dataclass(frozen=True, slots=True)
class Look:
    """Where to look: the newest `rows` of each stream; N is how many partitions its rows would be hashed to."""

    spark: SparkSession
    pipeline: Pipeline
    lake: Lake
    lookup: Callable[[str], DataFrame]
    partitions: int
    rows: int = LOOK_ROWS

    def scan(self, _number: int, name: str) -> DataFrame:
        """The newest rows of a stream, as a query sees them."""
        stream = self.pipeline.stream(name)
        start, end = sources.newest_range(self.lake, stream, self.rows)
        rows = sources.read_range(self.spark, self.lake, stream, start, end)
        return audit.usable(rows, stream).drop("__bad", "__raw", "__position", records.OWN_TIME)


@dataclass(frozen=True, slots=True)
class _Side:
    """The rows on their way into an operator: the expressions of their key, and those that they are hashed by."""

    rows: DataFrame
    keys: tuple[str, ...]
    hashed_by: tuple[str, ...]


def heats(look: Look, node: Node) -> list[Heat]:
    """The heat of each of an operator's sides; a key that is among the first of one side is counted on all."""
    sides = _sides(look, node)
    sketches = [_sketch(side, look.partitions) for side in sides]
    keys = {key for _, keys in sketches for key in keys}
    return [
        Heat(partitions, _counted(side, keys, look.partitions))
        for side, (partitions, _) in zip(sides, sketches, strict=True)
    ]


def is_comparable(look: Look, node: Node) -> bool:
    """Whether equal keys of an operator's sides are known to have equal hashes."""
    if not isinstance(node, JoinStreams):
        return True
    sides = [lower(side, Inputs(look.scan, look.lookup)) for side in (node.left, node.right)]
    return join_keys(node, sides) is not None


def newest_held(spark: SparkSession, checkpoint: str, node: JoinStreams, side: int) -> int | None:
    """The latest time (µs; in a window the start of it) of the rows of a side that a stopped join holds; None without any."""
    assert spark.streams.active is not None  # the reader needs what the first use of `streams` starts
    time = MATCHED[side] if node.window is None else SIDES[side][0]
    held = spark.read.format("statestore").option("joinSide", SIDE_NAMES[side]).load(checkpoint)
    latest = held.agg(F.max(F.unix_micros(F.col(f"value.{time}")))).collect()[0][0]
    return None if latest is None else int(latest) - SHIFT_US


def _sides(look: Look, node: Node) -> list[_Side]:
    into = [one for one in hashed(node) if one.node is node]
    frames = [lower(one.input, Inputs(look.scan, look.lookup)) for one in into]
    if isinstance(node, JoinStreams | JoinAsOf) and all(node.times):
        frames = _of_one_stretch(frames, node.times)
    keys: Sequence[tuple[str, ...]] = [one.keys for one in into]
    if isinstance(node, JoinStreams):
        keys = join_keys(node, frames) or keys
    return [_side(*each) for each in zip(into, frames, keys, strict=True)]


def _of_one_stretch(frames: list[DataFrame], times: tuple[str, str]) -> list[DataFrame]:
    """The rows of both sides between the times that both have: as many rows of one may be a minute, of the other a day."""
    micros = [f"unix_micros({time})" for time in times]
    found = [
        frame.agg(F.expr(f"min({time})"), F.expr(f"max({time})")).collect()[0]
        for frame, time in zip(frames, micros, strict=True)
    ]
    if any(row[0] is None for row in found):
        return frames
    begin, end = max(row[0] for row in found), min(row[1] for row in found)
    if begin > end:
        return frames
    return [
        frame.where(f"{time} BETWEEN {begin}L AND {end}L") for frame, time in zip(frames, micros, strict=True)
    ]


def _side(into: Hashed, rows: DataFrame, keys: tuple[str, ...]) -> _Side:
    node = into.node
    if not into.nulls:
        rows = rows.where(" AND ".join(f"({key}) IS NOT NULL" for key in keys))
    if keys == ("*",):
        keys = tuple(f"`{name}`" for name in rows.columns)
    window: tuple[str, ...] = ()
    if isinstance(node, JoinStreams) and node.window is not None:
        window = tuple(
            f"timestamp_micros(unix_micros({name}) + {SHIFT_US}L)" for name in ("window_start", "window_end")
        )
    elif isinstance(node, Aggregate) and node.windowed and SESSION not in rows.columns:
        window = (START, END)
    return _Side(rows, keys, (*keys, *window) or ("0",))


def _sketch(side: _Side, partitions: int) -> tuple[tuple[int, ...], list[int]]:
    """The rows of each partition, and the hashes of the keys that have the most."""
    at = f"pmod(hash({', '.join(side.hashed_by)}), {partitions})"
    top = f"approx_top_k({key_hash(side.keys)}, {TOP}, {TRACKED})" if side.keys else "array()"
    found = (
        side.rows.groupBy(F.expr(at).alias(PARTITION))
        .agg(F.count(F.lit(1)).alias("rows"), F.expr(top).alias("top"))
        .collect()
    )
    rows = {row[PARTITION]: row["rows"] for row in found}
    counts: dict[int, int] = {}
    for item in (item for row in found for item in row["top"]):
        counts[item["item"]] = counts.get(item["item"], 0) + item["count"]
    first = sorted(counts, key=lambda key: -counts[key])[:TOP]
    return tuple(rows.get(n, 0) for n in range(partitions)), first


def _counted(side: _Side, keys: Iterable[int], partitions: int) -> tuple[Top, ...]:
    """Those keys, each with its rows, how it reads, and where its salts lead."""
    wanted = list(keys)
    if not wanted:
        return ()
    parts = [f"k{n}" for n in range(len(side.keys))]
    key = ", ".join(f"{text} AS {part}" for text, part in zip(side.keys, parts, strict=True))
    found = (
        side.rows.select(F.expr(key_hash(side.keys)).alias(HASH), F.expr(f"struct({key})").alias(KEY))
        .where(F.col(HASH).isin(wanted))
        .groupBy(HASH)
        .agg(F.first(KEY).alias(KEY), F.count(F.lit(1)).alias("rows"))
    )
    named = ", ".join(f"{KEY}.{part}" for part in parts)
    told = ", ', ', ".join(f"coalesce(CAST({KEY}.{part} AS STRING), 'NULL')" for part in parts)
    salts = f"sequence(0, {4 * partitions + 15})"
    routes = f"transform({salts}, salt -> pmod(hash({named}, salt), {partitions}))"
    rows = found.select(HASH, "rows", F.expr(f"concat({told})").alias("text"), F.expr(routes).alias("routes"))
    tops = [Top(row[HASH], row["text"], row["rows"], tuple(row["routes"])) for row in rows.collect()]
    return tuple(sorted(tops, key=lambda top: (-top.rows, top.text)))
