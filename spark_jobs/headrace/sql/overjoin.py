"""What takes the rows of a join of two streams together, or joins them again: the join is a stream of its own.

One Spark query holds the state of one operator. `SELECT a.k, COUNT(*) FROM a JOIN b ON … GROUP BY a.k` of a result r
becomes `CREATE STREAM r__a_b AS SELECT named_struct('k', a.k, …) AS a, … FROM a JOIN b ON …`, and what is left
reads r__a_b, whose columns are the relations of the join: `a.k` is a field of one. `a LEFT JOIN b … LEFT JOIN c …`
is cut before c, and what is left of it is cut again. The gate reads texts, so text and tree are cut alike (docs/decisions/0007).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from headrace.sql.bounds import Bound, Pair, bound_of
from headrace.sql.context import Context
from headrace.sql.dialect import WindowClause, spark_sql, tokens
from headrace.sql.expressions import column_node, is_grouped
from headrace.sql.parse import CreateQuery, Word, quoted
from headrace.sql.plan import member_of, with_ctes
from headrace.sql.rowswindow import has_rows_window
from headrace.sql.scope import Faults, Member, Relation, Scope

BORDER = "window__start"  # the column of a windowed join whose groups keep its window
TIME = "event_time"  # the column with the time of the join's rows
_CLAUSES = ("FROM", "WHERE", "GROUP BY", "WINDOW", "HAVING", "EMIT", "WITH")
_JOIN_WORDS = ("ASOF", "LEFT", "RIGHT", "FULL", "OUTER", "INNER", "SEMI", "ANTI", "CROSS", "NATURAL")


def cut_join(
    statement: CreateQuery, context: Context, taken: Collection[str]
) -> tuple[CreateQuery, CreateQuery] | None:
    """The join of two streams that must be a query of its own, and what reads it; None where there is none.

    `taken` are the folded names of the pipeline.
    """
    query = statement.query
    if not isinstance(query, exp.Select) or query.args.get("from_") is None:
        return None
    joins = query.args.get("joins") or []
    quiet = with_ctes(query, replace(context, faults=Faults(context.faults.source)))
    members = [member_of(item, quiet) for item in (query.args["from_"].this, *(join.this for join in joins))]
    if quiet.faults.errors or any(m.relation.open or not m.alias for m in members):
        return None
    many = _how_many(query, joins, members)
    if many == 0 or query.args["from_"].this.meta.get("members"):
        return None
    own = _own_window(query, members[: many + 1], quiet)
    if any(join.args.get("using") for join in joins[many:]):
        return None
    stars = any(part.find(exp.Star) and not is_grouped(query) for part in query.expressions)
    if (own is not None and (own.kind != "tumbling" or query.args.get("group") is None)) or stars:
        return None
    if {m.alias.casefold() for m in members} & {c.casefold() for m in members for c in m.relation.columns}:
        return None  # a relation is a column above
    name = _name(statement, members, many, taken)
    cut = _Cut(statement, query, many, name, tuple(members), own, quiet.faults)
    return cut.join(), cut.reader()


def _how_many(query: exp.Select, joins: list[exp.Join], members: list[Member]) -> int:
    """How many joins of FROM are in the query of their own; 0: none is needed."""
    streams = [n for n, member in enumerate(members) if member.relation.origin == "stream"]
    if len(streams) < 2:
        return 0
    clauses = any(query.args.get(key) is not None for key in ("having", "distinct"))
    if is_grouped(query) or clauses or any(has_rows_window(part) for part in query.expressions):
        return len(joins)
    if query.args.get("query_options") or query.args.get("stream_window") is not None:
        return 0
    meetings = [joins[at - 1] for at in streams[1:]]
    one_query = len(meetings) < 2 or not any(join.side or join.method for join in meetings)
    return 0 if one_query else streams[-1] - 1


def _own_window(query: exp.Select, members: list[Member], context: Context) -> WindowClause | None:
    """The window, where it is the join's and its groups keep it: where there is no time bound."""
    clause: WindowClause | None = query.args.get("stream_window")
    if clause is None or query.args.get("query_options"):
        return None
    scope = Scope(tuple(members))
    for n, (join, right) in enumerate(zip(query.args["joins"], members[1:], strict=False), start=1):
        lefts = (left for left in members[:n] if left.relation.origin == "stream")
        pairs = [Pair(left, right, scope, context.faults) for left in lefts]
        if join.method or any(not bound_of(join.args.get("on"), pair).missing for pair in pairs):
            return None
    return clause


def _above(query: exp.Select, later: list[exp.Join]) -> Iterator[exp.Expr]:
    """The expressions that stand above a join: those of the later joins too, and WHERE where there are such."""
    yield from query.expressions
    parts = [join.args.get(key) for join in later for key in ("on", "match_condition")]
    parts += [query.args.get(key) for key in ("group", "having", *(["where"] if later else []))]
    clause: WindowClause | None = query.args.get("stream_window")
    for part in (*parts, clause.time if clause is not None else None):
        if part is not None:
            yield part


