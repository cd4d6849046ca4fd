"""A run that may kill itself, with its JVM, at one exact point: `victim.py PIPELINE LAKE POINT COUNT`.

POINT is `written` (after the COUNT-th sink write, before the batch's commit), `committed` (when the COUNT-th
commit of the first query is on disk, before the next batch is planned) or `never`. The run ends the input (`flush`).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from pyspark.sql import DataFrame

from headrace.runtime.run import RunStream, run_stream
from headrace.runtime.sinks import Sink


def die() -> None:
    """Kill the whole process group: this driver and its JVM, with no word of farewell."""
    os.killpg(os.getpgid(0), signal.SIGKILL)


def die_after_writes(count: int) -> None:
    write, seen = Sink.write, [0]

    def writing(self: Sink, rows: DataFrame, batch: int) -> int:
        written = write(self, rows, batch)
        seen[0] += 1
        if seen[0] == count:
            die()
        return written

    Sink.write = writing  # type: ignore[method-assign]


def die_after_commit(commits: Path, count: int) -> None:
    pause = threading.Event()

    def watch() -> None:
        while not (commits.is_dir() and sum(name.name.isdigit() for name in commits.iterdir()) >= count):
            pause.wait(0.001)
        die()

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    pipeline, lake, point, count = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
    match point:
        case "written":
            die_after_writes(count)
        case "committed":
            die_after_commit(Path(lake, "_headrace/checkpoints/hourly/spark/commits"), count)
        case _:
            pass
    sys.exit(run_stream(RunStream(pipeline, lake=lake, flush=True, cores=2)))


if __name__ == "__main__":
    main()
