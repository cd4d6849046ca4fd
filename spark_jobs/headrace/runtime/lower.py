"""From plan nodes to a DataFrame: one `match`, Spark's native operators, expressions as Spark SQL text.

Event times inside native operators are shifted forward by SHIFT_US (Spark's watermark can't lie before
1970) and shifted back above them. No action runs here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pyspark.sql import Column, DataFrame, GroupedData
from pyspark.sql import functions as F

from headrace.errors import Refused
from headrace.event_time import windows
from headrace.runtime.asof import both_sides
from headrace.runtime.fields import analysed
from headrace.runtime.salting import SALTS, SAME_SALT, salted, spread_groups
from headrace.runtime.watermark import SHIFT_US, strictly_behind
from headrace.sql.aggregates import literal, lower_call
from headrace.sql.nodes import (
    SESSION,
    Aggregate,
    Alias,
    Call,
    Distinct,
    Filter,
    Having,
    JoinAsOf,
    JoinStreams,
    JoinTable,
    Lookup,
    Named,
    Node,
    Project,
    RowsWindow,
    Scan,
    Spread,
    Union,
    Window,
    Windowed,
    has_sessions,
    joins_streams,
    reads_stream,
    waited,
    walk,
)
from headrace.sql.skew import HotKey

ADMITTED = "__admitted"  # whether HAVING lets the group's row stand, in upserted results
START, END = "__start", "__end"  # of a window, shifted
SESSION_TIME = "__session_time"
ALL = "__all"  # the key of a result that has none
ONE_KEY = f"pmod(unix_micros({SESSION}.start), 1)"  # 0: Spark's sessions want a key, and drop a literal
IDENTITY = "__identity"  # which record a row came from, in the audit's plans
SIDES = (("__left_start", "__left_end"), ("__right_start", "__right_end"))  # of both sides' windows, shifted
MATCHED = ("__left_time", "__right_time")  # the event times of both sides of a join, shifted
FITS = ("__left_fits", "__right_fits")  # whether a side's row is all that the join asks of it alone
BOUNDED = ("__left_bound", "__right_bound")  # the same a millisecond later (see _join_streams)
STRICT_US = 1000
WATERMARKED = {"spark.watermarkDelayMs": 0}  # a group goes out when the watermark reaches this key


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the leaves of a plan stand for: `scan(n, stream)` the rows of the n-th Scan, `lookup(table)`.

    `look_up(join, table, left)` is a join with a table that is looked up, None where Spark joins it.
    `carry` keeps the column IDENTITY through the plan (the audit's). `done` is a node whose rows are there
    already, those of a carried-state operator: what is above it is computed over them. `hot` are the keys that the
    plan's one salted operator spreads, None where none is salted.
    """

    scan: Callable[[int, str], DataFrame]
    lookup: Callable[[str], DataFrame]
    carry: bool = False
    upsert: bool = False
    done: tuple[Node, DataFrame] | None = None
    look_up: Callable[[JoinTable, str, DataFrame], DataFrame | None] = lambda *_: None
    hot: tuple[HotKey, ...] | None = None
    scans: list[str] = field(default_factory=list)  # the streams of the Scans met so far, in plan order


def waits_for_watermark(plan: Node) -> bool:
    """Whether an operator of the plan waits for the watermark."""
    return any(
        isinstance(node, Windowed | RowsWindow | JoinAsOf)
        or (isinstance(node, JoinStreams) and any(node.times))
        for node in walk(plan)
    )


def wakes_spark(plan: Node) -> bool:
    """Whether Spark runs a batch when the watermark alone has moved: an operator of the plan lets state go by it."""
    return any(
        isinstance(node, Windowed) or (isinstance(node, JoinStreams) and all(node.times))
        for node in walk(plan)
    )


def closes_strictly(plan: Node) -> bool:
    """Whether an operator of the plan closes only what is strictly behind the watermark."""
    bounded = any(isinstance(node, JoinStreams) and node.window is None for node in walk(plan))
    return bounded or has_sessions(plan)


