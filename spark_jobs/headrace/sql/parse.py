"""The text of a pipeline -> its statements, as frozen trees over sqlglot's expressions.

Rules: statements are cut at `;`, and each is read alone, so that every statement with a syntax error
is reported; all spans are offsets of the expanded text. Nothing is resolved here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from headrace.errors import Refused, nearest
from headrace.sql.catalog import NESTED_TYPES, SIMPLE_TYPES, TYPE_NUMBERS
from headrace.sql.dialect import HeadraceParser, SyntaxFault, parser, token_span, tokens
from headrace.sql.source import Source, Span, did_you_mean

Option = tuple[str, str, Span, Span]  # key, value, and the spans of both


class UnknownType(SyntaxFault):
    """A column's type is no type; the reader stands behind its word."""


@dataclass(frozen=True, slots=True)
class Word:
    """A name as written and where it stands."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Set:
    """SET 'key' = 'value'."""

    key: Word
    value: Word


@dataclass(frozen=True, slots=True)
class ColumnDef:
    """A column of CREATE STREAM or TABLE: a type, or the expression that computes it."""

    name: Word
    type: str
    not_null: bool = False
    expression: exp.Expr | None = None


@dataclass(frozen=True, slots=True)
class WatermarkDef:
    """WATERMARK FOR column AS expression."""

    column: Word
    expression: exp.Expr
    span: Span


@dataclass(frozen=True, slots=True)
class CreateSource:
    """CREATE STREAM|TABLE name (columns) [WITH …]."""

    form: str  # stream | table
    name: Word
    columns: tuple[ColumnDef, ...]
    watermarks: tuple[WatermarkDef, ...]
    primary_key: tuple[Word, ...]
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class CreateQuery:
    """CREATE VIEW|TABLE|STREAM name [WITH …] AS SELECT …; `text` is the query's own text."""

    form: str  # view | table | stream
    name: Word
    options: tuple[Option, ...]
    query: exp.Expr
    text: str
    span: Span


Statement = Set | CreateSource | CreateQuery


@dataclass(frozen=True, slots=True)
class Read:
    """The statements that could be read, a refusal for each other one, and the names those would declare."""

    statements: tuple[Statement, ...]
    errors: list[Refused]
    unread: tuple[str, ...] = ()


def statements(source: Source) -> Read:
    """Read a pipeline, statement by statement."""
    found: list[Statement] = []
    errors: list[Refused] = []
    unread: list[str] = []
    try:
        chunks = _chunks(tokens(source.expanded))
    except TokenError as error:
        return Read((), [_token_refused(source, error)])
    for chunk in chunks:
        faults: list[SyntaxFault] = []
        try:
            found.append(_statement(source, chunk, faults))
        except SyntaxFault as fault:
            faults.append(fault)
            unread += _declared_name(chunk)
        except ParseError as error:
            faults.append(SyntaxFault(str(error).splitlines()[0], token_span(chunk[0])))
            unread += _declared_name(chunk)
        errors += [source.refused(fault.message, fault.span, fault.hint) for fault in faults]
    return Read(tuple(found), errors, tuple(unread))


def _declared_name(chunk: list[Token]) -> list[str]:
    words = [token.text.upper() for token in chunk[:2]]
    declares = len(chunk) > 2 and words[0] == "CREATE" and words[1] in ("STREAM", "TABLE", "VIEW")
    return [chunk[2].text] if declares else []


def _chunks(all_tokens: list[Token]) -> list[list[Token]]:
    chunks: list[list[Token]] = [[]]
    for token in all_tokens:
        if token.token_type == TokenType.SEMICOLON:
            chunks.append([])
        else:
            chunks[-1].append(token)
    return [chunk for chunk in chunks if chunk]


def _token_refused(source: Source, error: TokenError) -> Refused:
    text = source.expanded
    message = str(error).splitlines()[0]
    for quote in ("'", '"', "`"):
        if text.count(quote) % 2:
            start = text.rfind(quote)
            return source.refused(f"a quote {quote} is not closed", (start, start + 1))
    return source.refused(message, (len(text) - 1, len(text)))


