"""Sources of a data set's arrays: files (npz, csv), and a generator of batches."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from xbackend.errors import TrainingError
from xbackend.files import MOST_OF_ARRAYS, read_file, refused
from xbackend.program.host import check_whole, host_array
from xbackend.strategies.strategy import rows_of
from xbackend.training.batches import Order


def npz(path: str | os.PathLike[str], *names: str) -> tuple[np.ndarray, ...]:
    """The named arrays of a file written by `numpy.savez`; without names all, in their order.

    Raises `StoreError` if it cannot be read, and `TrainingError` if it is damaged, lacks a name, or changed meanwhile.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".npz") as file:
    ...     np.savez(file, x=np.ones((4, 2)), y=np.arange(4))
    ...     file.flush()
    ...     x, y = xb.training.sources.npz(file.name, "x", "y")
    >>> x.shape, y.dtype
    ((4, 2), dtype('int64'))
    """
    data = _read(path)
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as found:
            missing = [name for name in names if name not in found.files]
            if missing:
                listing = ", ".join(found.files) or "none"
                raise TrainingError(f"{os.fspath(path)} has no array {missing[0]!r}; it has {listing}")
            return tuple(host_array(found[name], f"{name} of {os.fspath(path)}") for name in names or found.files)
    except TrainingError:
        raise
    except Exception as error:  # zipfile, struct and numpy raise various errors for a damaged file
        raise TrainingError(f"{os.fspath(path)} is no file of arrays: {type(error).__name__}: {error}") from None


def table(path: str | os.PathLike[str], labels: str) -> tuple[np.ndarray, np.ndarray]:
    """The rows of a csv file whose first line has names. The column ``labels`` (whole numbers) is returned second, as
    int64 [rows]; the other columns first, as float64 [rows, columns].

    Raises `StoreError` if it cannot be read, `TrainingError` for a cell that is no number (with its line), and if the
    file changed meanwhile.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
    ...     for line in ("a,b,kind", "0.5,1.5,0", "2.5,3.5,1"):
    ...         print(line, file=file, flush=True)
    ...     x, kinds = xb.training.sources.table(file.name, "kind")
    >>> x, kinds
    (array([[0.5, 1.5],
           [2.5, 3.5]]), array([0, 1]))
    """
    where = os.fspath(path)
    lines = csv.reader(io.StringIO(_read(path).decode("utf-8-sig", errors="replace")))
    numbers, classes = list[list[float]](), list[int]()
    try:
        names = [name.strip() for name in next(lines, [])]
        if labels not in names:
            raise TrainingError(f"{where} has no column {labels!r}; it has {', '.join(names) or 'none'}")
        column = names.index(labels)
        for cells in lines:
            if not cells:
                continue
            if len(cells) != len(names):
                raise TrainingError(f"{where}:{lines.line_num}: {len(cells)} cells for {len(names)} columns")
            classes.append(int(np.int64(int(cells[column]))))
            numbers.append([float(cell) for i, cell in enumerate(cells) if i != column])
    except (ValueError, OverflowError, csv.Error) as error:
        raise TrainingError(f"{where}:{lines.line_num}: {error}") from None
    return np.array(numbers, np.float64).reshape(len(classes), len(names) - 1), np.array(classes, np.int64)


def _read(path: str | os.PathLike[str]) -> bytes:
    """The content of a file. Raises `TrainingError` if it changed while it was read."""
    with refused(f"{os.fspath(path)} cannot be read"):
        before = _state(path)
        data = read_file(path, MOST_OF_ARRAYS)
        after = _state(path)
    if before != after or len(data) != after[0]:
        raise TrainingError(f"{os.fspath(path)} changed while it was read: read it again when nobody writes to it")
    return data


def _state(path: str | os.PathLike[str]) -> tuple[int, int, int]:
    status = Path(path).stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


class Stream(Order):
    """Batches from a generator. ``make(rng)`` yields tuples of arrays with the same number of rows, ``steps`` in an
    epoch. ``rng`` is a `numpy.random.Generator` seeded with ``seed`` and the number of the epoch.

    A restored stream makes the batches before its place again and skips them.

    >>> def drawn(rng):
    ...     while True:
    ...         yield rng.normal(size=(4, 2)), rng.normal(size=4)
    >>> stream = xb.training.Stream(drawn, steps=10, seed=0)
    >>> [x.shape for x in stream.arrays]
    [(4, 2), (4,)]
    """

    unit = "batches"

    def __init__(self, make: Callable[[np.random.Generator], Iterator[Any]], *, steps: int, seed: int = 0) -> None:
        check_whole(steps, f"steps={steps!r:.40} of an epoch")
        super().__init__(seed, steps, 1, {"steps": steps})
        self.make, self.steps = make, steps

    def __len__(self) -> int:
        """The number of batches of an epoch."""
        return self.steps

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        """The remaining batches of this epoch. After the last one the next epoch begins.

        Raises `TrainingError` if the generator ends too early, `ShapeError` for a batch of different numbers of rows.
        """
        for batch in islice(self._made(), self.place, self.steps):
            self.place += 1
            yield batch
        if self.place < self.steps:
            raise TrainingError(f"the generator ended after {self.place} of {self.steps} batches of epoch {self.epoch}")
        self.epoch, self.place = self.epoch + 1, 0

    def _made(self) -> Iterator[tuple[np.ndarray, ...]]:
        for batch in self.make(np.random.default_rng([self.seed, self.epoch])):
            arrays = tuple(host_array(array, f"array {i} of a batch") for i, array in enumerate(batch))
            rows_of(arrays)
            yield arrays

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """A batch, for its shapes and dtypes."""
        for batch in self._made():
            return batch
        raise TrainingError("the generator makes no batch")
