"""An aggregate call in two steps: values of parts of the rows, and the whole's value out of those.

A lowered call is an expression over native aggregates. Where each of them merges by an aggregate over its own
values, so does the call: `sum(a) / count(b)` is `p0 / p1`, with p0 and p1 merged by sum. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from headrace.sql.aggregates import aggregate_spans, lower_call
from headrace.sql.nodes import Call

# function: what merges its values, and its value of one row whose argument is {}
_MERGED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "sum": ("sum", "{}"),
        "count": ("sum", "CASE WHEN {} IS NOT NULL THEN 1L ELSE 0L END"),
        "count_if": ("sum", "CASE WHEN {} THEN 1L ELSE 0L END"),
        "min": ("min", "{}"),
        "max": ("max", "{}"),
        "bool_and": ("bool_and", "{}"),
        "every": ("bool_and", "{}"),
        "bool_or": ("bool_or", "{}"),
        "any": ("bool_or", "{}"),
    }
)
_FILTER = re.compile(r"\)\s*(FILTER|WITHIN)\b", re.IGNORECASE)
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double")


@dataclass(frozen=True, slots=True)
class Partial:
    """A column of partial values: an aggregate's text, the value of one row, and the function that merges values."""

    name: str
    text: str
    row: str
    merge: str


@dataclass(frozen=True, slots=True)
class Split:
    """A call's partial values, and its own value as text over their names."""

    partials: tuple[Partial, ...]
    whole: str


def split(call: Call, types: Sequence[str], name: str) -> Split | None:
    """The call in two steps, its partial values called `name`0, `name`1, …; None where that can't be."""
    text = _text(call, types)
    found: dict[str, Partial] = {}
    whole, at = "", 0
    for start, end in aggregate_spans(text):
        piece = text[start:end]
        opening = piece.index("(")
        merge, row = _MERGED.get(piece[:opening].strip().lower(), ("", ""))
        if not merge or not piece.endswith(")") or _FILTER.search(piece):
            return None
        value = row.format(f"({piece[opening + 1 : -1]})")
        partial = found.setdefault(piece, Partial(f"{name}{len(found)}", piece, value, merge))
        whole += text[at:start] + partial.name
        at = end
    return Split(tuple(found.values()), whole + text[at:])


def _text(call: Call, types: Sequence[str]) -> str:
    """The lowered call; an average of numbers as what it is made of."""
    if call.function in ("avg", "mean") and not call.distinct and types and types[0].lower() in _NUMBERS:
        value = f"CASE WHEN {call.where} THEN {call.arguments[0]} END" if call.where else call.arguments[0]
        return f"(sum(CAST({value} AS DOUBLE)) / nullif(count({value}), 0L))"
    return lower_call(call, types)
