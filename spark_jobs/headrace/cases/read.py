"""The text of a case file -> its cases.

What can be told from the file alone is checked here, and refused with line and column: unknown keys and
steps, values of a wrong shape, a watermark that stands where none can be compared.
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Final

from headrace.cases.case import (
    LATER_STEPS,
    METRICS,
    Advance,
    Arrive,
    BadCase,
    Case,
    Expected,
    ExpectedRows,
    Flush,
    KnowPartitions,
    Later,
    Mark,
    Part,
    Rescale,
    Restart,
    Row,
    Rows,
    SetClock,
    Step,
)
from headrace.cases.instants import micros_of
from headrace.cases.yaml_nodes import (
    Spot,
    check_known,
    documents,
    entries,
    is_list,
    is_map,
    items,
    value,
    whole,
    word,
)
from headrace.errors import nearest

_KEYS: Final = ("name", "about", "sql", "given", "then")
_WORDS: Final = ("restart", "flush", "crash", "snapshot", "restore")
_STEPS: Final = ("advance", "clock", "partitions", "rescale", "expect")
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def read_file(path: Path) -> tuple[Case, ...]:
    """The cases of a file, in order. Raises BadCase."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadCase(f"can't read {path}: {error}") from error
    try:
        return read_cases(text, str(path))
    except BadCase as error:
        error.file = str(path)
        raise


def read_cases(text: str, file: str = "") -> tuple[Case, ...]:
    """The cases of a YAML text, in order. Raises BadCase, also where there is none or a name stands twice."""
    cases: dict[str, Case] = {}
    for document in documents(text):
        case = _case(document, file)
        if case.name in cases:
            document.bad(f"two cases of this file are named {case.name!r}")
        cases[case.name] = case
    if not cases:
        raise BadCase("no case in this file", hint="a case has the keys name, sql, given and then")
    return tuple(cases.values())


def _case(document: Spot, file: str) -> Case:
    keys = entries(document, "a case")
    check_known(keys, _KEYS, "a case")
    for needed in ("name", "sql", "given", "then"):
        if needed not in keys:
            document.bad(f"a case without {needed!r}")
    steps = tuple(_step(item) for item in items(keys["given"][1], "given"))
    then = _expected(keys["then"][1], "then")
    if then.watermark and Flush() in steps:
        keys["then"][1].bad(
            "a watermark is compared before flush only", "put it into an expect step before the flush"
        )
    return Case(
        file=file,
        name=word(keys["name"][1], "name"),
        about=word(keys["about"][1], "about") if "about" in keys else "",
        sql=word(keys["sql"][1], "sql"),
        steps=steps,
        then=then,
        place=keys["name"][1].place,
        text=document.text,
    )


def _step(spot: Spot) -> Step:
    if not is_map(spot):
        return _word_step(spot)
    keys = entries(spot, "a step")
    special = [name for name in keys if name in _STEPS]
    if special and len(keys) > 1:
        spot.bad(f"{special[0]!r} is a step of its own")
    if not keys:
        spot.bad("an empty step")
    if not special:
        return Arrive(tuple(_rows(name, key, inner) for name, (key, inner) in keys.items()))
    _, inner = keys[special[0]]
    match special[0]:
        case "advance":
            return Advance(_span_ms(inner))
        case "clock":
            return SetClock(_instant_ms(inner, "clock"))
        case "partitions":
            return _partitions(inner)
        case "rescale":
            return Rescale(whole(inner, "rescale", 1))
        case _:
            return _expected(inner, "expect")


def _word_step(spot: Spot) -> Step:
    step = word(spot, "a step")
    if step in _WORDS and step in LATER_STEPS:
        return Later(step, spot.place)
    if step in _WORDS:
        return Flush() if step == "flush" else Restart()
    near = nearest(step, _WORDS)
    hint = (
        f"did you mean {near!r}?"
        if near
        else f"words: {', '.join(_WORDS)}; maps: a stream's name, {', '.join(_STEPS)}"
    )
    spot.bad(f"unknown step {step!r}", hint)


def _rows(name: str, key: Spot, spot: Spot) -> Rows:
    if is_map(spot):
        parts = [_part(spot)]
    elif any(is_map(item) for item in items(spot, f"the rows of {name}")):
        parts = [_part(item) for item in items(spot, name)]
    else:
        parts = [Part(0, tuple(_row(item) for item in items(spot, name)), spot.place)]
    return Rows(name, tuple(parts), key.place)


def _part(spot: Spot) -> Part:
    keys = entries(spot, "the rows of a source partition")
    check_known(keys, ("partition", "rows"), "the rows of a source partition")
    if "rows" not in keys:
        spot.bad("a source partition without 'rows'")
    number = whole(keys["partition"][1], "partition") if "partition" in keys else 0
    return Part(number, tuple(_row(item) for item in items(keys["rows"][1], "rows")), spot.place)


def _row(spot: Spot) -> Row:
    if not is_list(spot):
        spot.bad("a row must be a list of values, in the order of the columns")
    return Row(tuple(value(item) for item in items(spot, "a row")), spot.place)


def _partitions(spot: Spot) -> KnowPartitions:
    keys = entries(spot, "partitions")
    if len(keys) != 1:
        spot.bad("partitions names one stream and how many source partitions it has")
    ((stream, (key, count)),) = keys.items()
    return KnowPartitions(stream, whole(count, "the number of source partitions", 1), key.place)


def _expected(spot: Spot, what: str) -> Expected:
    keys = entries(spot, what)
    if not keys:
        spot.bad(f"{what} expects nothing")
    if "error" in keys and (what == "expect" or len(keys) > 1):
        keys["error"][0].bad("'error' stands alone, in then")
    results = [
        _expected_rows(name, *found)
        for name, found in keys.items()
        if name not in ("metrics", "watermark", "error")
    ]
    return Expected(
        results=tuple(results),
        metrics=_metrics(keys["metrics"][1]) if "metrics" in keys else (),
        watermark=_mark(keys["watermark"][1]) if "watermark" in keys else None,
        error=word(keys["error"][1], "error") if "error" in keys else "",
    )


def _expected_rows(name: str, key: Spot, spot: Spot) -> ExpectedRows:
    rows = []
    for item in items(spot, f"the rows of {name}"):
        if not is_map(item):
            item.bad("an expected row must be a map of columns and values")
        rows.append({column: value(inner) for column, (_, inner) in entries(item, "a row").items()})
    return ExpectedRows(name, tuple(rows), key.place)


def _metrics(spot: Spot) -> tuple[tuple[str, int], ...]:
    keys = entries(spot, "metrics")
    check_known(keys, METRICS, "metrics")
    return tuple((name, whole(count, name)) for name, (_, count) in keys.items())


def _mark(spot: Spot) -> Mark:
    return Mark(None) if value(spot) is None else Mark(_instant_ms(spot, "watermark"))


def _instant_ms(spot: Spot, what: str) -> int:
    micros = micros_of(value(spot))
    if micros is None:
        spot.bad(f"{what} must be seconds since 1970 or an ISO 8601 time")
    return micros // 1_000


def _span_ms(spot: Spot) -> int:
    found = _SPAN.fullmatch(word(spot, "advance"))
    if not found:
        spot.bad("advance must be a span of time such as 500ms, 10s, 5m, 1h or 1d")
    return int(Decimal(found[1]) * _MS[found[2]])
