"""JAX by hand: a jitted function; arrays on the first device in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from overhead.handwritten import ByHand, chain, stacked
from xbackend.bring.jax.given import from_jax


def brought(written: ByHand, arrays: Sequence[np.ndarray]) -> Any:
    return from_jax(written.call, *arrays)


def product(mode: str, dtype: str) -> ByHand:
    return ByHand(jax.jit(jax.numpy.matmul), jax.device_put, jax.block_until_ready)


def sum_of_powers(mode: str, dtype: str, n: int) -> ByHand:

    def powers(a: Any, b: Any) -> Any:
        return chain(a, n, jax.numpy.matmul) + chain(b, n, jax.numpy.matmul)

    return ByHand(jax.jit(powers), jax.device_put, jax.block_until_ready)


def loop(mode: str, dtype: str, steps: int) -> ByHand:

    def run(x: Any, b: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            after = jax.numpy.tanh(carry @ b + row)
            return after, after

        return jax.lax.scan(step, jax.numpy.zeros(b.shape[0], dtype), x)[1]

    return ByHand(jax.jit(run), jax.device_put, jax.block_until_ready)


def layers(mode: str, dtype: str, count: int) -> ByHand:

    def run(x: Any, b: Any) -> Any:
        return stacked(x, b, count, jax.numpy.tanh, lambda y: jax.numpy.mean(y, axis=0))

    return ByHand(jax.jit(run), jax.device_put, jax.block_until_ready)
