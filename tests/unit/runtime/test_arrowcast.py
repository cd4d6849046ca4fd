"""Arrow columns as declared types: every value kept, or an error."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.runtime.arrowcast import fitted

US = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        (pa.array([1, None], pa.int16()), pa.int64(), [1, None]),
        (pa.array([7]), pa.decimal128(3, 2), [Decimal("7.00")]),
        (pa.chunked_array([[7], [8]]), pa.decimal128(3, 2), [Decimal("7.00"), Decimal("8.00")]),
        (pa.array([Decimal("1.5")]), pa.decimal128(10, 3), [Decimal("1.500")]),
        (pa.array(["a"], pa.large_string()), pa.string(), ["a"]),
        (pa.array(["a", "a"]).dictionary_encode(), pa.string(), ["a", "a"]),
        (pa.array([1], pa.int32()), pa.float64(), [1.0]),
    ],
)
def test_values_that_fit_are_kept(values: pa.Array, kind: pa.DataType, expected: list[Any]) -> None:
    assert fitted(values, kind).to_pylist() == expected


def test_a_time_is_cut_to_microseconds_and_a_local_one_is_utc() -> None:
    assert fitted(pa.array([1_999], pa.timestamp("ns")), US).cast(pa.int64()).to_pylist() == [1]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([2**31]), pa.int32()),
        (pa.array([1.5]), pa.int64()),
        (pa.array(["x"]), pa.int64()),
        (pa.array([10]), pa.decimal128(3, 2)),
        (pa.array([Decimal("1.25")]), pa.decimal128(10, 1)),
        (pa.array([[1]]), pa.int64()),
    ],
)
def test_a_value_that_does_not_fit_is_an_error(values: pa.Array, kind: pa.DataType) -> None:
    with pytest.raises(ValueError, match=r"."):
        fitted(values, kind)
