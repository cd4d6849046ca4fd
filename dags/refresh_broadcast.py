"""### Refresh a reference table

Reads a table's new rows, checks them as the pipeline declares it (columns, primary key) and publishes them as its next
version, in one commit. Running pipelines take it up between two batches. Runs each day on the Params below, and by hand on
others.

Rows that are refused (exit code 2) leave the version in use in place; the task fails and is not tried again.
"""

from airflow.sdk import DAG

from headrace_airflow.params import LAKE, PIPELINE, SET, SOURCE, TABLE
from headrace_airflow.submit import ALIKE, TABLES, HeadraceSubmitOperator

with DAG(
    "refresh_broadcast",
    doc_md=__doc__,
    schedule="@daily",
    params={"table": TABLE, "from": SOURCE, "pipeline": PIPELINE, "lake": LAKE, "set": SET},
    **ALIKE,
) as dag:
    HeadraceSubmitOperator(task_id="refresh", door="refresh_broadcast", outlets=[TABLES])
