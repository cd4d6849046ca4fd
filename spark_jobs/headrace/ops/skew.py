"""What `headrace skew` shows of a hashed operator: its rows by partition and by key, as tables with bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.sql.skew import SIDES, Heat, HotKey, Kept, is_hot

BAR = 32  # characters of the largest partition
MOST = 32  # partitions that are shown


@dataclass(frozen=True, slots=True)
class Found:
    """The heat of one hashed operator of a result, a `Heat` for each of its sides, and what would help."""

    result: str
    operator: str
    heats: tuple[Heat, ...]
    factor: float
    kept: Kept
    advice: tuple[str, ...]

    @property
    def rows(self) -> int:
        return sum(heat.rows for heat in self.heats)

    @property
    def partitions(self) -> list[int]:
        """The rows of each partition, those of all sides."""
        return [sum(rows) for rows in zip(*(heat.partitions for heat in self.heats), strict=True)]

    def by_key(self) -> list[Key]:
        """The keys with the most rows."""
        texts = {top.hash: top.text for heat in self.heats for top in heat.top}
        counts = [{top.hash: top.rows for top in heat.top} for heat in self.heats]
        salted = {key.hash: key for key in self.kept or ()}
        found = [
            self._key(text, tuple(count.get(key, 0) for count in counts), salted.get(key))
            for key, text in texts.items()
        ]
        return sorted(found, key=lambda key: (-key.total, key.text))

    def _key(self, text: str, rows: tuple[int, ...], salted: HotKey | None) -> Key:
        hot = is_hot(sum(rows), self.rows, len(self.partitions), self.factor)
        return Key(text, rows, hot, len(salted.salts) if salted else 0)

    def told(self) -> dict[str, Any]:
        """The same as a JSON value."""
        return {
            "result": self.result,
            "operator": self.operator,
            "rows": self.rows,
            "partitions": self.partitions,
            "keys": [
                {"key": key.text, "rows": list(key.rows), "hot": key.hot, "salts": key.salts}
                for key in self.by_key()
            ],
            "advice": list(self.advice),
        }


@dataclass(frozen=True, slots=True)
class Key:
    """A key with its rows on each side, and over how many salts its state spreads it (0: none)."""

    text: str
    rows: tuple[int, ...]
    hot: bool
    salts: int

    @property
    def total(self) -> int:
        return sum(self.rows)


def show(out: Console, found: Sequence[Found], first: int) -> None:
    """Print every operator: partitions with their bars, the first keys, what would help."""
    for one in found:
        out.print(Text.assemble((one.result, "bold"), f"  {one.operator}"), soft_wrap=True)
        if one.rows:
            out.print(_partitions(one))
            if keys := one.by_key()[:first]:
                out.print(_keys(one, keys))
        for sentence in one.advice:
            out.print(Text(f"→ {sentence}"), soft_wrap=True)
        out.print()


def _partitions(one: Found) -> Table:
    drawn = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("partition", "rows", "share"):
        drawn.add_column(name, justify="right", no_wrap=True)
    drawn.add_column(
        f"a partition in the mean: {100 / len(one.partitions):.1f} %", no_wrap=True, style="cyan"
    )
    loads = sorted(enumerate(one.partitions), key=lambda load: -load[1])[:MOST]
    largest = max(1, loads[0][1])
    for number, rows in sorted(loads):
        drawn.add_row(str(number), f"{rows:,}", _share(rows, one.rows), "█" * round(BAR * rows / largest))
    if len(one.partitions) > MOST:
        drawn.caption = f"the {MOST} largest of {len(one.partitions)}"
    return drawn


def _keys(one: Found, keys: Sequence[Key]) -> Table:
    drawn = Table(box=None, header_style="dim", pad_edge=False)
    drawn.add_column("key", no_wrap=True)
    for side in SIDES if len(one.heats) > 1 else ("rows",):
        drawn.add_column(side, justify="right", no_wrap=True)
    drawn.add_column("share", justify="right", no_wrap=True)
    drawn.add_column("", no_wrap=True)
    for key in keys:
        state = ("hot, " if key.hot else "") + (f"over {key.salts} salts" if key.salts else "")
        counts = [f"{rows:,}" for rows in key.rows]
        style = "bold red" if key.hot and not key.salts else ""
        drawn.add_row(
            Text(key.text, style), *counts, _share(key.total, one.rows), Text(state.removesuffix(", "), style)
        )
    return drawn


def _share(rows: int, total: int) -> str:
    return f"{100 * rows / total:.1f} %"
