"""`headrace check`: every error of every file at once, with its place; nothing is run, no Spark is needed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from headrace.errors import ExitCode, HeadraceError, Refused, RefusedTogether
from headrace.sql.compile import compile_file
from headrace.sql.nodes import Pipeline


@dataclass(frozen=True, slots=True)
class Checked:
    """A file and what compiling it gave: a pipeline or what is wrong with it."""

    file: str
    outcome: Pipeline | Refused


def check_files(out: Console, files: Sequence[Path], variables: Mapping[str, str], as_json: bool) -> ExitCode:
    """Compile the files and say how each did, as text or as one JSON list. REFUSED where one of them was."""
    found = [_check(file, variables) for file in files]
    if as_json:
        out.print_json(json.dumps([record(each) for each in found]), indent=2)
    else:
        for each in found:
            out.print(line(each), soft_wrap=True)
    return (
        ExitCode.REFUSED if any(isinstance(each.outcome, HeadraceError) for each in found) else ExitCode.DONE
    )


def line(checked: Checked) -> Text:
    """A line for a file that compiles; else each error, as `file:line:column: message`, underlined, with its hint."""
    match checked.outcome:
        case Pipeline(streams=streams, tables=tables, results=results):
            declared = tuple(stream for stream in streams if not stream.producer)
            counts = ((declared, "stream"), (tables, "reference table"), (results, "result"))
            said = ", ".join(f"{len(some)} {word}{'s' * (len(some) != 1)}" for some, word in counts)
            said += f": {', '.join(result.name for result in results)}" if results else ""
            return Text.assemble(("✓ ", "green"), checked.file, (f"  {said}", "dim"))
        case Refused() as error:
            return Text.assemble(("✗ ", "red"), error.render(checked.file))


def record(checked: Checked) -> dict[str, Any]:
    """`{"file", "ok", "pipeline", "results": […], "errors": [{"message", "hint", "line", "column", "length"}]}`."""
    match checked.outcome:
        case Pipeline(name=name, results=results):
            told = [{"name": r.name, "kinds": r.kinds, "emit": r.emit, "keys": r.keys} for r in results]
            return {"file": checked.file, "ok": True, "pipeline": name, "results": told, "errors": []}
        case Refused() as error:
            several = error.errors if isinstance(error, RefusedTogether) else (error,)
            errors = [_error(each) for each in several]
            return {"file": checked.file, "ok": False, "pipeline": "", "results": [], "errors": errors}


def _error(error: HeadraceError) -> dict[str, Any]:
    place = error.place
    where = {"line": place.line, "column": place.column, "length": place.length} if place else {}
    return {"message": error.message, "hint": error.hint, **where}


def _check(file: Path, variables: Mapping[str, str]) -> Checked:
    try:
        return Checked(str(file), compile_file(file, variables))
    except Refused as refusal:
        return Checked(str(file), refusal)
