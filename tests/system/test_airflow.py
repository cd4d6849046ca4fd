"""`make airflow` as a user has it: the whole stack, one stream run, the gate that follows it, and nothing left behind."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

ROOT = Path(__file__).resolve().parents[2]
SQL = """
CREATE STREAM orders (shop STRING, ts TIMESTAMP, amount BIGINT, WATERMARK FOR ts AS ts)
  WITH ('connector' = 'files', 'path' = '${INPUT}', 'format' = 'json');
CREATE TABLE totals AS SELECT shop, COUNT(*) AS orders, SUM(amount) AS total FROM orders GROUP BY shop;
"""

pytestmark = pytest.mark.system


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command(home: Path, *more: str) -> list[str]:
    script = str(ROOT / "scripts" / "airflow.py")
    return [sys.executable, script, "--home", str(home), "--port", str(free_port()), *more]


def of_home(home: Path) -> list[psutil.Process]:
    """The processes that have a file of the home open, or name it in their arguments."""
    found = []
    for process in psutil.process_iter():
        try:
            files = [opened.path for opened in process.open_files()]
            if any(str(home) in text for text in (*files, *process.cmdline())):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_a_stream_run_is_followed_by_its_gate(tmp_path: Path) -> None:
    source = tmp_path / "orders"
    source.mkdir()
    orders = [{"shop": "AB"[n % 2], "ts": "2026-01-01T10:00:00Z", "amount": n} for n in range(10)]
    (source / "orders.json").write_text("".join(f"{json.dumps(order)}\n" for order in orders))
    pipeline = tmp_path / "shop.sql"
    pipeline.write_text(SQL)
    conf = {
        "pipeline": str(pipeline),
        "lake": str(tmp_path / "lake"),
        "set": {"INPUT": str(source)},
        "mode": "until-idle",
    }
    home = tmp_path / "airflow"
    done = subprocess.run(
        command(home, "--smoke", json.dumps(conf)), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-2:] == ["stream: success", "quality_gate: success"]
    # The gate had this run's pipeline and lake, not its Params' defaults.
    assert (
        json.loads((tmp_path / "lake" / "_headrace" / "gate" / "verdict.json").read_text())["verdict"]
        == "equal"
    )
    assert of_home(home) == []


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM], ids=lambda sent: sent.name)
def test_a_signal_stops_all_of_it(sent: signal.Signals, tmp_path: Path) -> None:
    home = tmp_path / "airflow"
    with subprocess.Popen(command(home), stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if "ready at" in line:
                break
        assert len(of_home(home)) > 4
        running.send_signal(sent)
        try:
            assert running.wait(120) == 0
        finally:
            running.kill()
    assert of_home(home) == []
