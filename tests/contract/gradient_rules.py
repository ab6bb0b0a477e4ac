"""The gradient of every op that has one, at shapes that broadcast, are empty or have no axes. Each operand has a second
use.

There a framework's rules are most often wrong. A missing sum over a broadcast axis shows only at a second use: a single
cotangent of a wrong shape may still broadcast to the right one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from batches import Batch, Check, in_turns
from gradients import LIMITS, Loss, numbers, weighted
from tolerances import CHAIN

import xbackend as xb
from xbackend.program.ops import ELEMENTWISE, OPS, SOURCES

Shape = tuple[int, ...]


class Use(NamedTuple):
    """One use of an op, and the shapes of its arguments."""

    loss: Loss
    shapes: tuple[Shape, ...]


ONE: tuple[Shape, ...] = ((2, 3), (), (0,), (2, 0))
TWO: tuple[tuple[Shape, Shape], ...] = (
    ((2, 3), (2, 3)), ((3,), (2, 3)), ((2, 3), ()), ((2, 1), (1, 3)), ((), ()), ((1,), (0,)), ((), (2, 0)),
)  # fmt: skip
SQUARES: tuple[Shape, ...] = ((2, 2), (2, 3, 3))
WITHOUT = frozenset(
    {*SOURCES, "while_loop", "transfer"}
    | {"isnan", "isinf", "isfinite", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
    | {"logical_not", "logical_and", "logical_or", "logical_xor", "any", "all", "argmax", "argmin", "argsort"}
    | {"bitwise_invert", "bitwise_and", "bitwise_or", "bitwise_xor", "searchsorted"}
)
"""Ops through which no gradient goes; a transfer's is that of what it moves (test_contract_devices.py)."""


def each(loss: Loss, *shapes: Shape) -> list[Use]:
    """A function of one array, at several shapes."""
    return [Use(loss, (shape,)) for shape in shapes]


def _elementwise(op: str) -> list[Use]:
    call: Callable[..., Any] = getattr(xb, op)
    if op == "acosh":
        return each(lambda x: call(x + 1.0), *ONE)
    return each(call, *ONE) if OPS[op].arity == 1 else [Use(call, pair) for pair in TWO]


def _where() -> list[Use]:
    def chosen(*shape: int) -> Loss:
        there = np.arange(int(np.prod(shape))).reshape(shape) % 2 == 0
        return lambda x, y: xb.where(there, x, y)

    return [
        Use(chosen(2, 3), ((3,), ())), Use(chosen(3), ((2, 1), (2, 3))), Use(chosen(3), ((3,), (3,))),
        Use(chosen(), ((2,), ())), Use(chosen(), ((), ())), Use(chosen(0), ((1,), ())), Use(chosen(2, 1), ((), (1, 0))),
        Use(lambda x, y: xb.where(x > y, x, y), ((2, 1), (3,))),
        Use(lambda x, y: xb.logaddexp(x, y) * xb.hypot(x, y), ((3,), (2, 3))),
        Use(xb.copysign, ((), (3,))),
    ]  # fmt: skip


def _reduction(op: str) -> list[Use]:
    call: Callable[..., Any] = getattr(xb, op)
    uses = [
        *each(call, (2, 3), ()),
        *each(lambda x: call(x, axis=0), (2, 3), (2, 0)),
        *each(lambda x: call(x, axis=()), (2,)),
    ]
    if op in ("max", "min"):
        return uses
    return uses + (each(call, (0,)) if op != "mean" else []) + each(lambda x: xb.sum(call(x[:0, :0], axis=())), (2, 3))


def _writes(how: str, *places: tuple[Any, Shape, Shape]) -> list[Use]:
    """Write an array of the last shape into one of the first, at an index."""
    return [Use(lambda x, y, key=key: getattr(xb.at(x)[key], how)(y), shapes) for key, *shapes in places]


