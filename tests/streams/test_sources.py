"""Every source, live and read again: the same rows, the same judgement of bad records, nothing lost or doubled."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from headrace.errors import HeadraceError, Refused, Unknown
from headrace.runtime import batchlog, fileindex, sources
from headrace.runtime.lake import Lake
from headrace.runtime.query import LivePipeline
from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import Pipeline

pytestmark = pytest.mark.streams

COLUMNS = "k STRING NOT NULL, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts"
EVERYTHING = """
CREATE STREAM s ({columns}) WITH ({options});
CREATE TABLE r AS SELECT {names}, _PARTITION AS p, _OFFSET AS o, _TIMESTAMP AS at, _EVENT_TIME AS et FROM s;
"""
Row = dict[str, Any]


def pipeline_of(columns: str = COLUMNS, names: str = "k, v, ts", **options: str) -> Pipeline:
    """One stream with these options (`_` for `.` in nothing: give names as they are), passed through to `r`."""
    text = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
    return compile_pipeline(EVERYTHING.format(columns=columns, names=names, options=text), name="p")


def files(folder: Path, form: str = "json", **options: str) -> Pipeline:
    return pipeline_of(**{"connector": "files", "path": str(folder), "format": form, **options})


@contextmanager
def running(spark: SparkSession, pipeline: Pipeline, lake: Lake) -> Iterator[LivePipeline]:
    live = LivePipeline(spark, pipeline, lake)
    live.start()
    try:
        yield live
    finally:
        live.stop()


def run(spark: SparkSession, pipeline: Pipeline, lake: Lake) -> dict[str, int]:
    """Run until all input present is consumed; gives the counters."""
    with running(spark, pipeline, lake) as live:
        live.settle()
    return live.metrics()


def written(lake: Lake, result: str = "r") -> list[Row]:
    rows: list[Row] = DeltaTable(lake.result(result)).to_pyarrow_table().to_pylist()
    return rows


def rejected(lake: Lake) -> list[Row]:
    rows: list[Row] = DeltaTable(lake.rejected).to_pyarrow_table().to_pylist()
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def batches(lake: Lake, stream: str = "s") -> list[tuple[Any, Any]]:
    """The (start, end] of each batch that the log has."""
    log = [json.loads(text)[stream] for text in batchlog.read(lake).column("offsets").to_pylist()]
    return [(one["start"], one["end"]) for one in log]


def reread(spark: SparkSession, pipeline: Pipeline, lake: Lake) -> list[Row]:
    """All batches' ranges read again, row by row, with the batch's number in the log."""
    stream = pipeline.stream("s")
    found = []
    for number, (start, end) in enumerate(batches(lake)):
        rows = sources.read_range(spark, lake, stream, start, end).collect()
        found += [{**row.asDict(recursive=True), "batch": number} for row in rows]
    return found


def same_rows(spark: SparkSession, pipeline: Pipeline, lake: Lake) -> list[Row]:
    """What the stream delivered is what its ranges give when they are read again; returns the latter."""
    again = reread(spark, pipeline, lake)
    live = written(lake)
    keys = ("ts", "_event_time", "_timestamp")
    good = [row for row in again if not row["__bad"] and row["_event_time"] is not None]
    taken = sorted(
        (row["_partition"], str(row["_offset"]), row["k"], row["v"], *(_naive(row[key]) for key in keys))
        for row in good
    )
    kept = sorted(
        (row["p"], str(row["o"]), row["k"], row["v"], *(_naive(row[key]) for key in ("ts", "et", "at")))
        for row in live
    )
    assert taken == kept
    log = batchlog.totals(lake)
    assert log["bad_records"] == sum(row["__bad"] for row in again)
    assert log["input_rows"] == len(again)
    return again


def _naive(moment: Any) -> Any:
    return moment.replace(tzinfo=None) if moment is not None else None


def line(k: str, v: int, minute: int = 0) -> str:
    return json.dumps({"k": k, "v": v, "ts": f"2026-01-01T00:{minute:02d}:00Z"})


def put(path: Path, text: str | bytes) -> Path:
    """A file that appears whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f"_{path.name}")
    hidden.write_bytes(text if isinstance(text, bytes) else text.encode())
    return hidden.rename(path)


