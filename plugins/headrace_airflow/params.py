"""The Params that several DAGs ask for, each written once, so that forms read alike."""

from __future__ import annotations

from airflow.sdk import Param

PIPELINE = Param(
    "dags/pipelines/flights.sql",
    type="string",
    minLength=1,
    title="Pipeline",
    description="The .sql file; a relative path is one of the project's.",
)
LAKE = Param(
    "",
    type="string",
    title="Lake",
    description="Root folder of results, state and logs. Empty: as the pipeline's SET 'lake' says, else lake/<its name>.",
)
SET = Param(
    {"DATA": "lake/demo/input"},  # where `headrace demo` delivers its input
    type="object",
    title="Values for ${NAME}",
    description="What stands for ${NAME} in the pipeline; relative paths are the project's.",
)
TABLE = Param(
    "planes",
    type="string",
    minLength=1,
    title="Table",
    description="The reference table, as the pipeline names it.",
)
SOURCE = Param(
    "lake/demo/input/planes_new.csv",  # where `headrace demo` delivers it
    type="string",
    minLength=1,
    title="New rows",
    description="A csv, json or parquet file or folder, or a Delta table; a relative path is one of the project's.",
)
MODE = Param(
    "until-idle",
    enum=["until-idle", "flush", "continuous"],
    title="Until when",
    description="until-idle: all input present is consumed. flush: then all windows are closed and the pipeline has ended. "
    "continuous: until the run is stopped.",
)
PARTITIONS = Param(
    None,
    type=["null", "integer"],
    minimum=1,
    title="State partitions",
    description="N of a first run. Empty: as the pipeline's SET 'state.partitions' says.",
)
SINCE = Param(
    None,
    type=["null", "string"],
    format="date-time",
    title="Since",
    description="Only windows that end after this time. Empty: all of them.",
)
