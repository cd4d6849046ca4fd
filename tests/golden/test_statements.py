"""Statements and the plans that they become; refusals and their exact words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import Refused
from headrace.sql.compile import compile_pipeline
from headrace.sql.explain import explain
from tests.golden.conftest import Check, blocks, pipeline_text

Block = tuple[Path, str]


def over(folder: str) -> Callable[[Any], Any]:
    def mark(function: Any) -> Any:
        function.folder = folder
        return function

    return mark


@over("plans")
def test_a_statement_becomes_its_plan(block: Block, check: Check) -> None:
    path, name = block
    pipeline = compile_pipeline(pipeline_text(blocks(path)[name][0]))
    stage = "tree" if path.stem == "trees" else "plan"
    text = explain(pipeline, stage)
    query = (
        text[text.index("\nresult ") + 1 :]
        if stage == "plan" and not path.stem.startswith("declared")
        else text
    )
    check(path, name, query)


@over("refusals")
def test_a_refusal_says_what_where_and_what_to_do(block: Block, check: Check) -> None:
    path, name = block
    with pytest.raises(Refused) as caught:
        compile_pipeline(pipeline_text(blocks(path)[name][0]))
    check(path, name, _without_prelude(caught.value.render()))


def _without_prelude(text: str) -> str:
    """Line 1 is the prelude and may be long: a fault there would be a fault of this test."""
    return "\n".join(line.rstrip() for line in text.splitlines())