# ---- files: where records are ------------------------------------------------------------------
def test_partition_folders_and_loose_files_are_source_partitions(spark: SparkSession, tmp_path: Path) -> None:
    folder, lake = tmp_path / "in", Lake(str(tmp_path / "lake"))
    put(folder / "partition=a" / "1.json", line("x", 1) + "\n" + line("x", 2) + "\n")
    put(folder / "partition=b" / "1.json", line("y", 3) + "\n")
    put(folder / "loose.json", line("z", 4))
    assert sources.known_partitions(lake, files(folder).stream("s")) == ["0", "a", "b"]
    run(spark, files(folder), lake)
    places = {(row["p"], row["o"]["file"], row["o"]["line"], row["v"]) for row in written(lake)}
    assert places == {("a", 0, 0, 1), ("a", 0, 1, 2), ("b", 0, 0, 3), ("0", 0, 0, 4)}
    at = {row["p"]: row["at"].timestamp() for row in written(lake)}
    assert at["b"] == pytest.approx((folder / "partition=b" / "1.json").stat().st_mtime, abs=0.001)
    same_rows(spark, files(folder), lake)


def test_line_ends_marks_and_blank_lines_are_no_part_of_a_record(spark: SparkSession, tmp_path: Path) -> None:
    folder, lake = tmp_path / "in", Lake(str(tmp_path / "lake"))
    put(folder / "1.json", "\ufeff" + line("mark", 0) + "\r\n\r\n" + line("crlf", 1) + "\r\n")
    put(folder / "2.json", "")
    put(folder / "3.json", "\n   \n" + line("blank", 2) + "\n\n" + line("open end", 3))
    put(folder / "4.json.gz", gzip.compress((line("packed", 4) + "\n").encode()))
    counts = run(spark, files(folder), lake)
    assert counts["bad_records"] == 0
    places = {row["k"]: (row["o"]["file"], row["o"]["line"]) for row in written(lake)}
    assert places == {"mark": (0, 0), "crlf": (0, 2), "blank": (2, 2), "open end": (2, 4), "packed": (3, 0)}
    same_rows(spark, files(folder), lake)


def test_folders_and_files_that_come_later_are_taken_and_known(spark: SparkSession, tmp_path: Path) -> None:
    folder, lake = tmp_path / "in", Lake(str(tmp_path / "lake"))
    folder.mkdir()
    pipeline = files(folder, **{"watermark.idle-timeout": "0"})
    assert sources.known_partitions(lake, pipeline.stream("s")) == []
    with running(spark, pipeline, lake) as live:
        put(folder / "partition=a" / "1.json", line("a", 1, 30))
        live.settle()
        assert live.watermark() == 1_767_225_600_000 + 30 * 60_000
        (folder / "partition=b").mkdir()
        put(folder / "partition=a" / "2.json", line("a", 2, 50))
        live.settle()
        assert live.watermark() == 1_767_225_600_000 + 30 * 60_000  # b has not delivered yet
        put(folder / "partition=b" / "1.json", line("b", 3, 40))
        live.settle()
        assert live.watermark() == 1_767_225_600_000 + 40 * 60_000
    assert len(same_rows(spark, pipeline, lake)) == 3


