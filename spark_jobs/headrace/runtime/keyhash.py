"""A key of a reference table as one number of 64 bits, in bulk. Pure; runs in the driver and in Python workers.

Values that are equal to Spark have the same number: -0.0 and 0.0, all NaNs. The reverse is checked where a version is
loaded (no two of its keys may have one number), so that a number stands for at most one row; whether
that row's key is the wanted one is Spark's to say.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]

# splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014)
STEP = 0x9E3779B97F4A7C15
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
WORD = 8  # bytes


def key_hashes(columns: Sequence[pa.Array]) -> tuple[Words, Flags]:
    """The number of each row's key, and whether the key is known: none of its columns is NULL.

    The numbers of one column of integers, of dates or of times differ where its values do: mixing is one to one.
    """
    size = len(columns[0])
    total, known = np.zeros(size, np.uint64), np.ones(size, np.bool_)
    for number, column in enumerate(columns, start=1):
        total = _mixed((total ^ _words(column)) + np.uint64(number * STEP % 2**64))
        if column.null_count:
            known &= np.asarray(column.is_valid())
    return total, known


def can_hash(kind: pa.DataType) -> bool:
    """Whether a key may have a column of that type."""
    of = pa.types
    scalar = of.is_integer(kind) or of.is_floating(kind) or of.is_boolean(kind) or of.is_decimal128(kind)
    return bool(scalar or of.is_date32(kind) or of.is_timestamp(kind) or _is_text(kind))


def _words(column: pa.Array) -> Words:
    """64 bits for each value, whatever for NULL; the same for equal values."""
    kind = column.type
    if _is_text(kind):
        return _text_words(column)
    if pa.types.is_decimal128(kind):
        return _decimal_words(column)
    if pa.types.is_floating(kind):
        values = np.asarray(column.cast(pa.float64()).fill_null(0.0)) + 0.0  # -0.0 becomes 0.0
        return np.where(np.isnan(values), np.nan, values).view(np.uint64)
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    whole: Words = np.asarray(column.cast(pa.int64()).fill_null(0)).view(np.uint64)
    return whole


def _text_words(column: pa.Array) -> Words:
    """The bytes of each value, eight at a time, mixed in one after the other; its length first."""
    column = column.cast(pa.large_binary())
    _, places, content = column.buffers()
    ends = np.frombuffer(places, np.int64)[column.offset : column.offset + len(column) + 1]
    whole = (content.to_pybytes() if content is not None else b"") + bytes(WORD)
    at_each_byte = np.ndarray((len(whole) - WORD + 1,), "<u8", buffer=whole, strides=(1,))
    starts, lengths = ends[:-1], np.diff(ends)
    total = lengths.astype(np.uint64)
    for done in range(0, int(lengths.max(initial=0)), WORD):
        rows = np.flatnonzero(lengths > done)
        unused = np.uint64(WORD) * np.maximum(WORD - (lengths[rows] - done), 0).astype(np.uint64)  # in bits
        word = (at_each_byte[starts[rows] + done] << unused) >> unused
        total[rows] = _mixed((total[rows] ^ word) + np.uint64(STEP))
    return total


def _decimal_words(column: pa.Array) -> Words:
    """Both halves of each value's 128 bits, taken together."""
    whole = np.frombuffer(column.buffers()[1], np.uint64).reshape(-1, 2)
    halves = whole[column.offset : column.offset + len(column)]
    return _mixed(halves[:, 0]) ^ halves[:, 1]


def _mixed(words: Words) -> Words:
    """Each word with its bits spread over all 64, one to one."""
    words = (words ^ (words >> np.uint64(30))) * FIRST
    words = (words ^ (words >> np.uint64(27))) * SECOND
    return words ^ (words >> np.uint64(31))


def _is_text(kind: pa.DataType) -> bool:
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    return bool(large or pa.types.is_string(kind) or pa.types.is_binary(kind))
