"""GROUP BY: a query's expressions, split into aggregate calls and what is computed from them.

`Grouping` collects keys and calls; `above` rewrites an expression of SELECT or HAVING so that it names
only key columns, window columns and `__aggN`. What is neither is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sqlglot import exp

from headrace.errors import Place
from headrace.sql.aggregates import AGGREGATES, takes_distinct
from headrace.sql.dialect import spark_sql
from headrace.sql.expressions import (
    Names,
    aggregate_call,
    column_node,
    has_aggregate,
    resolve,
    span_of,
    whole_span,
)
from headrace.sql.functions import is_aggregate, is_known
from headrace.sql.nodes import Call, Named
from headrace.sql.scope import WINDOW_COLUMNS, Faults, Scope
from headrace.sql.select_list import Item

# SUM(DISTINCT x) and its like: what DISTINCT changes nothing of, and what can be done over a set.
_DISTINCT_AS_SUCH = ("min", "max", "collect_set", "bool_and", "bool_or", "every", "any", "some")


@dataclass(frozen=True, slots=True)
class Grouping:
    """The keys of a grouped query (text of the expression -> name of its column) and its calls."""

    scope: Scope
    names: Names
    windowed: bool
    has_times: bool = True  # whether the rows still have their event time and position
    keys: dict[str, str] = field(default_factory=dict)
    key_nodes: list[Named] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def add_key(self, node: exp.Expr, selected: set[str]) -> None:
        """One expression of GROUP BY; a column that is `selected` keeps its name, anything else is `__keyN`."""
        resolved = resolve(node, self.scope, self.names)
        text = spark_sql(resolved)
        if text in self.keys:
            return
        taken = {named.name.casefold() for named in self.key_nodes}
        plain = (
            isinstance(resolved, exp.Column) and text in selected and resolved.name.casefold() not in taken
        )
        plain = plain and not (self.windowed and resolved.name.casefold() in WINDOW_COLUMNS)
        name = resolved.name if plain else f"__key{len(self.key_nodes)}"
        self.keys[text] = name
        self.key_nodes.append(Named(name, text, self.names.faults.source.place(span_of(node))))

    def above(self, node: exp.Expr) -> exp.Expr:
        """The expression over the output of the Aggregate."""
        window = self._window_column(node)
        if window is not None:
            return window
        if aggregate_call(node) is not None:
            return column_node(self._call(node), like=node)
        if not _holds_aggregate(node) and not isinstance(node, exp.Star):
            key = self._key(node)
            if key:
                return column_node(key, like=node)
        if isinstance(node, exp.Column):
            self._ungrouped(node)
            return node
        if isinstance(node, exp.Query):
            return self._query(node)
        if isinstance(node, exp.Anonymous) and not is_known(node.name):
            resolve(node, self.scope, self.names)
            return node
        copy = node.copy()
        for child, new in zip(list(copy.iter_expressions()), list(node.iter_expressions()), strict=True):
            child.replace(self.above(new))
        return self._checked(copy)

    def _window_column(self, node: exp.Expr) -> exp.Expr | None:
        if not self.windowed or not isinstance(node, exp.Column) or node.table:
            return None
        name = WINDOW_COLUMNS.get(node.name.casefold())
        return column_node(name, like=node) if name else None

    def _key(self, node: exp.Expr) -> str:
        return self.keys.get(self.quiet_text(node), "") if isinstance(node, exp.Condition) else ""

    def quiet_text(self, node: exp.Expr) -> str:
        """The text of an expression, for comparisons: its faults are told elsewhere."""
        quiet = replace(self.names, faults=Faults(self.names.faults.source))
        return spark_sql(resolve(node, self.scope, quiet))

    def _ungrouped(self, node: exp.Column) -> None:
        if any(member.relation.open for member in self.scope.members):
            return
        before = len(self.names.faults.errors)
        resolve(node, self.scope, self.names)
        if len(self.names.faults.errors) == before:
            hint = f"add it to GROUP BY, or take one of its values, for instance MAX({node.name})"
            message = f"the column {node.name} is neither in GROUP BY nor inside an aggregate"
            self.names.faults.add(message, span_of(node), hint)

    def _query(self, node: exp.Expr) -> exp.Expr:
        """A sub-query stands above the groups, where no column of the rows is left to ask."""
        faults = Faults(self.names.faults.source)
        resolved = resolve(node, Scope(()), replace(self.names, faults=faults))
        quiet = Faults(self.names.faults.source)
        resolve(node, self.scope, replace(self.names, faults=quiet))
        if faults.errors and not quiet.errors:
            self.names.faults.not_yet("a sub-query that asks columns of a grouped query", span_of(node))
            return resolved
        return resolve(node, Scope(()), self.names)

    def _checked(self, node: exp.Expr) -> exp.Expr:
        """The node's own function is checked; its parts are resolved already."""
        if isinstance(node, exp.Anonymous | exp.Window):
            shell = exp.Anonymous(this=node.this) if isinstance(node, exp.Anonymous) else node
            shell.meta.update(node.meta)
            resolve(shell, self.scope, self.names)
        return node

    def _call(self, node: exp.Expr) -> str:
        call = self._read(node, f"__agg{len(self.calls)}")
        for known in self.calls:
            if known.same_as(call):
                return known.name
        self.calls.append(call)
        return call.name

    def read(self, node: exp.Expr, name: str) -> Call | None:
        """The aggregate call that an expression is, under a name; None where it is none."""
        return self._read(node, name) if aggregate_call(node) is not None else None

    def _read(self, node: exp.Expr, name: str) -> Call:
        where, within, ignore_nulls = "", "", False
        inner = node
        while not isinstance(inner, exp.Anonymous):
            if isinstance(inner, exp.Filter):
                where = self._text(inner.expression.this)
            elif isinstance(inner, exp.WithinGroup):
                within = self._text(inner.expression).strip()
            elif isinstance(inner, exp.IgnoreNulls):
                ignore_nulls = True
            inner = inner.this
        arguments, distinct = list(inner.expressions), False
        if arguments and isinstance(arguments[0], exp.Distinct):
            arguments, distinct = list(arguments[0].expressions), True
        if arguments and isinstance(arguments[0], exp.IgnoreNulls):
            arguments[0], ignore_nulls = arguments[0].this, True
        function = inner.name.lower()
        texts = () if _is_star(arguments) else tuple(self._text(argument) for argument in arguments)
        if ignore_nulls:
            texts = (*texts, "TRUE")
        if distinct and function in _DISTINCT_AS_SUCH:
            distinct = False
        self._check(inner, distinct, within)
        place = self.names.faults.source.place(span_of(node))
        return Call(name, function, texts, distinct, where, within, place)

    def _check(self, node: exp.Anonymous, distinct: bool, within: str) -> None:
        faults, function = self.names.faults, node.name.lower()
        law = AGGREGATES.get(function)
        if distinct and not takes_distinct(function):
            faults.not_yet(f"{node.name.upper()}(DISTINCT …)", span_of(node))
        if function in ("listagg", "string_agg") and not within:
            hint = f"write {node.name.upper()}(x, ',') WITHIN GROUP (ORDER BY x)"
            faults.add(
                f"{node.name.upper()} without an order changes with the order of arrival", span_of(node), hint
            )
        if law and law.ordered and not self.has_times:
            hint = "MIN_BY and MAX_BY take the time that you name"
            faults.add(f"{node.name.upper()} has no event time here", span_of(node), hint)

    def _text(self, node: exp.Expr) -> str:
        for part in node.walk():
            if isinstance(part, exp.Anonymous) and is_aggregate(part.name):
                self.names.faults.add("an aggregate inside an aggregate", span_of(part))
        return spark_sql(resolve(node, self.scope, self.names))


