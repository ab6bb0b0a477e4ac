"""Eager execution of the API's functions on a backend: read the arguments, compile if new, execute."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping
from functools import update_wrapper
from typing import Any, NamedTuple

import numpy as np

from xbackend.api.tracing.casting import Scalar, scalar_dtype
from xbackend.devices import Device, DeviceMap, canonical
from xbackend.eager.array import ArrayKind, EagerArray
from xbackend.eager.compiled import Call, CompiledOp, Compiles, compiled
from xbackend.eager.reading import OnHost, read, replaced
from xbackend.program.dtypes import DType, as_dtype, promote
from xbackend.program.host import host_array

LIMIT = 1024  # ops that a cache keeps
_SCALARS = 1024  # the most numbers cached on devices
# The standard's names of arguments that may be a Python number beside an array.
_OPERANDS = ("x", "x1", "x2", "min", "max", "value")
# Frameworks are faster if they know the number: x**2 is x * x.
_KNOWN_NUMBERS = ("pow",)


class CacheInfo(NamedTuple):
    """Calls with a cached op (``hits``), calls that compiled one (``misses``), ops in the cache, and its limit."""

    hits: int
    misses: int
    kept: int
    limit: int


class Runner:
    """The state shared by the arrays and functions of a namespace: the backend, its devices, the compiled ops.

    The namespace sets ``functions`` (by name, for the operators) and ``namespace`` (itself). Up to ``limit`` ops are
    kept; the least recently used one is evicted. Frameworks have caches of their own (Numba's: docs/threads.md).
    """

    def __init__(self, backend: Compiles, limit: int = LIMIT) -> None:
        self.backend = backend
        self.name = backend.name
        self.devices: Mapping[str, Device] = {str(device): device for device in backend.devices}
        self.limit = limit
        self.calls = self.misses = 0
        self.kept: dict[Hashable, CompiledOp] = {}
        self.functions: dict[str, Callable[..., Any]] = {}
        self.namespace: Any = None
        self._scalars: dict[Hashable, EagerArray] = {}

    def device(self, asked: str | Device | None) -> Device:
        """The device, or the default one. Raises `DeviceUnavailable`, `DeviceSpellingError`, `UnboundDevice`."""
        if asked is None:
            return self.backend.default_device
        return DeviceMap().resolve(canonical(asked), self.backend.devices)

    def put(self, array: Any, device: Device, dtype: DType | None = None) -> EagerArray:
        """A host value as an array on the device. Raises `DTypeError`, `ShapeError`, `BackendClosed`."""
        self.backend.check_open()
        host = host_array(array, "an array", dtype)
        kind = ArrayKind(host.shape, as_dtype(host.dtype, "an array: dtype"), str(device))
        return EagerArray(self, self.backend.put(host, device), kind)

    def fetched(self, value: Any) -> np.ndarray:
        """A copy on the host. Raises `BackendClosed`."""
        self.backend.check_open()
        return self.backend.get(value)

    def scalar(self, number: Scalar, dtype: DType, device: str) -> EagerArray:
        """A number as an array of rank 0, cached on the device."""
        key = type(number), number.hex() if isinstance(number, float) else number, dtype, device
        found = self._scalars.get(key)
        if found is None:
            if len(self._scalars) >= _SCALARS:
                self._scalars.clear()
            found = self._scalars[key] = self.put(number, self.devices[device], dtype)
        return found

    def cache_info(self) -> CacheInfo:
        """The cache's hits, misses, number of ops and limit."""
        return CacheInfo(self.calls - self.misses, self.misses, len(self.kept), self.limit)

    def forget(self) -> None:
        """Empty the caches of ops and numbers."""
        self.kept.clear()
        self._scalars.clear()

    def at_once(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The eager version of an API function, on arrays of this namespace."""
        operands = () if name in _KNOWN_NUMBERS else _operands(function)
        kept, check_open = self.kept, self.backend.check_open

        def call(*args: Any, **kwargs: Any) -> Any:
            check_open()
            for i in operands:
                if i < len(args) and type(args[i]) is not EagerArray:
                    args = self._lifted(args, operands)
                    break
            arrays: list[EagerArray] = []
            parts: list[Hashable] = [name]
            on_host = False
            try:
                for item in args:
                    if type(item) is EagerArray and item._owner is self:  # `read` inlined, for speed
                        arrays.append(item)
                        parts.append(item._kind)
                    else:
                        parts.append(read(name, self, item, arrays))
                for keyword, item in kwargs.items():
                    parts.append((keyword, read(name, self, item, arrays)))
            except OnHost:
                on_host = True
            if on_host:
                args, kwargs = self._hosted(args, kwargs)
                return call(*args, **kwargs)
            key = tuple(parts)
            self.calls += 1
            op = kept.get(key)
            if op is None:
                op = self._compile(Call(name, function, args, kwargs), arrays, key)
            op.used = self.calls
            values = op.execute(*[array._value for array in arrays])
            if op.build is next:
                return EagerArray(self, values[0], op.kinds[0])
            return op.build(iter([EagerArray(self, v, k) for v, k in zip(values, op.kinds, strict=True)]))

        return update_wrapper(call, function)

    def _compile(self, call: Call, arrays: list[EagerArray], key: Hashable) -> CompiledOp:
        op = compiled(self.backend, call, arrays)
        self.misses += 1
        if op.keep:
            op.used = self.calls
            self.kept[key] = op
        while len(self.kept) > self.limit:
            oldest, _ = min([*self.kept.items()], key=lambda item: item[1].used)
            self.kept.pop(oldest, None)  # another thread may have evicted it
        return op

    def _hosted(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with NumPy arrays put on the device of the other arrays, or on the default one."""
        found: list[EagerArray] = []
        replaced((*args, *kwargs.values()), EagerArray, found.append)
        device = found[0].device if found else self.backend.default_device

        def put(array: np.ndarray) -> EagerArray:
            return self.put(array, device)

        return replaced(args, np.ndarray, put), {k: replaced(a, np.ndarray, put) for k, a in kwargs.items()}

    def _lifted(self, args: tuple[Any, ...], operands: tuple[int, ...]) -> tuple[Any, ...]:
        """Numbers beside arrays as arrays of rank 0 in the promoted dtype, so that all numbers use one op."""
        numbers = [i for i in operands if i < len(args) and not isinstance(args[i], EagerArray | np.ndarray)]
        beside = [args[i] for i in operands if i < len(args) and isinstance(args[i], EagerArray)]
        if not (numbers and beside):
            return args
        dtype: DType | None = beside[0].dtype
        for other in beside[1:]:
            dtype = dtype and promote(dtype, other.dtype)
        changed, device = list(args), beside[0]._kind.device
        for i in numbers:
            number = args[i]
            if isinstance(number, np.generic):
                changed[i] = self.put(number, self.devices[device])
            elif dtype and type(number) in (bool, int, float) and scalar_dtype(number, dtype) is not None:
                changed[i] = self.scalar(number, dtype, device)
        return tuple(changed)


def _operands(function: Callable[..., Any]) -> tuple[int, ...]:
    """The positions of arguments that may be numbers beside arrays; empty if there is only one."""
    names = list(inspect.signature(function).parameters)
    positions = tuple(i for i, name in enumerate(names) if name in _OPERANDS)
    return positions if len(positions) > 1 else ()
