"""A driver under spark-submit: there the JVM came first, and this Python process is its child.

Two things are different then. Jars named by the session come too late for the class loader of a JVM that
runs already; and a signal sent to spark-submit ends that JVM under the batch in work. `join` mends both.
Does nothing where Python started the JVM.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.java_gateway import ensure_callback_server_started

from headrace.runtime.session import jar_folder


def join() -> None:
    """Make the waiting JVM fit for a session; to be called before there is one."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return
    SparkContext._ensure_initialized()
    gateway: Any = SparkContext._gateway
    _load(gateway.jvm, sorted(jar_folder().glob("*.jar")))
    _hand_on_signals(gateway)


class _ToPython:
    """A Java signal handler that gives the signal on to this process, whose own handlers decide."""

    def handle(self, _signal: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    class Java:
        implements = ("sun.misc.SignalHandler",)


def _load(jvm: Any, jars: Iterable[Path]) -> None:
    """Add the jars to the application's class loader, where it is Spark's own kind; others load at their start only."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    if "MutableURLClassLoader" in loader.getClass().getName():
        for jar in jars:
            loader.addURL(jvm.java.net.URI(jar.resolve().as_uri()).toURL())


def _hand_on_signals(gateway: Any) -> None:
    """SIGTERM goes on to Python. Ctrl-C reaches Python from the terminal anyhow, so the JVM only ignores it."""
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    java = gateway.jvm.sun.misc
    java.Signal.handle(java.Signal("TERM"), _ToPython())
    java.Signal.handle(java.Signal("INT"), java.SignalHandler.SIG_IGN)
