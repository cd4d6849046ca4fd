"""`make airflow`: Airflow 3 on loopback with Headrace's DAGs ready, in a home of the project's own.

Starts the four parts of Airflow as its own processes, prints URL and login, and on Ctrl-C or SIGTERM stops
all of them and everything they started. `--smoke CONF` instead runs the stream DAG once with that conf and
the gate behind it, and ends with 0 where both succeeded.
Must never listen beyond loopback, nor touch an Airflow that is not its own.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import functools
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
USER = "admin"
# Logs are read from the home; the log servers that two of the parts start would listen beyond loopback.
PARTS = (("scheduler", "--skip-serve-logs"), ("dag-processor",), ("triggerer", "--skip-serve-logs"))
DAGS = ("stream", "quality_gate")
PR_SET_CHILD_SUBREAPER = 36  # of <sys/prctl.h>
START_SECONDS = 300
STOP_SECONDS = 45


class Failed(Exception):
    """What keeps Airflow from running, in words for the terminal."""


@dataclass(frozen=True, slots=True)
class Stack:
    """One Airflow: where it lives, where it listens, and what its processes' environment adds."""

    home: Path
    port: int
    secret: str  # signs the tokens of this run

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def passwords(self) -> Path:
        return self.home / "passwords.json"

    def environment(self) -> dict[str, str]:
        """Everything is set here, so that a user's own Airflow settings don't leak in."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}
        python_path = (ROOT / "plugins", ROOT / "spark_jobs", ROOT, os.environ.get("PYTHONPATH", ""))
        return own | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "PYTHONPATH": os.pathsep.join(str(path) for path in python_path if str(path)),
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.passwords),
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.home / 'airflow.db'}",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API_AUTH__JWT_SECRET": self.secret,
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[*]"}),
            "NO_PROXY": f"{HOST},localhost",
        }


# ---- start -------------------------------------------------------------------------------------
@contextlib.contextmanager
def owned(home: Path) -> Iterator[None]:
    """The home, made where it is missing, for this run alone. Raises Failed where another run has it."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Failed(f"another Airflow runs in {home}; --home names another place") from error
        yield


def prepare(stack: Stack) -> str:
    """Make database and login; returns the password, which stays the same from run to run."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, stack.port))
        except OSError as error:
            raise Failed(f"port {stack.port} is taken ({error.strerror}); --port names another") from error
    if not stack.passwords.exists():
        stack.passwords.touch(mode=0o600)
        stack.passwords.write_text(json.dumps({USER: secrets.token_urlsafe(12)}))
    password: str = json.loads(stack.passwords.read_text())[USER]
    with (stack.home / "migrate.log").open("wb") as log:
        done = subprocess.run(
            airflow("db", "migrate"), env=stack.environment(), stdout=log, stderr=log, check=False
        )
    if done.returncode:
        raise Failed(f"the database could not be made:\n{tail(stack.home / 'migrate.log')}")
    return password


def airflow(*words: str) -> list[str]:
    return [sys.executable, "-m", "airflow", *words]


def start(stack: Stack) -> dict[str, subprocess.Popen[bytes]]:
    """The four parts, each the leader of its own process group, each with a log in the home."""
    server = ("api-server", "--host", HOST, "--port", str(stack.port), "--workers", "1")
    commands = (server, *PARTS)
    return {command[0]: _spawn(stack, command) for command in commands}


def _spawn(stack: Stack, command: tuple[str, ...]) -> subprocess.Popen[bytes]:
    with (stack.home / f"{command[0]}.log").open("wb") as log:
        return subprocess.Popen(
            airflow(*command),
            cwd=ROOT,
            env=stack.environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


# ---- stop --------------------------------------------------------------------------------------
def adopt() -> None:
    """Have every process whose parent ends become this one's child, so that none can get away (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def stop(parts: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """End the tasks and the scheduler, then the parts that tasks report to; what is left at last is killed."""
    tasks = _tasks(parts["scheduler"].pid) if "scheduler" in parts else []
    last = {"api-server"}
    for names in ({"scheduler"}, parts.keys() - {"scheduler"} - last, last):
        running = [
            psutil.Process(parts[name].pid) for name in names & parts.keys() if parts[name].poll() is None
        ]
        for process in [*tasks, *running]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        psutil.wait_procs([*tasks, *running], STOP_SECONDS)
        tasks = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    for part in parts.values():
        part.wait()


def _tasks(scheduler: int) -> list[psutil.Process]:
    """The processes that run tasks: the scheduler's workers started them, each in a process group of its own."""
    found = []
    for process in psutil.Process(scheduler).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(process.pid) == process.pid and os.getpgid(process.ppid()) == scheduler:
                found.append(process)
    return found


