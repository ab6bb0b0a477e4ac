"""PyTensor's MLX mode: a graph becomes a function of MLX, which fuses elementwise ops with the C++ compiler. On Linux
it computes on the CPU, with the reference BLAS. It is lazy, so each call here asks for all its results."""

from __future__ import annotations

import math
import os
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from xbackend.backends.contract import Value
from xbackend.backends.lineage.division import sign
from xbackend.backends.lineage.host_modes import HostMode
from xbackend.backends.lineage.indices import INDEXED, said
from xbackend.backends.lineage.ops import TABLE, sum_of_products
from xbackend.backends.lineage.shapes import lengths
from xbackend.backends.rows import LoweringRow
from xbackend.backends.staged.backend import CompiledStage
from xbackend.backends.threads import Pool
from xbackend.devices import Device
from xbackend.errors import BackendUnavailable, UnsupportedOperation
from xbackend.program.dtypes import DType
from xbackend.program.host import native
from xbackend.program.program import Node


def _matmul(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """MLX multiplies matrices of floating point only."""
    a, b = inputs
    return sum_of_products(T, a, b, node.dtype.value) if node.dtype.is_integer else T.matmul(a, b)


def _erfinv(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    if node.dtype is DType.float64:
        raise UnsupportedOperation("MLX computes erfinv of float64 in float32; take erfinv of float32")
    return T.erfinv(*inputs)


def _sign(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """MLX's of NaN is 0."""
    (x,), found = inputs, sign(T, node, inputs)
    return found if node.dtype.is_integer else T.switch(T.isnan(x), x, found)


def _of_nothing(name: str, value: float, T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """A reduction; of an empty array it is ``value``, as MLX reads behind the array or refuses it."""
    nothing = 0 in lengths(inputs[0])
    return T.full(node.shape, np.array(value, node.dtype.value)) if nothing else TABLE[name](T, node, inputs)


_NOTHING = {"sum": 0, "prod": 1, "mean": math.nan, "any": False, "all": True, "argmax": 0, "argmin": 0}
ROWS: Mapping[str, LoweringRow] = {
    "matmul": _matmul,
    "sign": _sign,
    "erfinv": _erfinv,
    **{name: partial(_of_nothing, name, value) for name, value in _NOTHING.items()},
}


def exact(mlx: ModuleType) -> ModuleType:
    """MLX with functions of float64 in double precision, made of powers and tangents: its own compute in float32
    (cpu/simd/math.h)."""

    def wide(theirs: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x, **options: (ours if x.dtype == mlx.float64 else theirs)(x, **options)

    def exp(x: Any) -> Any:
        return mlx.power(mlx.array(math.e, dtype=x.dtype), x)

    def sin(x: Any) -> Any:
        tangent = mlx.tan(x / 2)
        return 2 * tangent / (1 + tangent * tangent)

    def cos(x: Any) -> Any:
        square = mlx.square(mlx.tan(x / 2))
        return (1 - square) / (1 + square)

    def softmax(x: Any, axis: Any = None) -> Any:
        powers = exp(x - mlx.max(x, axis=axis, keepdims=True))
        return powers / mlx.sum(powers, axis=axis, keepdims=True)

    made = ModuleType(mlx.__name__)
    ours = {"exp": exp, "sin": sin, "cos": cos, "softmax": softmax, "sigmoid": lambda x: 1 / (1 + exp(-x))}
    vars(made).update(vars(mlx), **{name: wide(getattr(mlx, name), function) for name, function in ours.items()})
    return made


def singular_values(op: Any, mlx: Any) -> Callable[[Any], Any]:
    """PyTensor's SVD in MLX, whose own factors are square only."""

    def factors(x: Any) -> Any:
        if not op.compute_uv:
            return mlx.linalg.svd(x, compute_uv=False)
        left, values, right = mlx.linalg.svd(x)
        count = None if op.full_matrices else values.shape[-1]
        return left[..., :count], values, right[..., :count, :]

    factors.natively_batched = True  # type: ignore[attr-defined]  # of PyTensor's Blockwise
    return factors


def unless_nothing(funcify: Any, writing: type, reading: type) -> Callable[..., Any]:
    """PyTensor's writing at indices, without effect where they select nothing: MLX divides by 0 then (SIGFPE)."""
    theirs = funcify.dispatch(writing)

    def made(op: Any, **options: Any) -> Callable[..., Any]:
        write, read = theirs(op, **options), funcify(reading(op.idx_list), **options)
        return lambda x, y, *places: write(x, y, *places) if read(x, *places).size else x

    return made


_compiled = Counter(MLX=0)  # how many functions it has traced, from now on
_traced = threading.local()  # its ``outside``: for each index whether it is out of range, and the message


def in_range(op: Any, mlx: Any) -> Callable[[Any], Any]:
    """An op of `indices.in_range_op` in MLX. It cannot raise; `evaluated` does."""
    length = op.length

    def checked(indices: Any) -> Any:
        _traced.outside.append((mlx.any((indices < -length) | (indices >= length)), said(length)))
        return mlx.clip(indices, -length, length - 1)

    return checked


def evaluated(mlx: Any, function: Callable[..., Sequence[Any]], dtypes: Sequence[Any]) -> Callable[..., Any]:
    """The function compiled by MLX, with its results computed, in these dtypes. Raises `IndexError`."""
    messages: list[str] = []

    def traced(*values: Any) -> Any:
        _compiled["MLX"] += 1
        _traced.outside = []
        results = [mlx.array(r, dtype=d) for r, d in zip(function(*values), dtypes, strict=True)]
        messages[:] = [message for _, message in _traced.outside]
        return [*results, *(outside for outside, _ in _traced.outside)]

    compiled, count = mlx.compile(traced), len(dtypes)

    def call(*values: Any) -> Any:
        results = compiled(*values)
        mlx.eval(results)
        for outside, message in zip(results[count:], messages, strict=True):
            if outside.item():
                raise IndexError(message)
        return results[:count] if messages else results

    return call


class MLXMode(HostMode):
    """One function compiled by MLX. Content is an array of MLX, which nothing overwrites."""

    linker_name = "mlx"
    packages = ("mlx",)  # its parts (mlx-cpu, mlx-metal) have its version
    finds_lengths = True
    mutates = False
    unrolled = True
    unchecked = INDEXED
    mode_added: ClassVar[tuple[str, ...]] = (
        "exp, sin, cos, sigmoid and softmax of float64 in float64",
        "rounding, products of integers, the sign of NaN, reductions of nothing",
        "results in the dtypes of the graph",
        "loops unrolled",
    )
    overlap = "those on different devices overlap: each device has a thread, and MLX gives up Python's lock"

    def make_mode(self) -> Any:
        self.mlx = mlx = self.needed("mlx.core")
        mlx.set_default_device(mlx.cpu)
        mlx.default_stream(mlx.cpu)  # made now: functions traced before it exists are traced again
        basic = self.module("link.mlx.dispatch.basic")
        if not hasattr(basic, "float64_supported"):
            raise BackendUnavailable(
                f"backend {self.name} needs PyTensor 3.3 or newer: the MLX mode of {self._version()} makes float64 "
                "float32; take a Python from 3.12 on, or pip install 'pytensor>=3.3'"
            )
        self._typify = basic.mlx_typify

        class EvaluatingLinker(self.module("link.mlx").MLXLinker):  # type: ignore[misc]
            def jit_compile(self, function: Any) -> Any:
                return evaluated(mlx, function, [basic.convert_dtype_to_mlx(v.type.dtype) for v in self.fgraph.outputs])

        modes = self.module("compile.mode")
        return modes.Mode(linker=EvaluatingLinker(), optimizer=modes.get_mode("MLX").provided_optimizer)

    def prepare(self) -> None:
        """Functions with the precision of their dtype, and functions that PyTensor does not find in MLX."""
        for name in ("scalar.basic", "scalar.math", "elemwise", "linalg.summary"):
            vars(self.module(f"link.mlx.dispatch.{name}"))["mx"] = exact(self.mlx)
        funcify, places = self.module("link.mlx.dispatch.basic").mlx_funcify, self.module("tensor.subtensor")
        register = funcify.register
        register(self.module("scalar.basic").RoundHalfToEven)(lambda op, **_: self.mlx.round)
        register(self.InRange)(lambda op, **_: in_range(op, self.mlx))
        register(self.module("tensor.linalg").SVD)(lambda op, **_: singular_values(op, self.mlx))
        for writing, reading in (("IncSubtensor", "Subtensor"), ("AdvancedIncSubtensor", "AdvancedSubtensor")):
            op = getattr(places, writing)
            register(op)(unless_nothing(funcify, op, getattr(places, reading)))
        theirs = self._typify.dispatch(np.ndarray)

        # A constant NaN is 0 / 0, which only the thread that makes it could compute.
        @self._typify.register(np.ndarray)  # type: ignore[untyped-decorator]
        def computed(data: np.ndarray, **options: Any) -> Any:
            made = theirs(data, **options)
            self.mlx.eval(made)
            return made

    def refused(self, error: BaseException) -> BaseException:
        """LAPACK's refusals are `RuntimeError` of MLX: "LU factorization failed with error code 2"."""
        refusal = isinstance(error, RuntimeError) and "failed with error code" in str(error)
        return super().refused(ValueError(str(error)) if refusal else error)

    def put(self, array: np.ndarray, device: Device) -> Value:
        return self.value(self.copier(device)(native(array)), device)

    def copier(self, device: Device) -> Callable[[Any], Any]:
        return lambda array: self._typify(np.array(array, order="C"))

    def products(self) -> Pool:
        return Pool("MLX's: the reference BLAS", threads=1)

    def _configure(self) -> None:
        super()._configure()
        if self.cache is not None:
            tempfile.gettempdir()  # Python keeps its first answer
            os.environ["TMPDIR"] = str(self.cache.folder)  # MLX keeps its compiled code there

    def compilations(self) -> dict[str, int]:
        return dict(_compiled)

    def innermost(self, function: Any, inputs: Sequence[Any], device: Device) -> CompiledStage:
        return CompiledStage(function.vm.jit_fn, device)
