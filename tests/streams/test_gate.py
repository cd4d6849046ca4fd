"""The gate, on lakes made by hand (input files, batch log, `rejected`, result tables) and on one of a real run.

A verdict takes Spark and Great Expectations seconds, so one lake holds a result for each rule, and each test
looks at one of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from expectations.gate import GateRequest, run_gate
from expectations.relations import Names
from expectations.rewrite import plain
from expectations.verdict import ResultVerdict, Verdict
from headrace.errors import ExitCode, Refused
from headrace.runtime import batchlog, fileindex
from headrace.runtime.batchlog import FLUSHED_MS, BatchRow
from headrace.runtime.lake import Lake
from headrace.runtime.query import LivePipeline
from headrace.runtime.sources import index_file
from headrace.runtime.tables import publish
from headrace.sql.compile import compile_file
from headrace.sql.nodes import Pipeline

pytestmark = pytest.mark.streams

US = pa.timestamp("us", tz="UTC")
DECLARED = """
CREATE STREAM s (k STRING NOT NULL, ts TIMESTAMP, v BIGINT, WATERMARK FOR ts AS ts)
  WITH ('connector' = 'files', 'path' = '${DATA}', 'format' = 'json');
CREATE TABLE ref (k STRING, price BIGINT, PRIMARY KEY (k));
"""
COUNTED = """CREATE TABLE {name} AS SELECT k, window_start, COUNT(*) AS n, AVG(v) AS mean FROM s
  GROUP BY k WINDOW {window} EMIT FINAL;
"""
TEN = "TUMBLING(INTERVAL '10' SECOND)"
RESULTS = (
    "".join(
        COUNTED.format(name=name, window=TEN)
        for name in ("good", "wrong", "typed", "closed", "early", "lost")
    )
    + COUNTED.format(name="sliding", window="SLIDING(INTERVAL '10' SECOND, INTERVAL '5' SECOND)")
    + """
