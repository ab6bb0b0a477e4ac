"""The calls that a user of a framework writes by hand: what xbackend's own calls are measured against.

One module for each environment, found by its name, with functions of a mode, a dtype and further arguments:

- ``product``: of two matrices;
- ``sum_of_powers(mode, dtype, n)``: A^n + B^n as a chain of products;
- ``loop(mode, dtype, steps)``: of so many rows x and a square matrix b, ``c = tanh(c @ b + x)`` along the rows, from
  zeros on; every c;
- ``step(mode, dtype, weights)``: of rows and labels, a step of training, in `training`;
- ``layers(mode, dtype, count)``: of two matrices, the second one square, so many layers of five operations each.

``mode`` is what follows the environment in the backend's name: ``xla`` in ``tensorflow-xla``, empty in ``tensorflow``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from xbackend.backends.registry import Entry
from xbackend.errors import UnsupportedOperation
from xbackend.program.program import Program

WIDTH = 4  # of the rows that `loop` goes along
# Workloads of the suite, with parameters at which a call takes a millisecond or more; they are written in `suite`.
SUITE = {
    "axis_sums": {"size": 2048},
    "stencil": {"size": 512},
    "nbody": {"size": 512},
    "logistic_regression": {"size": 50_000},
    "radon": {"size": 200_000},
    "gaussian_process": {"size": 256},
    "seir": {"size": 1000},
    "kalman": {"size": 500},
}
# Programs that users of a framework cannot write: Aesara's JAX mode has no Scan over an argument
# ("JAX does not support slicing arrays with a dynamic slice length", aesara/link/jax/dispatch/subtensor.py), PyTensor's
# MLX mode none at all. XLA has no determinants for TensorFlow.
NOT_WRITABLE = {
    **dict.fromkeys(("aesara-jax", "pytensor-mlx"), ("loop", "stencil", "seir", "kalman")),
    "tensorflow-xla": ("kalman",),
}


@dataclass(frozen=True, slots=True)
class ByHand:
    """``call`` is the user's function, ``place`` converts an array to that user's values, ``wait`` returns when a
    result is computed. ``graph``: the inputs and outputs that it was compiled from, where ``call`` does not keep them
    as they were written."""

    call: Callable[..., Any]
    place: Callable[[np.ndarray], Any]
    wait: Callable[[Any], object]
    graph: tuple[Sequence[Any], Any] | None = None


def exists(entry: Entry, what: str = "") -> bool:
    """Whether somebody wrote ``what``, or anything, by hand for the backend; never for a backend with options."""
    written = not entry.chosen and what not in NOT_WRITABLE.get(entry.name, ())
    return written and find_spec(_module(entry, what)) is not None


def find(entry: Entry, what: str, *arguments: Any) -> ByHand:
    """The hand-written version of ``what`` for a backend. Raises `UnsupportedOperation` where nobody wrote one."""
    name = _module(entry, what)
    if not exists(entry, what):
        raise UnsupportedOperation(f"backend {entry.name} has no hand-written version of {what} in a module {name}")
    module = import_module(name)
    mode = entry.name.removeprefix(entry.environment).lstrip("-")
    found: ByHand = getattr(module, what)(mode, *arguments)
    return found


def brought(entry: Entry, written: ByHand, arrays: Sequence[np.ndarray]) -> Program:
    """The program of a hand-written version, as its framework's importer brings it."""
    program: Program = import_module(f"{__name__}.{entry.environment}").brought(written, arrays)
    return program


def _module(entry: Entry, what: str) -> str:
    folder = ".suite" if what in SUITE else ".training" if what == "step" else ""
    return f"{__name__}{folder}.{entry.environment}"


def stacked(x: Any, b: Any, count: int, tanh: Callable[[Any], Any], mean: Callable[[Any], Any]) -> Any:
    """So many layers of five operations each; ``mean`` is that of the columns."""
    for _ in range(count):
        y = tanh(x @ b + x)
        x = y - mean(y)
    return x


def chain(matrix: Any, n: int, product: Callable[[Any, Any], Any]) -> Any:
    """The n-th power by n - 1 products."""
    power = matrix
    for _ in range(n - 1):
        power = product(power, matrix)
    return power
