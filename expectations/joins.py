"""Joins of two streams as plain Spark SQL: within a time bound, in one window, or as of.

Words in, edits of the text out; `due` of what is given back tells when a row comes out. Raises ValueError for text
that has no plain form.
"""

from __future__ import annotations

from dataclasses import replace

from expectations.clauses import Select, Stretch
from expectations.edits import GROUPED_BOUNDS, hide_in_stars, name_bounds, tie
from expectations.relations import Item, Shape, Text
from expectations.spans import join_bounds, join_tolerance, pairs_sql, read_clause
from expectations.words import split


def join_of_streams(whole: Text, select: Select, items: list[Item], live: list[Item]) -> Shape:
    """Two streams: the text as it is, with the bound of WITH (…) in ON. No hidden column is handed on."""
    if whole.names.several_versions:
        raise ValueError("a join of streams beside a reference table that changed its version")
    if any(item.matched is not None for item in live):
        return _join_as_of(whole, select, items, live)
    if select.window is not None:
        return _join_in_windows(whole, select, items, live)
    left, right, *_ = (f"{item.alias}.__time" for item in live)
    bounds = [
        f"unix_micros({right}) {sign} unix_micros({left}) + {micros}L"
        for sign, micros in join_bounds(whole.text, whole.words)
    ]
    if bounds:
        _and_on(whole, live[1], bounds)
    hide_in_stars(whole, select, items)
    due = ""
    if whole.names.waits is not None:
        misses = zip((right, left), (left, right), whole.names.waits, strict=True)
        cases = [
            f"WHEN {other} IS NULL THEN timestamp_micros(unix_micros({own}) + {span}L)"
            for other, own, span in misses
        ]
        due = f"CASE {' '.join(cases)} END"
    return Shape(streaming=True, due=due)


def _join_as_of(whole: Text, select: Select, items: list[Item], live: list[Item]) -> Shape:
    """The right rows get the time of their key's next one, and a left row meets the one that was valid then.

    With a tolerance time is cut into spans as long as that: a right row stands in its own and the next one, and a left row
    is compared with those of its span alone.
    """
    left, right = live
    on, matched = right.on, right.matched
    if on is None or matched is None:
        raise ValueError("an as-of join without ON")
    keys = ", ".join(_right_keys(whole, on, (left.alias, right.alias)))
    ages = join_tolerance(whole.text, whole.words)
    next_time = f"lead(__time) OVER (PARTITION BY {keys} ORDER BY __time, __partition, __place) AS __until"
    spans = [f"unix_micros({{}}) div {age}L" for age in ages if age > 0]
    own = [span.format("__time") for span in spans]
    views = "".join(f" LATERAL VIEW explode(array({span}, {span} + 1)) __spans AS __span" for span in own)
    whole.put(whole.words[right.place[0]].start, f"(SELECT * FROM (SELECT *, {next_time} FROM ")
    whole.put(whole.words[right.place[1] - 1].end, f"){views}) AS {right.alias}")
    whole.replace(matched, "")
    for index in range(left.place[1], right.place[0]):
        if whole.words[index].says == "ASOF":
            whole.replace((index, index + 1), "")
    since, until = (f"{right.alias}.{name}" for name in ("__time", "__until"))
    time = f"{left.alias}.__time"
    strict = any(word.says in ("<", ">") for word in whole.words[slice(*matched)])
    valid = [f"{time} {'>' if strict else '>='} {since}"]
    valid.append(f"({until} IS NULL OR {time} {'<=' if strict else '<'} {until})")
    valid += [f"unix_micros({time}) - unix_micros({since}) <= {age}L" for age in ages]
    valid += [f"{span.format(time)} = {right.alias}.__span" for span in spans]
    tie(whole, on, " AND ".join(valid))
    hide_in_stars(whole, select, _hiding(items, [right], ("__until", *("__span" for _ in spans))))
    return Shape(streaming=True, due=time)


def _right_keys(whole: Text, on: Stretch, aliases: tuple[str, str]) -> list[str]:
    """Of each equality in ON the side that is of the right relation."""
    words = whole.words
    equalities = [split(words, *part, "=") for part in split(words, *on, "AND")]
    return [whole.at(sides[_which_is_right(whole, sides, aliases)]) for sides in equalities]


def _which_is_right(whole: Text, sides: list[Stretch], aliases: tuple[str, str]) -> int:
    left, right = (alias.strip("`").lower() for alias in aliases)
    for n, side in enumerate(sides):
        named = {
            whole.words[index].name
            for index in range(*side)
            if index + 1 < side[1] and whole.words[index + 1].says == "."
        }
        if right in named:
            return n
        if left in named:
            return 1 - n
    raise ValueError("an as-of join whose ON does not say of which side its columns are")


def _hiding(items: list[Item], those: list[Item], names: tuple[str, ...]) -> list[Item]:
    """The items, `those` of them with more columns that `*` does not show."""
    return [
        replace(item, shape=replace(item.shape, unshown=(*item.shape.unshown, *names)))
        if item in those
        else item
        for item in items
    ]


def _and_on(whole: Text, item: Item, conditions: list[str]) -> None:
    if item.on is None:
        raise ValueError("a join of streams without ON")
    tie(whole, item.on, " AND ".join(conditions))


def _join_in_windows(whole: Text, select: Select, items: list[Item], live: list[Item]) -> Shape:
    """Each stream becomes its rows once for each of their windows; equal windows meet."""
    assert select.window is not None
    windows = read_clause(whole.text, whole.words, select.window, whole.names.zone)
    started, ended = GROUPED_BOUNDS
    for item in live:
        if item.word is None or windows.kind == "session" or select.group is not None:
            raise ValueError("a WINDOW on a join of anything but two streams as they are")
        name = whole.at((item.word, item.word + 1))
        pairs = f"inline(transform({pairs_sql(windows, '__time')}, w -> struct(w.a, w.b)))"
        rows = (
            f"(SELECT * FROM {name} LATERAL VIEW {pairs} __windows AS {started}, {ended} "
            f"WHERE unix_micros({ended}) > __late_us)"
        )
        whole.replace((item.word, item.word + 1), rows + ("" if item.renamed else f" AS {name}"))
    left, right = (item.alias for item in live)
    _and_on(whole, live[1], [f"{left}.{name} = {right}.{name}" for name in GROUPED_BOUNDS])
    whole.replace((select.window[0] - 1, select.window[1]), "")
    either = tuple(f"coalesce({left}.{name}, {right}.{name})" for name in GROUPED_BOUNDS)
    for stretch in split(whole.words, *select.items):
        name_bounds(whole, stretch, (either[0], either[1]), selected=True)
    if select.where is not None:
        name_bounds(whole, select.where, (either[0], either[1]))
    hide_in_stars(whole, select, _hiding(items, live, GROUPED_BOUNDS))
    due = ""
    if whole.names.waits is not None:
        miss = f"{left}.{started} IS NULL OR {right}.{started} IS NULL"
        due = f"CASE WHEN {miss} THEN timestamp_micros(unix_micros({either[1]}) - 1000L) END"
    return Shape(streaming=True, due=due, paired=True)
