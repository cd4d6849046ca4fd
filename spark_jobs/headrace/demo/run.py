"""`headrace demo`: the main job on real flights, from SQL text to Delta tables that the gate has proved right.

In order: prepare the input, run the pipeline while delivery after delivery arrives and the table of planes is
refreshed, flush, give plain Spark the same departures, let the gate judge, write the report. The exit code is the
gate's. A run begins afresh in a folder of its own, and only ever removes a folder that a demo made.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from expectations.verdict import Verdict
from headrace.demo import tell
from headrace.demo.data import Prepared, check_request, deliver, prepare
from headrace.demo.plain import PlainResult, run_plain
from headrace.demo.record import Demo, Proof, Sample, Streamed
from headrace.demo.report import write_report
from headrace.errors import ExitCode, Refused
from headrace.ops.progress import ProgressView
from headrace.ops.statecount import StateCounter, counting
from headrace.runtime.lake import Lake
from headrace.runtime.progress import Progress
from headrace.runtime.query import LivePipeline
from headrace.runtime.refresh import Refreshed, refresh
from headrace.runtime.session import spark_session
from headrace.runtime.sinks import read_result
from headrace.sql.compile import compile_file
from headrace.sql.nodes import Pipeline

PIPELINE = Path(__file__).resolve().parents[3] / "dags" / "pipelines" / "flights.sql"
REPORT = "report.html"
STAMP = ".headrace-demo"  # marks a folder that a demo made, and may remove


@dataclass(frozen=True, slots=True)
class RunDemo:
    """What to show. `root` is the demo's own folder: input, tables and report."""

    root: Path = Path("lake/demo")
    months: int = 12
    deliveries: int = 8
    partitions: int | None = None
    cores: int | None = None
    compare: bool = True
    gate: bool = True
    prepare_only: bool = False


def run_demo(request: RunDemo, console: Console) -> ExitCode:
    """Run the demo. Raises Refused before anything was changed, or what the pipeline died of."""
    if not PIPELINE.exists():
        raise Refused(
            f"the demo's pipeline is not at {PIPELINE}", hint="run it from a checkout of the project"
        )
    check_request(request.months, request.deliveries)
    root = fresh_folder(request.root)
    began = time.monotonic()
    prepared = prepare(root, months=request.months, deliveries=request.deliveries)
    tell.prepared(console, prepared, time.monotonic() - began)
    if request.prepare_only:
        for delivery in prepared.deliveries:
            deliver(prepared, delivery)
        shutil.rmtree(prepared.staged)
        tell.prepared_only(console, prepared, PIPELINE)
        return ExitCode.DONE
    verdict = _show(request, root, prepared, console)
    tell.report(console, root / REPORT, time.monotonic() - began)
    return verdict.code if verdict else ExitCode.DONE


def fresh_folder(root: Path) -> Path:
    """An empty folder for this demo: one that a demo made before is emptied, any other is refused."""
    root = root.expanduser().absolute()
    if root.exists() and any(root.iterdir()):
        if not (root / STAMP).exists():
            raise Refused(f"{root} is not a demo's folder, and is not empty", hint="give another with --lake")
        shutil.rmtree(root)
    root.mkdir(parents=True, exist_ok=True)
    (root / STAMP).touch()
    return root


def _show(request: RunDemo, root: Path, prepared: Prepared, console: Console) -> Verdict | None:
    """All that comes after the preparation; gives the gate's verdict where it was asked for one."""
    lake = Lake(str(root / "tables"))
    variables = {"DATA": str(prepared.data)}
    pipeline = compile_file(PIPELINE, variables)
    with console.status("starting Spark"):
        spark = spark_session("headrace demo", cores=request.cores)
    streamed = _stream(spark, pipeline, lake, prepared, console, request.partitions)
    shutil.rmtree(prepared.staged)
    tell.streamed(console, streamed, len(pipeline.results))
    results = {result.name: read_result(lake, result) for result in pipeline.results}
    tell.results(console, results)
    plain = _compare(spark, prepared, root, console) if request.compare else None
    verdict = _judge(spark, lake, variables, console) if request.gate else None
    demo = Demo(
        partitions=request.partitions or int(pipeline.setting("state.partitions", "4")),
        months=request.months,
        deliveries=len(prepared.deliveries),
        streamed=streamed,
        results=results,
        plain=plain,
        proof=_proof(verdict) if verdict else None,
        sql=pipeline.text,
    )
    write_report(demo, root / REPORT)
    return verdict


def _stream(  # noqa: PLR0913 the run's own parts
    spark: SparkSession,
    pipeline: Pipeline,
    lake: Lake,
    prepared: Prepared,
    console: Console,
    partitions: int | None,
) -> Streamed:
    """Deliver the input while the pipeline runs, each delivery when the one before is taken; then flush.

    In the middle the table of planes is refreshed: all batches before have its first version, all behind the second.
    """
    samples: list[Sample] = []
    delivered: list[float] = []
    refreshed: Refreshed | None = None
    with counting(spark) as states, ProgressView(console, "headrace demo", state_rows=states.rows) as view:
        began = time.monotonic()

        def heard(progress: Progress) -> None:
            samples.append(Sample(time.monotonic() - began, progress))
            view(progress)

        live = LivePipeline(spark, pipeline, lake, on_progress=heard, partitions=partitions)
        try:
            view.status("starting the queries")
            live.start()
            began = time.monotonic()
            for delivery in prepared.deliveries:
                if delivery.number == refresh_before(len(prepared.deliveries)):
                    view.status("a new version of the table of planes")
                    refreshed = refresh(spark, lake, pipeline.table("planes"), str(prepared.refreshed))
                    live.pump()
                view.status(
                    f"delivery {delivery.number} of {len(prepared.deliveries)}, {delivery.rows:,} rows"
                )
                deliver(prepared, delivery)
                live.pump()
                live.settle()
                delivered.append(time.monotonic() - began)
            view.status("end of the input: closing all windows")
            live.flush()
            seconds = time.monotonic() - began
            view.status("done")
            metrics = live.metrics()
        finally:
            live.stop()
        counted = _counted(samples, states)
        return Streamed(prepared.rows, seconds, counted, metrics, tuple(delivered), refreshed)


def refresh_before(deliveries: int) -> int:
    """The number of the delivery before which the table of planes is refreshed; a single one has no middle."""
    return max(2, deliveries // 2 + 1)


def _counted(samples: list[Sample], states: StateCounter) -> tuple[Sample, ...]:
    """The samples with the state rows of each hash partition, which were heard of after their batch."""
    return tuple(
        Sample(one.at, replace(one.progress, state_rows=states.rows(one.progress.query, one.progress.batch)))
        for one in samples
    )


def _compare(spark: SparkSession, prepared: Prepared, root: Path, console: Console) -> PlainResult:
    with console.status("plain Structured Streaming on the same input"):
        plain = run_plain(spark, prepared, root / "plain")
    tell.plain(console, plain)
    return plain


def _judge(spark: SparkSession, lake: Lake, variables: dict[str, str], console: Console) -> Verdict:
    from expectations.gate import GateRequest, run_gate

    with console.status("the gate: the same SQL as one Spark batch, compared row by row"):
        request = GateRequest(str(PIPELINE), lake.root, variables=tuple(variables.items()))
        verdict = run_gate(request, spark)
    tell.verdict(console, verdict)
    return verdict


def _proof(verdict: Verdict) -> Proof:
    results = tuple((one.result, one.outcome, one.rows) for one in verdict.results)
    return Proof(verdict.outcome, results, verdict.tolerance, verdict.docs)
