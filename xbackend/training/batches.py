"""The rows of a data set in batches: in a seeded order, each row once in an epoch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from xbackend.errors import ArgumentError, ShapeError
from xbackend.program.host import check_whole, host_array


class Order:
    """The order of the data: its seed, the present epoch, and its place there, which counts up to ``most`` rows or
    batches (``unit``). An epoch ends where fewer than ``least`` are left. ``how`` is also kept in checkpoints."""

    unit: str
    seeds = False  # whether the last array of a batch has one uint32 for each row

    def __init__(self, seed: int, most: int, least: int, how: Mapping[str, int]) -> None:
        check_whole(seed, f"seed={seed!r:.40} of a data set", 0)
        self.seed, self._most, self._least, self._how = seed, most, least, how
        self.epoch = self.place = 0

    def state(self) -> dict[str, int]:
        """The state for a checkpoint."""
        return {"seed": self.seed, "epoch": self.epoch, "place": self.place, **self._how}

    def restore(self, state: Mapping[str, int]) -> None:
        """Go on from a state. Raises `ArgumentError` for a state that this data set does not have."""
        least = min(state.get("seed", -1), state.get("epoch", -1))
        if state.get("place", -1) not in range(self._most + 1) or least < 0:
            raise ArgumentError(f"the order of the data {dict(state)} is not one of {self._most} {self.unit}")
        self.seed, self.epoch, self.place = state["seed"], state["epoch"], state["place"]
        if self._most - self.place < self._least:  # no batch is left of this epoch
            self.epoch, self.place = self.epoch + 1, 0


class Batches(Order):
    """Batches of arrays with the same number of rows (axis 0), as tuples in the order of the arrays.

    The order of an epoch is a permutation drawn from ``seed`` and the number of the epoch. A checkpoint keeps these two
    and the place in the epoch (`state`). The remaining rows are a smaller last batch if ``partial``, else they are left
    out. With ``seeds`` the last array of a batch has one uint32 for each row, drawn anew in each epoch, for
    `layers.dropout`.

    Raises `ArgumentError` and `ShapeError` for arrays without rows, different numbers of rows, or a size without a
    batch.

    >>> batches = xb.training.Batches(np.arange(6.0), np.arange(6), size=4, seed=1)
    >>> next(iter(batches))[0].shape, batches.state()
    ((4,), {'seed': 1, 'epoch': 0, 'place': 4, 'size': 4, 'rows': 6, 'shuffled': 1, 'partial': 1})
    >>> batches.restore(batches.state())
    """

    unit = "rows"

    def __init__(
        self,
        *arrays: object,
        size: int,
        seed: int = 0,
        shuffled: bool = True,
        partial: bool = True,
        seeds: bool = False,
    ) -> None:
        self.arrays = tuple(host_array(array, f"array {i} of a data set") for i, array in enumerate(arrays))
        rows = [array.shape[0] if array.ndim else 0 for array in self.arrays]
        if len(set(rows)) != 1 or not rows[0]:
            said = ", ".join(map(str, rows)) or "no array"
            raise ShapeError(f"the arrays of a data set have the same number of rows, one or more, not {said}")
        self.rows = rows[0]
        check_whole(size, f"size={size!r:.40} of a batch")
        how = {"size": size, "rows": self.rows, "shuffled": int(shuffled), "partial": int(partial)}
        super().__init__(seed, self.rows, 1 if partial else size, how)
        if size > self.rows and not partial:
            raise ArgumentError(f"batches of {size} rows of a data set of {self.rows}: none is full")
        self.size, self.shuffled, self.partial, self.seeds = size, shuffled, partial, seeds

    def __len__(self) -> int:
        """The number of batches of an epoch."""
        return -(-self.rows // self.size) if self.partial else self.rows // self.size

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        """The remaining batches of this epoch. After the last one the next epoch begins."""
        generator = np.random.default_rng([self.seed, self.epoch])
        order = generator.permutation(self.rows) if self.shuffled else np.arange(self.rows)
        seeds = generator.integers(1 << 32, size=self.rows, dtype=np.uint32)
        while self.rows - self.place >= self._least:
            chosen = order[self.place : self.place + self.size]
            self.place += len(chosen)
            yield (*(array[chosen] for array in self.arrays), *((seeds[chosen],) if self.seeds else ()))
        self.epoch, self.place = self.epoch + 1, 0
