"""Functions whose results have shapes that depend on values. They copy the argument to the host and compute there.

A program cannot hold them, as its shapes are known while it is traced; PyTorch and CuPy wait for the device here, too.
The results are put on the argument's device. `FUNCTIONS` lists them; docs/namespace.md names each.

https://data-apis.org/array-api/2025.12/design_topics/data_dependent_output_shapes.html
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import numpy as np

from xbackend.eager.array import EagerArray
from xbackend.eager.reading import own
from xbackend.eager.runner import Runner
from xbackend.errors import ShapeError


class UniqueAll(NamedTuple):
    """``values`` (n,) sorted, the position of the first occurrence of each (n,), the position in ``values`` of each
    element (the argument's shape), and the number of occurrences (n,). Each NaN counts as a different value."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """The ``values`` (n,), sorted, and the number of occurrences of each (n,)."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """The ``values`` (n,), sorted, and the position in them of each element (the argument's shape)."""

    values: Any
    inverse_indices: Any


def _unique_all(array: np.ndarray) -> UniqueAll:
    flat = array.reshape(-1)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    begins = np.ones(len(flat), bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(begins)
    inverse = np.empty(len(flat), np.int64)
    inverse[order] = np.cumsum(begins) - 1
    counts = np.diff(np.append(starts, len(flat)))
    return UniqueAll(ordered[starts], order[starts], inverse.reshape(array.shape), counts)


def _unique_counts(array: np.ndarray) -> UniqueCounts:
    found = _unique_all(array)
    return UniqueCounts(found.values, found.counts)


def _unique_inverse(array: np.ndarray) -> UniqueInverse:
    found = _unique_all(array)
    return UniqueInverse(found.values, found.inverse_indices)


def _unique_values(array: np.ndarray) -> Any:
    return _unique_all(array).values


def _nonzero(array: np.ndarray) -> tuple[np.ndarray, ...]:
    if array.ndim == 0:
        raise ShapeError("nonzero of an array of rank 0 is undefined; write bool(x)")
    return np.nonzero(array)


# name -> the function on the host, the docstring
FUNCTIONS: dict[str, tuple[Callable[[np.ndarray], Any], str]] = {
    "nonzero": (_nonzero, "Where the elements are not zero: a tuple with an array of positions (int64) for each axis."),
    "unique_all": (_unique_all, f"The different elements. {UniqueAll.__doc__}"),
    "unique_counts": (_unique_counts, f"The different elements. {UniqueCounts.__doc__}"),
    "unique_inverse": (_unique_inverse, f"The different elements. {UniqueInverse.__doc__}"),
    "unique_values": (_unique_values, "The different elements (n,), sorted; each NaN is one of its own."),
}


def on_host(runner: Runner, name: str) -> Callable[[EagerArray], Any]:
    """The function of that name for the arrays of a namespace."""
    compute, doc = FUNCTIONS[name]

    def function(x: EagerArray, /) -> Any:
        found = compute(np.asarray(own(name, runner, x)))

        def put(array: np.ndarray) -> EagerArray:
            dtype = np.int64 if array is not getattr(found, "values", found) else x.dtype.value
            return runner.put(array.astype(dtype), x.device)

        if isinstance(found, np.ndarray):
            return put(found)
        make = getattr(type(found), "_make", tuple)
        return make([put(array) for array in found])

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc}\n\nComputed on the host, as its shape depends on values."
    return function


def repeat(runner: Runner, function: Callable[..., EagerArray]) -> Callable[..., EagerArray]:
    """The API's `repeat`, which needs static numbers of repeats, extended to arrays of them."""

    @wraps(function)
    def repeated(x: Any, repeats: Any, /, *, axis: int | None = None) -> EagerArray:
        if isinstance(repeats, EagerArray | np.ndarray):
            counts = repeats if isinstance(repeats, np.ndarray) else own("repeat", runner, repeats)
            repeats = np.asarray(counts).tolist()
        return function(x, repeats, axis=axis)

    return repeated
