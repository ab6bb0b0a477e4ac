"""The arguments of a graph: given by position or by name, or drawn if all lengths are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xbackend.errors import GraphError
from xbackend.wording import join


@dataclass(frozen=True, slots=True)
class Input:
    """An input of a graph.

    Attributes:
        name: the key in a mapping of arguments.
        said: the description in messages.
        dtype: the framework's dtype.
        lengths: the shape; `None` for an unknown length, or for an unknown rank.
    """

    name: str
    said: str
    dtype: str
    lengths: Sequence[int | None] | None


def arrays_of(inputs: Sequence[Input], given: Any, generator: np.random.Generator) -> list[np.ndarray]:
    """An array for each input, cast to its dtype.

    Raises `GraphError` for an unknown name, a wrong number, shape or kind of dtype, and for an input of unknown shape
    that is not given.
    """
    known = [one.name for one in inputs]
    if isinstance(given, Mapping) and (unknown := sorted(set(given) - set(known))):
        raise GraphError(f"inputs() gives {join(unknown)}, and the graph takes {join(known) or 'nothing'}")
    each = [given.get(name) for name in known] if isinstance(given, Mapping) else list(given)
    if each and len(each) != len(inputs):
        words = ", ".join(one.said for one in inputs)
        raise GraphError(f"the graph takes {len(inputs)} inputs, {len(each)} are given: {words}")
    return [_array(one, value, generator) for one, value in zip(inputs, each or [None] * len(inputs), strict=True)]


def fits(lengths: Sequence[int | None] | None, shape: tuple[int, ...]) -> bool:
    """Whether a shape agrees with the known lengths."""
    return lengths is None or (
        len(lengths) == len(shape) and all(n in (None, m) for n, m in zip(lengths, shape, strict=True))
    )


def positional(given: Any, name: str) -> list[np.ndarray]:
    """The arguments of a function, as arrays. Raises `GraphError` if they are given by name."""
    if isinstance(given, Mapping):
        raise GraphError(f"inputs() gives arrays by name, and {name} takes them by position: return a list")
    return [np.asarray(one) for one in given]


def _array(one: Input, value: Any, generator: np.random.Generator) -> np.ndarray:
    if value is not None:
        array = np.asarray(value)
        if not fits(one.lengths, array.shape):
            raise GraphError(f"the input {one.said} was given an array of shape {array.shape}")
        if array.dtype.kind in "OSU":
            raise GraphError(f"the input {one.said} was given an array of {array.dtype}: give {one.dtype}")
        with np.errstate(all="ignore"):
            made = array.astype(one.dtype)
        plain = not isinstance(value, np.ndarray | np.generic)  # nobody chose the dtype of Python's numbers
        if not np.can_cast(array.dtype, one.dtype, "same_kind") and not (plain and np.array_equal(made, array)):
            raise GraphError(f"the input {one.said} was given an array of {array.dtype}: give {one.dtype}")
        inexact = made.dtype.kind not in "biu"  # numbers of floating point may be rounded
        if not np.array_equal(*((np.isinf(made), np.isinf(array)) if inexact else (made, array))):
            raise GraphError(f"the input {one.said} was given numbers that {one.dtype} cannot hold")
        return made
    lengths = [n for n in one.lengths or () if n is not None]
    if one.lengths is None or len(lengths) < len(one.lengths):
        raise GraphError(
            f"the input {one.said} has no fixed shape: give each input with --input, as in --input 'float64[3,4]', in "
            "the order of the graph; a file of Python may also have a function inputs() that returns them"
        )
    drawn = generator.standard_normal(lengths) if "float" in one.dtype else generator.integers(0, 10, lengths)
    return np.asarray(drawn).astype(one.dtype)
