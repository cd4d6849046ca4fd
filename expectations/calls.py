"""Aggregate calls that mean something of Headrace's own, as calls that Spark batch has.

One literal table: a name and how its call is written in plain Spark SQL. Text in, text out; every other
call stays as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from expectations.words import Word, closing, read, split

ORDER = "struct(__time, __partition, __place)"  # event time, then source partition, then offset

Writer = Callable[[list[str], str], str]  # arguments, and `FILTER (WHERE …)` or ''


def _first(arguments: list[str], narrow: str) -> str:
    return _end_by("min_by", arguments, narrow)


def _last(arguments: list[str], narrow: str) -> str:
    return _end_by("max_by", arguments, narrow)


def _end_by(function: str, arguments: list[str], narrow: str) -> str:
    value = arguments[0]
    skipping = re.search(r"(?is)\s+(IGNORE|RESPECT)\s+NULLS\s*$", value)
    if skipping:
        value = value[: skipping.start()]
    ignore = (skipping and skipping[1].upper() == "IGNORE") or arguments[1:] == ["true"]
    order = f"CASE WHEN ({value}) IS NOT NULL THEN {ORDER} END" if ignore else ORDER
    return f"{function}({value}, {order}){narrow}"


def _min_by(arguments: list[str], narrow: str) -> str:
    value, by = arguments
    return f"min_by({value}, CASE WHEN ({by}) IS NOT NULL THEN struct({by}, {value}) END){narrow}"


def _max_by(arguments: list[str], narrow: str) -> str:
    """The largest `by`; among equals the smallest value, NULL first, which no built-in function gives."""
    value, by = arguments
    pairs = f"collect_set(CASE WHEN ({by}) IS NOT NULL THEN struct({by} AS b, {value} AS v) END){narrow}"
    top = f"array_max(transform({pairs}, e -> e.b))"
    return f"get(sort_array(transform(filter({pairs}, e -> e.b <=> {top}), e -> e.v)), 0)"


def _top_k(arguments: list[str], narrow: str) -> str:
    value, count = arguments
    return f"slice(sort_array(collect_list({value}){narrow}, false), 1, {count})"


CALLS: Mapping[str, Writer] = {
    "FIRST_VALUE": _first,
    "FIRST": _first,
    "LAST_VALUE": _last,
    "LAST": _last,
    "MIN_BY": _min_by,
    "MAX_BY": _max_by,
    "TOP_K": _top_k,
}


def plain_calls(text: str) -> str:
    """The text with the calls of the table rewritten, those within arguments too; `… OVER (…)` stays."""
    words = read(text)
    parts: list[str] = []
    at = index = 0
    while index < len(words):
        found = _call(words, index)
        if found is None:
            index += 1
            continue
        close, narrowed, stop = found
        arguments = [text[words[a].start : words[b - 1].end] for a, b in split(words, index + 2, close)]
        narrow = f" {text[words[close + 1].start : words[narrowed - 1].end]}" if narrowed > close + 1 else ""
        written = CALLS[words[index].says]([plain_calls(argument) for argument in arguments], narrow)
        parts += [text[at : words[index].start], written]
        at = words[stop - 1].end
        index = stop
    return "".join([*parts, text[at:]])


def _call(words: tuple[Word, ...], index: int) -> tuple[int, int, int] | None:
    """Of a call of the table: its `)`, one past its FILTER (…), one past all; None where there is none."""
    if words[index].says not in CALLS or index + 1 >= len(words) or words[index + 1].says != "(":
        return None
    close = closing(words, index + 1)
    stop = close + 1
    if stop < len(words) and words[stop].says == "FILTER":
        stop = closing(words, stop + 1) + 1
    if stop < len(words) and words[stop].says == "OVER":
        return None
    return close, stop, stop


def outside_aggregates(words: Sequence[Word], stretch: tuple[int, int]) -> Iterator[int]:
    """The places in `words[stretch]` that are in no call of an aggregate function."""
    index, stop = stretch
    while index < stop:
        yield index
        if words[index].says in AGGREGATES and index + 1 < stop and words[index + 1].says == "(":
            index = closing(words, index + 1)
        index += 1


def has_aggregate(words: Sequence[Word], stretch: tuple[int, int]) -> bool:
    """Whether an aggregate function is called in `words[stretch]`, not as a window function."""
    first, stop = stretch
    for index in range(first, stop - 1):
        if words[index].says not in AGGREGATES or words[index + 1].says != "(":
            continue
        behind = closing(words, index + 1) + 1
        if behind < len(words) and words[behind].says == "FILTER":
            behind = closing(words, behind + 1) + 1
        if behind >= len(words) or words[behind].says != "OVER":
            return True
    return False


AGGREGATES = frozenset(
    {
        "ANY",
        "ANY_VALUE",
        "APPROX_COUNT_DISTINCT",
        "APPROX_PERCENTILE",
        "ARRAY_AGG",
        "AVG",
        "BIT_AND",
        "BIT_OR",
        "BIT_XOR",
        "BOOL_AND",
        "BOOL_OR",
        "COLLECT_LIST",
        "COLLECT_SET",
        "CORR",
        "COUNT",
        "COUNT_IF",
        "COVAR_POP",
        "COVAR_SAMP",
        "EVERY",
        "FIRST",
        "FIRST_VALUE",
        "KURTOSIS",
        "LAST",
        "LAST_VALUE",
        "LISTAGG",
        "MAX",
        "MAX_BY",
        "MEAN",
        "MEDIAN",
        "MIN",
        "MIN_BY",
        "MODE",
        "PERCENTILE",
        "PERCENTILE_APPROX",
        "PERCENTILE_CONT",
        "PERCENTILE_DISC",
        "REGR_AVGX",
        "REGR_AVGY",
        "REGR_COUNT",
        "REGR_INTERCEPT",
        "REGR_R2",
        "REGR_SLOPE",
        "REGR_SXX",
        "REGR_SXY",
        "REGR_SYY",
        "SKEWNESS",
        "SOME",
        "STD",
        "STDDEV",
        "STDDEV_POP",
        "STDDEV_SAMP",
        "STRING_AGG",
        "SUM",
        "TRY_AVG",
        "TRY_SUM",
        "VAR_POP",
        "VAR_SAMP",
        "VARIANCE",
    }
)
