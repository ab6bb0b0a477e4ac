"""Rewrites by the algebra of real numbers, and numbers that show them: docs/numbers.md names the backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import documented
import numpy as np
from batches import Batch, Check, in_turns

import xbackend as xb
from xbackend.backends import registry

nan, inf = np.nan, np.inf
GROUPS = {
    "XLA": ("tensorflow-xla", "jax", "pytensor-jax", "aesara-jax"),
    "PyTensor": ("pytensor", "pytensor-c", "pytensor-jax", "pytensor-mlx"),
    "Aesara": ("aesara", "aesara-numba", "aesara-jax"),
    "Theano": ("theano", "theano-gpuarray"),
}


def _all_zeros(x: Any) -> Any:
    return x @ xb.zeros((2, 2))


# The expression as in the document: the program, and a row of numbers for each argument.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "x * 0": (lambda x: x * 0.0, ([nan, inf],)),
    "0 / x": (lambda x: 0.0 / x, ([0.0, nan],)),
    "x - x": (lambda x: x - x, ([nan, inf],)),
    "x / x": (lambda x: x / x, ([0.0, nan, inf],)),
    "x == x": (lambda x: x == x, ([nan, 1.0],)),
    "x <= x": (lambda x: x <= x, ([nan, 1.0],)),
    "abs(x) >= 0": (lambda x: xb.abs(x) >= 0.0, ([nan, 1.0],)),
    "x * y / y": (lambda x, y: x * y / y, ([1.0, 1e200], [0.0, 1e200])),
    "x / abs(x)": (lambda x: x / xb.abs(x), ([0.0, inf],)),
    "x + y - y": (lambda x, y: x + y - y, ([1.0, 1.0], [inf, 1e20])),
    "x + 1e20 - 1e20": (lambda x: x + 1e20 - 1e20, ([1.0],)),
    "x * 1e200 * 1e-200": (lambda x: x * 1e200 * 1e-200, ([1e200],)),
    "x / 1e200 / 1e200": (lambda x: x / 1e200 / 1e200, ([1e300],)),
    "x / y / z": (lambda x, y, z: x / y / z, ([1e300, 1e-300], [1e200, 1e-200], [1e200, 1e-200])),
    "x / (y / z)": (lambda x, y, z: x / (y / z), ([1e200], [1e200], [1e200])),
    "x * (y / z)": (lambda x, y, z: x * (y / z), ([1e200], [1e200], [1e200])),
    "1 / (1 / x)": (lambda x: 1.0 / (1.0 / x), ([1e-310],)),
    "(1 / x + 1 / y) * x * y": (lambda x, y: (1.0 / x + 1.0 / y) * x * y, ([0.0, 2.0], [1.0, 1.0])),
    "x + 0": (lambda x: 1.0 / (x + 0.0), ([-0.0, 1.0],)),
    "0 - x": (lambda x: 1.0 / (0.0 - x), ([0.0, 1.0],)),
    "x @ zeros": (_all_zeros, ([[nan, 1.0], [inf, 2.0]],)),
    "x @ eye": (lambda x: x @ xb.eye(2), ([[nan, 1.0], [inf, 2.0]],)),
    "sum(x * c)": (lambda x, c: xb.sum(x * c), ([1e308, 1e308, 1e308], 1e-300)),
    "prod(x * c)": (lambda x: xb.prod(x * 1e-300), ([1e307, 1e307, 1e307],)),
    "exp(x) * exp(y)": (lambda x, y: xb.exp(x) * xb.exp(y), ([800.0], [-800.0])),
    "exp(x) ** 0.001": (lambda x: xb.exp(x) ** 0.001, ([1000.0, -1000.0],)),
    "sqrt(exp(x))": (lambda x: xb.sqrt(xb.exp(x)), ([1000.0, -1000.0],)),
    "a ** x * a ** y": (lambda a, x, y: a**x * a**y, ([10.0, 0.0], [400.0, -1.0], [-400.0, 1.0])),
    "log(exp(x))": (lambda x: xb.log(xb.exp(x)), ([1000.0, -1000.0],)),
    "log1p(expm1(x))": (lambda x: xb.log1p(xb.expm1(x)), ([1000.0, -1000.0],)),
    "sqrt(x * x)": (lambda x: xb.sqrt(x * x), ([1e200, 1e-200],)),
    "sqrt(x * x), float32": (lambda x: xb.sqrt(x * x), (np.array([1e30, 1e-30], "float32"),)),
    "log(x * x)": (lambda x: xb.log(x * x), ([1e200, 1e-200],)),
    "log(1 / x)": (lambda x: xb.log(1.0 / x), ([-0.0, 1.0],)),
    "sign(x * x)": (lambda x: xb.sign(x * x), ([1e-200, 1.0],)),
    "max(log(x))": (lambda x: xb.max(xb.log(x)), ([2.0, -1.0],)),
    "tanh(atanh(x))": (lambda x: xb.tanh(xb.atanh(x)), ([2.0],)),
    "x * y - z": (lambda x, y, z: x * y - z, ([0.1, 0.3], [0.1, 0.7], [0.1 * 0.1, 0.3 * 0.7])),
    "log(1 + x)": (lambda x: xb.log(1.0 + x), ([1e-20],)),
    "exp(x) - 1": (lambda x: xb.exp(x) - 1.0, ([1e-20],)),
    "1 - erf(x)": (lambda x: 1.0 - xb.erf(x), ([10.0],)),
    "log(erfc(x))": (lambda x: xb.log(xb.erfc(x)), ([30.0],)),
    "log(expit(x))": (lambda x: xb.log(xb.expit(x)), ([-1000.0],)),
    "log1p(exp(x))": (lambda x: xb.log1p(xb.exp(x)), ([1000.0],)),
    "exp(x) / (1 + exp(x))": (lambda x: xb.exp(x) / (1.0 + xb.exp(x)), ([1000.0],)),
    "log(exp(x) + exp(y))": (lambda x, y: xb.log(xb.exp(x) + xb.exp(y)), ([1000.0], [999.0])),
    "log(sum(exp(x)))": (lambda x: xb.log(xb.sum(xb.exp(x))), ([1000.0, 1.0],)),
    "exp(x) / sum(exp(x))": (lambda x: xb.exp(x) / xb.sum(xb.exp(x), axis=1, keepdims=True), ([[1000.0, 1.0]],)),
}


def said() -> dict[str, tuple[str, ...]]:
    """The backends that compute an expression otherwise than written, by expression."""
    found = {}
    for row in documented.rows("numbers.md", "written"):
        names = [name for group in row["backends"].split(", ") for name in GROUPS.get(group, (group,))]
        assert set(names) <= set(registry.names()), names
        found[row["written"].strip("`")] = tuple(names)
    return found


def batch() -> Batch:
    """Each program has its own arrays, so none is merged with another."""
    checks = [Check(label, f, tuple(np.array(numbers) for numbers in given)) for label, (f, given) in PROGRAMS.items()]
    return in_turns([Batch("real numbers", tuple(checks))])[0]
