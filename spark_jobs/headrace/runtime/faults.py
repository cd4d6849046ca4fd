"""From what Spark reports to what the user can act on: an error of the data is a refusal, the rest a fault.

A new start repeats a refusal until the SQL or the data changes; a fault (exit code 1) is worth a retry.
"""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headrace.errors import HeadraceError, NotOwner, Refused
from headrace.sql.aggregates import OVERFLOW
from headrace.sql.nodes import Result

# Conditions of Spark that the expressions of a query raise on its data.
OF_THE_DATA = (
    "ARITHMETIC_OVERFLOW",
    "BINARY_ARITHMETIC_OVERFLOW",
    "CAST_INVALID_INPUT",
    "CAST_OVERFLOW",
    "CANNOT_PARSE_TIMESTAMP",
    "DATETIME_OVERFLOW",
    "DIVIDE_BY_ZERO",
    "INTERVAL_DIVIDED_BY_ZERO",
    "INVALID_ARRAY_INDEX",
    "NUMERIC_VALUE_OUT_OF_RANGE",
    "REMAINDER_BY_ZERO",
    "SCALAR_SUBQUERY_TOO_MANY_ROWS",
    "USER_RAISED_EXCEPTION",
)
HINTS = {"DIVIDE_BY_ZERO": "TRY_DIVIDE gives NULL instead", "REMAINDER_BY_ZERO": "TRY_MOD gives NULL instead"}


def fault_of(
    error: PySparkException | Py4JJavaError, result: Result, batch: int | None, input_range: str
) -> HeadraceError:
    """The error of a query: Refused where an expression failed on the data, else a fault."""
    text = str(error)
    where = f" in batch {batch}" if batch is not None else ""
    reading = f" (input: {input_range})" if input_range else ""
    for condition in OF_THE_DATA:
        found = re.search(rf"\[{condition}[A-Z_.]*\] ([^\n]*)", text)
        if found:
            message = re.sub(r"\s*SQLSTATE: \w+", "", found.group(1))
            kind = f"{condition.replace('_', ' ').lower()}{where}: "
            hint = HINTS.get(condition, "TRY_CAST or TRY_DIVIDE gives NULL instead of an error")
            if message.startswith(OVERFLOW):  # our own
                kind, hint = f"{where.strip()}: " if where else "", "TRY_SUM gives NULL instead of an error"
            return Refused(
                f"{result.name}: {kind}{message}{_fragment(text)}{reading}",
                hint=hint,
                place=result.place,
            )
    if "CONCURRENT_STREAM_LOG_UPDATE" in text:
        return NotOwner(
            f"{result.name}: another run has taken its batch{where}",
            hint="one run at a time holds a pipeline's state in a lake: stop the other one first",
        )
    return HeadraceError(f"{result.name}: the query failed{where}: {_cause(text)}{reading}")


def _cause(text: str) -> str:
    """The last error that a Python traceback in the text names, else the text's first line."""
    named = re.findall(r"^([\w.]*(?:Error|Exception|Exit)): (.*)$", text, flags=re.MULTILINE)
    if "Traceback" in text and named:
        kind, message = named[-1]
        return f"{kind.rpartition('.')[2]}: {message}"
    return next((line for line in text.splitlines() if line.strip()), "no reason given")


def _fragment(text: str) -> str:
    """The expression that Spark names as the cause, where it names one."""
    found = re.search(r"== SQL[^\n]*==\n([^\n]+)", text)
    return f" in `{found.group(1).strip()}`" if found else ""
