"""Smaller arrays: all axes of one length become shorter together, wherever the program has that length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from xbackend.program.aval import Aval
from xbackend.program.ops import ELEMENTWISE
from xbackend.program.program import Node
from xbackend.program.smaller.changing import changed
from xbackend.program.smaller.example import Example

FEW = 8  # lengths up to which each index is left out in turn
_ANY_RANK = ("input", "constant", "full", "astype")


def shortest(example: Example, worst: Mapping[int, int]) -> Iterator[Example | None]:
    """One index of every axis: the one where the result is ``worst``, by length, else the first."""
    lengths = _lengths(example)
    if len(lengths) > 1:
        yield _of_lengths(example, {n: np.asarray([worst.get(n, 0)]) for n in lengths})


def _lengths(example: Example) -> list[int]:
    found = {n for array in _arrays(example).values() for n in array.shape}
    found |= {n for value in example.program.values for n in value.shape}
    return sorted(found - {0, 1}, reverse=True)


def shorter(example: Example, worst: Mapping[int, int]) -> Iterator[Example | None]:
    """Axes of one length with fewer indices: the one where the result is ``worst``, by length, then halves, then all
    but one."""
    for n in _lengths(example):
        whole = range(n)
        middle = n // 2
        parts: list[Sequence[int]] = [[worst[n]]] if n in worst else []
        parts += [[0], [n - 1], whole[:middle], whole[middle:], [*whole[: n // 4], *whole[n - n // 4 :]]]
        parts += [[j for j in whole if j != i] for i in whole] if n <= FEW else []
        for kept in parts:
            if 0 < len(kept) < n:
                yield _of_lengths(example, {n: np.asarray(kept)})


def scalars(example: Example) -> Iterator[Example | None]:
    """Arrays of rank 0 in place of arrays with one element, where all ops are elementwise: `arange` and `eye` have no
    rank 0."""
    values = example.program.values
    if all((v.op in ELEMENTWISE or v.op in _ANY_RANK) and v.aval.size == 1 for v in values):
        given = {i: array.reshape(()) for i, array in example.argument.items()}
        yield changed(example, given=given, adapt=lambda node, _: _without_axes(node))


def _without_axes(node: Node) -> Mapping[str, Any]:
    if "value" in node.params:
        return {**node.params, "value": node.params["value"].reshape(())}
    return {**node.params, "shape": ()} if "shape" in node.params else node.params


def _arrays(example: Example) -> dict[int, np.ndarray]:
    """The arguments, the first values of shared variables and the constants, by value."""
    variables = {i: one.value for i, one in example.program.shared.items()}
    constants = {i: array for i, array in example.constants.items() if example.program.values[i].op == "constant"}
    return {**example.argument, **variables, **constants}


def _of_lengths(example: Example, kept: Mapping[int, np.ndarray]) -> Example | None:
    """The program with only the indices ``kept`` of axes, by their length. Reshapes of these are shortened, too."""
    lengths = {n: len(indices) for n, indices in kept.items()}

    def cut(array: np.ndarray) -> np.ndarray:
        for axis, length in enumerate(array.shape):
            if length in kept:
                array = np.take(array, kept[length], axis)
            elif length in lengths:
                array = np.take(array, np.arange(lengths[length]), axis)
        return array

    def adapt(node: Node, avals: Sequence[Aval]) -> Mapping[str, Any]:
        params = dict(node.params)
        if node.op == "constant":
            params["value"] = cut(params["value"])
        if "shape" in params:
            params["shape"] = tuple(lengths.get(m, m) for m in params["shape"])
            if node.op == "reshape":
                params["shape"] = _reshaped(node, avals[0].size, params["shape"], lengths)
        if "length" in params:
            params["length"] = lengths.get(params["length"], params["length"])
        if "starts" in params:
            params |= _sliced(params, example.program.values[node.inputs[0]].shape, avals[0].shape)
        return params

    own = {i: cut(array) for i, array in example.argument.items()}
    variables = {i: cut(one.value) for i, one in example.program.shared.items()}
    for _ in range(3):  # a reshape may shorten a length that earlier nodes have
        before = dict(lengths)
        made = changed(example, given=own, adapt=adapt, shared=variables)
        if made is not None or lengths == before:
            return made
    return None


def _reshaped(node: Node, size: int, shape: tuple[int, ...], lengths: dict[int, int]) -> tuple[int, ...]:
    """The shape of a reshape to ``size`` elements, with one length shortened if need be."""
    if prod(shape) == size:
        return shape
    for axis, length in enumerate(shape):
        rest = prod(shape[:axis] + shape[axis + 1 :])
        if rest and size % rest == 0 and size // rest < length:
            lengths.setdefault(node.shape[axis], size // rest)
            return (*shape[:axis], size // rest, *shape[axis + 1 :])
    return shape


def _sliced(params: Mapping[str, Any], old: Sequence[int], new: Sequence[int]) -> dict[str, tuple[int | None, ...]]:
    """The same part of shorter axes."""
    starts, stops = list[int](), list[int | None]()
    for start, stop, step, before, now in zip(
        params["starts"], params["stops"], params["steps"], old, new, strict=True
    ):
        if step < 0:
            starts.append(min(start, now - 1))
            stops.append(stop)
        elif stop == before:
            starts.append(min(start, max(now - 1, 0)))
            stops.append(now)
        else:
            count = stop - start
            starts.append(min(start, max(now - count, 0)))
            stops.append(min(starts[-1] + count, now))
    return {"starts": tuple(starts), "stops": tuple(stops)}