def _moving() -> dict[str, list[Use]]:
    take, along, empty = np.array([1, 0, 1]), np.array([[0], [1]]), np.zeros(0, np.int64)
    every, part, nothing = slice(None), slice(1, 2), slice(1, 1)
    slices = ((part, (3, 2), ()), (every, (3, 2), (2,)), (nothing, (3,), ()), (..., (), ()), (every, (0,), (1,)))
    places = (([2, 0], (3, 2), ()), (empty, (3,), ()), ((every, [1, 0]), (3, 2), (2,)))
    return {
        "reshape": [
            *each(lambda x: xb.reshape(x, (-1, 1)) ** 2, (2, 3), ()), *each(lambda x: xb.reshape(x, (0,)), (2, 0)),
        ],
        "permute_dims": each(lambda x: xb.permute_dims(x, tuple(range(x.ndim))[::-1]) ** 2, (2, 3), (), (2, 0, 1)),
        "broadcast_to": [
            *each(lambda x: xb.broadcast_to(x, (2, 2, 3)), (), (3,), (2, 1), (1, 3), (2, 1, 3), (1, 1, 1)),
            *each(lambda x: xb.broadcast_to(x, (0,)), (), (1,)),
            *each(lambda x: xb.broadcast_to(x, (2, 0)), (2, 1), (0,)),
        ],
        "concat": [
            Use(lambda x, y: xb.concat([x, y, x], axis=1) ** 2, ((2, 3), (2, 0))),
            Use(lambda x, y: xb.concat([x, y]), ((0,), (0,))),
        ],
        "stack": [Use(lambda x, y: xb.stack([x, y, x]) ** 2, pair) for pair in (((), ()), ((2,), (2,)), ((0,), (0,)))],
        "slice": [
            *each(lambda x: x[1] * x[:, :1].T, (2, 2)), *each(lambda x: x[1:1, 0], (2, 2)),
            *each(lambda x: x[2:2], (3,)),
            *each(lambda x: x[..., None] ** 2, ()), *each(lambda x: x[::-1], (0,)), *each(lambda x: x[1], (2, 0)),
        ],
        "take": [
            *each(lambda x: xb.take(x, take, axis=0), (2, 3), (2, 0)), *each(lambda x: xb.take(x, empty), (3,)),
            *each(lambda x: xb.take(x, np.array(1)), (3,)), *each(lambda x: x[1, :, take] ** 2, (2, 3, 2)),
        ],
        "take_along_axis": [
            *each(lambda x: xb.take_along_axis(x, along, axis=1), (2, 3), (1, 3)),
            *each(lambda x: xb.take_along_axis(x, empty), (3,)),
        ],
        **{f"slice_{how}": _writes(how, *slices) for how in ("set", "add")},
        **{f"take_{how}": _writes(how, *places) for how in ("set", "add")},
        "astype": [
            *each(lambda x: xb.astype(xb.astype(x * 9.0, xb.int32), xb.float64) * x, (2, 3), ()),
            *each(lambda x: xb.astype(xb.astype(x * 9.0, xb.uint8), xb.float64) * 3.0 + x, (3,), (0,)),
            *each(lambda x: xb.astype(x > 0.4, xb.float64) * 3.0, (3,)),
        ],
        "all_reduce": [Use(lambda x, y: reduce(xb.add, xb.all_reduce([x, y * 2.0, x], "mean")), ((2,), (2,)))],
    }  # fmt: skip


def _loops() -> dict[str, list[Use]]:
    def step(carry: Any, x: Any, w: Any) -> Any:
        after = xb.where(x > 0.4, carry, x) * w
        return xb.sum(after), after

    def chosen(x: Any, y: Any) -> Any:
        return xb.cond(xb.sum(x) > 0.3, lambda x, y: x * y, lambda x, y: x + y, x, y)

    return {
        "scan": [
            Use(lambda c, xs, w: xb.scan(lambda c, x: step(c, x, w), c, xs)[1], ((), (3, 2), ())),
            Use(lambda c, xs, w: xb.scan(lambda c, x: step(c, x, w), c, xs)[0], ((), (3, 2), (2, 1))),
            Use(lambda c, xs, w: xb.scan(lambda c, x: step(c, x, w), c, xs)[0], ((), (3, 0), ())),
        ],
        "cond": [Use(chosen, pair) for pair in (((), ()), ((2, 1), (3,)), ((), (0,)))],
        # Each rule is differentiated once more.
        "grad": [
            Use(lambda x, y: xb.grad(weighted(xb.where(y > 0.4, x**3, y) * xb.logaddexp(x, y)), x), ((3,), (2, 3))),
            Use(lambda x, y: xb.grad(weighted(xb.broadcast_to(x**3, y.shape) * y**2), x), ((2, 1), (2, 0))),
            Use(lambda x, y: xb.grad(weighted(x**y / y), y), ((), (2,))),
        ],
    }  # fmt: skip


def _definite(x: Any) -> Any:
    return x @ x.mT + 2.0 * xb.eye(x.shape[-1])


def _turned(x: Any) -> Any:
    """Eigenvectors squared, which removes their signs."""
    values, vectors = xb.linalg.eigh(_definite(x))
    return xb.square(vectors) * values[..., None, :]


def _singular(x: Any) -> Any:
    found = xb.linalg.svd(x, full_matrices=False)
    return (found.U * xb.sqrt(found.S)[..., None, :]) @ found.Vh


def _orthonormal(x: Any) -> Any:
    q, r = xb.linalg.qr(x)
    return xb.concat([xb.square(q), xb.square(r).mT], axis=-2)