def _name(statement: CreateQuery, members: list[Member], many: int, taken: Collection[str]) -> Word:
    """r__a_b for the join of a and b, cut out of r or of r__a_b_c, else r__1, r__2, …"""
    whole, called = ("_".join(member.alias for member in some) for some in (members, members[: many + 1]))
    base = statement.name.text.removesuffix(f"__{whole}")
    names = [f"{base}__{called}"] if re.fullmatch(r"[A-Za-z0-9_]+", called) else []
    names += [f"{base}__{n}" for n in range(1, len(taken) + 2)]
    return Word(next(name for name in names if name.casefold() not in taken), statement.name.span)


@dataclass(frozen=True, slots=True)
class _Cut:
    """A statement whose first `many` joins become the stream `name`; `relations` are all of its FROM."""

    statement: CreateQuery
    query: exp.Select
    many: int
    name: Word
    relations: tuple[Member, ...]
    own: WindowClause | None
    quiet: Faults

    @property
    def members(self) -> tuple[Member, ...]:
        """The relations of the join."""
        return self.relations[: self.many + 1]

    @property
    def _later(self) -> list[exp.Join]:
        return list(self.query.args["joins"][self.many :])

    @property
    def _time(self) -> tuple[Member, str] | None:
        """A relation whose rows are always there and have an event time, and its column: that of the next join's bound,
        else the first.
        """
        joins = self.query.args["joins"][: self.many]
        streams = [m for m in self.members if m.relation.origin == "stream" and m.relation.carries]
        sides = {join.side.lower() for join in joins}
        if any(join.method for join in joins) or sides == {"", "left"} or sides == {"left"}:
            kept = streams[:1]
        else:
            kept = streams if sides == {""} else streams[1:2] if sides == {"right"} else []
        timed = [(m, c) for m in kept for c in m.relation.columns if m.relation.is_time(c)]
        timed.sort(key=lambda one: not self._bounds(one[0]))
        return timed[0] if timed and self.own is None else None

    def _bounds(self, member: Member) -> bool:
        """Whether the next join says how far its times may be from those of the relation."""
        for join, right in zip(self._later[:1], self.relations[self.many + 1 :], strict=False):
            pair = Pair(member, right, Scope(self.relations), self.quiet)
            conditions = (join.args.get("on"), join.args.get("match_condition"))
            return any(bound_of(one, pair) != Bound() for one in conditions)
        return False

    @property
    def _used(self) -> dict[str, tuple[str, ...]]:
        """The columns that are named above the join, by their relation's alias."""
        named = {
            (column.table.casefold(), column.name.casefold())
            for part in _above(self.query, self._later)
            for column in part.find_all(exp.Column)
        }
        found = {
            m.alias: tuple(
                c
                for c in m.relation.columns
                if ("", c.casefold()) in named or (m.alias.casefold(), c.casefold()) in named
            )
            for m in self.members
        }
        if not any(found.values()):
            first = self.members[0]
            found[first.alias] = first.relation.columns[:1]
        return {alias: columns for alias, columns in found.items() if columns}

    @property
    def _merged(self) -> frozenset[str]:
        """The columns of USING, which stand for the left one (folded)."""
        joins = self.query.args["joins"][: self.many]
        return frozenset(one.name.casefold() for join in joins for one in join.args.get("using") or [])

    # ---- the join ----
    def join(self) -> CreateQuery:
        """CREATE STREAM name AS the join."""
        shown, old = self._shown(), self.query.copy()
        query = exp.Select(expressions=[self._placed(exp.alias_(node, name)) for name, node in shown])
        keys = ["with_", "from_", "query_options", *([] if self._later else ["where"])]
        for key in keys:
            query.set(key, old.args.get(key))
        query.set("joins", old.args["joins"][: self.many])
        query.set("stream_window", self.own)
        query.meta.update(old.meta)
        text = _Text(self.statement.text)
        items = ", ".join(f"{spark_sql(node)} AS {quoted(name)}" for name, node in shown)
        parts = [text.front, f"SELECT {items}", text.joined(0, self.many)]
        parts += [] if self._later else [text.of("WHERE")]
        parts += [text.of("WINDOW") if self.own is not None else "", text.of("WITH")]
        whole = " ".join(part for part in parts if part)
        return CreateQuery("stream", self.name, (), query, whole, self.statement.span)

    def _shown(self) -> list[tuple[str, exp.Expr]]:
        found: list[tuple[str, exp.Expr]] = []
        for alias, columns in self._used.items():
            fields = [part for c in columns for part in (exp.Literal.string(c), column_node(c, alias))]
            found.append((alias, exp.Anonymous(this="named_struct", expressions=fields)))
        if self._time is not None:
            member, column = self._time
            found.append((TIME, column_node(column, member.alias)))
        if self.own is not None:
            found.append((BORDER, column_node("window_start")))
        return found

    def _placed(self, node: exp.Expr) -> exp.Expr:
        """The node, every part of it where the statement's name stands."""
        for part in node.walk():
            part.meta.update(start=self.name.span[0], end=self.name.span[1] - 1)
        return node

    # ---- what reads it ----
    def reader(self) -> CreateQuery:
        """The statement, reading the stream instead of the join."""
        query = self.query.copy()
        table = self._placed(exp.Table(this=exp.to_identifier(self.name.text)))
        table.meta.update(members=tuple(self._seen()), merged=self._merged)
        query.set("from_", exp.From(this=table))
        query.set("joins", query.args["joins"][self.many :] or None)
        query.set("query_options", None)
        if not self._later:
            query.set("where", None)
        clause: WindowClause | None = query.args.get("stream_window")
        if self.own is not None and clause is not None:
            query.set("stream_window", replace(clause, time=self._placed(column_node(BORDER))))
        return replace(self.statement, query=query, text=self._reader_text())

    def _seen(self) -> Iterator[Member]:
        """The relations as columns of the stream: one of them has the event time of its rows."""
        timed = self._time[0] if self._time is not None else None
        for member in self.members:
            its = member is timed
            yield replace(
                member,
                relation=replace(
                    member.relation,
                    origin="stream" if its or (timed is None and member is self.members[0]) else "table",
                    times=member.relation.times if its else frozenset(),
                    carries=its,
                    direct=False,
                    holder=self.name.text,
                ),
            )
        if self.own is not None:
            yield Member("", Relation(self.members[0].relation.node, (BORDER,), origin="table"))

    def _reader_text(self) -> str:
        text, name = _Text(self.statement.text), quoted(self.name.text)
        used = self._used
        aliases = [quoted(alias) for alias in used]
        columns = [(alias, c) for alias, columns in used.items() for c in columns]
        several = Counter(c.casefold() for _, c in columns)
        first = {c.casefold(): alias for alias, c in reversed(columns)}
        bare = [
            f"{quoted(alias)}.{quoted(c)} AS {quoted(c)}"
            for alias, c in columns
            if several[c.casefold()] == 1 or (c.casefold() in self._merged and first[c.casefold()] == alias)
        ]
        border = [BORDER] if self.own is not None else []
        source = f"FROM (SELECT {', '.join([*aliases, *bare, *border])} FROM {name}) AS {name}"
        parts = [text.front, text.items, source, text.joined(self.many, len(self.query.args["joins"]))]
        parts += [text.of("WHERE")] if self._later else []
        window = text.of("WINDOW")
        if self.own is not None:
            window = window.replace("(", f"({BORDER}, ", 1)
        rest = {"WINDOW": window}
        parts += [rest.get(key, text.of(key)) for key in text.order if key not in ("FROM", "WHERE", "WITH")]
        return " ".join(part for part in parts if part)


