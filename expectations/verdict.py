"""The gate's verdict: plain values, their JSON and their printed form. No Spark, no Great Expectations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal

from headrace.errors import ExitCode
from headrace.runtime.batchlog import FLUSHED_MS

Outcome = Literal["equal", "unequal", "unknown"]

CODES = {"equal": ExitCode.DONE, "unequal": ExitCode.UNEQUAL, "unknown": ExitCode.UNKNOWN}
NAMED = 20  # differing rows that a verdict names, per result


@dataclass(frozen=True, slots=True)
class Difference:
    """One differing row (or one column of it). `column` is '' where the whole row is missing or extra."""

    kind: Literal["changed", "missing", "extra"]
    key: tuple[tuple[str, str], ...]
    column: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class Check:
    """One check of the suite: what it asks, whether it holds, and how many rows speak against it."""

    name: str
    holds: bool
    against: int = 0
    detail: str = ""


@dataclass(frozen=True, slots=True)
class ResultVerdict:
    """What the gate found about one result. Watermark in milliseconds since 1970, None where there was none."""

    result: str
    outcome: Outcome
    reason: str = ""
    rows: int = 0  # compared
    differing: int = 0
    differences: tuple[Difference, ...] = ()
    checks: tuple[Check, ...] = ()
    watermark_ms: int | None = None
    batches: int = 0
    not_compared: int = 0  # rows of windows that are open, or before --since


@dataclass(frozen=True, slots=True)
class Verdict:
    """The gate's answer for a pipeline."""

    pipeline: str
    lake: str
    at: str  # ISO 8601
    tolerance: float  # relative, of floats
    since: str = ""
    results: tuple[ResultVerdict, ...] = ()
    docs: str = ""
    seconds: float = field(default=0.0, compare=False)

    @property
    def outcome(self) -> Outcome:
        """Unequal where any result is; else unknown where any is, or where there is none; else equal."""
        outcomes = {result.outcome for result in self.results}
        if "unequal" in outcomes:
            return "unequal"
        return "equal" if outcomes == {"equal"} else "unknown"

    @property
    def code(self) -> ExitCode:
        return CODES[self.outcome]

    def to_json(self) -> str:
        """The verdict as JSON, keys as maps, the outcome and exit code first."""
        plain = {"verdict": self.outcome, "exit_code": int(self.code), **asdict(self)}
        for result in plain["results"]:
            result["watermark"] = instant(result["watermark_ms"])
            for difference in result["differences"]:
                difference["key"] = dict(difference["key"])
        return json.dumps(plain, indent=2, ensure_ascii=False)

    def render(self) -> str:
        """The verdict for people."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"{self.outcome}: {self.pipeline}, results in {self.lake}"
        yield f"  floats within relative {self.tolerance:g}, all else exactly" + (
            f"; windows that end after {self.since}" if self.since else ""
        )
        for result in self.results:
            yield from _result_lines(result)
        if self.docs:
            yield f"  Data Docs: {self.docs}"


def _result_lines(result: ResultVerdict) -> Iterator[str]:
    said = f"  {result.result}: {result.outcome}"
    if result.outcome == "unknown":
        yield f"{said}: {result.reason}"
        return
    yield (
        f"{said}, {result.rows} rows expected of {result.batches} batches, watermark {_watermark(result.watermark_ms)}"
        + (f", {result.not_compared} rows not compared" if result.not_compared else "")
    )
    for check in result.checks:
        if not check.holds:
            yield f"    check failed: {check.name} ({check.against} rows) {check.detail}".rstrip()
    for one in result.differences:
        where = ", ".join(f"{name}={value}" for name, value in one.key) or "(the row)"
        if one.kind == "changed":
            yield f"    changed  {where}: {one.column} expected {one.expected}, found {one.found}"
        else:
            yield f"    {one.kind:8} {where}: {one.expected if one.kind == 'missing' else one.found}"
    if result.differing > len(result.differences):
        yield f"    {result.differing} rows differ in all"


def instant(ms: int | None) -> str:
    """ISO 8601 with milliseconds; '' for none."""
    if ms is None:
        return ""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _watermark(ms: int | None) -> str:
    return "at the end of the input" if ms == FLUSHED_MS else instant(ms) or "none"
