"""`headrace test` where nothing can be run: bad files and words that no case has."""

from __future__ import annotations

import io
from pathlib import Path

from rich.console import Console

from headrace.cases.report import run_files
from headrace.errors import ExitCode


def run(path: Path, keyword: str = "") -> tuple[ExitCode, str]:
    told = io.StringIO()
    code = run_files([path], keyword=keyword, console=Console(file=told, width=200))
    return code, told.getvalue()


def test_a_bad_case_file_is_refused_with_its_name_and_place(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("name: a\nsql: x\ngiven: [flsh]\nthen: {r: []}\n")
    code, told = run(file)
    assert code == ExitCode.REFUSED
    assert f"{file}:3:9: unknown step 'flsh'" in told


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    code, told = run(tmp_path / "none.yaml")
    assert code == ExitCode.REFUSED
    assert "none.yaml" in told


def test_a_keyword_that_no_case_has_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text("name: a\nsql: x\ngiven: [flush]\nthen: {r: []}\n")
    code, told = run(file, "watermark")
    assert code == ExitCode.REFUSED
    assert "no case has 'watermark' in its name; there are 1" in told
