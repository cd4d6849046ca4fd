"""Hot keys: which rows are hashed by what, what `SET 'skew.salt'` may do about it, and which keys are hot. Pure.

A salted join has one more key, the salt. Rows of a hot key on the side that brings many of them are spread over n
salts; its rows on the other side are copied to each of those; all other rows have the salt 0. So each pair of rows
meets as often as it did, once. A row that is copied must never come out without a match, as it would n times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from headrace.sql.nodes import (
    Aggregate,
    Alias,
    Distinct,
    Filter,
    JoinAsOf,
    JoinStreams,
    JoinTable,
    Node,
    Pipeline,
    Project,
    RowsWindow,
    Scan,
    Spread,
    Union,
    Windowed,
    has_sessions,
    reads_stream,
    walk,
)

SIDES = ("left", "right")
FACTOR = "2"  # of the mean partition load: above it a key is hot
NO_POSITION = "its rows have no position by which they could be spread"
FEW_COPIES = 4  # `auto`: the rows of a hot key are at least so many times their partners' copies


# ---- what was asked for ----------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Salt:
    """`SET 'skew.salt'` and `SET 'skew.factor'`; `n` is 0 but for a fixed number."""

    mode: Literal["off", "auto", "fixed"] = "off"
    n: int = 0
    factor: float = float(FACTOR)


def salt_of(pipeline: Pipeline) -> Salt:
    """What the pipeline sets; nothing is salted by default."""
    factor = float(pipeline.setting("skew.factor", FACTOR))
    match pipeline.setting("skew.salt", "off"):
        case "off":
            return Salt("off", factor=factor)
        case "auto":
            return Salt("auto", factor=factor)
        case number:
            return Salt("fixed", int(number), factor)


# ---- what is hashed --------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Hashed:
    """Rows on their way into an operator that hashes them: of `input`, by `keys` (expressions), those of NULL too or not."""

    node: Node
    input: Node
    keys: tuple[str, ...]
    nulls: bool = True


def hashed(plan: Node) -> tuple[Hashed, ...]:
    """All of them in a plan, outermost first; reference tables and what has one partition are left out."""
    return tuple(one for node in walk(plan) if reads_stream(node) for one in _hashed(node))


def _hashed(node: Node) -> tuple[Hashed, ...]:
    match node:
        case Aggregate(input=below, keys=keys) if keys or node.windowed:
            return (Hashed(node, below, tuple(key.expression for key in keys)),)
        case RowsWindow(input=below, keys=names) if names:
            return (Hashed(node, below, names),)
        case Distinct(input=below):
            return (Hashed(node, below, ("*",)),)
        case JoinStreams() | JoinAsOf():
            rows = (_spread(node, 0), _spread(node, 1))
            by = zip(*node.keys, strict=True)
            nulls = (
                node.kind in ("left", "full"),
                node.kind in ("right", "full"),
            )  # where they come out unmatched
            return tuple(Hashed(node, *each) for each in zip(rows, by, nulls, strict=True))
        case _:
            return ()


def _spread(node: JoinStreams | JoinAsOf, n: int) -> Node:
    """A side of a join, each of its rows once for each window that it is joined in."""
    side = (node.left, node.right)[n]
    if isinstance(node, JoinAsOf) or node.window is None:
        return side
    return Spread(side, replace(node.window, time=node.times[n]))


def position(node: Node) -> str:
    """An expression that tells the rows of a node apart, whichever batch they come in; '' where none does."""
    match node:
        case Scan():
            return "_partition, _offset"
        case Alias(input=below, name=name):
            return f"`{name}`._partition, `{name}`._offset" if position(below) else ""
        case Project(input=below, columns=columns):
            kept = {"_partition", "_offset"} <= {column.name for column in columns}
            return "_partition, _offset" if kept and position(below) else ""
        case Filter(input=below) | Windowed(input=below) | Spread(input=below):
            return position(below)
        case JoinTable(left=left):
            return position(left)
        case Union(inputs=several):
            return position(several[0]) if all(position(one) for one in several) else ""
        case _:
            return ""


# ---- what may be salted ----------------------------------------------------------------------
Salted = Aggregate | JoinStreams


def salted_node(plan: Node, salt: Salt) -> Salted | None:
    """The operator of a plan that is salted where it has hot keys."""
    for node in walk(plan):
        if isinstance(node, Aggregate | JoinStreams) and not unsalted_because(node, plan, salt):
            return node
    return None


def unsalted_because(node: Node, plan: Node, salt: Salt) -> str:
    """Why hot keys of a hashed operator of a plan are not salted; '' where they are."""
    if salt.mode == "off":
        return "'skew.salt' is off"
    match node:
        case JoinStreams():
            return _unsalted_join(node, plan)
        case Aggregate():
            return _unsalted_aggregate(node, salt)
        case JoinAsOf() | RowsWindow():
            return "the rows of a key must meet, in order of time"
        case Distinct():
            return "equal rows must meet in one partition"
        case _:
            return "it hashes nothing"


def _unsalted_join(node: JoinStreams, plan: Node) -> str:
    if sum(isinstance(one, JoinStreams) for one in walk(plan)) > 1:
        return "of several joins in a row none is salted; CREATE STREAM of the skewed one gives it a query of its own"
    if node.kind == "full":
        return "a FULL join keeps unmatched rows of both sides, and those of a copied side would come out n times"
    if not all(position((node.left, node.right)[n]) for n in spreadable(node)):
        return NO_POSITION
    return ""


def _unsalted_aggregate(node: Aggregate, salt: Salt) -> str:
    if not reads_stream(node):
        return "it is of reference tables"
    if has_sessions(node):
        return "all rows of a key must meet, where its sessions grow and merge"
    if not node.keys:
        return "it has no key"
    if salt.mode == "auto":
        return "of a group each task moves one row, its partial result, however many it read"
    return "" if position(node.input) else NO_POSITION


def spreadable(node: Salted) -> tuple[int, ...]:
    """The sides whose rows may be spread: the other one's are copied, which its unmatched rows must not need."""
    match node:
        case Aggregate():
            return (0,)
        case JoinStreams(kind="inner"):
            return (0, 1)
        case JoinStreams(kind="left"):
            return (0,)
        case JoinStreams(kind="right"):
            return (1,)
        case JoinStreams():
            return ()


