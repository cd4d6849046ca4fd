"""`headrace status`: the reference tables of a pipeline, as it is pinned to them. Reads the lake's small files, by delta-rs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as Drawn
from rich.text import Text

from headrace.errors import ExitCode
from headrace.runtime import deltawrite
from headrace.runtime.checkpoint import Checkpoint
from headrace.runtime.lake import Lake
from headrace.runtime.tables import Size, size_of
from headrace.runtime.ways import limits_of
from headrace.sql.nodes import Pipeline, Table

STEPS = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A reference table: the versions that the results' queries are pinned to, by result, and the newest one.

    `rows` and `bytes` are those of the newest pinned version, of the newest one where none is pinned; `age_s` is how
    long ago the newest was published. `way` tells how it is joined, `why` why not otherwise; `blocks` counts those of
    look-ups by where they came from, since the queries' last starts.
    """

    table: str
    pinned: Mapping[str, int]
    newest: int | None
    age_s: int | None
    rows: int | None
    bytes: int | None
    way: str
    why: str
    blocks: Mapping[str, int] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """As JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__}


def show_status(out: Console, pipeline: Pipeline, lake: Lake, now_ms: int, as_json: bool) -> ExitCode:
    """Print a line for each reference table of the pipeline, whether it runs or not."""
    found = statuses(pipeline, lake, now_ms)
    if as_json:
        out.print_json(json.dumps({"pipeline": pipeline.name, "tables": [one.record() for one in found]}))
    elif not found:
        out.print(f"{pipeline.name} has no reference table", highlight=False, soft_wrap=True)
    else:
        drawn = drawing(found)
        whole = out.options.update(max_width=10_000)
        out.width = max(out.width, Measurement.get(out, whole, drawn).maximum)  # lines are not cut
        out.print(drawn, crop=False, no_wrap=True)
    return ExitCode.DONE


def statuses(pipeline: Pipeline, lake: Lake, now_ms: int) -> list[TableStatus]:
    """The status of each reference table, in the order of their statements."""
    checkpoints = {one.name: Checkpoint.at(Path(lake.checkpoint(one.name))) for one in pipeline.results}
    pins = {name: checkpoint.pinned() for name, checkpoint in checkpoints.items()}
    noted = {name: checkpoint.noted_tables() for name, checkpoint in checkpoints.items()}
    found = []
    for table in pipeline.tables:
        pinned = {name: held[table.name] for name, held in pins.items() if table.name in held}
        told = [held[table.name] for name, held in noted.items() if table.name in held and name in pinned]
        found.append(_status(pipeline, lake, table, pinned, told, now_ms))
    return found


def _status(  # noqa: PLR0913 what was read of it
    pipeline: Pipeline,
    lake: Lake,
    table: Table,
    pinned: Mapping[str, int],
    told: Sequence[Mapping[str, Any]],
    now_ms: int,
) -> TableStatus:
    published = deltawrite.opened(lake.table(table.name))
    if published is None:
        return TableStatus(table.name, pinned, None, None, None, None, "", "not published yet")
    newest = int(published.version())
    age_s = max(0, now_ms - int(published.history(1)[0]["timestamp"])) // 1000
    if pinned:
        published.load_as_version(max(pinned.values()))
    size = size_of(published)
    way, why = _way(pipeline, size, told)
    blocks: dict[str, int] = {}
    for one in told:
        for name, count in one["blocks"].items():
            blocks[name] = blocks.get(name, 0) + count
    return TableStatus(table.name, pinned, newest, age_s, size.rows, size.bytes, way, why, blocks)


def _way(pipeline: Pipeline, size: Size, told: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """As the queries noted it; before their first start, as the size tells."""
    if not told:
        way, why = limits_of(pipeline).way(size)
        return str(way), why
    ways, whys = (list(dict.fromkeys(one[name] for one in told if one[name])) for name in ("way", "why"))
    return ", ".join(ways), "; ".join(whys)


# ---- on the terminal ---------------------------------------------------------------------------
def drawing(found: Sequence[TableStatus]) -> Drawn:
    """The statuses as a table."""
    drawn = Drawn(box=None, header_style="dim")
    for name in ("table", "pinned", "newest", "age"):
        drawn.add_column(name, no_wrap=True)
    for name in ("rows", "bytes"):
        drawn.add_column(name, no_wrap=True, justify="right")
    drawn.add_column("joined", no_wrap=True)
    for one in found:
        drawn.add_row(*(Text(cell) for cell in cells(one)))
    return drawn


def cells(one: TableStatus) -> tuple[str, ...]:
    """The cells of a table's line."""
    pinned = ", ".join(str(version) for version in sorted(set(one.pinned.values()))) or "–"
    if one.newest is None or one.age_s is None:
        return (one.table, pinned, "–", "–", "–", "–", one.why)
    from_delta = one.blocks.get("delta", 0)
    counted = f"{from_delta:,} of {from_delta + one.blocks.get('redis', 0):,} blocks from Delta"
    remarks = [remark for remark in (one.why, counted if from_delta else "") if remark]
    joined = f"{one.way} ({'; '.join(remarks)})" if remarks else one.way
    return (one.table, pinned, str(one.newest), age(one.age_s), f"{one.rows:,}", f"{one.bytes:,}", joined)


def age(seconds: int) -> str:
    """`2d 3h`, `5m 0s`, `12s`: the two largest units."""
    parts: list[str] = []
    for size, unit in STEPS:
        if seconds >= size or parts or unit == "s":
            parts.append(f"{seconds // size}{unit}")
            seconds %= size
    return " ".join(parts[:2])
