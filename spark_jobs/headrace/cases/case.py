"""A case as it was written, and what became of it: a pipeline's text, the steps that feed it, what must come out.

Frozen and pure. Names of streams, tables and results are as the file has them: whether the pipeline knows
them is found out in `arrange`, once the pipeline is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from headrace.errors import HeadraceError, Place, Refused

Value: TypeAlias = "None | bool | int | float | str | list[Value] | dict[str, Value]"

LATER_STEPS = ("crash", "snapshot", "restore", "rescale")
METRICS = ("late_rows", "null_event_time_rows", "future_rows", "bad_records", "input_rows")


class BadCase(Refused):
    """The case file says something that can't be run. `file` is set where the error leaves the reading of it."""

    file = ""

    def render(self, file: str = "") -> str:
        return super().render(file or self.file)


@dataclass(frozen=True, slots=True)
class Row:
    """The values of one row of `given`, in the order of the columns, and where it stands."""

    values: tuple[Value, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one source partition."""

    partition: int
    rows: tuple[Row, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Rows:
    """What one step brings for one stream, or the next version of one reference table."""

    name: str
    parts: tuple[Part, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Arrive:
    """Rows for one or more streams in one batch; a reference table's version is published before the batch."""

    inputs: tuple[Rows, ...]


@dataclass(frozen=True, slots=True)
class Advance:
    """Processing time moves on by `ms` milliseconds and nothing arrives."""

    ms: int


@dataclass(frozen=True, slots=True)
class SetClock:
    """Processing time is set: milliseconds since 1970, UTC."""

    ms: int


@dataclass(frozen=True, slots=True)
class KnowPartitions:
    """The stream is known to have so many source partitions."""

    stream: str
    count: int
    place: Place


@dataclass(frozen=True, slots=True)
class Restart:
    """The queries are stopped and started again from their checkpoints."""


@dataclass(frozen=True, slots=True)
class Flush:
    """The input ends: every open window closes."""


@dataclass(frozen=True, slots=True)
class Rescale:
    """The queries are stopped, their state is moved to so many hash partitions, and they are started again."""

    partitions: int


@dataclass(frozen=True, slots=True)
class Later:
    """A step that a later version of Headrace will know."""

    word: str
    place: Place


@dataclass(frozen=True, slots=True)
class Mark:
    """An expected watermark, milliseconds since 1970; None where there must be none yet."""

    ms: int | None


@dataclass(frozen=True, slots=True)
class ExpectedRows:
    """The full content of a result; columns that a row leaves out are not compared."""

    name: str
    rows: tuple[dict[str, Value], ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Expected:
    """What `then` or an `expect` step demands. With `error` nothing else is compared."""

    results: tuple[ExpectedRows, ...] = ()
    metrics: tuple[tuple[str, int], ...] = ()
    watermark: Mark | None = None
    error: str = ""


Step = Arrive | Advance | SetClock | KnowPartitions | Restart | Rescale | Flush | Later | Expected


@dataclass(frozen=True, slots=True)
class Case:
    """One document of a case file."""

    file: str
    name: str
    about: str
    sql: str
    steps: tuple[Step, ...]
    then: Expected
    place: Place
    text: str  # the whole file's, for errors


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run a case: the number of state partitions, and whether all batches arrive as one."""

    partitions: int
    joined: bool = False

    def __str__(self) -> str:
        return f"N={self.partitions}" + (" joined" if self.joined else "")


@dataclass(frozen=True, slots=True)
class CaseReport:
    """What became of one run of a case. `failure` is '' where it passed, else what differs or went wrong."""

    case: Case
    variant: Variant
    seconds: float
    failure: str = ""
    error: HeadraceError | None = None  # what ended the run and was not expected
    kept: str = ""  # the folder, where it was kept

    @property
    def passed(self) -> bool:
        return not self.failure