def lower(node: Node, inputs: Inputs) -> DataFrame:  # noqa: C901 one case for each node
    """The frame that a node means."""
    if inputs.done is not None and node is inputs.done[0]:
        return inputs.done[1]
    match node:
        case Scan(stream=stream):
            inputs.scans.append(stream)
            return inputs.scan(len(inputs.scans) - 1, stream)
        case Lookup(table=table):
            return inputs.lookup(table)
        case Alias(input=below, name=name):
            return lower(below, inputs).alias(name)
        case Filter(input=below, condition=condition):
            rows = lower(below, inputs)
            return analysed(lambda f: f.where(F.expr(condition)), rows, node.place, "WHERE")
        case Project(input=below, columns=columns):
            return _project(lower(below, inputs), columns, inputs)
        case Windowed(input=below, window=window):
            return _windowed(lower(below, inputs), window)
        case Spread(input=below, window=window):
            spread = _in_windows(lower(below, inputs), window, 0)
            borders = (F.col("__w.start").alias("window_start"), F.col("__w.end").alias("window_end"))
            return spread.select("*", *borders).drop("__w")
        case Aggregate():
            return _aggregate(node, inputs)
        case Having(input=below, condition=condition):
            groups = lower(below, inputs)
            if not (inputs.upsert and reads_stream(below)):
                return analysed(lambda f: f.where(F.expr(condition)), groups, node.place, "HAVING")
            admitted = F.coalesce(F.expr(condition), F.lit(False))
            if ADMITTED in groups.columns:
                admitted = admitted & F.col(ADMITTED)
            return analysed(lambda f: f.withColumn(ADMITTED, admitted), groups, node.place, "HAVING")
        case JoinTable(kind=kind, condition=condition):
            left = lower(node.left, inputs)
            if (found := _looked_up(node, left, inputs)) is not None:
                return found
            right = lower(node.right, inputs)
            return analysed(lambda f: f.join(right, F.expr(condition), kind), left, node.place, "JOIN")
        case JoinStreams(window=window):
            left, right = (
                _fitting(lower(side, inputs), n, node) for n, side in enumerate((node.left, node.right))
            )
            if window is None:
                return _join_streams(node, (left, right), inputs.hot).drop(*FITS)
            return _join_in_windows(node, window, (left, right), inputs.hot).drop(*FITS)
        case JoinAsOf():
            left, right = lower(node.left, inputs), lower(node.right, inputs)
            return analysed(lambda f: both_sides(node, f, right), left, node.place, "ASOF JOIN")
        case Union(inputs=several):
            return _union([lower(one, inputs) for one in several])
        case Distinct(input=below):
            return lower(below, inputs).dropDuplicates()
        case RowsWindow():
            raise AssertionError("a carried-state operator has no frame of its own")


def _looked_up(node: JoinTable, left: DataFrame, inputs: Inputs) -> DataFrame | None:
    tables = [below.table for below in walk(node.right) if isinstance(below, Lookup)]
    return inputs.look_up(node, tables[0], left) if len(tables) == 1 else None


def _project(rows: DataFrame, columns: tuple[Named, ...], inputs: Inputs) -> DataFrame:
    kept = [F.col(name) for name in (ADMITTED, IDENTITY) if name in rows.columns]
    chosen = [F.expr(c.expression).alias(c.name) for c in columns]
    try:
        return analysed(_select(*chosen, *kept), rows, None, "SELECT")
    except Refused:
        for column, one in zip(columns, chosen, strict=True):
            analysed(_select(one), rows, column.place, f"column {column.name}")
        raise


def _select(*columns: Column | str) -> Callable[[DataFrame], DataFrame]:
    return lambda rows: rows.select(*columns)


def types_of(rows: DataFrame, call: Call) -> tuple[str, ...]:
    """The types of a call's arguments, which decide how some aggregates are kept."""
    arguments = [F.expr(text).alias(f"a{n}") for n, text in enumerate(call.arguments)]
    if not arguments:
        return ()
    found = analysed(_select(*arguments), rows, call.place, call.function.upper())
    return tuple(field.dataType.simpleString() for field in found.schema.fields)


def _agg(groups: GroupedData, *calls: Column) -> Callable[[DataFrame], DataFrame]:
    return lambda _: groups.agg(*calls)


def _windowed(rows: DataFrame, window: Window) -> DataFrame:
    """Each row once for each window that holds it, or with the session that it is by itself.

    Two columns and not Spark's struct: its hash aggregate has generated maps for plain keys alone.
    """
    if window.kind == "session":
        return _in_session(rows, window, window.time or "_event_time")
    spread = _in_windows(rows, window, SHIFT_US)
    start, end = F.col("__w.start").alias(START), F.col("__w.end").alias(END, metadata=WATERMARKED)
    return spread.select("*", start, end).drop("__w")


def _in_windows(rows: DataFrame, window: Window, shift_us: int) -> DataFrame:
    """Each row once for each of its windows, `__w`, a struct of start and end."""
    time = window.time or "_event_time"
    text = windows.window_struct(
        window.kind, window.size, window.slide, window.offset, window.zone, time, shift_us
    )
    several = window.kind in ("sliding", "cumulate")
    one = F.explode(F.expr(text)) if several else F.expr(text)
    return analysed(lambda f: f.select("*", one.alias("__w")), rows, window.place, "WINDOW")


def _in_session(rows: DataFrame, window: Window, time: str) -> DataFrame:
    shifted = F.expr(f"timestamp_micros(unix_micros({time}) + {SHIFT_US}L)")
    marked = shifted.alias(SESSION_TIME, metadata=WATERMARKED)
    timed = analysed(lambda f: f.select("*", marked), rows, window.place, "WINDOW")
    session = F.session_window(SESSION_TIME, f"{window.size.micros} microseconds")
    return timed.select("*", session.alias(SESSION)).drop(SESSION_TIME)


