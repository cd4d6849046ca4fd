"""The time bound of a join of two streams, read from the forms in which people write it."""

from __future__ import annotations

import pytest

from headrace.sql.compile import compile_pipeline
from headrace.sql.nodes import JoinStreams, walk

SECOND = 1_000_000
STREAMS = """
CREATE STREAM a (k BIGINT, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
CREATE STREAM b (k BIGINT, v BIGINT, at TIMESTAMP, WATERMARK FOR at AS at);
CREATE STREAM c (k BIGINT, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts);
CREATE TABLE r AS SELECT a.k FROM a JOIN b ON a.k = b.k AND """


def joins_of(rest: str) -> list[JoinStreams]:
    plan = compile_pipeline(f"{STREAMS}{rest};").result("r").plan
    return [node for node in walk(plan) if isinstance(node, JoinStreams)]


@pytest.mark.parametrize(
    ("condition", "lower", "upper"),
    [
        ("b.at BETWEEN a.ts AND a.ts + INTERVAL '5' SECOND", 0, 5 * SECOND),
        ("b.at BETWEEN a.ts - INTERVAL '1' DAY AND a.ts - INTERVAL '1' HOUR", -86_400 * SECOND, -3_600 * SECOND),
        ("a.ts BETWEEN b.at - INTERVAL '5' SECOND AND b.at + INTERVAL '2' SECOND", -2 * SECOND, 5 * SECOND),
        ("b.at >= a.ts AND a.ts + INTERVAL '250' MILLISECOND >= b.at", 0, 250_000),
        ("b.at > a.ts AND b.at < a.ts + INTERVAL '5' SECOND", 1, 5 * SECOND - 1),
        ("a.ts < b.at AND b.at - INTERVAL '5' SECOND < a.ts", 1, 5 * SECOND - 1),
        ("b.at = a.ts + INTERVAL '3' SECOND", 3 * SECOND, 3 * SECOND),
        ("b._event_time BETWEEN a._event_time AND INTERVAL '2' SECOND + a.ts", 0, 2 * SECOND),
        ("b.at >= a.ts AND (b.at <= a.ts + INTERVAL '9' SECOND AND b.at - INTERVAL '1' SECOND <= a.ts)", 0, SECOND),
        ("b.at + INTERVAL '1' SECOND BETWEEN a.ts + INTERVAL '3' SECOND AND (a.ts) + INTERVAL '4' SECOND", 2 * SECOND, 3 * SECOND),
        ("b.v > a.v AND b.at BETWEEN a.ts AND a.ts + INTERVAL '-0' SECOND", 0, 0),
    ],
)  # fmt: skip
def test_a_bound_is_the_distance_of_the_right_time_from_the_left_one(
    condition: str, lower: int, upper: int
) -> None:
    [join] = joins_of(condition)
    assert (join.lower.micros, join.upper.micros) == (lower, upper)
    assert join.keys[0] == ("a.k", "b.k")


def test_options_and_conditions_hold_both() -> None:
    [join] = joins_of("b.at > a.ts WITH ('join.lower_bound' = '-1m', 'join.upper_bound' = '1h 30m')")
    assert (join.lower.micros, join.upper.micros) == (1, 5_400 * SECOND)
    assert "make_dt_interval" in join.condition


def test_a_third_stream_is_bound_to_the_one_that_its_condition_names() -> None:
    first = "b.at BETWEEN a.ts AND a.ts + INTERVAL '5' SECOND"
    to_a, _ = joins_of(f"{first} JOIN c ON c.k = a.k AND c.ts BETWEEN a.ts - INTERVAL '1' SECOND AND a.ts")
    to_b, below = joins_of(
        f"{first} JOIN c ON c.k = a.k AND c.ts BETWEEN b.at AND b.at + INTERVAL '1' SECOND"
    )
    assert (to_a.times, to_b.times, below.times) == (
        ("a._event_time", "c._event_time"),
        ("b._event_time", "c._event_time"),
        ("a._event_time", "b._event_time"),
    )
    assert (to_a.lower.micros, to_b.upper.micros) == (-SECOND, SECOND)


def test_every_equality_of_both_sides_is_a_key() -> None:
    [join] = joins_of("b.v + 1 = a.v AND a.v = 3 AND b.at BETWEEN a.ts AND a.ts + INTERVAL '5' SECOND")
    assert join.keys == (("a.k", "b.k"), ("a.v", "b.v + 1"))
