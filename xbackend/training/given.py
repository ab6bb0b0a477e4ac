"""Checks of the arguments of a training: each mistake is one error, which says what to write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xbackend.backends.contract import Backend
from xbackend.errors import ArgumentError
from xbackend.program.host import host_array
from xbackend.strategies import Strategy
from xbackend.training.batches import Order
from xbackend.training.optimizers import Optimizer

_KINDS: tuple[tuple[str, Any, str], ...] = (
    ("backend", Backend, 'xb.open("numpy")'),
    ("loss", Callable, "a function of the weights and the arrays of a batch"),
    ("optimizer", Optimizer, "SGD(0.1), Adam()"),
    ("strategy", Strategy | None, 'xb.strategies.Mirrored(("cpu:0", "cpu:1"))'),
)


def check_training(*arguments: object) -> None:
    """Raises `ArgumentError` unless these are a backend, a loss, an optimiser and a strategy or `None`."""
    for value, (name, kind, right) in zip(arguments, _KINDS, strict=True):
        if not isinstance(value, kind):
            raise ArgumentError(f"{name}={value!r:.60} of a training: write {right}")


def weights(given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The initial weights as arrays. Raises `ArgumentError` if they have no names."""
    if not isinstance(given, Mapping):
        raise ArgumentError(f"weights={given!r:.60} of a training: give arrays by name, {{'w': ..., 'b': ...}}")
    return {name: host_array(weight, f"the weight {name!r}") for name, weight in given.items()}


def check_data(given: object) -> None:
    """Raises `ArgumentError` unless it is a data set that gives batches in an order."""
    if not isinstance(given, Order):
        raise ArgumentError(
            f"a training is given {type(given).__name__} in the place of its data: write xb.training.Batches(x, y, "
            "size=32), or xb.training.Stream of a generator"
        )


def batches(given: Iterable[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """The batches to evaluate, one after the other. Raises `ArgumentError` for arrays in their place."""
    for batch in given if isinstance(given, Iterable) else (given,):
        if not isinstance(batch, Sequence):
            raise ArgumentError(
                f"batches to evaluate are given with {type(batch).__name__} in the place of a batch, which is a tuple "
                "of arrays: write [(x, y)]"
            )
        yield batch
