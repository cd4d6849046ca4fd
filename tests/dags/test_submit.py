"""The one operator: arguments, exit codes, what it hands on and how it stops. Real spark-submit, tiny doors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from headrace_airflow.arguments import PROJECT, arguments, subject
from headrace_airflow.submit import RESULTS, HeadraceSubmitOperator, asked, exit_code

pytestmark = pytest.mark.dags

SUBJECT = {"pipeline": "p.sql", "lake": "/lake", "set": {"A": "1"}}


# ---- arguments ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("params", "options"),
    [
        ({}, []),
        ({"mode": "continuous", "lake": "", "partitions": None, "set": {}, "since": None}, []),
        ({"mode": "until-idle"}, ["--until-idle"]),
        ({"mode": "flush", "lake": "/lake"}, ["--flush", "--lake", "/lake"]),
        ({"partitions": 4, "cores": 2}, ["--partitions", "4", "--cores", "2"]),
        ({"set": {"A": "x=y", "B": 2}}, ["--set", "A=x=y", "--set", "B=2"]),
        ({"since": "2013-06-01T00:00:00Z"}, ["--since", "2013-06-01T00:00:00Z"]),
    ],
)
def test_params_become_the_options_of_the_door(params: dict[str, Any], options: list[str]) -> None:
    assert arguments({"pipeline": "/data/p.sql", **params}) == ["/data/p.sql", *options]


def test_a_table_comes_before_the_pipeline_that_declares_it() -> None:
    asked = {"table": "t", "from": "new.csv", "pipeline": "/data/p.sql", "lake": ""}
    assert arguments(asked) == ["t", "--pipeline", "/data/p.sql", "--from", "new.csv"]


def test_a_relative_pipeline_is_one_of_the_projects() -> None:
    assert arguments({"pipeline": "dags/pipelines/p.sql"}) == [str(PROJECT / "dags" / "pipelines" / "p.sql")]


# ---- what a run hands on -----------------------------------------------------------------------
def event(**extra: Any) -> SimpleNamespace:
    return SimpleNamespace(extra=extra)


def test_the_gate_looks_at_what_the_triggering_run_worked_on() -> None:
    triggering = {RESULTS: [event(**SUBJECT)]}
    assert asked.function(triggering_asset_events=triggering, params={"pipeline": "other.sql"}) == [SUBJECT]


def test_several_runs_behind_one_gate_run_are_each_looked_at_once() -> None:
    other = {"pipeline": "q.sql"}
    triggering = {RESULTS: [event(**SUBJECT), event(**other), event(**SUBJECT)]}
    found = asked.function(triggering_asset_events=triggering, params={"since": "2013-06-01T00:00:00Z"})
    assert found == [each | {"since": "2013-06-01T00:00:00Z"} for each in (SUBJECT, other)]


@pytest.mark.parametrize("triggering", [None, {}, {RESULTS: [event()]}])
def test_a_gate_run_by_hand_looks_at_its_params(triggering: Any) -> None:
    params: dict[str, Any] = {"pipeline": "p.sql", "lake": "", "since": None, "set": {}}
    assert asked.function(triggering_asset_events=triggering, params=params) == [params]


def test_only_what_says_which_pipeline_and_lake_is_handed_on() -> None:
    assert subject({**SUBJECT, "mode": "flush", "partitions": 4}) == SUBJECT
    assert subject({"pipeline": "p.sql", "lake": "", "set": {}}) == {"pipeline": "p.sql"}


# ---- exit codes --------------------------------------------------------------------------------
def operator(tmp_path: Path, program: str) -> HeadraceSubmitOperator:
    """The operator with a door of the test's own."""
    door = tmp_path / "door.py"
    door.write_text(program)
    made = HeadraceSubmitOperator(task_id="stream", door="stream", request={"pipeline": "p.sql"})
    made.application = str(door)
    return made


@pytest.mark.parametrize("code", [2, 3, 4, 5])
def test_what_would_fail_again_is_not_tried_again(code: int, tmp_path: Path) -> None:
    with pytest.raises(AirflowFailException) as failure:
        operator(tmp_path, f"print('the reason is told'); raise SystemExit({code})").execute({})
    assert f"exit code {code}" in str(failure.value)
    assert "the reason is told" in str(failure.value)


@pytest.mark.parametrize("end", ["raise SystemExit(1)", "import os; os.kill(os.getpid(), 9)"])
def test_a_fault_and_a_killed_driver_are_tried_again(end: str, tmp_path: Path) -> None:
    with pytest.raises(AirflowException) as failure:
        operator(tmp_path, end).execute({})
    assert not isinstance(failure.value, AirflowFailException)


def test_a_run_that_ends_well_tells_its_outlets_what_it_worked_on(tmp_path: Path) -> None:
    program = "import sys; assert sys.argv[1:] == ['/p.sql', '--flush', '--lake', '/lake', '--set', 'A=1']"
    made = operator(tmp_path, program)
    made.request = {**SUBJECT, "pipeline": "/p.sql", "mode": "flush"}
    made.outlets = [RESULTS]
    told = SimpleNamespace(extra={})
    context: Any = {"outlet_events": {RESULTS: told}}
    made.execute(context)
    assert told.extra == {**SUBJECT, "pipeline": "/p.sql"}


@pytest.mark.parametrize(
    ("hook", "message", "code"),
    [
        (SimpleNamespace(_submit_sp=SimpleNamespace(returncode=3), _spark_exit_code=None), "", 3),
        (
            SimpleNamespace(_submit_sp=SimpleNamespace(returncode=1), _spark_exit_code=2),
            "",
            2,
        ),  # on Kubernetes
        (SimpleNamespace(), "Cannot execute: spark-submit x. Error code is: 4.\nLast output", 4),
        (SimpleNamespace(), "Cannot execute: spark-submit x. Error code is: -9.", -9),
        (SimpleNamespace(), "no such binary", None),
    ],
)
def test_the_exit_code_is_found_wherever_the_hook_keeps_it(hook: Any, message: str, code: int | None) -> None:
    assert exit_code(hook, message) == code


# ---- stopping ----------------------------------------------------------------------------------
def wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Return when the condition holds. Fails after so many seconds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come about"
        threading.Event().wait(0.05)


def test_a_killed_task_lets_the_driver_finish(tmp_path: Path) -> None:
    ready, done = tmp_path / "ready", tmp_path / "done"
    program = f"""
import pathlib, signal, threading
from headrace.runtime import submitted
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
submitted.join()
pathlib.Path({str(ready)!r}).touch()
while not stop.wait(0.1):
    pass
pathlib.Path({str(done)!r}).touch()
"""
    made = operator(tmp_path, program)
    task = threading.Thread(target=made.execute, args=({},))
    task.start()
    wait_for(ready.exists)
    made.on_kill()
    task.join(60)
    assert not task.is_alive()
    assert done.exists()