def test_max_files_per_batch_cuts_each_partition(spark: SparkSession, tmp_path: Path) -> None:
    folder, lake = tmp_path / "in", Lake(str(tmp_path / "lake"))
    for number in range(3):
        put(folder / "partition=a" / f"{number}.json", line("a", number))
    put(folder / "partition=b" / "0.json", line("b", 9))
    pipeline = files(folder, **{"max-files-per-batch": "1"})
    run(spark, pipeline, lake)
    assert [end for _, end in batches(lake)] == [{"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 3, "b": 1}]
    again = same_rows(spark, pipeline, lake)
    assert [(row["batch"], row["v"]) for row in again if row["_partition"] == "a"] == [(0, 0), (1, 1), (2, 2)]


def test_unread_names_the_partitions_with_files_to_come(spark: SparkSession, tmp_path: Path) -> None:
    folder, lake = tmp_path / "in", Lake(str(tmp_path / "lake"))
    put(folder / "partition=a" / "1.json", line("a", 1))
    put(folder / "partition=b" / "1.json", line("b", 1))
    stream = files(folder).stream("s")
    assert sources.discover(lake, stream) == ["a", "b"]
    assert sources.unread(lake, stream, {}) == {"a", "b"}
    assert sources.unread(lake, stream, {"a": 1}) == {"b"}
    assert sources.unread(lake, stream, {"a": 1, "b": 1}) == set()


# ---- files: what is wrong with them ------------------------------------------------------------
BAD_JSON = (
    '{"k": "wrong type", "v": "seven", "ts": "2026-01-01T00:00:00Z"}',
    '{"k": "broken", "v": 1',
    '{"v": 1, "ts": "2026-01-01T00:00:00Z"}',
    '{"k": null, "v": 1, "ts": "2026-01-01T00:00:00Z"}',
    '{"k": "no such time", "v": 1, "ts": "2026-13-01T00:00:00Z"}',
    '{"k": "too big", "v": 99999999999999999999, "ts": "2026-01-01T00:00:00Z"}',
    "[1, 2]",
    "null",
    "plain words",
    line("two", 1) + line("in one line", 2),
    line("more", 1) + " and more",
)


def test_bad_json_is_rejected_once_with_its_place_and_text(spark: SparkSession, tmp_path: Path) -> None:
    folder, lake = tmp_path / "in", Lake(str(tmp_path / "lake"))
    good = [
        line("braces }{ in a string", 1),
        '{"k": "spare", "v": null, "other": {"a": [1]}, "ts": "2026-01-01"}',
    ]
    put(folder / "partition=a" / "1.json", "\n".join([good[0], *BAD_JSON, good[1]]))
    put(folder / "partition=a" / "2.json", b'{"k": "\xff\xfe", "v": 1, "ts": "2026-01-01"}\n')
    counts = run(spark, files(folder), lake)
    assert counts["bad_records"] == len(BAD_JSON) + 1
    assert sorted(row["k"] for row in written(lake)) == ["braces }{ in a string", "spare"]
    found = {row["offset"]: row for row in rejected(lake)}
    assert {place: row["raw"] for place, row in found.items() if place[0] == "0"} == {
        f"0:{number}": text for number, text in enumerate(BAD_JSON, 1)
    }
    assert found["1:0"]["raw"] == '{"k": "\ufffd\ufffd", "v": 1, "ts": "2026-01-01"}'
    assert {row["reason"] for row in found.values()} == {"bad_record"}
    again = same_rows(spark, files(folder), lake)
    assert {row["__position"] for row in again if row["__bad"]} == set(found)
    with running(spark, files(folder), lake) as live:  # a restart rejects nothing anew
        put(folder / "partition=a" / "3.json", line("after", 5))
        live.settle()
    assert len(rejected(lake)) == len(found)


def test_on_bad_record_error_stops_the_pipeline(spark: SparkSession, tmp_path: Path) -> None:
    folder, lake = tmp_path / "in", Lake(str(tmp_path / "lake"))
    put(folder / "1.json", "nothing")
    with pytest.raises(Refused, match="1 bad record"):
        run(spark, files(folder, **{"on-bad-record": "error"}), lake)


def test_a_missing_event_time_is_rejected_or_taken_from_the_file(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    put(
        folder / "1.json",
        '{"k": "no time", "v": 1}\n' + line("time", 2) + '\n{"k": "null", "v": 3, "ts": null}',
    )
    counts = run(spark, files(folder), Lake(str(tmp_path / "skip")))
    assert (counts["null_event_time_rows"], counts["bad_records"]) == (2, 0)
    assert [(row["reason"], row["offset"]) for row in rejected(Lake(str(tmp_path / "skip")))] == [
        ("null_event_time", "0:0"),
        ("null_event_time", "0:2"),
    ]
    clock = files(folder, **{"event-time.on-missing": "wall-clock"})
    run(spark, clock, Lake(str(tmp_path / "clock")))
    rows = written(Lake(str(tmp_path / "clock")))
    assert {row["k"]: row["et"] == row["at"] for row in rows} == {
        "no time": True,
        "time": False,
        "null": True,
    }
    same_rows(spark, clock, Lake(str(tmp_path / "clock")))
    with pytest.raises(Refused, match="2 records have no event time"):
        run(spark, files(folder, **{"event-time.on-missing": "error"}), Lake(str(tmp_path / "error")))


def test_a_file_that_is_gone_or_has_grown_is_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    folder, lake = tmp_path / "in", Lake(str(tmp_path / "lake"))
    path = put(folder / "1.json", line("a", 1) + "\n")
    pipeline = files(folder)
    run(spark, pipeline, lake)
    with path.open("a") as file:
        file.write(line("late addition", 2))
    with pytest.raises(Unknown, match="was changed after it was taken"):
        reread(spark, pipeline, lake)
    with pytest.raises(Refused, match="was changed after it was taken"):
        run(spark, pipeline, lake)
    path.unlink()
    with pytest.raises(Unknown, match="no longer there"):
        reread(spark, pipeline, lake)


def test_a_folder_that_is_not_there_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="there is no folder"):
        run(spark, files(tmp_path / "nowhere"), Lake(str(tmp_path / "lake")))


def test_options_that_would_change_what_a_record_is_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("json.mode", "json.multiLine"):
        with pytest.raises(Refused, match=name):
            run(spark, files(tmp_path / "in", **{name: "x"}), Lake(str(tmp_path / "lake")))


# ---- csv ---------------------------------------------------------------------------------------
def test_csv_follows_each_files_own_header(spark: SparkSession, tmp_path: Path) -> None:
    folder, lake = tmp_path / "in", Lake(str(tmp_path / "lake"))
    put(
        folder / "1.csv",
        'v,"ts",extra,K\n1,2026-01-01 00:01:00,-,"one, quoted"\n2,2026-01-01 00:02:00,-,two\n',
    )
    put(
        folder / "2.csv",
        'k,v,ts\n"three, ""q""",3,2026-01-01 00:03:00\nfour,4\n,5,2026-01-01\n"six",,"2026-01-01"',
    )
    put(folder / "3.csv", "k,v\nseven,7\n")
    put(folder / "4.csv", "v,ts,extra,K\n")
    put(folder / "5.csv", "")
    pipeline = files(folder, "csv", **{"csv.header": "true", "csv.escape": '"'})
    counts = run(spark, pipeline, lake)
    rows = {row["k"]: (row["v"], row["o"]["file"], row["o"]["line"]) for row in written(lake)}
    assert rows == {"one, quoted": (1, 0, 1), "two": (2, 0, 2), 'three, "q"': (3, 1, 1), "six": (None, 1, 4)}
    assert counts["bad_records"] == 3
    raw = {row["offset"]: row["raw"] for row in rejected(lake)}
    assert raw == {"1:2": "four,4", "1:3": ",5,2026-01-01", "2:1": "seven,7"}
    same_rows(spark, pipeline, lake)


def test_csv_without_header_goes_by_declared_order(spark: SparkSession, tmp_path: Path) -> None:
    folder, lake = tmp_path / "in", Lake(str(tmp_path / "lake"))
    text = "# k;v;ts\n'one; quoted';1;2026-01-01\r\ntwo;NA;2026-01-01\nthree;3\nfour;4;2026-01-01;5\nfive;x;2026-01-01\n"
    put(folder / "1.csv", text)
    options = {"csv.sep": ";", "csv.nullValue": "NA", "csv.comment": "#", "csv.quote": "\\'"}
    pipeline = files(folder, "csv", **options)
    counts = run(spark, pipeline, lake)
    assert {row["k"]: row["v"] for row in written(lake)} == {"one; quoted": 1, "two": None}
    assert counts["bad_records"] == 3
    assert [(row["offset"], row["raw"]) for row in rejected(lake)] == [
        ("0:3", "three;3"),
        ("0:4", "four;4;2026-01-01;5"),
        ("0:5", "five;x;2026-01-01"),
    ]
    same_rows(spark, pipeline, lake)


def test_a_first_csv_header_without_a_declared_column_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "in" / "1.csv", "k,w,ts\n")
    with pytest.raises(Refused, match="lacks the column v"):
        run(spark, files(tmp_path / "in", "csv", **{"csv.header": "true"}), Lake(str(tmp_path / "lake")))


# ---- parquet -----------------------------------------------------------------------------------
def test_parquet_is_read_by_name_as_the_declared_types(spark: SparkSession, tmp_path: Path) -> None:
    folder, lake = tmp_path / "in", Lake(str(tmp_path / "lake"))
    (folder / "partition=a").mkdir(parents=True)
    moment = pa.array([1_767_225_600_000_000_123] * 3, pa.timestamp("ns"))
    rows = pa.table(
        {"ts": moment, "V": pa.array([1, None, 3], pa.int32()), "more": [1, 2, 3], "k": ["x", "y", None]}
    )
    pq.write_table(rows, folder / "partition=a" / "1.parquet")
    pq.write_table(rows.slice(0, 0), folder / "partition=a" / "2.parquet")
    pipeline = files(folder, "parquet")
    counts = run(spark, pipeline, lake)
    assert counts["bad_records"] == 1
    assert [(row["k"], row["v"], row["o"]["line"]) for row in written(lake)] == [("x", 1, 0), ("y", None, 1)]
    assert [(row["offset"], json.loads(row["raw"])["v"]) for row in rejected(lake)] == [("0:2", 3)]
    same_rows(spark, pipeline, lake)


def test_parquet_of_another_shape_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"k": ["x"], "ts": pa.array([0], pa.timestamp("us"))}), folder / "1.parquet")
    with pytest.raises(Refused, match="lacks the column v"):
        run(spark, files(folder, "parquet"), Lake(str(tmp_path / "lake")))
    (folder / "1.parquet").unlink()
    rows = pa.table({"k": ["x"], "v": ["seven"], "ts": pa.array([0], pa.timestamp("us"))})
    pq.write_table(rows, folder / "1.parquet")
    with pytest.raises(HeadraceError, match="does not fit the declared type"):
        run(spark, files(folder, "parquet"), Lake(str(tmp_path / "lake2")))


