"""Gradients of single ops that differ from `docs/numbers.md` in TensorFlow: an op made in the scope of `mended` has the
name of another rule as its only change (``Graph.gradient_override_map``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np

from xbackend.backends.special_numbers import by_factors

MENDED = (  # in `Backend.added`
    "gradients of equal values (max, maximum), of 0 ** 0 and of products and running products of zeros, of loops "
    "that move one carry to another, inside of loops and choices, second ones of eigenvalues and singular values in "
    "float32, and of transposes in loops; what is added to itself in loops and choices"
)


def mended(tf: Any, op: str, made_as: str = "") -> AbstractContextManager[None]:
    """A scope in which an op, or ``made_as`` in its place, has the op's rule of this file."""
    scope: AbstractContextManager[None] = tf.compat.v1.get_default_graph().gradient_override_map(
        {made_as or op: _rules(tf)[op]}
    )
    return scope


@contextmanager
def of_spectra(tf: Any) -> Iterator[None]:
    """A scope for gradients of eigenvalues and singular values, where ``x / (x * x + 1e-20)`` is 1 / x: XLA's second
    gradients at 0 were NaN in float32 (tensorflow/python/ops/linalg_grad.py: _SafeReciprocal)."""
    module: Any = import_module("tensorflow.python.ops.linalg_grad")
    theirs = module._SafeReciprocal
    module._SafeReciprocal = lambda x: theirs(x, 1e-18) if x.dtype == tf.float32 else theirs(x)
    try:
        yield
    finally:
        module._SafeReciprocal = theirs


@cache
def _rules(tf: Any) -> dict[str, str]:
    rules = {
        "Pow": _of_power,
        "Maximum": partial(_of_larger, "Greater"),
        "Minimum": partial(_of_larger, "Less"),
        "Cumprod": _of_running_product,
        "Prod": _of_product,
        "Transpose": _of_transpose,
    }
    names = {op: f"Xbackend gradient of {op}" for op in rules}
    for op, rule in rules.items():
        tf.RegisterGradient(names[op])(lambda node, cotangent, rule=rule: rule(tf, node, cotangent))
    return names


def _of_power(tf: Any, op: Any, cotangent: Any) -> tuple[Any, Any]:
    """Of ``x ** y``; 0 by ``x`` where both are 0: TensorFlow's ``y * x ** (y - 1)`` is 0 times infinity."""
    (x, y), one = op.inputs, tf.ones((), cotangent.dtype)
    known, apart = tf.get_static_value(y), x
    if known is None or not np.all(known):
        apart = tf.where(tf.equal(x, 0) & tf.equal(y, 0), one, x)
    with mended(tf, "Pow"):
        below = tf.raw_ops.Pow(x=apart, y=y - 1)
    by_y = op.outputs[0] * tf.math.log(tf.where(x > 0, x, one))
    return _summed(tf, cotangent * y * below, x), _summed(tf, cotangent * by_y, y)


def _of_larger(before: str, tf: Any, op: Any, cotangent: Any) -> tuple[Any, ...]:
    """Of the larger or the smaller of two; equal ones share it, TensorFlow gives all to the first."""
    *condition, x, y = op.inputs
    half, one, zero = (tf.constant(value, cotangent.dtype) for value in (0.5, 1.0, 0.0))
    part = tf.where(tf.equal(x, y), half, tf.where(getattr(tf.raw_ops, before)(x=x, y=y), one, zero))
    gradients = _summed(tf, cotangent * part, x), _summed(tf, cotangent * (one - part), y)
    return (*(None for _ in condition), *gradients)


def _of_running_product(tf: Any, op: Any, cotangent: Any) -> tuple[Any, None]:
    """Of running products. TensorFlow's rule divides by the factors, and is 0 where a factor is 0."""
    x, axis = op.inputs[0], int(tf.get_static_value(op.inputs[1]))
    length = x.shape[axis]
    return by_factors(tf, x, op.outputs[0], cotangent, axis=axis, length=length, join=tf.concat), None


def _of_product(tf: Any, op: Any, cotangent: Any) -> tuple[Any, None]:
    """For each factor the product of the others. TensorFlow's second gradient is 0 where two factors are 0."""
    x, shape = op.inputs[0], op.inputs[0].shape.as_list()
    axes = {int(axis) % len(shape) for axis in np.atleast_1d(tf.get_static_value(op.inputs[1]))} if shape else set()
    order = [*(a for a in range(len(shape)) if a not in axes), *sorted(axes)]
    count = int(np.prod([shape[a] for a in axes], dtype=np.int64))
    if not count:
        return tf.zeros_like(x), None
    rows = tf.reshape(tf.transpose(x, order), [x.shape.num_elements() // count, count])

    def before(factors: Any) -> Any:
        with mended(tf, "Cumprod"):
            return tf.raw_ops.Cumprod(x=tf.concat([tf.ones_like(factors[:, :1]), factors[:, :-1]], 1), axis=1)

    others = before(rows) * tf.reverse(before(tf.reverse(rows, [1])), [1])
    gradient = tf.reshape(others * tf.reshape(cotangent, [-1, 1]), [shape[a] for a in order])
    return tf.transpose(gradient, np.argsort(order)), None


def _of_transpose(tf: Any, op: Any, cotangent: Any) -> tuple[Any, None]:
    """Transposed back by the inverse order, a constant. TensorFlow's own inverts the order by an op. A loop keeps its
    result for the second gradient, and XLA refuses a transpose whose order is no constant."""
    order = tf.get_static_value(op.inputs[1])
    back = tf.math.invert_permutation(op.inputs[1]) if order is None else np.argsort(order)
    with mended(tf, "Transpose"):
        return tf.transpose(cotangent, back), None


def _summed(tf: Any, gradient: Any, x: Any) -> Any:
    """The gradient summed to the shape of ``x`` before its broadcast."""
    added = len(gradient.shape) - len(x.shape)
    axes = [a for a, n in enumerate(gradient.shape) if a < added or x.shape[a - added] != n]
    return tf.reshape(tf.reduce_sum(gradient, axes), x.shape) if axes else gradient
