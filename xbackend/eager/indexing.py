"""Indexing of eager arrays, to read and to write.

https://data-apis.org/array-api/2025.12/API_specification/indexing.html

Static integers, as in a program (`xbackend.api.functions.indexing`), would compile an op for each index. Here adjacent
integers become an argument of the op: one op reads, or writes, any element. A mask decides a shape and is copied to the
host; the elements are read and written on the device.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from xbackend.api.functions import indexing, manipulation
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import integer
from xbackend.eager.array import EagerArray
from xbackend.eager.reading import own
from xbackend.eager.runner import Runner
from xbackend.errors import ArgumentError, DTypeError, NoSuchElement, ShapeError
from xbackend.program.dtypes import DType


def part(x: Any, index: Any, /, *, first: int, count: int) -> Array:
    """The elements of an array at positions along ``count`` axes from ``first`` on, which are merged into one."""
    return indexing.take(manipulation.reshape(x, _joined(x.shape, first, count)), index, axis=first)


def set_part(x: Any, index: Any, value: Any, /, *, first: int, count: int) -> Array:
    """The array with the value at the positions of `part`."""
    flat = manipulation.reshape(x, _joined(x.shape, first, count))
    key = (*[slice(None)] * first, index)
    return manipulation.reshape(indexing.at(flat)[key].set(value), x.shape)


def set_at(x: Any, key: Any, value: Any, /) -> Array:
    """The array with the value at the key."""
    return indexing.at(x)[key].set(value)


def add_at(x: Any, key: Any, value: Any, /) -> Array:
    """The array with the value added at the key."""
    return indexing.at(x)[key].add(value)


def _joined(shape: tuple[int, ...], first: int, count: int) -> tuple[int, ...]:
    return (*shape[:first], prod(shape[first : first + count]), *shape[first + count :])


EagerOp = Callable[..., EagerArray]


class Indexing:
    """The indexing of the arrays of one namespace."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._getitem: EagerOp = runner.at_once("getitem", indexing.getitem)
        self._part: EagerOp = runner.at_once("getitem", part)
        self._set_part: EagerOp = runner.at_once("setitem", set_part)
        self._set_at: EagerOp = runner.at_once("setitem", set_at)
        self._add_at: EagerOp = runner.at_once("at.add", add_at)

    def read(self, x: EagerArray, key: Any) -> EagerArray:
        """``x[key]``. Raises `NoSuchElement`, `ShapeError`, `TraceError`."""
        keys = _plain(key)
        mask = _mask(keys)
        if mask is not None:
            return self._masked(x, mask)
        found = _integers(keys, x.shape)
        if found is None:
            return self._getitem(x, self._with_arrays(x, keys))
        position, axes = found
        return self._part(x, self._position(x, position), **axes)

    def written(self, x: EagerArray, key: Any, value: Any) -> EagerArray:
        """``x`` after ``x[key] = value``. Raises as `read` does, and `DTypeError` for other dtypes."""
        keys = _plain(key)
        mask = _mask(keys)
        if mask is not None:
            return self._set_masked(x, mask, value)
        if isinstance(value, list | tuple):
            value = np.asarray(value)
        found = _integers(keys, x.shape)
        if found is None:
            return self._set_at(x, self._with_arrays(x, keys), value)
        position, axes = found
        return self._set_part(x, self._position(x, position), value, **axes)

    def at(self, x: EagerArray, /) -> indexing.At[EagerArray]:
        """An array to update at a key: ``xp.at(x)[key].set(value)``, ``xp.at(x)[key].add(value)``."""
        own("at", self._runner, x)

        def write(how: str, key: Any, value: Any) -> EagerArray:
            keys = _plain(key)
            if _mask(keys) is not None:
                raise ArgumentError("xp.at(x)[mask]: write xp.where(mask, value, x)")
            return (self._set_at if how == "set" else self._add_at)(x, self._with_arrays(x, keys), value)

        return indexing.At(write)

    def _with_arrays(self, x: EagerArray, keys: tuple[Any, ...]) -> tuple[Any, ...]:
        """The key with integers adjacent to arrays as arrays, as in NumPy: ``x[i, 2, j]``."""
        places = [i for i, k in enumerate(keys) if _is_array(k) or integer(k) is not None]
        if not any(_is_array(keys[i]) for i in places) or places != list(range(places[0], places[-1] + 1)):
            return keys
        changed = list(keys)
        for i in places:
            number = None if _is_array(keys[i]) else integer(keys[i])
            if number is not None:
                axis = _axis(keys, i, x.ndim)
                if not 0 <= axis < x.ndim:
                    raise NoSuchElement(f"index {number} is one too many for an array of shape {x.shape}")
                changed[i] = self._position(x, indexing.from_front(number, axis, x.shape, NoSuchElement))
        return tuple(changed)

    def _position(self, x: EagerArray, position: int) -> EagerArray:
        return self._runner.scalar(position, DType.int64, x._kind.device)

    def _masked(self, x: EagerArray, mask: Any) -> EagerArray:
        self._check_mask(x, mask)
        host = np.asarray(mask)
        positions = np.flatnonzero(host)
        shape = (len(positions), *x.shape[host.ndim :])
        if 0 in shape:
            return self._runner.put(np.zeros(shape, x.dtype.value), x.device)
        return self._part(x, self._runner.put(positions.astype(np.int64), x.device), first=0, count=host.ndim)

    def _set_masked(self, x: EagerArray, mask: Any, value: Any) -> EagerArray:
        self._check_mask(x, mask)
        if np.ndim(value) != 0:
            raise ShapeError(
                f"x[mask] = value takes a number or an array of rank 0, not one of shape {np.shape(value)}; write "
                "xp.where(mask, value, x) for values in the shape of x"
            )
        there = mask if isinstance(mask, EagerArray) else np.asarray(mask)
        if there.size == 0:
            return x
        functions = self._runner.functions
        if there.ndim < x.ndim:
            there = functions["reshape"](there, there.shape + (1,) * (x.ndim - there.ndim))
        result: EagerArray = functions["where"](there, value, x)
        if result._kind != x._kind:
            raise DTypeError(f"{result.dtype} does not go into {x.dtype}; convert it with xp.astype")
        return result

    def _check_mask(self, x: EagerArray, mask: Any) -> None:
        """Raises `NoSuchElement` unless the mask fits, `ArgumentError` for another namespace's. As in NumPy, an axis of
        length 0 fits and selects nothing."""
        if isinstance(mask, EagerArray):
            own("getitem", self._runner, mask)
        shape = np.shape(mask)
        if len(shape) > x.ndim or any(n not in (m, 0) for n, m in zip(shape, x.shape, strict=False)):
            raise NoSuchElement(f"a mask of shape {shape} does not fit an array of shape {x.shape}")


