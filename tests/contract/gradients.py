"""The checks of gradients, and their arrays: no ties, no kinks, inside of every domain."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from batches import Batch, Check, in_turns
from kinks import known
from tolerances import CHAIN

import xbackend as xb
from xbackend.program.dtypes import DType

Loss = Callable[..., Any]


def numbers(shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Different numbers between 0.1 and 0.9, none near a half."""
    size = int(np.prod(shape))
    values = np.linspace(0.1, 0.9, 2 * size + 1)[1::2] + 0.003
    return np.random.default_rng(seed).permutation(values).reshape(shape)


X, ROW, OTHER, SQUARE, STACK = (
    numbers((3, 4), 0), numbers((4,), 1), numbers((3, 4), 2) + 0.05, numbers((3, 3), 3), numbers((2, 4, 3), 4)
)  # fmt: skip
WEIGHTS = numbers((3, 4), 5)


def weighted(value: Any) -> Any:
    """A sum with a different weight for each element, so no two gradients are equal by accident."""
    weights = xb.reshape(xb.linspace(0.5, 1.5, value.size), value.shape)
    return xb.sum(value * xb.astype(weights, value.dtype))


# Iterative algorithms (see `linear_algebra.ITERATED`), and the lineage's C code that ends a series early.
LIMITS = {
    label: {"float32": 2e-3, "float64": 1e-7} for label in ("eigh", "eigvalsh", "svdvals", "pinv", "gammaln", "digamma")
}


def _definite(x: Any) -> Any:
    return x @ x.mT + 2.0 * xb.eye(x.shape[-2], dtype=x.dtype)


def _exponential(x: Any) -> Any:
    values, vectors = xb.linalg.eigh(x)
    return (vectors * xb.exp(values)) @ vectors.T


UNARY = "abs negative square exp expm1 log log1p log2 log10 sqrt sin cos tan asin acos atan sinh cosh tanh asinh atanh"


# One argument, with its gradient.
def _number(x: Any) -> Any:
    """A matrix of one element."""
    return xb.reshape(xb.sum(x * x), (1, 1))


def _twice(function: Callable[[Any], Any], x: Any) -> Any:
    """A function of a gradient, for a second gradient."""
    return xb.sum(xb.sin(xb.grad(function(x), x)))


def _of_a_number(x: Any) -> Any:
    return xb.linalg.solve_triangular(xb.linalg.cholesky(x), x) + xb.linalg.eigh(x).eigenvalues * xb.linalg.eigvalsh(x)