def _aggregate(node: Aggregate, inputs: Inputs) -> DataFrame:
    rows = lower(node.input, inputs)
    keys = [F.expr(key.expression).alias(key.name) for key in node.keys]
    sessions = SESSION in rows.columns
    if sessions:
        keys += [] if keys else [F.expr(ONE_KEY).alias(ALL)]
        keys += [F.col(SESSION)]
    elif node.windowed:
        keys += [F.col(START), F.col(END)]
    if inputs.hot and not sessions:
        rows = spread_groups(node, inputs.hot, rows)
    groups = rows.groupBy(*keys)
    group = _told(node.keys)
    calls = [F.expr(lower_call(call, types_of(rows, call), group)).alias(call.name) for call in node.calls]
    if not calls:  # GROUP BY without an aggregate: the groups themselves
        calls = [F.count(F.lit(1)).alias("__rows")]
    try:
        result = analysed(_agg(groups, *calls), rows, None, "GROUP BY")
    except Refused:
        for call, one in zip(node.calls, calls, strict=False):
            analysed(_agg(groups, one), rows, call.place, call.function.upper())
        raise
    if not node.windowed:
        return result
    borders = (f"{SESSION}.start", f"{SESSION}.end") if sessions else (START, END)
    return _with_window_columns(result, borders)


def _told(keys: tuple[Named, ...]) -> str:
    """An expression that tells a group's key, for errors; '' without a key."""
    separated = ", ', ', ".join(
        f"{literal(key.name)}, ' = ', coalesce(CAST({key.expression} AS STRING), 'NULL')" for key in keys
    )
    return f"concat({separated})" if keys else ""


def _with_window_columns(groups: DataFrame, borders: tuple[str, str]) -> DataFrame:
    start, end = (
        F.expr(f"timestamp_micros(unix_micros({border}) - {SHIFT_US}L)").alias(name)
        for border, name in zip(borders, ("window_start", "window_end"), strict=True)
    )
    return groups.select("*", start, end).drop(START, END, SESSION, ALL)


def _join_streams(
    node: JoinStreams, rows: tuple[DataFrame, DataFrame], hot: tuple[HotKey, ...] | None
) -> DataFrame:
    """Spark's own join of two streams, told how long a row must wait.

    Spark finds that in a condition `right time <= left time + span`: a left row goes when its time plus the span
    is behind the watermark by more than a millisecond. Here that millisecond is taken off the span and put on an
    own column of the left time (and so for the right side), so that it goes when it is behind by one. A side that
    is a join itself gives rows whose times lie behind the watermark: its time is put off by so much. Any other
    comparison of a side's column with a literal would be taken for a span too, and is worked out before the join.
    """
    condition = _condition(node)
    sides = [_timed(side, n, node) for n, side in enumerate(rows)]
    delays = [waited(side) for side in (node.left, node.right)]
    if all(node.times):
        late, soon = (
            _span_literal(span + delay - STRICT_US)
            for span, delay in ((node.upper.micros, delays[1]), (-node.lower.micros, delays[0]))
        )
        condition &= F.expr(
            f"{MATCHED[1]} <= {BOUNDED[0]} + {late} AND {MATCHED[0]} <= {BOUNDED[1]} + {soon}"
        )
    if hot is not None:
        sides = salted(node, hot, sides, (_micros(MATCHED[0]), _micros(MATCHED[1])))
        condition &= F.expr(SAME_SALT)
    joined = analysed(lambda f: f.join(sides[1], condition, node.kind), sides[0], node.place, "JOIN")
    return joined.drop(*MATCHED, *BOUNDED, *SALTS)


def _join_in_windows(
    node: JoinStreams,
    window: Window,
    rows: tuple[DataFrame, DataFrame],
    hot: tuple[HotKey, ...] | None,
) -> DataFrame:
    """Each side's rows once for each of their windows; a window is one more key of the join, and lets its state go."""
    sides = [_bordered(side, n, node, window) for n, side in enumerate(rows)]
    same = " AND ".join(f"{one} = {other}" for one, other in zip(*SIDES, strict=True))
    condition = _condition(node) & F.expr(same)
    if hot is not None:
        sides = salted(node, hot, sides, (_micros(SIDES[0][0]), _micros(SIDES[1][0])))
        condition &= F.expr(SAME_SALT)
    joined = analysed(lambda f: f.join(sides[1], condition, node.kind), sides[0], node.place, "JOIN")
    borders = [
        F.expr(f"timestamp_micros(unix_micros(coalesce({one}, {other})) - {SHIFT_US}L)").alias(name)
        for one, other, name in zip(*SIDES, ("window_start", "window_end"), strict=True)
    ]
    return joined.select("*", *borders).drop(*SIDES[0], *SIDES[1], *SALTS)


