"""UNION ALL and UNION of two planned queries: by position, under the names of the first."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headrace.sql.context import Planned
from headrace.sql.dialect import spark_sql
from headrace.sql.expressions import column_node, whole_span
from headrace.sql.nodes import Distinct, Named, Node, Project, Union, joins_streams
from headrace.sql.scope import UNKNOWN, Faults, Relation


def union_of(query: exp.Union, left: Planned, right: Planned, faults: Faults) -> Planned:
    """The union of two queries over rows; UNION without ALL gives each row once."""
    emit = right.emit
    one, two = left.relation, right.relation
    if left.shape != "rows" or right.shape != "rows" or one.grouped or two.grouped:
        hint = "unite the rows first, then group them; or give each a WINDOW and EMIT FINAL"
        faults.add("UNION ALL of groups that still change", whole_span(query), hint)
        return Planned(UNKNOWN, emit=emit)
    if not (one.open or two.open) and len(one.columns) != len(two.columns):
        message = f"UNION ALL of {len(one.columns)} and {len(two.columns)} columns"
        hint = "both sides have the same columns, by position"
        faults.add(message, whole_span(query.expression), hint)
    if joins_streams(one.node) or joins_streams(two.node):
        hint = "CREATE STREAM j AS SELECT … FROM … JOIN …, then UNION ALL SELECT … FROM j"
        faults.not_yet("UNION ALL of joins of two streams", whole_span(query), hint)
    carries = one.carries and two.carries
    parts = _flat(one.node, two.node) if one.carries == two.carries else (bare(one), bare(two))
    times = frozenset(
        name.casefold()
        for name, other in zip(one.columns, two.columns, strict=False)
        if one.is_time(name) and two.is_time(other)
    )
    relation = Relation(
        node=Union(parts),
        columns=one.columns,
        origin="stream" if "stream" in (one.origin, two.origin) else "table",
        streams=tuple(dict.fromkeys((*one.streams, *two.streams))),
        carries=carries,
        watermarked=one.watermarked and two.watermarked,
        times=times,
        open=one.open or two.open,
        produced=one.produced + tuple(produced.under(two.columns, one.columns) for produced in two.produced),
    )
    if one.origin != two.origin and not relation.open:
        hint = "a table's rows never arrive: join it, or CREATE STREAM over its files"
        faults.add("UNION ALL of a stream and a reference table", whole_span(query), hint)
    if query.args.get("distinct"):
        return Planned(
            replace(relation, node=Distinct(relation.node), carries=False), one.columns, "distinct", emit=emit
        )
    return Planned(relation, emit=emit)


def _flat(one: Node, two: Node) -> tuple[Node, ...]:
    first = one.inputs if isinstance(one, Union) else (one,)
    second = two.inputs if isinstance(two, Union) else (two,)
    return (*first, *second)


def bare(relation: Relation) -> Node:
    """The relation's node with its own columns only."""
    columns = tuple(Named(name, spark_sql(column_node(name))) for name in relation.columns)
    return Project(relation.node, columns) if relation.carries else relation.node
