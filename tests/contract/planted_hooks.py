"""What the hooks of an adapter are to tell, planted; runs inside the worker, beside the framework."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import xbackend as xb
from xbackend.measure import loop

X = np.array([0.25, 0.5, 1.0])


def rounds(backend: Any, compiles: bool) -> list[str]:
    """The compilers that were watched in one timed round. Raises `TimingError` where one of them was at work: a program
    that nobody has compiled before is compiled in the round, or none is."""

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
    """Whether an error of this message says that memory is used up."""
    return bool(backend.is_out_of_memory(RuntimeError(message)))
