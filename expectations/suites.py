"""The checks of a result, as one literal table: what each asks, and the query that finds what speaks against it.

A check is a `SELECT … FROM {batch} …` that must give no row; `{batch}` is the result table. The last check
looks at the row-by-row comparison, which lies beside it as the view `{comparison}`. Text only: `great.py`
hands it to Great Expectations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

SIGNED = "SUM(CASE WHEN `_op` IN ('+I', '+U') THEN 1 ELSE -1 END)"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the checks must know of a result. Column names as in its table; `region` is a SQL condition."""

    result: str
    keys: tuple[str, ...] = ()
    keyed: bool = True  # whether rows have identity; without keys then: one row
    window: tuple[str, str] | None = None  # columns of start and end
    not_null: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    region: str = "true"  # which rows are held against the baseline
    expected_rows: int = 0
    comparison: str = ""  # the view of the row-by-row comparison
    columns: tuple[str, ...] = ()  # those that are shown
    net: bool = False  # a changelog: -U and -D take away


@dataclass(frozen=True, slots=True)
class CheckText:
    """A check of one result, ready to run."""

    name: str
    query: str


@dataclass(frozen=True, slots=True)
class Suite:
    """The checks of one result and its table."""

    result: str
    checks: tuple[CheckText, ...]
    frame: DataFrame


def checks_of(facts: Facts) -> tuple[CheckText, ...]:
    """The checks that apply to a result, in the order of the table."""
    found = ((name, query(facts)) for name, query in CHECKS)
    return tuple(CheckText(name, text) for name, text in found if text)


def _keys_unique(facts: Facts) -> str:
    if not facts.keyed or facts.net:
        return ""
    if not facts.keys:
        return "SELECT COUNT(*) AS rows FROM {batch} HAVING COUNT(*) > 1"
    keys = ", ".join(_quoted(key) for key in facts.keys)
    return f"SELECT {keys}, COUNT(*) AS times FROM {{batch}} GROUP BY {keys} HAVING COUNT(*) > 1"


def _not_null(facts: Facts) -> str:
    names = dict.fromkeys((*(facts.window or ()), *facts.not_null))
    return _any_of([f"{_quoted(name)} IS NULL" for name in names])


def _counts(facts: Facts) -> str:
    return _any_of([f"{_quoted(name)} < 0" for name in facts.counts])


def _windows(facts: Facts) -> str:
    if facts.window is None:
        return ""
    start, end = (_quoted(name) for name in facts.window)
    return f"SELECT * FROM {{batch}} WHERE NOT {start} < {end}"


def _taken_back(facts: Facts) -> str:
    """In a changelog: rows that were taken back more often than given."""
    if not facts.net:
        return ""
    names = ", ".join(_quoted(name) for name in facts.columns)
    return f"SELECT {names}, {SIGNED} AS times FROM {{batch}} GROUP BY {names} HAVING {SIGNED} < 0"


def _row_count(facts: Facts) -> str:
    count = f"COALESCE({SIGNED}, 0)" if facts.net else "COUNT(*)"
    return (
        f"SELECT {facts.expected_rows} AS expected, {count} AS found FROM {{batch}} WHERE {facts.region} "
        f"HAVING {count} <> {facts.expected_rows}"
    )


def _rows(facts: Facts) -> str:
    return (
        f"SELECT kind, times, key, differing FROM {facts.comparison} /* of {{batch}} */ WHERE kind <> 'equal' "
        "ORDER BY kind, CAST(map_entries(key) AS STRING)"
    )


CHECKS: tuple[tuple[str, Callable[[Facts], str]], ...] = (
    ("each key has one row", _keys_unique),
    ("window bounds and NOT NULL columns are never NULL", _not_null),
    ("counts are not negative", _counts),
    ("each window starts before it ends", _windows),
    ("no row is taken back that was not given", _taken_back),
    ("there are as many rows as in the baseline", _row_count),
    ("each row equals the baseline's", _rows),
)


def _any_of(conditions: list[str]) -> str:
    return f"SELECT * FROM {{batch}} WHERE {' OR '.join(conditions)}" if conditions else ""


def _quoted(name: str) -> str:
    return f"`{name}`"
