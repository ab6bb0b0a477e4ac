"""Programs on several devices as a user of JAX writes them by hand: jitted functions, and `jax.device_put` between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from overhead.handwritten import ByHand, chain
from xbackend.devices import Device


def _theirs(device: Device) -> Any:
    return jax.devices(device.kind)[device.index]


def sum_of_powers(n: int, devices: Sequence[Device]) -> tuple[ByHand, Callable[[np.ndarray], Any]]:
    """A^n on the first device, B^n on the second, their sum on the first; and the function that places B."""
    first, second = map(_theirs, devices)
    power = jax.jit(lambda x: chain(x, n, jax.numpy.matmul))
    add = jax.jit(lambda x, y: x + y)

    def call(a: Any, b: Any) -> Any:
        an, bn = power(a), power(b)
        return add(an, jax.device_put(bn, first))

    def place(array: np.ndarray) -> Any:
        return jax.device_put(array, first)

    return ByHand(call, place, jax.block_until_ready), lambda array: jax.device_put(array, second)


def chain_of_stages(calls: Sequence[Callable[[Any], Sequence[Any]]], devices: Sequence[Device]) -> Callable[..., Any]:
    """The calls one after the other, the result of each put on the device of the next."""
    pairs = list(zip(calls[1:], map(_theirs, devices[1:]), strict=True))
    start, put = calls[0], jax.device_put

    def run(x: Any) -> Any:
        (x,) = start(x)
        for call, device in pairs:
            (x,) = call(put(x, device))
        return x

    return run
