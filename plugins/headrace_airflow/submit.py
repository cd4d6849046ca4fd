"""The one operator that submits a door of `spark_jobs/` by spark-submit, and what it hands on.

Rules: Spark runs in the submitted process, never here. Exit code 1, and a driver that was killed, are worth
another try; codes 2 to 5 say that a try would end the same, so the task fails at once.
A run that ended well tells what it worked on to its outlets; `asked` reads that again.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Asset, Context, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from headrace_airflow.arguments import PROJECT, arguments, subject

RESULTS = Asset(name="headrace_results", uri="headrace://results")
TABLES = Asset(name="headrace_tables", uri="headrace://tables")

# What every DAG has: one run at a time, and faults tried again.
ALIKE: Mapping[str, Any] = {
    "catchup": False,
    "max_active_runs": 1,
    "default_args": {"retries": 2, "retry_delay": timedelta(seconds=15)},
    "tags": ["headrace"],
}

# Exit codes of the doors that another try would meet again (SEMANTICS 6).
FINAL = {2: "refused", 3: "unequal", 4: "unknown", 5: "not the owner"}

STOP_SECONDS = 40  # for the batch in work, below Airflow's own limit for a killed task (60 s)


class HeadraceSubmitOperator(SparkSubmitOperator):
    """`spark-submit spark_jobs/DOOR.py …` with the run's Params, or those in `request`, as its arguments."""

    def __init__(self, *, door: str, request: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        super().__init__(
            application=str(PROJECT / "spark_jobs" / f"{door}.py"), name=f"headrace-{door}", **kwargs
        )
        self.door = door
        self.request = request

    def execute(self, context: Context) -> None:
        """Submit and wait. Raises AirflowFailException for an exit code of `FINAL`, AirflowException for others."""
        request = self.request or context["params"]
        self.application_args = arguments(request)
        self.env_vars = {**environment(), **(self.env_vars or {})}
        self.jars = self.jars or ",".join(jars())
        self._hook = self._get_hook()
        # A door reads relative paths (`./lake`) as from the project's folder, wherever the worker runs.
        self._hook.submit = functools.partial(self._hook.submit, cwd=str(PROJECT))  # type: ignore[method-assign]
        try:
            super().execute(context)
        except AirflowException as error:
            code = exit_code(self._hook, str(error))
            if code in FINAL:
                raise AirflowFailException(
                    f"{FINAL[code]} (exit code {code}), no use in another try:\n{said(self._hook)}"
                ) from error
            raise
        for outlet in self.outlets:
            context["outlet_events"][outlet].extra = subject(request)

    def on_kill(self) -> None:
        """Let the driver end its batch; what then still runs is killed."""
        process = getattr(self._hook, "_submit_sp", None)
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.log.warning("The driver did not end its batch in %s s", STOP_SECONDS)
        super().on_kill()


@task
def asked(*, triggering_asset_events: Any = None, params: Any = None) -> list[dict[str, Any]]:
    """What a run has to look at: what its triggering stream runs worked on, once each; without them its own Params."""
    since = {"since": params["since"]} if params.get("since") else {}
    # Runs that ended while this DAG was busy come as several events of one run.
    extras = [event.extra for events in (triggering_asset_events or {}).values() for event in events]
    found = [subject(extra) | since for extra in extras if "pipeline" in extra]
    return list({repr(sorted(each.items())): each for each in found}.values()) or [dict(params)]


def environment() -> dict[str, str]:
    """What spark-submit needs to find: this Python, its Spark before any other, Java, and the log's settings."""
    here = Path(sys.executable).parent
    found = {
        "PATH": f"{here}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(PROJECT / "conf"),
    }
    java_home = Path(sys.prefix) / "java-home"  # written by scripts/setup.sh
    if "JAVA_HOME" not in os.environ and java_home.is_file():
        found["JAVA_HOME"] = java_home.read_text().strip()
    return found


def jars() -> Iterable[str]:
    """The jars of the project's own folder, or of $HEADRACE_JARS."""
    folder = Path(os.environ.get("HEADRACE_JARS") or PROJECT / ".jars")
    return sorted(str(jar) for jar in folder.glob("*.jar"))


def exit_code(hook: SparkSubmitHook, message: str) -> int | None:
    """The door's exit code: the driver's own where a cluster names it, else spark-submit's; None where neither is known.

    `message` is the hook's last resort: it ends its first line by "Error code is: N.".
    """
    process = getattr(hook, "_submit_sp", None)
    named = getattr(hook, "_spark_exit_code", None) or getattr(process, "returncode", None)
    if named is not None:
        return int(named)
    found = re.search(r"Error code is: (-?\d+)", message)
    return int(found[1]) if found else None


def said(hook: SparkSubmitHook, lines: int = 20) -> str:
    """The last lines of the driver's output, where the doors say what is wrong."""
    return "\n".join(list(getattr(hook, "_last_submit_log_lines", ()))[-lines:])
