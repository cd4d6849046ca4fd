"""kill -9 of the driver: whatever the moment, a restart ends in the tables that an undisturbed run gives."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headrace.errors import ExitCode
from headrace.event_time.marks import Marks

HERE = Path(__file__).parent
SEED = 20_261_127
FILES, ROWS = 18, 20
RESULTS = ("hourly", "per_key", "whole")
PIPELINE = """
SET 'state.partitions' = '4';
CREATE STREAM s (k STRING, ts TIMESTAMP, v BIGINT, WATERMARK FOR ts AS ts - INTERVAL '30' MINUTE)
  WITH ('connector' = 'files', 'path' = '{folder}', 'format' = 'json', 'max-files-per-batch' = '1');
CREATE TABLE hourly AS
  SELECT k, window_start, COUNT(*) AS n, SUM(v) AS total FROM s
  GROUP BY k WINDOW TUMBLING(INTERVAL '1' HOUR) EMIT FINAL;
CREATE TABLE per_key AS SELECT k, COUNT(*) AS n, SUM(v) AS total, MAX(ts) AS newest FROM s GROUP BY k;
CREATE TABLE whole AS SELECT COUNT(*) AS n, SUM(v) AS total FROM s;
"""


def write_input(folder: Path) -> None:
    """Three partitions, the third an hour behind; rows in disorder within the lateness."""
    chance = random.Random(SEED)
    for partition in range(3):
        target = folder / f"partition={partition}"
        target.mkdir(parents=True)
        for number in range(FILES):
            base = 1_767_225_600 + number * 3600 - (3600 if partition == 2 else 0)
            rows = [
                {
                    "k": chance.choice(["a", "b", "c", None]),
                    "ts": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(base + chance.randrange(3600))),
                    "v": chance.randrange(100),
                }
                for _ in range(ROWS)
            ]
            (target / f"{number:03d}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def run(
    pipeline: Path, lake: Path, point: str = "never", count: int = 0, kill_after: float | None = None
) -> int:
    """Run the victim in a process group of its own; gives its exit code (-9 where it was killed)."""
    command = [sys.executable, str(HERE / "victim.py"), str(pipeline), str(lake), point, str(count)]
    with (lake.parent / "victim.log").open("a") as log:
        victim = subprocess.Popen(command, start_new_session=True, stdout=log, stderr=log)
        try:
            if kill_after is not None:
                deadline = first_commit(lake, victim) + kill_after
                while victim.poll() is None and time.monotonic() < deadline:
                    victim.poll()
                    time.sleep(0.005)  # the moment itself is what is drawn
                if victim.poll() is None:
                    os.killpg(victim.pid, signal.SIGKILL)
            return victim.wait(timeout=400)
        finally:
            if victim.poll() is None:
                os.killpg(victim.pid, signal.SIGKILL)


def first_commit(lake: Path, victim: subprocess.Popen[bytes]) -> float:
    """When this run's first new commit appeared (a monotonic clock's seconds)."""
    commits = lake / "_headrace/checkpoints/hourly/spark/commits"
    before = set(commits.iterdir()) if commits.is_dir() else set()
    while victim.poll() is None and not (commits.is_dir() and set(commits.iterdir()) - before):
        time.sleep(0.005)
    return time.monotonic()


def tables(lake: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        name: sorted(DeltaTable(str(lake / name)).to_pyarrow_table().to_pylist(), key=repr)
        for name in RESULTS
    }


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, float]:
    """The pipeline, the lake of an undisturbed run, and how long that ran after its first commit."""
    root = tmp_path_factory.mktemp("kill")
    write_input(root / "in")
    pipeline = root / "kill.sql"
    pipeline.write_text(PIPELINE.format(folder=root / "in"))
    lake = root / "undisturbed" / "lake"
    lake.parent.mkdir()
    assert run(pipeline, lake) == ExitCode.DONE, (lake.parent / "victim.log").read_text()
    commits = lake / "_headrace/checkpoints/hourly/spark/commits"
    times = [path.stat().st_mtime for path in commits.iterdir()]
    return pipeline, lake, max(times) - min(times)


@pytest.mark.system
def test_ten_kills_between_the_first_and_the_last_commit_change_no_result(
    prepared: tuple[Path, Path, float],
) -> None:
    pipeline, undisturbed, span = prepared
    chance = random.Random(SEED)
    lake = undisturbed.parent.parent / "killed" / "lake"
    lake.parent.mkdir()
    kills: list[str] = []
    points: list[tuple[str, int, float | None]] = [("written", n, None) for n in (1, 3, 2)]
    points += [("never", 0, chance.uniform(0.0, span / FILES)) for _ in range(6)]
    chance.shuffle(points)
    points.insert(4, ("committed", 0, None))
    for point, count, after in points:
        if point == "committed":
            commits = lake / "_headrace/checkpoints/hourly/spark/commits"
            count = sum(path.name.isdigit() for path in commits.iterdir()) + 1
        code = run(pipeline, lake, point, count, after)
        assert code in (-signal.SIGKILL, ExitCode.DONE), (lake.parent / "victim.log").read_text()[-3000:]
        if code == -signal.SIGKILL:
            kills.append(point)
        if point == "committed":
            compare_marks(lake, undisturbed)
    assert run(pipeline, lake) == ExitCode.DONE
    assert tables(lake) == tables(undisturbed)
    assert sorted(kills) == sorted(point for point, _, _ in points)


def compare_marks(lake: Path, undisturbed: Path) -> None:
    """The marks that a restart begins with are those that the same input gave without a kill."""
    import pyarrow.compute as pc

    def marks_after(folder: Path, batch: int) -> tuple[int | None, ...]:
        rows = DeltaTable(str(folder / "_headrace/batches")).to_pyarrow_table()
        chosen = rows.filter(pc.and_(pc.equal(rows["query"], "hourly"), pc.less_equal(rows["batch"], batch)))
        last = chosen.sort_by("batch")["marks"].to_pylist()[-1]
        return tuple(row.mark_ms for row in Marks.from_json(last).rows())

    commits = lake / "_headrace/checkpoints/hourly/spark/commits"
    committed = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    assert any(marks_after(lake, committed) == marks_after(undisturbed, b) for b in range(200))