def _matrices() -> dict[str, list[Use]]:
    la = xb.linalg
    systems = (((3, 3), (3,)), ((2, 2), (2, 2, 1)), ((2, 2, 2), (2,)))
    return {
        "matmul": [
            *(Use(xb.matmul, pair) for pair in (((3,), (3,)), ((2, 2, 3), (3, 1)), ((0, 2), (2, 3)))),
            Use(lambda x, y: x @ y, ((2, 0), (0, 3))),
        ],
        "cholesky": each(lambda x: la.cholesky(_definite(x)), *SQUARES),
        "inv": each(lambda x: la.inv(_definite(x)), *SQUARES),
        "det": each(lambda x: la.det(_definite(x)), *SQUARES),
        "slogdet": each(lambda x: la.slogdet(_definite(x)).logabsdet, *SQUARES),
        "solve": [Use(lambda x, y: la.solve(_definite(x), y), pair) for pair in systems],
        "solve_triangular": [Use(lambda x, y: la.solve_triangular(x, y, lower=True), pair) for pair in systems],
        "eigh": each(_turned, *SQUARES),
        "eigvalsh": each(lambda x: la.eigvalsh(_definite(x)), *SQUARES),
        "qr": each(_orthonormal, (2, 2), (3, 2), (2, 3), (2, 2, 3)),
        "svd": each(_singular, (2, 2), (3, 2), (2, 3)),
        "svdvals": each(la.svdvals, (2, 2), (3, 2), (2, 3)),
        "diagonal": each(lambda x: la.diagonal(x, offset=1) ** 2, (2, 2), (2, 3), (3, 1), (2, 2, 2)),
        "sort": each(lambda x: xb.sort(x, axis=0) ** 2, (3, 2), (0,), (2, 0)),
        "cumulative_sum": each(lambda x: xb.cumulative_sum(x, axis=0) ** 2, (3, 2), (0,), (2, 0)),
        "cumulative_prod": [
            *each(lambda x: xb.cumulative_prod(x, axis=0), (3, 2), (0,), (2, 0)),
            *each(lambda x: xb.cumulative_prod(xb.reshape(x, (1, 1)), axis=0, include_initial=True), ()),
        ],
        "conv2d": [
            Use(lambda x, y: xb.conv2d(x, y, padding="SAME"), ((1, 3, 2, 1), (2, 2, 1, 2))),
            Use(lambda x, y: xb.conv2d(x, y, strides=2), ((2, 3, 3, 2), (1, 1, 2, 1))),
        ],
    }  # fmt: skip


RULES: dict[str, list[Use]] = {
    **{op: _elementwise(op) for op in OPS if op in ELEMENTWISE - WITHOUT - {"where"}},
    "where": _where(),
    **{op: _reduction(op) for op in ("sum", "prod", "max", "min", "mean")},
    **_moving(),
    **_loops(),
    **_matrices(),
}


def arrays_of(uses: Sequence[Use]) -> list[np.ndarray]:
    """The arguments of all uses in order, without equal numbers."""
    shapes = [shape for use in uses for shape in use.shapes]
    return [np.asarray(numbers(shape, i) + 0.011 * (i % 8)) for i, shape in enumerate(shapes)]


def total(uses: Sequence[Use]) -> Loss:
    """All uses of an op as one scalar. Each argument has a second use."""

    def loss(*arrays: Any) -> Any:
        operands = [array * 1.0 for array in arrays]
        given = iter(operands)
        made = [weighted(use.loss(*(next(given) for _ in use.shapes))) for use in uses]
        return reduce(xb.add, [*made, *(weighted(x * x) for x in operands)])

    return loss


def gradient(uses: Sequence[Use]) -> Loss:
    """The weighted gradients of `total` with respect to all arguments, as one vector."""

    def function(*arrays: Any) -> Any:
        return xb.concat([xb.reshape(g, (-1,)) for g in xb.grad(weighted(total(uses)(*arrays)), list(arrays))])

    return function


def _batch(name: str, ops: Iterable[str]) -> Batch:
    """The gradients of some of the ops."""
    checks = []
    for op in ops:
        arrays, limits = tuple(arrays_of(RULES[op])), LIMITS.get(op, CHAIN)
        checks.append(Check(f"grad-rule-{op}", gradient(RULES[op]), arrays, "array", limits, core=False))
    return Batch(name, tuple(checks))


SELDOM = {op for op in RULES if op in ELEMENTWISE and OPS[op].arity == 1} | {*_matrices()} - {"matmul", "qr", "sort"}
OFTEN_BATCH, SELDOM_BATCH = in_turns(
    [
        _batch("gradient-rules", [op for op in RULES if op not in SELDOM]),
        _batch("gradient-rules-seldom", [op for op in RULES if op in SELDOM]),
    ]
)
"""Of one array and of matrices, `gradients` has a check of each: other shapes are for the exhaustive tier."""
