"""SET, CREATE STREAM and CREATE TABLE: settings, streams and reference tables, with every word checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from headrace.sql.catalog import (
    NO_OPTIONS,
    SETTINGS,
    SINKS,
    SOURCES,
    STREAM_OPTIONS,
    TABLE_SOURCES,
    Check,
    Connector,
    known_options,
    zone_error,
    zones,
)
from headrace.sql.clauses import watermark_of
from headrace.sql.dialect import spark_sql
from headrace.sql.expressions import Names, has_aggregate, resolve, span_of, whole_span
from headrace.sql.nodes import HIDDEN, SYSTEM_COLUMNS, Column, Lookup, Scan, Stream, Table, Watermark
from headrace.sql.parse import ColumnDef, CreateSource, Option, Set, Word
from headrace.sql.scope import Faults, Member, Relation, Scope
from headrace.sql.source import did_you_mean


def settings_of(sets: Iterable[Set], faults: Faults) -> tuple[tuple[str, str], ...]:
    """All settings, each checked; a key that is set twice is refused."""
    found: dict[str, str] = {}
    for one in sets:
        key, value = one.key.text, one.value.text
        check = SETTINGS.get(key)
        if check is None:
            faults.add(f"unknown setting {key!r}", one.key.span, did_you_mean(key, SETTINGS))
            continue
        if wrong := check(value):
            hint = did_you_mean(value, zones()) if check is zone_error else ""
            faults.add(f"{key}: {wrong}", one.value.span, hint)
        if key in found:
            faults.add(f"the setting {key!r} is given twice", one.key.span)
        found[key] = value
    return tuple(found.items())


def stream_of(create: CreateSource, faults: Faults) -> Stream:
    """CREATE STREAM name (columns, WATERMARK …) WITH (…)."""
    watermark: Watermark | None = None
    for number, written in enumerate(create.watermarks):
        if number:
            faults.add("a stream has one WATERMARK", written.span)
            break
        watermark = watermark_of(create, written, faults)
    if create.primary_key:
        faults.add(
            "a stream has no PRIMARY KEY",
            create.primary_key[0].span,
            "CREATE TABLE declares a reference table",
        )
    connector, options = _options(create.options, SOURCES, create.name, faults, general=STREAM_OPTIONS)
    return Stream(
        name=create.name.text,
        columns=_columns(create, faults),
        watermark=watermark,
        connector=connector,
        options=options,
        place=faults.source.place(create.name.span),
    )


def table_of(create: CreateSource, faults: Faults) -> Table:
    """CREATE TABLE name (columns, PRIMARY KEY (…)) WITH (…): a reference table."""
    for written in create.watermarks:
        faults.add("a reference table has no WATERMARK", written.span, "CREATE STREAM declares a stream")
    for column in create.columns:
        if column.expression is not None:
            faults.add(
                "a reference table has no computed columns", column.name.span, "compute it in the query"
            )
    declared = {column.name.text.casefold(): column.name.text for column in create.columns}
    keys = []
    for word in create.primary_key:
        name = declared.get(word.text.casefold())
        if name is None:
            hint = did_you_mean(word.text, declared.values())
            faults.add(f"unknown column {word.text} in PRIMARY KEY", word.span, hint)
        else:
            keys.append(name)
    if not create.primary_key:
        faults.add(
            f"the reference table {create.name.text} has no PRIMARY KEY",
            create.name.span,
            "add PRIMARY KEY (k)",
        )
    connector, options = _options(create.options, TABLE_SOURCES, create.name, faults)
    return Table(
        name=create.name.text,
        columns=_columns(create, faults),
        primary_key=tuple(keys),
        connector=connector,
        options=options,
        place=faults.source.place(create.name.span),
    )


def result_options(
    options: tuple[Option, ...], name: Word, faults: Faults
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The connector of a result (delta where none is named) and its options."""
    connector, found = _options(options, SINKS, name, faults)
    return connector or "delta", found


def stream_relation(stream: Stream) -> Relation:
    """What a query sees of a stream."""
    time = frozenset({stream.watermark.column.casefold()}) if stream.watermark else frozenset()
    return Relation(
        node=Scan(stream.name),
        columns=tuple(column.name for column in stream.columns),
        streams=(stream.name,),
        direct=True,
        carries=True,
        watermarked=stream.watermark is not None,
        times=time,
    )


