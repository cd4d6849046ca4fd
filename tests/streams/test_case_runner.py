"""The case runner itself: what it says of cases that hold, that do not, and that can't be run."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from headrace.cases.report import run_files
from headrace.errors import ExitCode

pytestmark = pytest.mark.streams

SQL = """\
sql: |
  CREATE STREAM s (k STRING, ts TIMESTAMP, v BIGINT, WATERMARK FOR ts AS ts);
  CREATE TABLE r AS SELECT k, SUM(v) AS total FROM s GROUP BY k;
"""


def run(
    folder: Path, given: str, then: str, *, pending: str = "", keep: bool = False
) -> tuple[ExitCode, str]:
    file = folder / "f.yaml"
    file.write_text(f"name: sums\n{SQL}given: {given}\nthen: {then}\n")
    (folder / "pending.txt").write_text(pending)
    told = io.StringIO()
    code = run_files([file], partitions=(2,), keep=keep, console=Console(file=told, width=200))
    return code, told.getvalue()


@pytest.mark.usefixtures("spark")
class TestRunFiles:
    def test_a_case_that_holds_is_done(self, tmp_path: Path) -> None:
        code, told = run(tmp_path, "[{s: [[A, 1, 1]]}, {s: [[A, 2, 2]]}]", "{r: [{k: A, total: 3}]}")
        assert code == ExitCode.DONE
        assert "✓ sums" in told
        assert "1 cases: 1 passed" in told

    def test_a_wrong_value_is_told_row_by_row(self, tmp_path: Path) -> None:
        code, told = run(
            tmp_path, "[{s: [[A, 1, 1], [B, 1, 5]]}]", "{r: [{k: A, total: 2}, {k: B, total: 5}]}"
        )
        assert code == ExitCode.UNEQUAL
        lines = [line.strip() for line in told.splitlines()]
        at = lines.index("r: 1 of 2 expected rows are there, 2 rows in all")
        assert lines[at + 1 : at + 5] == ["k  total", "- A  2", "+ A  1", "^"]

    def test_a_middle_of_a_case_that_does_not_hold_is_told_with_its_step(self, tmp_path: Path) -> None:
        given = (
            "[{s: [[A, 1, 1]]}, {expect: {r: [], metrics: {input_rows: 7}, watermark: 9}}, {s: [[A, 1, 1]]}]"
        )
        code, told = run(tmp_path, given, "{r: [{k: A, total: 2}]}")
        assert code == ExitCode.UNEQUAL
        assert "expect (step 2 of 3)" in told
        assert "metric input_rows: 7 expected, 1 counted" in told
        assert (
            "watermark: 9 (1970-01-01T00:00:09.000000Z) expected, it is 1 (1970-01-01T00:00:01.000000Z)"
            in told
        )

    def test_an_error_that_was_expected_and_did_not_come_is_a_failure(self, tmp_path: Path) -> None:
        code, told = run(tmp_path, "[{s: [[A, 1, 1]]}]", "{error: overflow}")
        assert code == ExitCode.UNEQUAL
        assert "an error that says 'overflow' was expected, and none came" in told

    def test_a_row_of_a_wrong_length_is_refused_with_its_place(self, tmp_path: Path) -> None:
        code, told = run(tmp_path, "[{s: [[A, 1]]}]", "{r: []}")
        assert code == ExitCode.REFUSED
        assert "f.yaml:5:14: a row of s has 2 values, and s has 3 columns: k, ts, v" in told

    def test_a_step_of_a_later_version_fails_unless_the_case_is_pending_for_it(self, tmp_path: Path) -> None:
        code, told = run(tmp_path, "[{s: [[A, 1, 1]]}, crash]", "{r: []}")
        assert code == ExitCode.UNEQUAL
        assert "not supported yet: step crash" in told
        code, told = run(tmp_path, "[{s: [[A, 1, 1]]}, crash]", "{r: []}", pending="f.yaml: sums: step crash")
        assert code == ExitCode.DONE
        assert "… sums" in told
        assert "needs step crash" in told

    def test_a_pending_case_that_holds_is_a_failure(self, tmp_path: Path) -> None:
        code, told = run(
            tmp_path, "[{s: [[A, 1, 1]]}]", "{r: [{k: A, total: 1}]}", pending="f.yaml: sums: step crash"
        )
        assert code == ExitCode.UNEQUAL
        assert "no longer pending: remove it from pending.txt" in told

    def test_a_kept_run_leaves_its_lake(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        code, told = run(tmp_path, "[{s: [[A, 1, 1]]}]", "{r: [{k: A, total: 1}]}", keep=True)
        assert code == ExitCode.DONE
        (line,) = [line for line in told.splitlines() if "kept in" in line]
        assert (Path(line.split("kept in ")[1]) / "lake" / "r" / "_delta_log").is_dir()


def test_runs_leave_nothing_in_memory(spark: SparkSession, tmp_path: Path) -> None:
    before = set(Path("/dev/shm").glob("headrace-cases-*/*"))
    run(tmp_path, "[{s: [[A, 1, 1]]}]", "{r: [{k: A, total: 1}]}")
    assert set(Path("/dev/shm").glob("headrace-cases-*/*")) <= before
