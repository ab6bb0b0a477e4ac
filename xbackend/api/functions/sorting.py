"""Sorting, searching and membership."""

from __future__ import annotations

import math
from typing import Any

from xbackend.api.functions.creation import zeros
from xbackend.api.functions.elementwise import equal, logical_not, minimum, not_equal, subtract
from xbackend.api.functions.indexing import take
from xbackend.api.functions.manipulation import reshape
from xbackend.api.functions.rearrangement import flip
from xbackend.api.functions.reductions import sum
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import cast, emitted, given, normalize_axes, normalize_axis, operands, truth
from xbackend.errors import ArgumentError
from xbackend.program.dtypes import DType


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements of the axis in ascending order, NaN last; in descending order NaN first.

    >>> xp.sort(xp.asarray([3, 1, 2]), descending=True)
    array([3, 2, 1], dtype=int64, device=cpu:0)
    """
    array = given("sort", x)
    number = normalize_axis(axis, array.ndim)
    result = emitted("sort", array, axis=number)
    return flip(result, axis=number) if descending else result


def argsort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The positions (int64) of the elements in the order of `sort`; equal elements keep their order.

    >>> xp.argsort(xp.asarray([3, 1, 2]))
    array([1, 2, 0], dtype=int64, device=cpu:0)
    """
    array = given("argsort", x)
    number = normalize_axis(axis, array.ndim)
    if not descending:
        return emitted("argsort", array, axis=number)
    turned = emitted("argsort", flip(array, axis=number), axis=number)
    return subtract(array.shape[number] - 1, flip(turned, axis=number))


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Array:
    """The positions (int64) at which to insert the elements of x2 into the sorted vector x1: before (``"left"``) or
    after (``"right"``) equal ones. ``sorter`` is the `argsort` of an unsorted x1.

    >>> xp.searchsorted(xp.asarray([1.0, 2.0, 4.0]), xp.asarray([2.0, 3.0]))
    array([1, 2], dtype=int64, device=cpu:0)
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"xb.searchsorted has the sides 'left' and 'right', not {side!r:.40}")
    vector, values = operands("searchsorted", x1, x2)
    if sorter is not None:
        vector = take(vector, sorter, axis=0)
    return emitted("searchsorted", vector, values, right=int(side == "right"))


def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """The number (int64) of elements over the axes (all if None) that are true, or not zero.

    >>> int(xp.count_nonzero(xp.asarray([0.0, 2.0, 3.0])))
    2
    """
    array = given("count_nonzero", x)
    axes = normalize_axes(axis, array.ndim)
    return sum(cast(truth(array), DType.int64), axis=axes, keepdims=keepdims)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Whether each element of x1 equals one of x2; with ``invert`` whether it equals none.

    >>> xp.isin(xp.asarray([1, 2, 3]), xp.asarray([2, 5]))
    array([False,  True, False], dtype=bool, device=cpu:0)
    """
    array, among = operands("isin", x1, x2)
    if array.dtype is DType.bool:
        array, among = cast(array, DType.int32), cast(among, DType.int32)
    if not math.prod(among.shape):
        found = zeros(array.shape, dtype=DType.bool)
        return logical_not(found) if invert else found
    ordered = sort(reshape(among, (-1,)))
    place = minimum(searchsorted(ordered, array), ordered.size - 1)
    there = take(ordered, place, axis=0)
    return not_equal(there, array) if invert else equal(there, array)
