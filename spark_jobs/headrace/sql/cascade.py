"""Queries inside queries whose rows never change once they are there: each becomes a result stream of its own.

Those are the windowed GROUP BY, DISTINCT, the ROWS window, the as-of join, and under a union, a join or a group any join of
two streams: they hold state, and one Spark query holds the state of one operator. `FROM (SELECT …) AS x` of a result r becomes `CREATE STREAM r__x AS SELECT …` before it
and `FROM (SELECT * FROM r__x) AS x`; a view becomes a stream of its own name where a statement reads it. Trees
and texts are cut alike, because the gate reads texts. Nothing is resolved here (docs/decisions/0006).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from headrace.sql.dialect import WindowTable, query_span
from headrace.sql.expressions import from_items, is_grouped
from headrace.sql.parse import CreateQuery, CreateSource, Statement, Word
from headrace.sql.rowswindow import has_rows_window
from headrace.sql.source import Span

Edit = tuple[Span, str]  # of the pipeline's text


def cascade(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """The statements with every such query in a statement of its own, right before the one that holds it."""
    queries = [statement for statement in statements if isinstance(statement, CreateQuery)]
    read = {table.name.casefold() for one in queries for table in one.query.find_all(exp.Table)}
    taken = {one.name.text.casefold() for one in statements if isinstance(one, CreateQuery | CreateSource)}
    streaming: set[str] = set()
    found: list[Statement] = []
    for statement in statements:
        if isinstance(statement, CreateQuery):
            holder = _Holder(statement, streaming, taken)
            new = holder.cut()
            lifted = holder.lifts(new.query) or holder.meets(new.query)
            if new.form == "view" and lifted and new.name.text.casefold() in read:
                new = replace(new, form="stream")
            found += [*holder.lifted, new]
            if holder.streams(new.query):
                streaming.add(new.name.text.casefold())
        else:
            found.append(statement)
            if isinstance(statement, CreateSource) and statement.form == "stream":
                streaming.add(statement.name.text.casefold())
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Named:
    """A query of WITH: its name, its tree and its text."""

    name: str
    tree: exp.CTE
    text: str


@dataclass(slots=True)
class _Holder:
    """One statement, while the queries inside it are cut out."""

    statement: CreateQuery
    streaming: set[str]  # folded names that rows come from
    taken: set[str]
    lifted: list[CreateQuery] = field(default_factory=list)

    def cut(self) -> CreateQuery:
        query = self.statement.query.copy()
        edits = self._inside(query, ())
        return replace(self.statement, query=query, text=self._text(self.statement.span, edits))

    def _inside(self, query: exp.Expr, around: tuple[_Named, ...]) -> list[Edit]:
        """Cut out what stands inside the query; `around` are the queries of WITH that it may name."""
        edits: list[Edit] = []
        for cte in _ctes(query):
            span = query_span(cte.this)
            inner = self._one(cte.this, around, cte.alias, joins=True)
            edits += inner
            around = (*around, _Named(cte.alias, cte, self._text(span, inner)))
        match query:
            case exp.Subquery():
                edits += self._inside(query.this, around)
            case exp.SetOperation():
                for part in (query.this, query.expression):
                    changing = _emits_changes(query)
                    edits += self._inside(part, around) if changing else self._one(part, around, joins=True)
            case exp.Select():
                joins = _takes_together(query) or self.meets(query, around)
                for item in from_items(query):
                    if isinstance(item, exp.Subquery):
                        edits += self._one(item.this, around, item.alias, joins=joins)
            case _:
                pass
        return edits

    def _one(
        self, query: exp.Expr, around: tuple[_Named, ...], name: str = "", *, joins: bool = False
    ) -> list[Edit]:
        """Cut out the query itself, where it is one of those (`joins`: or a join of two streams), or what is in it."""
        while isinstance(query, exp.Subquery):
            query = query.this
        if not isinstance(query, exp.Query):
            return []
        edits = self._inside(query, around)
        if not (self.lifts(query, around) or (joins and self.meets(query, around))):
            return edits
        span, used = query_span(query), _used(query, around)
        stream = Word(self._name(name), span)
        tree, text = _under(used, query.copy()), _with(used, self._text(span, edits))
        self.lifted.append(CreateQuery("stream", stream, (), tree, text, span))
        self.streaming.add(stream.text.casefold())
        query.replace(_all_of(stream))
        return [(span, f"SELECT * FROM {stream.text}")]

    def lifts(self, query: exp.Expr, around: tuple[_Named, ...] = ()) -> bool:
        """Whether the query, a stream's, holds state of its own and gives rows that never change."""
        return not _emits_changes(query) and _settles(query) and self.streams(query, around)

    def meets(self, query: exp.Expr, around: tuple[_Named, ...] = ()) -> bool:
        """Whether two streams meet in the query itself."""
        return (
            isinstance(query, exp.Select)
            and sum(self.streams(item, around) for item in from_items(query)) > 1
        )

    def streams(self, query: exp.Expr, around: tuple[_Named, ...] = ()) -> bool:
        """Whether rows come to the query for ever."""
        return self._streams(query, {one.name.casefold(): one.tree.this for one in around})

    def _streams(self, item: exp.Expr, named: Mapping[str, exp.Expr]) -> bool:
        while isinstance(item, exp.Subquery):
            item = item.this
        named = {**named, **{cte.alias.casefold(): cte.this for cte in _ctes(item)}}
        match item:
            case WindowTable():
                return True
            case exp.Table():
                folded = item.name.casefold()
                if folded in named:
                    others = {name: tree for name, tree in named.items() if name != folded}
                    return self._streams(named[folded], others)
                return folded in self.streaming
            case exp.SetOperation():
                return any(self._streams(part, named) for part in (item.this, item.expression))
            case exp.Select():
                return any(self._streams(part, named) for part in from_items(item))
            case _:
                return False

    def _name(self, word: str) -> str:
        """r__x for what is called x, r__1, r__2, … for the others."""
        base = self.statement.name.text
        names = [f"{base}__{word}"] if re.fullmatch(r"[A-Za-z0-9_]+", word) else []
        names += [f"{base}__{n}" for n in range(1, len(self.taken) + 2)]
        name = next(one for one in names if one.casefold() not in self.taken)
        self.taken.add(name.casefold())
        return name

    def _text(self, span: Span, edits: list[Edit]) -> str:
        """A stretch of the pipeline's text with the edits in it made."""
        begin = self.statement.span[0]
        parts, at = [], span[0]
        for (start, stop), new in sorted(edits):
            parts += [self.statement.text[at - begin : start - begin], new]
            at = stop
        return "".join([*parts, self.statement.text[at - begin : span[1] - begin]])