# ---- delta -------------------------------------------------------------------------------------
def delta_rows(*rows: tuple[str | None, str, int]) -> pa.Table:
    moments = pa.array(
        [1_767_225_600_000_000 + minute * 60_000_000 for *_, minute in rows], pa.timestamp("us", tz="UTC")
    )
    return pa.table(
        {
            "ts": moments,
            "V": [value for _, value, _ in rows],
            "k": pa.array([key for key, *_ in rows], pa.string()),
        }
    )


def test_a_delta_table_is_followed_version_by_version(spark: SparkSession, tmp_path: Path) -> None:
    source, lake = str(tmp_path / "source"), Lake(str(tmp_path / "lake"))
    pipeline = pipeline_of(connector="delta", path=source)
    stream = pipeline.stream("s")
    write_deltalake(source, delta_rows(("a", "1", 1), ("bad", "one", 2)))
    write_deltalake(source, delta_rows(("b", "2", 3), (None, "0", 3)), mode="append")
    assert sources.unread(lake, stream, {}) == {"0"}
    with running(spark, pipeline, lake) as live:
        live.settle()
        write_deltalake(source, delta_rows(("c", "3", 4)), mode="append")
        live.settle()
        more = spark.createDataFrame(delta_rows(("d", "4", 5), ("e", "5", 5)))
        more.repartition(2, "k").write.format("delta").mode("append").save(source)
        live.settle()
        assert sources.unread(lake, stream, batches(lake)[-1][1]) == set()
    write_deltalake(source, delta_rows(("f", "6", 6)), mode="append")
    DeltaTable(source).optimize.compact()
    write_deltalake(source, delta_rows(("g", "seven", 7), ("h", "8", 7)), mode="append")
    counts = run(spark, pipeline, lake)
    assert sorted(row["k"] for row in written(lake)) == ["a", "b", "c", "d", "e", "f", "h"]
    assert counts["bad_records"] == 3
    again = same_rows(spark, pipeline, lake)
    assert {row["k"]: row["batch"] for row in again} == dict(
        zip("abcdefh", (0, 0, 1, 2, 2, 3, 3), strict=True)
    ) | {
        "bad": 0,
        None: 0,
        "g": 3,
    }
    told = {(row["offset"], json.loads(row["raw"])["V"]) for row in rejected(lake)}
    assert told == {(row["__position"], json.loads(row["__raw"])["V"]) for row in again if row["__bad"]}
    whole = sources.read_range(spark, lake, stream, None, batches(lake)[-1][1]).collect()
    assert {row["__position"] for row in whole} == {
        row["__position"] for row in again
    }  # compaction moved none
    DeltaTable(source).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(Unknown, match="no longer there"):
        sources.read_range(spark, lake, stream, *batches(lake)[1])


