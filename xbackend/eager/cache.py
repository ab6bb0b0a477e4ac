"""What was compiled, by what it was compiled for, up to a number."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

LIMIT = 1024


class CacheInfo(NamedTuple):
    """Calls that found their op compiled, calls that had it compiled, ops kept, and how many are kept at most."""

    hits: int
    misses: int
    kept: int
    limit: int


class Cache:
    """Up to ``limit`` compiled ops; beyond, the one whose last use is longest ago is forgotten. Who calls an op notes
    the number of the call in its ``used``.

    What a framework keeps of what it compiled is its own affair (docs/threads.md has Numba's).
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.limit = limit
        self.misses = 0
        self.calls = 0
        self.kept: dict[Hashable, Any] = {}

    def add(self, key: Hashable, op: Any) -> None:
        """Keep an op, and forget others where there are too many."""
        op.used = self.calls
        self.kept[key] = op
        while len(self.kept) > self.limit:
            oldest, _ = min([*self.kept.items()], key=lambda item: item[1].used)
            self.kept.pop(oldest, None)  # another thread may have taken the same one

    def clear(self) -> None:
        """Forget all of them."""
        self.kept.clear()

    def info(self) -> CacheInfo:
        return CacheInfo(self.calls - self.misses, self.misses, len(self.kept), self.limit)
