"""What a function was called with, as what its compiled op is kept by, and the arrays in it.

Arrays, in lists and tuples too, are what the op takes when it runs: of them only shape, dtype and device count. All
else is static: another axis, shape or flag is another op.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from xbackend.api.tracing.array import Array
from xbackend.devices import Device
from xbackend.eager.array import EagerArray, Owner
from xbackend.errors import ArgumentError
from xbackend.program.dtypes import DType
from xbackend.program.shared import SharedVariable

# What is told apart by its type and itself.
_STATIC = (str, bool, int, type, range, np.dtype, Device, DType, NoneType, EllipsisType)


class OnHost(Exception):
    """There is an array of NumPy among the arguments, which has to be put on the device first."""


def read(name: str, owner: Owner, item: Any, arrays: list[EagerArray]) -> Hashable:
    """The key of one argument; its arrays are appended.

    Raises `OnHost`, `ArgumentError` for arrays of another namespace and for what no function takes.
    """
    if type(item) is EagerArray:
        if item._owner is not owner:
            raise foreign(name, owner, item)
        arrays.append(item)
        return item._kind
    if isinstance(item, np.generic):
        return type(item), item.item() if item.dtype.kind != "f" else float(item).hex()
    if isinstance(item, _STATIC):
        return type(item), item
    if isinstance(item, float):
        # 0.0 and -0.0 are equal and NaN is not, but for what is compiled it is the other way round.
        return float, item.hex()
    if isinstance(item, tuple | list):
        return isinstance(item, tuple), *[read(name, owner, part, arrays) for part in item]
    if isinstance(item, slice):
        return slice, *[read(name, owner, part, arrays) for part in (item.start, item.stop, item.step)]
    if isinstance(item, np.ndarray):
        raise OnHost
    raise _no_argument(name, owner, item)


def filled(item: Any, arrays: Iterator[Array]) -> Any:
    """The argument with traced arrays in the place of its arrays, in the order in which `read` found them."""
    if type(item) is EagerArray:
        return next(arrays)
    if isinstance(item, tuple | list):
        parts = [filled(part, arrays) for part in item]
        return tuple(parts) if isinstance(item, tuple) else parts
    return item


def hosted(item: Any, put: Any) -> Any:
    """The argument with its NumPy arrays ``put`` on the device."""
    if isinstance(item, np.ndarray):
        return put(item)
    if isinstance(item, tuple | list):
        parts = [hosted(part, put) for part in item]
        return tuple(parts) if isinstance(item, tuple) else parts
    return item


def foreign(name: str, owner: Owner, array: EagerArray) -> ArgumentError:
    """The error for an array of another namespace."""
    return ArgumentError(
        f"{name} of the namespace of {owner.where()} was given an array of the namespace of {array._owner.where()}; "
        "xp.asarray(np.asarray(x)) copies it over the host"
    )


def _no_argument(name: str, owner: Owner, item: Any) -> ArgumentError:
    if isinstance(item, Array):
        hint = f"which is traced: inside of a program write xb.{name}"
    elif isinstance(item, SharedVariable):
        hint = "which lives in programs: take its value with xp.asarray(backend.get_value(w))"
    elif callable(item):
        hint = "a function: write the loop or the choice in Python, or give the whole function to backend.compile"
    else:
        hint = f"a {type(item).__name__}, which is no array of the namespace: make one with xp.asarray"
    return ArgumentError(f"{name} of the namespace of {owner.where()} was given {item!r:.60}, {hint}")
