"""Where the clauses of a query lie: SELECT blocks, their FROM, WHERE, GROUP BY, WINDOW and HAVING.

All places are indexes into the words of one text. Reads just so much of SQL's grammar as is needed to know
where something is to be put in; what lies between is left to Spark's parser. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from expectations.words import Word, closing

Stretch = tuple[int, int]  # first word, and one past the last

CLAUSES = ("FROM", "WHERE", "GROUP BY", "WINDOW", "HAVING")
SET_OPERATORS = ("UNION", "EXCEPT", "INTERSECT", "MINUS")
TAIL = ("ORDER BY", "SORT BY", "LIMIT", "EMIT", "WITH")


@dataclass(frozen=True, slots=True)
class Select:
    """One `SELECT …` up to the next set operator. An absent clause is None; a clause starts behind its keyword."""

    start: int  # the word SELECT
    stop: int
    distinct: bool
    items: Stretch
    source: Stretch | None = None
    where: Stretch | None = None
    group: Stretch | None = None
    window: Stretch | None = None
    having: Stretch | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """`[WITH name AS (…), …] part UNION ALL part … [ORDER BY …] [EMIT …] [WITH (…)]`."""

    start: int
    stop: int
    named: tuple[tuple[str, Query], ...]
    parts: tuple[Select | Query, ...]
    dropped: tuple[Stretch, ...]  # EMIT … and WITH (…): not for Spark
    union_all: bool  # whether all set operators are UNION ALL


def read_query(words: Sequence[Word], start: int, stop: int) -> Query:
    """The query in `words[start:stop]`. Raises ValueError where the text isn't one."""
    depth = words[start].depth
    at = start
    named: list[tuple[str, Query]] = []
    if words[at].says == "WITH":
        at, named = _read_named(words, at + 1)
    parts: list[Select | Query] = []
    plain = True
    while True:
        part, at = _read_part(words, at, stop)
        parts.append(part)
        if at >= stop or words[at].says not in SET_OPERATORS:
            break
        plain = plain and words[at].says == "UNION" and words[at + 1].says == "ALL"
        at += 2 if words[at + 1].says in ("ALL", "DISTINCT") else 1
    return Query(start, stop, tuple(named), tuple(parts), tuple(_dropped(words, at, stop, depth)), plain)


def _read_named(words: Sequence[Word], at: int) -> tuple[int, list[tuple[str, Query]]]:
    named = []
    while True:
        name = words[at].name
        at += 1
        if words[at].says == "(":
            at = closing(words, at) + 1
        if words[at].says == "AS":
            at += 1
        end = closing(words, at)
        named.append((name, read_query(words, at + 1, end)))
        at = end + 1
        if words[at].says != ",":
            return at, named
        at += 1


def _read_part(words: Sequence[Word], at: int, stop: int) -> tuple[Select | Query, int]:
    if words[at].says == "(":
        end = closing(words, at)
        return read_query(words, at + 1, end), end + 1
    if words[at].says != "SELECT":
        raise ValueError(f"expected SELECT at character {words[at].start}")
    marks = [(at, "SELECT")]
    depth, index = words[at].depth, at + 1
    while index < stop:
        word = words[index]
        if word.depth == depth and _begins_clause(words, index):
            if word.says not in CLAUSES:
                break
            marks.append((index, word.says))
        index += 1
    return _select(words, marks, index), index


def _begins_clause(words: Sequence[Word], index: int) -> bool:
    says, before = words[index].says, words[index - 1].says
    if before == ".":
        return False
    match says:
        case "FROM":
            return before != "DISTINCT"  # IS [NOT] DISTINCT FROM
        case "EXCEPT":
            return before != "*"  # SELECT * EXCEPT (…)
        case "WITH":
            return index + 1 < len(words) and words[index + 1].says == "("
        case _:
            return says in CLAUSES or says in SET_OPERATORS or says in TAIL


def _select(words: Sequence[Word], marks: list[tuple[int, str]], stop: int) -> Select:
    ends = [index for index, _ in marks[1:]] + [stop]
    found = {says: (index + 1, end) for (index, says), end in zip(marks, ends, strict=True)}
    first, end = found["SELECT"]
    distinct = words[first].says == "DISTINCT"
    first += words[first].says in ("DISTINCT", "ALL")
    return Select(
        start=marks[0][0],
        stop=stop,
        distinct=distinct,
        items=(first, end),
        source=found.get("FROM"),
        where=found.get("WHERE"),
        group=found.get("GROUP BY"),
        window=found.get("WINDOW"),
        having=found.get("HAVING"),
    )


def _dropped(words: Sequence[Word], at: int, stop: int, depth: int) -> Iterator[Stretch]:
    index = at
    while index < stop:
        if words[index].depth == depth and words[index].says == "EMIT":
            yield (index, index + 2)
            index += 2
        elif words[index].depth == depth and words[index].says == "WITH" and words[index + 1].says == "(":
            end = closing(words, index + 1) + 1
            yield (index, end)
            index = end
        else:
            index += 1


def nested(words: Sequence[Word], stretch: Stretch) -> Iterator[Query]:
    """The outermost sub-queries in parentheses within a stretch, left to right."""
    index, stop = stretch
    while index < stop:
        if words[index].says == "(" and index + 1 < stop and words[index + 1].says in ("SELECT", "WITH"):
            end = closing(words, index)
            yield read_query(words, index + 1, end)
            index = end
        index += 1
