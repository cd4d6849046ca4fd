"""A query's text on its way to plain Spark SQL."""

from __future__ import annotations

import pytest

from expectations.calls import plain_calls
from expectations.relations import CARRIED, Names
from expectations.rewrite import Plain, plain
from headrace.errors import Unknown

NAMES = Names(streams=frozenset({"s", "a", "b"}), tables=frozenset({"ref"}))
SEVERAL = Names(streams=frozenset({"s"}), tables=frozenset({"ref"}), several_versions=True)
HIDDEN = ", ".join(CARRIED)


def text_of(query: str, names: Names = NAMES) -> str:
    return plain(query, names).text


def test_a_query_without_anything_of_ours_stays_letter_by_letter() -> None:
    query = "SELECT k,  upper( v ) FROM s -- why\n WHERE v IS DISTINCT FROM 'EMIT CHANGES'"
    assert text_of(query) == query


def test_emit_and_query_options_are_dropped() -> None:
    assert text_of("SELECT k FROM s EMIT CHANGES WITH ('a' = 'b')").strip() == "SELECT k FROM s"


def test_a_window_becomes_a_lateral_view_between_from_and_where() -> None:
    found = text_of(
        "SELECT k, COUNT(*) FROM s WHERE v > 0 OR v < -1 "
        "GROUP BY k WINDOW TUMBLING(INTERVAL '10' SECOND) HAVING COUNT(*) > 1 EMIT FINAL"
    )
    assert "FROM s LATERAL VIEW inline(" in found
    assert (
        "__windows AS __started, __ended WHERE (v > 0 OR v < -1) AND unix_micros(__ended) > __late_us"
        in found
    )
    assert "GROUP BY k , __started, __ended HAVING COUNT(*) > 1" in found
    assert found.startswith("SELECT k, COUNT(*), __started AS __window_start, __ended AS __window_end FROM")


def test_a_window_alone_is_the_whole_group() -> None:
    found = text_of("SELECT COUNT(*) FROM s GROUP BY WINDOW TUMBLING(INTERVAL '10' SECOND)")
    assert found.endswith("GROUP BY __started, __ended")


def test_a_window_s_columns_are_named_outside_aggregates_and_within_them_those_of_the_rows() -> None:
    found = text_of(
        "SELECT _WINDOW_START AS a, window_end, MAX(window_end) AS last, s.window_end AS own FROM s "
        "GROUP BY s.window_end WINDOW TUMBLING(INTERVAL '10' SECOND) HAVING window_end > MIN(window_start)"
    )
    assert found.startswith(
        "SELECT __started AS a, __ended AS window_end, MAX(window_end) AS last, s.window_end AS own, "
    )
    assert found.endswith("GROUP BY s.window_end , __started, __ended HAVING __ended > MIN(window_start)")


def test_a_window_table_without_groups_shows_the_bounds_as_columns() -> None:
    found = text_of(
        "SELECT * FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND)) WHERE window_end > ts"
    )
    assert found.endswith("__windows AS window_start, window_end WHERE window_end > ts")


def test_a_table_function_groups_as_it_is_written() -> None:
    found = text_of(
        "SELECT k, window_end FROM TABLE(TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '10' SECOND)) AS t "
        "GROUP BY k, window_start, window_end EMIT FINAL"
    )
    assert "FROM s AS t LATERAL VIEW inline(" in found
    assert "unix_micros(ts)" in found
    assert found.startswith("SELECT k, __ended AS window_end,")
    assert found.strip().endswith("GROUP BY k, __started, __ended")


def test_a_session_is_spark_s_own_window_over_all_rows() -> None:
    found = plain(
        "SELECT k, window_start, window_end AS e FROM s GROUP BY k WINDOW SESSION(INTERVAL '5' SECOND)", NAMES
    )
    assert found.text.startswith("SELECT k, session_window.start AS window_start, session_window.end AS e,")
    assert found.text.endswith("GROUP BY k , session_window(__time, '5000000 microseconds')")
    assert found.windows is not None
    assert found.windows.kind == "session"


