"""`pending.txt`: the cases that need a feature which is not there yet. The list only shrinks. Pure.

One line a case, `file.yaml: name of the case: missing feature`; `#` begins a comment line. A pending case
must fail, and where it ends with an error, the error must name the missing feature.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headrace.cases.case import BadCase, Case, CaseReport

FILE: Final = "pending.txt"

Pending = Mapping[tuple[str, str], str]  # (file name, case name) -> the missing feature


def read_pending(text: str) -> Pending:
    """The pending cases. Raises BadCase for a line of another form and for a case that stands twice."""
    found: dict[tuple[str, str], str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        file, _, rest = line.partition(": ")
        name, _, feature = rest.rpartition(": ")
        if not (file and name and feature):
            raise BadCase(f"{FILE}:{number}: not `file.yaml: name of the case: missing feature`: {line!r}")
        if (file, name) in found:
            raise BadCase(f"{FILE}:{number}: the case stands there twice: {line!r}")
        found[file, name] = feature
    return found


def pending_beside(path: Path) -> Pending:
    """The pending cases of the folder in which a case file lies."""
    listed = path.parent / FILE
    return read_pending(listed.read_text(encoding="utf-8")) if listed.is_file() else {}


def missing_feature(pending: Pending, case: Case) -> str:
    """What the case waits for; '' where it must pass."""
    return pending.get((Path(case.file).name, case.name), "")


def broken_promise(report: CaseReport, feature: str) -> str:
    """What is wrong with a pending case's run; '' where it failed as it should."""
    if report.passed:
        return f"no longer pending: remove it from {FILE}"
    if report.error is not None and feature.casefold() not in report.failure.casefold():
        return f"it is pending for {feature!r}, and fails with another error:\n{report.failure}"
    return ""
