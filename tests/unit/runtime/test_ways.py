"""How a reference table is joined goes by its size; and the Redis that a pipeline names."""

from __future__ import annotations

import pytest

from headrace.runtime.blockstore import Away
from headrace.runtime.tables import Size
from headrace.runtime.ways import LARGE, NO_REDIS, Limits, Way, limits_of
from headrace.sql.compile import compile_pipeline

DDL = "CREATE TABLE t (id BIGINT, name STRING, PRIMARY KEY (id));"


def test_a_redis_out_of_reach_is_one_error_without_its_password() -> None:
    text = f"SET 'lookup.redis' = 'redis://me:secret@127.0.0.1:1/0'; {DDL}"
    store = limits_of(compile_pipeline(text)).store
    assert store is not None
    assert store.name == "redis://127.0.0.1:1/0"
    with pytest.raises(Away):
        store.complete("headrace:x")


@pytest.mark.parametrize(
    ("size", "named", "way", "why"),
    [
        (10 * 2**20, True, Way.BROADCAST, ""),
        (10 * 2**20 + 1, True, Way.SPARK, ""),
        (LARGE - 1, True, Way.SPARK, ""),
        (LARGE, True, Way.REDIS, ""),
        (LARGE, False, Way.SPARK, NO_REDIS),
    ],
)
def test_the_size_decides(size: int, named: bool, way: Way, why: str) -> None:
    text = "SET 'lookup.redis' = 'redis://127.0.0.1:6379/0';" if named else ""
    limits = limits_of(compile_pipeline(f"{text} {DDL}"))
    assert limits.way(Size(1, size)) == (way, why)
    assert Limits(broadcast=0, lookup=5).way(Size(1, 4)) == (Way.SPARK, "")
