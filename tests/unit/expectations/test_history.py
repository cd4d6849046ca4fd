"""The batch log as a history: living batches, unbroken chains, ranges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from expectations.history import Batch, History, Piece, pieces, read_history
from headrace.errors import Unknown
from headrace.runtime import batchlog
from headrace.runtime.batchlog import BatchRow
from headrace.runtime.lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path))
    batchlog.prepare(lake)
    return lake


def log(
    lake: Lake, number: int, start: Any, end: Any, *, generation: int = 0, late: int | None = None
) -> None:
    offsets = json.dumps({"s": {"start": start, "end": end}})
    counts = dict.fromkeys(batchlog.COUNTERS, 0)
    batchlog.write(
        batchlog.opening(lake).result(),
        BatchRow("r", generation, number, 0, late, offsets, '{"t": 3}', "{}", counts, 0.1),
    )


def numbers(history: History) -> list[tuple[int, int]]:
    return [(batch.generation, batch.number) for batch in history.batches]


def test_batches_come_in_order_with_their_watermarks_and_pins(lake: Lake) -> None:
    log(lake, 0, None, {"0": 1})
    log(lake, 1, {"0": 1}, {"0": 2}, late=7)
    history = read_history(lake, "r")
    assert [batch.watermark_ms for batch in history.batches] == [None, 7]
    assert history.watermark_ms == 7
    assert history.versions == ((("t", 3),),)


def test_a_query_without_batches_is_unknown(lake: Lake) -> None:
    log(lake, 0, None, {"0": 1})
    with pytest.raises(Unknown, match="no batch of this query"):
        read_history(lake, "other")


def test_a_gap_in_the_log_is_unknown_and_named(lake: Lake) -> None:
    log(lake, 0, None, {"0": 1})
    log(lake, 2, {"0": 3}, {"0": 4})
    with pytest.raises(Unknown, match=r"gap before batch 2.*\"0\": 3.*\"0\": 1"):
        read_history(lake, "r")


def test_no_offset_and_an_empty_offset_begin_alike(lake: Lake) -> None:
    log(lake, 0, None, {})
    log(lake, 1, None, {"0": 1})
    assert numbers(read_history(lake, "r")) == [(0, 0), (0, 1)]


def test_a_newer_generation_undoes_what_came_at_or_after_its_start(lake: Lake) -> None:
    log(lake, 0, None, {"0": 1})
    log(lake, 1, {"0": 1}, {"0": 2})
    log(lake, 2, {"0": 2}, {"0": 9})
    log(lake, 1, {"0": 1}, {"0": 3}, generation=1)
    assert numbers(read_history(lake, "r")) == [(0, 0), (1, 1)]


def batch(number: int, start: int, end: int, *, late: int | None = None, version: int = 1) -> Batch:
    return Batch(number, 0, late, {"s": ({"0": start}, {"0": end})}, (("t", version),))


def spans(found: tuple[Piece, ...]) -> list[tuple[Any, Any]]:
    return [(piece.start, piece.end) for piece in found]


def test_neighbours_of_one_version_are_one_piece() -> None:
    history = History("r", (batch(0, 0, 1), batch(1, 1, 2), batch(2, 2, 3, version=2)))
    assert spans(pieces(history, "s", by_watermark=False)) == [({"0": 0}, {"0": 2}), ({"0": 2}, {"0": 3})]


def test_where_the_watermark_matters_it_parts_them() -> None:
    history = History("r", (batch(0, 0, 1), batch(1, 1, 2, late=5), batch(2, 2, 3, late=5)))
    assert spans(pieces(history, "s", by_watermark=True)) == [({"0": 0}, {"0": 1}), ({"0": 1}, {"0": 3})]


def test_a_batch_without_input_is_no_piece() -> None:
    history = History("r", (batch(0, 0, 1), batch(1, 1, 1, version=2)))
    assert spans(pieces(history, "s", by_watermark=False)) == [({"0": 0}, {"0": 1})]
