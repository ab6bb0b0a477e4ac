"""Functions of the API run at once on a backend: read what they are called with, compile what is new, execute."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import update_wrapper
from typing import Any

import numpy as np

from xbackend.api.tracing.casting import Scalar, scalar_dtype
from xbackend.devices import Device, DeviceMap, canonical
from xbackend.eager.array import ArrayKind, EagerArray
from xbackend.eager.cache import LIMIT, Cache
from xbackend.eager.compiled import Call, CompiledOp, Compiles, Known, compiled
from xbackend.eager.reading import OnHost, hosted, read
from xbackend.program.dtypes import DType, as_dtype, promote
from xbackend.program.host import host_array

_SCALARS = 1024  # numbers that are kept on devices
# As the standard names arguments that may be a number beside an array, or an array beside a number.
_OPERANDS = ("x", "x1", "x2", "min", "max", "value")
# With a number that is known frameworks compute in another, faster way: x**2 is x * x.
_KNOWN_NUMBERS = ("pow",)


class Runner:
    """What the arrays and functions of one namespace share: the backend, its devices, the ops compiled so far.

    ``functions`` are those of the namespace, by name; operators look them up. ``namespace`` is what the arrays give as
    theirs. Both are set by the namespace.
    """

    def __init__(self, backend: Compiles, limit: int = LIMIT) -> None:
        self.backend = backend
        self.devices: Mapping[str, Device] = {str(device): device for device in backend.devices}
        self.cache = Cache(limit)
        self.functions: dict[str, Callable[..., Any]] = {}
        self.namespace: Any = None
        self._scalars: dict[Hashable, EagerArray] = {}

    def where(self) -> str:
        """The backend, in messages."""
        return self.backend.name

    def device(self, asked: str | Device | None) -> Device:
        """The device meant, the default one for `None`. Raises `DeviceUnavailable`, `DeviceSpellingError`,
        `UnboundDevice`."""
        if asked is None:
            return self.backend.default_device
        return DeviceMap().resolve(canonical(asked), self.backend.devices)

    def put(self, array: Any, device: Device, dtype: DType | None = None) -> EagerArray:
        """What is on the host, as an array on the device. Raises `DTypeError`, `ShapeError`, `BackendClosed`."""
        self.backend.check_open()
        host = host_array(array, "an array", dtype)
        kind = ArrayKind(host.shape, as_dtype(host.dtype, "an array: dtype"), str(device))
        return EagerArray(self, self.backend.put(host, device), kind)

    def fetched(self, value: Any) -> np.ndarray:
        """A copy on the host. Raises `BackendClosed`."""
        self.backend.check_open()
        return self.backend.get(value)

    def scalar(self, number: Scalar, dtype: DType, device: str) -> EagerArray:
        """A number as an array of rank 0, put on the device once."""
        key = type(number), number.hex() if isinstance(number, float) else number, dtype, device
        found = self._scalars.get(key)
        if found is None:
            if len(self._scalars) >= _SCALARS:
                self._scalars.clear()
            found = self._scalars[key] = self.put(number, self.devices[device], dtype)
        return found

    def forget(self) -> None:
        """Drop what was compiled, and the numbers."""
        self.cache.clear()
        self._scalars.clear()

    def at_once(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function of the API for arrays of this namespace."""
        operands = () if name in _KNOWN_NUMBERS else _operands(function)
        kept, cache, check_open = self.cache.kept, self.cache, self.backend.check_open

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
                    if type(item) is EagerArray and item._owner is self:  # as `read` does, without calling it
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
            cache.calls += 1
            op = kept.get(key)
            if op is None:
                op = self._compile(Call(name, function, args, kwargs), arrays, key)
            op.used = cache.calls
            if isinstance(op, Known):
                return op.result
            values = op.execute(*[array._value for array in arrays])
            if op.build is next:
                return EagerArray(self, values[0], op.kinds[0])
            return op.build(iter([EagerArray(self, v, k) for v, k in zip(values, op.kinds, strict=True)]))

        return update_wrapper(call, function)

    def _compile(self, call: Call, arrays: list[EagerArray], key: Hashable) -> CompiledOp | Known:
        op = compiled(self.backend, call, arrays)
        self.cache.misses += 1
        if isinstance(op, Known) or op.keep:
            self.cache.add(key, op)
        return op

    def _hosted(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with NumPy's arrays on the device of the others, or on the default one."""
        found = list(_arrays((*args, *kwargs.values())))
        device = found[0].device if found else self.backend.default_device

        def put(array: np.ndarray) -> EagerArray:
            return self.put(array, device)

        return tuple([hosted(a, put) for a in args]), {k: hosted(a, put) for k, a in kwargs.items()}

    def _lifted(self, args: tuple[Any, ...], operands: tuple[int, ...]) -> tuple[Any, ...]:
        """Numbers beside arrays as arrays of rank 0 of the dtype that they take there: another one is no other op."""
        numbers = [i for i in operands if i < len(args) and not isinstance(args[i], EagerArray | np.ndarray)]
        if not numbers:
            return args
        beside = [args[i] for i in operands if i < len(args) and isinstance(args[i], EagerArray)]
        if not beside:
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


def _arrays(item: Any) -> Iterator[EagerArray]:
    """The arrays of the namespace in an argument."""
    if type(item) is EagerArray:
        yield item
    for part in item if isinstance(item, tuple | list) else ():
        yield from _arrays(part)


def _operands(function: Callable[..., Any]) -> tuple[int, ...]:
    """The positions of the arguments of which some may be numbers and the others arrays; empty where there is one."""
    names = list(inspect.signature(function).parameters)
    positions = tuple(i for i, name in enumerate(names) if name in _OPERANDS)
    return positions if len(positions) > 1 else ()