def test_a_delta_stream_without_its_table_or_column_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    source, lake = str(tmp_path / "source"), Lake(str(tmp_path / "lake"))
    with pytest.raises(Refused, match="there is no Delta table"):
        run(spark, pipeline_of(connector="delta", path=source), lake)
    write_deltalake(source, pa.table({"k": ["a"]}))
    with pytest.raises(Refused, match="has no column v"):
        run(spark, pipeline_of(connector="delta", path=source), lake)


# ---- rate --------------------------------------------------------------------------------------
def test_a_rate_streams_ranges_are_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(str(tmp_path / "lake"))
    options = {"rows-per-batch": "7", "advance-per-batch-ms": "250", "start-ms": "1767225600000"}
    columns = (
        "value BIGINT, timestamp TIMESTAMP, k AS 'k', v AS value, ts AS timestamp, WATERMARK FOR ts AS ts"
    )
    pipeline = pipeline_of(columns, connector="rate", **options)
    assert sources.is_endless(pipeline.stream("s"))
    with running(spark, pipeline, lake) as live:
        until(lambda: len(batches(lake)) > 2, live)
    again = same_rows(spark, pipeline, lake)
    assert len(again) >= 21
    assert {(row["batch"], row["ts"].microsecond) for row in again} >= {(0, 0), (1, 250_000), (2, 500_000)}