def _statement(source: Source, chunk: list[Token], faults: list[SyntaxFault]) -> Statement:
    """Read one statement; `faults` gets what is wrong in it and leaves the rest legible: types."""
    reading = parser()
    holder: list[Statement] = []

    def read(self: Any) -> exp.Expr:
        holder.append(_read(cast(HeadraceParser, self), source, chunk, faults))
        return exp.Null()

    reading._parse(parse_method=read, raw_tokens=chunk, sql=source.expanded)
    return holder[0]


def _read(
    reading: HeadraceParser, source: Source, chunk: list[Token], faults: list[SyntaxFault]
) -> Statement:
    if reading._match(TokenType.SET):
        return _read_set(reading)
    if not reading._match(TokenType.CREATE):
        word = chunk[0]
        hint = "a pipeline has SET, CREATE STREAM, CREATE TABLE and CREATE VIEW"
        if word.text.upper() in ("SELECT", "WITH"):
            hint = f"write CREATE TABLE name AS {word.text.upper()} …"
        raise SyntaxFault(f"unknown statement {word.text!r}", token_span(word), hint)
    word = reading._curr
    form = word.text.lower() if word else ""
    if form not in ("stream", "table", "view"):
        near = nearest(form, ("STREAM", "TABLE", "VIEW"))
        hint = f"did you mean {near}?" if near else "CREATE STREAM, CREATE TABLE or CREATE VIEW"
        raise SyntaxFault("expected STREAM, TABLE or VIEW after CREATE", token_span(word or chunk[-1]), hint)
    reading._advance()
    name = _name(reading, f"the name of the {form}")
    if form != "view" and reading._match(TokenType.L_PAREN):
        return _read_source(reading, form, name, faults)
    return _read_query(reading, source, form, name)


def _read_set(reading: HeadraceParser) -> Set:
    key = reading._string("a setting's name in quotes")
    if not reading._match(TokenType.EQ):
        reading.raise_error("expected = after the setting's name")
    value = reading._string("the setting's value in quotes")
    return Set(Word(key.text, token_span(key)), Word(value.text, token_span(value)))


def _read_query(reading: HeadraceParser, source: Source, form: str, name: Word) -> CreateQuery:
    options: tuple[Option, ...] = ()
    if form != "view" and reading._match(TokenType.WITH):
        options = reading.read_options()
    if not reading._match(TokenType.ALIAS):
        reading.raise_error(f"expected {'AS' if form == 'view' else '( or AS'} after the name")
    first = reading._curr
    query = reading._parse_ddl_select()
    if query is None:
        hint = did_you_mean(first.text, ("SELECT", "WITH")) if first else ""
        raise SyntaxFault("expected a SELECT after AS", token_span(first or reading._prev), hint)
    last = reading._prev
    span = (first.start, last.end + 1)
    return CreateQuery(form, name, options, query, source.expanded[span[0] : span[1]], span)


def _read_source(reading: HeadraceParser, form: str, name: Word, faults: list[SyntaxFault]) -> CreateSource:
    columns: list[ColumnDef] = []
    watermarks: list[WatermarkDef] = []
    primary_key: tuple[Word, ...] = ()
    while not reading._match(TokenType.R_PAREN):
        if reading._curr.text.upper() == "WATERMARK" and reading._next.token_type == TokenType.FOR:
            watermarks.append(_read_watermark(reading))
        elif reading._match(TokenType.PRIMARY_KEY):
            primary_key = _read_names(reading)
        else:
            columns.append(_read_column(reading, faults))
        if not reading._match(TokenType.COMMA) and reading._curr.token_type != TokenType.R_PAREN:
            reading.raise_error("expected , or ) after a column")
    options = reading.read_options() if reading._match(TokenType.WITH) else ()
    return CreateSource(form, name, tuple(columns), tuple(watermarks), primary_key, options)


def _read_watermark(reading: HeadraceParser) -> WatermarkDef:
    start = reading._curr.start
    reading._advance(2)
    column = _name(reading, "the column of the watermark")
    if not reading._match(TokenType.ALIAS):
        reading.raise_error("expected AS after the watermark's column")
    expression = _expression(reading, "the watermark's expression")
    return WatermarkDef(column, expression, (start, reading._prev.end + 1))


