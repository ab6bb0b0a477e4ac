"""The array of a namespace: elements on a device of a backend, with the standard's operators and methods."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from xbackend.devices import Device
from xbackend.errors import ArgumentError, CopyNeeded, DTypeError, XBackendError
from xbackend.program.dtypes import DType
from xbackend.program.operators import Operators


class ArrayKind(NamedTuple):
    """The properties of an array that a compiled op depends on: shape, dtype and the name of the device."""

    shape: tuple[int, ...]
    dtype: DType
    device: str


class Owner(Protocol):
    """The interface of a namespace's runner to its arrays."""

    name: str
    functions: dict[str, Callable[..., Any]]
    devices: Mapping[str, Device]
    namespace: Any

    def device(self, asked: str | Device | None) -> Device: ...
    def fetched(self, value: Any) -> np.ndarray: ...


# Methods of other libraries' arrays -> what to write here.
_INSTEAD = {
    "item": "float(x), int(x) or bool(x)",
    **dict.fromkeys(("tolist", "numpy", "cpu", "get"), "np.asarray(x), which copies it to the host"),
    **dict.fromkeys(("flatten", "ravel"), "xp.reshape(x, (-1,))"),
    **dict.fromkeys(("transpose", "swapaxes"), "xp.permute_dims(x, axes)"),
    **dict.fromkeys(("dot", "mm"), "x @ y"),
    "copy": "xp.asarray(x, copy=True)",
    "view": "xp.astype(x, dtype)",
}


class EagerArray(Operators):
    """An array of ``backend.namespace``: shape (), (n,), (n, m), ...; made by the functions of the namespace.

    Its elements are on a device of the backend; ``np.asarray``, ``float``, ``int``, ``bool`` and printing copy them to
    the host. ``x[key] = value`` changes this array only: parts and copies are separate arrays.
    """

    __slots__ = ("_kind", "_owner", "_value")

    def __init__(self, owner: Owner, value: Any, kind: ArrayKind) -> None:
        self._owner = owner
        self._value = value
        self._kind = kind

    @property
    def _functions(self) -> dict[str, Callable[..., Any]]:
        return self._owner.functions

    @property
    def shape(self) -> tuple[int, ...]:
        return self._kind.shape

    @property
    def dtype(self) -> DType:
        return self._kind.dtype

    @property
    def device(self) -> Device:
        """The device of the elements."""
        return self._owner.devices[self._kind.device]

    def to_device(self, device: str | Device, /, *, stream: None = None) -> EagerArray:
        """The same elements on another device of the backend. Raises `DeviceUnavailable`, `DeviceSpellingError`."""
        if stream is not None:
            raise ArgumentError(
                f"to_device takes no stream ({stream!r:.40}): backends order their transfers themselves"
            )
        place = self._owner.device(device)
        moved: EagerArray = self if place == self.device else self._functions["to_device"](self, str(place))
        return moved

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """The namespace of the array. Raises `ArgumentError` for an unknown version of the standard."""
        self._owner.namespace.check_version(api_version)
        return self._owner.namespace

    # On the host.

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise CopyNeeded(f"{self._described()} cannot be had as a NumPy array without a copy; leave copy=False out")
        host = self._owner.fetched(self._value)
        return host if dtype is None else host.astype(dtype, copy=False)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[Any, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A copy of the elements on the host. Raises `CopyNeeded` for ``copy=False``, `ArgumentError` for a stream or
        another device than the host."""
        kind, number = self.__dlpack_device__()
        if stream is not None:
            raise ArgumentError(f"__dlpack__ takes no stream ({stream!r:.40}): the copy is on the host when it returns")
        asked = dl_device and (int(getattr(dl_device[0], "value", dl_device[0])), dl_device[1])
        if asked is not None and asked != (kind, number):
            raise ArgumentError(f"__dlpack__ copies to the host, which is device {(kind, number)}, not to {dl_device}")
        if copy is False:
            raise CopyNeeded(f"{self._described()} goes over DLPack as a copy on the host only; leave copy=False out")
        host = self.__array__()
        try:
            return host.__dlpack__(max_version=max_version)
        except TypeError:  # NumPy before 2.1 knows one version only
            return host.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        """The device of `__dlpack__`'s copy: the host, ``(1, 0)`` in DLPack's numbers."""
        return (1, 0)

    def _number(self, wanted: str) -> Any:
        if self.shape != ():
            raise ArgumentError(
                f"{wanted} needs an array of one element and rank 0, this has shape {self.shape}; use xp.all, xp.any "
                "or xp.sum, or an index"
            )
        return self.__array__()[()]

    def __bool__(self) -> bool:
        return bool(self._number("if, while, and, or, not or bool()"))

    def __int__(self) -> int:
        return int(self._number("int()"))

    def __float__(self) -> float:
        return float(self._number("float()"))

    def __complex__(self) -> complex:
        return complex(self._number("complex()"))

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise DTypeError(f"an index is an integer, not {self.dtype}; convert with xp.astype")
        return operator.index(self._number("an index"))

    def __format__(self, spec: str) -> str:
        return format(self._number("a format"), spec) if spec else str(self)

    def __repr__(self) -> str:
        try:
            text = np.array2string(self.__array__(), separator=", ", prefix="array(")
        except XBackendError as error:
            return f"<{self._described()}: {error}>"
        return f"array({text}, dtype={self.dtype}, device={self._kind.device})"

    # Values are immutable: writing replaces the value.

    def __setitem__(self, key: Any, value: Any) -> None:
        self._value = self._functions["__setitem__"](self, key, value)._value

    # Functions of NumPy.

    def _refused(self, called: str, name: str = "") -> Exception:
        return ArgumentError(
            f"{called} computes with numbers on the host, and this is {self._described()}: use the functions of the "
            "namespace, or np.asarray(x), which copies it"
        )

    def _no_method(self, name: str) -> str:
        if name in _INSTEAD:
            hint = f"write {_INSTEAD[name]}"
        elif name in self._functions:
            hint = f"write xp.{name}(x, ...)"
        else:
            hint = "use the functions of the namespace, dir(xp) lists them"
        return f"an array of a namespace has no .{name}: {hint}"

    def _described(self) -> str:
        return f"{self.dtype}{list(self.shape)} on {self._kind.device} of {self._owner.name}"
