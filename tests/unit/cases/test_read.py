"""Reading case files: what a file means, and what is refused where."""

from __future__ import annotations

import math
import textwrap

import pytest

from headrace.cases.case import (
    Advance,
    Arrive,
    BadCase,
    Case,
    Expected,
    Flush,
    KnowPartitions,
    Later,
    Mark,
    Rescale,
    Restart,
    SetClock,
)
from headrace.cases.read import read_cases

HEAD = """\
name: one
sql: SELECT 1
"""


def read(given: str, then: str = "{r: []}") -> Case:
    text = f"{HEAD}given:\n{textwrap.indent(textwrap.dedent(given), '  ')}\nthen: {then}\n"
    (case,) = read_cases(text, "f.yaml")
    return case


def refusal(text: str) -> str:
    with pytest.raises(BadCase) as caught:
        read_cases(text)
    return caught.value.render("f.yaml")


def test_a_file_holds_several_cases_and_blank_documents_are_none() -> None:
    text = f"---\n{HEAD}given: []\nthen: {{r: []}}\n---\n---\n{HEAD.replace('one', 'two')}given: []\nthen: {{r: []}}\n"
    assert [case.name for case in read_cases(text)] == ["one", "two"]


def test_each_step_becomes_a_value() -> None:
    case = read("""\
        - partitions: {s: 3}
        - clock: '2026-01-01T10:00:03Z'
        - advance: 1.5s
        - restart
        - expect: {r: [], watermark: 26}
        - flush
        """)
    known, clock, advance, restart, expect, flush = case.steps
    assert isinstance(known, KnowPartitions)
    assert (known.stream, known.count) == ("s", 3)
    assert clock == SetClock(1_767_261_603_000)
    assert advance == Advance(1_500)
    assert restart == Restart()
    assert isinstance(expect, Expected)
    assert expect.watermark == Mark(26_000)
    assert flush == Flush()


@pytest.mark.parametrize(
    "given", ["- s: [[A, 1]]", "- s: {partition: 0, rows: [[A, 1]]}", "- s: [{rows: [[A, 1]]}]"]
)
def test_rows_without_a_partition_come_from_partition_0(given: str) -> None:
    (step,) = read(given).steps
    assert isinstance(step, Arrive)
    ((part,),) = [rows.parts for rows in step.inputs]
    assert part.partition == 0
    assert [row.values for row in part.rows] == [("A", 1)]


def test_one_step_may_bring_several_streams_and_partitions() -> None:
    (step,) = read("- {a: [[1]], b: [{partition: 2, rows: [[2], [3]]}, {partition: 0, rows: [[4]]}]}").steps
    assert isinstance(step, Arrive)
    arrived = {
        rows.name: [(part.partition, [r.values for r in part.rows]) for part in rows.parts]
        for rows in step.inputs
    }
    assert arrived == {"a": [(0, [(1,)])], "b": [(2, [(2,), (3,)]), (0, [(4,)])]}


def test_scalars_mean_what_yaml_1_2_says() -> None:
    (step,) = read(
        "- s: [[yes, on, n, 10:30, 2026-01-01, 012, -0.0, 1e3, .nan, -.inf, null, ~, true, 'null']]"
    ).steps
    assert isinstance(step, Arrive)
    values = step.inputs[0].parts[0].rows[0].values
    assert values[:8] == ("yes", "on", "n", "10:30", "2026-01-01", 12, 0.0, 1000.0)
    assert str(values[6]) == "-0.0"
    assert str(values[8]) == "nan"
    assert values[9:] == (-math.inf, None, None, True, "null")


def test_arrays_and_maps_are_values_of_a_row() -> None:
    (step,) = read("- s: [[[1, null], {a: 1, b: [x]}]]").steps
    assert isinstance(step, Arrive)
    assert step.inputs[0].parts[0].rows[0].values == ([1, None], {"a": 1, "b": ["x"]})


def test_a_row_knows_its_place_in_the_file() -> None:
    (step,) = read("- s:\n    - [A, 1]\n    - [B, 2]").steps
    assert isinstance(step, Arrive)
    assert [row.place.line for row in step.inputs[0].parts[0].rows] == [5, 6]