def _read_column(reading: HeadraceParser, faults: list[SyntaxFault]) -> ColumnDef:
    name = _name(reading, "the name of a column")
    if reading._match(TokenType.ALIAS):
        expression = _expression(reading, "an expression after AS")
        return ColumnDef(name, "", _not_null(reading), expression)
    try:
        kind = read_type(reading)
    except UnknownType as fault:
        faults.append(fault)
        kind = "STRING"  # stands in, so that the other columns and options are read
        _numbers(reading)
    return ColumnDef(name, kind, _not_null(reading))


def _not_null(reading: HeadraceParser) -> bool:
    if not reading._match(TokenType.NOT):
        return False
    if not reading._match(TokenType.NULL):
        reading.raise_error("expected NULL after NOT")
    return True


def _expression(reading: HeadraceParser, what: str) -> exp.Expr:
    token = reading._curr
    found = reading._parse_disjunction()
    if found is None:
        reading.raise_error(f"expected {what}", token)
    return cast(exp.Expr, found)


def _name(reading: HeadraceParser, what: str) -> Word:
    token = reading._curr
    if not token or token.token_type in (TokenType.STRING, TokenType.NUMBER) or not _is_word(token):
        reading.raise_error(f"expected {what}")
    reading._advance()
    return Word(token.text, token_span(token))


def _is_word(token: Token) -> bool:
    return token.token_type == TokenType.IDENTIFIER or token.text[:1].isalpha() or token.text[:1] == "_"


def _read_names(reading: HeadraceParser) -> tuple[Word, ...]:
    if not reading._match(TokenType.L_PAREN):
        reading.raise_error("expected ( after PRIMARY KEY")
    names = [_name(reading, "a key column")]
    while reading._match(TokenType.COMMA):
        names.append(_name(reading, "a key column"))
    if not reading._match(TokenType.R_PAREN):
        reading.raise_error("expected ) after the key columns")
    return tuple(names)


def read_type(reading: HeadraceParser) -> str:
    """A type as Spark's DDL text, in Spark's own words; unknown words are refused with the nearest one."""
    token = reading._curr
    if not token or not _is_word(token):
        reading.raise_error("expected a type")
    word = token.text.upper()
    if word in NESTED_TYPES:
        reading._advance()
        return _nested(reading, word)
    kind = SIMPLE_TYPES.get(word)
    if kind is None:
        near = nearest(word, (*SIMPLE_TYPES, *NESTED_TYPES))
        reading._advance()
        hint = f"did you mean {near}?" if near else ""
        raise UnknownType(f"unknown type {token.text}", token_span(token), hint)
    reading._advance()
    numbers = _numbers(reading)
    allowed = TYPE_NUMBERS.get(kind, (0,))
    if len(numbers) not in allowed:
        raise SyntaxFault(
            f"the type {kind} takes {allowed[-1]} number(s), not {len(numbers)}", token_span(token)
        )
    return f"{kind}({', '.join(numbers)})" if numbers else kind


def _numbers(reading: HeadraceParser) -> list[str]:
    if not reading._match(TokenType.L_PAREN):
        return []
    numbers = []
    while True:
        token = reading._curr
        if not reading._match(TokenType.NUMBER):
            reading.raise_error("expected a number")
        numbers.append(token.text)
        if not reading._match(TokenType.COMMA):
            break
    if not reading._match(TokenType.R_PAREN):
        reading.raise_error("expected ) after the type's numbers")
    return numbers


def _nested(reading: HeadraceParser, word: str) -> str:
    if not reading._match(TokenType.LT):
        reading.raise_error(f"expected < after {word}")
    parts = []
    while True:
        if word == "STRUCT":
            field = _name(reading, "the name of a field")
            reading._match(TokenType.COLON)
            parts.append(f"{quoted(field.text)}: {read_type(reading)}")
        else:
            parts.append(read_type(reading))
        if not reading._match(TokenType.COMMA):
            break
    if not reading._match(TokenType.GT):
        reading.raise_error(f"expected > after the types of {word}")
    return f"{word}<{', '.join(parts)}>"


def quoted(name: str) -> str:
    """A name as Spark SQL reads it whatever it is: in backticks unless it is a plain word."""
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[:1].isdigit()
    return name if plain else "`" + name.replace("`", "``") + "`"
