"""Aesara (https://aesara.readthedocs.io): its C linker (the default), Numba and JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from math import prod
from typing import Any, ClassVar

import numpy as np

from xbackend.backends.lineage import linear_algebra
from xbackend.backends.lineage.adapter import LineageBackend
from xbackend.backends.lineage.control_flow import UNROLLED
from xbackend.backends.lineage.host_modes import CMode, NumbaMode, one_dtype
from xbackend.backends.lineage.jax_mode import JAXMode
from xbackend.backends.lineage.numba_scan import has_length, loop_of
from xbackend.backends.lineage.ops import C_ROWS, NUMBA_ROWS, TABLE, cumulative_rows, wide_reduction, written_as
from xbackend.backends.lineage.rewrites import LEFT_OUT
from xbackend.backends.lineage.shapes import shape_of
from xbackend.backends.lineage.special import IN_C, IN_NUMBA, digamma_of, trigamma_of
from xbackend.backends.rows import LoweringRow
from xbackend.errors import UnsupportedOperation
from xbackend.program.program import Node
from xbackend.program.stages import Variable


def _of_one_floating_dtype(node: Any) -> bool:
    return one_dtype(node) != "" and not one_dtype(node).startswith("int")


class _Aesara(LineageBackend):
    package = "aesara"
    added: tuple[str, ...] = (*LineageBackend.added, *linear_algebra.OF_SINGLE)
    flags = "AESARA_FLAGS"
    # The last one, of two names, fails for a sum of two gradients of rows (tensor/rewriting/subtensor.py).
    left_out: ClassVar[tuple[str, ...]] = (
        *LEFT_OUT,
        "local_IncSubtensor_serialize",
        "pre_local_IncSubtensor_serialize",
    )
    keeps_steps = True
    # Scan.L_op has the third wrong even without rewrites. With several carries, rewrites break the second one.
    most_orders = 2


class AesaraC(CMode, _Aesara):
    """Aesara's default."""

    # In the second gradient, Scan's preallocated memory (mit_mot) and the view of an element of a sequence are one.
    overwrites_views = True
    rows: ClassVar[Mapping[str, LoweringRow]] = {**C_ROWS, "take_set": partial(written_as, "take_set")}
    mode_added: ClassVar[tuple[str, ...]] = (*CMode.mode_added, IN_C)


def _chosen(node: Any) -> Callable[..., Any]:
    """One side of an `IfElse`, copied: Aesara's is its input, and the next op writes into it
    (link/numba/dispatch/basic.py)."""
    sides = [[f"{side}{i}" for i in range(len(node.outputs))] for side in ("then", "otherwise")]
    then, otherwise = (", ".join(f"np.asarray({name}).copy()" for name in names) for names in sides)
    names = ", ".join(name for side in sides for name in side)
    source = f"def choice(condition, {names}):\n if condition:\n  return {then}\n return {otherwise}\n"
    found: dict[str, Any] = {"np": np}
    exec(source, found)
    return found["choice"]  # type: ignore[no-any-return]


