"""Hot keys, with and without salt, side by side, batch by batch: `python -m benchmarks.skew [PAIRS [QUERY…]]`.

One key has 80 % of the rows, N = 4 on 2 cores. Both processes of a pair are warm and take turns in the order
A B B A A B …, as in `benchmarks.pairs`; each pair prints one JSON line: rows/s without and with salt, and their ratio.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from itertools import count

from benchmarks.measure import Moment
from benchmarks.pairs import Engine
from headrace.runtime.lake import Lake
from headrace.runtime.progress import Progress
from headrace.runtime.query import LivePipeline
from headrace.runtime.session import spark_session
from headrace.sql.compile import compile_pipeline

CORES, PARTITIONS = 2, 4
PAIRS, BATCHES, WARM_BATCHES = 5, 10, 8
JOINED_ROWS, GROUPED_ROWS = 100_000, 2_000_000  # a batch
SALTS = ("off", "auto")
HOT, UNIFORM = "if(value % 10 < 8, 0, 1 + value % 10007)", "value % 10007"


def _stream(name: str, key: str, rows: int) -> str:
    """A second of event time in each batch of so many rows."""
    return f"""
CREATE STREAM {name} (timestamp TIMESTAMP, value BIGINT, k AS {key}, v AS value % 1000,
    ts AS timestamp_micros(value * 1000000 DIV {rows}), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND)
  WITH ('connector' = 'rate', 'rows-per-batch' = '{rows}');"""


def _join(key: str) -> tuple[int, str]:
    """Many rows, each with a partner or two among the thousand a second of the other side."""
    few = "if(value % 1000 < 2, 0, 1 + value % 10007)" if key == HOT else UNIFORM
    return (
        JOINED_ROWS,
        f"""{_stream("l", key, JOINED_ROWS)}{_stream("r", few, 1_000)}
CREATE TABLE j WITH ('connector' = 'blackhole') AS SELECT l.k, l.ts, l.v, r.v AS w FROM l JOIN r
  ON l.k = r.k AND r.ts BETWEEN l.ts - INTERVAL '1' SECOND AND l.ts;""",
    )


def _groups(window: str) -> tuple[int, str]:
    return (
        GROUPED_ROWS,
        f"""{_stream("s", HOT, GROUPED_ROWS)}
CREATE TABLE g WITH ('connector' = 'blackhole') AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s GROUP BY k {window};""",
    )


QUERIES = {
    "join": _join(HOT),
    "join of uniform keys": _join(UNIFORM),
    "windowed": _groups("WINDOW TUMBLING(INTERVAL '1' MINUTE)"),
    "keyed": _groups(""),
}


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS
    for query in sys.argv[2:] or QUERIES:
        for _ in range(pairs):
            print(json.dumps(_pair(query)), flush=True)


def _pair(query: str) -> dict[str, object]:
    rows = QUERIES[query][0]
    with ExitStack() as started:
        engines = [_warm(started, query, salt) for salt in SALTS]
        for n in range(BATCHES):
            for engine in engines if n % 2 == 0 else engines[::-1]:
                engine.turn()
        off, auto = (BATCHES * rows / engine.seconds for engine in engines)
        return {"query": query, "off": round(off), "auto": round(auto), "ratio": round(auto / off, 3)}


def _warm(started: ExitStack, query: str, salt: str) -> Engine:
    command = [sys.executable, "-m", "benchmarks.skew", "--turns", query, salt]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    started.enter_context(process)  # closes its input, which ends it, and waits
    engine = Engine(process)
    engine.told()
    return engine


def turns(query: str, salt: str) -> None:
    """Run the query; stop after each warm batch, tell what it took and wait for a line."""
    text = f"SET 'state.partitions' = '{PARTITIONS}'; SET 'skew.salt' = '{salt}'; {QUERIES[query][1]}"
    ended, batches, begun = threading.Event(), count(1), [Moment.now()]

    def batch(progress: Progress) -> None:
        if not progress.input_rows or ended.is_set() or next(batches) < WARM_BATCHES:
            return
        now, begin = Moment.now(), begun.pop()
        print(json.dumps([now.wall - begin.wall, now.cpu - begin.cpu]), flush=True)
        if not sys.stdin.readline():
            ended.set()
        begun.append(Moment.now())

    with tempfile.TemporaryDirectory() as folder:
        spark = spark_session("bench", cores=CORES)
        live = LivePipeline(spark, compile_pipeline(text, name="bench"), Lake(folder), on_progress=batch)
        live.start()
        kept = live.queries[0].checkpoint.hot()
        print(f"{query}, {salt}: {kept}", file=sys.stderr)
        while not ended.wait(0.2):
            live.pump()
        live.stop()
        spark.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--turns"]:
        turns(*sys.argv[2:])
    else:
        main()