CREATE TABLE versions AS SELECT s.k, s.v, ref.price FROM s JOIN ref ON s.k = ref.k;
CREATE STREAM changes AS SELECT k, SUM(v) AS total FROM s GROUP BY k EMIT CHANGES;
CREATE TABLE hidden AS SELECT MAX(v) AS high FROM s GROUP BY upper(k), v > 3;
CREATE TABLE whole AS SELECT COUNT(*) AS n, SUM(v) AS total FROM s;
CREATE TABLE gap AS SELECT COUNT(*) AS n FROM s;
CREATE TABLE never AS SELECT COUNT(*) AS n FROM s;
"""
)
# (k, seconds, v) of each batch, and what COUNTED makes of them: key, start of the window, count, mean
INPUT = [[("A", 1, 1), ("B", 2, 9)], [("A", 3, 2), ("A", 11, 4)]]
GOOD = [("A", 0, 2, 1.5), ("B", 0, 1, 9.0), ("A", 10, 1, 4.0)]


def at(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


@dataclass(frozen=True, slots=True)
class Hand:
    """A lake that is made by hand. Each batch is one file of the source partition A."""

    folder: Path
    pipeline: Pipeline

    @property
    def lake(self) -> Lake:
        return Lake(str(self.folder / "lake"))

    def file(self, number: int, rows: Sequence[tuple[Any, float, Any]]) -> None:
        self.text(
            number,
            "".join(json.dumps({"k": k, "ts": at(ts).isoformat(), "v": v}) + "\n" for k, ts, v in rows),
        )

    def text(self, number: int, text: str) -> None:
        (self.folder / "in/partition=A" / f"{number:04}.json").write_text(text)
        fileindex.discover(index_file(self.lake, self.pipeline.stream("s")), str(self.folder / "in"))

    def log(
        self,
        query: str,
        number: int,
        *,
        watermark_ms: int | None = None,
        tables: Mapping[str, int] | None = None,
        files: int = 1,
    ) -> None:
        """A batch that read the file of its number, or with `files=0` none."""
        offsets = json.dumps({"s": {"start": {"A": number}, "end": {"A": number + files}}})
        counts = dict.fromkeys(batchlog.COUNTERS, 0)
        pins = json.dumps(tables or {})
        batchlog.prepare(self.lake)
        row = BatchRow(query, 0, number, 0, watermark_ms, offsets, pins, "{}", counts, 0.1)
        batchlog.write(batchlog.opening(self.lake).result(), row)

    def end(self, query: str, number: int, watermark_ms: int = FLUSHED_MS) -> None:
        """The last batch, without rows: it closes the windows."""
        self.log(query, number, watermark_ms=watermark_ms, files=0)

    def reject(self, query: str, offset: str, reason: str) -> None:
        row = {"query": query, "stream": "s", "partition": "A", "offset": offset, "reason": reason}
        write_deltalake(self.lake.rejected, pa.Table.from_pylist([row]), mode="append")

    def rows(self, result: str, types: Mapping[str, pa.DataType], rows: Sequence[Sequence[Any]]) -> None:
        columns = [dict(zip(types, row, strict=True)) for row in rows]
        write_deltalake(
            self.lake.result(result), pa.Table.from_pylist(columns, pa.schema(types.items())), mode="append"
        )

    def counts(
        self, result: str, rows: Sequence[tuple[str, float, int, float]], count: pa.DataType | None = None
    ) -> None:
        types = {"k": pa.string(), "window_start": US, "n": count or pa.int64(), "mean": pa.float64()}
        typed = [(k, at(start), n, mean, at(start + 10)) for k, start, n, mean in rows]
        self.rows(result, {**types, "__window_end": US}, typed)

    def gate(self, spark: SparkSession, **wishes: Any) -> Verdict:
        variables = {"DATA": str(self.folder / "in")}
        request = GateRequest(str(self.folder / "p.sql"), self.lake.root, variables=variables, **wishes)
        return run_gate(request, spark, clock=lambda: at(0))


def hand_in(folder: Path, results: str) -> Hand:
    (folder / "in/partition=A").mkdir(parents=True)
    (folder / "p.sql").write_text(DECLARED + results)
    return Hand(folder, compile_file(folder / "p.sql", {"DATA": str(folder / "in")}))


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Hand:
    """Two batches, read by every query, and a table for every result."""
    hand = hand_in(tmp_path_factory.mktemp("gate"), RESULTS)
    for number, rows in enumerate(INPUT):
        hand.file(number, rows)
    special = {"sliding", "closed", "versions", "gap", "never"}
    for query in {result.name for result in hand.pipeline.results} - special:
        hand.log(query, 0)
        hand.log(query, 1, watermark_ms=2000)
        if query != "lost":
            hand.end(query, 2)
    _write_wrong(hand)
    hand.counts("typed", [*GOOD, *((f"X{n}", 0, 1, 1.0) for n in range(30))], pa.int32())
    _write_watermarks(hand)
    for query, reason in (("good", "bad_record"), ("early", "late")):
        hand.reject(query, "1:0", reason)
        hand.counts(query, [("A", 0, 1, 1.0), *GOOD[1:]])
    hand.text(2, "no record\n")
    hand.log("lost", 2)
    hand.end("lost", 3)
    hand.counts("lost", GOOD)
    _write_versions(hand)
    changes = [("+I", "A", 1), ("+I", "B", 9), ("-U", "A", 1), ("+U", "A", 7), ("-D", "B", 9)]
    hand.rows("changes", {"_op": pa.string(), "k": pa.string(), "total": pa.int64()}, changes)
    keys = hand.pipeline.result("hidden").keys
    types = {"high": pa.int64(), keys[0]: pa.string(), keys[1]: pa.bool_()}
    hand.rows("hidden", types, [(2, "A", False), (4, "A", True), (9, "B", True)])
    hand.rows("whole", {"n": pa.int64(), "total": pa.int64()}, [(4, 17)])
    hand.log("gap", 1)
    hand.log("gap", 3)
    return hand


def _write_wrong(hand: Hand) -> None:
    """A count that is one too many, a mean that is off, a row that lacks, one that nobody knows, one twice."""
    near = 1.5 * (1 + 5e-10)
    hand.counts(
        "wrong", [("A", 0, 3, near), ("A", 10, 1, 4.0 * (1 + 5e-9)), ("C", 0, 7, 7.0), ("C", 0, 7, 7.0)]
    )


def _write_watermarks(hand: Hand) -> None:
    hand.log("closed", 0)
    hand.log("closed", 1)
    hand.end("closed", 2, 12_000)
    hand.counts("closed", GOOD[:2])
    hand.log("sliding", 0)
    hand.log("sliding", 1, watermark_ms=7000)  # A at 3 is late for [-5, 5) and not for [0, 10)
    hand.end("sliding", 2)
    halves = [("A", -5, 1, 1.0), ("B", -5, 1, 9.0), ("A", 5, 1, 4.0)]
    hand.counts("sliding", [*GOOD, *halves])


def _write_versions(hand: Hand) -> None:
    ref = hand.pipeline.table("ref")
    for number, price in enumerate((10, 20)):
        version = publish(hand.lake, ref, pa.table({"k": ["A"], "price": [price]}))
        hand.log("versions", number, tables={"ref": version})
    types = {"k": pa.string(), "v": pa.int64(), "price": pa.int64()}
    hand.rows("versions", types, [("A", 1, 10), ("A", 2, 20), ("A", 4, 20), ("A", 4, 20)])


@pytest.fixture(scope="module")
def verdict(spark: SparkSession, lake: Hand) -> Verdict:
    return lake.gate(spark)


def of(verdict: Verdict, name: str) -> ResultVerdict:
    return next(result for result in verdict.results if result.result == name)


def failed(result: ResultVerdict) -> list[str]:
    return [check.name for check in result.checks if not check.holds]


def named(result: ResultVerdict) -> list[tuple[str, str | None, str, str, str]]:
    return [
        (one.kind, dict(one.key).get("k"), one.column, one.expected, one.found) for one in result.differences
    ]


def test_a_good_result_is_equal_and_a_rejected_row_takes_no_part_in_it(verdict: Verdict) -> None:
    good = of(verdict, "good")
    assert good.outcome == "equal", verdict.render()
    assert (good.rows, good.differing, good.batches, good.watermark_ms) == (3, 0, 3, FLUSHED_MS)
    assert len(good.checks) == 9


def test_changed_missing_and_extra_rows_are_each_named(verdict: Verdict) -> None:
    wrong = of(verdict, "wrong")
    assert wrong.outcome == "unequal"
    assert named(wrong) == [
        ("changed", "A", "n", "2", "3"),
        ("changed", "A", "mean", "4.0", str(4.0 * (1 + 5e-9))),
        ("extra", "C", "", "", "n=7, mean=7.0"),
        ("extra", "C", "", "", "n=7, mean=7.0"),
        ("missing", "B", "", "n=1, mean=9.0", ""),
    ]
    assert dict(wrong.differences[0].key)["window_start"] == "1970-01-01 00:00:00"
    assert failed(wrong) == [
        "each key has one row",
        "there are as many rows as in the baseline",
        "each row equals the baseline's",
    ]


def test_a_column_of_another_type_is_told_and_only_the_first_rows_are_named(verdict: Verdict) -> None:
    typed = of(verdict, "typed")
    assert failed(typed)[0] == "columns have the types of the query"
    assert (typed.differing, len(typed.differences)) == (30, 20)


def test_only_windows_that_the_watermark_closed_are_compared(verdict: Verdict) -> None:
    assert (of(verdict, "closed").outcome, of(verdict, "closed").rows) == ("equal", 2)


def test_a_row_that_was_in_time_and_rejected_as_late_is_told(verdict: Verdict) -> None:
    assert failed(of(verdict, "early")) == ["no row in time was rejected as late"]


def test_a_bad_record_that_is_nowhere_is_told(verdict: Verdict) -> None:
    assert failed(of(verdict, "lost")) == ["each bad record is in rejected"]


def test_a_row_late_for_some_of_its_windows_counts_in_the_others(verdict: Verdict) -> None:
    sliding = of(verdict, "sliding")
    assert [(one.kind, dict(one.key)["window_start"][11:], one.found) for one in sliding.differences] == []
    assert (sliding.outcome, sliding.rows) == ("equal", 6)


def test_each_row_meets_the_table_version_of_its_batch(verdict: Verdict) -> None:
    """Rows without identity are counted: one of them stands once too often."""
    assert [(one.kind, one.expected, one.found) for one in of(verdict, "versions").differences] == [
        ("extra", "1 × k=A, v=4, price=20", "2 × k=A, v=4, price=20")
    ]
    assert of(verdict, "versions").differing == 1


def test_a_changelog_stands_for_what_it_ends_in(verdict: Verdict) -> None:
    assert named(of(verdict, "changes")) == [("missing", "B", "", "total=9", "")]


def test_hidden_keys_tell_rows_apart(verdict: Verdict) -> None:
    assert (of(verdict, "hidden").outcome, of(verdict, "hidden").rows) == ("equal", 3)


def test_a_global_aggregate_is_one_row_that_changed(verdict: Verdict) -> None:
    assert named(of(verdict, "whole")) == [("changed", None, "total", "16", "17")]


def test_a_gap_in_the_log_and_a_result_that_never_ran_are_unknown(verdict: Verdict) -> None:
    assert (of(verdict, "gap").outcome, of(verdict, "never").outcome) == ("unknown", "unknown")
    assert "gap before batch 3" in of(verdict, "gap").reason


def test_the_verdict_is_written_and_its_data_docs_name_the_checks(lake: Hand, verdict: Verdict) -> None:
    folder = Path(lake.lake.root, "_headrace/gate")
    written = json.loads((folder / "verdict.json").read_text())
    assert (written["verdict"], written["exit_code"], written["tolerance"]) == ("unequal", 3, 1e-9)
    assert (folder / "verdict-19700101T000000.json").exists()
    pages = "".join(page.read_text() for page in Path(verdict.docs).parent.rglob("*.html"))
    assert "each key has one row" in pages
    assert verdict.code == ExitCode.UNEQUAL


def test_since_leaves_earlier_windows_out(spark: SparkSession, lake: Hand) -> None:
    found = lake.gate(spark, since="1970-01-01T00:00:10Z", results=("early",))
    assert found.results[0].rows == 1
    assert found.results[0].not_compared == 2
    assert found.results[0].differing == 0


def test_input_that_is_gone_is_unknown_whatever_the_rows_look_like(
    spark: SparkSession, tmp_path: Path
) -> None:
    hand = hand_in(tmp_path, COUNTED.format(name="good", window=TEN))
    for number, rows in enumerate(INPUT):
        hand.file(number, rows)
        hand.log("good", number)
    hand.counts("good", GOOD)
    (tmp_path / "in/partition=A/0000.json").unlink()
    found = hand.gate(spark)
    assert found.code == ExitCode.UNKNOWN
    assert "0000.json is no longer there" in found.results[0].reason


def test_a_result_or_a_time_that_is_none_is_refused(spark: SparkSession, lake: Hand) -> None:
    with pytest.raises(Refused, match="no result q"):
        lake.gate(spark, results=("q",))
    with pytest.raises(Refused, match="not a time"):
        lake.gate(spark, since="yesterday")


CARRIED = """
CREATE TABLE sessions AS SELECT k, window_start, COUNT(*) AS n FROM s GROUP BY k WINDOW SESSION(INTERVAL '5' SECOND);
CREATE TABLE growing AS
  SELECT k, window_end, SUM(v) AS total FROM s GROUP BY k WINDOW SESSION(INTERVAL '5' SECOND) EMIT CHANGES;
