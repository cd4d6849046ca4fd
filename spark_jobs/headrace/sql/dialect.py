"""Headrace's dialect: Spark's, plus CREATE STREAM, WATERMARK FOR, WINDOW …, ROWS WINDOW and EMIT.

Rules: a function call stays exactly as it was written (sqlglot's knowledge of functions is switched
off, so that nothing is translated on the way from Spark SQL to Spark SQL); every syntax error carries
the offset of the token it is about. Never resolves a name, never looks at a catalog.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel, ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from headrace.sql.catalog import NESTED_TYPES, SIMPLE_TYPES
from headrace.sql.source import Span, did_you_mean

EMIT = TokenType.PREWHERE  # a token type that Spark's dialect does not use

# Calls with a syntax of their own; every other call is kept as name and arguments.
_WITH_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "POSITION", "OVERLAY", "SUBSTRING", "SUBSTR")
_UNIT_FIRST = ("DATEADD", "DATE_ADD", "DATEDIFF", "DATE_DIFF", "TIMESTAMPADD", "TIMESTAMPDIFF")
WINDOW_KINDS = {
    "TUMBLING": "tumbling",
    "SLIDING": "sliding",
    "HOPPING": "sliding",
    "CUMULATE": "cumulate",
    "SESSION": "session",
}
_CLAUSES = ("FROM", "WHERE", "GROUP", "HAVING", "WINDOW", "EMIT", "JOIN", "UNION", "SELECT")
TABLE_FUNCTIONS = {"TUMBLE": "tumbling", "HOP": "sliding", "CUMULATE": "cumulate", "SESSION": "session"}


class SyntaxFault(ParseError):
    """A syntax error and the span of the token it is about."""

    def __init__(self, message: str, span: Span, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint


@dataclass(frozen=True, slots=True)
class WindowClause:
    """A window as written: `kind`, its intervals by role (size, slide, step, gap, offset), zone, time."""

    kind: str
    parts: dict[str, exp.Expr]
    zone: str
    time: exp.Expr | None
    span: Span
    zone_span: Span = (0, 0)


@dataclass(frozen=True, slots=True)
class Emit:
    """EMIT CHANGES or EMIT FINAL."""

    mode: str
    span: Span


class WindowTable(exp.Expression):
    """`TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), …))`; `this` is the table, the clause hangs in `meta`."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "alias": False, "joins": False, "pivots": False}


