"""The time bound of a join of two streams: which inequality between their times is there, which is missing.

`missing_bound` reads ON and gives '' when both bounds are there, else 'lower', 'upper' or 'both'. The
bounds are those of the right side's time as seen from the left side's.
"""

from __future__ import annotations

from sqlglot import exp

from headrace.sql.expressions import conjuncts
from headrace.sql.scope import Member, Scope

_UPPER = {exp.LT, exp.LTE}
_LOWER = {exp.GT, exp.GTE}


def missing_bound(on: exp.Expr | None, scope: Scope, right: Member) -> str:
    """Which bound of the right side's time is missing: '', 'lower', 'upper' or 'both'."""
    found: set[str] = set()
    for part in conjuncts(on) if on is not None else []:
        found |= _bounds(part, scope, right)
    if found == {"lower", "upper"}:
        return ""
    return "both" if not found else ("upper" if "lower" in found else "lower")


def _bounds(part: exp.Expr, scope: Scope, right: Member) -> set[str]:
    if isinstance(part, exp.Between):
        low, high = part.args["low"], part.args["high"]
        return _compared(part.this, low, "lower", scope, right) | _compared(
            part.this, high, "upper", scope, right
        )
    kind = type(part)
    if kind is exp.EQ and isinstance(part, exp.Binary):
        return _compared(part.left, part.right, "both", scope, right)
    if kind in _LOWER and isinstance(part, exp.Binary):
        return _compared(part.left, part.right, "lower", scope, right)
    if kind in _UPPER and isinstance(part, exp.Binary):
        return _compared(part.left, part.right, "upper", scope, right)
    return set()


def _compared(one: exp.Expr, other: exp.Expr, bound: str, scope: Scope, right: Member) -> set[str]:
    """The bound that `one <bound by> other` puts on the right side's time."""
    first, second = _side(one, scope, right), _side(other, scope, right)
    if {first, second} != {"left", "right"}:
        return set()
    if bound == "both":
        return {"lower", "upper"}
    if first == "right":
        return {bound}
    return {"upper" if bound == "lower" else "lower"}


def _side(node: exp.Expr, scope: Scope, right: Member) -> str:
    """'left' or 'right' where the expression is one side's time, with or without an interval."""
    while isinstance(node, exp.Paren | exp.Add | exp.Sub):
        if not isinstance(node, exp.Paren) and isinstance(node.left, exp.Interval):
            node = node.right
        else:
            node = node.this
    if not isinstance(node, exp.Column):
        return ""
    found = scope.find(node.name, node.table)
    if len(found) != 1 or found[0].outer:
        return ""
    relation, column = found[0].member.relation, found[0].column
    if relation.watermarked and not relation.is_time(column) and column != "_event_time":
        return ""
    if relation.origin != "stream":
        return ""
    return "right" if found[0].member.alias == right.alias else "left"
