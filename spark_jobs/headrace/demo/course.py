"""The report's charts of the run itself: from recorded batches to what `charts` draws. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from headrace.demo import charts
from headrace.demo.charts import Axis, Bar, Series, number_axis
from headrace.demo.data import AIRPORTS
from headrace.demo.figures import Figure
from headrace.demo.record import Sample, Streamed
from headrace.ops.progress import instant, span

HOUR_MS = 3_600_000
COLOURS = (0, 1, 2, 3, 5, 6)  # of the queries: 4 is the watermark's
WATCHED = "hourly"  # a query that reads the departures alone


def throughput(run: Streamed) -> Figure:
    """Rows taken so far, by query, over the time of the run."""
    series = []
    for colour, (query, samples) in zip(COLOURS, _by_query(run.samples).items(), strict=False):
        points, hints, total = [(0.0, 0.0)], ["0 rows"], 0
        for sample in samples:
            batch = sample.progress
            if batch.input_rows:
                total += batch.input_rows
                points.append((sample.at, total))
                hints.append(
                    f"{total:,} rows after {sample.at:.1f} s; this batch {batch.rows_per_second:,.0f} rows/s"
                )
        series.append(Series(query, tuple(points), tuple(hints), colour))
    return Figure(
        "Rows taken",
        f"Each query reads its streams whole, at its own pace. {run.rows:,} rows of three streams in "
        f"{run.seconds:.0f} s.",
        charts.lines(
            series,
            _seconds(run),
            number_axis("rows", [0.0, *(at for one in series for _, at in one.points)]),
            "Rows taken by each query over time",
        ),
        ("query", "batches", "rows", "rows/s while in a batch"),
        tuple(_speed(query, samples) for query, samples in _by_query(run.samples).items()),
    )


def speed(run: Streamed) -> Figure:
    """Rows per second of each batch that had input."""
    series = []
    for colour, (query, samples) in zip(COLOURS, _by_query(run.samples).items(), strict=False):
        found = [(one.at, one.progress) for one in samples if one.progress.input_rows]
        hints = tuple(f"batch {b.batch}, {b.input_rows:,} rows in {b.seconds:.2f} s" for _, b in found)
        series.append(Series(query, tuple((at, b.rows_per_second) for at, b in found), hints, colour))
    values = [value for one in series for _, value in one.points] or [0.0]
    return Figure(
        "Rows per second",
        "Of each batch with input, its write to Delta included. The queries share the machine's cores.",
        charts.lines(series, _seconds(run), number_axis("rows/s", values), "Rows per second of each batch"),
    )


def marks(run: Streamed) -> Figure:
    """How far event time had come in each source partition, and the watermark."""
    samples = [sample for sample in _watched(run) if sample.progress.input_rows]
    series = [_line(name, samples, _marks(samples, name), colour) for colour, name in enumerate(AIRPORTS)]
    watermarks = [sample.progress.watermark_ms for sample in samples]
    series.append(_line("watermark", samples, watermarks, 4, dashed=True))
    values = [value for one in series for _, value in one.points]
    y = _months(values) if values else number_axis("event time", [0.0])
    return Figure(
        "Event time",
        "Of the departures: the mark of a source partition is the newest one that it has reported, less the allowed "
        "lateness. The watermark is the smallest of them, so it waits for LaGuardia.",
        charts.lines(
            series, _seconds(run), y, "Marks of three source partitions and the watermark over time"
        ),
        ("after", *AIRPORTS, "watermark"),
        tuple(
            (
                f"{sample.at:.1f} s",
                *(instant(_mark(sample, name)) for name in AIRPORTS),
                instant(sample.progress.watermark_ms),
            )
            for sample in samples
        ),
    )


def lags(run: Streamed) -> Figure:
    """How far each source partition was behind the one that was furthest."""
    samples = [sample for sample in _watched(run) if sample.progress.input_rows]
    series = [_lag_line(name, samples, colour) for colour, name in enumerate(AIRPORTS)]
    values = [value for one in series for _, value in one.points] or [0.0]
    return Figure(
        "Lag of the source partitions",
        "Behind the newest mark, in hours of event time. One global watermark would go with the fastest airport, "
        "and drop what the slowest still has to say.",
        charts.lines(
            series, _seconds(run), number_axis("hours behind", values), "Lag of each source partition"
        ),
    )


def balance(run: Streamed) -> list[Figure]:
    """State rows of each hash partition, when the query held most: one figure for each query."""
    figures = []
    for colour, (query, samples) in zip(COLOURS, _by_query(run.samples).items(), strict=False):
        held = [sample.progress for sample in samples if sample.progress.state_rows]
        if not held:
            continue
        fullest = max(held, key=lambda batch: sum(batch.state_rows))
        mean = sum(fullest.state_rows) / len(fullest.state_rows)
        bars = [
            Bar(f"{number}", rows, f"{rows:,}", f"{rows / mean:.2f} of the mean" if mean else "")
            for number, rows in enumerate(fullest.state_rows)
        ]
        caption = f"{sum(fullest.state_rows):,} rows in batch {fullest.batch}; the fullest partition holds "
        caption += f"{max(fullest.state_rows) / mean:.2f} of the mean." if mean else "none."
        svg = charts.bars(
            bars, f"State rows of {query} by hash partition", colour=colour, width=300, names=24
        )
        figures.append(Figure(query, caption, svg))
    return figures


# ---- parts -------------------------------------------------------------------------------------
def _by_query(samples: Iterable[Sample]) -> Mapping[str, list[Sample]]:
    found: dict[str, list[Sample]] = {}
    for sample in samples:
        found.setdefault(sample.progress.query, []).append(sample)
    return dict(sorted(found.items()))


def _watched(run: Streamed) -> list[Sample]:
    """The batches of WATCHED: the marks are those of its one stream."""
    return [sample for sample in run.samples if sample.progress.query == WATCHED]


def _speed(query: str, samples: Sequence[Sample]) -> tuple[str, ...]:
    batches = [sample.progress for sample in samples if sample.progress.input_rows]
    rows, seconds = sum(b.input_rows for b in batches), sum(b.seconds for b in batches)
    return (query, f"{len(samples):,}", f"{rows:,}", f"{rows / seconds:,.0f}" if seconds else "–")


def _mark(sample: Sample, partition: str) -> int | None:
    return next((mark.mark_ms for mark in sample.progress.marks if mark.partition == partition), None)


def _lag(sample: Sample, partition: str) -> int | None:
    return next((mark.lag_ms for mark in sample.progress.marks if mark.partition == partition), None)


def _marks(samples: Sequence[Sample], partition: str) -> list[int | None]:
    return [_mark(sample, partition) for sample in samples]


def _line(
    name: str, samples: Sequence[Sample], values: Sequence[int | None], colour: int, *, dashed: bool = False
) -> Series:
    """Event times (ms, None where there was none yet) over the run."""
    found = [(sample.at, ms) for sample, ms in zip(samples, values, strict=True) if ms is not None]
    hints = tuple(f"{instant(ms)} UTC, after {at:.1f} s" for at, ms in found)
    return Series(name, tuple((at, float(ms)) for at, ms in found), hints, colour, dashed, step=True)


def _lag_line(name: str, samples: Sequence[Sample], colour: int) -> Series:
    found = [(sample.at, lag) for sample in samples if (lag := _lag(sample, name)) is not None]
    hints = tuple(f"{span(lag)} behind, after {at:.1f} s" for at, lag in found)
    return Series(name, tuple((at, lag / HOUR_MS) for at, lag in found), hints, colour, step=True)


def _seconds(run: Streamed) -> Axis:
    axis = number_axis("seconds since the first delivery", [0.0, run.seconds])
    return Axis(axis.label, 0.0, run.seconds, tuple(tick for tick in axis.ticks if tick[0] <= run.seconds))


def _months(values: Sequence[float]) -> Axis:
    """An axis of event time (ms) with a tick at the start of every month, or of every second or third."""
    low, high = (datetime.fromtimestamp(f(values) / 1000, UTC) for f in (min, max))
    starts = [
        datetime(year, month, 1, tzinfo=UTC)
        for year in range(low.year, high.year + 2)
        for month in range(1, 13)
    ]
    begin = max((at for at in starts if at <= low), default=low)
    end = min((at for at in starts if at >= high), default=high)
    inside = [at for at in starts if begin <= at <= end]
    ticks = tuple((at.timestamp() * 1000, f"{at:%b %Y}") for at in inside[:: max(1, len(inside) // 6)])
    return Axis("event time, UTC", begin.timestamp() * 1000, end.timestamp() * 1000, ticks)
