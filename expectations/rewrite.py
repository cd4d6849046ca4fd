"""A query's own text, changed just so far that plain Spark batch understands it.

WINDOW becomes a LATERAL VIEW over the windows of each row, a ROWS WINDOW a frame of rows, EMIT and WITH (…) go, views are written out as
CTEs, and the hidden columns of a stream's rows (what the batch log says about them) are carried through
sub-queries. Everything else is the user's text, letter by letter, for Spark's own parser.

Hidden columns: of a stream `__time` (event time), `__partition` and `__place` (its order), `__late_us` (the
watermark that judged the row, microseconds) and `__epoch` (which set of table versions its batch had
pinned); of a reference table `__epoch_<table>`, only where there are several such sets.

Shares nothing with `sql/plan.py` and `runtime/lower.py`. Raises Unknown for text that it has no plain form of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from expectations.calls import has_aggregate, plain_calls
from expectations.clauses import Query, Select, Stretch, nested, read_query
from expectations.edits import BOUNDS, GROUPED_BOUNDS, hide_in_stars, name_bounds, tie
from expectations.joins import join_of_streams
from expectations.relations import Item, Names, Scope, Shape, Text, items_of
from expectations.spans import Windows, pairs_sql, read_clause, read_function
from expectations.words import closing, edited, read, split
from headrace.errors import Unknown


@dataclass(frozen=True, slots=True)
class Plain:
    """The query for Spark batch. Its columns: those of the query, then `group_columns`, then the window's bounds."""

    text: str
    windows: Windows | None  # of the outermost block
    group_columns: tuple[str, ...]  # `__group0`, … one for each GROUP BY expression that was asked for
    timed: bool = False  # a row comes when it is due: `__row_time` (NULL: at once) is the last column


def plain(query: str, names: Names, groups: Iterable[int] = ()) -> Plain:
    """The query as plain Spark SQL; `groups` are the GROUP BY expressions to append as `__group<i>`."""
    try:
        text = plain_calls(with_views(query, names.views))
        words = read(text)
        whole = Text(text, words, names, [])
        tree = read_query(words, 0, len(words))
        shape = _query(whole, tree, {}, carry=False)
        windows, columns = (None, ()) if shape.paired else _outermost(whole, tree, tuple(groups))
        timed = bool(_rows_windows(whole, (0, len(words))))
        if shape.due:
            _append(whole, _block_of(tree), [f"{shape.due} AS __row_time"])
            timed = True
        elif names.waits is not None:
            raise ValueError("an outer join of streams in a query inside another one")
    except (ValueError, KeyError, IndexError) as error:
        raise Unknown(f"the gate can't read this query as plain Spark SQL: {error}") from error
    return Plain(edited(text, whole.edits), windows, columns, timed)


def with_views(query: str, views: Mapping[str, str]) -> str:
    """The query with the views that it uses, and those that they use, in front as CTEs, in their own order."""
    used: set[str] = set()
    waiting = {word.name for word in read(query)}
    while fresh := (waiting & views.keys()) - used:
        used |= fresh
        waiting = {word.name for name in fresh for word in read(views[name])}
    front = [f"`{name}` AS ({text.strip()}\n)" for name, text in views.items() if name in used]
    if not front:
        return query
    words = read(query)
    if words[0].says == "WITH":
        return f"WITH {', '.join(front)}, {query[words[1].start :]}"
    return f"WITH {', '.join(front)} {query}"


# ---- queries -----------------------------------------------------------------------------------
def _query(whole: Text, query: Query, scope: Scope, *, carry: bool) -> Shape:
    """Make the edits of a query; `carry`: its hidden columns are wanted by the query around it."""
    inner = dict(scope)
    for name, named in query.named:
        inner[name] = _query(whole, named, inner, carry=True)
    for stretch in query.dropped:
        whole.replace(stretch, "")
    carry = carry and query.union_all
    shapes = [
        _query(whole, part, inner, carry=carry)
        if isinstance(part, Query)
        else _select(whole, part, inner, carry=carry)
        for part in query.parts
    ]
    if len({shape.carried for shape in shapes}) > 1:
        raise ValueError("a UNION ALL of a stream and of something else")
    return replace(shapes[0], streaming=any(shape.streaming for shape in shapes))


def _select(whole: Text, select: Select, scope: Scope, *, carry: bool) -> Shape:
    items = items_of(whole, select, scope, lambda query: _query(whole, query, scope, carry=True))
    live = [item for item in items if item.shape.streaming]
    if len(live) > 1:
        return join_of_streams(whole, select, items, live)
    windows = _windows(whole, select, items)
    grouped = select.group is not None or select.window is not None or _aggregates(whole, select)
    carried = tuple(name for item in live or items for name in item.shape.carried)
    carry = carry and not grouped and not select.distinct
    hide_in_stars(whole, select, items)
    _frames(whole, select)
    shown = _not_selected(whole, select, carried) if carry else ()
    if shown:
        whole.put(whole.words[select.items[1] - 1].end, "".join(f", {name}" for name in shown))
    conditions = _versions(whole, items, streaming=bool(live))
    behind_from = ""
    if windows is not None and windows.kind != "session":
        behind_from, late = _lateral(whole, select, windows, _time(windows, live), grouped=grouped)
        conditions += late
    _where(whole, select, behind_from, conditions)
    if windows is not None and grouped:
        _group_by_window(whole, select, windows, live)
    for stretch in _expression_stretches(select):
        for query in nested(whole.words, stretch):
            _expression_query(whole, query, scope, correlated=bool(live))
    if carried and not carry and not live and whole.names.several_versions:
        raise ValueError("grouped rows of a reference table that changed its version")
    return Shape(streaming=bool(live), carried=shown, unshown=shown)