CREATE STREAM changes AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
CREATE TABLE back AS SELECT k, ts, SUM(v) OVER (ROWS WINDOW BUFFER 2 ROWS PARTITION BY k ORDER BY ts) AS two FROM s;
"""


def test_a_real_run_is_equal_until_its_table_is_edited(spark: SparkSession, tmp_path: Path) -> None:
    """The production runtime's own lake: late and bad rows among the input, then a flush."""
    hand = hand_in(
        tmp_path,
        COUNTED.format(name="r", window=TEN)
        + "CREATE TABLE q AS SELECT COUNT(*) AS n, SUM(v) AS total FROM s;"
        + CARRIED,
    )
    live = LivePipeline(spark, hand.pipeline, hand.lake, partitions=2)
    live.start()
    for number, rows in enumerate([[("A", 1, 1), ("B", 2, 9)], [("A", 3, 2), ("A", 21, 4)], [("A", 4, 100)]]):
        hand.file(number, rows)
        live.settle()
    bad = '{"k": "A", "ts": "not a time"}\n{"k": null, "ts": "1970-01-01T00:00:30Z", "v": 1}\n'
    (tmp_path / "in/partition=A/0003.json").write_text(bad)
    live.settle()
    live.flush()
    live.stop()
    found = hand.gate(spark)
    assert found.code == ExitCode.DONE, found.render()
    counts = {"r": 3, "q": 1, "sessions": 3, "growing": 3, "changes": 2, "back": 4}
    assert {result.result: result.rows for result in found.results} == counts
    DeltaTable(hand.lake.result("q")).update(updates={"total": "total + 1"})
    assert [result.outcome for result in hand.gate(spark, results=("q",)).results] == ["unequal"]