def _holds_aggregate(node: exp.Expr) -> bool:
    return any(isinstance(part, exp.Anonymous) and is_aggregate(part.name) for part in node.walk())


def _is_star(arguments: list[exp.Expr]) -> bool:
    return len(arguments) == 1 and isinstance(arguments[0], exp.Star)


# ---- the clauses -----------------------------------------------------------------------------
def group_items(
    query: exp.Select, items: list[Item], scope: Scope, faults: Faults
) -> tuple[list[exp.Expr], bool]:
    """The expressions of GROUP BY without the window's borders, and whether those were there."""
    group = query.args.get("group")
    if group is None:
        return [], False
    for key in ("grouping_sets", "cube", "rollup", "totals"):
        if group.args.get(key):
            faults.not_yet(f"GROUP BY with {key.replace('_', ' ').upper()}", whole_span(group))
    if group.args.get("all") is not None:
        faults.add("GROUP BY ALL", whole_span(group), "name the columns")
    by_table = any(m.relation.windowed for m in scope.members)
    found: list[exp.Expr] = []
    borders = False
    for part in group.expressions:
        if isinstance(part, exp.Cube | exp.Rollup | exp.GroupingSets):
            faults.not_yet("GROUP BY with several grouping sets", whole_span(part))
            continue
        part = _group_item(part, items, scope, faults)
        if by_table and isinstance(part, exp.Column) and part.name.casefold() in WINDOW_COLUMNS:
            borders = True
        elif has_aggregate(part):
            faults.add("an aggregate in GROUP BY", whole_span(part))
        else:
            found.append(part)
    return found, borders


