"""The arrays of tasks as files, which workers read: each is written once, whatever the number of processes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from xbackend.errors import StoreError
from xbackend.measure.candidates import Task


class Files:
    """A temporary folder of .npy files, gone at the end of the block."""

    def __enter__(self) -> Files:
        self._folder = tempfile.TemporaryDirectory(prefix="xbackend-arrays-", ignore_cleanup_errors=True)
        self._written: dict[Task, dict[str, list[str]]] = {}
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def of(self, task: Task) -> dict[str, list[str]]:
        """The paths of a task's ``inputs`` and of what is ``expected`` of it. Raises `StoreError`."""
        if task not in self._written:
            number = len(self._written)
            self._written[task] = {
                "inputs": self._write(f"{number}-input", task.inputs),
                "expected": self._write(f"{number}-expected", task.expected),
            }
        return self._written[task]

    def _write(self, name: str, arrays: Sequence[np.ndarray]) -> list[str]:
        paths = [Path(self._folder.name) / f"{name}-{i}.npy" for i in range(len(arrays))]
        for path, array in zip(paths, arrays, strict=True):
            try:
                np.save(path, array, allow_pickle=False)
            except OSError as error:
                raise StoreError(f"the arrays to measure with cannot be written to {path}: {error}") from error
        return [*map(str, paths)]
