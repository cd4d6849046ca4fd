"""The keys of a join: the equalities between an expression of one side and one of the other, from ON or USING."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from headrace.sql.dialect import spark_sql
from headrace.sql.expressions import Names, column_node, conjuncts, span_of, text_of
from headrace.sql.scope import Member, Scope


@dataclass(frozen=True, slots=True)
class Keys:
    """The pairs of a join, the left side's expression first, and the conditions of ON that are none."""

    pairs: tuple[tuple[str, str], ...]
    others: tuple[exp.Expr, ...] = ()


def keys_of(join: exp.Join, member: Member, scope: Scope, names: Names) -> Keys:
    """The keys of `member` and what stands left of it, both in `scope`; what has no meaning is refused."""
    if using := join.args.get("using"):
        pairs = [using_pair(one, member, scope, names) for one in using]
        return Keys(tuple(pair for pair in pairs if pair is not None))
    found: list[tuple[str, str]] = []
    others: list[exp.Expr] = []
    for part in conjuncts(join.args["on"]) if join.args.get("on") is not None else []:
        sides = [part.left, part.right] if isinstance(part, exp.EQ) else []
        told = [side_of(side, member, scope) for side in sides]
        if set(told) == {"left", "right"}:
            one, two = sides if told[0] == "left" else sides[::-1]
            found.append((text_of(one, scope, names), text_of(two, scope, names)))
        else:
            others.append(part)
    return Keys(tuple(found), tuple(others))


def table_keys(join: exp.Join, table: Member, scope: Scope, names: Names) -> tuple[tuple[str, str], ...]:
    """The equalities of a join without faults that compare a column of `table` with an expression of the others."""
    found = []
    if using := join.args.get("using"):
        for identifier in using:
            pair, column = (
                using_pair(identifier, scope.members[-1], scope, names),
                table.relation.column(identifier.name),
            )
            text = spark_sql(column_node(column, table.alias))
            if pair is not None and text in pair and pair[0] != pair[1]:
                found.append((pair[0] if pair[1] == text else pair[1], column))
        return tuple(found)
    for part in conjuncts(join.args["on"]) if join.args.get("on") is not None else []:
        if not isinstance(part, exp.EQ):
            continue
        for side, other in ((part.left, part.right), (part.right, part.left)):
            own = side.unnest()
            told = side_of(side, table, scope), side_of(other, table, scope)
            if isinstance(own, exp.Column) and told == ("right", "left") and other.find(exp.Query) is None:
                found.append((text_of(other, scope, names), table.relation.column(own.name)))
    return tuple(found)


def using_pair(identifier: exp.Expr, member: Member, scope: Scope, names: Names) -> tuple[str, str] | None:
    """The column of USING on both sides; None where it is refused."""
    name = identifier.name
    right = member.relation.column(name)
    left = Scope(scope.members[:-1]).find(name)
    if len(left) != 1 or not right:
        names.faults.add(f"USING needs a column {name} on both sides", span_of(identifier), scope.hint(name))
        return None
    one = spark_sql(column_node(left[0].column, left[0].member.alias))
    return one, spark_sql(column_node(right, member.alias))


def side_of(node: exp.Expr, member: Member, scope: Scope) -> str:
    """The one side whose columns an expression names; '' for none and for both."""
    found = [one for column in node.find_all(exp.Column) for one in scope.find(column.name, column.table)]
    sides = {"right" if one.member is member else "left" for one in found}
    return sides.pop() if len(sides) == 1 else ""
