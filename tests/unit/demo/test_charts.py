"""Charts are well-formed SVG that says its numbers in words."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.demo.charts import Axis, Bar, Series, bars, columns, lines, number_axis

X = Axis("x", 0, 10, ((0, "0"), (10, "10")))


def texts(svg: str, tag: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter(tag)]


@example([5e-324])
@example([-5e-324, 5e-324])
@example([26.0, -5e-324])
@example([5e-324, -6.0])
@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=20))
def test_an_axis_holds_all_its_values_and_zero(values: list[float]) -> None:
    axis = number_axis("y", values)
    assert axis.low <= min(0.0, *values)
    assert axis.high >= max(0.0, *values)
    assert 2 <= len(axis.ticks) <= 12


def test_an_axis_of_nothing_but_zeros_has_a_length() -> None:
    axis = number_axis("y", [0.0, 0.0])
    assert axis.high > axis.low


def test_a_line_has_a_label_and_a_tooltip_for_each_point() -> None:
    one = Series("LGA & co", ((0, 1.0), (10, 3.0)), ("first", "second"), 0)
    svg = lines([one], X, number_axis("y", [1.0, 3.0]), "a summary")
    assert "LGA & co" in texts(svg, "text")
    assert texts(svg, "title") == ["LGA & co: first", "LGA & co: second"]
    assert ET.fromstring(svg).get("aria-label") == "a summary"


def test_labels_of_lines_that_end_at_one_height_do_not_touch() -> None:
    same = [Series(name, ((0, 1.0), (10, 2.0)), ("", ""), n) for n, name in enumerate("abc")]
    svg = lines(same, X, number_axis("y", [2.0]), "")
    heights = sorted(float(e.get("y", "")) for e in ET.fromstring(svg).iter("text") if e.text in set("abc"))
    assert all(below - above >= 12 for above, below in pairwise(heights))


def test_a_line_without_points_is_left_out() -> None:
    svg = lines([Series("empty", (), (), 0)], X, number_axis("y", [1.0]), "")
    assert "empty" not in texts(svg, "text")


def test_bars_are_as_long_as_their_values() -> None:
    svg = bars([Bar("one", 10, "10"), Bar("two", 20, "20")], "")
    first, second = (float(rect.get("width", "")) for rect in ET.fromstring(svg).iter("rect"))
    assert second == pytest.approx(2 * first, rel=0.01)


def test_a_negative_bar_ends_where_a_positive_one_begins() -> None:
    svg = bars([Bar("early", -5, "-5"), Bar("late", 5, "5")], "")
    early, late = ET.fromstring(svg).iter("rect")
    end_of_early = float(early.get("x", "")) + float(early.get("width", ""))
    assert end_of_early == pytest.approx(float(late.get("x", "")), abs=0.2)


def test_the_highest_column_is_named() -> None:
    svg = columns([(1, 5.0, "a"), (2, 9.0, "b")], X, number_axis("y", [9.0]), "", mark="the worst")
    assert "the worst" in texts(svg, "text")


def test_names_are_escaped() -> None:
    svg = bars([Bar("<script>", 1, "1")], '"quoted"')
    assert "<script>" not in svg
    assert "<script>" in texts(svg, "text")
