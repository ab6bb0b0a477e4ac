"""How long a call of something compiled takes, measured inside the worker; for a look, not for a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xbackend.measure.checks import seconds_of
from xbackend.measure.loop import calibrate, foreign_load, quiet

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend, Built, Value

ROUNDS = 7
ROUND_SECONDS = 0.02


def rounds(backend: Backend, built: Built, values: Sequence[Value]) -> dict[str, Any]:
    """``seconds`` of one call on device-resident values, waited for, in each of a few short rounds in this process;
    ``foreign_cores`` that others kept busy meanwhile."""

    def call() -> None:
        backend.synchronize(built.execute(*values))

    iterations = calibrate(call, ROUND_SECONDS)
    with quiet(), foreign_load() as foreign:
        seconds = [seconds_of(call, iterations) / iterations for _ in range(ROUNDS)]
    return {"seconds": seconds, "foreign_cores": foreign[0]}