ONE: dict[str, tuple[Loss, np.ndarray]] = {
    **{op: ((lambda x, op=op: getattr(xb, op)(x)), X) for op in UNARY.split()},
    "acosh": (lambda x: xb.acosh(x + 1.0), X),
    "floor": (lambda x: xb.floor(x * 7.0) * x, X),
    "sign": (lambda x: xb.sign(x - 0.5) * x, X),
    "round": (lambda x: xb.round(x * 3.0) * x, X),
    "pow_number": (lambda x: x**3, X),
    "pow_of_number": (lambda x: 2.0**x, X),
    "remainder": (lambda x: xb.remainder(x, 0.37), X),
    "maximum_number": (lambda x: xb.maximum(x, 0.5), X),
    "clip": (lambda x: xb.clip(x, 0.3, 0.7), X),
    "where": (lambda x: xb.where(x > 0.5, x * x, xb.sqrt(x)), X),
    "where_nan_elsewhere": (lambda x: xb.where(x > 0.5, x, xb.zeros_like(x)) * x, X),
    "sum_axis": (lambda x: xb.sum(x, axis=0) ** 2, X),
    "sum_keepdims": (lambda x: x / xb.sum(x, axis=1, keepdims=True), X),
    "prod": (lambda x: xb.prod(x, axis=1), X),
    "prod_with_zeros": (lambda x: xb.prod(x, axis=1), np.array([[0.0, 2.0, 3.0], [0.5, 0.0, 0.0]])),
    "mean": (lambda x: xb.mean(x, axis=(0, 1)) * x, X),
    "max": (lambda x: xb.max(x, axis=1), X),
    "min_all": (lambda x: xb.min(x) * x, X),
    "var": (lambda x: xb.var(x, axis=0), X),
    "std": (lambda x: xb.std(x, axis=1, correction=1), X),
    "cumulative_sum": (lambda x: xb.cumulative_sum(x, axis=1) ** 2, X),
    "slice": (lambda x: x[1:, ::2] ** 2, X),
    "slice_negative_step": (lambda x: x[::-1, 3:0:-2] ** 2 * X[:, :2], X),
    "slice_twice": (lambda x: x[0] * x[1, ::-1], X),
    "take": (lambda x: xb.take(x, [1, 0, 1, 3], axis=1) ** 2, X),
    "take_of_others": (lambda x: x[np.array([2, 0, 2])] * x[[0, 1, 2]], X),
    "take_along_axis": (lambda x: xb.take_along_axis(x, np.array([[0, 0], [1, 3], [2, 1]]), axis=1) ** 2, X),
    "slice_set": (lambda x: xb.at(x)[:, 1:3].set(x[:, :2] ** 2) * x, X),
    "slice_add": (lambda x: xb.at(x)[1:, ::2].add(x[:2, 1::2] ** 2) * x, X),
    "slice_add_most": (lambda x: xb.at(x)[1:, 1:].add(x[1:, 1:] ** 2) * x, X),
    "take_set": (lambda x: xb.at(x)[[2, 0]].set(x[:2] ** 2) * x, X),
    "take_add": (lambda x: xb.at(x)[np.array([1, 1, 0])].add(x**2) * x, X),
    "integer_index": (lambda x: x[1, 2] * x[:, 0], X),
    "concat": (lambda x: xb.concat([x, x[:1] ** 2, x * 3.0], axis=0) ** 2, X),
    "stack": (lambda x: xb.stack([x[0], x[2] ** 2], axis=1) ** 2, X),
    "reshape": (lambda x: xb.reshape(x, (2, 6)) ** 2, X),
    "permute_dims": (lambda x: xb.permute_dims(x, (2, 0, 1)) ** 2, STACK),
    "broadcast_to": (lambda x: xb.broadcast_to(x, (3, 4)) * X, ROW),
    "astype_through_float32": (lambda x: xb.astype(xb.astype(x, xb.float32), xb.float64) ** 2, X),
    "matrix_power": (lambda x: xb.linalg.matrix_power(x, 5), SQUARE),
    "matmul_with_itself": (lambda x: x.T @ x, X),
    "matmul_vector": (lambda x: X @ x, ROW),
    "erf": (xb.erf, X),
    "erfc": (xb.erfc, X),
    "erfinv": (lambda x: xb.erfinv(x * 0.4), X),
    "gammaln": (lambda x: xb.gammaln(x * 5.0), X),
    "digamma": (lambda x: xb.digamma(x * 5.0), X),
    "expit": (lambda x: xb.expit(x * 9.0 - 4.0), X),
    "log1mexp": (lambda x: xb.log1mexp(-x), X),
    "logsumexp": (lambda x: xb.logsumexp(x * 30.0, axis=1), X),
    "sort": (lambda x: xb.sort(x, axis=0) ** 2, X),
    "sort_descending": (lambda x: xb.sort(x, axis=1, descending=True) ** 2, X),
    "cumulative_prod": (lambda x: xb.cumulative_prod(x, axis=1), X),
    "diagonal": (lambda x: xb.linalg.diagonal(x, offset=1) ** 2, X),
    "diagonal_of_stack": (lambda x: xb.linalg.diagonal(x) ** 2, STACK),
    "cholesky": (lambda x: xb.linalg.cholesky(_definite(x)), SQUARE),
    "cholesky_upper": (lambda x: xb.linalg.cholesky(_definite(x), upper=True) ** 2, SQUARE),
    "cholesky_of_stack": (lambda x: xb.linalg.cholesky(_definite(x)), STACK),
    "inv": (lambda x: xb.linalg.inv(x + 2.0 * np.eye(3)), SQUARE),
    "det": (lambda x: xb.linalg.det(x + 2.0 * np.eye(3)), SQUARE),
    "slogdet": (lambda x: xb.linalg.slogdet(_definite(x)).logabsdet, STACK),
    "eigvalsh": (lambda x: xb.linalg.eigvalsh(_definite(x)), SQUARE),
    "eigh": (lambda x: _exponential(_definite(x)), SQUARE),
    "qr": (lambda x: xb.square(xb.linalg.qr(x.T).R), X),
    "svdvals": (xb.linalg.svdvals, X),
    "svdvals_of_a_number": (lambda x: xb.linalg.svdvals(xb.reshape(xb.sum(x), (1, 1))), X),
    "eigh_of_a_number_twice": (lambda x: _twice(lambda y: xb.sum(xb.sin(xb.linalg.eigh(y)[0])), _number(x)), X),
    "qr_of_a_number_twice": (lambda x: _twice(lambda y: xb.sum(xb.square(xb.linalg.qr(y)[1])), _number(x)), X),
    "solve_of_a_number": (lambda x: _of_a_number(xb.reshape(xb.sum(x * x), (1, 1))), X),
    "pinv": (xb.linalg.pinv, X),
    "matrix_norm": (xb.linalg.matrix_norm, STACK),
    "einsum": (lambda x: xb.einsum("bij,bkj,ik->bj", x, x, WEIGHTS.T @ WEIGHTS), STACK),
    "conv2d": (lambda x: xb.conv2d(x[..., None], x[:, :2, :2].mT[..., None, :], strides=2, padding="SAME"), STACK),
    "used_in_three_places": (lambda x: xb.sin(x) * x + xb.exp(x[::-1]), X),
}
# Two arguments, with both gradients.
TWO: dict[str, tuple[Loss, np.ndarray, np.ndarray]] = {
    "add_broadcast": (lambda x, y: (x + y) ** 2, X, ROW),
    "subtract": (lambda x, y: (x - y) ** 3, X, OTHER),
    "multiply_broadcast": (lambda x, y: x * y, X, ROW),
    "divide": (lambda x, y: x / y, X, OTHER),
    "divide_broadcast": (lambda x, y: y[:, None] / x[:, :1].T, X, ROW),
    "pow": (xb.pow, X, OTHER),
    "atan2": (xb.atan2, X, OTHER),
    "maximum": (xb.maximum, X, OTHER),
    "minimum": (xb.minimum, X, OTHER),
    "matmul": (lambda x, y: x @ y.T, X, OTHER),
    "matmul_stack": (xb.matmul, X, STACK),
    "solve": (lambda x, y: xb.linalg.solve(x + 2.0 * np.eye(3), y), SQUARE, OTHER),
    "solve_vector": (lambda x, y: xb.linalg.solve(x + 2.0 * np.eye(4), y), numbers((4, 4), 6), ROW),
    "solve_triangular": (lambda x, y: xb.linalg.solve_triangular(x + np.eye(3), y, lower=True), SQUARE, OTHER),
    "solve_triangular_upper": (lambda x, y: xb.linalg.solve_triangular(x + np.eye(3), y), SQUARE, OTHER),
    "solve_of_stacks": (lambda x, y: xb.linalg.solve(_definite(x), y), STACK, STACK[:, ::-1] + 0.1),
    "logaddexp": (lambda x, y: xb.logaddexp(x * 9.0, y * 9.0), X, OTHER),
    "hypot": (xb.hypot, X, OTHER),
    "tensordot": (lambda x, y: xb.tensordot(x, y, axes=([0, 1], [2, 1])), X, STACK),
}