def test_hidden_columns_are_carried_through_ctes_and_views_and_both_sides_of_a_union() -> None:
    names = Names(
        streams=NAMES.streams, tables=NAMES.tables, views={"u": "SELECT k FROM a UNION ALL SELECT k FROM b"}
    )
    found = text_of("WITH t AS (SELECT k FROM u WHERE k > 0) SELECT k, COUNT(*) FROM t GROUP BY k", names)
    assert found.startswith(
        f"WITH `u` AS (SELECT k, {HIDDEN} FROM a UNION ALL SELECT k, {HIDDEN} FROM b\n), t AS"
    )
    assert f"t AS (SELECT k, {HIDDEN} FROM u WHERE k > 0) SELECT k, COUNT(*) FROM t GROUP BY k" in found


def test_a_system_column_that_a_sub_query_selects_is_not_carried_twice() -> None:
    found = text_of("SELECT k FROM (SELECT k, _partition FROM s) AS x")
    assert found.count("_partition") == len(["selected", "__partition"])


def test_distinct_and_grouped_rows_carry_nothing() -> None:
    assert HIDDEN not in text_of("SELECT * FROM (SELECT DISTINCT k FROM s) x")
    assert HIDDEN not in text_of("SELECT * FROM (SELECT k, MAX(v) m FROM s GROUP BY k) x")
    assert HIDDEN not in text_of("SELECT * FROM (SELECT MAX(v) m FROM s) x")
    assert HIDDEN in text_of("SELECT * FROM (SELECT MAX(v) OVER (PARTITION BY k) m FROM s) x")


def test_a_star_shows_no_hidden_column() -> None:
    assert text_of("SELECT s.*, 1 FROM s") == f"SELECT s.* EXCEPT ({HIDDEN}), 1 FROM s"
    found = text_of("SELECT * FROM s AS x JOIN ref r ON x.k = r.k")
    assert found.startswith("SELECT * EXCEPT (x._timestamp, ")
    assert "r." not in found.split(" FROM ")[0]


def test_views_are_written_out_only_where_they_are_used() -> None:
    views = {"one": "SELECT k FROM s", "two": "SELECT k FROM one", "three": "SELECT k FROM s"}
    found = text_of("SELECT k FROM two", Names(NAMES.streams, NAMES.tables, views))
    assert "`one` AS" in found
    assert found.index("`one` AS") < found.index("`two` AS")
    assert "three" not in found


def test_only_group_keys_that_were_asked_for_are_appended_in_the_order_of_group_by() -> None:
    found = plain("SELECT COUNT(*) FROM s GROUP BY a, upper(b), c", NAMES, groups=(1, 2))
    assert found.text.startswith("SELECT COUNT(*), (upper(b)) AS __group1, (c) AS __group2 FROM s")
    assert found.group_columns == ("__group1", "__group2")


class TestSeveralVersions:
    def test_a_table_is_joined_in_the_version_of_the_row_s_batch(self) -> None:
        found = text_of(
            "SELECT s.k FROM s LEFT JOIN ref r ON s.k = r.k OR r.k IS NULL WHERE s.v > 0", SEVERAL
        )
        assert (
            "LEFT JOIN ref r ON (s.k = r.k OR r.k IS NULL) AND r.__epoch_ref = __epoch WHERE s.v > 0" in found
        )

    def test_a_sub_query_sees_the_version_of_the_row_s_batch(self) -> None:
        found = text_of(
            "SELECT k FROM s WHERE v > (SELECT MAX(lim) FROM ref) AND EXISTS (SELECT 1 FROM ref WHERE a)",
            SEVERAL,
        )
        assert "(SELECT MAX(lim) FROM ref WHERE `ref`.__epoch_ref = __epoch)" in found
        assert "(SELECT 1 FROM ref WHERE (a) AND `ref`.__epoch_ref = __epoch)" in found

    def test_a_derived_table_carries_its_version(self) -> None:
        found = text_of("SELECT s.k FROM s JOIN (SELECT k FROM ref WHERE p > 1) AS d ON s.k = d.k", SEVERAL)
        assert (
            "(SELECT k, __epoch_ref FROM ref WHERE p > 1) AS d ON (s.k = d.k) AND d.__epoch_ref = __epoch"
            in found
        )

    def test_a_join_by_using_is_unknown(self) -> None:
        with pytest.raises(Unknown, match="USING"):
            text_of("SELECT k FROM s JOIN ref USING (k)", SEVERAL)

    def test_grouped_rows_of_a_table_are_unknown(self) -> None:
        with pytest.raises(Unknown, match="changed its version"):
            text_of("SELECT s.k FROM s JOIN (SELECT k, MAX(p) FROM ref GROUP BY k) d ON s.k = d.k", SEVERAL)

    def test_of_one_version_nothing_is_added(self) -> None:
        query = "SELECT s.k FROM s JOIN ref USING (k) WHERE v > (SELECT MAX(lim) FROM ref)"
        assert text_of(query) == query


