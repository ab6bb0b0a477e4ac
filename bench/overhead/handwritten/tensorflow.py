"""TensorFlow by hand: a `tf.function`, compiled by XLA or not, or ops called one by one; tensors in, tensors out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from overhead.handwritten import ByHand, chain


def _by_hand(mode: str, function: Callable[..., Any]) -> ByHand:
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


def product(mode: str, dtype: str) -> ByHand:
    """Two matrices multiplied."""

    def multiply(a: Any, b: Any) -> Any:
        return tf.matmul(a, b)

    return _by_hand(mode, multiply)


def sum_of_powers(mode: str, dtype: str, n: int) -> ByHand:
    """A^n + B^n."""

    def powers(a: Any, b: Any) -> Any:
        return chain(a, n, tf.matmul) + chain(b, n, tf.matmul)

    return _by_hand(mode, powers)
