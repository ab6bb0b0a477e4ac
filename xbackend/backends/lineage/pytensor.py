"""PyTensor (https://pytensor.readthedocs.io): Numba (its default), its C linker, JAX and MLX."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from xbackend.backends.contract import Built
from xbackend.backends.lineage.adapter import LineageBackend
from xbackend.backends.lineage.host_modes import CMode, NumbaMode, copies, one_dtype
from xbackend.backends.lineage.jax_mode import JAXMode
from xbackend.backends.lineage.linear_algebra import OF_STACKS
from xbackend.backends.lineage.mlx_mode import ROWS, MLXMode
from xbackend.backends.lineage.ops import C_ROWS, NUMBA_ROWS, TABLE, wide_running
from xbackend.backends.lineage.special import IN_C
from xbackend.backends.rows import LoweringRow
from xbackend.backends.staged.assembly import FrameworkGraph
from xbackend.program.program import Node
from xbackend.program.stages import Variable


def _matmul(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """The product over leading axes, for which ``batched_dot`` is deprecated here."""
    theirs = node.dtype.is_floating and len(node.shape) > 2
    return T.matmul(*inputs) if theirs else TABLE["matmul"](T, node, inputs)


def _reciprocal(x: Any) -> Any:
    return np.divide(np.float32(1), x)


def keep_signs_of_zeros(scalar: Any) -> None:
    """Let Numba compile scalar functions (their module: ``scalar``) with signed zeros, which LLVM's ``nsz`` drops.
    Loops of sums, in another module, need it to be vectorised."""
    theirs, key = scalar.numba_basic, getattr(scalar, "scalar_op_cache_key", None)
    if hasattr(theirs, "signed_zeros"):
        return

    def numba_njit(*args: Any, fastmath: Any = None, **options: Any) -> Any:
        if fastmath is None and theirs.config.numba__fastmath:
            fastmath = {"arcp", "contract", "afn", "reassoc"}
        return theirs.numba_njit(*args, fastmath=fastmath, **options)

    # A module, as compiled code looks functions up in it.
    scalar.numba_basic = ModuleType(theirs.__name__)
    vars(scalar.numba_basic).update(vars(theirs), numba_njit=numba_njit, signed_zeros=True)
    if key is not None:  # code compiled without signs has another key
        scalar.scalar_op_cache_key = lambda op, **fields: key(op, **fields, signed_zeros=True)


class _PyTensor(LineageBackend):
    package = "pytensor"
    added: tuple[str, ...] = (*LineageBackend.added, *OF_STACKS)
    flags = "PYTENSOR_FLAGS"
    # It replaces acosh(cosh(x)) by x, whatever the sign (pytensor/tensor/rewriting/math.py, from 3.1 on).
    left_out = ("useless_Arccosh_of_Cosh",)
    # push_out_seq_scan leaves a None for an array: "expected an ndarray, not None" (pytensor/scan/rewriting.py).
    moves_out = "scan_push_out_seq"
    rows: ClassVar[Mapping[str, LoweringRow]] = {"matmul": _matmul}

    def if_else(self, condition: Variable, then: Variable, otherwise: Variable) -> Variable:
        # It moved in 3.0 (pytensor/ifelse.py).
        home = "conditional" if importlib.util.find_spec("pytensor.conditional") else "ifelse"
        return self.module(home).ifelse(condition, then, otherwise)


class PyTensorNumba(NumbaMode, _PyTensor):
    """PyTensor's default."""

    rows: ClassVar[Mapping[str, LoweringRow]] = {
        **_PyTensor.rows,
        **NUMBA_ROWS,
        "cumulative_sum": partial(wide_running, "cumulative_sum"),
        "cumulative_prod": partial(wide_running, "cumulative_prod"),
    }
    mode_added: ClassVar[tuple[str, ...]] = (
        *NumbaMode.mode_added,
        "functions of single elements with signs of zeros",
        "1 / x of float32 as a division",
        "no fastmath where variables on several devices are updated",
    )

    def prepare(self) -> None:
        super().prepare()
        keep_signs_of_zeros(self.module("link.numba.dispatch.scalar"))
        # 1 / sqrt(x) of float32 became an approximation that is NaN for 0 and infinity (arcp).
        inverse = self.module("scalar.basic").Reciprocal
        self.replace(inverse, lambda node: one_dtype(node) == "float32", lambda node: _reciprocal, fastmath=False)

    def _compile(self, graph: FrameworkGraph) -> Built:
        """Compile without fastmath where copies must be equal to the bit: LLVM contracts and reorders loops with it."""
        if not copies(graph):
            return super()._compile(graph)
        with self.changed_flags(numba__fastmath=False):
            return super()._compile(graph)

    def replace(
        self, op: type, concerns: Callable[[Any], bool], function: Callable[[Any], Any], **options: Any
    ) -> None:
        basic = self.module("link.numba.dispatch.basic")
        # Versions with a cache of Numba's code need a key, with the function's module, which cached code imports.
        keyed = hasattr(basic, "numba_funcify_and_cache_key")
        before = (basic.numba_funcify_and_cache_key if keyed else basic.numba_funcify).dispatch(op)

        def replaced(op: Any, node: Any, **given: Any) -> Any:
            if not concerns(node):
                return before(op, node=node, **given)
            compiled = basic.numba_njit(function(node), **options)
            dtypes = [v.type.dtype for v in (*node.inputs, *node.outputs)]
            key = f"{function.__module__} {op} {dtypes}, 2"
            return (compiled, key) if keyed else compiled

        (basic.register_funcify_and_cache_key if keyed else basic.numba_funcify.register)(op)(replaced)


class PyTensorC(CMode, _PyTensor):
    """PyTensor's C linker, which was its default before version 3."""

    rows: ClassVar[Mapping[str, LoweringRow]] = {**_PyTensor.rows, **C_ROWS}
    mode_added: ClassVar[tuple[str, ...]] = (*CMode.mode_added, IN_C)


class PyTensorJAX(JAXMode, _PyTensor):
    """PyTensor compiled by JAX, on JAX's devices."""

    def prepare(self) -> None:
        super().prepare()
        basic, sorting = self.module("link.jax.dispatch.basic"), self.module("tensor.sort")
        constant = self.module("graph.basic").Constant
        for kind in (sorting.SortOp, sorting.ArgSortOp):
            theirs = basic.jax_funcify.dispatch(kind)

            # The axis as a number: versions before 3 take the constant for a traced value.
            @basic.jax_funcify.register(kind)  # type: ignore[untyped-decorator]
            def along(op: Any, node: Any = None, theirs: Any = theirs, **options: Any) -> Any:
                function, axis = theirs(op, node=node, **options), node.inputs[1:]
                if not axis or not isinstance(axis[0], constant):
                    return function
                known = int(axis[0].data)
                return lambda x, _: function(x, known)


class PyTensorMLX(MLXMode, _PyTensor):
    """PyTensor compiled by MLX."""

    rows: ClassVar[Mapping[str, LoweringRow]] = {**_PyTensor.rows, **ROWS}
