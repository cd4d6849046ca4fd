"""Airflow for the tests in this folder: a home and a database of the test run's own.

The settings are made here, since Airflow reads them once, when a test file first imports it.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

os.environ |= {
    "AIRFLOW_HOME": tempfile.mkdtemp(prefix="headrace-airflow-"),
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
    "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
}


@pytest.fixture(scope="session")
def database() -> None:
    """Airflow's tables in the test run's own SQLite file."""
    done = subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def dag_of(database: None) -> Callable[[str], Any]:
    """The DAG of `dags/NAME.py`."""
    return lambda name: runpy.run_path(str(ROOT / "dags" / f"{name}.py"))["dag"]
