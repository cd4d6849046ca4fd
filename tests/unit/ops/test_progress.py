"""The live view: what a board shows after some batches."""

from __future__ import annotations

import io
import re

from rich.console import Console

from headrace.ops.progress import (
    TOLD_EVERY,
    Board,
    ProgressView,
    absorb,
    instant,
    line,
    render,
    span,
    stretched,
    with_state_rows,
)
from headrace.runtime.progress import PartitionMark, Progress

HOUR = 3_600_000


def batch(query: str = "hourly", number: int = 0, **other: object) -> Progress:
    values: dict[str, object] = {
        "input_rows": 100,
        "output_rows": 10,
        "seconds": 2.0,
        "watermark_ms": 5 * HOUR,
    }
    return Progress(query=query, batch=number, **{**values, **other})  # type: ignore[arg-type]


def drawn(board: Board, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(render(board, "a title", "a status", 3.0))
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_rows_add_up_over_batches() -> None:
    board = absorb(absorb(Board(), batch()), batch(number=1, input_rows=50))
    assert board.queries["hourly"].rows_in == 150
    assert board.queries["hourly"].rows_out == 20


def test_a_batch_without_input_keeps_the_last_speed() -> None:
    board = absorb(absorb(Board(), batch()), batch(number=1, input_rows=0, seconds=1.0))
    assert board.queries["hourly"].rows_per_second == 50


def test_a_partition_is_shown_as_the_query_that_is_furthest_behind_sees_it() -> None:
    ahead = batch("a", marks=(PartitionMark("s", "LGA", 9 * HOUR, 0, False),))
    behind = batch("b", marks=(PartitionMark("s", "LGA", 2 * HOUR, HOUR, False),))
    board = absorb(absorb(Board(), ahead), behind)
    assert [mark.mark_ms for mark in board.partitions()] == [2 * HOUR]


def test_a_partition_without_a_mark_is_behind_all_others() -> None:
    board = absorb(Board(), batch("a", marks=(PartitionMark("s", "LGA", 9 * HOUR, 0, False),)))
    board = absorb(board, batch("b", marks=(PartitionMark("s", "LGA", None, None, False),)))
    assert [mark.mark_ms for mark in board.partitions()] == [None]


def test_the_view_shows_rows_speed_watermark_marks_lag_and_state() -> None:
    marks = (
        PartitionMark("s", "EWR", 30 * HOUR, 0, False),
        PartitionMark("s", "LGA", 6 * HOUR, 24 * HOUR, True),
    )
    board = absorb(Board(), batch(marks=marks, state_rows=(7, 1_000, 0, 3)))
    text = drawn(board)
    for part in (
        "a title",
        "a status",
        "100",
        "50",
        "1970-01-01 05:00",
        "1970-01-02 06:00",
        "1 d 0 h",
        "idle",
    ):
        assert part in text
    assert re.search(r"hourly\D+7 +1,000 +0 +3", text)


def test_state_that_is_heard_of_later_replaces_what_the_batch_knew() -> None:
    board = absorb(Board(), batch(state_rows=(4,)))
    known = {"hourly": (1, 3)}
    assert with_state_rows(board, lambda name: known.get(name, ())).queries["hourly"].state_rows == (1, 3)
    assert with_state_rows(board, lambda name: ()).queries["hourly"].state_rows == (4,)


def test_without_a_terminal_a_query_is_told_at_its_first_batch_and_then_now_and_again() -> None:
    out, now = io.StringIO(), [0.0]
    with ProgressView(Console(file=out, width=40), "title", clock=lambda: now[0]) as view:
        view(batch())
        view(batch(number=1, input_rows=0, output_rows=0))
        for number in range(2, 5):
            view(batch(number=number))
        view(batch("other", number=7))
        now[0] = TOLD_EVERY
        view(batch(number=5, watermark_ms=5 * HOUR + 1_000))
        view(batch(number=6))
        view.status("done")
        view(batch(number=8, input_rows=0))
    assert out.getvalue().splitlines() == [
        "hourly batch 0: 100 rows in, 10 out, 2.0 s, 50 rows/s, watermark 1970-01-01 05:00",
        "other batch 7: 100 rows in, 10 out, 2.0 s, 50 rows/s, watermark 1970-01-01 05:00",
        "hourly batches 2 to 5: 400 rows in, 40 out, 8.0 s, 50 rows/s, watermark 1970-01-01 05:00:01",
        line(stretched(None, batch(number=6))),
        "done",
        line(stretched(None, batch(number=8, input_rows=0))),
    ]


def test_times_are_short() -> None:
    assert instant(None) == "–"
    assert instant(0) == "1970-01-01 00:00"
    assert instant(253_402_300_799_999) == "end"
    assert instant(2**62) == "end"
    assert [span(ms) for ms in (None, 0, 59_000, 60_000, HOUR, 25 * HOUR)] == [
        "–",
        "0 s",
        "59 s",
        "1 min",
        "1 h 00 min",
        "1 d 1 h",
    ]