# ---- the rewriting, run by Spark ---------------------------------------------------------------
ROWS = "('A', -11, 1), ('A', -1, 2), ('A', 5, 100), ('B', 15, 10), ('A', 30, 1000)"
BY_WINDOW = "SELECT window_start, window_end, SUM(v) FROM s GROUP BY WINDOW {} HAVING SUM(v) > 0"
TEXTS: Mapping[str, tuple[str, str, list[tuple[Any, ...]]]] = {
    "event times before 1970 fall in the windows that hold them": (
        ROWS,
        BY_WINDOW.format("TUMBLING(INTERVAL '10' SECOND)"),
        [(-20, -10, 1), (-10, 0, 2), (0, 10, 100), (10, 20, 10), (30, 40, 1000)],
    ),
    "an offset moves the borders of sliding windows": (
        "('A', 1, 1), ('A', 2, 10)",
        BY_WINDOW.format(
            "SLIDING(SIZE INTERVAL '10' SECOND, SLIDE INTERVAL '5' SECOND, OFFSET INTERVAL '2' SECOND)"
        ),
        [(-8, 2, 1), (-3, 7, 11), (2, 12, 10)],
    ),
    "CUMULATE grows by its step": (
        "('A', 15, 1), ('A', 25, 10)",
        BY_WINDOW.format("CUMULATE(STEP INTERVAL '10' SECOND, SIZE INTERVAL '30' SECOND)"),
        [(0, 20, 1), (0, 30, 11)],
    ),
    "a day of New York may have 23 hours": (
        "('A', 1741500000, 1)",  # 2025-03-09T06:00Z
        BY_WINDOW.format("TUMBLING(INTERVAL '1' DAY, TIME ZONE 'America/New_York')"),
        [(1741496400, 1741579200, 1)],
    ),
    "months have their own length": (
        "('A', -1, 1), ('A', 1772323199, 2)",  # 1969-12-31T23:59:59Z, 2026-02-28T23:59:59Z
        BY_WINDOW.format("TUMBLING(INTERVAL '1' MONTH)"),
        [(-2678400, 0, 1), (1769904000, 1772323200, 2)],
    ),
    "sessions merge at the gap": (
        "('A', 1, 1), ('A', 6, 10), ('A', 12, 100)",
        BY_WINDOW.format("SESSION(INTERVAL '5' SECOND)"),
        [(1, 11, 11), (12, 17, 100)],
    ),
    "first and last values go by event time, ties of MAX_BY to the smallest": (
        "('b', 3, 7), ('a', 2, 7), ('c', 1, 1)",
        "SELECT FIRST_VALUE(k), LAST_VALUE(v) FILTER (WHERE v < 5), MAX_BY(k, v), MIN_BY(k, v), TOP_K(v, 2)[1] FROM s",
        [("c", 1, "a", "c", 7)],
    ),
    "of equal extremes NULL is the smallest value": (
        "('b', 3, 7), (NULL, 2, 7), ('c', 1, NULL)",
        "SELECT MAX_BY(k, v), MIN_BY(k, v), MAX_BY(k, v) FILTER (WHERE v > 7) FROM s",
        [(None, None, None)],
    ),
    "a CTE keeps the event time that a window needs": (
        ROWS,
        "WITH t AS (SELECT k, v FROM s WHERE k = 'A') SELECT window_start, COUNT(*) FROM t "
        "GROUP BY WINDOW TUMBLING(INTERVAL '1' MINUTE)",
        [(-60, 2), (0, 2)],
    ),
}


@pytest.mark.parametrize("rule", TEXTS)
def test_the_text_as_plain_spark_sql(spark: SparkSession, rule: str) -> None:
    rows, query, expected = TEXTS[rule]
    spark.sql(
        f"SELECT k, timestamp_seconds(t) AS ts, v, timestamp_seconds(t) AS _event_time, 0 AS _partition, "
        f"0 AS _offset, timestamp_seconds(t) AS _timestamp, timestamp_seconds(t) AS __time, 0 AS __partition, "
        f"0 AS __place, -9223372036854775807L AS __late_us, 0 AS __epoch FROM VALUES {rows} AS x(k, t, v)"
    ).createOrReplaceTempView("gate_text")
    text = plain(query, Names(frozenset({"s"}), frozenset())).text.replace(" FROM s", " FROM gate_text")
    found = [tuple(row)[: len(expected[0])] for row in spark.sql(text).collect()]
    assert sorted(tuple(map(_seconds, row)) for row in found) == expected


def _seconds(value: Any) -> Any:
    return int((value.replace(tzinfo=UTC) - at(0)).total_seconds()) if isinstance(value, datetime) else value