# ---- talk --------------------------------------------------------------------------------------
def ask(stack: Stack, path: str, body: Mapping[str, Any] | None = None, token: str = "") -> Any:
    """One request of Airflow's API; None where it does not answer (yet)."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    data = json.dumps(body).encode() if body is not None else None
    request = urllib.request.Request(f"{stack.url}{path}", data, headers)  # noqa: S310 always our own loopback address
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=20) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code in (404, 500, 503):
            return None
        raise Failed(f"Airflow refused {path}: {error.read().decode(errors='replace')}") from error
    except (OSError, ValueError):
        return None


def healthy(stack: Stack) -> bool:
    health = ask(stack, "/api/v2/monitor/health") or {}
    wanted = ("metadatabase", "scheduler", "dag_processor", "triggerer")
    return all((health.get(part) or {}).get("status") == "healthy" for part in wanted)


def login(stack: Stack, password: str) -> str:
    """A token, for an hour or so."""
    answer = ask(stack, "/auth/token", {"username": USER, "password": password})
    if not answer:
        raise Failed("Airflow gives no token")
    return str(answer["access_token"])


@dataclass(frozen=True, slots=True)
class Awaited:
    """Something to wait for, in words, how it is seen, and for how long at most."""

    words: str
    met: Callable[[], Any]
    seconds: float = START_SECONDS


def wait(stack: Stack, parts: Mapping[str, subprocess.Popen[bytes]], awaited: Awaited) -> Any:
    """Poll until it is met; returns what was seen. Raises Failed when the time is over, or a part has died."""
    end = time.monotonic() + awaited.seconds
    while time.monotonic() < end:
        for name, part in parts.items():
            if part.poll() is not None:
                raise Failed(f"{name} ended with {part.returncode}:\n{tail(stack.home / f'{name}.log')}")
        if found := awaited.met():
            return found
        time.sleep(1)
    raise Failed(f"no {awaited.words} within {awaited.seconds:.0f} s; the logs are in {stack.home}")


def loaded(stack: Stack, token: str) -> bool:
    """Whether both DAGs are there. Raises Failed where one can't be imported."""
    errors = (ask(stack, "/api/v2/importErrors", token=token) or {}).get("import_errors", [])
    if errors:
        raise Failed("\n".join(error["stack_trace"] for error in errors))
    return all(ask(stack, f"/api/v2/dags/{dag}", token=token) for dag in DAGS)


def ended(stack: Stack, token: str, dag: str, run: str = "") -> dict[str, Any] | None:
    """The DAG's run of that id (or its first one) once it has ended."""
    runs = (ask(stack, f"/api/v2/dags/{dag}/dagRuns", token=token) or {}).get("dag_runs", [])
    found = [
        each for each in runs if each["state"] in ("success", "failed") and run in ("", each["dag_run_id"])
    ]
    return found[0] if found else None


def smoke(
    stack: Stack, parts: Mapping[str, subprocess.Popen[bytes]], token: str, conf: str, seconds: float
) -> bool:
    """One stream run with this conf, then the gate's run that its Asset starts; whether both succeeded."""
    before = (ask(stack, "/api/v2/dags/quality_gate/dagRuns", token=token) or {}).get("total_entries")
    if before:
        raise Failed("--smoke needs a home without earlier runs; --home names another")
    run = ask(stack, "/api/v2/dags/stream/dagRuns", {"logical_date": None, "conf": json.loads(conf)}, token)
    if not run:
        raise Failed("the run could not be started")
    for dag, name in (("stream", run["dag_run_id"]), ("quality_gate", "")):
        seen = functools.partial(ended, stack, token, dag, name)
        found = wait(stack, parts, Awaited(f"end of the {dag} run", seen, seconds))
        print(f"{dag}: {found['state']}", flush=True)
        if found["state"] != "success":
            return False
    return True


# ---- the door ----------------------------------------------------------------------------------
def serve(stack: Stack, options: argparse.Namespace) -> int:
    """Start, say where it is, stay until a signal (or the smoke run's end), stop everything."""
    print(f"Airflow starts in {stack.home} …", flush=True)
    password = prepare(stack)
    parts: dict[str, subprocess.Popen[bytes]] = {}
    try:
        parts |= start(stack)
        wait(stack, parts, Awaited("healthy Airflow", lambda: healthy(stack)))
        token = login(stack, password)
        wait(stack, parts, Awaited("DAGs", lambda: loaded(stack, token)))
        print(f"Airflow is ready at {stack.url}   user: {USER}   password: {password}", flush=True)
        if options.smoke is not None:
            return 0 if smoke(stack, parts, token, options.smoke, options.seconds) else 1
        print("Ctrl-C stops it.", flush=True)
        wait(stack, parts, Awaited("end", lambda: False, float("inf")))
    except KeyboardInterrupt:
        print("stopping …", flush=True)
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        stop(parts)
    return 0


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8080, help="on loopback (default: 8080)")
    parser.add_argument(
        "--home", type=Path, default=ROOT / ".airflow", help="AIRFLOW_HOME (default: .airflow)"
    )
    parser.add_argument(
        "--smoke", metavar="CONF", help='run stream and gate once with this conf, e.g. \'{"mode": "flush"}\''
    )
    parser.add_argument(
        "--seconds", type=float, default=600, help="how long each run of --smoke may take (default: 600)"
    )
    options = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: who is started in the background ignores it
        signal.signal(number, _interrupt)
    stack = Stack(options.home.resolve(), options.port, secrets.token_hex(64))
    adopt()
    try:
        with owned(stack.home):
            return serve(stack, options)
    except Failed as failure:
        print(f"airflow: {failure}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
