"""The original Theano, release 1.0.5 of 2020 (https://theano-pymc.readthedocs.io): with its C linker, on the CPU."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, ClassVar

from xbackend.backends.lineage import rewrites
from xbackend.backends.lineage.adapter import LineageBackend
from xbackend.backends.lineage.host_modes import CMode
from xbackend.backends.lineage.linear_algebra import OF_SINGLE
from xbackend.backends.lineage.ops import C_ROWS, TABLE, lengths, written_as
from xbackend.backends.lineage.special import IN_C
from xbackend.backends.rows import LoweringRow
from xbackend.program.aval import Aval
from xbackend.program.program import Node
from xbackend.program.shared import SharedVariable
from xbackend.program.stages import Variable


def _matmul(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """Theano's products refuse empty matrices ("some matrix has no unit stride": theano/tensor/blas.py)."""
    if all(prod(lengths(x)) for x in inputs):
        return TABLE["matmul"](T, node, inputs)
    return T.alloc(T.constant(0, dtype=node.dtype.value), *node.shape)


class Theano(LineageBackend):
    """The part common to both of Theano's backends: older names, and types without lengths."""

    package = "theano"
    added: tuple[str, ...] = (
        *LineageBackend.added,
        "products of matrices without elements",
        "Theano's loops in Python, as those in C do not compile for this Python",
        *OF_SINGLE,
        IN_C,
    )
    flags = "THEANO_FLAGS"
    separator = "."
    left_out: ClassVar[tuple[str, ...]] = rewrites.LEFT_OUT
    # Its ShapeFeature takes a constant shape for an unknown one (theano/tensor/opt.py: unpack).
    folds_lengths = False
    keeps_steps = True
    most_orders = 2  # it has the same Scan as Aesara
    machine = "fn"
    modules: ClassVar[Mapping[str, str]] = {
        "graph.basic": "gof.graph", "graph.op": "gof.op", "link.c.basic": "gof.cc", "link.c.cmodule": "gof.cmodule",
        "link.c.cvm": "gof.vm",
        "tensor.rewriting.math": "tensor.opt", "tensor.shape": "compile.ops", "scan.utils": "scan_module.scan_utils",
        "raise_op": "tensor.opt", "graph.features": "gof.toolbox",
    }  # fmt: skip
    rows: ClassVar[Mapping[str, LoweringRow]] = {
        **C_ROWS,
        "matmul": _matmul,
        "take_set": partial(written_as, "take_set"),
    }

    def _wanted(self) -> dict[str, str]:
        # Without flags for BLAS, the import asks NumPy's old distutils and fails (default_blas_ldflags). A process that
        # waits for another one's compilation polls every second or two, not every five to ten.
        return {"blas.ldflags": "", "compile.wait": "1", **super()._wanted()}

    def import_framework(self) -> None:
        super().import_framework()
        # The C code of its loops (Cython of 2019) does not compile for Python 3.11: they are in Python (make_thunk).
        sys.modules["theano.scan_module.scan_perform_ext"] = None  # type: ignore[assignment]

    def prepare(self) -> None:
        super().prepare()
        rewrites.keep_lengths(self.module("tensor.opt"))

    def changed_flags(self, **flags: Any) -> Any:
        return self.framework.change_flags(**flags)

    def variable(self, node: Node, name: str) -> Variable:
        variable = self.T.TensorType(node.dtype.value, ones(node))(name=name)
        variable.tag.lengths = node.shape
        return variable

    def _exact(self, variable: Variable, aval: Aval) -> Variable:
        if variable.dtype != aval.dtype.value:
            variable = self.T.cast(variable, aval.dtype.value)
        if variable.broadcastable != ones(aval):
            variable = self.T.patternbroadcast(variable, ones(aval))
        variable.tag.lengths = aval.shape
        return variable


def ones(value: Node | Aval | SharedVariable) -> tuple[bool, ...]:
    """The part of a shape in Theano's types: whether each axis has the length 1, and so broadcasts."""
    return tuple(length == 1 for length in value.shape)


class TheanoC(CMode, Theano):
    """Theano's default."""
