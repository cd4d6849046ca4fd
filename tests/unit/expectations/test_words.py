"""Words of a SQL text and edits by place."""

from __future__ import annotations

import pytest

from expectations.words import Edit, closing, edited, read, split


def test_a_quoted_name_is_never_a_keyword_and_keeps_its_letters() -> None:
    words = read("SELECT `From`, 'WHERE' FROM t")
    assert [word.says for word in words] == ["SELECT", "", ",", "", "FROM", "T"]
    assert [word.name for word in words] == ["select", "from", "", "", "from", "t"]


def test_a_word_lies_where_it_was_written_behind_comments_and_wide_letters() -> None:
    text = "SELECT 'ü ''quoted''' -- FROM nowhere\n, größe FROM t"
    assert [text[word.start : word.end] for word in read(text)] == [
        "SELECT",
        "'ü ''quoted'''",
        ",",
        "größe",
        "FROM",
        "t",
    ]


def test_group_by_is_one_word_whatever_lies_between() -> None:
    assert "GROUP BY" in [word.says for word in read("select a from t group\n  by a")]


def test_depth_counts_the_parentheses_around_a_word() -> None:
    words = read("f(a, (b))")
    assert [word.depth for word in words] == [0, 0, 1, 1, 1, 2, 1, 0]
    assert closing(words, 1) == 7


def test_a_parenthesis_that_is_never_closed_is_an_error() -> None:
    with pytest.raises(ValueError, match="never closed"):
        closing(read("f(a"), 1)


def test_split_passes_over_signs_in_parentheses() -> None:
    words = read("a, f(b, c), d")
    assert split(words, 0, len(words)) == [(0, 1), (2, 8), (9, 10)]
    assert split(words, 3, 3) == []


def test_edits_at_one_place_keep_their_order() -> None:
    assert edited("abc", [Edit(1, 1, "1"), Edit(0, 1, "x"), Edit(1, 1, "2")]) == "x12bc"


def test_edits_that_overlap_are_refused() -> None:
    with pytest.raises(ValueError, match="overlap"):
        edited("abc", [Edit(0, 2, ""), Edit(1, 3, "")])
