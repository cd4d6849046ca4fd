"""The text of a pipeline, with `${NAME}` filled in, and the way back from any place in it to the file.

Offsets count characters of the *expanded* text; a Place counts lines and columns of the file as the
user wrote it. Pure; the environment is read by the caller.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.errors import Place, Refused, RefusedTogether, nearest

Span = tuple[int, int]  # first character and the one after the last, in the expanded text

_PIECES = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<quoted>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")|(?P<bare>\$\{\w+\})",
    re.DOTALL,
)
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class NotYet(Refused):
    """The language has it, this version can't run it; the message says what."""


class NotYetTogether(RefusedTogether, NotYet):
    """Several refusals of one file, and each of them will fall with a later version."""


@dataclass(frozen=True, slots=True)
class Source:
    """A pipeline's file: `text` as written, `expanded` as compiled.

    `starts[i]` is the offset in `expanded` where the i-th stretch begins, `origins[i]` where it comes
    from in `text`, and `fixed[i]` says that the whole stretch stands for one `${NAME}`.
    """

    text: str
    expanded: str
    starts: tuple[int, ...] = (0,)
    origins: tuple[int, ...] = (0,)
    fixed: tuple[bool, ...] = (False,)

    def origin(self, offset: int) -> int:
        """The offset in the file of an offset in the expanded text."""
        index = max(0, bisect_right(self.starts, offset) - 1)
        step = 0 if self.fixed[index] else offset - self.starts[index]
        return min(self.origins[index] + step, len(self.text))

    def place(self, span: Span) -> Place:
        """Line, column and length of a span; the length ends with its line."""
        start, end = self.origin(span[0]), self.origin(max(span[0], span[1] - 1)) + 1
        line = self.text.count("\n", 0, start) + 1
        begin = self.text.rfind("\n", 0, start) + 1
        newline = self.text.find("\n", start)
        end = min(end, newline if newline >= 0 else len(self.text))
        return Place(line=line, column=start - begin + 1, length=max(1, end - start))

    def refused(self, message: str, span: Span, hint: str = "") -> Refused:
        """The refusal that points at `span`."""
        return Refused(message, hint=hint, place=self.place(span), text=self.text)

    def not_yet(self, what: str, span: Span, hint: str = "") -> NotYet:
        """The refusal of something that a later version will run."""
        message = f"not supported yet: {what}"
        return NotYet(
            message, hint=hint or "planned for a later version", place=self.place(span), text=self.text
        )


def expand(text: str, variables: Mapping[str, str]) -> Source:
    """`text` with each `${NAME}` outside comments replaced; inside quotes the value is escaped.

    Raises Refused (or several together) where a variable is not set.
    """
    pieces, starts, origins, fixed = [], [0], [0], [False]
    position, length = 0, 0
    missing: list[Refused] = []
    for found, escape in _variables(text):
        name = found.group(1)
        if name not in variables:
            missing.append(_unset(text, found, variables))
            continue
        value = variables[name]
        value = re.sub(r"(['\"\\])", r"\\\1", value) if escape else value
        pieces += [text[position : found.start()], value]
        length += found.start() - position
        starts += [length, length + len(value)]
        origins += [found.start(), found.end()]
        fixed += [True, False]
        length += len(value)
        position = found.end()
    report(missing)
    expanded = "".join([*pieces, text[position:]])
    return Source(text, expanded, tuple(starts), tuple(origins), tuple(fixed))


def report(errors: list[Refused]) -> None:
    """Raise what was found: nothing, the one refusal, or all of them together in file order."""
    if not errors:
        return
    if len(errors) == 1:
        raise errors[0]
    ordered = sorted(
        errors, key=lambda error: (error.place.line, error.place.column) if error.place else (0, 0)
    )
    later = all(isinstance(error, NotYet) for error in ordered)
    raise NotYetTogether(ordered) if later else RefusedTogether(ordered)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The hint with the nearest known word; '' where none is near."""
    near = nearest(word, known)
    return f"did you mean {near}?" if near else ""


def _variables(text: str) -> list[tuple[re.Match[str], bool]]:
    found: list[tuple[re.Match[str], bool]] = []
    for piece in _PIECES.finditer(text):
        if piece.lastgroup == "comment":
            continue
        inside = _VARIABLE.finditer(text, piece.start(), piece.end())
        found += [(match, piece.lastgroup == "quoted") for match in inside]
    return found


def _unset(text: str, found: re.Match[str], variables: Mapping[str, str]) -> Refused:
    name = found.group(1)
    near = nearest(name, variables)
    hint = f"did you mean ${{{near}}}?" if near else f"give it with --set {name}=… or in the environment"
    return Source(text, text).refused(f"the variable ${{{name}}} is not set", found.span(), hint)
