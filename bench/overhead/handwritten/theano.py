"""Theano by hand: `theano.function` with its C linker, NumPy arrays in; or on the context of a device, with its own
values in.

The context is that of the process's backend, which names it as the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import theano
import theano.tensor as T

from overhead.handwritten import WIDTH, ByHand, chain, stacked

_CONTEXT = "cpu:0"


def _by_hand(mode: str, dtype: str, build: Callable[[Any, Any], Any]) -> ByHand:
    modes: dict[str, Callable[..., ByHand]] = {"": _on_host, "gpuarray": _on_context}
    return modes[mode](dtype, build)


def _on_host(dtype: str, build: Callable[[Any, Any], Any]) -> ByHand:
    a, b = T.matrix("a", dtype=dtype), T.matrix("b", dtype=dtype)
    return ByHand(theano.function([a, b], build(a, b)), np.array, lambda result: None)


def _on_context(dtype: str, build: Callable[[Any, Any], Any]) -> ByHand:
    from pygpu.gpuarray import array
    from theano.gpuarray.type import GpuArrayType, get_context

    matrix = GpuArrayType(dtype, (False, False), context_name=_CONTEXT)
    a, b = matrix("a"), matrix("b")
    result = build(a.transfer("cpu"), b.transfer("cpu")).transfer(_CONTEXT)

    def place(given: np.ndarray) -> Any:
        return array(given, context=get_context(_CONTEXT))

    return ByHand(theano.function([a, b], result), place, lambda result: result.sync())


def product(mode: str, dtype: str) -> ByHand:
    return _by_hand(mode, dtype, T.dot)


def sum_of_powers(mode: str, dtype: str, n: int) -> ByHand:
    return _by_hand(mode, dtype, lambda a, b: chain(a, n, T.dot) + chain(b, n, T.dot))


def loop(mode: str, dtype: str, steps: int) -> ByHand:

    def build(x: Any, b: Any) -> Any:
        carries, _ = theano.scan(
            lambda row, carry, b: T.tanh(T.dot(carry, b) + row),
            sequences=[x],
            outputs_info=[T.zeros((WIDTH,), dtype=dtype)],
            non_sequences=[b],
        )
        return carries

    return _by_hand(mode, dtype, build)


def layers(mode: str, dtype: str, count: int) -> ByHand:
    return _by_hand(mode, dtype, lambda x, b: stacked(x, b, count, T.tanh, lambda y: T.mean(y, axis=0)))
