"""How far a running pipeline has come, for people: a live view on a terminal, plain lines elsewhere.

`absorb` folds one batch into a `Board`, `render` draws a board, `line` says one batch in a line; all three are
pure. `ProgressView` is the only part that writes, holds a lock and reads a clock. Nothing here may slow a
query down or stop it: a batch is folded in memory, drawn a few times a second, told every few seconds.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

DRAWN_EVERY = 0.25  # seconds, on a terminal
TOLD_EVERY = 5.0  # seconds between two lines of a query, elsewhere
BLOCKS = " ▁▂▃▄▅▆▇█"
MOST_SHOWN = 8  # hash partitions whose numbers have room; the bars show all


class Mark(Protocol):
    """One source partition; times in milliseconds, `mark_ms` None before its first record."""

    @property
    def source(self) -> str: ...
    @property
    def partition(self) -> str: ...
    @property
    def mark_ms(self) -> int | None: ...
    @property
    def lag_ms(self) -> int | None: ...
    @property
    def idle(self) -> bool: ...


class Batch(Protocol):
    """What a query tells of one batch (`headrace.runtime.query.Progress`)."""

    @property
    def query(self) -> str: ...
    @property
    def batch(self) -> int: ...
    @property
    def input_rows(self) -> int: ...
    @property
    def output_rows(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def rows_per_second(self) -> float: ...
    @property
    def watermark_ms(self) -> int | None: ...
    @property
    def marks(self) -> Sequence[Mark]: ...
    @property
    def state_rows(self) -> Sequence[int]: ...
    @property
    def note(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Stretch:
    """Batches of one query in a row, summed up, for one line."""

    query: str
    first: int
    last: int
    rows_in: int
    rows_out: int
    seconds: float
    watermark_ms: int | None
    state_rows: tuple[int, ...]

    @property
    def rows_per_second(self) -> float:
        return self.rows_in / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class QueryLine:
    """One query so far; `rows_per_second` is that of its last batch that had input."""

    batch: int = -1
    rows_in: int = 0
    rows_out: int = 0
    rows_per_second: float = 0.0
    watermark_ms: int | None = None
    state_rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Board:
    """All queries by name, and every source partition as the query that is furthest behind sees it."""

    queries: dict[str, QueryLine] = field(default_factory=dict)
    marks: dict[str, tuple[Mark, ...]] = field(default_factory=dict)  # by query

    def partitions(self) -> list[Mark]:
        """One mark for each (source, partition): the smallest that any query has."""
        least: dict[tuple[str, str], Mark] = {}
        for mark in (mark for marks in self.marks.values() for mark in marks):
            key = (mark.source, mark.partition)
            if key not in least or _before(mark.mark_ms, least[key].mark_ms):
                least[key] = mark
        return [least[key] for key in sorted(least)]


def absorb(board: Board, batch: Batch) -> Board:
    """The board after one more batch."""
    known = board.queries.get(batch.query, QueryLine())
    line = replace(
        known,
        batch=batch.batch,
        rows_in=known.rows_in + batch.input_rows,
        rows_out=known.rows_out + batch.output_rows,
        rows_per_second=batch.rows_per_second if batch.input_rows else known.rows_per_second,
        watermark_ms=known.watermark_ms if batch.watermark_ms is None else batch.watermark_ms,
        state_rows=tuple(batch.state_rows) or known.state_rows,
    )
    marks = {**board.marks, batch.query: tuple(batch.marks)} if batch.marks else board.marks
    return Board({**board.queries, batch.query: line}, marks)


def with_state_rows(board: Board, known: Callable[[str], Sequence[int]]) -> Board:
    """The board with what is known of each query's state rows, where anything is."""
    queries = {
        name: replace(query, state_rows=tuple(known(name)) or query.state_rows)
        for name, query in board.queries.items()
    }
    return Board(queries, board.marks)


def render(board: Board, title: str, status: str = "", elapsed: float = 0.0) -> RenderableType:
    """The whole view. Fits 80 columns."""
    head = Text.assemble((title, "bold"), ("  ·  " if status else ""), (status, "cyan"))
    if not board.queries:
        return Panel(Text("starting …"), title=head, title_align="left")
    body = Group(_query_table(board), Text(), _partition_table(board), Text(), _state_table(board))
    return Panel(body, title=head, title_align="left", subtitle=f"{elapsed:.0f} s", subtitle_align="right")


def stretched(untold: Stretch | None, batch: Batch) -> Stretch:
    """What is to be told of a query, with one more batch."""
    before = untold or Stretch(batch.query, batch.batch, batch.batch, 0, 0, 0.0, None, ())
    return replace(
        before,
        last=batch.batch,
        rows_in=before.rows_in + batch.input_rows,
        rows_out=before.rows_out + batch.output_rows,
        seconds=before.seconds + batch.seconds,
        watermark_ms=before.watermark_ms if batch.watermark_ms is None else batch.watermark_ms,
        state_rows=tuple(batch.state_rows) or before.state_rows,
    )


