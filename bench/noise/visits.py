"""In the worker: a program that is compiled once, and rounds of it whenever it is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import xbackend as xb
from xbackend.backends.contract import Backend
from xbackend.measure.loop import calibrate, seconds_of

_HELD: dict[str, tuple[Callable[[], None], int]] = {}


def chain(x: Any) -> Any:
    """Elementwise ops, one after the other."""
    for _ in range(6):
        x = xb.tanh(x * 1.01 + 0.1)
    return xb.sum(x)


def product(x: Any) -> Any:
    """A product of matrices."""
    return xb.sum(x @ x)


PROGRAMS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "small": (chain, (64,)),
    "chain 100k": (chain, (100_000,)),
    "product 256": (product, (256, 256)),
    "product 1024": (product, (1024, 1024)),
}


def prepare(backend: Backend, name: str, seconds: float) -> int:
    """Compile a program, in float64; returns the iterations of a round of so many seconds."""
    function, shape = PROGRAMS[name]
    x = np.random.default_rng(0).normal(size=shape)
    executable = backend.compile(function, x)
    values = executable.put(x)

    def call() -> None:
        backend.synchronize(executable.execute(*values))

    iterations, _ = calibrate(call, seconds)
    _HELD[name] = call, iterations
    return iterations


def visit(backend: Backend, name: str, rounds: int) -> list[float]:
    """Seconds per iteration of so many rounds, after one call."""
    call, iterations = _HELD[name]
    call()
    return [seconds_of(call, iterations) / iterations for _ in range(rounds)]
