"""Expected rows and the rows of a result -> which are the same, one to one. Pure.

Expected rows may leave columns out, so two of them may fit one actual row: the pairing is a largest
matching of the two sides, not the first fit. A changelog is compared in order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation

from headrace.cases.case import Value
from headrace.cases.instants import micros_of

TOLERANCE = 1e-9  # relative, of floating numbers

Actual = Mapping[str, object]
Wanted = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Matching:
    """Pairs of positions (expected, actual), and the positions that found no partner."""

    pairs: tuple[tuple[int, int], ...]
    missing: tuple[int, ...]  # expected and not there
    extra: tuple[int, ...]  # there and not expected

    @property
    def complete(self) -> bool:
        return not self.missing and not self.extra


def same(wanted: Value, actual: object) -> bool:
    """Whether a value of a result is what the case wrote; the actual value's type decides how they are compared."""
    match actual:
        case None | bool():
            return wanted is actual
        case int():
            return _is_number(wanted) and wanted == actual
        case float():
            return _close(wanted, actual)
        case Decimal():
            return _decimal(wanted) == actual
        case datetime():
            return micros_of(wanted) == micros_of(actual)
        case date():
            return wanted == actual.isoformat()
        case bytes():
            return isinstance(wanted, str) and wanted.encode() == actual
        case list():
            return isinstance(wanted, list) and len(wanted) == len(actual) and all(map(same, wanted, actual))
        case dict():
            return (
                isinstance(wanted, dict)
                and wanted.keys() == actual.keys()
                and all(same(wanted[k], actual[k]) for k in actual)
            )
        case _:  # text, and types that cases write as text
            return wanted == (actual if isinstance(actual, str) else str(actual))


def fits(wanted: Wanted, actual: Actual) -> bool:
    """Whether each column that the expected row names has its value."""
    return all(column in actual and same(value, actual[column]) for column, value in wanted.items())


def match_any_order(wanted: Sequence[Wanted], actual: Sequence[Actual]) -> Matching:
    """A largest one-to-one matching, by augmenting paths (H. W. Kuhn 1955)."""
    edges = [[j for j, row in enumerate(actual) if fits(expected, row)] for expected in wanted]
    partner: dict[int, int] = {}  # actual -> expected

    def find(i: int, seen: set[int]) -> bool:
        for j in edges[i]:
            if j not in seen:
                seen.add(j)
                if j not in partner or find(partner[j], seen):
                    partner[j] = i
                    return True
        return False

    for i in range(len(wanted)):
        find(i, set())
    return _matching(sorted((i, j) for j, i in partner.items()), len(wanted), len(actual))


def match_in_order(wanted: Sequence[Wanted], actual: Sequence[Actual]) -> Matching:
    """A longest common subsequence; complete where both lists are the same, place by place."""
    n, m = len(wanted), len(actual)
    best = [[0] * (m + 1) for _ in range(n + 1)]
    for i in reversed(range(n)):
        for j in reversed(range(m)):
            longer = max(best[i + 1][j], best[i][j + 1])
            best[i][j] = max(longer, 1 + best[i + 1][j + 1]) if fits(wanted[i], actual[j]) else longer
    pairs, i, j = [], 0, 0
    while i < n and j < m:
        if fits(wanted[i], actual[j]) and best[i][j] == 1 + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return _matching(pairs, n, m)


def _matching(pairs: list[tuple[int, int]], wanted: int, actual: int) -> Matching:
    left, right = {i for i, _ in pairs}, {j for _, j in pairs}
    missing = tuple(i for i in range(wanted) if i not in left)
    return Matching(tuple(pairs), missing, tuple(j for j in range(actual) if j not in right))


def _is_number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _close(wanted: Value, actual: float) -> bool:
    if not isinstance(wanted, (int, float)) or isinstance(wanted, bool):
        return False
    return math.isclose(wanted, actual, rel_tol=TOLERANCE) or (math.isnan(wanted) and math.isnan(actual))


def _decimal(value: Value) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None