def line(told: Stretch) -> str:
    """Some batches as a line of a log."""
    state = f", state {'+'.join(map(str, told.state_rows))} rows" if told.state_rows else ""
    which = f"batch {told.first}" if told.first == told.last else f"batches {told.first} to {told.last}"
    return (
        f"{told.query} {which}: {told.rows_in:,} rows in, {told.rows_out:,} out, {told.seconds:.1f} s, "
        f"{told.rows_per_second:,.0f} rows/s, watermark {instant(told.watermark_ms)}{state}"
    )


def instant(ms: int | None) -> str:
    """A time of event time in UTC, without seconds on a whole minute; a flushed stream's end of time is 'end'."""
    if ms is None:
        return "–"
    try:
        moment = datetime.fromtimestamp(ms / 1000, UTC)
    except (OverflowError, ValueError):
        return "end"
    if moment.year >= 9999:
        return "end"
    return f"{moment:%Y-%m-%d %H:%M:%S}" if moment.second else f"{moment:%Y-%m-%d %H:%M}"


def span(ms: int | None) -> str:
    """A length of time in its two largest units."""
    if ms is None:
        return "–"
    minutes, seconds = divmod(max(0, ms) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days:,} d {hours} h"
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min" if minutes else f"{seconds} s"


class ProgressView:
    """Use as a context manager; give `view` itself as `on_progress`. Safe from any thread.

    On a terminal it draws in place; elsewhere a query gets a line at its first batch with rows in or out, then one
    for all its batches of the last seconds. `status` says what the driver is at. `state_rows` knows a query's
    rows by hash partition better than its batches do (they come after the batch; see `statecount`). `clock`
    gives seconds.
    """

    def __init__(
        self,
        console: Console,
        title: str,
        *,
        state_rows: Callable[[str], Sequence[int]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._title = title
        self._state_rows = state_rows
        self._clock = clock
        self._start = clock()
        self._lock = threading.Lock()
        self._board = Board()
        self._status = ""
        self._untold: dict[str, Stretch] = {}
        self._told_at: dict[str, float] = {}  # by query, the clock's seconds
        self._live = Live(
            get_renderable=self._draw, console=console, refresh_per_second=1 / DRAWN_EVERY, transient=False
        )

    def __enter__(self) -> Self:
        self._start = self._clock()
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()
        else:
            self._tell_rest()

    def __call__(self, batch: Batch) -> None:
        with self._lock:
            if batch.note:
                self._print(f"{batch.query} batch {batch.batch}: {batch.note}")
            self._board = absorb(self._board, batch)
            moved = batch.input_rows or batch.output_rows or batch.query in self._untold
            if not self._console.is_terminal and moved:
                self._untold[batch.query] = stretched(self._untold.get(batch.query), batch)
                if self._clock() - self._told_at.get(batch.query, -math.inf) >= TOLD_EVERY:
                    self._tell(batch.query)

    def status(self, words: str) -> None:
        """What happens now, in a few words."""
        with self._lock:
            self._status = words
        if not self._console.is_terminal:
            self._tell_rest()
            self._print(words)

    @property
    def board(self) -> Board:
        return self._board

    def _tell_rest(self) -> None:
        with self._lock:
            for query in list(self._untold):
                self._tell(query)

    def _tell(self, query: str) -> None:
        self._told_at[query] = self._clock()
        self._print(line(self._untold.pop(query)))

    def _print(self, words: str) -> None:
        self._console.print(words, markup=False, highlight=False, soft_wrap=True)

    def _draw(self) -> RenderableType:
        with self._lock:
            board, status = self._board, self._status
        if self._state_rows:
            board = with_state_rows(board, self._state_rows)
        return render(board, self._title, status, self._clock() - self._start)


def _query_table(board: Board) -> Table:
    table = _table("query", "batch", "rows in", "rows/s", "rows out", "watermark")
    for name, query in sorted(board.queries.items()):
        table.add_row(
            name,
            str(query.batch),
            f"{query.rows_in:,}",
            f"{query.rows_per_second:,.0f}",
            f"{query.rows_out:,}",
            instant(query.watermark_ms),
        )
    return table


def _partition_table(board: Board) -> Table:
    table = _table("source", "partition", "mark", "lag", "")
    for mark in board.partitions():
        table.add_row(
            mark.source, mark.partition, instant(mark.mark_ms), span(mark.lag_ms), "idle" if mark.idle else ""
        )
    return table


def _state_table(board: Board) -> Table:
    width = max(len(query.state_rows) for query in board.queries.values())
    table = _table(
        "state rows by hash partition", "", *(f"{number}" for number in range(min(width, MOST_SHOWN)))
    )
    for name, query in sorted(board.queries.items()):
        rows = query.state_rows
        table.add_row(name, Text(_bars(rows), "cyan"), *(f"{count:,}" for count in rows[:MOST_SHOWN]))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    numbers = {"batch", "rows in", "rows/s", "rows out", "lag"}
    for column in columns:
        right = column in numbers or column.isdecimal()
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    return table


def _bars(counts: Sequence[int]) -> str:
    """A block for each partition, as high as its share of the fullest."""
    most = max(counts, default=0) or 1
    return "".join(BLOCKS[-(-count * (len(BLOCKS) - 1) // most)] for count in counts)


def _before(one: int | None, other: int | None) -> bool:
    return other is not None and (one is None or one < other)
