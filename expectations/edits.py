"""Edits that several clauses need: one more condition, a window's bounds under their names, `*` without hidden columns."""

from __future__ import annotations

from expectations.calls import outside_aggregates
from expectations.clauses import Select, Stretch
from expectations.relations import Item, Text
from expectations.words import split

BOUNDS = ("window_start", "window_end", "_window_start", "_window_end")
GROUPED_BOUNDS = ("__started", "__ended")  # of the window, where rows are grouped by it


def tie(whole: Text, stretch: Stretch, condition: str) -> None:
    """Tie one more condition to the one that is written."""
    whole.put(whole.words[stretch[0]].start, "(")
    whole.put(whole.words[stretch[1] - 1].end, f") AND {condition}")


def name_bounds(whole: Text, stretch: Stretch, names: tuple[str, str], *, selected: bool = False) -> None:
    words, (first, stop) = whole.words, stretch
    for index in outside_aggregates(words, stretch):
        word = words[index]
        if word.name not in BOUNDS or words[index - 1].says in (".", "AS"):
            continue
        if index + 1 < len(words) and words[index + 1].says in (".", "("):
            continue
        alias = f" AS {word.name}" if selected and stop - first == 1 else ""
        whole.replace((index, index + 1), names["end" in word.name] + alias)


def hide_in_stars(whole: Text, select: Select, items: list[Item]) -> None:
    """`*` shows no hidden and no system columns."""
    words = whole.words
    for first, stop in split(words, *select.items):
        if words[stop - 1].says != "*":
            continue
        if stop - first == 1:
            hidden = [_of(item, name) for item in items for name in item.shape.unshown]
        elif words[stop - 2].says == ".":
            named = words[first].name
            mine = [item for item in items if item.alias.strip("`").lower() == named]
            hidden = [name for item in mine for name in item.shape.unshown]
        else:
            continue
        if hidden:
            whole.put(words[stop - 1].end, f" EXCEPT ({', '.join(hidden)})")


def _of(item: Item, name: str) -> str:
    return f"{item.alias}.{name}" if item.alias else name
