"""What the tracker refuses, each error with what is wrong and what to do.

Rules: an unknown name is answered with the nearest known one.
This module must never look at a tracker's state: the names it may suggest are passed in.
"""

from __future__ import annotations

from collections.abc import Collection

from headrace.errors import ExitCode, HeadraceError, nearest


class UnknownSource(HeadraceError, LookupError):
    """No source of this name is registered."""


class UnknownPartition(HeadraceError, LookupError):
    """The source has no partition of this name, or none at this position."""


class InvalidPartition(HeadraceError, ValueError):
    """A name or position that can be no partition, or a second registration."""


class InvalidTime(HeadraceError, ValueError):
    """A time, lateness or timeout that is no whole number in its range."""


class UnreadableMarks(HeadraceError, ValueError):
    """The text is not what `to_json` wrote; a new try reads the same text."""

    code = ExitCode.REFUSED


def unknown_source(source: str, known: Collection[str]) -> UnknownSource:
    """The error for a source that is not among the known ones."""
    return UnknownSource(f"unknown source {source!r}", hint=_instead(source, known, "register it first"))


def unknown_partition(source: str, partition: object, known: Collection[str]) -> UnknownPartition:
    """The error for a partition, by name or position, that is not among the source's."""
    hint = _instead(str(partition), known, "add_partition or rebalance first")
    return UnknownPartition(f"source {source!r} has no partition {partition!r}", hint=hint)


def _instead(word: str, known: Collection[str], otherwise: str) -> str:
    near = nearest(word, known)
    if near:
        return f"did you mean {near!r}?"
    shown = ", ".join(sorted(known)[:8]) + (", …" if len(known) > 8 else "")
    return f"known: {shown}; {otherwise}" if known else f"none is known; {otherwise}"