def _settles(query: exp.Expr) -> bool:
    match query:
        case exp.Union():
            return bool(query.args.get("distinct"))
        case exp.Select():
            table = any(isinstance(item, WindowTable) for item in from_items(query))
            grouped = is_grouped(query)
            windowed = query.args.get("stream_window") is not None or table
            distinct = query.args.get("distinct") is not None
            rows = any(has_rows_window(part) for part in query.expressions)
            as_of = any(join.method.upper() == "ASOF" for join in query.args.get("joins") or [])
            return (grouped and windowed) or (distinct and not grouped) or rows or as_of
        case _:
            return False


def _takes_together(query: exp.Select) -> bool:
    """Whether the query makes one row of several, or looks back at others."""
    distinct = query.args.get("distinct") is not None
    return distinct or is_grouped(query) or any(has_rows_window(part) for part in query.expressions)


def _emits_changes(query: exp.Expr) -> bool:
    """Whether EMIT CHANGES ends the query; behind a UNION it is said of the whole."""
    while isinstance(query, exp.SetOperation):
        query = query.expression
    emit = query.args.get("emit")
    return emit is not None and emit.mode == "changes"


def _ctes(query: exp.Expr) -> list[exp.CTE]:
    clause = query.args.get("with_")
    return list(clause.expressions) if clause is not None else []


def _used(query: exp.Expr, around: tuple[_Named, ...]) -> tuple[_Named, ...]:
    """The queries of WITH around a query that it needs, in their order."""
    wanted = {table.name.casefold() for table in query.find_all(exp.Table)}
    used: list[_Named] = []
    for one in reversed(around):
        if one.name.casefold() in wanted:
            used.insert(0, one)
            wanted |= {table.name.casefold() for table in one.tree.find_all(exp.Table)}
    return tuple(used)


def _under(used: tuple[_Named, ...], query: exp.Expr) -> exp.Expr:
    if used:
        trees = [*(one.tree.copy() for one in used), *_ctes(query)]
        query.set("with_", exp.With(expressions=trees))
    return query


def _with(used: tuple[_Named, ...], text: str) -> str:
    if not used:
        return text
    front = ", ".join(f"`{one.name}` AS ({one.text}\n)" for one in used)
    own = re.match(r"WITH\b", text, re.IGNORECASE)
    return f"WITH {front}, {text[own.end() :]}" if own else f"WITH {front} {text}"


def _all_of(stream: Word) -> exp.Select:
    """SELECT * FROM stream, standing where the stream's own query stands."""
    table, star = exp.Table(this=exp.to_identifier(stream.text)), exp.Star()
    for part in (table, table.this, star):
        part.meta.update(start=stream.span[0], end=stream.span[1] - 1)
    query = exp.Select(expressions=[star], from_=exp.From(this=table))
    query.meta.update(begin=stream.span[0], stop=stream.span[1])
    return query
