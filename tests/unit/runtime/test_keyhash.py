"""Hashes of keys: equal for what Spark takes for equal, told apart otherwise, whatever array the value lies in."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.runtime.keyhash import can_hash, key_hashes

NAN = float("nan")
VALUES: dict[pa.DataType, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int8(): [-1, 0, 127],
    pa.int64(): [-(2**63), -1, 0, 1, 2**63 - 1],
    pa.float32(): [-1.5, 0.0, 1.5, NAN, float("inf")],
    pa.float64(): [5e-324, 0.0, 1.5, NAN, float("-inf")],
    pa.decimal128(38, 2): [Decimal("-1.00"), Decimal("0.01"), Decimal("1.00"), Decimal(2**80)],
    pa.date32(): [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)],
    pa.timestamp("us", tz="UTC"): [datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)],
    pa.string(): ["", "a", "\0", "a\0", "12345678", "123456789", "1234567\0", "ä", "x" * 1000],
    pa.binary(): [b"", b"a", b"\xff", b"\0\0"],
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_values_are_told_apart_wherever_they_lie(kind: pa.DataType) -> None:
    values = VALUES[kind]
    assert can_hash(kind)
    alone = [key_hashes([pa.array([value], kind)])[0][0] for value in values]
    assert len(set(alone)) == len(values)
    among = pa.array([None, *values, None, *reversed(values)], kind).slice(1)
    hashes, known = key_hashes([among])
    assert hashes[known].tolist() == alone + alone[::-1]
    assert known.tolist() == [value is not None for value in among.to_pylist()]


def test_zeros_are_one_key_and_so_are_nans() -> None:
    negative = np.array([0xFFF8_0000_0000_0001], np.uint64).view(np.float64)[0]
    (one, other, nan, odd), _ = key_hashes([pa.array([0.0, -0.0, NAN, negative])])
    assert one == other
    assert nan == odd


def test_a_key_of_several_columns_goes_by_their_order_and_is_unknown_with_one() -> None:
    left, right = pa.array(["a", "b", None, "a"]), pa.array(["b", "a", "a", None])
    hashes, known = key_hashes([left, right])
    assert hashes[0] != hashes[1]
    assert known.tolist() == [True, True, False, False]
    (joint,), _ = key_hashes([pa.array(["ab"]), pa.array([""])])
    assert joint not in hashes[:2]


def test_a_million_whole_numbers_have_as_many_hashes() -> None:
    hashes, _ = key_hashes([pa.array(range(1_000_000))])
    assert len(np.unique(hashes)) == 1_000_000


def test_what_spark_does_not_compare_by_bytes_is_no_key() -> None:
    assert not any(can_hash(kind) for kind in (pa.list_(pa.int64()), pa.struct([("a", pa.int64())])))
