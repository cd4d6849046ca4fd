"""`headrace VERB …`: each verb turns its arguments into one frozen value, makes one call and leaves by its exit code.

Rules: what a verb needs is imported when the verb runs, so that help is quick and needs no Spark; errors and exit
codes are `doors.leave`'s. The doors for spark-submit call `main` with the same words.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from headrace import __version__
from headrace.doors import leave
from headrace.errors import ExitCode
from headrace.options import (
    Cores,
    Debug,
    Json,
    LakeRoot,
    Partitions,
    PipelineFile,
    Stage,
    Values,
    numbers,
    variables,
)

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.runtime.run import RunStream

RUN, WRITE, PROVE = "Run a pipeline", "Write a pipeline", "Prove its results"

app = typer.Typer(
    name="headrace",
    help="Streaming SQL, compiled into hash-partitioned stateful Spark jobs.",
    epilog="Exit codes: 0 done · 1 fault, worth a retry · 2 refused · 3 unequal · 4 unknown · 5 not the owner",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """The `headrace` command; `argv` without the program's name."""
    leave(lambda: app(argv if argv is None else list(argv), prog_name="headrace") or ExitCode.DONE)


def console() -> Console:
    """Where a verb writes what it found: stdout."""
    from rich.console import Console

    return Console()


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"headrace {__version__}")
        raise typer.Exit


