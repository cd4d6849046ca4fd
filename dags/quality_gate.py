"""### Prove a pipeline's results

Computes each result again, as one Spark batch at one partition over the input that was consumed, and compares it
row by row with the table; checks keys and windows; writes the report. Runs after every **stream** run that ended
well, on what that run worked on; by hand it takes pipeline and lake from its Params.

The task fails, and is not tried again, where results differ (exit code 3) or where it can't be told, since the
input is no longer there (4); the log names the rows.
"""

from airflow.sdk import DAG

from headrace_airflow.params import LAKE, PIPELINE, SET, SINCE
from headrace_airflow.submit import ALIKE, RESULTS, HeadraceSubmitOperator, asked

with DAG(
    "quality_gate",
    doc_md=__doc__,
    schedule=RESULTS,
    params={"pipeline": PIPELINE, "lake": LAKE, "since": SINCE, "set": SET},
    **ALIKE,
) as dag:
    gate = HeadraceSubmitOperator.partial(
        task_id="gate", door="quality_gate", map_index_template="{{ task.request.pipeline }}"
    )
    gate.expand(request=asked())
