"""Spark's analyser asked early: an expression that does not fit is refused with its place in the SQL."""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

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
