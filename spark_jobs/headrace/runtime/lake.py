"""Where everything of a pipeline lies: one root folder, results and tables by name, the rest in `_headrace`.

Paths only; nothing is opened here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.errors import Refused
from headrace.sql.nodes import Pipeline


@dataclass(frozen=True, slots=True)
class Lake:
    """The root of a pipeline's tables: an absolute path."""

    root: str

    def result(self, name: str) -> str:
        return f"{self.root}/{name}"

    def table(self, name: str) -> str:
        return f"{self.root}/{name}"

    @property
    def rejected(self) -> str:
        return f"{self.root}/rejected"

    @property
    def batches(self) -> str:
        return f"{self.root}/_headrace/batches"

    @property
    def files(self) -> str:
        """The folder of the indexes that number input files."""
        return f"{self.root}/_headrace/files"

    def checkpoint(self, query: str) -> str:
        return f"{self.root}/_headrace/checkpoints/{query}"


def check_path(lake: Lake) -> None:
    """Refuse a lake whose path Spark's sources would take for a pattern, or delta-rs for an encoded one."""
    found = sorted(set(lake.root) & set("*?[]{}\\%"))
    if found:
        raise Refused(
            f"the lake {lake.root} has {' '.join(found)} in its path, which Spark or Delta reads as something else",
            hint="choose a folder without * ? [ ] { } % and \\ in its path",
        )


def bound(pipeline: Pipeline, lake: Lake) -> Pipeline:
    """The pipeline with the streams that read on from a result bound to that result's table."""
    streams = tuple(
        replace(stream, options=(*stream.options, ("path", lake.result(stream.producer))))
        if stream.producer and not stream.option("path")
        else stream
        for stream in pipeline.streams
    )
    return replace(pipeline, streams=streams)


def lake_of(pipeline: Pipeline, override: str = "") -> Lake:
    """The lake that was asked for, else SET 'lake', else `lake/<pipeline name>` in the working folder."""
    return named_lake(override or pipeline.setting("lake") or os.path.join("lake", pipeline.name))


def named_lake(root: str) -> Lake:
    """The lake at a root. Raises Refused where none is named."""
    if not root:
        raise Refused("no lake is named", hint="--lake DIR, or the pipeline that it is of: --pipeline FILE")
    return Lake(root.rstrip("/") if "://" in root else str(Path(root).expanduser().absolute()))
