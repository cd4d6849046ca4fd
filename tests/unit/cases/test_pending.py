"""The list of cases that wait for a feature."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cases.case import BadCase, Case, CaseReport, Variant
from headrace.cases.pending import broken_promise, missing_feature, pending_beside, read_pending
from headrace.cases.read import read_cases, read_file
from headrace.sql.source import NotYet

CASE = "name: a case\nsql: x\ngiven: []\nthen: {r: []}\n"


def a_case() -> Case:
    (case,) = read_cases(CASE, "folder/f.yaml")
    return case


def test_lines_name_file_case_and_feature_and_comments_are_passed_over() -> None:
    pending = read_pending("# later\n\nf.yaml: a case: step crash\ng.yaml: a case: sessions\n")
    assert pending == {("f.yaml", "a case"): "step crash", ("g.yaml", "a case"): "sessions"}
    assert missing_feature(pending, a_case()) == "step crash"
    assert missing_feature({}, a_case()) == ""


@pytest.mark.parametrize(
    "line", ["f.yaml", "f.yaml: a case", "f.yaml: a case: \n", "f.yaml: a: b\nf.yaml: a: c"]
)
def test_a_line_of_another_form_and_a_case_that_stands_twice_are_refused(line: str) -> None:
    with pytest.raises(BadCase, match=r"pending\.txt:\d"):
        read_pending(line)


def test_the_list_lies_beside_the_case_file(tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(CASE)
    assert pending_beside(file) == {}
    (tmp_path / "pending.txt").write_text("f.yaml: a case: sessions\n")
    (case,) = read_file(file)
    assert missing_feature(pending_beside(file), case) == "sessions"


def report(failure: str, error: NotYet | None = None) -> CaseReport:
    return CaseReport(a_case(), Variant(1), 0.1, failure, error)


def test_a_pending_case_that_passes_speaks_up() -> None:
    assert broken_promise(report(""), "sessions") == "no longer pending: remove it from pending.txt"


def test_a_pending_case_must_fail_with_the_error_of_its_feature() -> None:
    error = NotYet("not supported yet: step crash")
    assert broken_promise(report(str(error), error), "step crash") == ""
    assert "pending for 'sessions', and fails with another error" in broken_promise(
        report(str(error), error), "sessions"
    )


def test_a_pending_case_may_fail_by_its_rows() -> None:
    assert broken_promise(report("r: 1 of 2 expected rows are there"), "sessions") == ""