def _searched(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """``searchsorted``: NaN from the right is the end. Aesara's Numba finds the first NaN (numba/np/arraymath.py:
    _searchsorted)."""
    found, (x, values) = TABLE["searchsorted"](T, node, inputs), inputs
    differs = node.params["right"] and "float" in values.dtype
    return T.switch(T.isnan(values), x.shape[0], found) if differs else found


class AesaraNumba(NumbaMode, _Aesara):
    """Aesara compiled by Numba."""

    # The first subtracts the maximum, and Numba's maximum of NaN is -inf. The second leaves fewer values than indices,
    # but Numba loops over pairs (link/numba/dispatch/basic.py: numba_funcify_AdvancedIncSubtensor1).
    left_out: ClassVar[tuple[str, ...]] = (*_Aesara.left_out, "local_log_sum_exp", "local_useless_inc_subtensor_alloc")
    # With fastmath LLVM assumes that there is no NaN and no infinity. The cache's key is the file, a temporary one.
    configuration: ClassVar[Mapping[str, Any]] = {"numba__fastmath": False, "numba__cache": False}
    rows: ClassVar[Mapping[str, LoweringRow]] = {
        **NUMBA_ROWS,
        **{name: partial(wide_reduction, name) for name in ("sum", "prod", "mean")},
        "cumulative_sum": partial(cumulative_rows, "cumsum"),
        "cumulative_prod": partial(cumulative_rows, "cumprod"),
        "searchsorted": _searched,
    }
    mode_added: ClassVar[tuple[str, ...]] = (
        *NumbaMode.mode_added,
        "without fastmath",
        "NaN at the end in searchsorted",
        "round, reciprocal and expit in single precision, where Numba's are double",
        "products of matrices without copies of their factors",
        "choices, parts and numbers that are copies",
        "loops whose gradients have gradients",
        IN_NUMBA,
    )

    def asserted(self, variable: Variable, condition: Variable, message: str) -> Variable:
        raise UnsupportedOperation(
            "a while_loop: Aesara has memory for a fixed number of its steps, and Numba nothing that tells when they "
            "were too few (aesara/link/numba/dispatch has no Assert); take another mode, or xb.scan with a length"
        )

    def prepare(self) -> None:
        super().prepare()

        def product(x: Any, y: Any) -> Any:
            return np.asarray(np.dot(x, y))

        # Aesara's own always copies both factors and the product: 2048 x 2048 took 1.17 times as long.
        self.replace(self.module("tensor.math").Dot, _of_one_floating_dtype, lambda node: product)
        scalars, special = self.module("scalar.basic"), self.module("scalar.math")
        for kind, function in (
            (special.Psi, digamma_of),
            (special.TriGamma, trigamma_of),
            (special.Sigmoid, lambda x: 1 / (1 + np.exp(-x))),
            (scalars.Reciprocal, lambda x: 1 / x),
            (scalars.RoundHalfToEven, lambda x: np.round(x)),  # noqa: PLW0108 Numba takes Python functions
        ):
            self.replace(kind, lambda node: True, partial(self._of_its_dtype, function))
        self.replace(self.module("ifelse").IfElse, lambda node: True, _chosen)
        self._copying()
        self.replace(self.module("scan.op").Scan, has_length, self._loop)

    def _copying(self) -> None:
        """Real copies of numbers and of parts of a split array, where Aesara's are views, into which the next op writes
        (link/numba/dispatch/basic.py: numba_funcify_DeepCopyOp; tensor_basic.py: numba_funcify_Split)."""
        scalar = self.module("link.numba.dispatch.basic").to_scalar

        def number(x: Any) -> Any:
            return scalar(x)

        def parts(x: Any, axis: Any, lengths: Any) -> Any:
            return [part.copy() for part in np.split(x, np.cumsum(lengths)[:-1], axis=scalar(axis) % x.ndim)]

        self.replace(
            self.module("compile.ops").DeepCopyOp, lambda node: node.outputs[0].type.ndim == 0, lambda node: number
        )
        self.replace(self.module("tensor.basic").Split, lambda node: True, lambda node: parts)

    def _of_its_dtype(self, function: Callable[..., Any], node: Any) -> Callable[..., Any]:
        """A function of one number with the node's dtype, where Numba's of float32 give float64
        (link/numba/dispatch/scalar.py), and NumPy's division by zero."""
        compiled = self.module("link.numba.dispatch.basic").numba_njit(function, error_model="numpy")
        dtype = getattr(np, node.outputs[0].type.dtype)

        def number(x: Any) -> Any:  # by its name, Aesara writes a function for the op in place
            return dtype(compiled(x))

        return number

    def _loop(self, node: Any) -> Callable[..., Any]:
        basic = self.module("link.numba.dispatch.basic")
        return loop_of(node, basic.numba_njit(basic.numba_funcify(node.op.fgraph)), basic.to_scalar)

    def replace(self, op: type, concerns: Callable[[Any], bool], function: Callable[[Any], Any]) -> None:
        basic = self.module("link.numba.dispatch.basic")
        before = basic._numba_funcify.dispatch(op)

        @basic._numba_funcify.register(op)  # type: ignore[untyped-decorator]
        def replaced(op: Any, node: Any, **options: Any) -> Any:
            return basic.numba_njit(function(node)) if concerns(node) else before(op, node=node, **options)


class AesaraJAX(JAXMode, _Aesara):
    """Aesara compiled by JAX, on JAX's devices."""

    rows: ClassVar[Mapping[str, LoweringRow]] = {
        **linear_algebra.WITHOUT_LOOPS,
        "diagonal": linear_algebra.diagonal_by_slices,
    }
    unrolled = True  # aesara/link/jax/dispatch/scan.py refuses most Scans, and every gradient of one
    mode_added: ClassVar[tuple[str, ...]] = (
        *JAXMode.mode_added,
        "argmax, max with argmax, the gradient of concat, sort, argsort, searchsorted, slogdet, trigamma and the "
        "gradient of eigh, which Aesara lacks in JAX",
        "integers that wrap",
        f"loops unrolled, up to {UNROLLED} steps",
    )

    @cached_property
    def tell_shapes(self) -> tuple[Any, ...]:
        """The classes of ops whose ``infer_shape`` is called."""
        indexing = self.module("tensor.subtensor")
        own = self.module("tensor.basic").Join, self.module("tensor.blas").BatchedDot
        return (
            *own,
            indexing.AdvancedSubtensor,
            indexing.AdvancedSubtensor1,
            indexing.AdvancedIncSubtensor,
            *linear_algebra.of_single_matrices(self.T),
        )

    def inferred_shapes(self, node: Any) -> Sequence[tuple[int, ...] | None]:
        """Of slices, splits, concatenations, batched products, indexing and linear algebra."""
        basic, indexing, op = self.module("tensor.basic"), self.module("tensor.subtensor"), node.op
        number, given = basic.get_scalar_constant_value, [shape_of(v) for v in node.inputs if hasattr(v.type, "shape")]
        if not given or None in given:
            return ()
        shapes = [shape for shape in given if shape is not None]
        try:
            if isinstance(op, indexing.Subtensor):
                index = indexing.get_constant_idx(op.idx_list, node.inputs)
                return [np.broadcast_to(np.int8(0), shapes[0])[tuple(index)].shape]
            if isinstance(op, basic.Split):
                along, sizes = int(number(node.inputs[1])), node.inputs[2]
                before, after = shapes[0][:along], shapes[0][along:][1:]
                return [(*before, int(number(sizes[i])), *after) for i in range(op.len_splits)]
            tells = isinstance(op, self.tell_shapes) and hasattr(op, "infer_shape")
            if not tells or len(shapes) < len(node.inputs):
                return ()
            symbolic = op.infer_shape(None, node, [tuple(map(self.T.constant, shape)) for shape in shapes])
            return [tuple(int(number(n)) for n in shape) for shape in symbolic]
        except self.module("tensor.exceptions").NotScalarConstantError:
            return ()  # a computed index or length

    def prepare(self) -> None:
        super().prepare()
        jnp = self.jax.numpy
        register = self.module("link.jax.dispatch.basic").jax_funcify.register

        def flattened(op: Any, x: Any) -> Any:
            axes = tuple(range(x.ndim)) if op.axis is None else tuple(op.axis)
            kept = [a for a in range(x.ndim) if a not in axes]
            lengths = [x.shape[a] for a in kept]
            return jnp.transpose(x, (*kept, *axes)).reshape(*lengths, prod(x.shape[a] for a in axes))

        def largest(op: Any, x: Any) -> Any:
            return jnp.argmax(flattened(op, x), axis=-1).astype("int64")

        def number(variable: Any) -> int:
            return int(self.module("tensor.basic").get_scalar_constant_value(variable))

        def along(function: Callable[..., Any], node: Any) -> Callable[..., Any]:
            axis = number(node.inputs[1])
            return lambda x, *_: function(x, axis=axis)

        def split(op: Any, node: Any, **_: Any) -> Any:
            ends = np.cumsum([number(node.inputs[2][i]) for i in range(op.len_splits - 1)])
            return along(partial(jnp.split, indices_or_sections=ends), node)

        def gradient_of_eigh(x: Any, w: Any, v: Any, by_w: Any, by_v: Any) -> Any:
            same = jnp.eye(x.shape[0], dtype=bool)
            factor = jnp.where(same, 0.0, 1.0 / jnp.where(same, 1.0, w[None, :] - w[:, None]))
            whole = v @ (v * by_w + v @ (factor * (v.T @ by_v))).T
            return jnp.tril(whole) + jnp.triu(whole, 1).T

        tensors, sorting = self.module("tensor.math"), self.module("tensor.sort")
        register(tensors.Argmax)(lambda op, **_: partial(largest, op))
        # Max and argmax of the same array are merged to this op. Aesara's own takes the axes for traced values.
        register(tensors.MaxAndArgmax)(lambda op, **_: lambda x: (jnp.max(flattened(op, x), axis=-1), largest(op, x)))
        register(self.module("tensor.basic").Split)(split)  # of the gradient of a concatenation or a stack
        register(sorting.SortOp)(lambda op, node, **_: along(jnp.sort, node))
        register(sorting.ArgSortOp)(lambda op, node, **_: along(jnp.argsort, node))
        register(self.module("tensor.extra_ops").SearchsortedOp)(
            lambda op, **_: lambda x, values: jnp.searchsorted(x, values, side=op.side).astype("int64")
        )
        register(type(linear_algebra.logarithm_of_determinant(self.T)))(lambda op, **_: jnp.linalg.slogdet)
        register(self.module("tensor.nlinalg").EighGrad)(lambda op, **_: gradient_of_eigh)
        register(self.module("scalar.math").TriGamma)(lambda op, **_: lambda x: self.jax.scipy.special.polygamma(1, x))
        self._wrapping(register)

    def _wrapping(self, register: Callable[[type], Callable[[Any], Any]]) -> None:
        """Integers that wrap. XLA takes squares and absolute values for not negative, also where they overflow."""
        jnp, scalars = self.jax.numpy, self.module("scalar.basic")
        funcify = self.module("link.jax.dispatch.basic").jax_funcify

        def product(op: Any, node: Any, theirs: Any, **options: Any) -> Any:
            function, dtype = theirs(op, node=node, **options), node.outputs[0].type.dtype
            if not dtype.startswith("int"):
                return function
            return lambda *numbers: function(*(jnp.asarray(x, dtype).view(f"u{dtype}") for x in numbers)).view(dtype)

        def magnitude(op: Any, node: Any, theirs: Any, **options: Any) -> Any:
            integers = node.outputs[0].type.dtype.startswith("int")
            return (lambda x: jnp.where(x < 0, -x, x)) if integers else theirs(op, node=node, **options)

        for kind, made in ((scalars.Mul, product), (scalars.Sqr, product), (scalars.Abs, magnitude)):
            register(kind)(partial(made, theirs=funcify.dispatch(kind)))
