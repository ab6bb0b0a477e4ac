"""Aesara (https://aesara.readthedocs.io): with its default, the C linker, and compiled by Numba and by JAX."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

from xbackend.backends.lineage import LineageBackend
from xbackend.backends.lineage_modes import CMode, JAXMode, Mode, NumbaMode
from xbackend.backends.lineage_ops import TABLE, Row, nan_aware
from xbackend.program.program import Node


class _Aesara(LineageBackend):
    package = "aesara"
    flags = "AESARA_FLAGS"


def _pick(comparison: str) -> Row:
    def row(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
        x, y = inputs
        if node.dtype.is_integer:
            return T.switch(getattr(T, comparison)(x, y), x, y)
        return (T.maximum if comparison == "ge" else T.minimum)(x, y)

    return row


def _best(name: str, position: str) -> Row:
    def row(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
        axes = tuple(node.params["axis"])
        if not node.dtype.is_integer or not axes:
            return TABLE[name](T, node, inputs)
        x, shape = inputs[0], inputs[0].type.shape
        kept = [a for a in range(len(shape)) if a not in axes]
        rows = T.reshape(x.dimshuffle(*kept, *axes), (prod(node.shape), prod(shape[a] for a in axes)), ndim=2)
        first = TABLE[position](T, Node(position, (), {"axis": 1}, (), node.dtype), [rows])
        return T.reshape(rows[T.arange(prod(node.shape)), first], node.shape, ndim=len(node.shape))

    return row


class AesaraC(_Aesara):
    """Aesara's default."""

    # Its C code of maximum and minimum has a NaN as one branch, so that C compares integers as double precision numbers
    # and int64 beyond 2**53 is rounded: aesara/scalar/basic.py, ScalarMaximum.c_code.
    rows: ClassVar[dict[str, Row]] = {
        "maximum": _pick("ge"),
        "minimum": _pick("le"),
        "max": _best("max", "argmax"),
        "min": _best("min", "argmin"),
    }

    def make_mode(self) -> Mode:
        return CMode(self)


class AesaraNumba(_Aesara):
    """Aesara compiled by Numba."""

    # All of fastmath would let LLVM assume that there is no NaN and no infinity.
    options: ClassVar[dict[str, str]] = {"numba__fastmath": "False"}
    rows: ClassVar[dict[str, Row]] = {"max": nan_aware("max"), "min": nan_aware("min")}

    def make_mode(self) -> Mode:
        return NumbaMode(self)


class AesaraJAX(_Aesara):
    """Aesara compiled by JAX, on JAX's devices."""

    def make_mode(self) -> Mode:
        return _AesaraJAXMode(self)


class _AesaraJAXMode(JAXMode):
    def _prepare_dispatch(self) -> None:
        super()._prepare_dispatch()
        jnp = self._jax.numpy
        register = self.backend.module("link.jax.dispatch.basic").jax_funcify.register

        # Aesara 2.9.4 made an op of its own of argmax and left JAX without it.
        @register(self.backend.module("tensor.math").Argmax)
        def argmax(op: Any, **_: Any) -> Any:
            def function(x: Any) -> Any:
                axes = tuple(range(x.ndim)) if op.axis is None else tuple(op.axis)
                kept = [a for a in range(x.ndim) if a not in axes]
                lengths = [x.shape[a] for a in kept]
                flat = jnp.transpose(x, (*kept, *axes)).reshape(*lengths, prod(x.shape[a] for a in axes))
                return jnp.argmax(flat, axis=-1).astype("int64")

            return function

        # Its own compares the shape with traced values. The shapes of a program are known and were checked.
        @register(self.backend.module("tensor.shape").SpecifyShape)
        def specify_shape(op: Any, **_: Any) -> Any:
            return lambda x, *shape: x
