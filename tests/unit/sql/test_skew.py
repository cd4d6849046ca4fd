"""Hot keys: which are chosen, over which salts, and what is said where nothing is salted."""

from __future__ import annotations

import pytest

from headrace.errors import Refused
from headrace.sql.compile import compile_pipeline
from headrace.sql.explain import explain
from headrace.sql.nodes import JoinStreams, Node, walk
from headrace.sql.skew import Heat, HotKey, Salt, Top, advice, even_salts, hot_keys, salt_of, salted_node

STREAMS = "".join(
    f"CREATE STREAM {name} (k BIGINT, v BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts); " for name in "abc"
)
NEAR = "ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '5' SECOND"
AUTO = Salt("auto")
N = 4


def plan(query: str) -> Node:
    return compile_pipeline(f"{STREAMS}CREATE TABLE r AS {query};").result("r").plan


def join(kind: str = "INNER") -> JoinStreams:
    nodes = walk(plan(f"SELECT a.v, b.v AS w FROM a {kind} JOIN b {NEAR}"))
    return next(node for node in nodes if isinstance(node, JoinStreams))


def heat(total: int, **keys: int) -> Heat:
    """Rows of keys named by a letter, whose salts lead to partitions 0, 1, 2, 3, 0, …"""
    top = tuple(Top(ord(name), name, rows, tuple(n % N for n in range(16))) for name, rows in keys.items())
    return Heat((total, 0, 0, 0), top)


def chosen(kind: str, left: Heat, right: Heat, salt: Salt = AUTO) -> list[tuple[str, int, int]]:
    return [(key.text, key.side, len(key.salts)) for key in hot_keys(join(kind), (left, right), salt)]


def test_a_key_is_hot_at_more_than_twice_the_mean_partition_load() -> None:
    assert chosen("INNER", heat(1000, x=500, y=20), heat(0)) == []
    assert chosen("INNER", heat(1000, x=501, y=20), heat(0)) == [("x", 0, 3)]
    assert chosen("INNER", heat(1000, x=300), heat(0), Salt("auto", factor=1.0)) == [("x", 0, 2)]


def test_the_side_with_the_rows_is_spread_and_the_other_one_copied_but_for_rows_that_come_out_without_a_match() -> (
    None
):
    left, right = heat(100, x=10), heat(900, x=800)
    assert chosen("INNER", left, right) == [("x", 1, 4)]
    assert chosen("RIGHT", left, right) == [("x", 1, 4)]
    assert chosen("LEFT", left, right) == []
    assert chosen("LEFT", right, left) == [("x", 0, 4)]
    assert chosen("FULL", right, left) == []


def test_auto_spreads_over_no_more_than_the_copies_are_worth_and_a_number_over_so_many() -> None:
    left = heat(900, x=800)
    assert chosen("INNER", left, heat(100, x=66)) == [("x", 0, 4)]
    assert chosen("INNER", left, heat(100, x=100)) == [("x", 0, 3)]
    assert chosen("INNER", left, heat(300, x=300)) == []
    assert chosen("INNER", left, heat(300, x=300), Salt("fixed", 8)) == [("x", 0, 8)]


def test_salts_lead_to_partitions_of_their_own_as_long_as_there_are_some() -> None:
    assert even_salts((2, 2, 2, 0, 0, 1, 3), 4) == (0, 3, 5, 6)
    assert even_salts((2, 2, 2, 0, 0, 1), 5) == (0, 1, 3, 4, 5)
    assert even_salts((0,), 3) == (0, 1, 2)


