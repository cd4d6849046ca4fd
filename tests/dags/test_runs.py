"""The DAGs at work: a small real pipeline through SparkSubmitOperator, then the gate, then a refused one.

`dag.test` doesn't raise on failure, so states are what is asserted.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

pytestmark = pytest.mark.dags

DagOf = Callable[[str], Any]

SQL = """
CREATE STREAM orders (shop STRING, ts TIMESTAMP, amount BIGINT, WATERMARK FOR ts AS ts)
  WITH ('connector' = 'files', 'path' = '${INPUT}', 'format' = 'json');
CREATE TABLE minutes AS
  SELECT shop, window_start, COUNT(*) AS orders, SUM(amount) AS total FROM orders
  GROUP BY shop WINDOW TUMBLING(INTERVAL '1' MINUTE) EMIT FINAL;
"""


@dataclass(frozen=True, slots=True)
class Shop:
    """A pipeline with its input and its lake."""

    pipeline: Path
    source: Path
    lake: Path

    def conf(self, **more: Any) -> dict[str, Any]:
        return {
            "pipeline": str(self.pipeline),
            "lake": str(self.lake),
            "set": {"INPUT": str(self.source)},
            **more,
        }

    def totals(self) -> dict[tuple[str, int], tuple[int, int]]:
        """(shop, minute) -> (orders, total)."""
        rows = DeltaTable(str(self.lake / "minutes")).to_pyarrow_table().to_pylist()
        return {(row["shop"], row["window_start"].minute): (row["orders"], row["total"]) for row in rows}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """100 orders of two shops, one each second: the first minute has 30 and 30, the second 20 and 20."""
    root = tmp_path_factory.mktemp("shop")
    made = Shop(root / "shop.sql", root / "orders", root / "lake")
    made.pipeline.write_text(SQL)
    made.source.mkdir()
    orders = [
        {"shop": "AB"[n % 2], "ts": f"2026-01-01T10:{n // 60:02}:{n % 60:02}Z", "amount": n}
        for n in range(100)
    ]
    (made.source / "orders.json").write_text("".join(f"{json.dumps(order)}\n" for order in orders))
    return made


def outcome(run: Any) -> tuple[str, dict[str, tuple[str, int]]]:
    """The run's state, and each task's state and number of tries."""
    tasks = {task.task_id: (str(task.state), task.try_number) for task in run.get_task_instances()}
    return str(run.state), tasks


def test_a_stream_run_writes_the_results_and_the_gate_proves_them(shop: Shop, dag_of: DagOf) -> None:
    run = dag_of("stream").test(run_conf=shop.conf(mode="flush"))
    assert outcome(run) == ("success", {"stream": ("success", 1)})
    a, b = sum(range(0, 60, 2)), sum(range(1, 60, 2))
    c, d = sum(range(60, 100, 2)), sum(range(61, 100, 2))
    assert shop.totals() == {("A", 0): (30, a), ("B", 0): (30, b), ("A", 1): (20, c), ("B", 1): (20, d)}

    run = dag_of("quality_gate").test(run_conf=shop.conf())
    assert outcome(run) == ("success", {"asked": ("success", 1), "gate": ("success", 1)})


def test_a_changed_result_fails_the_gate_at_once(shop: Shop, dag_of: DagOf) -> None:
    path = str(shop.lake / "minutes")
    rows = DeltaTable(path).to_pyarrow_table()
    spoilt = rows.set_column(rows.schema.get_field_index("total"), "total", pc.add(rows.column("total"), 1))
    write_deltalake(path, spoilt, mode="overwrite")
    run = dag_of("quality_gate").test(run_conf=shop.conf())
    assert outcome(run) == ("failed", {"asked": ("success", 1), "gate": ("failed", 1)})


def test_a_refused_pipeline_fails_at_once_and_leaves_nothing(
    shop: Shop, dag_of: DagOf, tmp_path: Path
) -> None:
    refused = tmp_path / "refused.sql"
    refused.write_text(SQL.replace("SUM(amount)", "SUM(amnt)"))
    conf = shop.conf(mode="flush") | {"pipeline": str(refused), "lake": str(tmp_path / "lake")}
    run = dag_of("stream").test(run_conf=conf)
    assert outcome(run) == ("failed", {"stream": ("failed", 1)})
    assert not (tmp_path / "lake").exists()


def test_a_refresh_publishes_a_table_and_refused_rows_fail_it_at_once(tmp_path: Path, dag_of: DagOf) -> None:
    pipeline, lake = tmp_path / "prices.sql", tmp_path / "lake"
    pipeline.write_text("CREATE TABLE prices (shop STRING, price BIGINT, PRIMARY KEY (shop));")
    conf = {"table": "prices", "pipeline": str(pipeline), "lake": str(lake), "set": {}}
    for name, rows in (("first", "A,1\nB,2\n"), ("second", "A,3\nA,4\n")):
        (tmp_path / f"{name}.csv").write_text(f"shop,price\n{rows}")
    run = dag_of("refresh_broadcast").test(run_conf=conf | {"from": str(tmp_path / "first.csv")})
    assert outcome(run) == ("success", {"refresh": ("success", 1)})
    run = dag_of("refresh_broadcast").test(run_conf=conf | {"from": str(tmp_path / "second.csv")})
    assert outcome(run) == ("failed", {"refresh": ("failed", 1)})
    table = DeltaTable(str(lake / "prices"))
    assert (table.version(), table.to_pyarrow_table().to_pylist()) == (
        0,
        [{"shop": "A", "price": 1}, {"shop": "B", "price": 2}],
    )
