"""A case and its compiled pipeline -> the actions of a run, in order.

Here the names and the shapes of `given` meet the declared streams and tables: a name that the pipeline does
not know, a row of a wrong length or a table's value of a wrong type is refused with its line. Pure: what a
Spark type is in Arrow is asked of the function that comes in as `schema_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from headrace.cases.case import (
    Advance,
    Arrive,
    BadCase,
    Case,
    Expected,
    Flush,
    KnowPartitions,
    Later,
    Rescale,
    Restart,
    Row,
    Rows,
    SetClock,
    Value,
)
from headrace.cases.given_values import delivered, held
from headrace.errors import Place, nearest
from headrace.sql.nodes import Column, Pipeline, Stream, Table

_STEPS: Final = (
    "advance",
    "clock",
    "partitions",
    "rescale",
    "expect",
    "restart",
    "flush",
    "crash",
    "snapshot",
    "restore",
)

SchemaOf = Callable[[tuple[Column, ...]], pa.Schema]
Batch = dict[str, list[tuple[int, list[dict[str, Value]]]]]


@dataclass(frozen=True, slots=True)
class Publish:
    """The next version of a reference table."""

    table: Table
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class Deliver:
    """One batch: stream -> source partition and its rows, as LivePipeline.deliver takes them."""

    batch: Batch


Action = (
    Publish | Deliver | Advance | SetClock | KnowPartitions | Restart | Rescale | Flush | Later | Expected
)


def arrange(
    case: Case, pipeline: Pipeline, schema_of: SchemaOf, *, joined: bool = False
) -> tuple[Action, ...]:
    """The actions of the case; `joined` puts all batches into one, and the control steps after it. Raises BadCase."""
    actions = tuple(_actions(case, pipeline, schema_of))
    for expected in (case.then, *(action for action in actions if isinstance(action, Expected))):
        _check_results(case, pipeline, expected)
    return _joined(actions) if joined else actions


def can_be_joined(case: Case, pipeline: Pipeline) -> bool:
    """Whether all batches may arrive as one too: nothing in the case looks at what is between them."""
    if any(
        isinstance(step, (Expected, Advance)) or (isinstance(step, Later) and step.word == "crash")
        for step in case.steps
    ):
        return False
    if any(name == "late_rows" for name, _ in case.then.metrics):
        return False
    if any(is_changelog(pipeline, result.name) for result in case.then.results):
        return False
    arrivals = [rows.name for step in case.steps if isinstance(step, Arrive) for rows in step.inputs]
    tables = [table.name for table in pipeline.tables]
    batches = sum(
        any(rows.name not in tables for rows in step.inputs)
        for step in case.steps
        if isinstance(step, Arrive)
    )
    return batches > 1 and all(arrivals.count(table) < 2 for table in tables)


def is_changelog(pipeline: Pipeline, name: str) -> bool:
    """Whether the result's content is a list of changes, in order."""
    return any(
        result.name == name and result.form == "stream" and result.upsert for result in pipeline.results
    )


def _actions(case: Case, pipeline: Pipeline, schema_of: SchemaOf) -> Iterator[Action]:
    streams = {stream.name: stream for stream in pipeline.streams}
    tables = {table.name: table for table in pipeline.tables}
    for step in case.steps:
        match step:
            case Arrive(inputs):
                for rows in inputs:
                    _check_source(case, rows, streams, tables)
                for rows in inputs:
                    if rows.name in tables:
                        table = tables[rows.name]
                        yield Publish(table, _version(case, rows, schema_of(table.columns)))
                arrived = [
                    (rows, schema_of(streams[rows.name].physical)) for rows in inputs if rows.name in streams
                ]
                batch = {rows.name: _parts(case, rows, schema) for rows, schema in arrived}
                if batch:
                    yield Deliver(batch)
            case KnowPartitions(stream, _, place):
                if stream not in streams:
                    _unknown(case, place, "stream", stream, streams)
                yield step
            case _:
                yield step


def _check_source(case: Case, rows: Rows, streams: dict[str, Stream], tables: dict[str, Table]) -> None:
    source = streams.get(rows.name) or tables.get(rows.name)
    if source is None:
        _unknown(case, rows.place, "step, stream or table", rows.name, (*streams, *tables, *_STEPS))
    elif source.connector:
        message = f"the rows of {rows.name} come from its connector {source.connector!r}, not from given"
        raise BadCase(message, place=rows.place, text=case.text)


def _parts(case: Case, rows: Rows, schema: pa.Schema) -> list[tuple[int, list[dict[str, Value]]]]:
    return [
        (part.partition, [_delivered(case, row, rows.name, schema) for row in part.rows])
        for part in rows.parts
    ]


def _delivered(case: Case, row: Row, name: str, schema: pa.Schema) -> dict[str, Value]:
    _check_width(case, row, name, schema.names)
    return {field.name: delivered(value, field.type) for field, value in zip(schema, row.values, strict=True)}


def _version(case: Case, rows: Rows, schema: pa.Schema) -> pa.Table:
    if [part.partition for part in rows.parts] != [0]:
        message = f"{rows.name} is a reference table: it has no source partitions"
        raise BadCase(message, place=rows.place, text=case.text)
    kept = [_held(case, row, rows.name, schema) for row in rows.parts[0].rows]
    try:
        return pa.Table.from_pylist(kept, schema=schema)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        message = f"a row of {rows.name} does not fit its columns: {error}"
        raise BadCase(message, place=rows.place, text=case.text) from error


def _held(case: Case, row: Row, name: str, schema: pa.Schema) -> dict[str, object]:
    _check_width(case, row, name, schema.names)
    try:
        return {field.name: held(value, field.type) for field, value in zip(schema, row.values, strict=True)}
    except ValueError as error:
        message = f"a row of {name} does not fit its columns: {error}"
        raise BadCase(message, place=row.place, text=case.text) from error


def _check_width(case: Case, row: Row, name: str, names: list[str]) -> None:
    if len(row.values) != len(names):
        message = f"a row of {name} has {len(row.values)} values, and {name} has {len(names)} columns: {', '.join(names)}"
        raise BadCase(message, place=row.place, text=case.text)


def _check_results(case: Case, pipeline: Pipeline, expected: Expected) -> None:
    names = [result.name for result in pipeline.results]
    for result in expected.results:
        if result.name not in names:
            _unknown(case, result.place, "result", result.name, names)


def _unknown(case: Case, place: Place, what: str, name: str, known: Iterable[str]) -> None:
    words = tuple(known)
    near = nearest(name, words)
    hint = f"did you mean {near!r}?" if near else f"known: {', '.join(words)}"
    raise BadCase(f"unknown {what} {name!r}", hint=hint, place=place, text=case.text)


def _joined(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    """First the table versions, then all rows in one batch, each source partition's in their order, then the rest."""
    merged: dict[str, dict[int, list[dict[str, Value]]]] = {}
    for action in actions:
        if isinstance(action, Deliver):
            for name, parts in action.batch.items():
                for partition, rows in parts:
                    merged.setdefault(name, {}).setdefault(partition, []).extend(rows)
    batch = Deliver({name: list(parts.items()) for name, parts in merged.items()})
    tables = tuple(action for action in actions if isinstance(action, Publish))
    rest = tuple(action for action in actions if not isinstance(action, (Deliver, Publish)))
    return (*tables, batch, *rest)
