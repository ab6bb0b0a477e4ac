"""Aesara by hand: `aesara.function`, in one of its modes; NumPy arrays in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import aesara
import aesara.tensor as at
import numpy as np

from overhead.handwritten import WIDTH, ByHand, chain, stacked


def compiled(mode: str, inputs: Sequence[Any], outputs: Any) -> ByHand:
    """A graph as a function in a mode."""
    modes: dict[str, str | None] = {"": None, "numba": "NUMBA", "jax": "JAX"}
    return ByHand(aesara.function(list(inputs), outputs, mode=modes[mode]), np.array, _wait)


def _by_hand(mode: str, dtype: str, build: Callable[[Any, Any], Any]) -> ByHand:
    a, b = at.matrix("a", dtype=dtype), at.matrix("b", dtype=dtype)
    return compiled(mode, [a, b], build(a, b))


def _wait(result: Any) -> None:
    """In mode JAX the result may still be computed; in the others it is there."""
    if "jax" in sys.modules:
        sys.modules["jax"].block_until_ready(result)


def product(mode: str, dtype: str) -> ByHand:
    return _by_hand(mode, dtype, at.dot)


def sum_of_powers(mode: str, dtype: str, n: int) -> ByHand:
    return _by_hand(mode, dtype, lambda a, b: chain(a, n, at.dot) + chain(b, n, at.dot))


def loop(mode: str, dtype: str, steps: int) -> ByHand:

    def build(x: Any, b: Any) -> Any:
        carries, _ = aesara.scan(
            lambda row, carry, b: at.tanh(at.dot(carry, b) + row),
            sequences=[x],
            outputs_info=[at.zeros((WIDTH,), dtype=dtype)],
            non_sequences=[b],
        )
        return carries

    return _by_hand(mode, dtype, build)


def layers(mode: str, dtype: str, count: int) -> ByHand:
    return _by_hand(mode, dtype, lambda x, b: stacked(x, b, count, at.tanh, lambda y: at.mean(y, axis=0)))
