"""Arrays from the host and from other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np

from xbackend.devices import Device
from xbackend.eager.array import EagerArray
from xbackend.eager.runner import Runner
from xbackend.errors import ArgumentError, CopyNeeded
from xbackend.program.dtypes import as_dtype


class Exchange:
    """The functions of a namespace that take other arrays than its own."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def asarray(
        self, obj: Any, /, *, dtype: Any = None, device: str | Device | None = None, copy: bool | None = None
    ) -> EagerArray:
        """An array on the device, from numbers, nested lists, NumPy arrays, and anything that NumPy converts.

        An array of the namespace that needs no change is returned as it is, unless ``copy`` is true. Without a dtype
        Python floats are float64 and integers int64. Raises `DTypeError`, `ShapeError`, `DeviceUnavailable`, and
        `CopyNeeded` where ``copy=False`` is impossible.
        """
        if isinstance(obj, EagerArray) and obj._owner is self._runner:
            return self._own(obj, dtype, device, copy)
        if copy is False:
            raise CopyNeeded(f"asarray of a {type(obj).__name__} copies it to the device; leave copy=False out")
        kind = None if dtype is None else as_dtype(dtype)
        return self._runner.put(obj, self._runner.device(device), kind)

    def from_dlpack(self, x: Any, /, *, device: str | Device | None = None, copy: bool | None = None) -> EagerArray:
        """An array of another library on the device, by DLPack; it is copied over the host.

        Raises `CopyNeeded` for ``copy=False``, `ArgumentError` for objects without DLPack.
        """
        if isinstance(x, EagerArray) and x._owner is self._runner:
            return self._own(x, None, device, copy)
        if copy is False:
            raise CopyNeeded(f"from_dlpack copies a {type(x).__name__} to the device; leave copy=False out")
        try:
            host = np.from_dlpack(x)
        except (TypeError, AttributeError, BufferError, RuntimeError) as error:
            raise ArgumentError(f"from_dlpack was given {x!r:.60}, which does not go over DLPack: {error}") from None
        return self._runner.put(host, self._runner.device(device))

    def _own(self, x: EagerArray, dtype: Any, device: str | Device | None, copy: bool | None) -> EagerArray:
        kind = x.dtype if dtype is None else as_dtype(dtype)
        place = x.device if device is None else self._runner.device(device)
        if (kind, place) == (x.dtype, x.device):
            # Values are immutable, so a copy may share one.
            return EagerArray(self._runner, x._value, x._kind) if copy else x
        if copy is False:
            raise CopyNeeded(f"{x._described()} as {kind} on {place} takes a copy; leave copy=False out")
        functions, result = self._runner.functions, x
        if kind is not x.dtype:
            result = functions["astype"](result, kind)
        return result if place == x.device else functions["to_device"](result, str(place))
