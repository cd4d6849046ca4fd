"""An Arrow column as the declared type, or why it does not fit. Pure; runs in Python workers too."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

WIDEST = 38  # digits of a decimal


def fitted(values: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """The same values as `kind`. Raises ValueError where one would be changed by it.

    Only a time finer than microseconds is cut: Spark has none.
    """
    try:
        if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(kind):
            return pc.cast(values, kind, safe=False)
        if pa.types.is_integer(values.type) and pa.types.is_decimal(kind):
            values = values.cast(pa.decimal128(WIDEST, kind.scale))  # Arrow asks for room for any integer
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise ValueError(str(error)) from error
