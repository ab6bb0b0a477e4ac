"""Planted events for an adapter's hooks; runs inside the worker, beside the framework."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import xbackend as xb
from xbackend.measure import loop

X = np.array([0.25, 0.5, 1.0])


def rounds(backend: Any, compiles: bool) -> list[str]:
    """The watched compilers of one timed round. If ``compiles``, the round compiles a new program. Raises `TimingError`
    if a compiler was at work."""

    def program(number: float) -> Any:
        return backend.compile(lambda x: xb.tanh(x) * number + x, X)

    run = program(0.5)
    run(X)
    values = run.put(X)

    def call() -> None:
        backend.synchronize(run.execute(*values))
        if compiles:
            program(float(np.random.default_rng().random()))(X)

    attempts, loop.ATTEMPTS = loop.ATTEMPTS, 1
    try:
        held = SimpleNamespace(call=call, iterations=1, compiled=set())
        loop._rounds(held, 2, backend.compilations)
        return sorted(held.compiled)
    finally:
        loop.ATTEMPTS = attempts


def out_of_memory(backend: Any, message: str) -> bool:
    """Whether an error with this message means exhausted memory."""
    return bool(backend.is_out_of_memory(RuntimeError(message)))
