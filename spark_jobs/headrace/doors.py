"""The way out of every door: one place turns what happened into an exit code and words on stderr.

`headrace VERB`, `spark-submit spark_jobs/VERB.py` and the Airflow operator all leave by `leave`.
Codes are `errors.ExitCode`; one more is the shell's own, 130 for Ctrl-C where nothing stops cleanly.
Must never: start anything, or hide an error's own words.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from headrace.errors import ExitCode, HeadraceError

INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def leave(call: Callable[[], int], *, file: str = "", debug: bool = False) -> NoReturn:
    """Make the call and end the process with the exit code it returns, or that its error has.

    `file` is the name that stands before line and column in an error's place. `debug` adds the
    traceback, which is otherwise left out. Raises SystemExit, always.
    """
    try:
        code = int(call())
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has what it wanted; Python must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = int(ExitCode.DONE)
    except Exception as error:  # noqa: BLE001 the one place that may: it ends the process with a message
        if debug:
            traceback.print_exception(error)
        sys.stderr.write(f"{words(error, file, debug=debug)}\n")
        code = int(exit_code(error))
    raise SystemExit(code)


def exit_code(error: BaseException) -> ExitCode:
    """An error of Headrace's has its own; whatever nobody foresaw is a fault, worth a retry."""
    return error.code if isinstance(error, HeadraceError) else ExitCode.FAULT


def words(error: BaseException, file: str = "", *, debug: bool = False) -> str:
    """What stderr says of an error: its own words, or its type and first line where it is a foreign one."""
    if isinstance(error, HeadraceError):
        return f"error: {error.render(file)}"
    first = next((line for line in str(error).splitlines() if line.strip()), "")
    hint = "" if debug else "\n  hint: --debug shows the traceback"
    return f"error: {type(error).__name__}: {first}".rstrip(": ") + hint
