"""The rows of a data set in batches: in a seeded order, each row once in an epoch, the last batch with what is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from xbackend.errors import ArgumentError, ShapeError


@dataclass
class Batches:
    """Batches of arrays with the same number of rows (axis 0).

    The order of an epoch is a permutation drawn from ``seed`` and the number of the epoch, so that it can be had again
    from these two: a checkpoint keeps them, and the place in the epoch.
    """

    arrays: Mapping[str, np.ndarray]
    size: int
    seed: int = 0
    shuffled: bool = True
    partial: bool = True  # whether the last batch may have fewer rows
    epoch: int = 0
    place: int = 0  # rows of this epoch that were given
    _order: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        rows = {name: len(array) for name, array in self.arrays.items()}
        if len(set(rows.values())) != 1:
            said = ", ".join(f"{name} {count}" for name, count in rows.items()) or "none"
            raise ShapeError(f"the arrays of a data set have the same number of rows, not {said}")
        (self.rows,) = set(rows.values())
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:
            raise ArgumentError(f"size={self.size!r:.40} of a batch: it is a whole number from 1 up")
        if self.size > self.rows and not self.partial:
            raise ArgumentError(f"batches of {self.size} rows of a data set of {self.rows}: none is full")

    @property
    def order(self) -> np.ndarray:
        """The rows of this epoch in their order."""
        if self._order is None:
            generator = np.random.default_rng([self.seed, self.epoch])
            self._order = generator.permutation(self.rows) if self.shuffled else np.arange(self.rows)
        return self._order

    def __len__(self) -> int:
        """How many batches an epoch has."""
        return -(-self.rows // self.size) if self.partial else self.rows // self.size

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        """The batches that are left of this epoch; after the last one the next epoch begins."""
        while self.place < self.rows:
            chosen = self.order[self.place : self.place + self.size]
            if len(chosen) < self.size and not self.partial:
                break
            self.place += len(chosen)
            yield {name: array[chosen] for name, array in self.arrays.items()}
        self.epoch, self.place, self._order = self.epoch + 1, 0, None

    def state(self) -> dict[str, int]:
        """What a checkpoint keeps of it."""
        return {"seed": self.seed, "epoch": self.epoch, "place": self.place}

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on where the state was taken."""
        self.seed, self.epoch, self.place = (int(state[name]) for name in ("seed", "epoch", "place"))
        self._order = None