def _gradient(loss: Loss, number: int) -> Loss:
    return lambda *arrays: xb.grad(weighted(loss(*arrays)), arrays[number])


def _second(loss: Loss) -> Loss:
    def function(x: Any) -> Any:
        return xb.grad(weighted(xb.grad(weighted(loss(x)), x) ** 2), x)

    return function


SECOND = (
    "square", "exp", "log", "sqrt", "sin", "tanh", "pow_number", "where", "sum_keepdims", "slice_negative_step",
    "concat", "reshape", "matmul_with_itself", "used_in_three_places", "take", "slice_set", "take_add",
    "cholesky", "slogdet", "sort", "erf",
)  # fmt: skip


# Gradients consist of the same ops in both dtypes. These show that they keep the dtype of their argument.
IN_FLOAT32 = ("exp", "sum_keepdims", "mean", "slice_negative_step", "concat", "where", "pow_number", "matmul", "divide")


# One for each way of lowering a gradient. The others are variants.
CORE = frozenset(
    {"exp", "pow_number", "where_nan_elsewhere", "sum_keepdims", "prod_with_zeros", "max", "cumulative_sum"}
    | {"slice_negative_step", "integer_index", "concat", "stack", "reshape", "permute_dims", "broadcast_to"}
    | {"take", "take_along_axis", "slice_set", "slice_add", "take_set", "take_add"}
    | {"cholesky", "slogdet", "solve", "solve_triangular", "eigh", "qr", "svdvals", "gammaln", "sort", "expit"}
    | {"cumulative_prod", "diagonal", "conv2d", "erf", "digamma"}
    | {"astype_through_float32", "matrix_power", "multiply_broadcast", "divide", "matmul_stack"}
)
CORE_IN_FLOAT32 = frozenset({"mean"})
CORE_OF_SECOND = frozenset({"tanh", "matmul_with_itself"})


def first_order(dtype: DType) -> Batch:
    def as_dtype(x: np.ndarray) -> np.ndarray:
        return _cast.setdefault((id(x), dtype), x.astype(dtype.value))

    def wanted(label: str) -> bool:
        return dtype is DType.float64 or label in IN_FLOAT32

    core = CORE if dtype is DType.float64 else CORE_IN_FLOAT32
    checks = [
        Check(
            f"grad-{label}-{dtype}",
            _gradient(loss, 0),
            (as_dtype(x),),
            "array",
            LIMITS.get(label, CHAIN),
            label in core,
        )
        for label, (loss, x) in ONE.items()
        if wanted(label)
    ]
    for label, (loss, x, y) in TWO.items():
        if not wanted(label):
            continue
        for number in range(2):
            given = (as_dtype(x), as_dtype(y))
            name = f"grad-{label}-{number}-{dtype}"
            checks.append(Check(name, _gradient(loss, number), given, "array", CHAIN, label in core))
    return Batch(f"gradients-{dtype}", tuple(checks))