class RowsWindow(exp.Expression):
    """`agg(x) OVER (ROWS WINDOW BUFFER n ROWS PARTITION BY k ORDER BY ts)`."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "rows": True,
        "partition_by": False,
        "order": False,
    }


def token_span(token: Token) -> Span:
    """The characters that a token covers."""
    return (token.start, token.end + 1)


def query_span(query: exp.Expr) -> Span:
    """The characters of a query that was read from text, its WITH and its EMIT included."""
    return (query.meta["begin"], query.meta["stop"])


class HeadraceParser(SparkParser):
    """Spark's parser with our clauses; statements are read by `parse.py` through the methods below."""

    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        name: SparkParser.FUNCTION_PARSERS[name] for name in _WITH_SYNTAX
    }
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]
    }
    QUERY_MODIFIER_PARSERS: ClassVar[dict[TokenType, Callable[..., Any]]] = {
        **SparkParser.QUERY_MODIFIER_PARSERS,
        TokenType.WINDOW: lambda self: ("stream_window", self.read_window()),
        TokenType.WITH: lambda self: ("query_options", self.read_query_options()),
        EMIT: lambda self: ("emit", self.read_emit()),
    }
    QUERY_MODIFIER_TOKENS: ClassVar[set[TokenType]] = set(QUERY_MODIFIER_PARSERS)

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Every syntax error stops the statement at once, with the place of its token."""
        ended = not token and not self._curr
        token = token or self._curr or self._prev
        span = token_span(token) if token else (0, 0)
        message, hint = _told(message, token.text if token and not ended else "")
        raise SyntaxFault(message, span, hint)

    def _parse_select_query(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        """A query notes where its text begins and stops (`query_span`); so does the first one of a UNION."""
        first = self._curr
        query = super()._parse_select_query(*args, **kwargs)
        if isinstance(query, exp.Query):
            query.meta.update(begin=first.start, stop=self._prev.end + 1)
            left = query
            while isinstance(left, exp.SetOperation):
                left = left.this
                left.meta.setdefault("begin", first.start)
        return query

    def parse_set_operation(
        self, this: exp.Expr | None, *args: Any, **kwargs: Any
    ) -> exp.SetOperation | None:
        """What stands before a UNION stops here."""
        if isinstance(this, exp.Query):
            this.meta.setdefault("stop", self._prev.end + 1)
        return super().parse_set_operation(this, *args, **kwargs)

    def _parse_table_hints(self) -> None:
        return None  # WITH (…) behind a table is the query's options here

    def _parse_function_call(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        token = self._curr
        result = super()._parse_function_call(*args, **kwargs)
        if isinstance(result, exp.Anonymous) and result.name.upper() in _UNIT_FIRST:
            _unit_word(result)
        if isinstance(result, exp.Expr) and token and "start" not in result.meta:
            result.update_positions(token)
        return result

    def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        is_call = self._curr.token_type == TokenType.TABLE and self._next.token_type == TokenType.L_PAREN
        if not is_call:
            return super()._parse_table(*args, **kwargs)
        table = self.read_window_table()
        alias = self._parse_table_alias(alias_tokens=self.TABLE_ALIAS_TOKENS)
        if alias:
            table.set("alias", alias)
        return table

    def _parse_window(self, this: exp.Expr | None, alias: bool = False) -> exp.Expr | None:
        if self._match_pair(TokenType.FILTER, TokenType.L_PAREN):
            self._match(TokenType.WHERE)
            this = exp.Filter(this=this, expression=self._parse_where(skip_where_token=True))
            self._match_r_paren()
        over = self._curr
        if over.token_type == TokenType.OVER and self._next.token_type == TokenType.L_PAREN:
            index = self._index
            self._advance(2)
            if self._match_text_seq("ROWS", "WINDOW"):
                return self._read_rows_window(this, over)
            self._retreat(index)
        result = super()._parse_window(this, alias)
        if isinstance(result, exp.Window) and "start" not in result.meta:
            result.update_positions(over)
        return result

    def _read_rows_window(self, this: exp.Expr | None, over: Token) -> exp.Expr:
        self.expect_words("BUFFER")
        rows = self._parse_number()
        self.expect_words("ROWS")
        partition_by = self._parse_partition_by()
        order = self._parse_order()
        self._match_r_paren()
        node = RowsWindow(this=this, rows=rows, partition_by=partition_by, order=order)
        return node.update_positions(over)

    # ---- our clauses ------------------------------------------------------------------------
    def expect_words(self, *words: str) -> None:
        """The next tokens must be these words."""
        for word in words:
            if not self._match_text_seq(word):
                self.raise_error(f"expected {word}")

    def read_emit(self) -> Emit:
        """EMIT CHANGES | FINAL; the cursor is at EMIT."""
        start = self._curr.start
        self._advance()
        word = self._curr
        if not self._match_texts(("CHANGES", "FINAL")):
            hint = did_you_mean(word.text, ("CHANGES", "FINAL")) if word else ""
            span = token_span(word) if word else (start, start + 4)
            raise SyntaxFault("expected EMIT CHANGES or EMIT FINAL", span, hint)
        return Emit(word.text.lower(), (start, word.end + 1))

    def read_options(self) -> tuple[tuple[str, str, Span, Span], ...]:
        """`('key' = 'value', …)`: key, value and the spans of both."""
        found = []
        if not self._match(TokenType.L_PAREN):
            self.raise_error("expected ( after WITH")
        while not self._match(TokenType.R_PAREN):
            key = self._string("an option's name in quotes")
            if not self._match(TokenType.EQ):
                self.raise_error("expected = after the option's name")
            value = self._string("the option's value in quotes")
            found.append((key.text, value.text, token_span(key), token_span(value)))
            if not self._match(TokenType.COMMA) and self._curr.token_type != TokenType.R_PAREN:
                self.raise_error("expected , or ) after an option")
        return tuple(found)

    def read_query_options(self) -> tuple[tuple[str, str, Span, Span], ...] | None:
        """WITH ('join.type' = …) at the end of a query; None for any other WITH."""
        if self._next.token_type != TokenType.L_PAREN:
            self.raise_error(f"unexpected {self._curr.text!r}", self._curr)
        self._advance()
        return self.read_options()

    def read_window(self) -> WindowClause:
        """WINDOW kind(…) [OFFSET …] [TIME ZONE '…']; the cursor is at WINDOW."""
        start = self._curr.start
        self._advance()
        word = self._curr
        kind = WINDOW_KINDS.get(word.text.upper()) if word else None
        if kind is None:
            hint = did_you_mean(word.text, WINDOW_KINDS) or "TUMBLING, SLIDING, HOPPING, CUMULATE or SESSION"
            raise SyntaxFault("expected the kind of the window", token_span(word or self._prev), hint)
        self._advance()
        return self._window_body(kind, start, None)

    def read_window_table(self) -> WindowTable:
        """TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), …)); the cursor is at TABLE."""
        self._advance(2)
        word = self._curr
        kind = TABLE_FUNCTIONS.get(word.text.upper())
        if kind is None:
            hint = did_you_mean(word.text, TABLE_FUNCTIONS) or "TUMBLE, HOP, CUMULATE or SESSION"
            raise SyntaxFault(f"unknown table function {word.text}", token_span(word), hint)
        self._advance()
        if not self._match(TokenType.L_PAREN):
            self.raise_error("expected (")
        self.expect_words("TABLE")
        table = self._parse_table_parts()
        partition_by = self._keys_before("DESCRIPTOR")
        self.expect_words("DESCRIPTOR")
        if not self._match(TokenType.L_PAREN):
            self.raise_error("expected ( after DESCRIPTOR")
        time = self._parse_column()
        self._match_r_paren()
        self._match(TokenType.COMMA)
        # Flink's order: HOP(…, slide, size), CUMULATE(…, step, size)
        roles = {"sliding": ("slide", "size"), "cumulate": ("step", "size")}.get(kind, ("size",))
        clause = self._window_arguments(kind, word.start, time, roles)
        self._match_r_paren()
        node = WindowTable(this=table)
        node.update_positions(word)
        node.meta["clause"] = clause
        node.meta["partition_by"] = partition_by
        return node

    def _keys_before(self, word: str) -> list[exp.Expr]:
        """`PARTITION BY a, b,`, up to the argument that begins with `word`; none where it is left out."""
        found: list[exp.Expr] = []
        if self._match(TokenType.PARTITION_BY):
            found.append(cast(exp.Expr, self._parse_disjunction()))
        while self._match(TokenType.COMMA) and self._curr.text.upper() != word:
            found.append(cast(exp.Expr, self._parse_disjunction()))
        return found

    def _window_body(self, kind: str, start: int, time: exp.Expr | None) -> WindowClause:
        if not self._match(TokenType.L_PAREN):
            self.raise_error("expected ( after the kind of the window")
        roles = {"sliding": ("size", "slide"), "cumulate": ("step", "size")}.get(kind, ("size",))
        return self._window_arguments(kind, start, time, roles)

    def _window_arguments(
        self, kind: str, start: int, time: exp.Expr | None, roles: tuple[str, ...]
    ) -> WindowClause:
        parts: dict[str, exp.Expr] = {}
        zone: Token | None = None
        while not self._match(TokenType.R_PAREN):
            if self._match_text_seq("TIME", "ZONE"):
                zone = self._string("a time zone in quotes")
            elif time is None and not parts and not self._at_interval():
                time = self._parse_disjunction()
            else:
                self._window_part(parts, roles)
            if not self._match(TokenType.COMMA) and self._curr.token_type != TokenType.R_PAREN:
                self.raise_error("expected , or ) in the window")
        end = self._prev.end + 1
        while True:  # OFFSET and TIME ZONE may stand behind the parentheses
            if self._curr.token_type == TokenType.OFFSET and self._next.token_type == TokenType.INTERVAL:
                self._window_part(parts, ())
            elif self._match_text_seq("TIME", "ZONE"):
                zone = self._string("a time zone in quotes")
            else:
                break
        left = [role.upper() for role in roles if role not in parts]
        if left:
            raise SyntaxFault(f"the window lacks its {' and its '.join(left)}", (start, end))
        zone_span = token_span(zone) if zone else (0, 0)
        return WindowClause(kind, parts, zone.text if zone else "", time, (start, end), zone_span)

    def _at_interval(self) -> bool:
        return self._curr.token_type == TokenType.INTERVAL or self._next.token_type == TokenType.INTERVAL

    def _window_part(self, parts: dict[str, exp.Expr], roles: tuple[str, ...]) -> None:
        """One interval, by its word (SIZE, SLIDE, STEP, GAP, OFFSET) or by its place."""
        start = self._curr
        role = self._window_role()
        if not role and start.token_type == TokenType.INTERVAL:
            role = next((one for one in (*roles, "offset") if one not in parts), "")
        if not role:
            self.raise_error(f"unexpected {start.text!r} in the window", start)
        if role in parts:
            self.raise_error(f"{role.upper()} is given twice", start)
        parts[role] = self._interval()

    def _window_role(self) -> str:
        if self._next.token_type != TokenType.INTERVAL:
            return ""
        for word in ("SIZE", "SLIDE", "STEP", "GAP", "OFFSET"):
            if self._curr.text.upper() == word:
                self._advance()
                return "size" if word == "GAP" else word.lower()
        return ""

    def _interval(self) -> exp.Expr:
        token = self._curr
        found = self._parse_interval()
        if found is None:
            self.raise_error("expected an INTERVAL", token)
        node = cast(exp.Expr, found)
        node.update_positions(token)
        node.meta["end"] = self._prev.end
        return node

    def _string(self, what: str) -> Token:
        token = self._curr
        if not self._match(TokenType.STRING):
            self.raise_error(f"expected {what}")
        return token


class Headrace(Spark):
    """The dialect. Parse with it, and generate text for Spark with `spark_sql`."""

    class Tokenizer(Spark.Tokenizer):
        """Spark 4 reads '' inside quotes as one quote."""

        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            **Spark.Tokenizer.KEYWORDS,
            "EMIT": EMIT,
            "MATCH_CONDITION": TokenType.MATCH_CONDITION,
        }

    Parser = HeadraceParser


_DIALECT = Headrace()


def tokens(text: str) -> list[Token]:
    """All tokens of a text. Raises sqlglot's TokenError."""
    return _DIALECT.tokenize(text)


