"""The door to a run: one frozen request, one call, one exit code.

Ctrl-C and SIGTERM finish the batch that runs and end with 0.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from pyspark.sql import SparkSession

from headrace.errors import ExitCode, Refused
from headrace.runtime import sources
from headrace.runtime.lake import lake_of
from headrace.runtime.progress import Progress
from headrace.runtime.query import LivePipeline
from headrace.runtime.session import spark_session
from headrace.sql.compile import compile_file

TURN_S = 1.0  # how often the driver looks after its queries
LOOK_S = 0.1  # how often a bounded run looks whether it is over


@dataclass(frozen=True, slots=True)
class RunStream:
    """What to run and how far: for ever, until all input present is consumed, or to the end of the input."""

    pipeline: Path
    lake: str = ""
    until_idle: bool = False
    flush: bool = False
    partitions: int | None = None
    cores: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


def run_stream(
    request: RunStream,
    on_progress: Callable[[Progress], None] | None = None,
    on_stop: Callable[[], None] | None = None,
) -> ExitCode:
    """Run a pipeline. Raises Refused before anything runs, or what a query died of."""
    if request.until_idle and request.flush:
        raise Refused(
            "--until-idle leaves open windows open, --flush closes them", hint="give one of the two"
        )
    pipeline = compile_file(request.pipeline, request.variables)
    endless = next((s for s in pipeline.streams if sources.is_endless(s)), None)
    if endless is not None and (request.until_idle or request.flush):
        raise Refused(
            f"stream {endless.name}: its connector makes rows for ever, so its input has no end",
            hint="run it without --until-idle and --flush, and stop it by Ctrl-C",
            place=endless.place,
            text=pipeline.text,
        )
    shared = SparkSession.getActiveSession() is not None
    spark = spark_session(f"headrace {pipeline.name}", cores=request.cores)
    live = LivePipeline(
        spark,
        pipeline,
        lake_of(pipeline, request.lake),
        on_progress=on_progress,
        partitions=request.partitions,
    )
    with _stop_signal(on_stop) as stopped:
        live.start()
        try:
            _turns(live, request, stopped)
        finally:
            live.stop()
            if not shared:
                spark.stop()
    return ExitCode.DONE


def _turns(live: LivePipeline, request: RunStream, stopped: threading.Event) -> None:
    """The driver's loop until the run is over or a signal came."""
    if request.until_idle or request.flush:
        with ThreadPoolExecutor(max_workers=1) as alone:
            end = alone.submit(live.flush if request.flush else live.settle)
            while not (end.done() or stopped.wait(LOOK_S)):
                pass
            if stopped.is_set():
                live.stop()  # so that the waiting call returns
            else:
                end.result()
        return
    while not stopped.wait(TURN_S):
        live.pump()


@contextmanager
def _stop_signal(on_stop: Callable[[], None] | None) -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets; a second one stops at once. Handlers are put back at the end."""
    stopped = threading.Event()

    def ask(_signal: int, _frame: FrameType | None) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt  # asked twice: at once
        if on_stop is not None:
            on_stop()
        stopped.set()

    if threading.current_thread() is not threading.main_thread():
        yield stopped
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