@app.callback()
def headrace(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Streaming SQL, compiled into hash-partitioned stateful Spark jobs."""


@app.command(rich_help_panel=RUN)
@app.command("stream", hidden=True)
def run(  # noqa: PLR0913 the options of the verb
    pipeline: PipelineFile,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="End when all input present is consumed.")
    ] = False,
    flush: Annotated[
        bool, typer.Option("--flush", help="Then close all windows too: the input has ended.")
    ] = False,
    values: Values = None,
    lake: LakeRoot = "",
    partitions: Partitions = None,
    cores: Cores = None,
    progress: Annotated[bool, typer.Option(help="Show rows, watermark and state as they come.")] = True,
    debug: Debug = False,
) -> None:
    """Run a pipeline from where it stopped: until Ctrl-C, or to the end of its input.

    [dim]headrace run flights.sql --until-idle[/dim]

    [dim]headrace run flights.sql --flush --set INPUT=/data/flights --lake /data/lake[/dim]
    """
    given = variables(values)

    def call() -> ExitCode:
        from headrace.runtime.run import RunStream, run_stream

        request = RunStream(pipeline, lake, until_idle, flush, partitions, cores, given)
        if not progress:
            return run_stream(request)
        return _watched(request)

    leave(call, file=str(pipeline), debug=debug)


def _watched(request: RunStream) -> ExitCode:
    """A run with its live view; what is wrong with the text is said before Spark starts."""
    from headrace.ops.progress import ProgressView
    from headrace.ops.statecount import counting
    from headrace.runtime.run import run_stream
    from headrace.runtime.session import spark_session
    from headrace.sql.compile import compile_file

    compile_file(request.pipeline, request.variables)
    spark = spark_session(f"headrace {request.pipeline.stem}", cores=request.cores)
    try:
        title = f"headrace run {request.pipeline.name}"
        with counting(spark) as counter, ProgressView(console(), title, state_rows=counter.rows) as view:
            return run_stream(request, view, lambda: view.status("stopping after this batch"))
    finally:
        spark.stop()


@app.command(rich_help_panel=RUN)
def rejected(  # noqa: PLR0913 the options of the verb
    pipeline: PipelineFile,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many, the newest first.")] = 20,
    values: Values = None,
    lake: LakeRoot = "",
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the records that a pipeline rejected, and why.

    [dim]headrace rejected flights.sql --limit 5[/dim]
    """
    given = variables(values)

    def call() -> ExitCode:
        from headrace.rejections import show_rejected
        from headrace.runtime.lake import lake_of
        from headrace.sql.compile import compile_file

        return show_rejected(console(), lake_of(compile_file(pipeline, given), lake), limit, as_json)

    leave(call, file=str(pipeline), debug=debug)


@app.command(rich_help_panel=RUN)
def status(
    pipeline: PipelineFile,
    values: Values = None,
    lake: LakeRoot = "",
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show a pipeline's reference tables: the versions in use, how old the newest is, how they are joined.

    It may run meanwhile, or not.

    [dim]headrace status flights.sql[/dim]
    """
    given = variables(values)

    def call() -> ExitCode:
        from headrace.runtime.lake import lake_of
        from headrace.runtime.query import wall_clock
        from headrace.sql.compile import compile_file
        from headrace.status import show_status

        compiled = compile_file(pipeline, given)
        return show_status(console(), compiled, lake_of(compiled, lake), wall_clock(), as_json)

    leave(call, file=str(pipeline), debug=debug)


@app.command(rich_help_panel=RUN)
def replay(
    pipeline: PipelineFile,
    repaired: Annotated[
        typer.FileText,
        typer.Argument(
            metavar="FILE", help="What `headrace rejected --json` printed, `raw` repaired; - is stdin."
        ),
    ],
    values: Values = None,
    lake: LakeRoot = "",
    debug: Debug = False,
) -> None:
    """Deliver repaired records to the source of their stream again, each once.

    Late records stay rejected: their windows are closed.

    [dim]headrace rejected flights.sql --limit 1000 --json > bad.json[/dim]

    [dim]headrace replay flights.sql bad.json[/dim]
    """
    given = variables(values)

    def call() -> ExitCode:
        from headrace.replay import replay as deliver
        from headrace.runtime.lake import lake_of
        from headrace.sql.compile import compile_file

        compiled = compile_file(pipeline, given)
        return deliver(console(), compiled, lake_of(compiled, lake), repaired.read())

    leave(call, file=str(pipeline), debug=debug)


@app.command(rich_help_panel=RUN)
@app.command("refresh-broadcast", hidden=True)
def refresh(  # noqa: PLR0913 the options of the verb
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The reference table's name.")],
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PATH",
            help="Its new rows: a csv, json or parquet file or folder, or a Delta table.",
        ),
    ],
    pipeline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="The pipeline that declares it.",
            show_default="as its version in --lake was declared",
        ),
    ] = None,
    values: Values = None,
    lake: LakeRoot = "",
    cores: Cores = None,
    debug: Debug = False,
) -> None:
    """Replace a reference table as a whole; running pipelines take the new version up between two batches.

    The rows are checked first (the declared columns, the primary key unique and not NULL): where they are refused, the
    version in use stays.

    [dim]headrace refresh planes --from planes.csv --pipeline flights.sql[/dim]

    [dim]headrace refresh planes --from /data/planes --lake lake/flights[/dim]
    """
    given = variables(values)

    def call() -> ExitCode:
        from headrace.runtime.lake import lake_of, named_lake
        from headrace.runtime.refresh import declared_table
        from headrace.runtime.refresh import refresh as publish
        from headrace.runtime.session import spark_session
        from headrace.sql.compile import compile_file

        compiled = compile_file(pipeline, given) if pipeline is not None else None
        root = named_lake(lake) if compiled is None else lake_of(compiled, lake)
        declared = declared_table(table, root, compiled)
        spark = spark_session(f"headrace refresh {table}", cores=cores)
        try:
            typer.echo(publish(spark, root, declared, source).render())
        finally:
            spark.stop()
        return ExitCode.DONE

    leave(call, file=str(pipeline or ""), debug=debug)


@app.command(rich_help_panel=RUN)
def demo(  # noqa: PLR0913 the options of the verb
    lake: Annotated[Path, typer.Option(metavar="DIR", help="The demo's own folder; made anew.")] = Path(
        "lake/demo"
    ),
    months: Annotated[int, typer.Option(min=1, max=12, help="How much of the year 2013.")] = 12,
    deliveries: Annotated[int, typer.Option(min=1, help="In how many parts the input arrives.")] = 8,
    partitions: Partitions = None,
    cores: Cores = None,
    compare: Annotated[bool, typer.Option(help="Measure what plain Spark would have dropped.")] = True,
    gate: Annotated[bool, typer.Option(help="Let the gate judge the results.")] = True,
    prepare_only: Annotated[
        bool, typer.Option("--prepare-only", help="Deliver the input, run nothing.")
    ] = False,
    debug: Debug = False,
) -> None:
    """The main job on real flights of 2013, end to end, with its report."""

    def call() -> ExitCode:
        from headrace.demo.run import RunDemo, run_demo

        request = RunDemo(lake, months, deliveries, partitions, cores, compare, gate, prepare_only)
        return run_demo(request, console())

    leave(call, debug=debug)


@app.command(rich_help_panel=WRITE)
def check(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", exists=True, dir_okay=False, help="Pipelines.")
    ],
    values: Values = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compile pipelines and report every error with its place; runs nothing, needs no Spark.

    The types of arguments are Spark's to judge: `headrace explain --stage spark` and a run's start refuse those.

    [dim]headrace check dags/pipelines/*.sql --set DATA=lake/demo/input[/dim]
    """
    given = variables(values)

    def call() -> ExitCode:
        from headrace.checks import check_files

        return check_files(console(), files, given, as_json)

    leave(call, debug=debug)


@app.command(rich_help_panel=WRITE)
def explain(
    pipeline: PipelineFile,
    stage: Annotated[
        Stage, typer.Option(help="The SQL's tree, what kind of query it is, our plan or Spark's.")
    ] = Stage.TREE,
    dot: Annotated[bool, typer.Option("--dot", help="Print the plan as a Graphviz graph.")] = False,
    values: Values = None,
    debug: Debug = False,
) -> None:
    """Show what a pipeline becomes: how its rows are partitioned, and why there is a shuffle.

    [dim]headrace explain flights.sql --stage kind[/dim]

    [dim]headrace explain flights.sql --dot | dot -Tsvg > flights.svg[/dim]
    """
    given = variables(values)

    def call() -> ExitCode:
        from headrace.sql.compile import compile_file
        from headrace.sql.explain import explain as explained

        compiled = compile_file(pipeline, given)
        if stage is Stage.SPARK:
            from headrace.runtime.explain import spark_plan
            from headrace.runtime.session import spark_session

            typer.echo(spark_plan(spark_session("headrace explain"), compiled))
        else:
            typer.echo(explained(compiled, stage.value, dot=dot))
        return ExitCode.DONE

    leave(call, file=str(pipeline), debug=debug)


@app.command(rich_help_panel=WRITE)
def skew(  # noqa: PLR0913 the options of the verb
    pipeline: PipelineFile,
    rows: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many rows of each stream to read, the newest.")
    ] = 1_000_000,
    keys: Annotated[int, typer.Option(min=1, max=10, metavar="N", help="How many keys to show.")] = 10,
    values: Values = None,
    lake: LakeRoot = "",
    cores: Cores = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show how the newest input lies over hash partitions and keys, which keys are hot, and what would help.

    A key is hot that has more than twice the rows of a partition in the mean (SET 'skew.factor').

    [dim]headrace skew flights.sql --rows 100000[/dim]
    """
    given = variables(values)

    def call() -> ExitCode:
        from headrace.runtime.lake import lake_of
        from headrace.runtime.session import spark_session
        from headrace.skew import ShowSkew, show_skew
        from headrace.sql.compile import compile_file

        compiled = compile_file(pipeline, given)
        request = ShowSkew(compiled, lake_of(compiled, lake), rows, keys, as_json)
        spark = spark_session(f"headrace skew {compiled.name}", cores=cores)
        try:
            return show_skew(request, spark, console())
        finally:
            spark.stop()

    leave(call, file=str(pipeline), debug=debug)


@app.command("test", rich_help_panel=WRITE)
def run_cases(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", exists=True, dir_okay=False, help="Case files (YAML).")
    ],
    keyword: Annotated[
        str, typer.Option("-k", metavar="WORD", help="Only cases with this in their name.")
    ] = "",
    partitions: Annotated[
        str, typer.Option(metavar="N,…", help="Run each case with these numbers of state partitions.")
    ] = "1,4",
    keep: Annotated[bool, typer.Option("--keep", help="Keep each case's lake, and say where it is.")] = False,
    debug: Debug = False,
) -> None:
    """Run case files: a pipeline, what arrives, and what must come out.

    [dim]headrace test tests/cases/windows.yaml -k sliding[/dim]
    """
    counts = numbers(partitions)

    def call() -> ExitCode:
        from headrace.cases.report import run_files

        return run_files(files, keyword=keyword, partitions=counts, keep=keep, console=console())

    leave(call, debug=debug)


@app.command("gate", rich_help_panel=PROVE)
@app.command("quality-gate", hidden=True)
def gate_results(  # noqa: PLR0913 the options of the verb
    pipeline: PipelineFile,
    results: Annotated[
        list[str] | None, typer.Option("--result", metavar="NAME", help="Only this one.", show_default="all")
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Only windows that end after this time (ISO 8601).")
    ] = "",
    values: Values = None,
    lake: LakeRoot = "",
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Compute the results again, as one plain Spark batch over the same input, and compare row by row.

    Ends with 0 where all are equal, 3 where a row differs, 4 where the input is no longer there.

    [dim]headrace gate flights.sql --since 2013-06-01T00:00:00Z[/dim]
    """
    given = variables(values)

    def call() -> ExitCode:
        from expectations.gate import GateRequest, run_gate

        verdict = run_gate(
            GateRequest(str(pipeline), lake, since or None, tuple(results or ()), tuple(given.items()))
        )
        typer.echo(verdict.to_json() if as_json else verdict.render())
        return verdict.code

    leave(call, file=str(pipeline), debug=debug)
