"""Spark's analyser asked early: an expression that does not fit is refused with its place in the SQL.

Also the values that stand in a tick's row, for each type.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from headrace.errors import Place, Refused


def analysed(
    step: Callable[[DataFrame], DataFrame], frame: DataFrame, place: Place | None, what: str
) -> DataFrame:
    """`step(frame)`; what Spark's analyser has against it becomes a Refused at `place`."""
    try:
        result = step(frame)
        result.schema  # noqa: B018  (analysis happens here where it is lazy)
    except AnalysisException as error:
        raise Refused(f"{what}: {_words(error)}", place=place) from error
    return result


def _words(error: AnalysisException) -> str:
    """The analyser's message without its position in a text that the user never saw."""
    first = str(error).split(";\n")[0].split("\n== SQL")[0].strip()
    first = re.sub(r"^\[([A-Z_.0-9]+)\]\s*", "", first)
    return re.sub(r"\s*SQLSTATE: \w+", "", first).replace("\n", " ")


def tick_value(kind: T.DataType, tick: str) -> str:
    """SQL text of some value of a type, made from the TIMESTAMP column `tick`; never an error.

    It must depend on `tick`: a condition over a constant would be folded and pushed below the tick's
    watermark operator, which then sees no tick (docs/findings.md).
    """
    number = f"(unix_micros({tick}) % 2)"
    match kind:
        case T.ArrayType():
            return f"array({tick_value(kind.elementType, tick)})"
        case T.MapType():
            return f"map({tick_value(kind.keyType, tick)}, {tick_value(kind.valueType, tick)})"
        case T.StructType():
            parts = ", ".join(f"'{f.name}', {tick_value(f.dataType, tick)}" for f in kind.fields)
            return f"named_struct({parts})"
        case T.StringType() | T.BinaryType():
            return f"CAST(CAST({number} AS STRING) AS {kind.simpleString()})"
        case T.BooleanType():
            return f"({number} = 0)"
        case T.DateType() | T.TimestampType() | T.TimestampNTZType():
            return f"CAST({tick} AS {kind.simpleString()})"
        case T.NumericType():
            return f"TRY_CAST({number} AS {kind.simpleString()})"
        case _:
            raise Refused(f"columns of type {kind.simpleString()} can't be streamed")
