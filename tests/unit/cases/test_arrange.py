"""A case meets its pipeline: what is delivered and published, and what is refused before anything runs."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headrace.cases.arrange import Batch, Deliver, Publish, arrange, can_be_joined
from headrace.cases.case import BadCase, Case, Flush, Restart
from headrace.cases.read import read_cases
from headrace.sql.nodes import Column, Pipeline, Result, Scan, Stream, Table

TYPES = {
    "STRING": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "DECIMAL(9,2)": pa.decimal128(9, 2),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "ARRAY<TIMESTAMP>": pa.list_(pa.timestamp("us", tz="UTC")),
    "STRUCT<a: TIMESTAMP>": pa.struct([("a", pa.timestamp("us", tz="UTC"))]),
    "MAP<STRING, TIMESTAMP>": pa.map_(pa.string(), pa.timestamp("us", tz="UTC")),
    "DATE": pa.date32(),
}


def schema_of(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([(column.name, TYPES[column.type]) for column in columns])


def columns(**kinds: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name, kind in kinds.items())


PIPELINE = Pipeline(
    name="p",
    settings=(),
    streams=(
        Stream("s", (*columns(k="STRING", ts="TIMESTAMP"), Column("twice", "STRING", expression="k || k"))),
        Stream("other", columns(v="DOUBLE")),
        Stream("far", columns(v="DOUBLE"), connector="kafka"),
    ),
    tables=(Table("ref", columns(k="STRING", price="DECIMAL(9,2)", since="TIMESTAMP"), ("k",)),),
    results=(
        Result("r", "table", Scan("s"), "changes"),
        Result("log", "stream", Scan("s"), "changes", keys=("k",), upsert=True),
    ),
)


def case(given: str, then: str = "{r: []}") -> Case:
    (found,) = read_cases(f"name: c\nsql: x\ngiven:\n  {given}\nthen: {then}\n")
    return found


def batch(given: str) -> Batch:
    (action,) = arrange(case(given), PIPELINE, schema_of)
    assert isinstance(action, Deliver)
    return action.batch


def refusal(given: str, then: str = "{r: []}") -> str:
    with pytest.raises(BadCase) as caught:
        arrange(case(given, then), PIPELINE, schema_of)
    return caught.value.render("f.yaml")


def test_rows_are_delivered_by_the_names_of_the_physical_columns() -> None:
    assert batch("- s: [{partition: 2, rows: [[A, 1.5], [null, null]]}]") == {
        "s": [(2, [{"k": "A", "ts": "1970-01-01T00:00:01.500000Z"}, {"k": None, "ts": None}])]
    }


def test_streams_of_one_step_are_one_batch() -> None:
    assert batch("- {s: [[A, 1]], other: [[1]]}").keys() == {"s", "other"}


@pytest.mark.parametrize(
    ("written", "kind", "delivered"),
    [
        ("-1", "TIMESTAMP", "1969-12-31T23:59:59.000000Z"),
        ("'2026-01-01T11:00:00+01:00'", "TIMESTAMP", "2026-01-01T10:00:00.000000Z"),
        ("'2026-01-01T10:00:00'", "TIMESTAMP_NTZ", "2026-01-01T10:00:00.000000"),
        ("soon", "TIMESTAMP", "soon"),
        ("99999999999999", "TIMESTAMP", 99999999999999),
        ("abc", "BIGINT", "abc"),
        ("3", "DOUBLE", 3.0),
        (".inf", "DOUBLE", math.inf),
        ("'9999999.99'", "DECIMAL(9,2)", "9999999.99"),
        ("1.25", "DECIMAL(9,2)", "1.25"),
        ("[1, null]", "ARRAY<TIMESTAMP>", ["1970-01-01T00:00:01.000000Z", None]),
        ("{a: 1}", "STRUCT<a: TIMESTAMP>", {"a": "1970-01-01T00:00:01.000000Z"}),
        ("{x: 1}", "MAP<STRING, TIMESTAMP>", {"x": "1970-01-01T00:00:01.000000Z"}),
        ("'2026-01-01'", "DATE", "2026-01-01"),
    ],
)
def test_values_are_delivered_as_json_holds_them(written: str, kind: str, delivered: Any) -> None:
    pipeline = Pipeline(
        "p", (), (Stream("s", columns(v=kind)),), (), (Result("r", "table", Scan("s"), "changes"),)
    )
    (action,) = arrange(case(f"- s: [[{written}]]"), pipeline, schema_of)
    assert action == Deliver({"s": [(0, [{"v": delivered}])]})


def test_a_table_gets_a_version_of_its_declared_types_before_the_batch_of_the_same_step() -> None:
    publish, deliver = arrange(
        case("- {s: [[A, 1]], ref: [[X, '1.5', 10], [Y, null, null]]}"), PIPELINE, schema_of
    )
    assert isinstance(publish, Publish)
    assert isinstance(deliver, Deliver)
    assert publish.table.name == "ref"
    assert publish.rows.schema == schema_of(publish.table.columns)
    assert publish.rows.to_pylist() == [
        {"k": "X", "price": Decimal("1.50"), "since": datetime(1970, 1, 1, 0, 0, 10, tzinfo=UTC)},
        {"k": "Y", "price": None, "since": None},
    ]


def test_an_empty_version_has_the_declared_columns() -> None:
    (publish,) = arrange(case("- ref: []"), PIPELINE, schema_of)
    assert isinstance(publish, Publish)
    assert publish.rows.num_rows == 0
    assert publish.rows.schema.names == ["k", "price", "since"]


@pytest.mark.parametrize(
    ("given", "then", "said"),
    [
        ("- s: [[A, 1], [A]]", "{r: []}", "f.yaml:4:17: a row of s has 1 values, and s has 2 columns: k, ts"),
        ("- s: [[A, 1, AA]]", "{r: []}", "a row of s has 3 values, and s has 2 columns: k, ts"),
        ("- othr: [[1]]", "{r: []}", "f.yaml:4:5: unknown step, stream or table 'othr'"),
        ("- othr: [[1]]", "{r: []}", "did you mean 'other'?"),
        ("- advanc: []", "{r: []}", "did you mean 'advance'?"),
        ("- far: [[1]]", "{r: []}", "the rows of far come from its connector 'kafka'"),
        ("- partitions: {ss: 3}", "{r: []}", "unknown stream 'ss'"),
        (
            "- ref: {partition: 1, rows: []}",
            "{r: []}",
            "ref is a reference table: it has no source partitions",
        ),
        (
            "- ref: [[X, cheap, 1]]",
            "{r: []}",
            "f.yaml:4:11: a row of ref does not fit its columns: 'cheap' is no number",
        ),
        ("- ref: [[X, '123456789.99', 1]]", "{r: []}", "a row of ref does not fit its columns"),
        ("- ref: [[X, '1', soon]]", "{r: []}", "'soon' is no time"),
        ("- ref: [[1, '1', 1]]", "{r: []}", "1 is no text"),
        ("- s: []", "{rr: []}", "unknown result 'rr'"),
        ("- expect: {lg: []}", "{r: []}", "did you mean 'log'?"),
    ],
)
def test_what_does_not_fit_the_pipeline_is_told_with_its_place(given: str, then: str, said: str) -> None:
    assert said in refusal(given, then)


@pytest.mark.parametrize(
    ("given", "then", "joinable"),
    [
        ("[{s: [[A, 1]]}, {s: [[A, 2]]}, flush]", "{r: []}", True),
        ("[{s: [[A, 1]]}, restart, {s: [[A, 2]]}]", "{metrics: {future_rows: 0}, r: []}", True),
        ("[{ref: []}, {s: [[A, 1]]}, {s: [[A, 2]]}]", "{r: []}", True),
        ("[{s: [[A, 1]]}, flush]", "{r: []}", False),
        ("[{s: [[A, 1]]}, {expect: {r: []}}, {s: [[A, 2]]}]", "{r: []}", False),
        ("[{s: [[A, 1]]}, {advance: 1s}, {s: [[A, 2]]}]", "{r: []}", False),
        ("[{s: [[A, 1]]}, crash, {s: [[A, 2]]}]", "{r: []}", False),
        ("[{s: [[A, 1]]}, {s: [[A, 2]]}]", "{metrics: {late_rows: 0}, r: []}", False),
        ("[{s: [[A, 1]]}, {s: [[A, 2]]}]", "{log: []}", False),
        ("[{ref: []}, {s: [[A, 1]]}, {ref: []}, {s: [[A, 2]]}]", "{r: []}", False),
    ],
)
def test_batches_are_joined_only_where_nothing_looks_between_them(
    given: str, then: str, joinable: bool
) -> None:
    (found,) = read_cases(f"name: c\nsql: x\ngiven: {given}\nthen: {then}\n")
    assert can_be_joined(found, PIPELINE) is joinable


def test_joined_batches_keep_each_partitions_order_and_control_steps_come_after_them() -> None:
    given = (
        "[{ref: []}, {s: [{partition: 1, rows: [[A, 1]]}]}, restart, {other: [[1.5]]},"
        " {s: [{partition: 0, rows: [[B, 2]]}, {partition: 1, rows: [[C, 3]]}]}, flush]"
    )
    (found,) = read_cases(f"name: c\nsql: x\ngiven: {given}\nthen: {{r: []}}\n")
    publish, deliver, *rest = arrange(found, PIPELINE, schema_of, joined=True)
    assert isinstance(publish, Publish)
    assert isinstance(deliver, Deliver)
    arrived = {
        name: [(partition, [row.get("k", row.get("v")) for row in rows]) for partition, rows in parts]
        for name, parts in deliver.batch.items()
    }
    assert arrived == {"s": [(1, ["A", "C"]), (0, ["B"])], "other": [(0, [1.5])]}
    assert rest == [Restart(), Flush()]
