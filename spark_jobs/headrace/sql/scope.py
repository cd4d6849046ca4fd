"""What a name means at a place in a query: relations, their columns, and scopes inside scopes.

Names compare without regard to letter case; a column keeps the spelling of its declaration. Frozen.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal

from headrace.errors import Refused
from headrace.event_time.interval import DAY_US, Interval
from headrace.sql.nodes import SYSTEM_COLUMNS, Node, Scan, Window
from headrace.sql.source import Source, Span, did_you_mean

MOST_NAMED = 8  # columns, in a hint
WINDOW_COLUMNS = {
    "window_start": "window_start",
    "window_end": "window_end",
    "_window_start": "window_start",
    "_window_end": "window_end",
}


@dataclass(frozen=True, slots=True)
class Faults:
    """The refusals found so far in one file, and the file they point into."""

    source: Source
    errors: list[Refused] = field(default_factory=list)

    def add(self, message: str, span: Span, hint: str = "") -> None:
        self._keep(self.source.refused(message, span, hint))

    def not_yet(self, what: str, span: Span, hint: str = "") -> None:
        self._keep(self.source.not_yet(what, span, hint))

    def _keep(self, error: Refused) -> None:
        if not any(old.place == error.place and type(old) is type(error) for old in self.errors):
            self.errors.append(error)


@dataclass(frozen=True, slots=True)
class Produced:
    """What is known of a result stream's rows: the window that made them, the columns with its borders; how long
    a join may have let them wait.
    """

    window: Window | None = None
    starts: frozenset[str] = frozenset()  # folded names
    ends: frozenset[str] = frozenset()
    changelog: bool = False
    waited: Interval = Interval()

    @property
    def fixed_us(self) -> int | None:
        """The size of the window in microseconds, where that is the same for all."""
        window = self.window
        if window is None or window.kind not in ("tumbling", "sliding") or window.size.months:
            return None
        by_calendar = window.zone != "UTC" and window.size.micros % DAY_US == 0
        return None if by_calendar else window.size.micros

    def under(self, names: tuple[str, ...], others: tuple[str, ...]) -> Produced:
        """The same of columns that bear other names, by position."""
        folded = [(name.casefold(), other.casefold()) for name, other in zip(names, others, strict=False)]
        starts, ends = (
            frozenset(other for name, other in folded if name in border)
            for border in (self.starts, self.ends)
        )
        return replace(self, starts=starts, ends=ends)


@dataclass(frozen=True, slots=True)
class Relation:
    """Something that FROM can name: a plan and the columns that a query may ask of it.

    `direct`: the system columns may be named (a stream itself). `carries`: they are in the plan's
    output, named or not. `times` are the columns that hold the event time (folded). `windowed`: a
    window table function, whose windows no GROUP BY has taken yet. `grouped`: its rows are the newest values
    of groups, which `keys` tell apart (hidden columns of the node may be among them). `open`: the relation is unknown
    (and reported), so that any column is taken for one of its. `produced`: the result streams that it reads on from. `holder`:
    the relation that has its system columns, where it is a column of that one itself.
    """

    node: Node
    columns: tuple[str, ...]
    origin: Literal["stream", "table"] = "stream"
    streams: tuple[str, ...] = ()
    direct: bool = False
    carries: bool = False
    watermarked: bool = False
    times: frozenset[str] = frozenset()
    windowed: bool = False
    grouped: bool = False
    keys: tuple[str, ...] = ()
    open: bool = False
    produced: tuple[Produced, ...] = ()
    holder: str = ""

    def column(self, name: str) -> str:
        """The column's own spelling; '' where there is none."""
        folded = name.casefold()
        for column in self.columns:
            if column.casefold() == folded:
                return column
        if self.direct and folded in SYSTEM_COLUMNS:
            return folded
        if self.windowed and folded in WINDOW_COLUMNS:
            return WINDOW_COLUMNS[folded]
        return name if self.open else ""

    def names(self) -> tuple[str, ...]:
        """All names that may be asked, for hints."""
        system = SYSTEM_COLUMNS if self.direct else ()
        return (*self.columns, *system, *(("window_start", "window_end") if self.windowed else ()))

    def is_time(self, column: str) -> bool:
        return column.casefold() in self.times


UNKNOWN = Relation(node=Scan(""), columns=(), open=True)


@dataclass(frozen=True, slots=True)
class Member:
    """A relation in FROM under the name that qualifies its columns."""

    alias: str
    relation: Relation


@dataclass(frozen=True, slots=True)
class Found:
    """A resolved column: whose it is, its own spelling, and whether an outer query has it."""

    member: Member
    column: str
    outer: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """The relations of one SELECT; `merged` are the columns of USING, which stand for the left one."""

    members: tuple[Member, ...]
    outer: Scope | None = None
    merged: frozenset[str] = frozenset()

    def with_member(self, member: Member, merged: Iterable[str] = ()) -> Scope:
        names = frozenset(name.casefold() for name in merged)
        return Scope((*self.members, member), self.outer, self.merged | names)

    def member(self, alias: str) -> Member | None:
        folded = alias.casefold()
        for member in self.members:
            if member.alias.casefold() == folded:
                return member
        return self.outer.member(alias) if self.outer else None

    def _called(self, alias: str) -> list[Member]:
        """The members of that alias; all where it is ''."""
        return [m for m in self.members if not alias or m.alias.casefold() == alias.casefold()]

    def find(self, name: str, alias: str = "") -> list[Found]:
        """All columns that the name may mean in the innermost query that has one."""
        found = [Found(m, column) for m in self._called(alias) if (column := m.relation.column(name))]
        known = [one for one in found if not one.member.relation.open]
        found = known or found[:1]
        if len(found) > 1 and not alias and name.casefold() in self.merged:
            found = found[:1]
        if found or self.outer is None:
            return found
        return [Found(one.member, one.column, outer=True) for one in self.outer.find(name, alias)]

    def names(self, alias: str = "") -> tuple[str, ...]:
        """The names that may be asked here, for hints."""
        own = [name for member in self._called(alias) for name in member.relation.names()]
        return (*own, *(self.outer.names(alias) if self.outer else ()))

    def hint(self, name: str, alias: str = "") -> str:
        columns = [column for member in self._called(alias) for column in member.relation.columns]
        listed = f"there are {', '.join(columns[:MOST_NAMED])}" if columns else ""
        return did_you_mean(name, self.names(alias)) or listed

    @property
    def several(self) -> bool:
        """Whether names must be qualified to be plain."""
        return len(self.members) > 1