class TestUnknown:
    @pytest.mark.parametrize(
        "query",
        [
            "SELECT k FROM elsewhere",
            "SELECT COUNT(*) FROM s GROUP BY WINDOW TUMBLING(INTERVAL '1:00' HOUR TO MINUTE)",
            "VALUES (1)",
        ],
    )
    def test_what_has_no_plain_form_is_unknown(self, query: str) -> None:
        with pytest.raises(Unknown, match="can't read this query"):
            text_of(query)


class TestCalls:
    @pytest.mark.parametrize(
        ("written", "plain_form"),
        [
            ("FIRST_VALUE(v)", "min_by(v, struct(__time, __partition, __place))"),
            (
                "last_value(f(a, b)) FILTER (WHERE c)",
                "max_by(f(a, b), struct(__time, __partition, __place)) FILTER (WHERE c)",
            ),
            ("TOP_K(v, 2)", "slice(sort_array(collect_list(v), false), 1, 2)"),
            (
                "TOP_K(v, 2) FILTER (WHERE c)",
                "slice(sort_array(collect_list(v) FILTER (WHERE c), false), 1, 2)",
            ),
            ("MIN_BY(a, b)", "min_by(a, CASE WHEN (b) IS NOT NULL THEN struct(b, a) END)"),
            ("FIRST_VALUE(v) OVER (ORDER BY x)", "FIRST_VALUE(v) OVER (ORDER BY x)"),
            ("COUNT(DISTINCT v)", "COUNT(DISTINCT v)"),
            ("round(TOP_K(v, 1)[0], 2)", "round(slice(sort_array(collect_list(v), false), 1, 1)[0], 2)"),
        ],
    )
    def test_a_call_of_our_own_is_written_in_spark_s_words(self, written: str, plain_form: str) -> None:
        assert plain_calls(f"SELECT {written} FROM s") == f"SELECT {plain_form} FROM s"


def test_hidden_keys_come_up_through_the_queries_that_show_the_groups() -> None:
    text = "WITH c AS (SELECT COUNT(*) AS n FROM s GROUP BY k, v) SELECT * FROM (SELECT n FROM c) AS x"
    found = plain(text, NAMES, (0, 1))
    assert found.group_columns == ("__group0", "__group1")
    assert found.text == (
        "WITH c AS (SELECT COUNT(*) AS n, (k) AS __group0, (v) AS __group1 FROM s GROUP BY k, v) "
        "SELECT * EXCEPT (__group0, __group1), __group0, __group1 FROM "
        "(SELECT n, __group0, __group1 FROM c) AS x"
    )


def test_a_plan_is_a_value() -> None:
    assert plain("SELECT k FROM s", NAMES) == Plain("SELECT k FROM s", None, ())


ON = "a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '5' SECOND"


def test_an_inner_join_of_streams_stays_letter_by_letter() -> None:
    query = f"SELECT a.k FROM a JOIN b ON {ON} WHERE a.k > 1"
    assert plain(query, NAMES) == Plain(query, None, ())


def test_an_outer_join_of_streams_tells_when_a_row_without_a_match_is_due() -> None:
    names = Names(NAMES.streams, NAMES.tables, waits=(5_000_000, 0))
    found = plain(f"SELECT l.k, m.k AS other FROM a l LEFT JOIN b AS m ON {ON}", names)
    assert found.timed
    due = (
        "CASE WHEN m.__time IS NULL THEN timestamp_micros(unix_micros(l.__time) + 5000000L) "
        "WHEN l.__time IS NULL THEN timestamp_micros(unix_micros(m.__time) + 0L) END AS __row_time"
    )
    assert found.text == f"SELECT l.k, m.k AS other, {due} FROM a l LEFT JOIN b AS m ON {ON}"