def _block_of(tree: Query) -> Select:
    select = tree.parts[0]
    if len(tree.parts) > 1 or not isinstance(select, Select):
        raise ValueError("an outer join of streams in a query in parts")
    return select


def _expression_query(whole: Text, query: Query, scope: Scope, *, correlated: bool) -> None:
    """A sub-query within an expression: over reference tables, of the version that the outer row's batch had."""
    if not (correlated and whole.names.several_versions):
        single = replace(whole, names=replace(whole.names, several_versions=False))
        _query(single, query, scope, carry=False)
        return
    single = replace(whole, names=replace(whole.names, several_versions=False))
    for part in query.parts:
        if not isinstance(part, Select) or query.named:
            raise ValueError("a nested sub-query over a reference table that changed its version")
        items = items_of(whole, part, scope, lambda one: _query(whole, one, scope, carry=True))
        conditions = [f"{item.alias}.{item.versioned} = __epoch" for item in items if item.versioned]
        hide_in_stars(whole, part, items)
        _where(single, part, "", conditions)


def _expression_stretches(select: Select) -> list[Stretch]:
    found = (select.items, select.where, select.group, select.having)
    return [stretch for stretch in found if stretch is not None]


# ---- reference tables --------------------------------------------------------------------------
def _versions(whole: Text, items: list[Item], *, streaming: bool) -> list[str]:
    """Join each reference table in the version of the stream row's batch; conditions left for WHERE."""
    conditions: list[str] = []
    for item in items:
        if not streaming or item.shape.streaming:
            continue
        for version in item.shape.carried:
            same = f"{item.alias}.{version} = __epoch"
            if item.on is not None:
                tie(whole, item.on, same)
            elif item.joined:
                raise ValueError("JOIN … USING with a reference table that changed its version")
            else:
                conditions.append(same)
    return conditions


# ---- windows -----------------------------------------------------------------------------------
def _windows(whole: Text, select: Select, items: list[Item]) -> Windows | None:
    if select.window is not None:
        return read_clause(whole.text, whole.words, select.window, whole.names.zone)
    return next((item.windows for item in items if item.windows is not None), None)


def _time(windows: Windows, live: list[Item]) -> str:
    if windows.time:
        return windows.time
    if not live:
        raise ValueError("a window over rows that have no event time")
    return "__time"


def _lateral(
    whole: Text, select: Select, windows: Windows, time: str, *, grouped: bool
) -> tuple[str, list[str]]:
    """The LATERAL VIEW that gives each row once for each of its windows, and the condition "not late for it".

    Behind GROUP BY its columns bear names of their own, since the rows may have a `window_end` too.
    """
    names = list(GROUPED_BOUNDS) if grouped else _bounds_in(whole, select)
    fields = ", ".join(f"w.{'a' if 'start' in name else 'b'}" for name in names)
    rows = f"transform({pairs_sql(windows, time)}, w -> struct({fields}))"
    view = f" LATERAL VIEW inline({rows}) __windows AS {', '.join(names)}"
    return view, [f"unix_micros({GROUPED_BOUNDS[1]}) > __late_us"] if grouped else []


def _bounds_in(whole: Text, select: Select) -> list[str]:
    written = {word.name for word in whole.words[select.start : select.stop]}
    return [name for name in BOUNDS if name in written or not name.startswith("_")]


def _group_by_window(whole: Text, select: Select, windows: Windows, live: list[Item]) -> None:
    """The window's bounds in GROUP BY, and wherever the query names them outside its aggregates."""
    keys = select.group is not None and select.group[0] < select.group[1]
    if windows.kind == "session":
        if windows.size.months:
            raise ValueError("a session gap of months")
        group = f"session_window({_time(windows, live)}, '{windows.size.micros} microseconds')"
        start, end, in_group = "session_window.start", "session_window.end", (group, group)
    else:
        start, end = in_group = GROUPED_BOUNDS
        group = ", ".join(in_group)
    for item in split(whole.words, *select.items):
        name_bounds(whole, item, (start, end), selected=True)
    if select.having is not None:
        name_bounds(whole, select.having, (start, end))
    if select.window is not None:
        whole.replace((select.window[0] - 1, select.window[1]), (", " if keys else "") + group)
    elif select.group is not None:  # a table function: GROUP BY names the window's columns itself
        name_bounds(whole, select.group, in_group)


