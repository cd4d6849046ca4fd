"""A query that changed is refused by the nodes of its plan that are not what they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import Refused
from headrace.runtime.checkpoint import Checkpoint
from headrace.sql.compile import compile_pipeline

TEXT = "CREATE STREAM s (k STRING, v BIGINT); CREATE TABLE r AS SELECT k, MAX(v) AS m FROM s WHERE v > 1 GROUP BY k;"


def started(folder: Path) -> Checkpoint:
    checkpoint = Checkpoint(folder)
    (folder / "spark/offsets").mkdir(parents=True)
    (folder / "spark/offsets/0").write_text('v1\n{"batchTimestampMs":0}\n{}')
    return checkpoint


def test_the_nodes_that_changed_are_told_and_no_others(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.same_query(compile_pipeline(TEXT).result("r"), 2)
    started(tmp_path)
    checkpoint.same_query(compile_pipeline(TEXT + " -- the same").result("r"), 2)
    with pytest.raises(Refused, match="the query has changed") as refused:
        checkpoint.same_query(compile_pipeline(TEXT.replace("MAX", "MIN")).result("r"), 2)
    assert refused.value.hint.startswith(
        "was `Aggregate by (k) of __agg0 = max(v)`; is now `Aggregate by (k) of __agg0 = min(v)`; keep"
    )
