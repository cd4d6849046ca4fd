"""The benchmark queries over the same generated rows: four in all their dialects, and those that only Headrace has.

Row number n has key n % 10,000, event time 1970-01-01 + n * 100 µs and value n % 1,000. The stream comes
in batches of BATCH_ROWS from Spark's `rate-micro-batch` source, for Headrace and for the hand-written
query alike. Two streams that are joined share a batch: order n comes at n * 200 µs, its shipment 0 to 9 seconds later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

BATCH_ROWS = 2_000_000
WARM_ROWS = 20_000_000
ROWS = 40_000_000
KEYS = 10_000
PARTITIONS = 2  # N, the number of cores
JOINED_ROWS = 10_000_000  # 5 million of each stream
KEY = f"value % {KEYS}"


def stream(micros: str, name: str = "s", rows: int = BATCH_ROWS, key: str = KEY) -> str:
    """A stream in Headrace SQL, its event time as microseconds, `rows` of it in each batch."""
    return f"""
CREATE STREAM {name} (timestamp TIMESTAMP, value BIGINT,
    k AS {key}, ts AS timestamp_micros({micros}), v AS value % 1000,
    WATERMARK FOR ts AS ts - INTERVAL '10' SECOND)
  WITH ('connector' = 'rate', 'rows-per-batch' = '{rows}');
"""


SETTING = f"SET 'state.partitions' = '{PARTITIONS}';"
HEADRACE_STREAM = SETTING + stream("value * 100")
BURSTS = SETTING + stream(
    f"value * 100 + (value DIV {20 * KEYS}) * 10000000"
)  # 20 rows of a key, then 10 s of silence
HALVES = SETTING + "".join(stream("value * 200", name, BATCH_ROWS // 2) for name in "lr")
ORDERS = {"o": "value * 200", "s": "value * 200 + value % 10 * 1000000"}  # and shipments
ORDERS_STREAMS = SETTING + "".join(
    stream(micros, name, BATCH_ROWS // 2, "value") for name, micros in ORDERS.items()
)


def columns(micros: str, key: str = KEY) -> tuple[str, ...]:
    """The columns of `stream` for Spark's `selectExpr`."""
    return f"{key} AS k", f"timestamp_micros({micros}) AS ts", "value % 1000 AS v"


S_COLUMNS: Mapping[str, tuple[str, ...]] = {"s": columns("value * 100")}
ORDERS_COLUMNS = {name: columns(micros, "value") for name, micros in ORDERS.items()}


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One query: as Headrace SQL, as Spark SQL over `views` of the generated rows, and as DuckDB SQL over a range.

    `mode` is the hand-written query's. `rows` are measured, after `warm` others; those of all views together.
    """

    name: str
    headrace: str
    spark: str
    duckdb: str
    mode: str = "append"
    views: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: S_COLUMNS)
    rows: int = ROWS
    warm: int = WARM_ROWS

    @property
    def view_rows(self) -> int:
        """Rows of each view in a batch."""
        return BATCH_ROWS // len(self.views)


DUCKDB_ROWS = f"""(SELECT range % {KEYS} AS k, make_timestamp(range * 100) AS ts, range % 1000 AS v
    FROM range({ROWS}))"""
DUCKDB_ORDERS = {
    name: f"(SELECT range AS k, make_timestamp({micros.replace('value', 'range')}) AS ts, range % 1000 AS v "
    f"FROM range({JOINED_ROWS // 2})) AS {name}"
    for name, micros in ORDERS.items()
}


def _joined(kind: str) -> Benchmark:
    """Each order with its shipment, where that left within 5 seconds: six in ten do."""
    chosen = "SELECT o.k, o.ts, o.v, s.ts AS shipped, s.v AS w FROM"
    same = "ON o.k = s.k AND s.ts BETWEEN o.ts AND o.ts + INTERVAL"
    text = f"{chosen} o {kind} JOIN s {same} '5' SECOND"
    return Benchmark(
        name=f"interval join, {kind}",
        headrace=f"{ORDERS_STREAMS}\nCREATE TABLE r WITH ('connector' = 'blackhole') AS {text};",
        spark=text,
        duckdb=f"{chosen} {DUCKDB_ORDERS['o']} {kind} JOIN {DUCKDB_ORDERS['s']} {same} 5 SECOND",
        views=ORDERS_COLUMNS,
        rows=JOINED_ROWS,
        warm=JOINED_ROWS,
    )


BENCHMARKS = {
    "windowed": Benchmark(
        name="windowed",
        headrace=f"""{HEADRACE_STREAM}
CREATE TABLE r WITH ('connector' = 'blackhole') AS
  SELECT k, window_start, COUNT(*) AS n, SUM(v) AS total FROM s
  GROUP BY k WINDOW TUMBLING(INTERVAL '1' MINUTE) EMIT FINAL;""",
        spark="""SELECT k, window(ts, '1 minute') AS w, COUNT(*) AS n, SUM(v) AS total
  FROM s GROUP BY k, window(ts, '1 minute')""",
        duckdb=f"""SELECT k, time_bucket(INTERVAL 1 MINUTE, ts) AS w, COUNT(*) AS n, SUM(v) AS total
  FROM {DUCKDB_ROWS} GROUP BY ALL""",
    ),
    "keyed": Benchmark(
        name="keyed",
        headrace=f"""{HEADRACE_STREAM}
CREATE TABLE r WITH ('connector' = 'blackhole') AS
  SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s GROUP BY k;""",
        spark="SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s GROUP BY k",
        duckdb=f"SELECT k, COUNT(*) AS n, SUM(v) AS total FROM {DUCKDB_ROWS} GROUP BY k",
        mode="update",
    ),
    **{joined.name: joined for joined in map(_joined, ("INNER", "LEFT"))},
}

# What Structured Streaming has no operator for (but for `sessions`, EMIT FINAL): Headrace alone.
CARRIED = {
    name: Benchmark(name, text, spark="", duckdb="")
    for name, text in {
        "sessions": f"""{BURSTS}
CREATE TABLE r WITH ('connector' = 'blackhole') AS
  SELECT k, window_start, COUNT(*) AS n, SUM(v) AS total FROM s GROUP BY k WINDOW SESSION(INTERVAL '5' SECOND);""",
        "sessions, EMIT CHANGES": f"""{BURSTS}
CREATE TABLE r WITH ('connector' = 'blackhole') AS
  SELECT k, window_start, COUNT(*) AS n, SUM(v) AS total FROM s
  GROUP BY k WINDOW SESSION(INTERVAL '5' SECOND) EMIT CHANGES;""",
        "ROWS window": f"""{HEADRACE_STREAM}
CREATE TABLE r WITH ('connector' = 'blackhole') AS
  SELECT k, ts, AVG(v) OVER (ROWS WINDOW BUFFER 3 ROWS PARTITION BY k ORDER BY ts) AS mean FROM s;""",
        "as-of join": f"""{HALVES}
CREATE TABLE j WITH ('connector' = 'blackhole') AS
  SELECT l.k, l.ts, r.v FROM l ASOF JOIN r MATCH_CONDITION (l.ts >= r.ts) ON l.k = r.k;""",
        "cumulate": f"""{HEADRACE_STREAM}
CREATE TABLE r WITH ('connector' = 'blackhole') AS
  SELECT k, window_end, COUNT(*) AS n, SUM(v) AS total FROM s
  GROUP BY k WINDOW CUMULATE(STEP INTERVAL '30' SECOND, SIZE INTERVAL '1' MINUTE);""",
    }.items()
}
