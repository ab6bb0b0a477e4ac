"""Simpler numbers: 0 and 1, few digits, the same number everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from xbackend.program.aval import Aval
from xbackend.program.program import Node
from xbackend.program.smaller.changing import changed
from xbackend.program.smaller.example import Example, digits

FEW = 12  # elements of an array that are made simpler one by one
DIGITS = (1, 2, 3, 5)


def simpler(example: Example) -> Iterator[Example | None]:
    """Simpler numbers in place of arguments and constants: of whole arrays, then of each number."""
    for i, array in example.argument.items():
        for one in _candidates(array):
            yield changed(example, given={i: one})
    for i, array in example.constants.items():
        for one in _candidates(array):
            value = example.program.values[i]
            params = {"value": one} if value.op == "constant" else {"fill_value": one[()].item()}
            yield changed(example, adapt=partial(_with, i, params))


def _with(i: int, params: Mapping[str, Any], node: Node, avals: Sequence[Aval]) -> Mapping[str, Any]:
    return {**node.params, **params} if node.outputs[0] == i else node.params


def _candidates(array: np.ndarray) -> Iterator[np.ndarray]:
    cost, seen = digits(array), set[bytes]()
    for one in _simplified(array):
        made = np.asarray(one).astype(array.dtype)
        if made.tobytes() not in seen and digits(made) < cost:
            seen.add(made.tobytes())
            yield made


def _simplified(array: np.ndarray) -> Iterator[np.ndarray]:
    if not array.size:
        return
    yield np.zeros_like(array)
    yield np.ones_like(array)
    yield from (np.full_like(array, one) for one in dict.fromkeys(array.reshape(-1)[[0, -1]].tolist()))
    if array.dtype.kind == "f":
        yield np.where(np.abs(array) < 1e15, np.round(array), array)
        yield from (rounded(array, count) for count in DIGITS)
    if array.size > FEW:
        for part in (slice(None, array.size // 2), slice(array.size // 2, None)):
            yield _written(array, part, 0)
        return
    for place in range(array.size):
        number = array.reshape(-1)[place]
        for simple in (0, 1, 2, -1):
            yield _written(array, slice(place, place + 1), simple)
        if array.dtype.kind == "f":
            for count in DIGITS:
                yield _written(array, slice(place, place + 1), rounded(number, count))


def _written(array: np.ndarray, part: slice, number: object) -> np.ndarray:
    made = array.copy().reshape(-1)
    with np.errstate(over="ignore"):
        made[part] = np.asarray(number).astype(array.dtype)
    return made.reshape(array.shape)


def rounded(array: np.ndarray, count: int) -> np.ndarray:
    """The numbers rounded to ``count`` significant digits, in float64."""
    texts = [np.format_float_scientific(float(n), precision=count - 1) for n in np.asarray(array).reshape(-1)]
    return np.array([float(text) for text in texts]).reshape(np.shape(array))
