"""Random pipelines with their input, drawn from a seed: `drawn(seed)` is always the same one.

Values are small, or odd in a way that a type allows (NULL, NaN, -0.0, text beyond ASCII); doubles are quarters,
so that sums are exact in any order. Rows come in disorder, now and then too late. Pure.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from random import Random
from typing import Any

Row = dict[str, Any]
Delivery = tuple[tuple[str, int, tuple[Row, ...]], ...]  # of one batch: stream, source partition and its rows

NUMBERS = ("BIGINT", "INT", "DOUBLE", "DECIMAL(9, 2)")
TYPES = ("STRING", "BOOLEAN", *NUMBERS)
FROM = 1_767_225_600  # 2026-01-01T00:00:00Z, seconds


@dataclass(frozen=True, slots=True)
class Query:
    """One result: its clauses as text. `back` holds the buffer of ROWS windows, 0 where it has none.

    It reads the stream s, what `source` says, or another query. Without calls it is SELECT DISTINCT of its keys,
    over a join SELECT of them.
    """

    name: str
    form: str
    keys: tuple[str, ...]
    calls: tuple[str, ...]
    window: str = ""
    where: str = ""
    having: str = ""
    emit: str = ""
    back: int = 0
    inner: Query | None = None
    source: str = "s"
    option: str = ""  # 'key' = 'value', of its WITH

    @property
    def joins(self) -> bool:
        return " JOIN " in self.source

    @property
    def text(self) -> str:
        return f"CREATE {self.form} {self.name} AS {self.select};"

    @property
    def select(self) -> str:
        items = [f"{key} AS g{n}" for n, key in enumerate(self.keys)]
        if self.inner and not self.calls:
            items = ["c1", "c0", "g0"]
        if self.window:
            items += ["window_start", "window_end"]
        items += [f"{call} AS c{n}" for n, call in enumerate(self.calls)]
        if self.back:
            by = f"PARTITION BY {', '.join(self.keys)} " if self.keys else ""
            over = f"OVER (ROWS WINDOW BUFFER {self.back} ROWS {by}ORDER BY ts)"
            items = [
                *items[: len(self.keys)],
                "ts",
                *(f"{c} {over} AS c{n}" for n, c in enumerate(self.calls)),
            ]
        distinct = "" if self.calls or self.inner or self.joins else "DISTINCT "
        source = f"({self.inner.select}) AS i" if self.inner else self.source
        lines = [f"SELECT {distinct}{', '.join(items)} FROM {source}"]
        lines += [f"WHERE {self.where}"] if self.where else []
        if self.joins and self.window and not self.calls:
            lines.append(f"WINDOW {self.window}")
        elif self.calls and not self.back and (self.keys or self.window):
            lines.append(f"GROUP BY {', '.join(self.keys)}{f' WINDOW {self.window}' if self.window else ''}")
        lines += [f"HAVING {self.having}"] if self.having else []
        lines += [f"EMIT {self.emit}"] if self.emit else []
        lines += [f"WITH ({self.option})"] if self.option else []
        return " ".join(lines)


@dataclass(frozen=True, slots=True)
class Fuzzed:
    """A pipeline and what arrives: batches, and behind which of them it is restarted."""

    seed: int
    columns: tuple[tuple[str, str], ...]  # name, type
    lateness: int
    queries: tuple[Query, ...]
    batches: tuple[Delivery, ...]
    restarts: frozenset[int]
    partitions: int  # N
    salt: int = 0  # over so many sub-groups hot keys are spread, and nearly all are hot

    @property
    def sql(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns)
        late = f" - INTERVAL '{self.lateness}' SECOND" if self.lateness else ""
        streams = [
            f"CREATE STREAM {name} ({columns}, ts TIMESTAMP, WATERMARK FOR ts AS ts{late});"
            for name in _streams(self.queries)
        ]
        settings = [f"SET 'skew.salt' = '{self.salt}';", "SET 'skew.factor' = '0.1';"] if self.salt else []
        return "\n".join([*settings, *streams, *(query.text for query in self.queries)])


def drawn(seed: int, kinds: tuple[str, ...] = ()) -> Fuzzed:
    """The pipeline of a seed, its queries of these kinds (KINDS)."""
    chance = Random(seed)
    columns = tuple((f"v{n}", chance.choice(TYPES)) for n in range(chance.randint(2, 4)))
    lateness = chance.choice([0, 2, 5, 20])
    drawn_queries = [_query(chance, columns, n, kinds or KINDS) for n in range(chance.choice([1, 1, 1, 2]))]
    queries = tuple(query for several in drawn_queries for query in several)
    batches = tuple(_batches(chance, columns, lateness, _streams(queries)))
    restarts = frozenset(n for n in range(len(batches)) if chance.random() < 0.2)
    partitions, salt = chance.choice([1, 2, 3, 4]), Random(f"salt {seed}").choice([0, 0, 3])
    return Fuzzed(seed, columns, lateness, queries, batches, restarts, partitions, salt)


def _streams(queries: tuple[Query, ...]) -> tuple[str, ...]:
    return ("s", "t") if any(re.search(" t [yz] ", query.source) for query in queries) else ("s",)


# ---- queries -----------------------------------------------------------------------------------
KINDS = (
    "windowed",
    "windowed",
    "sessions",
    "running",
    "running",
    "changelog",
    "back",
    "over",
    "join",
    "join",
    "as of",
)
JOINS = ("join", "join", "as of")


def _query(
    chance: Random, columns: tuple[tuple[str, str], ...], number: int, kinds: tuple[str, ...]
) -> list[Query]:
    """A query, or two of which the second reads on from the first."""
    kind = chance.choice(kinds)
    if kind == "join":
        return _join(chance, columns, f"r{number}")
    if kind == "as of":
        return _as_of(chance, columns, f"r{number}")
    return [_one(chance, columns, number, kind)]


def _one(chance: Random, columns: tuple[tuple[str, str], ...], number: int, kind: str) -> Query:
    name, where = f"r{number}", _condition(chance, columns) if chance.random() < 0.3 else ""
    keys = tuple(dict.fromkeys(_key(chance, columns) for _ in range(chance.choice([0, 1, 1, 2]))))
    if kind == "over":
        return _over(chance, columns, name, keys or (columns[0][0],))
    if kind == "back":
        calls = tuple(_call(chance, columns, plain=True) for _ in range(chance.randint(1, 3)))
        return Query(name, "TABLE", keys, calls, where=where, back=chance.randint(1, 4))
    calls = tuple(_call(chance, columns) for _ in range(chance.randint(1, 4)))
    having = chance.choice(["COUNT(*) > 1", "COUNT(*) % 2 = 1"]) if chance.random() < 0.2 else ""
    form = "STREAM" if kind == "changelog" else "TABLE"
    window = emit = ""
    if kind == "windowed" or (kind == "changelog" and chance.random() < 0.5):
        window = _window(chance)
        emit = "CHANGES" if kind == "changelog" else chance.choice(["FINAL", "FINAL", "CHANGES"])
    elif kind == "sessions":
        window, emit = (
            f"SESSION(INTERVAL '{chance.randint(1, 8)}' SECOND)",
            chance.choice(["FINAL", "CHANGES"]),
        )
    return Query(name, form, keys, calls, window, where, having, emit)


def _join(chance: Random, columns: tuple[tuple[str, str], ...], name: str) -> list[Query]:
    """Rows of s with rows of t or of s itself; now and then counted in windows by a second statement."""
    names = [column for column, _ in columns]
    side = chance.choice(["", "", "LEFT ", "RIGHT ", "FULL "])
    keys = dict.fromkeys(chance.choice(names) for _ in range(chance.choice([1, 1, 2])))
    lower, upper = sorted((chance.choice([-20, -5, -1, 0, 0]), chance.choice([0, 1, 5, 20])))
    low, high = chance.choice([(">=", "<="), (">=", "<"), (">", "<=")]) if lower < upper else (">=", "<=")
    bound = [
        f"y.ts {low} x.ts + INTERVAL '{lower}' SECOND",
        f"y.ts - INTERVAL '{upper}' SECOND {high} x.ts",
    ]
    extra = [f"x.{_condition(chance, columns)}"] if chance.random() < 0.2 else []
    extra += [f"y.{_condition(chance, columns)}"] if chance.random() < 0.2 else []
    window = _window(chance) if chance.random() < 0.25 else ""
    same = [f"x.{key} = y.{key}" for key in keys]
    on = " AND ".join([*same, *([] if window else bound), *extra])
    source = f"s x {side}JOIN {chance.choice(['t', 't', 's'])} y ON {on}"
    if side not in ("RIGHT ", "FULL ") and not window and chance.random() < 0.3:
        first = Query(
            name,
            "STREAM",
            (f"x.{chance.choice(names)}", f"y.{chance.choice(names)}", "x.ts"),
            (),
            source=source,
        )
        over = _window(chance).replace("(", "(g2, ", 1)
        counted = Query(f"{name}n", "TABLE", ("g0",), ("COUNT(*)", "COUNT(g1)"), over, source=name)
        return [first, counted]
    where = f"x.{_condition(chance, columns)}" if chance.random() < 0.2 else ""
    if chance.random() < 0.25:
        return [_grouped(chance, columns, name, source, where, window)]
    if side in ("", "LEFT ") and not window and chance.random() < 0.2:
        third = f"z.ts BETWEEN x.ts AND x.ts + INTERVAL '{chance.choice([0, 1, 5])}' SECOND"
        source += f" {chance.choice(['', 'LEFT '])}JOIN {chance.choice(['t', 's'])} z ON x.{names[0]} = z.{names[0]} AND {third}"
        return [Query(name, "TABLE", ("x.ts", "y.ts", "z.ts"), (), where=where, source=source)]
    shown = tuple(f"{chance.choice('xy')}.{chance.choice(names)}" for _ in range(chance.randint(1, 3)))
    form = chance.choice(["TABLE", "STREAM"])
    return [Query(name, form, (*shown, "x.ts", "y.ts"), (), window, where=where, source=source)]


def _grouped(
    chance: Random,
    columns: tuple[tuple[str, str], ...],
    name: str,
    source: str,
    where: str,
    window: str,
) -> Query:
    """Groups over a join in one statement; those of a join in a window keep it."""
    names = [column for column, _ in columns]
    calls = ("COUNT(*)", f"COUNT({chance.choice('xy')}.{chance.choice(names)})", f"MAX(y.{names[0]})")
    keys = (f"x.{chance.choice(names)}",)
    if window:
        window = f"TUMBLING(INTERVAL '{chance.choice([2, 5, 10])}' SECOND)"
    elif "RIGHT " not in source and "FULL " not in source and chance.random() < 0.5:
        window = _window(chance).replace("(", "(x.ts, ", 1)
    return Query(name, "TABLE", keys, calls, window, where=where, source=source)


def _as_of(chance: Random, columns: tuple[tuple[str, str], ...], name: str) -> list[Query]:
    """Rows of s with the newest ones of t or of s itself; now and then counted in windows by a second statement."""
    names = [column for column, _ in columns]
    keys = dict.fromkeys(chance.choice(names) for _ in range(chance.choice([1, 1, 2])))
    on = " AND ".join(f"x.{key} = y.{key}" for key in keys)
    match = chance.choice(["x.ts >= y.ts", "y.ts <= x.ts", "x.ts > y.ts"])
    join = f"{chance.choice(['', 'LEFT '])}JOIN {chance.choice(['t', 't', 's'])} y MATCH_CONDITION ({match})"
    source = f"s x ASOF {join} ON {on}"
    option = f"'join.tolerance' = '{chance.choice([0, 1, 5, 20])}s'" if chance.random() < 0.3 else ""
    where = f"{chance.choice('xy')}.{_condition(chance, columns)}" if chance.random() < 0.3 else ""
    shown = tuple(f"{side}.{chance.choice(names)}" for side in "xy")
    if chance.random() < 0.3:
        first = Query(name, "STREAM", (*shown, "x.ts"), (), where=where, source=source, option=option)
        over = _window(chance).replace("(", "(g2, ", 1)
        return [first, Query(f"{name}n", "TABLE", ("g0",), ("COUNT(*)", "COUNT(g1)"), over, source=name)]
    form, emit = chance.choice(["TABLE", "STREAM"]), chance.choice(["", "FINAL"])
    return [
        Query(name, form, (*shown, "x.ts", "y.ts"), (), where=where, emit=emit, source=source, option=option)
    ]


def _over(chance: Random, columns: tuple[tuple[str, str], ...], name: str, keys: tuple[str, ...]) -> Query:
    """A query over another one: over windows, over distinct rows, or the newest values of groups."""
    if chance.random() < 0.25:
        inner = Query("i", "", keys, ())
        outer = ("COUNT(*)", "MAX(g0)", "COUNT(g0)")
        return Query(name, "TABLE", ("g0",) if chance.random() < 0.3 else (), outer, inner=inner)
    calls = ("COUNT(*)", *(_call(chance, columns) for _ in range(chance.randint(1, 3))))
    if chance.random() < 0.25:
        inner = Query("i", "", keys, calls, where=_condition(chance, columns))
        return Query(name, chance.choice(["TABLE", "STREAM"]), (), (), where="c0 < 4", inner=inner)
    window = (
        f"SESSION(INTERVAL '{chance.randint(1, 8)}' SECOND)" if chance.random() < 0.2 else _window(chance)
    )
    inner = Query("i", "", keys, calls, window)
    possible = ["COUNT(*)", "SUM(c0)", "AVG(c0)", "MIN(c1)", "MAX(c1)", "COUNT(DISTINCT c1)"]
    values = tuple(chance.sample(possible, 3))
    over = ("g0",) if chance.random() < 0.6 else ()
    if chance.random() < 0.3:
        return Query(name, chance.choice(["TABLE", "STREAM"]), over, values, inner=inner)
    border = "window_end" if "SESSION" in window else chance.choice(["window_start", "window_end"])
    emit = chance.choice(["FINAL", "FINAL", "CHANGES"])
    return Query(
        name, "TABLE", over, values, _window(chance).replace("(", f"({border}, ", 1), emit=emit, inner=inner
    )


def _window(chance: Random) -> str:
    size = chance.choice([2, 5, 10, 60])
    offset = f", OFFSET INTERVAL '{chance.randint(1, 7)}' SECOND" if chance.random() < 0.3 else ""
    match chance.choice(["tumbling", "sliding", "cumulate"]):
        case "tumbling":
            return f"TUMBLING(INTERVAL '{size}' SECOND{offset})"
        case "sliding":
            slide = chance.choice([1, 2, 5, 7])
            return f"SLIDING(SIZE INTERVAL '{size}' SECOND, SLIDE INTERVAL '{slide}' SECOND{offset})"
        case _:
            return f"CUMULATE(STEP INTERVAL '{size}' SECOND, SIZE INTERVAL '{size * chance.randint(1, 4)}' SECOND)"


def _key(chance: Random, columns: tuple[tuple[str, str], ...]) -> str:
    name, kind = chance.choice(columns)
    if kind in ("INT", "BIGINT") and chance.random() < 0.3:
        return f"{name} % 2"
    return f"upper({name})" if kind == "STRING" and chance.random() < 0.3 else name


def _condition(chance: Random, columns: tuple[tuple[str, str], ...]) -> str:
    name, kind = chance.choice(columns)
    if kind in NUMBERS:
        return f"{name} {chance.choice(['>', '<=', '<>'])} {chance.randint(-1, 2)}"
    return f"{name} IS NOT NULL" if kind == "STRING" else f"{name} IS TRUE"


def _call(chance: Random, columns: tuple[tuple[str, str], ...], *, plain: bool = False) -> str:
    name, kind = chance.choice(columns)
    numeric = [other for other, its in columns if its in NUMBERS]
    possible = [f"COUNT({name})", "COUNT(*)", f"MIN({name})", f"MAX({name})"]
    if kind in NUMBERS:
        possible += [f"SUM({name})", f"AVG({name})"]
    if not plain:
        possible += [f"COUNT(DISTINCT {name})", f"FIRST_VALUE({name})", f"LAST_VALUE({name})"]
        possible += [f"{by}({name}, {other})" for other in numeric for by in ("MIN_BY", "MAX_BY")]
        possible += [f"TOP_K({name}, 2)"] if kind in ("BIGINT", "INT") else []
        possible += [f"BOOL_AND({name})", f"BOOL_OR({name})"] if kind == "BOOLEAN" else []
        possible += [f"STDDEV_POP({name})"] if kind in ("BIGINT", "INT") else []
    call = chance.choice(possible)
    filtered = not plain and chance.random() < 0.2
    return f"{call} FILTER (WHERE {_condition(chance, columns)})" if filtered else call


# ---- rows --------------------------------------------------------------------------------------
def _batches(
    chance: Random, columns: tuple[tuple[str, str], ...], lateness: int, streams: tuple[str, ...]
) -> list[Delivery]:
    sources = [(stream, source) for stream in streams for source in range(chance.randint(1, 3))]
    clocks = {source: float(chance.randint(0, 5)) for source in sources}
    found = []
    for _ in range(chance.choice([2, 2, 3, 3, 4])):
        parts = []
        for source in sources:
            if chance.random() < 0.25:
                continue
            rows = []
            for _ in range(chance.randint(1, 6)):
                clocks[source] += chance.choice([0, 0, 1, 1, 2, 5, 0.001, 12])
                back = chance.uniform(0, lateness) if chance.random() < 0.4 else 0
                back = back + 15 if chance.random() < 0.05 else back
                rows.append(_row(chance, columns, clocks[source] - round(back, 3)))
            parts.append((*source, tuple(rows)))
        if parts:
            found.append(tuple(parts))
    return found


def _row(chance: Random, columns: tuple[tuple[str, str], ...], seconds: float) -> Row:
    row: Row = {name: _value(chance, kind) for name, kind in columns}
    row["ts"] = None if chance.random() < 0.03 else round(FROM + seconds, 3)
    return row


def _value(chance: Random, kind: str) -> Any:
    if chance.random() < 0.1:
        return None
    match kind:
        case "STRING":
            return chance.choice(["a", "b", "B", "", "ä", "a b", "日"])
        case "BOOLEAN":
            return chance.random() < 0.5
        case "BIGINT":
            return chance.choice([0, 1, 2, 3, -1, -7, 2**40, -(2**40)])
        case "INT":
            return chance.choice([0, 1, 2, 3, -1, -7, 10_000])
        case "DOUBLE":
            return chance.choice([0.0, -0.0, 0.25, 1.5, -2.75, 1000.0, float("nan")])
        case _:
            return f"{chance.randint(-500, 500) / 100:.2f}"


def as_record(row: Row) -> dict[str, Any]:
    """The row as a source delivers it: instants as ISO 8601, what JSON has no number for as text."""
    from datetime import UTC, datetime

    ts = row["ts"]
    record = {key: "NaN" if value != value else value for key, value in row.items()}
    if ts is not None:
        record["ts"] = datetime.fromtimestamp(ts, UTC).isoformat(timespec="milliseconds")
    json.dumps(record)
    return record
