"""The demo's folder: made afresh, and only ever its own."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from headrace.demo.run import STAMP, RunDemo, fresh_folder, refresh_before, run_demo
from headrace.errors import ExitCode, Refused


def test_a_second_demo_starts_with_an_empty_folder(tmp_path: Path) -> None:
    root = fresh_folder(tmp_path / "demo")
    (root / "old").touch()
    assert fresh_folder(root) == root
    assert [path.name for path in root.iterdir()] == [STAMP]


def test_a_folder_that_no_demo_made_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(Refused, match="not a demo's folder"):
        fresh_folder(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_the_planes_are_refreshed_between_two_deliveries() -> None:
    assert [refresh_before(count) for count in (2, 3, 8)] == [2, 2, 5]
    assert refresh_before(1) > 1  # never


def test_prepare_only_delivers_everything_and_says_how_to_run_it(tmp_path: Path) -> None:
    out = io.StringIO()
    request = RunDemo(tmp_path / "demo", months=1, deliveries=3, prepare_only=True)
    assert run_demo(request, Console(file=out, width=200)) == ExitCode.DONE
    files = sorted((tmp_path / "demo" / "input").glob("*/partition=*/*.csv"))
    assert len(files) == 27
    assert not list((tmp_path / "demo" / "staged").rglob("*.csv"))
    assert "--flush --set DATA=" in out.getvalue()
