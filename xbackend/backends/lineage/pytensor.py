"""PyTensor (https://pytensor.readthedocs.io): in its default mode Numba, with its C linker, and compiled by JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from xbackend.backends.lineage.adapter import LineageBackend
from xbackend.backends.lineage.host_modes import CMode, LineageMode, NumbaMode
from xbackend.backends.lineage.jax_mode import JAXMode
from xbackend.backends.lineage.ops import C_ROWS, NUMBA_ROWS, TABLE, Row
from xbackend.program.program import Node


def _matmul(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """``batched_dot`` is deprecated here in favour of what it became, a product over the leading axes."""
    if node.dtype.is_integer:
        return TABLE["matmul"](T, node, inputs)
    return T.matmul(*inputs)


class _PyTensor(LineageBackend):
    package = "pytensor"
    flags = "PYTENSOR_FLAGS"
    # It takes acosh(cosh(x)) for x, whatever its sign (pytensor/tensor/rewriting/math.py, from 3.1 on).
    left_out = ("useless_Arccosh_of_Cosh",)
    rows: ClassVar[Mapping[str, Row]] = {"matmul": _matmul}


class PyTensorNumba(_PyTensor):
    """PyTensor's default."""

    rows: ClassVar[Mapping[str, Row]] = {**_PyTensor.rows, **NUMBA_ROWS}

    def make_mode(self) -> LineageMode:
        return _PyTensorNumbaMode(self)


class PyTensorC(_PyTensor):
    """PyTensor's C linker, which was its default before version 3."""

    rows: ClassVar[Mapping[str, Row]] = {**_PyTensor.rows, **C_ROWS}

    def make_mode(self) -> LineageMode:
        return CMode(self)


class PyTensorJAX(_PyTensor):
    """PyTensor compiled by JAX, on JAX's devices."""

    def make_mode(self) -> LineageMode:
        return JAXMode(self)


class _PyTensorNumbaMode(NumbaMode):
    def replace(self, op: type, concerns: Callable[[Any], bool], function: Callable[[Any], Any]) -> None:
        basic = self.backend.module("link.numba.dispatch.basic")
        # Versions that cache what Numba compiles take a key beside it, so that their own is not found there. What is
        # cached imports the module of the function: one that was compiled from another module is not to be found.
        keyed = hasattr(basic, "numba_funcify_and_cache_key")
        before = (basic.numba_funcify_and_cache_key if keyed else basic.numba_funcify).dispatch(op)

        def replaced(op: Any, node: Any, **options: Any) -> Any:
            if not concerns(node):
                return before(op, node=node, **options)
            compiled = basic.numba_njit(function(node))
            dtypes = [v.type.dtype for v in (*node.inputs, *node.outputs)]
            key = f"{function.__module__} {type(op).__name__} {dtypes}, 1"
            return (compiled, key) if keyed else compiled

        (basic.register_funcify_and_cache_key if keyed else basic.numba_funcify.register)(op)(replaced)
