"""What holds for every DAG and every door: short, documented, with a form, and quick to load."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DAGS = sorted((ROOT / "dags").glob("*.py"))
DOORS = sorted((ROOT / "spark_jobs").glob("*.py"))

pytestmark = pytest.mark.dags


def test_there_is_a_door_for_every_dag() -> None:
    assert [path.name for path in DAGS] != []
    assert {path.name for path in DAGS} <= {path.name for path in DOORS}


@pytest.mark.parametrize("path", [*DAGS, *DOORS], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_dag_and_a_door_stay_under_40_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) < 40


@pytest.mark.parametrize("path", DAGS, ids=lambda path: path.stem)
def test_a_dag_loads_without_spark_and_great_expectations(path: Path) -> None:
    program = (
        "import runpy, sys\n"
        f"runpy.run_path({str(path)!r})\n"
        "unwanted = {name.partition('.')[0] for name in sys.modules} & {'pyspark', 'delta', 'great_expectations'}\n"
        "sys.exit(str(unwanted) if unwanted else 0)\n"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", DAGS, ids=lambda path: path.stem)
def test_a_dag_is_one_run_at_a_time_with_docs_and_a_form(path: Path, dag_of: Callable[[str], Any]) -> None:
    dag = dag_of(path.stem)
    assert dag.dag_id == path.stem
    assert dag.doc_md.startswith("### ")
    assert (dag.max_active_runs, dag.catchup) == (1, False)
    params = {name: dag.params.get_param(name) for name in dag.params}
    assert {"pipeline", "lake", "set"} <= params.keys()
    assert all(param.schema.get("title") and param.description for param in params.values())
    dag.params.validate()


def test_the_gate_follows_what_a_stream_run_updates(dag_of: Callable[[str], Any]) -> None:
    (outlet,) = dag_of("stream").get_task("stream").outlets
    assert dag_of("quality_gate").timetable.asset_condition == outlet
