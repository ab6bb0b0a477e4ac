"""``backend.namespace``: the Array API standard, executed eagerly on a backend.

https://data-apis.org/array-api/2025.12/API_specification/

It has every function of the API (`xbackend.api.functions` and the extension `xbackend.api.linalg`) without a second
list, and the functions that only make sense eagerly: arrays from the host, and results whose shapes depend on
values.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from xbackend.api import functions, linalg
from xbackend.api.functions.dtype_functions import isdtype
from xbackend.devices import Device
from xbackend.eager import by_value
from xbackend.eager.array import EagerArray
from xbackend.eager.compiled import Compiles
from xbackend.eager.indexing import Indexing
from xbackend.eager.runner import LIMIT, CacheInfo, Runner
from xbackend.errors import ArgumentError, CopyNeeded
from xbackend.habits import INSTEAD, instead
from xbackend.program.dtypes import DType, as_dtype

VERSION = "2025.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", VERSION)


class Info:
    """The inspection API of a namespace: the result of `__array_namespace_info__`.

    https://data-apis.org/array-api/2025.12/API_specification/inspection.html
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def capabilities(self) -> dict[str, bool | int | None]:
        """Masks and shapes that depend on values work, over the host: docs/namespace.md."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> Device:
        """The device of new arrays without ``device``."""
        return self._runner.backend.default_device

    def devices(self) -> tuple[Device, ...]:
        """The devices of the backend."""
        return self._runner.backend.devices

    def default_dtypes(self, *, device: str | Device | None = None) -> dict[str, DType]:
        """The dtypes of new arrays without ``dtype``, the same on every device. There are no complex ones."""
        self._runner.device(device)
        return {"real floating": DType.float64, "integral": DType.int64, "indexing": DType.int64}

    def dtypes(
        self, *, device: str | Device | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DType]:
        """The dtypes by name: all, or those of one or several kinds. Raises `DTypeError`."""
        self._runner.device(device)
        return {dtype.value: dtype for dtype in DType if kind is None or isdtype(dtype, kind)}


class Namespace:
    """The Array API namespace of a backend, as in ``xp = backend.namespace``.

    Each function is compiled once for each set of shapes, dtypes, device and static arguments (axes, shapes, flags).
    Up to ``limit`` ops are cached; the least recently used are evicted. Arrays are `EagerArray`.
    """

    pi = math.pi
    e = math.e
    inf = math.inf
    nan = math.nan
    newaxis = None
    __array_api_version__ = VERSION

    def __init__(self, backend: Compiles, limit: int = LIMIT) -> None:
        self.__name__ = f"xbackend namespace of {backend.name}"
        self._runner = runner = Runner(backend, limit)
        runner.namespace = self
        indexing = Indexing(runner)
        # Later functions replace earlier ones of the same name.
        of_the_api = {name: runner.at_once(name, getattr(functions, name)) for name in functions.NAMES}
        at_once_only = {
            **{name: by_value.on_host(runner, name) for name in by_value.FUNCTIONS},
            "repeat": by_value.repeat(runner, of_the_api["repeat"]),
            **{f.__name__: f for f in (self.asarray, self.from_dlpack, indexing.at)},
        }
        runner.functions |= {**of_the_api, **at_once_only}
        self.__dict__.update(runner.functions | {dtype.value: dtype for dtype in DType})
        self.linalg = SimpleNamespace(**{name: self._of_linalg(name) for name in linalg.__all__})
        runner.functions |= {"__getitem__": indexing.read, "__setitem__": indexing.written}

    def _of_linalg(self, name: str) -> Any:
        """A function of the extension: the API's own, if it has the function too."""
        function = getattr(linalg, name)
        if getattr(functions, name, None) is function:
            return self._runner.functions[name]
        return self._runner.at_once(f"linalg.{name}", function)

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
        result: EagerArray = x if kind is x.dtype else self._runner.functions["astype"](x, kind)
        return result.to_device(place)

    def __array_namespace_info__(self) -> Info:
        """Devices, dtypes and capabilities."""
        return Info(self._runner)

    def check_version(self, api_version: str | None) -> None:
        """Raises `ArgumentError` for an unknown version of the standard."""
        if api_version is not None and api_version not in VERSIONS:
            raise ArgumentError(
                f"version {api_version!r} of the Array API standard is not known; there is {', '.join(VERSIONS)}"
            )

    def cache_info(self) -> CacheInfo:
        """The cache's hits, misses, number of ops and limit."""
        return self._runner.cache_info()

    def cache_clear(self) -> None:
        """Remove all compiled ops."""
        self._runner.forget()

    def __dir__(self) -> list[str]:
        return sorted(name for name in (*self.__dict__, *vars(type(self))) if not name.startswith("_"))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        hint = instead(name, dir(self), "xbackend has no such function, constant or dtype; dir(xp) lists it all")
        hint = hint if name in INSTEAD else hint.replace("xb.", "xp.")
        raise AttributeError(f"the namespace of {self._runner.backend.name} has no {name!r}: {hint}")

    def __repr__(self) -> str:
        return f"<Array API namespace {VERSION} of {self._runner.backend!r}>"