def until(condition: Callable[[], bool], live: LivePipeline) -> None:
    """Wait for the condition, which the running queries bring about; raises what they died of."""
    end = time.monotonic() + 120
    while not condition():
        for query in live.queries:
            query.check()
        assert time.monotonic() < end, "it did not come about within two minutes"
        os.sched_yield()


# ---- several queries ---------------------------------------------------------------------------
def test_all_queries_of_a_pipeline_read_the_whole_stream(spark: SparkSession, tmp_path: Path) -> None:
    folder, lake = tmp_path / "in", Lake(str(tmp_path / "lake"))
    put(folder / "1.json", "\n".join([line("a", 1), "bad", line("b", 2)]))
    text = EVERYTHING.format(
        columns=COLUMNS, names="k", options=f"'connector' = 'files', 'path' = '{folder}', 'format' = 'json'"
    )
    pipeline = compile_pipeline(f"{text} CREATE TABLE n AS SELECT COUNT(*) AS n FROM s;", name="p")
    with running(spark, pipeline, lake) as live:
        live.settle()
        put(folder / "2.json", line("c", 3))
        live.settle()
    assert [row["n"] for row in written(lake, "n")] == [3]
    assert len(written(lake)) == 3
    assert {(row["query"], row["offset"]) for row in rejected(lake)} == {("n", "0:1"), ("r", "0:1")}
    assert len(fileindex.read_index(sources.index_file(lake, pipeline.stream("s")))["0"]) == 2
