"""Rewrites of plans."""

from __future__ import annotations

from headrace.event_time.interval import Interval
from headrace.sql.nodes import Alias, Filter, Lookup, Project, Scan, Union, Window, Windowed
from headrace.sql.rules import rewrite

WINDOW = Window("tumbling", Interval(0, 1_000_000))


def test_two_filters_are_one() -> None:
    plan = Filter(Filter(Scan("s"), "a OR b"), "c")
    assert rewrite(plan) == Filter(Scan("s"), "(a OR b) AND (c)")


def test_rows_are_dropped_before_they_are_given_to_windows() -> None:
    plan = Project(Filter(Windowed(Scan("s"), WINDOW), "a"), ())
    assert rewrite(plan) == Project(Windowed(Filter(Scan("s"), "a"), WINDOW), ())


def test_a_union_of_unions_is_one() -> None:
    plan = Union((Union((Scan("a"), Scan("b"))), Alias(Union((Scan("c"),)), "x")))
    assert rewrite(plan) == Union((Scan("a"), Scan("b"), Alias(Union((Scan("c"),)), "x")))


def test_the_outermost_alias_stands() -> None:
    assert rewrite(Alias(Alias(Lookup("t"), "a"), "b")) == Alias(Lookup("t"), "b")


def test_a_plan_that_is_rewritten_stays_so() -> None:
    once = rewrite(Filter(Windowed(Filter(Filter(Scan("s"), "a"), "b"), WINDOW), "c"))
    assert rewrite(once) == once