def _rows_windows(whole: Text, stretch: Stretch) -> list[int]:
    """Where OVER (ROWS WINDOW … stands."""
    says = [word.says for word in whole.words]
    return [at for at in range(*stretch) if says[at : at + 4] == ["OVER", "(", "ROWS", "WINDOW"]]


def _frames(whole: Text, select: Select) -> None:
    """`(ROWS WINDOW BUFFER n ROWS PARTITION BY k ORDER BY ts)` as a frame of rows in their order."""
    words = whole.words
    for at in _rows_windows(whole, select.items):
        close = closing(words, at + 1)
        order = next(index for index in range(at, close) if words[index].says == "ORDER BY")
        rows = int(whole.at((at + 5, at + 6)))
        whole.replace((at + 2, at + 7), "")
        frame = f"ROWS BETWEEN {rows - 1} PRECEDING AND CURRENT ROW"
        whole.replace((order, close), f"ORDER BY __time, __partition, __place {frame}")


# ---- SELECT and WHERE --------------------------------------------------------------------------
def _where(whole: Text, select: Select, behind_from: str, conditions: list[str]) -> None:
    extra = " AND ".join(conditions)
    if select.source is None:
        return
    end_of_from = whole.words[select.source[1] - 1].end
    if select.where is None:
        added = behind_from + (f" WHERE {extra}" if extra else "")
        if added:
            whole.put(end_of_from, added)
        return
    if behind_from:
        whole.put(end_of_from, behind_from)
    if extra:
        tie(whole, select.where, extra)


def _not_selected(whole: Text, select: Select, carried: tuple[str, ...]) -> tuple[str, ...]:
    """Of the carried columns those that the select list does not name itself."""
    named = {whole.words[stop - 1].name for _, stop in split(whole.words, *select.items)}
    return tuple(name for name in carried if name not in named)


def _aggregates(whole: Text, select: Select) -> bool:
    stretches = [select.items, *([select.having] if select.having else [])]
    return select.having is not None or any(has_aggregate(whole.words, stretch) for stretch in stretches)


def _outermost(whole: Text, tree: Query, groups: tuple[int, ...]) -> tuple[Windows | None, tuple[str, ...]]:
    """Append to the outermost block the GROUP BY expressions that were asked for, and its window's bounds."""
    select = tree.parts[0]
    if len(tree.parts) > 1 or not isinstance(select, Select):
        if groups:
            raise ValueError("hidden group keys of a query in parts")
        return None, ()
    windows = _windows_of(whole, select)
    *above, grouping = _down_to_groups(whole, tree, {}) if groups else [select]
    keys = _group_keys(whole, grouping) if groups else []
    added = [f"({keys[index]}) AS __group{index}" for index in groups]
    names = [f"__group{index}" for index in groups]
    for block in above:
        _append(whole, block, names, shown_by_star=True)
    if windows is not None and windows.kind == "session":
        added += ["session_window.start AS __window_start", "session_window.end AS __window_end"]
    elif windows is not None:
        added += [f"{GROUPED_BOUNDS[0]} AS __window_start", f"{GROUPED_BOUNDS[1]} AS __window_end"]
    if _rows_windows(whole, select.items):
        added.append("__time AS __row_time")
    _append(whole, grouping, added)
    return windows, tuple(names)


def _append(whole: Text, select: Select, added: list[str], *, shown_by_star: bool = False) -> None:
    """Columns behind those of SELECT, where a * does not show them already."""
    words = whole.words
    for _, stop in split(words, *select.items) if shown_by_star and added else ():
        if words[stop - 1].says == "*":
            whole.put(words[stop - 1].end, f" EXCEPT ({', '.join(added)})")
    if added:
        whole.put(words[select.items[1] - 1].end, ", " + ", ".join(added))


def _down_to_groups(whole: Text, tree: Query, scope: Mapping[str, Query]) -> list[Select]:
    """The blocks from the outermost one down to the one whose groups it shows."""
    scope = {**scope, **dict(tree.named)}
    select, words = tree.parts[0], whole.words
    if len(tree.parts) == 1 and isinstance(select, Select) and select.source is not None:
        if select.group is not None:
            return [select]
        first = select.source[0]
        if words[first].says == "(":
            inner = read_query(words, first + 1, closing(words, first))
        else:
            inner = scope[words[first].name]
        return [select, *_down_to_groups(whole, inner, scope)]
    raise ValueError("hidden group keys of a query in parts")


def _windows_of(whole: Text, select: Select) -> Windows | None:
    if select.window is not None:
        return read_clause(whole.text, whole.words, select.window, whole.names.zone)
    first = select.source[0] if select.source else 0
    if select.source and whole.words[first].says == "TABLE" and select.group is not None:
        return read_function(whole.text, whole.words, first, whole.names.zone)[1]
    return None


def _group_keys(whole: Text, select: Select) -> list[str]:
    """The GROUP BY expressions as written, without the window's own columns."""
    if select.group is None or select.group[0] >= select.group[1]:
        return []
    pieces = split(whole.words, *select.group)
    return [
        whole.at(piece)
        for piece in pieces
        if whole.words[piece[0]].name not in BOUNDS or piece[1] - piece[0] > 1
    ]
