"""Blocks of a version and their cache: each key finds its row or none, whatever was let go meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest

from headrace.runtime import blocks
from headrace.runtime.blocks import Cache, bits_for, decoded, encoded, numbers_of, of_rows
from headrace.runtime.keyhash import key_hashes

COUNT = 3_000
KEYS = np.random.default_rng(5).permutation(COUNT) * 2  # the odd ones are not there
ROWS = pa.table({"id": KEYS, "name": [None if key % 10 == 0 else f"name {key}" for key in KEYS]})
HASHES, _ = key_hashes([ROWS.column("id").combine_chunks()])
BITS = bits_for(COUNT, COUNT * 40)
BLOCKS = dict(encoded(ROWS, HASHES, BITS))


def segment(held: Mapping[int, bytes], numbers: Sequence[int]) -> blocks.Segment:
    return decoded([held[number] for number in numbers], np.array(numbers, np.int64), BITS, ROWS.schema)


def test_how_many_blocks_a_version_has() -> None:
    assert bits_for(0, 0) == 0
    assert bits_for(16, 1_000) == 0
    assert bits_for(17, 1_000) == 1
    assert bits_for(1_000_000, 100_000_000) == 16  # of 15 rows on average
    assert bits_for(1_000, 10_000_000) == 10  # wide rows: each alone


def test_every_block_is_written_an_empty_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sorted(BLOCKS) == list(range(1 << BITS))
    monkeypatch.setattr(blocks, "PART", 1_000)  # bytes: in many parts
    in_parts = dict(encoded(ROWS, HASHES, BITS))
    assert all(segment(BLOCKS, [n]).rows.equals(segment(in_parts, [n]).rows) for n in BLOCKS)
    nothing = dict(encoded(ROWS.slice(0, 0), HASHES[:0], 2))
    assert sorted(nothing) == [0, 1, 2, 3]
    assert len(decoded(list(nothing.values()), np.arange(4), 2, ROWS.schema).hashes) == 0


def test_two_keys_of_one_hash_are_refused() -> None:
    twice = HASHES.copy()
    twice[1] = twice[0]
    with pytest.raises(ValueError, match="two keys have one hash"):
        list(encoded(ROWS, twice, BITS))
    with pytest.raises(ValueError, match="two keys have one hash"):
        of_rows(ROWS, twice, np.arange(1 << BITS))


def test_what_is_not_the_block_that_was_asked_for_is_refused() -> None:
    with pytest.raises(ValueError, match="not of this version"):
        decoded([BLOCKS[4]], np.array([5]), BITS, ROWS.schema)
    with pytest.raises(ValueError, match="not of this version"):
        decoded([BLOCKS[4], BLOCKS[4]], np.array([4, 5]), BITS, ROWS.schema)
    for foreign in (b"something else", b"", BLOCKS[4][:-8], BLOCKS[4][:9]):
        with pytest.raises(ValueError, match=r"what is no block|not of this version"):
            decoded([foreign, BLOCKS[5]], np.array([4, 5]), BITS, ROWS.schema)


@pytest.mark.parametrize("limit", [0, 20_000, 10_000_000])
def test_each_key_finds_its_row_whatever_the_cache_has_room_for(limit: int) -> None:
    cache, chance = Cache(BITS, ROWS.schema, limit), np.random.default_rng(7)
    names = dict(zip(KEYS.tolist(), ROWS.column("name").to_pylist(), strict=True))
    fetched = 0
    for _ in range(60):
        asked = [None if key % 7 == 0 else int(key) for key in chance.integers(0, 2 * COUNT, 50)]
        hashes, known = key_hashes([pa.array(asked, pa.int64())])
        missing = cache.missing(hashes[known])
        fetched += len(missing)
        if len(missing):
            half = len(missing) // 2
            cache.add(segment(BLOCKS, missing[half:].tolist()))
            in_delta = np.isin(numbers_of(HASHES, BITS), missing[:half])
            cache.add(of_rows(ROWS.filter(pa.array(in_delta)), HASHES[in_delta], missing[:half]))
        found = cache.find(hashes, known).to_pylist()
        assert found == [{"id": key, "name": names[key]} if key in names else None for key in asked]
        cache.trim()
        assert sum(one.nbytes for one in cache.segments.values()) <= limit
        assert len(cache.segments) <= blocks.SEGMENTS + blocks.MERGED * blocks.LARGEST
    assert fetched == 1 << BITS if limit > 1_000_000 else fetched > 1 << BITS
