"""What a run of the demo leaves to tell: plain frozen values, for the terminal and for the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.demo.plain import PlainResult
from headrace.runtime.progress import Progress
from headrace.runtime.refresh import Refreshed


@dataclass(frozen=True, slots=True)
class Sample:
    """One batch, and when it ended: seconds since the first delivery."""

    at: float
    progress: Progress


@dataclass(frozen=True, slots=True)
class Streamed:
    """The run itself: `rows` of all streams delivered, `seconds` from the first delivery to the last window, all
    batches in order of time, the counters, the end of each delivery in seconds since the first, and the version of the
    planes that came in between.
    """

    rows: int
    seconds: float
    samples: tuple[Sample, ...]
    metrics: Mapping[str, int]
    delivered: tuple[float, ...]
    refreshed: Refreshed | None = None

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Proof:
    """The gate's verdict as the report shows it. `results` are (name, outcome, rows compared)."""

    outcome: str
    results: tuple[tuple[str, str, int], ...]
    tolerance: float
    docs: str = ""


@dataclass(frozen=True, slots=True)
class Demo:
    """Everything that there is to tell. `proof` is None where no gate was asked for."""

    partitions: int
    months: int
    deliveries: int
    streamed: Streamed
    results: Mapping[str, pa.Table]
    plain: PlainResult | None
    proof: Proof | None
    sql: str
