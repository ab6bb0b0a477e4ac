"""PyTensor (https://pytensor.readthedocs.io): in its default mode Numba, with its C linker, and compiled by JAX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xbackend.backends.lineage import LineageBackend
from xbackend.backends.lineage_jax import JAXMode
from xbackend.backends.lineage_modes import (
    CMode,
    Mode,
    NumbaMode,
    is_of_integers,
    multiplies_integers,
    power_of_integers,
    product_of_integers,
)
from xbackend.backends.lineage_ops import C_ROWS, NUMBA_ROWS, TABLE, Row
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

    def make_mode(self) -> Mode:
        return _PyTensorNumbaMode(self)


class PyTensorC(_PyTensor):
    """PyTensor's C linker, which was its default before version 3."""

    rows: ClassVar[Mapping[str, Row]] = {**_PyTensor.rows, **C_ROWS}

    def make_mode(self) -> Mode:
        return CMode(self)


class PyTensorJAX(_PyTensor):
    """PyTensor compiled by JAX, on JAX's devices."""

    def make_mode(self) -> Mode:
        return JAXMode(self)


class _PyTensorNumbaMode(NumbaMode):
    def make(self) -> Any:
        mode = super().make()
        basic = self.backend.module("link.numba.dispatch.basic")
        op = self.backend.module("tensor.math").Dot
        # Versions that cache what Numba compiles take a number beside it, which is part of the key, so that their own
        # product is not found there.
        keyed = hasattr(basic, "register_funcify_default_op_cache_key")
        theirs = (basic.numba_funcify_default_op_cache_key if keyed else basic.numba_funcify).dispatch(op)

        def dot(op: Any, node: Any, **options: Any) -> Any:
            if not multiplies_integers(node):
                return theirs(op, node=node, **options)
            product = basic.numba_njit(product_of_integers)
            return (product, 1) if keyed else product

        (basic.register_funcify_default_op_cache_key if keyed else basic.numba_funcify.register)(op)(dot)
        self._raise_integers_exactly(basic)
        return mode

    def _raise_integers_exactly(self, basic: Any) -> None:
        op = self.backend.module("scalar.basic").Pow
        keyed = hasattr(basic, "numba_funcify_and_cache_key")
        theirs = (basic.numba_funcify_and_cache_key if keyed else basic.numba_funcify).dispatch(op)

        def power(op: Any, node: Any, **options: Any) -> Any:
            if not is_of_integers(node):
                return theirs(op, node=node, **options)
            dtype = node.outputs[0].type.dtype
            compiled = basic.numba_njit(power_of_integers(dtype))
            return (compiled, f"xbackend power of {dtype}, 1") if keyed else compiled

        (basic.register_funcify_and_cache_key if keyed else basic.numba_funcify.register)(op)(power)