def told(node: Node, plan: Node, salt: Salt) -> str:
    """What `headrace explain` says of a hashed operator."""
    if because := unsalted_because(node, plan, salt):
        return f"not salted: {because}"
    over = "as many sub-groups as they need" if salt.mode == "auto" else f"{salt.n} sub-groups"
    if isinstance(node, Aggregate):
        return (
            f"salted: groups found hot at a start are spread over {over}, partly aggregated there, and merged"
        )
    assert isinstance(node, JoinStreams)
    sides = " or ".join(SIDES[n] for n in spreadable(node))
    return (
        f"salted: {sides} rows of keys found hot at a start are spread over {over}, their partners are copied"
    )


# ---- which keys are hot ----------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Top:
    """A key: its hash (xxhash64), how it reads, its rows, and the partition that each salt 0, 1, 2, … leads to."""

    hash: int
    text: str
    rows: int
    routes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Heat:
    """How rows lie over partitions 0 … N-1, and the keys with the most rows, in that order."""

    partitions: tuple[int, ...]
    top: tuple[Top, ...]

    @property
    def rows(self) -> int:
        return sum(self.partitions)


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key whose rows of side `side` are spread over the salts. `since`: only its rows whose time (µs; in a
    window the start of it) is later; those before may have partners that were not copied.
    """

    hash: int
    text: str
    side: int
    salts: tuple[int, ...]
    since: int | None = None


def is_hot(rows: int, total: int, partitions: int, factor: float) -> bool:
    """Whether a key's rows are more than `factor` times what a partition has in the mean."""
    return rows * partitions > factor * total