def test_a_bound_of_options_goes_into_the_condition() -> None:
    options = "WITH ('join.type' = 'interval', 'join.lower_bound' = '-1m', 'join.upper_bound' = '1h 250 milliseconds')"
    found = text_of(f"SELECT a.k FROM a JOIN b ON a.k = b.k OR a.k = 1 {options}").strip()
    bound = (
        "unix_micros(`b`.__time) >= unix_micros(`a`.__time) + -60000000L "
        "AND unix_micros(`b`.__time) <= unix_micros(`a`.__time) + 3600250000L"
    )
    assert found == f"SELECT a.k FROM a JOIN b ON (a.k = b.k OR a.k = 1) AND {bound}"


def test_a_star_over_a_join_of_streams_shows_the_columns_of_both() -> None:
    hidden = ", ".join([*(f"`a`.{name}" for name in CARRIED), *(f"`b`.{name}" for name in CARRIED)])
    assert text_of(f"SELECT * FROM a JOIN b ON {ON}") == f"SELECT * EXCEPT ({hidden}) FROM a JOIN b ON {ON}"


def test_an_outer_join_inside_another_query_is_unknown() -> None:
    names = Names(NAMES.streams, NAMES.tables, waits=(5_000_000, 0))
    with pytest.raises(Unknown, match="an outer join of streams in a query inside another one"):
        plain(f"SELECT * FROM (SELECT a.k FROM a LEFT JOIN b ON {ON}) AS j", names)


def test_a_join_in_windows_gives_each_side_its_windows() -> None:
    names = Names(NAMES.streams, NAMES.tables, waits=(0, 0))
    query = "SELECT window_end, l.k FROM a l LEFT JOIN b ON l.k = b.k WINDOW TUMBLING(INTERVAL '10' SECOND) EMIT FINAL"
    found = plain(query, names)
    assert found.windows is None
    assert found.timed
    assert "WINDOW TUMBLING" not in found.text
    assert "SELECT coalesce(l.__ended, `b`.__ended) AS window_end, l.k, CASE WHEN" in found.text
    assert "ON (l.k = b.k) AND l.__started = `b`.__started AND l.__ended = `b`.__ended" in found.text
    assert found.text.count("LATERAL VIEW") == 2


AS_OF = "SELECT a.k, v.x FROM a ASOF{} JOIN b AS v MATCH_CONDITION (a.ts {} v.ts) ON {}{}"


@pytest.mark.parametrize(
    ("side", "sign", "on", "options", "keys", "valid"),
    [
        (
            "",
            ">=",
            "a.k = v.k",
            "",
            "v.k",
            "`a`.__time >= v.__time AND (v.__until IS NULL OR `a`.__time < v.__until)",
        ),
        (
            " LEFT",
            ">",
            "upper(v.k) = a.k AND a.t = u",
            " WITH ('join.tolerance' = '10s')",
            "upper(v.k), u",
            "`a`.__time > v.__time AND (v.__until IS NULL OR `a`.__time <= v.__until) "
            "AND unix_micros(`a`.__time) - unix_micros(v.__time) <= 10000000L "
            "AND unix_micros(`a`.__time) div 10000000L = v.__span",
        ),
    ],
)
def test_an_as_of_join_asks_for_the_row_that_was_valid(
    side: str, sign: str, on: str, options: str, keys: str, valid: str
) -> None:
    found = plain(AS_OF.format(side, sign, on, options), NAMES)
    assert found.timed
    version = f"lead(__time) OVER (PARTITION BY {keys} ORDER BY __time, __partition, __place) AS __until"
    span = "unix_micros(__time) div 10000000L"
    view = f" LATERAL VIEW explode(array({span}, {span} + 1)) __spans AS __span" if options else ""
    versions = f"(SELECT * FROM (SELECT *, {version} FROM b AS v){view})"
    assert " ".join(found.text.split()) == (
        f"SELECT a.k, v.x, `a`.__time AS __row_time FROM a{side} JOIN {versions} AS v ON ({on}) AND {valid}"
    )


def test_an_as_of_join_whose_sides_can_not_be_told_apart_is_unknown() -> None:
    with pytest.raises(Unknown, match="does not say of which side"):
        plain(AS_OF.format("", ">=", "k = j", " EMIT FINAL"), NAMES)
