"""Hot keys salted: the answers of joins and groups stay what they are, over starts at which keys become hot."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from rich.console import Console

from headrace.errors import Refused
from headrace.ops.skew import show
from headrace.runtime.lake import Lake
from headrace.runtime.query import LivePipeline
from headrace.runtime.sinks import read_result
from headrace.skew import measured
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import Pipeline
from tests.streams.one_run import take

pytestmark = pytest.mark.streams

NEAR = "ON l.k = m.k AND m.ts BETWEEN l.ts - INTERVAL '2' SECOND AND l.ts + INTERVAL '5' SECOND"
Row = tuple[int, int, int]  # key, second, number
ANOTHER, HOT = 3, 7


def joined(kind: str, near: str, salt: str) -> Pipeline:
    streams = "".join(
        f"CREATE STREAM {name} (k {of}, n BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '10' SECOND);"
        for name, of in (("a", "BIGINT"), ("b", "INT"))
    )
    query = f"SELECT l.n AS left, m.n AS right FROM a l {kind} JOIN b m {near}"
    return compile_pipeline(
        f"SET 'skew.salt' = '{salt}'; {streams} CREATE TABLE r AS {query};", name="skewed"
    )


def given(rows: list[Row]) -> list[dict[str, object]]:
    return [{"k": k, "n": n, "ts": f"2026-01-01T00:00:{second:02d}Z"} for k, second, n in rows]


class Run:
    """A join over several starts, each with its own batch."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.lake = spark, Lake(str(root / "lake"))
        self.lefts: list[Row] = []
        self.rights: list[Row] = []
        self.live: LivePipeline | None = None

    def start(self, pipeline: Pipeline, left: list[Row], right: list[Row]) -> None:
        self.stop()
        self.live = LivePipeline(self.spark, pipeline, self.lake, partitions=4)
        self.deliver(left, right)
        self.live.start()
        self.live.settle()

    def deliver(self, left: list[Row], right: list[Row]) -> None:
        assert self.live is not None
        self.lefts += left
        self.rights += right
        self.live.deliver({"a": [(0, given(left))], "b": [(0, given(right))]})
        if self.live.running:
            self.live.settle()

    def stop(self) -> None:
        if self.live is not None:
            self.live.stop()

    def found(self) -> list[tuple[int | None, int | None]]:
        rows = DeltaTable(self.lake.result("r")).to_pyarrow_table().to_pylist()
        return sorted(((row["left"], row["right"]) for row in rows), key=str)

    def expected(self, kind: str, near: bool) -> list[tuple[int | None, int | None]]:
        """By all pairs; the last left row was late."""
        pairs: list[tuple[int | None, int | None]] = []
        for k, at, n in self.lefts[:-1]:
            for other, then, number in self.rights:
                if k == other and (-2 <= then - at <= 5 if near else at // 10 == then // 10):
                    pairs.append((n, number))
        missed = {n for _, _, n in self.lefts[:-1]} - {left for left, _ in pairs}
        return sorted([*pairs, *((n, None) for n in missed if kind == "LEFT")], key=str)

    def hot(self) -> dict[str, tuple[int, int | None]]:
        assert self.live is not None
        kept = self.live.queries[0].checkpoint.hot()
        assert kept is not None
        return {key.text: (key.side, key.since) for key in kept}

    def partitions(self, side: str) -> set[int]:
        """Those in which the stopped join holds rows of the hot key."""
        assert self.live is not None
        reader = self.spark.read.format("statestore").option("path", self.live.queries[0].checkpoint.spark)
        rows = reader.option("joinSide", side).load().where(f"value.k = {HOT}")
        return {row["partition_id"] for row in rows.select("partition_id").distinct().collect()}


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Iterator[Run]:
    started = Run(spark, tmp_path)
    yield started
    started.stop()


@pytest.mark.parametrize(
    ("kind", "near", "since"),
    [
        ("INNER", NEAR, 16),
        ("LEFT", "ON l.k = m.k WINDOW TUMBLING(INTERVAL '10' SECOND)", 10),
    ],
)
def test_a_key_that_becomes_hot_at_a_start_is_spread_and_the_answer_is_that_of_all_pairs(
    run: Run, kind: str, near: str, since: int
) -> None:
    salted = joined(kind, near, "auto")
    run.start(
        salted, [(n % 10, 10, n) for n in range(20)], [*((k, 11, 100 + k) for k in range(9)), (HOT, 14, 110)]
    )
    assert run.hot() == {}
    many = [(HOT, 12 + n % 12, 200 + n) for n in range(48)]
    run.start(salted, many, [(HOT, 13, 300), (HOT, 20, 301), (ANOTHER, 12, 302)])
    begin = 1_767_225_600_000_000  # 2026-01-01
    assert run.hot() == {"7": (0, begin + since * 1_000_000)}
    run.deliver([(1, 23, 260), (9, 21, 261)], [(HOT, 15, 310), (HOT, 24, 311), (1, 22, 312)])
    run.stop()
    assert len(run.partitions("left")) > 1
    assert len(run.partitions("right")) > 1
    run.start(joined(kind, near, "off"), [(HOT, 30 + n % 6, 400 + n) for n in range(12)], [(HOT, 31, 500)])
    assert list(run.hot()) == ["7"]
    assert run.live is not None
    run.deliver([(HOT, 8, 600)], [])
    run.live.flush()
    assert run.found() == run.expected(kind, near == NEAR)
    assert run.live.metrics()["late_rows"] == 1


def test_a_join_that_was_begun_without_salt_takes_none_up(run: Run) -> None:
    run.start(joined("INNER", NEAR, "off"), [(1, 10, 1)], [(1, 10, 2)])
    with pytest.raises(Refused, match="the state of its join was begun without salt"):
        run.start(joined("INNER", NEAR, "auto"), [(1, 11, 3)], [])


def test_groups_that_are_spread_by_a_number_are_merged_to_the_same_answer(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = (
        "SET 'skew.salt' = '3'; CREATE STREAM s (k STRING, v BIGINT);"
        "CREATE TABLE r AS SELECT k, COUNT(*) AS n, SUM(v) AS total, MAX(v) AS most FROM s GROUP BY k;"
    )
    pipeline, lake = compile_pipeline(text, name="groups"), Lake(str(tmp_path))
    rows = [{"k": "hot" if v % 5 else "cold", "v": v} for v in range(50)]
    take(spark, pipeline, lake, rows, partitions=4)
    live = LivePipeline(spark, pipeline, lake, partitions=4)
    try:
        assert [(key.text, len(key.salts)) for key in live.queries[0].checkpoint.hot() or ()] == [("hot", 3)]
        assert "Repartition" in live.queries[0].spark_plan()
    finally:
        live.stop()
    found = {
        row["k"]: (row["n"], row["total"], row["most"])
        for row in read_result(lake, pipeline.result("r")).to_pylist()
    }
    hot, cold = ([v for v in range(50) if bool(v % 5) is wanted] for wanted in (True, False))
    assert found == {"hot": (40, sum(hot), 49), "cold": (10, sum(cold), 45)}


def test_skew_shows_partitions_keys_and_what_would_help(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "input"
    folder.mkdir()
    (folder / "one.json").write_text(
        "".join(f'{{"k": {n % 5 and HOT}, "ts": "2026-01-01T00:00:0{n % 9}Z"}}\n' for n in range(90))
    )
    stream = "(k BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts)"
    pipeline = compile_pipeline(
        f"CREATE STREAM a {stream} WITH ('connector' = 'files', 'path' = '{folder}', 'format' = 'json');"
        f"CREATE STREAM b {stream} WITH ('connector' = 'files', 'path' = '{tmp_path / 'none'}', 'format' = 'json');"
        f"CREATE TABLE r AS SELECT l.k FROM a l JOIN b m {NEAR};"
        "CREATE TABLE g AS SELECT k, COUNT(*) AS n FROM a GROUP BY k WINDOW TUMBLING(INTERVAL '1' MINUTE);",
        name="shown",
    )
    (tmp_path / "none").mkdir()
    join, groups = measured(spark, pipeline, Lake(str(tmp_path / "lake")), 1000)
    assert (sum(join.partitions), max(join.partitions) >= 72, len(join.partitions)) == (90, True, 4)
    assert [(key.text, key.rows, key.hot) for key in join.by_key()] == [
        ("7", (72, 0), True),
        ("0", (18, 0), False),
    ]
    assert join.advice == ("7 (left rows over 4): SET 'skew.salt' = 'auto' before the first start",)
    assert groups.advice == (
        "7: not for salt: of a group each task moves one row, its partial result, however many it read",
    )
    page = io.StringIO()
    show(Console(file=page, width=120), [join, groups], 10)
    lines = page.getvalue().splitlines()
    assert any("█" * 32 in line and "%" in line for line in lines)
    assert any(line.split() == ["7", "72", "0", "80.0", "%", "hot"] for line in lines)
