"""The text of a pipeline: variables, and the way back to the file."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import Place, Refused, RefusedTogether
from headrace.sql.compile import compile_pipeline
from headrace.sql.source import expand


def test_a_variable_is_filled_in() -> None:
    assert expand("a ${X} b", {"X": "1"}).expanded == "a 1 b"


def test_a_value_inside_quotes_can_not_end_the_quotes() -> None:
    assert expand("'${X}'", {"X": "O'Brien"}).expanded == "'O\\'Brien'"


def test_a_variable_in_a_comment_needs_no_value() -> None:
    text = "-- ${X}\n/* ${Y} */ 1"
    assert expand(text, {}).expanded == text


def test_unset_variables_are_refused_together_with_their_places() -> None:
    with pytest.raises(RefusedTogether) as caught:
        expand("${A}\n  '${B}'", {"AA": "1"})
    assert [error.place for error in caught.value.errors] == [Place(1, 1, 4), Place(2, 4, 4)]
    assert caught.value.errors[0].hint == "did you mean ${AA}?"


def test_a_place_behind_a_variable_counts_as_the_file_does() -> None:
    source = expand("x ${A} yy\nzz", {"A": "a longer value"})
    start = source.expanded.index("yy")
    assert source.place((start, start + 2)) == Place(1, 8, 2)
    assert source.place((source.expanded.index("zz"), len(source.expanded))) == Place(2, 1, 2)


def test_a_fault_in_a_filled_in_value_points_at_the_variable() -> None:
    with pytest.raises(Refused) as caught:
        compile_pipeline("CREATE STREAM s (k ${TYPE});", variables={"TYPE": "BIGNIT"})
    assert caught.value.place == Place(1, 20, 1)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", "\n", " ", "${A}", "${LONG}", "'x'"]), max_size=30))
def test_offsets_outside_variables_lead_back_to_the_same_letter(parts: list[str]) -> None:
    text = "".join(parts)
    source = expand(text, {"A": "", "LONG": "0123456789"})
    for offset, letter in enumerate(source.expanded):
        if not letter.isdigit():
            assert text[source.origin(offset)] == letter
