"""In the worker: the time of a round of calls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xbackend.backends.contract import Backend, Built
from xbackend.measure.loop import calibrate, seconds_of

SECONDS = 0.01  # a round takes so long or more


def calibrated(backend: Backend, built: Built, point: np.ndarray) -> int:
    """The number of calls of a round."""
    return calibrate(_call(backend, built, point), SECONDS)[0]


def timed(backend: Backend, built: Built, point: np.ndarray, iterations: int) -> float:
    """Seconds of a round of ``iterations`` calls, after a call that is not timed."""
    call = _call(backend, built, point)
    call()
    return seconds_of(call, iterations)


def _call(backend: Backend, built: Built, point: np.ndarray) -> Callable[[], None]:
    [value] = backend.put_all([point], backend.devices[:1])
    return lambda: backend.synchronize(built.execute(value))
