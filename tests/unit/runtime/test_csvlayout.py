"""Headers of CSV files, and lines rearranged field by field as they were written."""

from __future__ import annotations

import pytest

from headrace.runtime.csvlayout import NO_RECORD, Dialect, dialect_of, fields, names_of, rearranging

DOUBLED = Dialect(escape='"')


@pytest.mark.parametrize(
    ("line", "dialect", "expected"),
    [
        ("a,b,c", Dialect(), ["a", "b", "c"]),
        ("", Dialect(), [""]),
        (",,", Dialect(), ["", "", ""]),
        ('a,"b,c",d', Dialect(), ["a", '"b,c"', "d"]),
        (r'"a\",b",c', Dialect(), [r'"a\",b"', "c"]),
        ('"a"",b",c', Dialect(), ['"a"",b"', "c"]),
        ('"a","b""c",d', DOUBLED, ['"a"', '"b""c"', "d"]),
        (r'"a\",b', DOUBLED, [r'"a\"', "b"]),
        ('a,"never closed,c', Dialect(), ["a", '"never closed,c']),
        ("a||b||c|d", Dialect(sep="||"), ["a", "b", "c|d"]),
        ('a"b,c', Dialect(), ['a"b', "c"]),
        ('"a"x,b', Dialect(), ['"a"x', "b"]),
        ('"a,b",c', Dialect(quote=""), ['"a', 'b"', "c"]),
        ("a\tb", dialect_of({"delimiter": r"\t"}), ["a", "b"]),
    ],
)
def test_a_line_falls_into_its_fields_as_written(line: str, dialect: Dialect, expected: list[str]) -> None:
    assert fields(line, dialect.field) == expected


def test_names_lose_their_quotes_and_margins() -> None:
    assert names_of('k, "the ""v""" ,ts', Dialect()) == ["k", 'the "v"', "ts"]


def test_a_file_of_the_same_layout_is_left_alone() -> None:
    assert rearranging(["K", "v"], ["k", "V"], ["k"], Dialect()) is None


def test_another_order_is_rearranged_and_spare_columns_are_left_out() -> None:
    change = rearranging(["v", "spare", "k"], ["k", "v", "undeclared"], ["k", "v"], Dialect())
    assert change is not None
    assert change('1,x,"a,b"') == '"a,b",1,'


@pytest.mark.parametrize("line", ["1", "1,2,3"])
def test_a_line_that_does_not_fit_its_header_is_no_record(line: str) -> None:
    change = rearranging(["v", "k"], ["k", "v"], ["k", "v"], Dialect())
    assert change is not None
    assert change(line) == NO_RECORD


def test_a_file_without_a_declared_column_has_no_records() -> None:
    change = rearranging(["v"], ["k", "v"], ["k", "v"], Dialect())
    assert change is not None
    assert change("1") == NO_RECORD
