"""Linear algebra lowered to the Theano lineage, in rows as in `ops`. PyTensor has it for stacks of matrices, Aesara and
Theano for single ones. An op that a generation lacks is made here of its classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from xbackend.backends.lineage import factors
from xbackend.backends.lineage.shapes import lengths
from xbackend.backends.rows import LoweringRow
from xbackend.errors import UnsupportedOperation
from xbackend.program.aval import Aval
from xbackend.program.ops import OPS
from xbackend.program.program import Node

MOST_MATRICES = 64  # of a stack, lowered one after the other; a larger stack is a loop over its matrices
# In `Backend.added`, of generations with linear algebra of stacks, and of single matrices.
OF_STACKS = ("slogdet with a gradient", "the gradient of cholesky as a symmetric matrix")
OF_SINGLE = ("a stack of matrices as one matrix after the other", *OF_STACKS, factors.FACTORS)

Matrices = Callable[[Any, Node, Sequence[Any]], Sequence[Any]]


@cache
def found(T: Any, *names: str) -> Any:
    """The function or class of linear algebra, by the first of its names that this generation has."""
    for name in names:
        for module in ("linalg", "nlinalg", "slinalg"):
            try:
                home = import_module(f"{T.__name__}.{module}")
            except ImportError:
                continue
            if hasattr(home, name):
                return getattr(home, name)
    raise UnsupportedOperation(f"{T.__name__} has no {names[0]}")


def has_stacks(T: Any) -> bool:
    return hasattr(T, "blockwise")


def of_single_matrices(T: Any) -> list[Any]:
    """The classes of ops of linear algebra, this file's own among them, of a generation without stacks of matrices."""
    op = next(kind for kind in type(found(T, "cholesky")).__mro__ if kind.__name__ == "Op")
    named = [k for name in ("nlinalg", "slinalg") for k in vars(import_module(f"{T.__name__}.{name}")).values()]
    kinds = [k for k in named if isinstance(k, type) and issubclass(k, op) and k is not op]
    for kind in kinds:  # which grows
        kinds += [k for k in kind.__subclasses__() if k not in kinds]
    return kinds