def _group_item(part: exp.Expr, items: list[Item], scope: Scope, faults: Faults) -> exp.Expr:
    """An item of GROUP BY as Spark reads it: an ordinal, a column of the input, or a name of SELECT."""
    if isinstance(part, exp.Literal) and part.is_int:
        number = int(part.name)
        if 1 <= number <= len(items):
            return items[number - 1].node
        faults.add(f"GROUP BY {number}: SELECT has {len(items)} column(s)", span_of(part))
        return part
    if isinstance(part, exp.Column) and not part.table and not scope.find(part.name):
        for item in items:
            if item.name.casefold() == part.name.casefold() and item.node is not part:
                return item.node
    return part


def having_of(query: exp.Select, items: list[Item], grouping: Grouping) -> tuple[str, Place] | None:
    """The condition of HAVING over the output of the Aggregate, and its place; None where there is none."""
    clause = query.args.get("having")
    if clause is None:
        return None
    condition = _with_aliases(clause.this.copy(), items, grouping)
    place = grouping.names.faults.source.place(whole_span(clause.this))
    return spark_sql(grouping.above(condition)), place


def _with_aliases(node: exp.Expr, items: list[Item], grouping: Grouping) -> exp.Expr:
    """Names of SELECT in HAVING stand for their expressions, unless they are grouped columns."""
    if aggregate_call(node) is not None or isinstance(node, exp.Query):
        return node
    if isinstance(node, exp.Column) and not node.table:
        if spark_sql(column_node(node.name)) in grouping.keys:
            return node
        for item in items:
            if item.name.casefold() == node.name.casefold():
                return (
                    exp.Paren(this=item.node.copy())
                    if isinstance(item.node, exp.Binary)
                    else item.node.copy()
                )
        return node
    for child in list(node.iter_expressions()):
        new = _with_aliases(child, items, grouping)
        if new is not child:
            child.replace(new)
    return node


def with_keys(
    columns: list[Named], keys: list[str], *, windowed: bool
) -> tuple[list[Named], tuple[str, ...]]:
    """The columns with hidden ones for keys that are not selected, and the names of all keys."""
    named: list[str] = []
    result = list(columns)
    wanted = [(key, f"__key{number}") for number, key in enumerate(keys)]
    if windowed:
        wanted += [("window_start", "__window_start"), ("window_end", "__window_end")]
    for key, hidden in wanted:
        text = spark_sql(column_node(key))
        shown = next((column.name for column in columns if column.expression == text), "")
        if not shown:
            shown = hidden
            result.append(Named(hidden, text))
        named.append(shown)
    return result, tuple(named)
