"""### Run a pipeline

Compiles a pipeline's SQL, runs it on Spark and maintains its result tables, from where the last run stopped.
*until-idle* ends when all input present is consumed and leaves open windows open; *flush* then closes them and
ends the pipeline; *continuous* runs until it is stopped.

A fault is tried again, from the last committed batch. What would fail again in the same way is not: a refused
pipeline (exit code 2), or one that another run owns (5); the task's log says why.
When the run ends well, **quality_gate** checks what it wrote.
"""

from airflow.sdk import DAG

from headrace_airflow.params import LAKE, MODE, PARTITIONS, PIPELINE, SET
from headrace_airflow.submit import ALIKE, RESULTS, HeadraceSubmitOperator

with DAG(
    "stream",
    doc_md=__doc__,
    schedule=None,
    params={"pipeline": PIPELINE, "mode": MODE, "lake": LAKE, "partitions": PARTITIONS, "set": SET},
    **ALIKE,
) as dag:
    HeadraceSubmitOperator(task_id="stream", door="stream", outlets=[RESULTS])
