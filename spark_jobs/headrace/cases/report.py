"""Case files -> a line per case on a terminal, a summary and an exit code: what `headrace test` does.

A case that is listed in the `pending.txt` beside its file is expected to fail, and is a failure when it
passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from rich.console import Console
from rich.text import Text

from headrace.cases.case import BadCase, Case, CaseReport
from headrace.cases.pending import broken_promise, missing_feature, pending_beside
from headrace.cases.read import read_file
from headrace.cases.run import case_session, run_case, variants
from headrace.errors import ExitCode

Verdict = Literal["passed", "failed", "pending", "bad"]

_SIGNS: Final[dict[Verdict, tuple[str, str]]] = {
    "passed": ("✓", "green"),
    "failed": ("✗", "red"),
    "pending": ("…", "yellow"),
    "bad": ("!", "magenta"),
}


@dataclass(frozen=True, slots=True)
class _Told:
    """A case's verdict over all of its runs, and what to say beneath its line."""

    verdict: Verdict
    note: str
    details: tuple[str, ...] = ()


def run_files(
    paths: Sequence[Path],
    *,
    keyword: str = "",
    partitions: tuple[int, ...] = (1, 4),
    keep: bool = False,
    console: Console | None = None,
) -> ExitCode:
    """Run the cases of the files whose names hold `keyword`, each with every N of `partitions`.

    DONE where all pass (or fail as pending.txt says), REFUSED for a bad case file or a keyword that no case
    has, UNEQUAL where one failed.
    """
    out = console or Console()
    try:
        cases = [
            (case, missing_feature(pending_beside(path), case)) for path in paths for case in read_file(path)
        ]
    except BadCase as error:
        out.print(Text(error.render()))
        return ExitCode.REFUSED
    chosen = [(case, feature) for case, feature in cases if keyword.casefold() in case.name.casefold()]
    if not chosen:
        out.print(
            Text(
                f"no case has {keyword!r} in its name; there are {len(cases)}"
                if cases
                else "no case file was named"
            )
        )
        return ExitCode.REFUSED
    return _run(chosen, partitions, keep, out)


def _run(chosen: list[tuple[Case, str]], partitions: tuple[int, ...], keep: bool, out: Console) -> ExitCode:
    spark = case_session("headrace test")
    counts: dict[Verdict, int] = dict.fromkeys(_SIGNS, 0)
    file, seconds = "", 0.0
    for case, feature in chosen:
        if case.file != file:
            file = case.file
            out.print(Text(file, style="bold"))
        runs = [run_case(spark, case, way.partitions, way.joined, keep) for way in variants(case, partitions)]
        told = _tell(runs, feature)
        counts[told.verdict] += 1
        seconds += sum(run.seconds for run in runs)
        _print(case, runs, told, out)
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    out.print(Text(f"{len(chosen)} cases: {said} ({seconds:.1f} s)"))
    if counts["bad"]:
        return ExitCode.REFUSED
    return ExitCode.UNEQUAL if counts["failed"] else ExitCode.DONE


def _tell(runs: list[CaseReport], feature: str) -> _Told:
    failed = [run for run in runs if not run.passed]
    if any(isinstance(run.error, BadCase) for run in failed):
        return _Told("bad", "", _details(failed))
    if not feature:
        return _Told("failed", "", _details(failed)) if failed else _Told("passed", "")
    broken = {broken_promise(run, feature) for run in (failed or runs)} - {""}
    return _Told("failed", "", tuple(sorted(broken))) if broken else _Told("pending", feature)


def _details(failed: Iterable[CaseReport]) -> tuple[str, ...]:
    """Each failure once, with the runs that had it."""
    ways: dict[str, list[str]] = {}
    for run in failed:
        ways.setdefault(run.failure, []).append(str(run.variant))
    return tuple(f"{', '.join(which)}\n{failure}" for failure, which in ways.items())


def _print(case: Case, runs: list[CaseReport], told: _Told, out: Console) -> None:
    sign, style = _SIGNS[told.verdict]
    line = Text(f"  {sign} {case.name}", style=style)
    line.append(
        f"  {sum(run.seconds for run in runs):.1f} s" + (f"  needs {told.note}" if told.note else ""),
        style="dim",
    )
    out.print(line, soft_wrap=True)
    for detail in told.details:
        for row in detail.splitlines():
            out.print(Text(f"      {row}"), soft_wrap=True)
    for run in runs:
        if run.kept:
            out.print(Text(f"      {run.variant}: kept in {run.kept}"), soft_wrap=True)
