"""The verdict: its outcome, exit code, JSON and printed form."""

from __future__ import annotations

import json

import pytest

from expectations.verdict import Check, Difference, Outcome, ResultVerdict, Verdict, instant
from headrace.errors import ExitCode


def verdict(*results: ResultVerdict) -> Verdict:
    return Verdict("p", "lake/p", "2026-01-01T00:00:00+00:00", 1e-9, results=results)


@pytest.mark.parametrize(
    ("outcomes", "whole", "code"),
    [
        (["equal", "equal"], "equal", ExitCode.DONE),
        (["equal", "unknown"], "unknown", ExitCode.UNKNOWN),
        (["unknown", "unequal", "equal"], "unequal", ExitCode.UNEQUAL),
        ([], "unknown", ExitCode.UNKNOWN),
    ],
)
def test_unequal_outweighs_unknown_and_unknown_outweighs_equal(
    outcomes: list[Outcome], whole: Outcome, code: ExitCode
) -> None:
    found = verdict(*(ResultVerdict(f"r{n}", outcome) for n, outcome in enumerate(outcomes)))
    assert (found.outcome, found.code) == (whole, code)


CHANGED = Difference("changed", (("k", "A"), ("window_start", "1970-01-01 00:00:00")), "n", "2", "3")
MISSING = Difference("missing", (("k", "B"),), "", "n=1", "")


def test_json_has_the_verdict_first_and_keys_as_maps() -> None:
    result = ResultVerdict(
        "r", "unequal", rows=4, differing=2, differences=(CHANGED, MISSING), watermark_ms=1500
    )
    plain = json.loads(verdict(result).to_json())
    assert list(plain)[:2] == ["verdict", "exit_code"]
    assert (plain["verdict"], plain["exit_code"], plain["tolerance"]) == ("unequal", 3, 1e-9)
    first = plain["results"][0]
    assert first["differences"][0]["key"] == {"k": "A", "window_start": "1970-01-01 00:00:00"}
    assert first["watermark"] == "1970-01-01T00:00:01.500Z"


def test_the_printed_form_names_rows_checks_and_reasons() -> None:
    checks = (
        Check("each key has one row", holds=True),
        Check("counts are not negative", holds=False, against=3),
    )
    said = verdict(
        ResultVerdict(
            "r", "unequal", rows=4, differing=30, differences=(CHANGED, MISSING), checks=checks, batches=2
        ),
        ResultVerdict("q", "unknown", reason="stream s: its input can't be read again"),
    ).render()
    assert "within relative 1e-09" in said
    assert "changed  k=A, window_start=1970-01-01 00:00:00: n expected 2, found 3" in said
    assert "missing  k=B: n=1" in said
    assert "30 rows differ in all" in said
    assert "check failed: counts are not negative (3 rows)" in said
    assert "each key has one row" not in said
    assert "q: unknown: stream s: its input can't be read again" in said


def test_instants_are_iso_and_none_is_nothing() -> None:
    assert instant(None) == ""
    assert instant(-1) == "1969-12-31T23:59:59.999Z"
    assert instant(253_402_300_799_999) == "9999-12-31T23:59:59.999Z"
