"""Reductions over devices and tasks."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Any, Protocol

from xbackend.api.functions.creation import full, zeros_like
from xbackend.api.functions.elementwise import where
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.tracer import current
from xbackend.errors import ArgumentError, DTypeError, ShapeError, TraceError

REDUCTIONS = ("sum", "mean")


class Across(Protocol):
    """One task of a job: a `xbackend.engines.spec.Task`."""

    @property
    def count(self) -> int:
        """The number of tasks of the job."""


def all_reduce(
    values: Sequence[Any],
    reduction: str = "mean",
    *,
    weights: Sequence[float] | None = None,
    across: Across | None = None,
) -> list[Array]:
    """The sum or mean of arrays on several devices: each value gets its result on its own device.

    It is one op of the program. Binding makes it transfers to the device of the first value, the sum there in the order
    of the values, and transfers back: all results are equal to the bit. ``weights`` of a mean, for example the rows of
    each replica, give sum(w_i x_i) / sum(w_i).

    ``across=task``, in a function of a cluster, reduces over the values of all tasks of its job. Every task has the
    same number of values, or ``weights`` for its own; with these all results are one array.

    Raises `ArgumentError` for no values, another reduction or invalid weights, `ShapeError` and `DTypeError` where
    values differ or have no mean.

    >>> def total(x):
    ...     parts = []
    ...     for number, name in enumerate(("cpu:0", "cpu:1")):
    ...         with xb.device(name):
    ...             parts.append(xb.sum(x[2 * number : 2 * number + 2]))
    ...     return xb.all_reduce(parts, "sum")
    >>> backend.compile(total, np.arange(4.0))(np.arange(4.0))
    [array(6.), array(6.)]
    """
    tracer = current("xb.all_reduce")
    arrays = [tracer.array(value) for value in values]
    if not arrays:
        raise ArgumentError("xb.all_reduce of no values")
    if reduction not in REDUCTIONS:
        raise ArgumentError(f"xb.all_reduce has the reductions {', '.join(REDUCTIONS)}, not {reduction!r:.40}")
    if weights is not None and reduction != "mean":
        raise ArgumentError("weights are of a mean: a sum counts each value once")
    if across is not None and not isinstance(getattr(across, "count", None), int):
        raise ArgumentError(f"across={across!r:.60}: across=task, the task that a job's function is given")
    tasks = 1 if across is None else across.count
    # Weights across tasks are divided by their sum over all tasks: one task alone may have no rows.
    shares = _shares(None if across else weights, len(arrays)) if reduction == "mean" else ()
    first = arrays[0]
    for other in arrays[1:]:
        if other.shape != first.shape:
            raise ShapeError(f"xb.all_reduce of shapes {first.shape} and {other.shape}: they have to be equal")
        if other.dtype is not first.dtype:
            raise DTypeError(f"xb.all_reduce of {first.dtype} and {other.dtype}: they have to be equal")
    if not (first.dtype.is_floating if reduction == "mean" else first.dtype.is_numeric and not first.dtype.is_unsigned):
        raise DTypeError(f"xb.all_reduce of {first.dtype} has no {reduction}; convert with xb.astype")
    if across is not None:
        if tracer.body:
            raise TraceError("xb.all_reduce across tasks inside of a loop or a choice: reduce what it returns")
        if weights is not None:
            return _weighted(arrays, weights, across)
        shares = tuple(share / tasks for share in shares)
    if tracer.body:  # on one device
        terms = [x * share for x, share in zip(arrays, shares, strict=True)] if shares else arrays
        return [reduce(operator.add, terms)] * len(arrays)
    return tracer.emit_all("all_reduce", arrays, {"shares": shares, "tasks": tasks})


def _weighted(arrays: Sequence[Array], weights: Sequence[float], across: Across) -> list[Array]:
    """The mean over tasks that do not know each other's weights: the weights are all-reduced, too."""
    if len(weights) != len(arrays) or any(not w >= 0 for w in weights):
        raise ArgumentError(f"weights={list(weights)!r:.60} of {len(arrays)} values: one from 0 up for each")
    tracer, dtype = current(), arrays[0].dtype
    terms = [x * float(w) if w else _nothing(x) for x, w in zip(arrays, weights, strict=True)]
    params = {"shares": (), "tasks": across.count}
    total = tracer.emit_all("all_reduce", terms, params)[0]
    own = full((), float(sum(weights)), dtype=dtype, device=arrays[0].device)  # where `total` is divided
    count = tracer.emit("all_reduce", [own], params)
    # Divided once: compilers may change divisions on several devices differently.
    return [total / count] * len(arrays)


def _nothing(x: Array) -> Array:
    """Zeros on the device of ``x``: the mean of no rows is NaN, and NaN times a weight of 0 stays NaN."""
    return where(full((), False, dtype="bool"), x, zeros_like(x))


def _shares(weights: Sequence[float] | None, count: int) -> tuple[float, ...]:
    if weights is None:
        return (1.0 / count,) * count
    total = float(sum(weights))
    if len(weights) != count or not total > 0 or any(not w >= 0 for w in weights):
        raise ArgumentError(f"weights={list(weights)!r:.60} of {count} values: one from 0 up for each, not all 0")
    return tuple(w / total for w in weights)