def _shapes(node: Node, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    avals = [Aval(shape, node.results[0].dtype) for shape in shapes]
    return [result.shape for result in OPS[node.op].results(avals, node.params)]


def few(name: str, T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """A row for a mode without loops, which refuses large stacks."""
    count = prod(lengths(inputs[0])[:-2])
    if count > MOST_MATRICES:
        raise UnsupportedOperation(
            f"{T.__name__} has linear algebra of single matrices only, and of the {count} in this stack one after "
            f"the other would be compiled, for which {MOST_MATRICES} is the most that xbackend does; take another "
            "mode, or pytensor: https://github.com/pymc-devs/pytensor/pull/306"
        )
    return ROWS[name](T, node, inputs)


def _several(matrices: Matrices, T: Any, node: Node, inputs: Sequence[Any]) -> Sequence[Any]:
    """All results of a function of single matrices, for stacks of matrices."""
    shapes = [lengths(x) for x in inputs]
    leading = shapes[0][:-2]
    count = prod(leading)
    if not leading or has_stacks(T):
        return matrices(T, node, inputs)
    wanted = _shapes(node, shapes)
    if not count:
        nothing = T.constant(0, dtype=node.results[0].dtype.value)
        return [T.alloc(nothing, *shape) for shape in wanted]
    flat = [T.reshape(x, (count, *s[-2:]), ndim=3) for x, s in zip(inputs, shapes, strict=True)]

    def single(*each: Any) -> list[Any]:
        for matrix, shape in zip(each, shapes, strict=True):
            matrix.tag.lengths = shape[-2:]
        return [*matrices(T, node, each)]

    if count > MOST_MATRICES:  # by the framework's loop, as its users write it
        scan = import_module(T.__name__.partition(".")[0]).scan
        stacks, _ = scan(single, sequences=flat, outputs_info=[None] * len(wanted), return_list=True)
    else:
        each = [single(*(x[i] for x in flat)) for i in range(count)]
        stacks = [T.stack(list(results)) for results in zip(*each, strict=True)]
    return [T.reshape(s, shape, ndim=len(shape)) for s, shape in zip(stacks, wanted, strict=True)]


def _one(matrix: Callable[..., Any], T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    return _several(lambda T, node, inputs: [matrix(T, node, *inputs)], T, node, inputs)[0]


def gradient_of(kind: Any) -> str:
    """The name of the method that is the gradient of a class of ops, which PyTensor 3 changed."""
    return "pullback" if hasattr(kind, "pullback") else "L_op"


def _with_gradient(kind: Any, gradient: Callable[..., Any]) -> Any:
    return type(kind)(kind.__name__, (kind,), {gradient_of(kind): gradient})


@cache
def _with_symmetric_gradient(kind: Any) -> Any:
    """The generation's Cholesky, whose gradient is that of the lower triangle only."""
    theirs = getattr(kind, gradient_of(kind))

    def gradient(self: Any, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        (lower,) = theirs(self, inputs, outputs, cotangents)
        return [(lower + lower.T) * 0.5]

    return _with_gradient(kind, gradient)


def _cholesky(T: Any, node: Node, x: Any) -> Any:
    op: Any = found(T, "cholesky")
    if not has_stacks(T):
        return _with_symmetric_gradient(op.__class__)()(x)
    theirs = op(x).owner.op
    return type(theirs)(_with_symmetric_gradient(theirs.core_op.__class__)())(x)


def _solve(T: Any, node: Node, a: Any, b: Any) -> Any:
    return found(T, "solve")(a, b, **({"b_ndim": 2} if has_stacks(T) else {}))


def _solve_triangular(T: Any, node: Node, a: Any, b: Any) -> Any:
    lower = bool(node.params["lower"])
    solve = found(T, "solve_triangular", "solve_lower_triangular" if lower else "solve_upper_triangular")
    if hasattr(solve, "make_node"):  # Theano's are ops, one for each triangle
        return solve(a, b)
    return solve(a, b, lower=lower, **({"b_ndim": 2} if has_stacks(T) else {}))


@cache
def logarithm_of_determinant(T: Any) -> Any:
    """An op of the sign and the logarithm of the determinant, with a gradient. PyTensor's has none, and its
    log(abs(det(x))) overflows; the others have none at all."""
    inverse = found(T, "matrix_inverse")

    def gradient(self: Any, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        (x,), by_logarithm = inputs, cotangents[1]
        if not hasattr(by_logarithm.type, "dtype"):  # nothing depends on it, and the sign is constant
            return [T.zeros_like(x)]
        return [by_logarithm * T.transpose(inverse(x))]

    if has_stacks(T):
        return T.blockwise.Blockwise(_with_gradient(found(T, "SLogDet"), gradient)())
    det = found(T, "det")(T.matrix()).owner
    return _own(type(det.op).__mro__[1], type(det), T, gradient)()


def _own(op: type, apply: type, T: Any, gradient: Callable[..., Any]) -> type:
    class SLogDet(op):  # type: ignore[misc]
        __props__ = ()

        def make_node(self, x: Any) -> Any:
            x = T.as_tensor_variable(x)
            return apply(self, [x], [T.scalar(dtype=x.dtype), T.scalar(dtype=x.dtype)])

        def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
            for storage, number in zip(output_storage, np.linalg.slogdet(inputs[0]), strict=True):
                storage[0] = np.asarray(number, inputs[0].dtype)

        def infer_shape(self, *arguments: Any) -> Any:
            return [(), ()]

        def L_op(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
            return gradient(self, inputs, outputs, cotangents)

    return SLogDet


def _factors(T: Any, function: Any, x: Any, **options: Any) -> Sequence[Any]:
    """All results of a factorization, with a gradient where the generation has none."""
    results: Sequence[Any] = function(x, **options)
    if not has_stacks(T):
        op = results[0].owner.op
        results = factors.differentiable(T, op.__class__, _upper(T))(op, lengths(x))(x)
    return results


@cache
def _upper(T: Any) -> Callable[[Any, Any], Any]:
    solve = found(T, "solve_triangular", "solve_upper_triangular")
    return solve if hasattr(solve, "make_node") else partial(solve, lower=False)


def _qr(T: Any, node: Node, inputs: Sequence[Any]) -> Sequence[Any]:
    if lengths(inputs[0])[-2:] == (1, 1):  # LAPACK reflects nothing; Aesara has no gradient of its gradient in JAX
        return [T.ones_like(inputs[0]), inputs[0]]
    return _factors(T, found(T, "qr"), inputs[0], mode="complete" if node.params["full"] else "reduced")


def _svd(T: Any, node: Node, inputs: Sequence[Any]) -> Sequence[Any]:
    return _factors(T, found(T, "svd"), inputs[0], full_matrices=bool(node.params["full"]))


def _eigh(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """A number is its own eigenvalue: the second gradient would be 0 / 0 (EighGrad of PyTensor)."""
    x = inputs[0]
    if lengths(x)[-2:] != (1, 1):
        return found(T, "eigh")(x)
    return [T.reshape(x, lengths(x)[:-1], ndim=x.ndim - 1), T.ones_like(x)]


def diagonal_by_slices(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """A diagonal as a slice of the flat matrix: for stacks, and for generations without its gradient."""
    shape, offset = lengths(inputs[0]), node.params["offset"]
    rows, columns = shape[-2:]
    first, count = offset if offset >= 0 else -offset * columns, node.shape[-1]
    flat = T.reshape(inputs[0], (*shape[:-2], rows * columns), ndim=len(node.shape))
    return flat[..., first : first + (count - 1) * (columns + 1) + 1 if count else first : columns + 1]


def _diagonal(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    shape = lengths(inputs[0])
    # The gradient of Aesara and Theano is right for the main diagonal of a square matrix only.
    main = node.params["offset"] == 0 and shape[-1] == shape[-2]
    if len(node.shape) > 1 or not node.aval.size or not (main or has_stacks(T)):
        return diagonal_by_slices(T, node, inputs)
    return T.diagonal(inputs[0], offset=node.params["offset"])


def _eigvalsh(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    return ROWS["eigh"](T, replace(node, op="eigh"), inputs)[0]


def _svdvals(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """Singular values beside the vectors: PyTensor leaves unused results out, and the others have no gradient."""
    return ROWS["svd"](T, replace(node, op="svd", params={"full": 0}), inputs)[1]


ROWS: Mapping[str, LoweringRow] = {
    "cholesky": partial(_one, _cholesky),
    "inv": partial(_one, lambda T, node, x: found(T, "matrix_inverse")(x)),
    "det": partial(_one, lambda T, node, x: found(T, "det")(x)),
    "slogdet": partial(_several, lambda T, node, inputs: logarithm_of_determinant(T)(inputs[0])),
    "solve": partial(_one, _solve),
    "solve_triangular": partial(_one, _solve_triangular),
    "eigh": partial(_several, _eigh),
    "eigvalsh": _eigvalsh,
    "qr": partial(_several, _qr),
    "svd": partial(_several, _svd),
    "svdvals": _svdvals,
    "diagonal": _diagonal,
}
WITHOUT_LOOPS: Mapping[str, LoweringRow] = {name: partial(few, name) for name in ROWS}
"""Those of a mode that has no loops."""