def hot_keys(node: Salted, heats: Sequence[Heat], salt: Salt) -> tuple[HotKey, ...]:
    """The keys that salting helps: hot by one side's rows alone, and with few enough partners to copy.

    `heats` are of the operator's sides in order; each has every key that is among the first of any side.
    """
    partitions = len(heats[0].partitions)
    total = sum(heat.rows for heat in heats)
    rows: list[Mapping[int, Top]] = [{top.hash: top for top in heat.top} for heat in heats]
    found = []
    for key in dict.fromkeys(top.hash for heat in heats for top in heat.top):
        sides = [n for n in spreadable(node) if key in rows[n]]
        if not sides:
            continue
        side = max(sides, key=lambda n: rows[n][key].rows)
        top = rows[side][key]
        if not is_hot(top.rows, total, partitions, salt.factor):
            continue
        partners = sum(other[key].rows for n, other in enumerate(rows) if n != side and key in other)
        n = salt.n if salt.mode == "fixed" else _enough(top.rows, partners, total, partitions)
        if n > 1:
            found.append(HotKey(key, top.text, side, even_salts(top.routes, n)))
    return tuple(sorted(found, key=lambda hot: -rows[hot.side][hot.hash].rows))


def _enough(rows: int, partners: int, total: int, partitions: int) -> int:
    """Sub-groups no larger than a partition in the mean, and no more than the partners' copies are worth."""
    n = min(partitions, -(-rows * partitions // total))
    return min(n, 1 + rows // (FEW_COPIES * partners)) if partners else n


def even_salts(routes: Sequence[int], n: int) -> tuple[int, ...]:
    """n salts, of which as many as can be lead to partitions of their own, and no partition to many more than another.

    `routes` are the partitions of the salts 0, 1, 2, …; more salts follow them where they are too few.
    """
    chosen: list[int] = []
    load: dict[int, int] = {}
    left = list(range(len(routes)))
    while left and len(chosen) < n:
        best = min(left, key=lambda salt: (load.get(routes[salt], 0), salt))
        left.remove(best)
        chosen.append(best)
        load[routes[best]] = load.get(routes[best], 0) + 1
    chosen += range(len(routes), len(routes) + n - len(chosen))
    return tuple(sorted(chosen))


# ---- what would help -------------------------------------------------------------------------
Kept = tuple[HotKey, ...] | None  # the keys that a query's state is salted by; None: by none, for good


def advice(node: Node, because: str, heats: Sequence[Heat], salt: Salt, kept: Kept) -> tuple[str, ...]:
    """What would help a hashed operator, a sentence each; `because` is why it could not be salted, '' where it could."""
    partitions, total = len(heats[0].partitions), sum(heat.rows for heat in heats)
    if not total:
        return ("no rows to judge by",)
    sums: dict[int, int] = {}
    texts = {top.hash: top.text for heat in heats for top in heat.top}
    for heat in heats:
        for top in heat.top:
            sums[top.hash] = sums.get(top.hash, 0) + top.rows
    hot = [key for key, rows in sums.items() if is_hot(rows, total, partitions, salt.factor)]
    if not hot:
        return (f"no key is hot: none has more than {salt.factor:g} times the mean partition load",)

    def names(of: Iterable[int]) -> str:
        return ", ".join(texts[key] for key in of)

    if because or not isinstance(node, Aggregate | JoinStreams):
        return (f"{names(hot)}: not for salt: {because}",)
    told = []
    wanted = salt if salt.mode != "off" else replace(salt, mode="auto")
    done = {key.hash for key in kept or ()}
    helped = {key.hash: key for key in hot_keys(node, heats, wanted) if key.hash not in done}
    if already := names(key for key in hot if key in done):
        told.append(f"{already}: is spread over salts")
    if helped:
        fresh = ", ".join(
            f"{key.text} ({SIDES[key.side]} rows over {len(key.salts)})" for key in helped.values()
        )
        told.append(f"{fresh}: {_how(node, salt, kept)}")
    if others := names(key for key in hot if key not in done and key not in helped):
        told.append(f"{others}: salt does not help: {WHY_NOT}")
    return tuple(told)


WHY_NOT = "no side that may be spread is hot by its rows alone, or their partners are too many to copy"


def _how(node: Salted, salt: Salt, kept: Kept) -> str:
    if kept is None and isinstance(node, JoinStreams):
        return "SET 'skew.salt' = 'auto' in another lake: the state that is there was begun without salt"
    if salt.mode == "off":
        return "SET 'skew.salt' = 'auto' before the first start"
    return "is salted from the next start on"
