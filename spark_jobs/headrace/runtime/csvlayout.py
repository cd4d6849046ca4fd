"""The header of CSV files: which column stands where, and lines of one layout rewritten in another.

All files of a stream are parsed by one list of names; a file whose header has another order or other columns
gets its lines rearranged, each field as it was written, quotes and all. Pure, the standard library alone: it
runs in Python workers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

ESCAPED = {r"\t": "\t", r"\0": "\0", r"\\": "\\"}
NO_RECORD = ""  # what a line becomes that does not fit its header: blank, so it is a bad record


@dataclass(frozen=True, slots=True)
class Dialect:
    """How fields are separated and quoted; Spark's options `sep`, `quote` and `escape`."""

    sep: str = ","
    quote: str = '"'
    escape: str = "\\"

    @property
    def field(self) -> re.Pattern[str]:
        """One field with the separator or the end of line behind it; its first group is the field as written."""
        sep = re.escape(self.sep)
        plain = f"(?:(?!{sep}).)*"
        if not self.quote:
            return re.compile(f"({plain})({sep}|$)", re.DOTALL)
        quote, escape = re.escape(self.quote), re.escape(self.escape)
        escaped = f"{escape}.|" if self.escape not in ("", self.quote) else ""
        inside = f"(?:{escaped}{quote}{quote}|(?!{quote}).)*"
        return re.compile(rf"(\s*{quote}{inside}(?:{quote}{plain}|$)|{plain})({sep}|$)", re.DOTALL)


def dialect_of(options: Mapping[str, str]) -> Dialect:
    """The dialect that Spark's reader options name."""
    sep = options.get("sep", options.get("delimiter", ","))
    return Dialect(ESCAPED.get(sep, sep), options.get("quote", '"')[:1], options.get("escape", "\\")[:1])


def fields(line: str, field: re.Pattern[str]) -> list[str]:
    """The fields of a line as they are written, by `Dialect.field`."""
    found, position = [], 0
    while match := field.match(line, position):
        found.append(match.group(1))
        if not match.group(2):
            break
        position = match.end()
    return found


def names_of(line: str, dialect: Dialect) -> list[str]:
    """The column names of a header line."""
    found = [field.strip() for field in fields(line, dialect.field)]
    quote = dialect.quote
    bare = [
        name[1:-1] if quote and len(name) > 1 and name[0] == quote == name[-1] else name for name in found
    ]
    return [name.replace(quote * 2, quote) if quote else name for name in bare]


def rearranging(
    own: Sequence[str], wanted: Sequence[str], declared: Sequence[str], dialect: Dialect
) -> Callable[[str], str] | None:
    """The function from a line under the header `own` to the same line under `wanted`; None: they are the same.

    A line with more or fewer fields than its header, and every line of a file that lacks a declared column,
    becomes NO_RECORD. Names differ by more than their letter case.
    """
    at = {name.casefold(): number for number, name in reversed(list(enumerate(own)))}
    order = [at.get(name.casefold()) for name in wanted]
    if order == list(range(len(own))):
        return None
    if not {name.casefold() for name in declared} <= set(at):
        return lambda _line: NO_RECORD
    pattern, count, sep = dialect.field, len(own), dialect.sep

    def rearranged(line: str) -> str:
        found = fields(line, pattern)
        if len(found) != count:
            return NO_RECORD
        return sep.join("" if place is None else found[place] for place in order)

    return rearranged
