"""What planning hands from query to query: what may be named, and what a planned query is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sqlglot import exp

from headrace.sql.dialect import Emit
from headrace.sql.expressions import Names
from headrace.sql.scope import Faults, Relation


@dataclass(frozen=True, slots=True)
class Context:
    """What a query may name, and where its faults go. `zone` is the pipeline's time zone."""

    faults: Faults
    relations: Mapping[str, Relation] = field(default_factory=dict)  # by folded name
    views: Mapping[str, exp.Expr] = field(default_factory=dict)
    closed: frozenset[str] = frozenset()  # results that no statement can read on from
    zone: str = "UTC"

    def names(self) -> Names:
        return Names(self.faults, self.relations, self.views.get)


@dataclass(frozen=True, slots=True)
class Planned:
    """A planned query. `keys` name the columns of the output that identify a row."""

    relation: Relation
    keys: tuple[str, ...] = ()
    shape: Literal["rows", "groups", "distinct"] = "rows"
    windowed: bool = False
    emit: Emit | None = None

    @property
    def unsettled(self) -> bool:
        """Whether its rows may still change, so that no other query can count them."""
        return not self.windowed or (self.emit is not None and self.emit.mode == "changes")
