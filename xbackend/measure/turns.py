"""Live workers that take turns: while one measures, all others stand still.

Successive rounds lie in the same second, and seconds differ by more than rounds: XLA's and TensorFlow's threads share
the cores well for a second, and badly for the next. Short visits in turns spread the rounds over many seconds. Workers
that only wait would disturb the others: idle threads of a BLAS spin. docs/measurement.md has the measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from xbackend.measure.worker import Worker


class Turns:
    """Workers by key, at most one of which runs at a time. A context manager, which ends them.

    Args:
        opener: starts the worker of a key.
    """

    def __init__(self, opener: Callable[[Any], Worker]) -> None:
        self._opener = opener
        self._live: dict[Hashable, Worker] = {}

    def __enter__(self) -> Turns:
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._live):
            self.end(key)

    @property
    def pids(self) -> set[int]:
        """The process ids of all workers that live."""
        return {worker.pid for worker in self._live.values() if worker.pid is not None}

    @contextmanager
    def running(self, key: Hashable) -> Iterator[Worker]:
        """The worker of the key, which runs inside of the `with` only; it is started where there is none.

        Raises what ``opener`` does.
        """
        if key not in self._live:
            self._live[key] = self._opener(key)
        worker = self._live[key]
        worker.signal("SIGCONT")
        try:
            yield worker
        finally:
            worker.signal("SIGSTOP")

    def end(self, key: Hashable) -> None:
        """End the worker of the key, if it has one: the next time another one is started."""
        if key in self._live:
            worker = self._live.pop(key)
            worker.signal("SIGCONT")
            worker.backend.close()