@pytest.mark.parametrize("word", ["crash", "snapshot", "restore"])
def test_steps_of_later_versions_are_read(word: str) -> None:
    (step,) = read(f"- {word}").steps
    assert isinstance(step, Later)
    assert step.word == word


def test_a_rescale_says_to_how_many_partitions() -> None:
    assert read("- rescale: 3").steps == (Rescale(3),)


def test_expectations_hold_rows_metrics_and_a_watermark() -> None:
    then = read("- s: [[1]]", "{r: [{k: A, n: null}], q: [], metrics: {late_rows: 2}, watermark: null}").then
    assert [(result.name, result.rows) for result in then.results] == [
        ("r", ({"k": "A", "n": None},)),
        ("q", ()),
    ]
    assert then.metrics == (("late_rows", 2),)
    assert then.watermark == Mark(None)


@pytest.mark.parametrize(
    ("given", "then", "said"),
    [
        ("- flsh", "{r: []}", "f.yaml:4:5: unknown step 'flsh'"),
        ("- flsh", "{r: []}", "did you mean 'flush'?"),
        ("- {advance: 1s, s: [[1]]}", "{r: []}", "f.yaml:4:5: 'advance' is a step of its own"),
        ("- advance: soon", "{r: []}", "f.yaml:4:14: advance must be a span of time"),
        (
            "- clock: yesterday",
            "{r: []}",
            "f.yaml:4:12: clock must be seconds since 1970 or an ISO 8601 time",
        ),
        (
            "- partitions: {s: 0}",
            "{r: []}",
            "the number of source partitions must be a whole number, 1 or more",
        ),
        ("- s: [A, 1]", "{r: []}", "f.yaml:4:9: a row must be a list of values"),
        ("- s: {partition: 1, row: [[A]]}", "{r: []}", "did you mean 'rows'?"),
        ("- {s: [], s: []}", "{r: []}", "'s' stands twice in a step"),
        ("- s: [[1]]", "{metrics: {late_row: 1}}", "unknown key 'late_row' in metrics\n"),
        ("- s: [[1]]", "{metrics: {late_row: 1}}", "did you mean 'late_rows'?"),
        ("- s: [[1]]", "{r: [[1]]}", "an expected row must be a map"),
        ("- s: [[1]]", "{error: x, r: []}", "'error' stands alone"),
        ("- s: [[1]]", "{}", "then expects nothing"),
        ("- expect: {error: x}", "{r: []}", "'error' stands alone"),
        ("- flush", "{watermark: 3}", "a watermark is compared before flush only"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(given: str, then: str, said: str) -> None:
    text = f"{HEAD}given:\n  {given}\nthen: {then}\n"
    assert said in refusal(text)


def test_an_unknown_key_is_answered_with_the_nearest_and_the_line_is_shown() -> None:
    assert refusal("name: one\nsqll: x\ngiven: []\nthen: {r: []}\n") == (
        "f.yaml:2:1: unknown key 'sqll' in a case\n  2 | sqll: x\n      ^^^^\n  hint: did you mean 'sql'?"
    )


@pytest.mark.parametrize("lacking", ["name", "sql", "given", "then"])
def test_a_case_must_have_its_four_parts(lacking: str) -> None:
    parts = {"name": "name: a", "sql": "sql: b", "given": "given: []", "then": "then: {r: []}"}
    text = "\n".join(line for key, line in parts.items() if key != lacking)
    assert f"a case without '{lacking}'" in refusal(text)


def test_two_cases_of_one_name_are_refused() -> None:
    one = f"{HEAD}given: []\nthen: {{r: []}}\n"
    assert "two cases of this file are named 'one'" in refusal(f"{one}---\n{one}")


def test_broken_yaml_is_told_with_its_place() -> None:
    assert refusal("name: [a\nsql: b\n").startswith("f.yaml:2:4: not YAML: ")


def test_a_file_without_cases_is_refused() -> None:
    assert "no case in this file" in refusal("# nothing\n")