def _plain(key: Any) -> tuple[Any, ...]:
    """The parts of a key: the bounds of slices as integers, lists as arrays."""
    return tuple([_part(k) for k in (key if isinstance(key, tuple) else (key,))])


def _part(item: Any) -> Any:
    if isinstance(item, list):
        return np.asarray(item, None if item else np.int64)
    if not isinstance(item, slice):
        return item
    try:
        bounds = (item.start, item.stop, item.step)
        return slice(*[None if bound is None else operator.index(bound) for bound in bounds])
    except TypeError as error:
        raise ShapeError(f"slice {item}: {error}") from None


def _is_array(item: Any) -> bool:
    return isinstance(item, EagerArray | np.ndarray)


def _is_mask(item: Any) -> bool:
    if isinstance(item, EagerArray):
        return item.dtype is DType.bool
    return isinstance(item, bool | np.bool_) or (isinstance(item, np.ndarray) and item.dtype == np.bool_)


def _mask(keys: tuple[Any, ...]) -> Any:
    """The mask of a key, or `None`. Raises `ShapeError` for a mask beside other parts."""
    if len(keys) == 1:
        return keys[0] if _is_mask(keys[0]) else None
    if any(map(_is_mask, keys)):
        raise ShapeError("a mask is an index alone: write x[mask], and index the result")
    return None


def _axis(keys: tuple[Any, ...], place: int, rank: int) -> int:
    """The axis that part ``place`` of the key indexes."""
    before = [k for k in keys[:place] if k is not None and k is not Ellipsis]
    if any(k is Ellipsis for k in keys[:place]):
        return rank - len([k for k in keys[place:] if k is not None])
    return len(before)


def _integers(keys: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[int, dict[str, int]] | None:
    """For a key of adjacent integers and whole axes, the position along the merged axes, and these for `part`.

    `None` for other keys and for arrays without elements. Raises `NoSuchElement`.
    """
    numbers = {i: n for i, k in enumerate(keys) if not _is_array(k) and (n := integer(k)) is not None}
    places = list(numbers)
    if not places or places != list(range(places[0], places[-1] + 1)):
        return None
    ellipses = sum(k is Ellipsis for k in keys)
    others = [k for i, k in enumerate(keys) if i not in numbers and k is not Ellipsis]
    if ellipses > 1 or not all(isinstance(k, slice) and k == slice(None) for k in others):
        return None
    if len(keys) - ellipses > len(shape):
        raise NoSuchElement(f"{len(keys) - ellipses} indices for an array of shape {shape}")
    first, position = _axis(keys, places[0], len(shape)), 0
    for axis, place in enumerate(places, first):
        position = position * shape[axis] + indexing.from_front(numbers[place], axis, shape, NoSuchElement)
    return (position, {"first": first, "count": len(places)}) if prod(shape) else None
