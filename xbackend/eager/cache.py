"""A cache of compiled ops with a limit."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

LIMIT = 1024


class CacheInfo(NamedTuple):
    """Calls with a cached op (``hits``), calls that compiled one (``misses``), ops in the cache, and its limit."""

    hits: int
    misses: int
    kept: int
    limit: int


class Cache:
    """A cache of up to ``limit`` compiled ops. It evicts the least recently used one: callers write the number of the
    call into the ``used`` of an op.

    Frameworks have caches of their own (docs/threads.md has Numba's).
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.misses = 0
        self.calls = 0
        self.kept: dict[Hashable, Any] = {}

    def add(self, key: Hashable, op: Any) -> None:
        """Add an op, and evict others beyond the limit."""
        op.used = self.calls
        self.kept[key] = op
        while len(self.kept) > self.limit:
            oldest, _ = min([*self.kept.items()], key=lambda item: item[1].used)
            self.kept.pop(oldest, None)  # another thread may have evicted it

    def clear(self) -> None:
        """Remove all ops."""
        self.kept.clear()

    def info(self) -> CacheInfo:
        return CacheInfo(self.calls - self.misses, self.misses, len(self.kept), self.limit)
