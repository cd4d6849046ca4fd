"""The frozen trees of a compiled pipeline: what was declared, and what each result computes.

Expressions are Spark SQL text; every name in them is resolved. A node never holds a Spark object,
an open file or a clock; printing a tree is enough to compare it.

Column names inside a plan:
- a stream's own columns, and `_timestamp`, `_offset`, `_partition`, `_event_time`;
- `window_start`, `window_end` above a `Windowed`, a `Spread`, an `Aggregate` or a `JoinStreams` with a window;
- `__key0`, `__key1`, … group keys that are expressions or not selected (hidden in results);
- `__agg0`, `__agg1`, … the values of aggregate calls, between `Aggregate` and `Project`;
- `__rows0`, `__rows1`, … those of calls over ROWS windows, between `RowsWindow` and `Project`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from headrace.errors import Place
from headrace.event_time.interval import Interval

SYSTEM_COLUMNS = ("_timestamp", "_offset", "_partition", "_event_time")
TIME_ORDER = ("_event_time", "_partition", "_offset")  # by these, which of two rows is the earlier one
OP = "_op"  # of a changelog's row: +I, -U, +U or -D
SESSION = "__session"  # the column of a session, in rows and in state
HIDDEN = "__"  # a column whose name begins so is kept in results, and not shown


# ---- what was declared -------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Column:
    """A declared column. `type` is Spark DDL text; `expression` is set where it is computed."""

    name: str
    type: str
    not_null: bool = False
    expression: str = ""
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Watermark:
    """`WATERMARK FOR column AS column - lateness`."""

    column: str
    lateness: Interval = Interval()


@dataclass(frozen=True, slots=True)
class Stream:
    """An unbounded source. `connector` is '' where none is named: then rows come from a case's `given`.

    `producer` is the result stream that it reads on from: its Delta table, its watermark, behind which its rows
    may lie by as much as they `waited`. The columns of such a stream have no declared type.
    """

    name: str
    columns: tuple[Column, ...]  # declared order, computed ones included
    watermark: Watermark | None = None
    connector: str = ""
    options: tuple[tuple[str, str], ...] = ()
    place: Place | None = None
    producer: str = ""
    waited: Interval = Interval()

    @property
    def physical(self) -> tuple[Column, ...]:
        """The columns that the source delivers."""
        return tuple(column for column in self.columns if not column.expression)

    def option(self, name: str, default: str = "") -> str:
        return dict(self.options).get(name, default)


@dataclass(frozen=True, slots=True)
class Table:
    """A reference table: versioned, replaced as a whole."""

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...]
    connector: str = ""
    options: tuple[tuple[str, str], ...] = ()
    place: Place | None = None

    def option(self, name: str, default: str = "") -> str:
        return dict(self.options).get(name, default)


# ---- what is computed --------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Named:
    """An expression and the name of its column."""

    name: str
    expression: str
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Scan:
    """All rows of a stream: its columns and the system columns."""

    stream: str


@dataclass(frozen=True, slots=True)
class Lookup:
    """The pinned version of a reference table."""

    table: str


@dataclass(frozen=True, slots=True)
class Alias:
    """The input under another name, so that `name.column` means its columns."""

    input: Node
    name: str


@dataclass(frozen=True, slots=True)
class Filter:
    """WHERE: the rows for which the condition is true."""

    input: Node
    condition: str
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Project:
    """SELECT: exactly these columns, in this order."""

    input: Node
    columns: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class Window:
    """A window clause. `time` is an expression over the input ('' = the stream's event time).

    kinds: tumbling (size), sliding (size, slide), cumulate (size, slide = step), session (size = gap).
    """

    kind: Literal["tumbling", "sliding", "cumulate", "session"]
    size: Interval
    slide: Interval = Interval()
    offset: Interval = Interval()
    zone: str = "UTC"
    time: str = ""
    place: Place | None = field(default=None, compare=False)
    held_back: Interval = (
        Interval()
    )  # how far rows may come behind the watermark that a result stream hands on


@dataclass(frozen=True, slots=True)
class Windowed:
    """One row for each window that holds the row; adds `window_start` and `window_end`.

    A session is not known from one row: its borders come with the groups of the `Aggregate` above.
    """

    input: Node
    window: Window


@dataclass(frozen=True, slots=True)
class Spread:
    """One row for each window that holds the row, with `window_start` and `window_end`; nothing is held or closed."""

    input: Node
    window: Window


@dataclass(frozen=True, slots=True)
class Call:
    """One aggregate call. `function` is a row of `aggregates.AGGREGATES`, or any Spark aggregate in lower case."""

    name: str  # __agg0 …
    function: str
    arguments: tuple[str, ...]  # empty for COUNT(*)
    distinct: bool = False
    where: str = ""  # FILTER (WHERE …)
    within: str = ""  # WITHIN GROUP (ORDER BY …): the text of `ORDER BY …`
    place: Place | None = field(default=None, compare=False)

    def same_as(self, other: Call) -> bool:
        """Whether both give the same value, whatever their names."""
        return replace(self, name=other.name) == other


@dataclass(frozen=True, slots=True)
class Aggregate:
    """GROUP BY keys (and the window, where the input is `Windowed`); gives keys, window columns and calls."""

    input: Node
    keys: tuple[Named, ...]
    calls: tuple[Call, ...]
    windowed: bool = False


@dataclass(frozen=True, slots=True)
class RowsWindow:
    """Each row with aggregates over the last rows of its key, itself included, by event time and offset.

    `keys` are columns of the input, which has the system columns too; `calls` give each call with the
    length of its buffer in rows.
    """

    input: Node
    keys: tuple[str, ...]
    calls: tuple[tuple[Call, int], ...]
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Having:
    """The groups for which the condition is true; over the output of `Aggregate`."""

    input: Node
    condition: str
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class JoinTable:
    """A stream side joined with a reference-table side. INNER or LEFT.

    `keys` are the equalities of the condition between an expression of the stream side and a column of
    the table side, as (expression, column); a look-up goes by them.
    """

    left: Node
    right: Node
    kind: Literal["inner", "left"]
    condition: str
    place: Place | None = field(default=None, compare=False)
    keys: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)  # not its fingerprint's

    def compared(self) -> dict[str, str]:
        """The expression that each column of the table side is compared with, the first of several."""
        return {column: expression for expression, column in reversed(self.keys)}


@dataclass(frozen=True, slots=True)
class Buffer:
    """How many rows a join may hold, and what is done where it holds more."""

    rows: int
    policy: Literal["warn", "fail", "block"] = "warn"


@dataclass(frozen=True, slots=True)
class JoinStreams:
    """Two streams joined where their keys are equal and their times near: the right side's event time lies
    from `lower` to `upper` behind the left side's (either may be negative), or both lie in one `window`.

    `condition` is the condition as written, the bound included, but for what it asks of one side alone: `own` has
    that of the left and of the right one, '' for nothing. `keys` are the equalities in it, the left side's
    expression and the right side's. `times` are the columns of both sides' event time; '' where a
    side has no watermark. With a window: adds `window_start` and `window_end`, a row for each that holds both.
    """

    left: Node
    right: Node
    kind: Literal["inner", "left", "right", "full"]
    condition: str
    keys: tuple[tuple[str, str], ...]
    times: tuple[str, str]
    lower: Interval = Interval()
    upper: Interval = Interval()
    own: tuple[str, str] = ("", "")
    window: Window | None = None
    buffer: Buffer | None = field(default=None, compare=False, repr=False)  # may change between two runs
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Shown:
    """The columns of one relation of a join that are asked for above it."""

    alias: str
    columns: tuple[Named, ...]


@dataclass(frozen=True, slots=True)
class JoinAsOf:
    """Each left row with the newest right row of its keys that is not later than it (`strict`: that is earlier),
    and no more than `within` earlier.

    `keys` and `times` as those of JoinStreams. Of two right rows of one time that is the newer one which comes
    later by `order`. Above it a relation is a column of its alias, and `shown` are the fields of each.
    """

    left: Node
    right: Node
    kind: Literal["inner", "left"]
    keys: tuple[tuple[str, str], ...]
    times: tuple[str, str]
    order: tuple[str, str]
    shown: tuple[tuple[Shown, ...], tuple[Shown, ...]]
    strict: bool = False
    within: Interval | None = None
    place: Place | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Union:
    """UNION ALL, by position; the names of the first input."""

    inputs: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Distinct:
    """SELECT DISTINCT over everything that ever came."""

    input: Node


Node = (
    Scan
    | Lookup
    | Alias
    | Filter
    | Project
    | Windowed
    | Spread
    | Aggregate
    | RowsWindow
    | Having
    | JoinTable
    | JoinStreams
    | JoinAsOf
    | Union
    | Distinct
)

Kind = Literal[
    "passthrough",
    "fully_partitionable",
    "two_phase",
    "broadcast_join",
    "copartitioned_join",
    "repartition_join",
]


@dataclass(frozen=True, slots=True)
class Result:
    """`CREATE TABLE|STREAM name AS SELECT …`: one query of the pipeline.

    `keys` are the columns of the result (hidden ones included) that identify a row, group keys and
    window columns; () for rows without identity and for a global aggregate (which has one row).
    `upsert`: each batch brings new values of keys (CHANGES over groups) rather than rows to append.
    """

    name: str
    form: Literal["table", "stream"]
    plan: Node
    emit: Literal["changes", "final"]
    keys: tuple[str, ...] = ()
    upsert: bool = False
    kinds: tuple[Kind, ...] = ()
    connector: str = "delta"  # delta | kafka | blackhole
    options: tuple[tuple[str, str], ...] = ()
    place: Place | None = None
    query: str = field(default="", compare=False)  # the SELECT's own text, for the baseline

    @property
    def changelog(self) -> bool:
        """Whether its rows are changes: the old and the new value of each key."""
        return self.form == "stream" and self.upsert

    def option(self, name: str, default: str = "") -> str:
        return dict(self.options).get(name, default)

    def showing(self, expression: str) -> tuple[str, ...]:
        """The columns that are this expression and nothing more."""
        columns = self.plan.columns if isinstance(self.plan, Project) else ()
        return tuple(column.name for column in columns if column.expression == expression)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A compiled `.sql` file."""

    name: str
    settings: tuple[tuple[str, str], ...]
    streams: tuple[Stream, ...]
    tables: tuple[Table, ...]
    results: tuple[Result, ...]
    views: tuple[tuple[str, str], ...] = field(default=(), compare=False)  # folded name, SELECT text
    text: str = field(default="", compare=False)

    def setting(self, name: str, default: str = "") -> str:
        return dict(self.settings).get(name, default)

    def stream(self, name: str) -> Stream:
        return next(stream for stream in self.streams if stream.name == name)

    def table(self, name: str) -> Table:
        return next(table for table in self.tables if table.name == name)

    def result(self, name: str) -> Result:
        return next(result for result in self.results if result.name == name)

    def in_delta(self, result: Result) -> bool:
        """Whether a Delta table holds the result: what goes to Kafka is kept there where a statement reads it."""
        return result.connector == "delta" or (
            result.connector == "kafka" and any(Scan(result.name) in walk(one.plan) for one in self.results)
        )


def inputs(node: Node) -> tuple[Node, ...]:
    """The nodes that feed this one, left to right."""
    match node:
        case Scan() | Lookup():
            return ()
        case (
            JoinTable(left=left, right=right)
            | JoinStreams(left=left, right=right)
            | JoinAsOf(left=left, right=right)
        ):
            return (left, right)
        case Union(inputs=several):
            return several
        case (
            Alias(input=one)
            | Filter(input=one)
            | Project(input=one)
            | Windowed(input=one)
            | Spread(input=one)
            | Aggregate(input=one)
            | RowsWindow(input=one)
            | Having(input=one)
            | Distinct(input=one)
        ):
            return (one,)


def reads_stream(plan: Node) -> bool:
    """Whether rows come to the plan for ever; one of reference tables alone is computed whole."""
    return any(isinstance(node, Scan) for node in walk(plan))


def has_sessions(plan: Node) -> bool:
    """Whether a window of the plan is a session."""
    return any(isinstance(node, Windowed) and node.window.kind == "session" for node in walk(plan))


def joins_streams(plan: Node) -> bool:
    """Whether two streams meet in the plan."""
    return any(isinstance(node, JoinStreams | JoinAsOf) for node in walk(plan))


def waited(plan: Node) -> int:
    """How far (µs) the times of a joined row may lie behind the watermark when it comes: one stream's row has
    waited for the other's.
    """
    joins = [node for node in walk(plan) if isinstance(node, JoinStreams)]
    return sum(max(abs(join.lower.micros), abs(join.upper.micros)) for join in joins)


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, parents first."""
    yield node
    for child in inputs(node):
        yield from walk(child)
