"""Whole pipelines: what a compiled one says of itself, and laws of the compiler."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from headrace.errors import Refused, RefusedTogether
from headrace.event_time.interval import Interval
from headrace.sql.compile import compile_file, compile_pipeline
from headrace.sql.explain import explain
from headrace.sql.nodes import Aggregate, Column, Pipeline, Windowed, walk
from headrace.sql.source import NotYet

CASES = Path(__file__).parents[2] / "cases"
STREAM = "CREATE STREAM s (k STRING, ts TIMESTAMP, v BIGINT, WATERMARK FOR ts AS ts);\n"


def cases() -> list[tuple[str, str, str]]:
    return [
        (f"{file.stem}: {case['name']}", case["sql"], (case.get("then") or {}).get("error", ""))
        for file in sorted(CASES.glob("*.yaml"))
        for case in yaml.safe_load_all(file.read_text(encoding="utf-8"))
    ]


@pytest.mark.parametrize(("sql", "error"), [one[1:] for one in cases()], ids=[one[0] for one in cases()])
def test_a_case_compiles_or_is_refused_for_the_reason_it_asks_for(sql: str, error: str) -> None:
    outcome = outcome_of(sql)
    match outcome:
        case NotYet():
            assert "not supported yet" in str(outcome)
        case Refused():
            assert error
            assert error.lower() in str(outcome).lower()
        case Pipeline():
            assert outcome.results
            assert outcome == outcome_of(sql)


def outcome_of(sql: str) -> Pipeline | Refused:
    try:
        return compile_pipeline(sql)
    except Refused as refused:
        return refused


def compiled(query: str, stream: str = STREAM) -> Pipeline:
    return compile_pipeline(f"{stream}CREATE TABLE r AS {query};")


def test_the_pipeline_is_named_by_its_setting_its_file_or_the_caller(tmp_path: Path) -> None:
    text = f"{STREAM}CREATE TABLE r AS SELECT k FROM s;"
    file = tmp_path / "orders.sql"
    file.write_text(text)
    assert compile_file(file).name == "orders"
    assert compile_pipeline(text, name="given").name == "given"
    assert compile_pipeline(f"SET 'pipeline.name' = 'set'; {text}", name="given").name == "set"


def test_a_computed_column_is_no_physical_one() -> None:
    pipeline = compile_pipeline(
        "CREATE STREAM s (ms BIGINT NOT NULL, ts AS timestamp_millis(ms), WATERMARK FOR ts AS ts - INTERVAL '1' MONTH);"
    )
    stream = pipeline.stream("s")
    assert [column.name for column in stream.physical] == ["ms"]
    assert stream.columns[1].expression == "TIMESTAMP_MILLIS(ms)"
    assert stream.watermark is not None
    assert stream.watermark.lateness == Interval(months=1)
    assert stream.columns[0] == Column("ms", "BIGINT", not_null=True, place=stream.columns[0].place)


def test_the_zone_of_the_pipeline_is_the_zone_of_its_windows() -> None:
    query = "SELECT COUNT(*) AS n FROM s GROUP BY WINDOW TUMBLING(INTERVAL '1' DAY)"
    pipeline = compiled(query, f"SET 'time.zone' = 'Europe/Berlin'; {STREAM}")
    windowed = [node for node in walk(pipeline.results[0].plan) if isinstance(node, Windowed)]
    assert [node.window.zone for node in windowed] == ["Europe/Berlin"]


def test_a_hidden_key_bears_the_same_name_in_the_groups_and_in_the_result() -> None:
    result = compiled("SELECT COUNT(*) AS n FROM s GROUP BY k, v").results[0]
    grouped = next(node for node in walk(result.plan) if isinstance(node, Aggregate))
    assert result.keys == ("__key0", "__key1") == tuple(key.name for key in grouped.keys)


@pytest.mark.parametrize(
    ("emit", "windowed", "wanted"),
    [
        ("", True, "final"),
        ("", False, "changes"),
        ("EMIT CHANGES", True, "changes"),
        ("EMIT FINAL", True, "final"),
    ],
)
def test_a_result_is_final_where_a_window_ends_it(emit: str, windowed: bool, wanted: str) -> None:
    window = "WINDOW TUMBLING(INTERVAL '1' HOUR)" if windowed else ""
    result = compiled(f"SELECT k, COUNT(*) AS n FROM s GROUP BY k {window} {emit}").results[0]
    assert (result.emit, result.upsert) == (wanted, wanted == "changes")


def test_the_query_s_own_text_is_kept_for_the_baseline() -> None:
    assert compiled("SELECT k /* key */ FROM s").results[0].query == "SELECT k /* key */ FROM s"


def test_refusals_of_several_statements_come_together_in_file_order() -> None:
    with pytest.raises(RefusedTogether) as caught:
        compile_pipeline(
            f"{STREAM}CREATE TABLE a AS SELECT kk FROM s;\nCREATE TABLE b AS SELECT k FRM s;\n"
            "CREATE STREAM z (k STRING) WITH ('connector' = 'nix');"
        )
    lines = [error.place.line for error in caught.value.errors if error.place]
    assert lines == sorted(lines) == [2, 3, 4]


def test_the_drawing_has_every_node_of_every_result() -> None:
    pipeline = compiled("SELECT k, COUNT(*) AS n FROM s GROUP BY k")
    drawing = explain(pipeline, dot=True)
    assert drawing.startswith("digraph")
    assert drawing.count("->") == len(list(walk(pipeline.results[0].plan)))


def test_an_unknown_stage_is_refused() -> None:
    with pytest.raises(Refused, match="stage"):
        explain(compiled("SELECT k FROM s"), "nix")


def test_a_bad_type_hides_no_other_error_of_its_statement() -> None:
    sql = "CREATE STREAM s (k STRNG(3) NOT NULL, v BIGNT) WITH ('connecter' = 'rate'); CREATE TABLE r AS SELECT w FROM s;"
    with pytest.raises(RefusedTogether) as refusal:
        compile_pipeline(sql)
    assert [(one.message, one.hint) for one in refusal.value.errors] == [
        ("unknown type STRNG", "did you mean STRING?"),
        ("unknown type BIGNT", "did you mean BIGINT?"),
        ("unknown option 'connecter'", "did you mean connector?"),
        ("unknown column w", "there are k, v"),
    ]


@pytest.mark.parametrize("name", ["../up", "/tmp/x", ".", "a/b", " a", "a b"])
def test_a_pipelines_name_is_the_name_of_a_folder(name: str) -> None:
    with pytest.raises(Refused, match=r"pipeline\.name: .* is no name"):
        compile_pipeline(f"SET 'pipeline.name' = '{name}'; {STREAM} CREATE TABLE r AS SELECT k FROM s;")


def test_an_option_that_is_like_no_other_gets_all_of_the_connectors() -> None:
    with pytest.raises(Refused) as refusal:
        compile_pipeline("CREATE STREAM s (value BIGINT) WITH ('connector' = 'rate', 'speed' = '5');")
    assert refusal.value.hint == "the connector has rows-per-batch, advance-per-batch-ms, start-ms"