def test_one_join_of_a_query_is_salted_and_an_aggregate_only_when_told_how_far() -> None:
    several = f"SELECT a.v FROM a JOIN b {NEAR} JOIN c ON c.k = a.k AND c.ts BETWEEN a.ts AND a.ts + INTERVAL '1' SECOND"
    groups = plan("SELECT k, COUNT(*) AS n FROM a GROUP BY k")
    assert salted_node(plan(several), AUTO) is None
    assert isinstance(salted_node(plan(f"SELECT a.v FROM a JOIN b {NEAR}"), AUTO), JoinStreams)
    assert salted_node(groups, AUTO) is None
    assert salted_node(groups, Salt("fixed", 3)) is not None
    assert salted_node(plan("SELECT COUNT(*) AS n FROM a"), Salt("fixed", 3)) is None
    sessions = plan("SELECT k, COUNT(*) AS n FROM a GROUP BY k WINDOW SESSION(INTERVAL '1' SECOND)")
    assert salted_node(sessions, Salt("fixed", 3)) is None


def test_explain_says_what_is_salted_and_why_the_rest_is_not() -> None:
    queries = {
        "j": f"SELECT a.v FROM a LEFT JOIN b {NEAR}",
        "f": f"SELECT a.v FROM a FULL JOIN b {NEAR}",
        "g": "SELECT k, COUNT(*) AS n FROM a GROUP BY k",
        "d": "SELECT DISTINCT k FROM a",
    }
    text = STREAMS + " ".join(f"CREATE TABLE {name} AS {query};" for name, query in queries.items())

    def told(salt: str) -> list[str]:
        tree = explain(compile_pipeline(f"SET 'skew.salt' = '{salt}'; {text}"))
        return [line.lstrip(" │") for line in tree.splitlines() if "salted: " in line]

    assert told("off") == []
    assert told("auto") == [
        "salted: left rows of keys found hot at a start are spread over as many sub-groups as they need, their partners are copied",
        "not salted: a FULL join keeps unmatched rows of both sides, and those of a copied side would come out n times",
        "not salted: of a group each task moves one row, its partial result, however many it read",
        "not salted: equal rows must meet in one partition",
    ]
    assert (
        told("8")[2]
        == "salted: groups found hot at a start are spread over 8 sub-groups, partly aggregated there, and merged"
    )


def test_advice_names_the_hot_keys_and_what_would_help() -> None:
    left, right = heat(900, x=800), heat(100, x=10)

    def said(kind: str, salt: Salt, kept: tuple[HotKey, ...] | None, because: str = "") -> tuple[str, ...]:
        return advice(join(kind), because, (left, right), salt, kept)

    x = hot_keys(join(), (left, right), AUTO)
    assert said("INNER", Salt(), ()) == (
        "x (left rows over 4): SET 'skew.salt' = 'auto' before the first start",
    )
    assert said("INNER", Salt(), None)[0].endswith(
        "in another lake: the state that is there was begun without salt"
    )
    assert said("INNER", AUTO, ()) == ("x (left rows over 4): is salted from the next start on",)
    assert said("INNER", AUTO, x) == ("x: is spread over salts",)
    assert said("RIGHT", AUTO, ())[0].startswith("x: salt does not help: ")
    assert said("FULL", AUTO, None, "a FULL join …") == ("x: not for salt: a FULL join …",)
    assert advice(join(), "", (heat(1000, x=500), heat(0)), AUTO, ()) == (
        "no key is hot: none has more than 2 times the mean partition load",
    )
    assert advice(join(), "", (heat(0), heat(0)), AUTO, ()) == ("no rows to judge by",)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("skew.salt", "on", "skew.salt: 'on' is none of auto, off and a number"),
        ("skew.salt", "1", "skew.salt: a number of salts is 2 or more"),
        ("skew.factor", "0", "skew.factor: '0' is no number above 0"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(setting: str, value: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        compile_pipeline(f"SET '{setting}' = '{value}'; {STREAMS}CREATE TABLE r AS SELECT k FROM a;")


def test_the_settings_are_read() -> None:
    text = f"SET 'skew.salt' = '8'; SET 'skew.factor' = '1.5'; {STREAMS}CREATE TABLE r AS SELECT k FROM a;"
    assert salt_of(compile_pipeline(text)) == Salt("fixed", 8, 1.5)
    assert salt_of(compile_pipeline(f"{STREAMS}CREATE TABLE r AS SELECT k FROM a;")) == Salt("off", 0, 2.0)
