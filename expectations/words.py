"""A SQL text as words with their places, and edits of the text by place.

Only the tokenizer of sqlglot is used; nothing is parsed into trees and nothing is generated, so that what
the gate hands to Spark is the user's own text but for the marked edits. Pure: no Spark, no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import Token, TokenType

QUOTED = (TokenType.IDENTIFIER,)
STRINGS = (TokenType.STRING, TokenType.RAW_STRING, TokenType.NATIONAL_STRING)


class _Tokenizer(Spark.Tokenizer):
    """Spark 4 reads '' inside quotes as one quote."""

    STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012


class _Dialect(Spark):
    """Spark's words, quotes doubled as Spark 4 has them."""

    Tokenizer = _Tokenizer


@dataclass(frozen=True, slots=True)
class Word:
    """One token: `text[start:end]` of the statement, and how many parentheses are open around it.

    `says` is the word in upper case; '' for quoted names and strings, which never are keywords.
    `name` is the name it may be, without quotes and in lower case; '' for strings and signs.
    """

    start: int
    end: int
    depth: int
    says: str
    name: str


@dataclass(frozen=True, slots=True)
class Edit:
    """`text[start:end]` becomes `new`."""

    start: int
    end: int
    new: str


def read(text: str) -> tuple[Word, ...]:
    """The words of a text; comments and white space lie between them."""
    return tuple(_with_depth(_Dialect().tokenize(text), text))


def _with_depth(tokens: Iterable[Token], text: str) -> Iterator[Word]:
    depth = 0
    for token in tokens:
        start, end = token.start, token.end + 1
        written = text[start:end]
        if token.token_type == TokenType.R_PAREN:
            depth -= 1
        if token.token_type in STRINGS:
            yield Word(start, end, depth, "", "")
        elif token.token_type in QUOTED:
            yield Word(start, end, depth, "", token.text.lower())
        else:
            says = " ".join(written.upper().split())
            yield Word(start, end, depth, says, says.lower() if (says[0].isalpha() or says[0] == "_") else "")
        if token.token_type == TokenType.L_PAREN:
            depth += 1


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits made. Edits at one place keep their order; they must not overlap."""
    parts: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if edit.start < at:
            raise ValueError(f"two edits overlap at {edit.start}")
        parts += [text[at : edit.start], edit.new]
        at = edit.end
    return "".join([*parts, text[at:]])


def closing(words: Sequence[Word], opening: int) -> int:
    """The index of the parenthesis that closes the one at `opening`."""
    depth = words[opening].depth
    for index in range(opening + 1, len(words)):
        if words[index].says == ")" and words[index].depth == depth:
            return index
    raise ValueError("a parenthesis is never closed")


def split(words: Sequence[Word], first: int, stop: int, sign: str = ",") -> list[tuple[int, int]]:
    """The stretches (first, stop) of `words[first:stop]` between the signs that stand outside parentheses."""
    if first >= stop:
        return []
    depth = words[first].depth
    cuts = [i for i in range(first, stop) if words[i].says == sign and words[i].depth == depth]
    bounds = [first - 1, *cuts, stop]
    return [(left + 1, right) for left, right in pairwise(bounds)]
