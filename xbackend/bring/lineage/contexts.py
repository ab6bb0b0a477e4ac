"""A pygpu without devices, for Theano's contexts.

Theano's variables on contexts need pygpu, a compiler and the devices. An importer only reads the graph: the contexts of
this pygpu are names and its arrays are NumPy's. Theano's own Python code for transfers runs with it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np


class GpuContext:
    """A context: a name, and no device."""

    kind = b"none"

    def __init__(self, name: str | None) -> None:
        self.name, self.ptr, self.devname = name, id(self), "no device"


class GpuArray:
    """A NumPy array with a context."""

    def __init__(self, held: np.ndarray, context: GpuContext) -> None:
        self.held, self.context = held, context
        self.dtype, self.shape, self.ndim, self.flags = held.dtype, held.shape, held.ndim, held.flags
        self.typecode = dtype_to_typecode(held.dtype)

    def __array__(self, dtype: Any = None) -> np.ndarray:
        return np.array(self.held, dtype)  # a copy, as from a device

    def copy(self, order: str = "C") -> GpuArray:
        return GpuArray(self.held.copy(), self.context)

    def transfer(self, context: GpuContext) -> GpuArray:
        return GpuArray(self.held.copy(), context)

    def write(self, values: np.ndarray) -> None:
        self.held[...] = values


def array(values: Any, dtype: Any = None, ndmin: int = 0, context: Any = None, **_: Any) -> GpuArray:
    """A copy of the values, on ``context`` or on that of the values."""
    return GpuArray(np.array(values, dtype, ndmin=ndmin), context or values.context)


def zeros(shape: Any, dtype: Any = "float64", context: Any = None, **_: Any) -> GpuArray:
    return GpuArray(np.zeros(shape, dtype), context)


def dtype_to_typecode(dtype: Any) -> str:
    """The name of the dtype. pygpu's typecodes are numbers, but Theano only compares them."""
    return str(np.dtype(dtype).name)


def compare(one: Any, sign: str, other: Any) -> np.ndarray:
    """Elementwise equality: ``==`` is the only sign that Theano passes."""
    return np.asarray(np.asarray(one) == np.asarray(other))


def version() -> tuple[int, int]:
    """The API and ABI version: part of the cache keys of C code, which is not compiled."""
    return (2, 0)


def may_share_memory(one: GpuArray, other: GpuArray) -> bool:
    return bool(np.may_share_memory(one.held, other.held))


def modules() -> dict[str, ModuleType]:
    """The modules of pygpu that Theano imports for its variables."""
    pygpu, gpuarray, elemwise = (ModuleType(name) for name in ("pygpu", "pygpu.gpuarray", "pygpu.elemwise"))
    errors = {name: type(name, (Exception,), {}) for name in ("GpuArrayException", "UnsupportedException")}
    own = (GpuContext, GpuArray, array, zeros, dtype_to_typecode, may_share_memory)
    vars(gpuarray).update({one.__name__: one for one in own}, asarray=array, get_include=str, **errors)
    vars(gpuarray).update(api_version=version, abi_version=version)
    vars(elemwise).update(compare=compare, elemwise2=None)
    vars(pygpu).update(vars(gpuarray), __name__="pygpu", __path__=[], __version__="0.7.6")
    vars(pygpu).update(gpuarray=gpuarray, elemwise=elemwise)
    return {one.__name__: one for one in (pygpu, gpuarray, elemwise)}
