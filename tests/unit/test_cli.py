"""The command line: its words, its exit codes, and what it must not load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace import __version__
from headrace.cli import main
from headrace.doors import exit_code, leave, words
from headrace.errors import (
    ExitCode,
    HeadraceError,
    NotOwner,
    Place,
    Refused,
    RefusedTogether,
    Unequal,
    Unknown,
)

VERBS = ("run", "rejected", "status", "replay", "refresh", "demo", "check", "explain", "skew", "test", "gate")
GOOD = """
CREATE STREAM s (k STRING, ts TIMESTAMP, v BIGINT, WATERMARK FOR ts AS ts);
CREATE TABLE r AS SELECT k, SUM(v) AS total FROM s GROUP BY k;
"""
BAD = GOOD.replace("SUM(v)", "SUM(vv)")


def ended(argv: Sequence[str]) -> int:
    """The exit code of `headrace ARGV…`."""
    with pytest.raises(SystemExit) as end:
        main(argv)
    return int(end.value.code or 0)


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.sql"
    path.write_text(GOOD)
    return path


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    path = tmp_path / "bad.sql"
    path.write_text(BAD)
    return path


# ---- exit codes --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (HeadraceError("x"), 1),
        (Refused("x"), 2),
        (RefusedTogether([Refused("x"), Refused("y")]), 2),
        (Unequal("x"), 3),
        (Unknown("x"), 4),
        (NotOwner("x"), 5),
        (ZeroDivisionError("x"), 1),
    ],
)
def test_each_kind_of_error_has_the_exit_code_of_the_contract(error: Exception, code: int) -> None:
    def call() -> int:
        raise error

    with pytest.raises(SystemExit) as end:
        leave(call)
    assert end.value.code == code == exit_code(error)


def test_the_code_that_a_call_returns_is_the_exit_code() -> None:
    with pytest.raises(SystemExit) as end:
        leave(lambda: ExitCode.UNKNOWN)
    assert end.value.code == 4


def test_ctrl_c_ends_with_the_shells_own_code() -> None:
    def call() -> int:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as end:
        leave(call)
    assert end.value.code == 130


def test_a_foreign_error_is_one_line_and_says_how_to_see_more(capsys: pytest.CaptureFixture[str]) -> None:
    def call() -> int:
        raise ValueError("first line\nat java.lang.Thread")

    with pytest.raises(SystemExit):
        leave(call)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "error: ValueError: first line\n  hint: --debug shows the traceback\n"


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def call() -> int:
        raise Refused("no such stream")

    with pytest.raises(SystemExit):
        leave(call, debug=True)
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert said.endswith("error: no such stream\n")


def test_an_error_is_said_with_file_line_column_and_hint() -> None:
    error = Refused(
        "unknown column vv", hint="did you mean v?", place=Place(1, 8, 2), text="SELECT vv FROM s"
    )
    assert words(error, "a.sql").splitlines() == [
        "error: a.sql:1:8: unknown column vv",
        "  1 | SELECT vv FROM s",
        "             ^^",
        "  hint: did you mean v?",
    ]


# ---- words -------------------------------------------------------------------------------------
def test_help_names_every_verb_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f" {verb} " in said for verb in VERBS)
    assert "2 refused" in said


@pytest.mark.parametrize("verb", [*VERBS, "stream", "refresh-broadcast", "quality-gate"])
def test_every_verb_and_alias_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended([verb, "--help"]) == 0
    assert f"headrace {verb}" in capsys.readouterr().out


def test_the_version_is_the_packages(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(["--version"]) == 0
    assert capsys.readouterr().out == f"headrace {__version__}\n"


def test_help_and_check_load_neither_spark_nor_great_expectations(good: Path) -> None:
    program = (
        "import sys\n"
        "from headrace.cli import main\n"
        "for words in (['--help'], ['check', sys.argv[1]]):\n"
        "    try:\n"
        "        main(words)\n"
        "    except SystemExit as end:\n"
        "        assert not end.code\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "unwanted = loaded & {'pyspark', 'delta', 'great_expectations', 'airflow'}\n"
        "sys.exit(str(unwanted) if unwanted else 0)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program, str(good)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "argv",
    [
        ["fly"],
        ["run"],
        ["run", "no-such-file.sql"],
        ["run", "{good}", "--set", "NAME"],
        ["run", "{good}", "--set", "=1"],
        ["run", "{good}", "--partitions", "0"],
        ["test", "{good}", "--partitions", "1,x"],
        ["test", "{good}", "--partitions", ""],
        ["explain", "{good}", "--stage", "leaf"],
    ],
)
def test_what_a_verb_does_not_understand_is_refused(argv: list[str], good: Path) -> None:
    assert ended([word.format(good=good) for word in argv]) == 2


# ---- check and explain -------------------------------------------------------------------------
def test_check_names_place_and_nearest_word(
    good: Path, bad: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(["check", str(good), str(bad)]) == 2
    said = capsys.readouterr().out
    assert "good.sql  1 stream, 0 reference tables, 1 result" in said
    assert "bad.sql:3:" in said
    assert "vv" in said
    assert "hint: did you mean v?" in said


def test_a_file_that_is_not_utf8_is_refused_by_name_and_the_others_are_still_checked(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.sql"
    bad.write_bytes(b"-- \xff")
    assert ended(["check", str(bad), str(good)]) == 2
    said = capsys.readouterr().out
    assert "bad.sql is not UTF-8 (byte 4)" in said
    assert "✓" in said


def test_check_of_good_pipelines_ends_with_0(good: Path) -> None:
    assert ended(["check", str(good)]) == 0


def test_check_as_json_is_one_document_with_every_error(
    good: Path, bad: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad.write_text(BAD + "CREATE TABLE q AS SELECT k, MAX(w) AS m FROM s GROUP BY k;")
    assert ended(["check", "--json", str(good), str(bad)]) == 2
    first, second = json.loads(capsys.readouterr().out)
    assert (first["ok"], first["errors"], [each["name"] for each in first["results"]]) == (True, [], ["r"])
    assert (second["ok"], second["results"]) == (False, [])
    assert [error["line"] for error in second["errors"]] == [3, 4]
    assert all({"message", "hint", "line", "column", "length"} <= error.keys() for error in second["errors"])


def test_set_fills_a_name_and_an_unset_one_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.sql"
    path.write_text(GOOD.replace("AS total", "AS ${HEADRACE_TEST_NAME}"))
    assert ended(["check", str(path)]) == 2
    assert "HEADRACE_TEST_NAME" in capsys.readouterr().out
    assert ended(["check", str(path), "--set", "HEADRACE_TEST_NAME=sum_of_v"]) == 0


@pytest.mark.parametrize("stage", ["tree", "kind", "plan"])
def test_explain_shows_a_stage_without_spark(
    stage: str, good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(["explain", str(good), "--stage", stage]) == 0
    assert "r" in capsys.readouterr().out.split("\n")[0]


def test_explain_draws_a_graph(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(["explain", str(good), "--dot"]) == 0
    assert capsys.readouterr().out.startswith("digraph")


def test_a_refused_pipeline_is_said_on_stderr_before_anything_runs(
    bad: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    assert ended(["run", str(bad), "--flush", "--lake", str(lake)]) == 2
    said = capsys.readouterr()
    assert f"{bad}:3:" in said.err
    assert not lake.exists()


# ---- rejected ----------------------------------------------------------------------------------
def test_rejected_says_that_there_is_nothing(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended(["rejected", str(good), "--lake", str(tmp_path / "lake")]) == 0
    assert "no record was rejected" in capsys.readouterr().out


def test_rejected_shows_the_newest_records_with_their_reason(
    good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = tmp_path / "lake"
    told = [("late", 1, "17"), ("bad_record", 3, "9"), ("late", 2, "18")]
    rows = [
        {
            "query": "r",
            "stream": "s",
            "partition": "0",
            "offset": offset,
            "reason": reason,
            "raw": f"row {offset}",
            "detail": "",
            "rejected_at": datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC),
        }
        for reason, second, offset in told
    ]
    write_deltalake(str(lake / "rejected"), pa.Table.from_pylist(rows))
    assert ended(["rejected", str(good), "--lake", str(lake), "--limit", "2", "--json"]) == 0
    assert [row["offset"] for row in json.loads(capsys.readouterr().out)] == ["9", "18"]
    assert ended(["rejected", str(good), "--lake", str(lake), "--limit", "1"]) == 0
    said = capsys.readouterr().out
    assert "row 9" in said
    assert "row 17" not in said
    assert "3 records: 2 late, 1 bad_record" in said
    assert "detail" not in said  # no record has one
