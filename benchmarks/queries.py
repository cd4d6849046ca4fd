"""The two benchmark queries, each in all its dialects over the same generated rows.

Row number n has key n % 10,000, event time 1970-01-01 + n * 100 µs and value n % 1,000. The stream comes
in batches of BATCH_ROWS from Spark's `rate-micro-batch` source, for Headrace and for the hand-written
query alike.
"""

from __future__ import annotations

from dataclasses import dataclass

BATCH_ROWS = 2_000_000
WARM_ROWS = 20_000_000
ROWS = 40_000_000
KEYS = 10_000
PARTITIONS = 2  # N, the number of cores

HEADRACE_STREAM = f"""
SET 'state.partitions' = '{PARTITIONS}';
CREATE STREAM s (timestamp TIMESTAMP, value BIGINT,
    k AS value % {KEYS}, ts AS timestamp_micros(value * 100), v AS value % 1000,
    WATERMARK FOR ts AS ts - INTERVAL '10' SECOND)
  WITH ('connector' = 'rate', 'rows-per-batch' = '{BATCH_ROWS}');
"""
SPARK_COLUMNS = (
    f"value % {KEYS} AS k",
    "timestamp_micros(value * 100) AS ts",
    "value % 1000 AS v",
)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One query: as Headrace SQL, as Spark SQL over a view `s`, and as DuckDB SQL over a range."""

    name: str
    headrace: str
    spark: str
    duckdb: str


DUCKDB_ROWS = f"""(SELECT range % {KEYS} AS k, make_timestamp(range * 100) AS ts, range % 1000 AS v
    FROM range({ROWS}))"""

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
    ),
}
