"""The select list: its columns one by one, their names checked, `*` spelled out.

`*` gives the declared columns, never the system columns; on a join the right side's clashes bear its
alias (`b_k`), and the columns of USING stand once.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headrace.sql.expressions import column_node, span_of, whole_span
from headrace.sql.joins import Joined
from headrace.sql.nodes import HIDDEN, joins_streams
from headrace.sql.scope import Faults
from headrace.sql.source import did_you_mean


@dataclass(frozen=True, slots=True)
class Item:
    """One column of SELECT: its name ('' when it has none) and its expression as written."""

    name: str
    node: exp.Expr


def items_of(query: exp.Select, joined: Joined, faults: Faults) -> list[Item]:
    """The columns of SELECT, with every * spelled out."""
    found: list[Item] = []
    for part in query.expressions:
        if isinstance(part, exp.Star) or (isinstance(part, exp.Column) and isinstance(part.this, exp.Star)):
            found += _star(part, joined, faults)
        elif isinstance(part, exp.Alias):
            found.append(Item(part.alias, part.this))
        elif isinstance(part, exp.Aliases):
            faults.add("one expression with several names", whole_span(part))
        else:
            found.append(Item(part.name if isinstance(part, exp.Column | exp.Dot) else "", part))
    _check_names(found, faults)
    return found


def _star(part: exp.Expr, joined: Joined, faults: Faults) -> list[Item]:
    alias = part.table if isinstance(part, exp.Column) else ""
    star = part.this if isinstance(part, exp.Column) else part
    if any(star.args.get(key) for key in ("except_", "replace", "rename", "except")):
        faults.add("* with EXCEPT", span_of(part), "name the columns")
    members = [m for m in joined.scope.members if not alias or m.alias.casefold() == alias.casefold()]
    if joins_streams(joined.node):  # a window's borders are no columns of either side
        members = [m for m in members if m.alias]
    if not members:
        aliases = [m.alias for m in joined.scope.members]
        faults.add(f"unknown name {alias}", span_of(part), did_you_mean(alias, aliases))
    taken: set[str] = set()
    found: list[Item] = []
    for member in members:
        for column in member.relation.columns:
            if column.casefold() in joined.scope.merged and column.casefold() in taken:
                continue  # USING shows its columns once
            name = f"{member.alias}_{column}" if column.casefold() in taken else column
            taken.add(name.casefold())
            qualifier = member.alias if joined.scope.several else ""
            found.append(Item(name, column_node(column, qualifier, part)))
    return found


def _check_names(items: list[Item], faults: Faults) -> None:
    seen: set[str] = set()
    for number, item in enumerate(items, start=1):
        span = whole_span(item.node)
        if not item.name:
            faults.add(f"column {number} of SELECT has no name", span, "write: … AS name")
        elif item.name.startswith(HIDDEN):
            faults.add(f"names that begin with {HIDDEN} are Headrace's own", span)
        elif any(letter in item.name for letter in " ,;{}()\n\t="):
            faults.add(
                f"{item.name!r} is no name for a column of a table", span, "no blanks, commas, brackets or ="
            )
        elif item.name.casefold() in seen:
            faults.add(f"two columns are named {item.name}", span, "rename one with AS")
        seen.add(item.name.casefold())
