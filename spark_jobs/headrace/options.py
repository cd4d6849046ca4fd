"""The arguments that several verbs share, each with the one help text it has; and what their texts mean."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Stage(StrEnum):
    """The forms of a pipeline on its way from text to Spark."""

    TREE = "tree"
    KIND = "kind"
    PLAN = "plan"
    SPARK = "spark"


PipelineFile = Annotated[
    Path, typer.Argument(metavar="PIPELINE", exists=True, dir_okay=False, help="The pipeline's .sql file.")
]
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="What stands for ${NAME} in the SQL; else the environment's NAME."
    ),
]
LakeRoot = Annotated[
    str,
    typer.Option(
        "--lake",
        metavar="DIR",
        help="Root folder of results and state.",
        show_default="SET 'lake', else lake/<name>",
    ),
]
Partitions = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="State partitions of a first run.",
        show_default="SET 'state.partitions', else 4",
    ),
]
Cores = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Cores of a local Spark.", show_default="all")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def variables(pairs: Sequence[str] | None) -> dict[str, str]:
    """`["A=1"]` as `{"A": "1"}`, over the environment's; what is no pair is a usage error (exit code 2)."""
    split = [pair.partition("=") for pair in pairs or ()]
    for name, equals, _ in split:
        if not name or not equals:
            raise typer.BadParameter(f"{name or '='} is not NAME=VALUE", param_hint="--set")
    return {**os.environ, **{name: value for name, _, value in split}}


def numbers(text: str) -> tuple[int, ...]:
    """`"1,4"` as `(1, 4)`; anything but positive numbers is a usage error (exit code 2)."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) for part in parts):
        raise typer.BadParameter(f"{text} is not a list of numbers like 1,4", param_hint="--partitions")
    return tuple(int(part) for part in parts)