def parser() -> HeadraceParser:
    """A fresh parser that stops at the first error of a statement."""
    return HeadraceParser(dialect=_DIALECT, error_level=ErrorLevel.IMMEDIATE)


def spark_sql(node: exp.Expr) -> str:
    """The expression as Spark SQL text, on one line, without comments."""
    if any(isinstance(part, RowsWindow) for part in node.walk()):
        return "NULL"  # refused, or read apart
    return _DIALECT.generate(node, comments=False)


def _unit_word(call: exp.Anonymous) -> None:
    """`TIMESTAMPDIFF(SECOND, a, b)`: the unit is a word and no column."""
    first = call.expressions[0] if len(call.expressions) == 3 else None
    if isinstance(first, exp.Column) and not first.table:
        first.replace(exp.Var(this=first.name.upper()))


def _told(message: str, word: str) -> tuple[str, str]:
    """sqlglot's message in our words, and a hint; `word` is '' where the statement ended too early."""
    if "Expected TYPE" in message and word:
        return f"unknown type {word}", did_you_mean(word, (*SIMPLE_TYPES, *NESTED_TYPES))
    if "Unexpected token" in message:
        return f"unexpected {word!r}", did_you_mean(word, _CLAUSES) if word.isalpha() else ""
    if "SENTINEL" in message or message.startswith("Required keyword"):
        return ("the statement ends too early" if not word else f"something is missing before {word!r}"), ""
    return message[:1].lower() + message[1:], ""