def _micros(shifted: str) -> str:
    """The microseconds of a time that is shifted here."""
    return f"(unix_micros({shifted}) - {SHIFT_US}L)"


def _bordered(side: DataFrame, n: int, node: JoinStreams, window: Window) -> DataFrame:
    spread = _in_windows(side, replace(window, time=node.times[n], place=node.place), SHIFT_US)
    start = F.col("__w.start").alias(SIDES[n][0])
    return spread.select("*", start, F.col("__w.end").alias(SIDES[n][1], metadata=WATERMARKED)).drop("__w")


def _condition(node: JoinStreams) -> Column:
    """The condition, and that no key is NULL: the state of a join compares keys by their bytes, NULL like any value.

    Spark infers that for an inner join only, and not for DOUBLE and FLOAT.
    """
    known = [f"({key}) IS NOT NULL" for pair in node.keys for key in pair]
    fits = [name for name, own in zip(FITS, node.own, strict=True) if own]
    return F.expr(node.condition) & F.expr(" AND ".join([*known, *fits]))


def _fitting(side: DataFrame, n: int, node: JoinStreams) -> DataFrame:
    """A side with what the join asks of it alone worked out."""
    if not node.own[n]:
        return side
    return analysed(_select("*", F.expr(node.own[n]).alias(FITS[n])), side, node.place, "JOIN")


def _timed(side: DataFrame, n: int, node: JoinStreams) -> DataFrame:
    """A side with its event time where Spark's join looks for it."""
    if not node.times[n]:
        return side
    micros, delay = f"unix_micros({node.times[n]}) + {SHIFT_US}L", waited((node.left, node.right)[n])
    time = F.expr(f"timestamp_micros({micros} + {delay}L)").alias(MATCHED[n], metadata=WATERMARKED)
    bound = F.expr(f"timestamp_micros({micros} + {STRICT_US}L)").alias(BOUNDED[n])
    return side.select("*", time, bound)


def _span_literal(span_us: int) -> str:
    """A literal: Spark's rule for a join's state does not work out calls."""
    seconds, micros = divmod(abs(span_us), 1_000_000)
    return f"INTERVAL '{'-' if span_us < 0 else ''}{seconds}.{micros:06d}' SECOND"


def _union(frames: list[DataFrame]) -> DataFrame:
    first, *others = frames
    for other in others:
        first = first.unionAll(other)
    return first


Judging = Windowed | RowsWindow | JoinStreams | JoinAsOf  # where rows can be late


def late_windows(plan: Node) -> tuple[Judging, ...]:
    """The operators of a plan that judge their rows by the watermark, outermost first."""
    return tuple(node for node in walk(plan) if isinstance(node, Judging))


def late_rows(node: Judging, inputs: Inputs, watermark_ms: int) -> DataFrame:
    """IDENTITY of the rows that were late (SEMANTICS 3.6 to 3.8): all their windows had ended at the watermark,
    a session of their own would have ended strictly before it, or they themselves were behind it, at a ROWS
    window or on either side of a join. `inputs.carry` is set.
    """
    if isinstance(node, JoinStreams | JoinAsOf):
        sides = [lower(side, inputs) for side in (node.left, node.right)]
        if isinstance(node, JoinStreams) and node.window is not None:
            ends = [_last_end(replace(node.window, time=time)) for time in node.times]
            late = [side.where(_ended(end, watermark_ms)) for side, end in zip(sides, ends, strict=True)]
            return _union([one.select(IDENTITY) for one in late])
        late = [
            side.where(strictly_behind(F.unix_micros(F.expr(time)), watermark_ms)).select(IDENTITY)
            for below, side, time in zip((node.left, node.right), sides, node.times, strict=True)
            if time and not joins_streams(below)  # joined rows are never late
        ]
        return _union(late)
    rows = lower(node.input, inputs)
    if isinstance(node, RowsWindow):
        return rows.where(strictly_behind(F.unix_micros("_event_time"), watermark_ms)).select(IDENTITY)
    window = node.window
    if window.kind == "session":
        end = f"unix_micros({window.time or '_event_time'}) + {window.size.micros}L"
        return rows.where(strictly_behind(F.expr(end), watermark_ms)).select(IDENTITY)
    return rows.where(_ended(_last_end(window), watermark_ms)).select(IDENTITY)


def _last_end(window: Window) -> str:
    """The end of the last window that holds a row."""
    time = window.time or "_event_time"
    return windows.last_end(window.kind, window.size, window.slide, window.offset, window.zone, time)


def _ended(end: str, watermark_ms: int) -> Column:
    return F.expr(f"unix_micros({end}) <= {watermark_ms}L * 1000L")
