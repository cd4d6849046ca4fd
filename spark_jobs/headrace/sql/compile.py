"""The text of a pipeline -> a frozen Pipeline, or every refusal that the text deserves, together.

parse → declare → plan → rules → classify: one call each. Nothing here knows Spark, a clock or a file
system, except `compile_file`, which reads one file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from sqlglot import exp

from headrace.errors import Refused
from headrace.sql.cascade import cascade
from headrace.sql.classify import kinds_of
from headrace.sql.context import Context, Planned
from headrace.sql.declare import (
    result_options,
    settings_of,
    stream_of,
    stream_relation,
    table_of,
    table_relation,
)
from headrace.sql.nodes import Pipeline, Result, Stream, Table
from headrace.sql.overjoin import cut_join
from headrace.sql.parse import CreateQuery, CreateSource, Set, Statement, Word, statements
from headrace.sql.plan import exposed, plan_query
from headrace.sql.readon import read_on
from headrace.sql.rules import narrow, rewrite
from headrace.sql.scope import UNKNOWN, Faults, Relation
from headrace.sql.source import expand, report

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


def compile_file(path: Path | str, variables: Mapping[str, str] = NO_VARIABLES) -> Pipeline:
    """Compile a `.sql` file; its stem is the pipeline's name unless the file sets another.

    Raises Refused or RefusedTogether, and OSError where the file can't be read.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise Refused(
            f"{path.name} is not UTF-8 (byte {error.start + 1})", hint="save the file as UTF-8"
        ) from error
    return compile_pipeline(text, variables=variables, name=path.stem)


def compile_pipeline(text: str, *, variables: Mapping[str, str] = NO_VARIABLES, name: str = "") -> Pipeline:
    """Compile the text of a pipeline. Raises Refused, or RefusedTogether for several refusals."""
    source = expand(text, variables)
    faults = Faults(source)
    read = statements(source)
    faults.errors.extend(read.errors)
    settings = settings_of((one for one in read.statements if isinstance(one, Set)), faults)
    zone = dict(settings).get("time.zone", "UTC")
    names = _Declared(zone, relations={word.casefold(): UNKNOWN for word in read.unread})
    for statement in cascade(read.statements):
        _declare(statement, names, faults)
    if not read.statements and not read.errors:
        faults.add("the pipeline is empty", (0, 1), "CREATE STREAM … and CREATE TABLE … AS SELECT …")
    report(faults.errors)
    return Pipeline(
        name=dict(settings).get("pipeline.name", name),
        settings=settings,
        streams=tuple(names.streams),
        tables=tuple(names.tables),
        results=tuple(names.results),
        views=tuple(names.texts.items()),
        text=source.expanded,
    )


@dataclass(slots=True)
class _Declared:
    """What the statements so far have declared, by folded name."""

    zone: str
    streams: list[Stream] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    relations: dict[str, Relation] = field(default_factory=dict)
    views: dict[str, exp.Expr] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)  # of the views, by folded name
    taken: set[str] = field(default_factory=set)

    def context(self, faults: Faults) -> Context:
        closed = frozenset(r.name.casefold() for r in self.results) - self.relations.keys()
        return Context(faults, dict(self.relations), dict(self.views), closed, self.zone)


def _declare(statement: Statement, names: _Declared, faults: Faults) -> None:
    match statement:
        case Set():
            return
        case CreateSource(form="stream"):
            stream = stream_of(statement, faults)
            names.streams.append(stream)
            names.relations[_take(statement.name, names, faults)] = stream_relation(stream)
        case CreateSource():
            table = table_of(statement, faults)
            names.tables.append(table)
            names.relations[_take(statement.name, names, faults)] = table_relation(table)
        case CreateQuery(form="view"):
            before = len(faults.errors)
            planned = plan_query(statement.query, names.context(faults), inner=True)
            if planned.emit is not None and planned.unsettled:
                faults.add("EMIT belongs to a result, not to a view", planned.emit.span)
            folded = _take(statement.name, names, faults)
            wrong = len(faults.errors) > before
            names.relations[folded] = UNKNOWN if wrong else exposed(planned)
            names.views[folded] = statement.query
            names.texts[folded] = statement.text
        case CreateQuery() if (cut := cut_join(statement, names.context(faults), names.taken)) is not None:
            for part in cut:
                _declare(part, names, faults)
        case CreateQuery():
            result, planned = _result(statement, names, faults)
            folded = _take(statement.name, names, faults)
            names.results.append(result)
            if planned.relation.open:
                names.relations[folded] = UNKNOWN
            elif result.form == "stream" and result.connector in ("delta", "kafka"):
                stream, names.relations[folded] = read_on(result, planned)
                names.streams.append(stream)


def _take(word: Word, names: _Declared, faults: Faults) -> str:
    folded = word.text.casefold()
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", word.text) or folded == "rejected":
        hint = "letters, digits and _, a letter first; `rejected` is Headrace's own table"
        faults.add(f"{word.text!r} is no name for a stream, table, view or result", word.span, hint)
    if folded in names.taken:
        faults.add(f"{word.text} is declared twice", word.span, "give one of them another name")
    names.taken.add(folded)
    return folded


def _result(statement: CreateQuery, names: _Declared, faults: Faults) -> tuple[Result, Planned]:
    planned = plan_query(statement.query, names.context(faults))
    if not planned.relation.open and planned.relation.origin == "table":
        faults.add(
            f"the result {statement.name.text} reads no stream",
            statement.span,
            "a result needs a stream in FROM",
        )
    connector, options = result_options(statement.options, statement.name, faults)
    if connector == "kafka" and statement.form == "table":
        faults.add(
            f"the table {statement.name.text} can't be kept in Kafka",
            statement.name.span,
            "CREATE STREAM sends its rows, or the changes of its groups, to a topic",
        )
    emit = _emit(planned, statement, faults)
    node = narrow(rewrite(planned.relation.node))
    form: Literal["table", "stream"] = "stream" if statement.form == "stream" else "table"
    result = Result(
        name=statement.name.text,
        form=form,
        plan=node,
        emit=emit,
        keys=planned.keys,
        upsert=emit == "changes" and planned.shape == "groups",
        kinds=kinds_of(node),
        connector=connector,
        options=options,
        place=faults.source.place(statement.name.span),
        query=statement.text,
    )
    return result, planned


def _emit(planned: Planned, statement: CreateQuery, faults: Faults) -> Literal["changes", "final"]:
    if planned.emit is None:
        return "final" if planned.windowed else "changes"
    if planned.emit.mode == "changes":
        return "changes"
    if planned.shape != "rows" and not planned.windowed and planned.relation is not UNKNOWN:
        message = "EMIT FINAL needs a window: no watermark could ever close this result"
        faults.add(message, planned.emit.span, "add WINDOW TUMBLING(…) to GROUP BY, or write EMIT CHANGES")
    return "final"
