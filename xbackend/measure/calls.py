"""How long a call of something compiled takes, measured inside the worker; for a look, not for a verdict."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xbackend.measure.checks import seconds_of
from xbackend.measure.loop import calibrate, quiet

if TYPE_CHECKING:
    from xbackend.backends.base import Backend, Built, Value

ROUNDS = 7
ROUND_SECONDS = 0.02


def median_call(backend: Backend, built: Built, values: Sequence[Value]) -> float:
    """Median seconds of one call on device-resident values, waited for, over a few short rounds in this process."""

    def call() -> None:
        backend.synchronize(built.execute(*values))

    iterations = calibrate(call, ROUND_SECONDS)
    with quiet():
        return statistics.median(seconds_of(call, iterations) / iterations for _ in range(ROUNDS))
