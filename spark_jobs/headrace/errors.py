"""What can go wrong, and the exit code each kind has.

Every error says what, where and what to do: a message, an optional place in a SQL text and a hint.
The lowest layer of the house: it imports nothing of Headrace.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every door (SEMANTICS section 6)."""

    DONE = 0
    FAULT = 1  # worth a retry
    REFUSED = 2
    UNEQUAL = 3
    UNKNOWN = 4
    NOT_OWNER = 5


@dataclass(frozen=True, slots=True)
class Place:
    """A stretch of a SQL text: 1-based line and column, and how many characters to underline."""

    line: int
    column: int
    length: int = 1


class HeadraceError(Exception):
    """A fault that a new try may not meet (exit code 1)."""

    code = ExitCode.FAULT

    def __init__(self, message: str, *, hint: str = "", place: Place | None = None, text: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.place = place
        self.text = text

    def render(self, file: str = "") -> str:
        """The error as people read it: `file:line:column: message`, the line underlined, the hint."""
        lines = [f"{_position(file, self.place)}{self.message}"]
        if self.place and self.text:
            lines += _underlined(self.text, self.place)
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()


class Refused(HeadraceError):
    """What the user asked for can't be done as it stands; nothing was run (exit code 2)."""

    code = ExitCode.REFUSED


class RefusedTogether(Refused):
    """Several refusals of one file, reported together."""

    def __init__(self, errors: Iterable[Refused]) -> None:
        self.errors = tuple(errors)
        super().__init__(f"{len(self.errors)} errors")

    def render(self, file: str = "") -> str:
        return "\n\n".join(error.render(file) for error in self.errors)


class Unequal(HeadraceError):
    """The gate found a difference (exit code 3)."""

    code = ExitCode.UNEQUAL


class Unknown(HeadraceError):
    """The gate can't tell: the input is no longer there (exit code 4)."""

    code = ExitCode.UNKNOWN


class NotOwner(HeadraceError):
    """Another run owns the pipeline (exit code 5)."""

    code = ExitCode.NOT_OWNER


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word that is most like `word`, whatever the letter case; '' where none is near."""
    by_fold = {name.casefold(): name for name in known}
    found = difflib.get_close_matches(word.casefold(), by_fold, n=1, cutoff=0.6)
    return by_fold[found[0]] if found else ""


def _position(file: str, place: Place | None) -> str:
    parts = [file] if file else []
    if place:
        parts += [str(place.line), str(place.column)]
    return ":".join(parts) + ": " if parts else ""


def _underlined(text: str, place: Place) -> list[str]:
    lines = text.splitlines()
    if not 1 <= place.line <= len(lines):
        return []
    line = lines[place.line - 1]
    length = max(1, min(place.length, len(line) - place.column + 1))
    margin = f"  {place.line} | "
    return [f"{margin}{line}", " " * (len(margin) + place.column - 1) + "^" * length]