_cast: dict[tuple[int, DType], np.ndarray] = {}


def second_order() -> Batch:
    checks = [
        Check(f"grad-grad-{label}", _second(ONE[label][0]), (ONE[label][1],), "array", CHAIN, label in CORE_OF_SECOND)
        for label in SECOND
    ]
    checks += [
        Check(
            f"grad-grad-{label}-float32",
            _second(ONE[label][0]),
            (ONE[label][1].astype("float32"),),
            "array",
            {"float32": 2e-3, "float64": 1e-7},
            label == "eigvalsh",
        )
        for label in ("eigvalsh", "svdvals")
    ]
    return Batch("gradients-second-order", tuple(replace(check, derived=True) for check in checks))


def _of_intermediates(x: Any, number: int) -> Any:
    y = xb.sin(x)
    z = y * x
    return xb.grad(weighted(z * y + xb.exp(x)), [x, y, z])[number]


def _of_a_slice(x: Any) -> Any:
    part = x[1]
    return xb.grad(weighted(x**2) + weighted(part**3), part)


def _of_a_scalar_by_itself(x: Any) -> Any:
    total = xb.sum(x)
    return xb.grad(total, total)


def _of_a_constant(x: Any) -> Any:
    c = xb.asarray(WEIGHTS[:, :3])
    return xb.grad(weighted(x * c), c)


def _of_a_symmetric_matrix(x: Any) -> Any:
    matrix = _definite(x)
    return xb.grad(weighted(xb.linalg.cholesky(matrix)), matrix)


# Each returns a new array. The loss depends on it in one place, on its source in two.
CHANGES_NOTHING: dict[str, Callable[[Any], Any]] = {
    "slice": lambda x: x[0:3],
    "reshape": lambda x: xb.reshape(x, x.shape),
    "astype": lambda x: xb.astype(x, x.dtype),
    "broadcast_to": lambda x: xb.broadcast_to(x, x.shape),
    "permute_dims": lambda x: xb.permute_dims(x, (0, 1)),
    "squeeze": lambda x: xb.squeeze(x, ()),
    "positive": lambda x: +x,
    "clip": xb.clip,
    "concat": lambda x: xb.concat([x]),
    "sum": lambda x: xb.sum(x, axis=(), keepdims=True),
    "mean": lambda x: xb.mean(x, axis=()),
    "to_device": lambda x: xb.to_device(x, "cpu:0"),
    "matrix_power": lambda x: xb.linalg.matrix_power(x, 1),
    "called": lambda x: xb.trace(lambda x: x[...], x)(x),
}


def _of_a_copy(change: Callable[[Any], Any], use: Callable[[Any, Any], Any] = operator.mul) -> Loss:
    def function(x: Any) -> Any:
        y = change(x)
        return xb.grad(weighted(use(y, x)), y)

    return function


def structure() -> Batch:
    """Gradients of unusual losses, and with respect to unusual arrays."""
    functions: dict[str, Loss] = {
        "of_itself": lambda x: xb.grad(x[0, 0], x),
        "of_a_scalar_by_itself": _of_a_scalar_by_itself,
        "of_intermediates_x": lambda x: _of_intermediates(x, 0),
        "of_intermediates_y": lambda x: _of_intermediates(x, 1),
        "of_intermediates_z": lambda x: _of_intermediates(x, 2),
        "of_a_slice_and_not_of_the_whole": _of_a_slice,
        "of_a_constant": _of_a_constant,
        "used_in_the_program": lambda x: x - 0.1 * xb.grad(weighted(xb.square(x)), x),
        "of_a_symmetric_matrix": _of_a_symmetric_matrix,
        "of_an_empty_part": lambda x: xb.grad(xb.sum(x[:0]) + xb.sum(x), x),
        # A framework may compute with the source of the row, the column or the transpose.
        "of_a_row": _of_a_copy(lambda x: x[None, 0], lambda y, x: y @ x),
        "of_a_column": _of_a_copy(lambda x: x[:, 0, None], lambda y, x: x @ y),
        "of_a_transpose": _of_a_copy(lambda x: x.T, lambda y, x: y.T * x),
        **{f"of_a_copy_by_{label}": _of_a_copy(change) for label, change in CHANGES_NOTHING.items()},
    }
    checks = [Check(f"grad-{label}", f, (SQUARE,), "array", CHAIN, derived=True) for label, f in functions.items()]
    return Batch("gradients-structure", tuple(checks))


BATCHES = in_turns([first_order(DType.float64), first_order(DType.float32), second_order(), structure(), known()])
