"""The hot keys of a query, settled at its start and kept beside its checkpoint.

The salt is part of a join's state, so a key that was salted once stays so, and a join is salted from its first start on
or never. A key that becomes hot at a later start is spread from the time on from which no row held in state can be
its partner: those were not copied. A batch that was planned and is not done runs again with the keys it had.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.errors import Refused, Unknown
from headrace.runtime.checkpoint import Checkpoint
from headrace.runtime.heat import Look, heats, is_comparable, newest_held
from headrace.sql.nodes import JoinStreams, Result, joins_streams
from headrace.sql.skew import HotKey, Kept, Salt, Salted, hot_keys, salt_of, salted_node


def at_start(result: Result, checkpoint: Checkpoint, look: Look) -> Kept:
    """Settle a query's hot keys before it starts, and keep them. Raises Refused where its state can't take salts up."""
    salt = salt_of(look.pipeline)
    kept, first = checkpoint.hot(), checkpoint.planned() is None
    if first:
        checkpoint.keep_hot(None)
        kept = None
    node = salted_node(result.plan, salt)
    if node is None or not is_comparable(look, node):
        return _left_alone(result, checkpoint, kept)
    if isinstance(node, JoinStreams) and kept is None and not first:
        raise Refused(
            f"{result.name}: the state of its join was begun without salt",
            hint="SET 'skew.salt' = 'off' again, or use another lake",
            place=result.place,
        )
    if not first and checkpoint.planned() != checkpoint.committed():
        return kept
    settled = _settled(node, salt, kept or (), (checkpoint, look))
    checkpoint.keep_hot(settled)
    return settled


def _left_alone(result: Result, checkpoint: Checkpoint, kept: Kept) -> Kept:
    """What stays where nothing is to be salted (any more): the salts of a join's state."""
    if joins_streams(result.plan):
        return kept
    checkpoint.keep_hot(None)
    return None


def _settled(
    node: Salted, salt: Salt, kept: tuple[HotKey, ...], where: tuple[Checkpoint, Look]
) -> tuple[HotKey, ...]:
    checkpoint, look = where
    try:
        found = hot_keys(node, heats(look, node), salt)
    except Unknown:  # the newest input is gone: what is known stays
        return kept
    if not isinstance(node, JoinStreams):
        return found
    known = {key.hash for key in kept}
    fresh = [key for key in found if key.hash not in known]
    if not fresh or checkpoint.committed() is None:
        return (*kept, *fresh)
    if not all(node.times):
        return kept  # nothing ever leaves its state
    return (*kept, *(_from_now_on(key, node, where) for key in fresh))


def _from_now_on(key: HotKey, node: JoinStreams, where: tuple[Checkpoint, Look]) -> HotKey:
    """The key as one that is hot only for rows whose partners are all still to come.

    A left row at t has its partners from t + lower on, a right row at t from t - upper on; in a window they begin
    together. The salt 0 is that of the rows before, which copies must meet too.
    """
    checkpoint, look = where
    salts = tuple(sorted({0, *key.salts}))
    held = newest_held(look.spark, checkpoint.spark, node, 1 - key.side)
    if held is None:
        return replace(key, salts=salts)
    if node.window is not None:
        return replace(key, salts=salts, since=held)
    return replace(
        key, salts=salts, since=held + (-node.lower.micros if key.side == 0 else node.upper.micros)
    )
