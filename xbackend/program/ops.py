"""The op set: one table with the name, the shape and dtype rule and the operation count of every op.

Names and meaning are the Array API standard's. The table holds primitives only. Tracing composes all other functions of
them (`xbackend.api.functions`), so an adapter has little to lower and a program is explicit. Once an op is in a program

* all arrays of an elementwise op have the same dtype (`astype` ops were inserted), their shapes broadcast;
* reductions have a sorted tuple of non-negative axes, drop them, and keep the dtype (sums of int32 are cast before);
* ops that are `Op.widened` have no unsigned integers: tracing casts operands to wider ones, and the result back;
* `argmax` and `argmin` have one non-negative axis, drop it, and give int64;
* `matmul` has two arrays of the same rank (at least 2) with equal leading axes;
* `slice` has explicit starts, stops and steps for every axis (a stop is None where a negative step runs off the front);
* `take` has one array of indices (of any rank) for one non-negative axis; negative indices count from the end;
* `slice_set`, `slice_add`, `take_set` and `take_add` replace, or add to, the elements of their first array that `slice`
  or `take` would read. The last array has the shape of these. `take_add` adds both where an index occurs twice;
* `solve` and `solve_triangular` have two arrays of the same rank (at least 2) with equal leading axes; matrices of
  `eigh`, `eigvalsh` and `cholesky` are symmetric; `cholesky` gives a lower triangle, and its gradient is symmetric;
* `all_reduce` is the sum of its arrays, each times its share if it has ``shares``. Result ``k`` is for the device of
  array ``k``. Binding leaves only the sum over tasks of it, and makes the rest sums and transfers;
* the bodies of `scan`, `while_loop` and `cond` are programs whose inputs are all that they use: they have no shared
  variables, no transfers, and no devices but their node's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from xbackend.program import convolution, shapes, sorting
from xbackend.program import linear_algebra as matrices
from xbackend.program.aval import Aval
from xbackend.program.shapes import Avals, Count, Params, Rule, require


@dataclass(frozen=True, slots=True)
class Param:
    """The type of a parameter: one item of these types, or a tuple of them (``many``). Reading a program checks it."""

    types: tuple[type, ...] = (int,)
    many: bool = False


INTEGER, INTEGERS = Param(), Param(many=True)
AXIS, AXES = Param(), Param(many=True)  # not negative; several are sorted
SHAPE, STOPS = Param(many=True), Param((int, type(None)), many=True)
FLAG, TEXT, DTYPE = Param((bool,)), Param((str,)), Param((str,))
NUMBER, FILL, SHARES = Param((int, float)), Param((int, float, bool)), Param((float,), many=True)
ARRAY, BODY = Param(()), Param(())  # an array; a program


@dataclass(frozen=True, slots=True, eq=False)
class Op:
    """One row of the table.

    Attributes:
        arity: the number of inputs, -1 for one or more.
        takes: the kind of the common dtype of all inputs; empty where ``rule`` checks the dtypes.
        rule: shapes and dtypes of the results.
        count: the number of arithmetic operations; `None` where it is not counted, and reported so.
        params: its parameters by name.
        several: ``rule`` returns a tuple, of any number of results.
        view: a result may share the memory of its input.
        refuses: some framework raises an error for some numbers: singular matrices, indices out of range, loops above
            their limit of steps.
    """

    name: str
    arity: int
    takes: str
    rule: Rule
    count: Count | None
    params: Mapping[str, Param]
    several: bool = False
    view: bool = False
    refuses: bool = False

    @property
    def widened(self) -> bool:
        """Whether tracing casts unsigned integers to a wider dtype, in which the result has the same last bits. Not
        every framework computes with unsigned ones: TensorFlow's optimiser and PyTensor's rewrites replace 0 - x by a
        negation, which they lack for these."""
        return self.takes == "signed"

    def results(self, avals: Avals, params: Params) -> tuple[Aval, ...]:
        """Shapes and dtypes of all results. Raises `ShapeError`, `DTypeError`."""
        if self.takes:
            require(self.name, avals, self.takes)
        found = self.rule(self.name, avals, params)
        return found if self.several else (found,)


_ROWS: list[Op] = []


def _op(
    names: str,
    arity: int,
    takes: str,
    rule: Rule,
    count: Count | None,
    *,
    several: bool = False,
    view: bool = False,
    refuses: bool = False,
    **params: Param,
) -> None:
    """A row for each of these names."""
    said = MappingProxyType(params), several, view, refuses
    _ROWS.extend(Op(name, arity, takes, rule, count, *said) for name in names.split())


# Elementwise: one operation for each element of the result, to which the inputs broadcast. Rounding needs no op for
# integers.
_op("abs negative sign square", 1, "signed", shapes.elementwise, shapes.each_result)
_op("floor ceil trunc round", 1, "floating-point", shapes.elementwise, shapes.each_result)
_op("exp expm1 log log1p log2 log10 sqrt", 1, "floating-point", shapes.elementwise, shapes.each_result)
_op("sin cos tan asin acos atan", 1, "floating-point", shapes.elementwise, shapes.each_result)
_op("sinh cosh tanh asinh acosh atanh", 1, "floating-point", shapes.elementwise, shapes.each_result)
_op("erf erfc erfinv gammaln digamma expit", 1, "floating-point", shapes.elementwise, shapes.each_result)
_op("isnan isinf isfinite", 1, "floating-point", shapes.predicate, shapes.each_result)
_op("logical_not", 1, "bool", shapes.elementwise, shapes.each_result)
_op("add multiply maximum minimum", 2, "numeric", shapes.elementwise, shapes.each_result)
_op("subtract floor_divide remainder pow", 2, "signed", shapes.elementwise, shapes.each_result)
_op("divide atan2", 2, "floating-point", shapes.elementwise, shapes.each_result)
_op("equal not_equal", 2, "any", shapes.predicate, shapes.each_result)
_op("less less_equal greater greater_equal", 2, "numeric", shapes.predicate, shapes.each_result)
_op("logical_and logical_or logical_xor", 2, "bool", shapes.elementwise, shapes.each_result)
_op("bitwise_invert", 1, "integer", shapes.elementwise, shapes.each_result)
_op("bitwise_and bitwise_or bitwise_xor", 2, "integer", shapes.elementwise, shapes.each_result)
_op("where", 3, "", shapes.where, shapes.each_result)

# Reductions, along axes and along one.
_op("sum prod", 1, "signed", shapes.reduction, shapes.each_input, axis=AXES)
_op("max min", 1, "signed", shapes.extremum, shapes.each_input, axis=AXES)
_op("mean", 1, "floating-point", shapes.reduction, shapes.each_input, axis=AXES)
_op("any all", 1, "bool", shapes.reduction, shapes.each_input, axis=AXES)
_op("argmax argmin", 1, "signed", shapes.position, shapes.each_input, axis=AXIS)
_op("cumulative_sum cumulative_prod", 1, "signed", shapes.same, shapes.each_input, axis=AXIS)
_op("sort", 1, "signed", shapes.same, sorting.comparisons, axis=AXIS)
_op("argsort", 1, "signed", sorting.argsort, sorting.comparisons, axis=AXIS)
_op("searchsorted", 2, "signed", sorting.searchsorted, sorting.halvings, right=INTEGER)

# Ops that move and write elements.
_op("reshape", 1, "", shapes.reshape, shapes.free, view=True, shape=SHAPE)
_op("permute_dims", 1, "", shapes.permute_dims, shapes.free, view=True, axes=INTEGERS)
_op("broadcast_to", 1, "", shapes.broadcast_to, shapes.free, view=True, shape=SHAPE)
_op("diagonal", 1, "any", matrices.diagonal, shapes.free, view=True, offset=INTEGER)
_SLICES: Mapping[str, Any] = {"starts": INTEGERS, "stops": STOPS, "steps": INTEGERS}
_op("slice", 1, "", shapes.slice_, shapes.free, view=True, **_SLICES, drop=INTEGERS)
_op("slice_set", 2, "", shapes.written(shapes.slice_), shapes.free, **_SLICES)
_op("slice_add", 2, "", shapes.written(shapes.slice_), shapes.each_added, **_SLICES)
_op("take", 2, "", shapes.take, shapes.free, refuses=True, axis=AXIS)
_op("take_along_axis", 2, "", shapes.take_along_axis, shapes.free, refuses=True, axis=AXIS)
_op("take_set", 3, "", shapes.written(shapes.take), shapes.free, refuses=True, axis=AXIS)
_op("take_add", 3, "", shapes.written(shapes.take), shapes.each_added, refuses=True, axis=AXIS)
_op("concat", -1, "any", shapes.concat, shapes.free, axis=AXIS)
_op("stack", -1, "any", shapes.stack, shapes.free, axis=AXIS)
_op("astype", 1, "", shapes.astype, shapes.free, dtype=DTYPE)

# Products and matrices. Eigenvalues and singular values come from iterations whose number depends on the values.
_op("matmul", 2, "signed", shapes.matmul, shapes.matmul_count)
_op("conv2d", 2, "floating-point", convolution.conv2d, convolution.products, strides=INTEGERS, padding=INTEGERS)
_op("cholesky", 1, "floating-point", matrices.same_matrices, matrices.cubic(1, 3), refuses=True)
_op("inv", 1, "floating-point", matrices.same_matrices, matrices.cubic(2), refuses=True)
_op("det", 1, "floating-point", matrices.determinant, matrices.cubic(2, 3), refuses=True)
_op("slogdet", 1, "floating-point", matrices.slogdet, matrices.cubic(2, 3), several=True, refuses=True)
_op("solve", 2, "floating-point", matrices.equations, matrices.elimination, refuses=True)
_op("solve_triangular", 2, "floating-point", matrices.equations, matrices.substitution, refuses=True, lower=INTEGER)
_op("eigh", 1, "floating-point", matrices.eigh, None, several=True, refuses=True)
_op("eigvalsh", 1, "floating-point", matrices.eigvalsh, None, refuses=True)
_op("svdvals", 1, "floating-point", matrices.svdvals, None, refuses=True)
_op("qr", 1, "floating-point", matrices.qr, None, several=True, refuses=True, full=INTEGER)
_op("svd", 1, "floating-point", matrices.svd, None, several=True, refuses=True, full=INTEGER)

# Loops and choices. The number of steps of a `while_loop` is unknown.
_SCAN: Mapping[str, Any] = {"body": BODY, "carries": INTEGER, "sequences": INTEGER, "length": INTEGER, "reverse": FLAG}
_op("scan", -1, "", shapes.scan, shapes.each_step, several=True, **_SCAN)
_WHILE: Mapping[str, Any] = {"condition": BODY, "body": BODY, "carries": INTEGER}
_op("while_loop", -1, "", shapes.while_loop, None, several=True, refuses=True, **_WHILE)
_op("cond", -1, "", shapes.cond, shapes.dearer, several=True, then=BODY, otherwise=BODY)

# Sources have no inputs. `input` and `shared` get their values from outside, the others from their parameters.
_op("input shared", 0, "", shapes.declared, shapes.free, name=TEXT, shape=SHAPE, dtype=DTYPE)
_op("constant", 0, "", shapes.constant, shapes.free, value=ARRAY)
_op("full", 0, "", shapes.declared, shapes.free, shape=SHAPE, dtype=DTYPE, fill_value=FILL)
_op("arange", 0, "", shapes.declared, shapes.free, start=NUMBER, step=NUMBER, shape=SHAPE, dtype=DTYPE)
_op("eye", 0, "", shapes.declared, shapes.free, k=INTEGER, shape=SHAPE, dtype=DTYPE)

# `transfer` moves its input to the device of its node. `grad` has the gradients of its first input, a scalar, with
# respect to each other input, on the devices of these. The operations of a framework's own gradient are not counted.
_op("transfer", 1, "", shapes.same, shapes.free)
_op("grad", -1, "", shapes.gradients, None, several=True)
_op("all_reduce", -1, "", shapes.all_reduce, shapes.all_reduce_count, several=True, shares=SHARES, tasks=INTEGER)

OPS: Mapping[str, Op] = {row.name: row for row in _ROWS}
SOURCES = frozenset(name for name, op in OPS.items() if op.arity == 0)
GENERATORS = SOURCES - {"input", "shared"}
ELEMENTWISE = frozenset(name for name, op in OPS.items() if op.count is shapes.each_result)
# Names of the parameters that are bodies of loops and choices.
BODIES = tuple(dict.fromkeys(name for op in OPS.values() for name, kind in op.params.items() if kind is BODY))
