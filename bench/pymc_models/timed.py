"""In the worker: the time of a call."""

from __future__ import annotations

import numpy as np

from xbackend.backends.contract import Backend, Built
from xbackend.measure.loop import calibrate, seconds_of

ROUNDS, SECONDS = 20, 0.002  # the fastest of some rounds, each of which takes so long or more


def timed(backend: Backend, built: Built, point: np.ndarray) -> float:
    """Seconds of a call."""
    [value] = backend.put_all([point], backend.devices[:1])

    def call() -> None:
        backend.synchronize(built.execute(value))

    iterations, _ = calibrate(call, SECONDS)
    return min(seconds_of(call, iterations) for _ in range(ROUNDS)) / iterations
