"""TensorFlow by hand: a `tf.function`, compiled by XLA or not, or ops called one by one; tensors in, tensors out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from overhead.handwritten import ByHand, chain, stacked
from xbackend.bring.tensorflow.given import from_tensorflow


def by_hand(mode: str, function: Callable[..., Any]) -> ByHand:
    """A function as it is called in a mode."""
    modes: dict[str, Callable[[], Any]] = {
        "": lambda: tf.function(function),
        "xla": lambda: tf.function(function, jit_compile=True),
        "eager": lambda: function,
    }
    return ByHand(modes[mode](), tf.constant, _wait)


def _wait(_: Any) -> None:
    """A call on the CPU has computed when it returns."""
    if tf.config.list_logical_devices("GPU"):
        tf.test.experimental.sync_devices()


def brought(written: ByHand, arrays: Sequence[np.ndarray]) -> Any:
    return from_tensorflow(written.call, *arrays)


def product(mode: str, dtype: str) -> ByHand:

    def multiply(a: Any, b: Any) -> Any:
        return tf.matmul(a, b)

    return by_hand(mode, multiply)


def sum_of_powers(mode: str, dtype: str, n: int) -> ByHand:

    def powers(a: Any, b: Any) -> Any:
        return chain(a, n, tf.matmul) + chain(b, n, tf.matmul)

    return by_hand(mode, powers)


def loop(mode: str, dtype: str, steps: int) -> ByHand:

    def run(x: Any, b: Any) -> Any:
        first = tf.zeros(b.shape[0], dtype)
        return tf.scan(lambda carry, row: tf.tanh(tf.linalg.matvec(b, carry, transpose_a=True) + row), x, first)

    return by_hand(mode, run)


def layers(mode: str, dtype: str, count: int) -> ByHand:

    def run(x: Any, b: Any) -> Any:
        return stacked(x, b, count, tf.tanh, lambda y: tf.reduce_mean(y, axis=0))

    return by_hand(mode, run)
