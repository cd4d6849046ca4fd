"""What differs between a case's rows and a result's, as aligned text.

`-` is a row that was expected and is not there, `+` one that is there and was not expected. A `-` and a `+`
that are nearly the same stand one above the other, and carets mark the columns in which they differ. In a
changelog the rows that agree stand between them, for the order is part of the answer. Pure.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

from headrace.cases.case import Value
from headrace.cases.compare import Actual, Matching, Wanted, same
from headrace.cases.instants import micros_of
from headrace.errors import nearest

_Line = tuple[str, list[str]]  # a sign and its cells


def difference(
    name: str, wanted: Sequence[Wanted], actual: Sequence[Actual], matching: Matching, *, in_order: bool
) -> str:
    """The text; `matching` is of `wanted` (the case's) and `actual` (the result's)."""
    columns = list(dict.fromkeys(column for row in wanted for column in row)) or list(
        actual[0] if actual else ()
    )
    seconds = {c for c in columns if any(isinstance(row.get(c), (int, float)) for row in wanted)}
    shown_wanted = [[_cell(row[c], c in seconds) if c in row else "" for c in columns] for row in wanted]
    shown_actual = [[_cell(row[c], c in seconds) if c in row else "" for c in columns] for row in actual]
    lines: list[_Line] = [(" ", columns)]
    if in_order:
        lines += _ordered(matching, shown_wanted, shown_actual)
    else:
        lines += _paired(columns, wanted, actual, matching, (shown_wanted, shown_actual))
    head = (
        f"{name}: {len(matching.pairs)} of {len(wanted)} expected rows are there, {len(actual)} rows in all"
    )
    notes = [note for note in (_absent(name, column, actual) for column in columns) if note]
    return "\n".join([head, *notes, *_aligned(lines)])


def _ordered(matching: Matching, wanted: list[list[str]], actual: list[list[str]]) -> list[_Line]:
    lines: list[_Line] = []
    i = j = 0
    for left, right in (*matching.pairs, (len(wanted), len(actual))):
        lines += [("-", cells) for cells in wanted[i:left]]
        lines += [("+", cells) for cells in actual[j:right]]
        lines += [(" ", cells) for cells in actual[right : right + 1]]
        i, j = left + 1, right + 1
    return lines


def _paired(
    columns: list[str],
    wanted: Sequence[Wanted],
    actual: Sequence[Actual],
    matching: Matching,
    shown: tuple[list[list[str]], list[list[str]]],
) -> list[_Line]:
    near = _near(wanted, actual, matching)
    lines: list[_Line] = []
    for i in matching.missing:
        lines.append(("-", shown[0][i]))
        if i in near:
            j = near[i]
            differ = [
                c in wanted[i] and not (c in actual[j] and same(wanted[i][c], actual[j][c])) for c in columns
            ]
            widths = [max(len(a), len(b)) for a, b in zip(shown[0][i], shown[1][j], strict=True)]
            lines.append(("+", shown[1][j]))
            lines.append(
                (" ", ["^" * width if mark else "" for mark, width in zip(differ, widths, strict=True)])
            )
    partnered = set(near.values())
    return lines + [("+", shown[1][j]) for j in matching.extra if j not in partnered]


def _near(wanted: Sequence[Wanted], actual: Sequence[Actual], matching: Matching) -> dict[int, int]:
    """Missing -> extra row that shares most of its columns' values (at least half), or the only one there is."""
    if len(matching.missing) == len(matching.extra) == 1:
        return {matching.missing[0]: matching.extra[0]}
    shares = []
    for i in matching.missing:
        for j in matching.extra:
            equal = sum(c in actual[j] and same(value, actual[j][c]) for c, value in wanted[i].items())
            if 2 * equal >= len(wanted[i]) and equal:
                shares.append((-equal, i, j))
    near: dict[int, int] = {}
    for _, i, j in sorted(shares):
        if i not in near and j not in near.values():
            near[i] = j
    return near


def _absent(name: str, column: str, actual: Sequence[Actual]) -> str:
    if not actual or column in actual[0]:
        return ""
    near = nearest(column, actual[0])
    return f"  {name} has no column {column!r}" + (f"; did you mean {near!r}?" if near else "")


def _aligned(lines: list[_Line]) -> list[str]:
    widths = [max(len(cells[k]) for _, cells in lines) for k in range(len(lines[0][1]))]
    return [
        f"  {sign} "
        + "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for sign, cells in lines
    ]


def _cell(value: Value | object, seconds: bool) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float() if math.isnan(value):
            return "NaN"
        case datetime():
            return _seconds(value) if seconds else _iso(value)
        case int() | float() | Decimal() | date():
            return str(value)
        case list():
            return "[" + ", ".join(_cell(item, seconds) for item in value) + "]"
        case dict():
            return "{" + ", ".join(f"{key}: {_cell(item, seconds)}" for key, item in value.items()) + "}"
        case str() if value and value == value.strip() and value.isprintable():
            return value
        case str():
            return json.dumps(value)
        case _:
            return str(value)


def _seconds(moment: datetime) -> str:
    micros = micros_of(moment) or 0
    return str(micros // 1_000_000) if micros % 1_000_000 == 0 else str(Decimal(micros) / 1_000_000)


def _iso(moment: datetime) -> str:
    text = moment.astimezone(UTC).isoformat() if moment.tzinfo else moment.isoformat()
    return text.replace("+00:00", "Z")