class _Text:
    """A SELECT's text by its clauses, each with its word: `front` is its WITH, `items` its SELECT list."""

    def __init__(self, text: str) -> None:
        self._text = text
        depth, self._starts, self._joins = 0, dict[str, int](), list[int]()
        begin, last = -1, 0
        for token in tokens(text):
            depth -= token.token_type == TokenType.R_PAREN
            word = " ".join(token.text.upper().split())
            if depth == 0 and begin < 0 and word == "SELECT":
                begin = token.start
            elif depth == 0 and begin >= 0 and word in _CLAUSES and token.token_type != TokenType.IDENTIFIER:
                self._starts.setdefault(word, token.start)
            if depth == 0 and word in (*_JOIN_WORDS, "JOIN"):
                first = last if last > 0 else token.start
                if word == "JOIN":
                    self._joins.append(first)
                last = 0 if word == "JOIN" else first
            elif word != "JOIN":
                last = 0
            depth += token.token_type == TokenType.L_PAREN
        self.front, self._begin = text[:begin].strip(), begin

    @property
    def order(self) -> list[str]:
        """The clauses as they are written."""
        return sorted(self._starts, key=lambda key: self._starts[key])

    @property
    def items(self) -> str:
        return self._text[self._begin : self._starts["FROM"]].strip()

    def of(self, clause: str) -> str:
        """A clause with its word; '' where there is none."""
        if clause not in self._starts:
            return ""
        start = self._starts[clause]
        stop = min((one for one in self._starts.values() if one > start), default=len(self._text))
        return self._text[start:stop].strip()

    def joined(self, first: int, stop: int) -> str:
        """FROM up to its join `stop` where `first` is 0, else the joins from `first` to before `stop`."""
        start = self._starts["FROM"]
        end = start + len(self.of("FROM"))
        borders = [start, *self._joins, end]
        if first:
            return self._text[borders[first + 1] if first + 1 < len(borders) else end : end].strip()
        return self._text[start : borders[stop + 1] if stop + 1 < len(borders) else end].strip()