def table_relation(table: Table) -> Relation:
    """What a query sees of a reference table."""
    columns = tuple(column.name for column in table.columns)
    return Relation(node=Lookup(table.name), columns=columns, origin="table")


# ---- columns --------------------------------------------------------------------------------
def _columns(create: CreateSource, faults: Faults) -> tuple[Column, ...]:
    seen: set[str] = set()
    found: list[Column] = []
    if not create.columns:
        faults.add(f"{create.name.text} has no columns", create.name.span)
    for column in create.columns:
        name, folded = column.name.text, column.name.text.casefold()
        if folded in seen:
            faults.add(f"two columns are named {name}", column.name.span)
        elif folded in SYSTEM_COLUMNS or folded in ("_window_start", "_window_end"):
            faults.add(f"{name} is the name of a system column", column.name.span)
        elif name.startswith(HIDDEN):
            faults.add(f"names that begin with {HIDDEN} are Headrace's own", column.name.span)
        seen.add(folded)
        expression = _computed(column, create, faults) if column.expression is not None else ""
        place = faults.source.place(column.name.span)
        found.append(Column(name, column.type, column.not_null, expression, place))
    return tuple(found)


def _computed(column: ColumnDef, create: CreateSource, faults: Faults) -> str:
    """A computed column may name the physical ones, `_TIMESTAMP`, `_PARTITION` and `_OFFSET`."""
    expression = column.expression
    if expression is None:
        return ""
    physical = [other.name.text for other in create.columns if other.expression is None]
    system = [name for name in SYSTEM_COLUMNS if name != "_event_time"]
    relation = Relation(node=Scan(create.name.text), columns=(*physical, *system))
    if has_aggregate(expression):
        faults.add("an aggregate in a computed column", whole_span(expression))
    for query in expression.find_all(exp.Query):
        faults.add("a sub-query in a computed column", span_of(query), "write it in the query")
        return ""
    return spark_sql(resolve(expression, Scope((Member(create.name.text, relation),)), Names(faults)))


# ---- options --------------------------------------------------------------------------------
def _options(
    written: tuple[Option, ...],
    connectors: Mapping[str, Connector],
    name: Word,
    faults: Faults,
    general: Mapping[str, Check] = NO_OPTIONS,
) -> tuple[str, tuple[tuple[str, str], ...]]:
    word = next((option for option in written if option[0] == "connector"), None)
    connector_name = word[1] if word else ("delta" if connectors is SINKS else "")
    connector = connectors.get(connector_name)
    if word and connector is None:
        faults.add(f"unknown connector {word[1]!r}", word[3], did_you_mean(word[1], connectors))
    known = known_options(general, connector)
    found: dict[str, str] = {}
    for key, value, key_span, value_span in written:
        if key in found:
            faults.add(f"the option {key!r} is given twice", key_span)
        found[key] = value
        if connector and key.startswith(connector.prefixes or ("\0",)):
            continue
        if key not in known:
            _unknown_option(key, key_span, (known, connector), connectors, faults)
        elif key != "connector" and (wrong := known[key](value)):
            faults.add(f"{key}: {wrong}", value_span)
    for key in connector.required if connector else ():
        if key not in found:
            faults.add(f"the connector {connector_name!r} of {name.text} needs the option {key!r}", name.span)
    return connector_name, tuple((key, value) for key, value in found.items() if key != "connector")


def _unknown_option(
    key: str,
    span: tuple[int, int],
    here: tuple[Mapping[str, Check], Connector | None],
    connectors: Mapping[str, Connector],
    faults: Faults,
) -> None:
    known, connector = here
    others = [name for name, other in connectors.items() if key in other.options]
    hint = did_you_mean(key, known)
    if others:
        hint = f"it is an option of the connector {' and of '.join(repr(name) for name in others)}"
    elif not hint and connector and connector.options:
        hint = f"the connector has {', '.join(connector.options)}"
    faults.add(f"unknown option {key!r}", span, hint)
