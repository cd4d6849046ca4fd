"""A run's Params as the arguments of a door in `spark_jobs/`. Pure: it imports nothing of Airflow's.

Rules: one row of `FLAGS` for each Param that is an option with a value; what a user left empty
is left out, so that the door's own default counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parents[2]

# Param -> the option that carries its value.
FLAGS = {
    "from": "--from",
    "lake": "--lake",
    "partitions": "--partitions",
    "cores": "--cores",
    "since": "--since",
}

# Param `mode` -> the option that ends a run, as SEMANTICS 3.9 has it.
MODES = {"continuous": (), "until-idle": ("--until-idle",), "flush": ("--flush",)}

# What names the thing a run worked on: the results of a stream run say these to the gate.
SUBJECT = ("pipeline", "lake", "set")


def arguments(asked: Mapping[str, Any]) -> list[str]:
    """`{"pipeline": "p.sql", "mode": "flush", "lake": ""}` gives `["/…/p.sql", "--flush"]`.

    A door whose first word is a `table` takes the pipeline as an option. A relative pipeline is one of the project's. Raises KeyError where `pipeline` is missing or `mode` is none of `MODES`.
    """
    pipeline = str(PROJECT / asked["pipeline"])
    first = [str(asked["table"]), "--pipeline", pipeline] if asked.get("table") else [pipeline]
    found = [*first, *MODES[asked.get("mode") or "continuous"]]
    for name, flag in FLAGS.items():
        if asked.get(name):
            found += [flag, str(asked[name])]
    for key, value in (asked.get("set") or {}).items():
        found += ["--set", f"{key}={value}"]
    return found


def subject(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a run's Params that says which pipeline and which lake; empty ones left out."""
    return {name: asked[name] for name in SUBJECT if asked.get(name)}
