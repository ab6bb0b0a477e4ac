"""The arguments of a call as the cache key of its compiled op, and the arrays in them.

Arrays, in lists and tuples too, are passed to the op when it runs. Only their shape, dtype and device are in the key.
All else is static: another axis, shape or flag is another op.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from xbackend.api.tracing.array import Array
from xbackend.devices import Device
from xbackend.eager.array import EagerArray, Owner
from xbackend.errors import ArgumentError
from xbackend.program.dtypes import DType
from xbackend.program.shared import SharedVariable

# Types whose values are part of the key, with the type.
_STATIC = (str, bool, int, type, range, np.dtype, Device, DType, NoneType, EllipsisType)


class OnHost(Exception):
    """Raised for a NumPy array among the arguments, which must be put on the device first."""


def read(name: str, owner: Owner, item: Any, arrays: list[EagerArray]) -> Hashable:
    """The key of one argument; its arrays are appended to ``arrays``.

    Raises `OnHost`, `ArgumentError` for arrays of another namespace and for types that no function takes.
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
        # As keys of a dictionary 0.0 and -0.0 would be equal, and NaN unequal to itself.
        return float, item.hex()
    if isinstance(item, tuple | list):
        return isinstance(item, tuple), *[read(name, owner, part, arrays) for part in item]
    if isinstance(item, slice):
        return slice, *[read(name, owner, part, arrays) for part in (item.start, item.stop, item.step)]
    if isinstance(item, np.ndarray):
        raise OnHost
    raise _no_argument(name, owner, item)


def replaced(item: Any, kind: type, make: Callable[[Any], Any]) -> Any:
    """The argument with ``make(array)`` in place of each array of this kind, in the order of `read`."""
    if isinstance(item, kind):
        return make(item)
    if isinstance(item, tuple | list):
        parts = [replaced(part, kind, make) for part in item]
        return tuple(parts) if isinstance(item, tuple) else parts
    return item


def own(name: str, owner: Owner, item: Any) -> EagerArray:
    """The argument. Raises `ArgumentError` unless it is an array of the namespace."""
    if not isinstance(item, EagerArray):
        raise ArgumentError(f"{name} takes an array of the namespace, not {item!r:.60}; make one with xp.asarray")
    if item._owner is not owner:
        raise foreign(name, owner, item)
    return item


def foreign(name: str, owner: Owner, array: EagerArray) -> ArgumentError:
    """The error for an array of another namespace."""
    return ArgumentError(
        f"{name} of the namespace of {owner.name} was given an array of the namespace of {array._owner.name}; "
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
    return ArgumentError(f"{name} of the namespace of {owner.name} was given {item!r:.60}, {hint}")
