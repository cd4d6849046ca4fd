"""The relations of a FROM clause: which are streams, which reference tables, and the hidden columns of each.

Words in, values out; the only edit made here writes the stream of a table function by its own name. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from expectations.clauses import Query, Select, Stretch, read_query
from expectations.spans import Windows, read_function
from expectations.words import Edit, Word, closing

SYSTEM = ("_timestamp", "_offset", "_partition", "_event_time")
CARRIED = (*SYSTEM, "__time", "__partition", "__place", "__late_us", "__epoch")
JOINERS = ("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "OUTER", "SEMI", "ANTI", "NATURAL", "ASOF")
BEHIND_ITEM = (*JOINERS, "ON", "USING", ",", "LATERAL", "MATCH_CONDITION", "")


@dataclass(frozen=True, slots=True)
class Names:
    """What the names of a query stand for: streams, reference tables, views (name: SELECT text); lower case."""

    streams: frozenset[str]
    tables: frozenset[str]
    views: Mapping[str, str] = field(default_factory=dict)
    zone: str = "UTC"
    several_versions: bool = False
    waits: tuple[int, int] | None = None  # in an outer join of streams: of a left and a right row (µs)


@dataclass(frozen=True, slots=True)
class Shape:
    """What the rewriting knows about a relation: hidden columns in it, and those that `*` must not show."""

    streaming: bool = False
    carried: tuple[str, ...] = ()
    unshown: tuple[str, ...] = ()
    due: str = ""  # of a join of streams: when a row without a match comes out; NULL where there is a match
    paired: bool = False  # a join of streams in windows, which are none of its GROUP BY


@dataclass(frozen=True, slots=True)
class Item:
    """One relation of a FROM clause, where it stands and where its ON condition lies. `matched`: where an as-of
    join's MATCH_CONDITION (…) does.
    """

    alias: str
    shape: Shape
    place: Stretch = (0, 0)
    windows: Windows | None = None
    joined: bool = False
    on: Stretch | None = None
    matched: Stretch | None = None
    word: int | None = None  # the stream's name, where it stands by itself
    renamed: bool = False
    versioned: str = ""  # the hidden version column of a reference table


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    words: tuple[Word, ...]
    names: Names
    edits: list[Edit]

    def at(self, stretch: Stretch) -> str:
        start, stop = stretch
        return self.text[self.words[start].start : self.words[stop - 1].end]

    def put(self, place: int, new: str) -> None:
        self.edits.append(Edit(place, place, new))

    def replace(self, stretch: Stretch, new: str) -> None:
        start, stop = stretch
        self.edits.append(Edit(self.words[start].start, self.words[stop - 1].end, new))


Scope = Mapping[str, Shape]
Derived = Callable[[Query], Shape]  # makes the edits of a sub-query in FROM


def items_of(whole: Text, select: Select, scope: Scope, derived: Derived) -> list[Item]:
    if select.source is None:
        return []
    words, (at, stop) = whole.words, select.source
    items: list[Item] = []
    joined = False
    while at < stop:
        start = at
        item, at = _item(whole, (at, stop), scope, derived)
        item = replace(item, place=(start, at))
        if at < stop and words[at].says == "MATCH_CONDITION":
            matched = (at, closing(words, at + 1) + 1)
            item, at = replace(item, matched=matched), matched[1]
        start_of_rest = at
        while at < stop and not (words[at].depth == words[select.source[0]].depth and _next_item(words, at)):
            at += 1
        items.append(replace(item, joined=joined, on=_on(words, start_of_rest, at)))
        joined = at < stop and words[at].says != ","
        while at < stop and (words[at].says in JOINERS or words[at].says == ","):
            at += 1
    return items


def _next_item(words: tuple[Word, ...], at: int) -> bool:
    """Whether a join begins here (LEFT and RIGHT may also be functions)."""
    says = words[at].says
    call = at + 1 < len(words) and words[at + 1].says == "("
    return says == "," or (says in JOINERS and (says == "JOIN" or not call))


def _on(words: tuple[Word, ...], start: int, stop: int) -> Stretch | None:
    return (start + 1, stop) if start < stop and words[start].says == "ON" else None


def _item(whole: Text, stretch: Stretch, scope: Scope, derived: Derived) -> tuple[Item, int]:
    at, stop = stretch
    words = whole.words
    if words[at].says == "TABLE" and words[at + 1].says == "(":
        source, windows, end = read_function(whole.text, words, at, whole.names.zone)
        whole.replace((at, end), f"{whole.text[source.start : source.end]}")
        item = replace(_named(whole, source.name, scope), windows=windows)
    elif words[at].says == "(":
        end = closing(words, at) + 1
        item = Item("", derived(read_query(words, at + 1, end - 1)))
    else:
        end = at + 1
        item = replace(_named(whole, words[at].name, scope), word=at)
    if end < stop and words[end].says == "AS":
        end += 1
    if end < stop and words[end].name and words[end].says not in BEHIND_ITEM[:-1]:
        item = replace(item, alias=whole.text[words[end].start : words[end].end], renamed=True)
        end += 1
    return item, end


def _named(whole: Text, name: str, scope: Scope) -> Item:
    alias = f"`{name}`"
    if name in scope:
        return Item(alias, scope[name])
    if name in whole.names.streams:
        return Item(alias, Shape(True, CARRIED, CARRIED))
    if name not in whole.names.tables:
        raise ValueError(f"{name} is neither a stream nor a reference table")
    if not whole.names.several_versions:
        return Item(alias, Shape())
    version = f"__epoch_{name}"
    return Item(alias, Shape(False, (version,), (version,)), versioned=version)
