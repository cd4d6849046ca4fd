"""Blocks of table versions in Redis: written by a driver, read by Python workers, let go by their age.

Keys are `<prefix>:<number of the block>` and `<prefix>:complete`, which is written last. The prefix names the version by its
content (`lookup.prefix_of`), and a block is written in one step: what is read under a key is right,
and what is not there says nothing. Every failure is the one error Away.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import urlsplit

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

Item = TypeVar("Item")
READ_AT_ONCE = 2_000  # keys of one MGET
WRITTEN_AT_ONCE = 500  # blocks of one pipeline


class Away(Exception):
    """Redis can't be reached, does not answer in time, or refuses."""


@dataclass(frozen=True, slots=True)
class Store:
    """A Redis, and how long (seconds) it may take to answer and keeps what it is given."""

    url: str
    timeout_s: float
    ttl_s: int

    @property
    def name(self) -> str:
        """The address without what is secret in it."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def read(self, prefix: str, numbers: Sequence[int]) -> list[bytes | None]:
        """The blocks of these numbers; None for those that are not there."""
        found: list[Any] = []
        try:
            for part in _parts(numbers, READ_AT_ONCE):
                found += _client(self).mget([f"{prefix}:{number}" for number in part])
        except (RedisError, OSError) as error:
            raise Away(str(error)) from error
        return found

    def write(self, prefix: str, blocks: Iterable[tuple[int, bytes]]) -> int:
        """Write blocks; gives how many."""
        count = 0
        try:
            for part in _parts(blocks, WRITTEN_AT_ONCE):
                pipeline = _client(self).pipeline(transaction=False)
                for number, block in part:
                    pipeline.set(f"{prefix}:{number}", block, ex=self.ttl_s)
                count += len(pipeline.execute())
        except (RedisError, OSError) as error:
            raise Away(str(error)) from error
        return count

    def complete(self, prefix: str) -> dict[str, int] | None:
        """What was noted when all blocks were written; None where they were not, or it was let go."""
        try:
            noted = _client(self).get(f"{prefix}:complete")
        except (RedisError, OSError) as error:
            raise Away(str(error)) from error
        found: dict[str, int] | None = None if noted is None else json.loads(noted)
        return found

    def finish(self, prefix: str, counts: dict[str, int]) -> None:
        """Note that all blocks are written."""
        try:
            _client(self).set(f"{prefix}:complete", json.dumps(counts), ex=self.ttl_s)
        except (RedisError, OSError) as error:
            raise Away(str(error)) from error

    def doubt(self, prefix: str) -> None:
        """Take that note away: blocks of it are lacking."""
        try:
            _client(self).delete(f"{prefix}:complete")
        except (RedisError, OSError) as error:
            raise Away(str(error)) from error


@cache
def _client(store: Store) -> Redis:
    """One client for each process; a connection that broke is tried anew once."""
    return Redis.from_url(
        store.url,
        socket_timeout=store.timeout_s,
        socket_connect_timeout=store.timeout_s,
        retry=Retry(NoBackoff(), 1),
    )


def _parts(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    several = iter(items)
    while part := list(islice(several, size)):
        yield part
