"""Elementwise ops, by the class of the lineage's scalar op, and reductions.

Arithmetic is in the dtype of the node's result, comparisons in the dtype to which NumPy promotes the operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.tracing.array import Array
from xbackend.bring import dtypes
from xbackend.bring.lineage.bessel import ive
from xbackend.bring.lineage.walk import SCALARS, LineageWalk, row
from xbackend.bring.scalars import Scalar, clip, half_away, named, softplus
from xbackend.errors import GraphError


def _folded(function: Scalar) -> Scalar:
    return lambda *arrays: reduce(function, arrays)


def _trigamma(x: Any) -> Any:
    """The second derivative of gammaln: reflection below 0, recurrence up to 8, then the asymptotic series (Abramowitz
    and Stegun, 6.4.7, 6.4.6 and 6.4.12)."""
    is_low = xb.less(x, 0.0)
    mirrored = xb.square(math.pi / xb.sin(math.pi * xb.where(is_low, x, 0.5)))
    x = xb.where(is_low, xb.subtract(1.0, x), x)
    total = xb.zeros_like(x)
    for _ in range(8):
        low = xb.less(x, 8.0)
        total = xb.where(low, total + xb.reciprocal(xb.square(x)), total)
        x = xb.where(low, xb.add(x, 1.0), x)
    z = xb.reciprocal(xb.square(x))
    series = xb.zeros_like(x)
    for coefficient in (7 / 6, -691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6):
        series = series * z + coefficient
    total = total + (xb.reciprocal(x) + (0.5 * z + series * z * xb.reciprocal(x)))
    return xb.where(is_low, mirrored - total, total)


def _erfcx(x: Any) -> Any:
    """exp(x**2) * erfc(x): the product below 2, else the continued fraction of erfc (Abramowitz and Stegun, 7.1.14),
    whose 60 terms are exact to 1e-16 there."""
    is_near = xb.less(x, 2.0)
    near, far = xb.where(is_near, x, 0.0), xb.where(is_near, 2.0, x)
    fraction: Any = far
    for k in range(60, 0, -1):
        fraction = far + k / 2.0 / fraction
    return xb.where(is_near, xb.exp(xb.square(near)) * xb.erfc(near), 1.0 / math.sqrt(math.pi) / fraction)


def _gamma(x: Any) -> Any:
    """exp(gammaln(x)) with gamma's sign, which changes at each negative integer. There it is NaN; at 0 it is 1 / x."""
    down, below = xb.floor(x), xb.less(x, 0.0)
    odd = xb.not_equal(xb.remainder(down, 2.0), 0.0)
    size = xb.exp(xb.gammaln(x))
    signed = xb.where(xb.logical_and(below, odd), xb.negative(size), size)
    signed = xb.where(xb.equal(x, 0.0), xb.reciprocal(x), signed)
    return xb.where(xb.logical_and(below, xb.equal(down, x)), math.nan, signed)


def _erfcinv(x: Any) -> Any:
    """The inverse of erfc: erfinv(1 - x), and below 0.1, where 1 - x loses digits, three of Halley's steps from the
    asymptote."""
    small = xb.logical_and(xb.less(x, 0.1), xb.greater(x, 0.0))
    tail = xb.where(small, x, 0.1)
    log = -xb.log(tail)
    y: Any = xb.sqrt(log - 0.5 * xb.log(math.pi * log))
    for _ in range(3):
        step = (xb.erfc(y) - tail) / (-2.0 / math.sqrt(math.pi) * xb.exp(-xb.square(y)))
        y = y - step / (1.0 + y * step)
    return xb.where(small, y, xb.erfinv(xb.subtract(1.0, xb.where(small, 0.5, x))))


# Computed in the dtype of the result.
ARITHMETIC: dict[str, Scalar] = {
    **named("maximum minimum abs sign ceil floor trunc reciprocal log log2 log10 log1p exp expm1 sqrt", str.capitalize),
    **named("cos sin tan cosh sinh tanh erf erfc erfinv log1mexp", str.capitalize),
    **named("acos asin atan atan2 acosh asinh atanh", lambda name: f"Arc{name[1:].capitalize()}"),
    **{"Add": _folded(xb.add), "Mul": _folded(xb.multiply), "Sub": xb.subtract, "Neg": xb.negative},
    **dict.fromkeys(("TrueDiv", "TrueDivide"), xb.divide),
    **dict.fromkeys(("IntDiv", "FloorDivide"), xb.floor_divide),
    **{"Mod": xb.remainder, "Pow": xb.pow, "Sqr": xb.square, "Sgn": xb.sign, "Inv": xb.reciprocal, "Clip": clip},
    **{"ScalarMaximum": xb.maximum, "ScalarMinimum": xb.minimum},
    **{"RoundHalfToEven": xb.round, "RoundHalfAwayFromZero": half_away},
    "Exp2": lambda x: xb.pow(2.0, x),
    "Deg2Rad": lambda x: xb.multiply(x, math.pi / 180.0),
    "Rad2Deg": lambda x: xb.multiply(x, 180.0 / math.pi),
    **{"Erfcx": _erfcx, "Erfcinv": _erfcinv, "Gamma": _gamma},
    **{"GammaLn": xb.gammaln, "Psi": xb.digamma, "TriGamma": _trigamma, "Ive": ive},
    **dict.fromkeys(("Sigmoid", "ScalarSigmoid"), xb.expit),
    **dict.fromkeys(("Softplus", "ScalarSoftplus"), softplus),
    **dict.fromkeys(("Identity", "Real", "Conj"), lambda x: x),
}
COMPARED: dict[str, Scalar] = {
    **{"LT": xb.less, "GT": xb.greater, "LE": xb.less_equal, "GE": xb.greater_equal},
    **{"EQ": xb.equal, "NEQ": xb.not_equal, "IsNan": xb.isnan, "IsInf": xb.isinf},
}
OF_BOOLS: dict[str, Scalar] = {
    **dict.fromkeys(("Add", "OR", "Maximum", "ScalarMaximum"), _folded(xb.logical_or)),
    **dict.fromkeys(("Mul", "AND", "Minimum", "ScalarMinimum"), _folded(xb.logical_and)),
    **{"XOR": _folded(xb.logical_xor), "Invert": xb.logical_not, "Identity": lambda x: x},
}
BITS: dict[str, Scalar] = {
    **{"AND": _folded(xb.bitwise_and), "OR": _folded(xb.bitwise_or), "XOR": _folded(xb.bitwise_xor)},
    "Invert": xb.bitwise_invert,
}
SCALARS.update(*(ARITHMETIC, COMPARED, OF_BOOLS, BITS), ("Switch", "Cast", "Second", "Composite"))


def _ranged(name: str, ranges: Sequence[dtypes.Range | None]) -> dtypes.Range | None:
    """The range of a result of a small dtype, from the ranges of the operands; `None` if it is unknown."""
    known = [one for one in ranges if one is not None]
    if name not in _MONOTONE or len(known) < len(ranges) or len(known) > 8:
        return None
    found = [_MONOTONE[name](each) for each in product(*known)]
    return min(found), max(found)


# Monotone in each operand; functions of the list of operands.
_MONOTONE: dict[str, Callable[[Sequence[int]], int]] = {
    **{"Add": sum, "Mul": prod, "Maximum": max, "Minimum": min, "Identity": max},
    **{"Sub": lambda each: each[0] - each[1], "Neg": lambda each: -each[0]},
}


@row("Elemwise", "ScalarOp")
def elementwise(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    """A scalar op, element by element. Raises `GraphError` for an op without a row for its dtype."""
    op, inputs, output = getattr(node.op, "scalar_op", node.op), node.inputs, node.outputs[0]
    name, dtype = type(op).__name__, output.type.dtype
    if name == "Composite":
        inner = zip(op.fgraph.inputs, inputs, strict=True)
        return LineageWalk({one: walk.value(own) for one, own in inner}).results(op.fgraph.outputs)
    if name in COMPARED:
        common = np.result_type(*(one.type.dtype for one in inputs)).name
        return COMPARED[name](*(walk.cast(one, common) for one in inputs))
    if name == "Switch":
        taken = walk.cast(inputs[0], "bool")
        each = [_guarded(walk, one, taken, number == 1).cast(one, dtype) for number, one in enumerate(inputs[1:])]
        return xb.where(taken, *each)
    operands = [walk.cast(one, dtype) for one in inputs]
    if name == "Cast":
        return operands[0]
    if name == "Second":
        return xb.broadcast_arrays(*operands)[1]
    table = OF_BOOLS if dtype == "bool" else BITS if name in BITS else ARITHMETIC
    if name not in table:
        raise GraphError(f"{name} of {dtype} has no row")
    result = table[name](*operands)
    if dtype not in dtypes.SMALL:
        return result
    inside = _ranged(name, [_range(walk, one) for one in inputs])
    if inside is not None and dtypes.is_within(inside, dtypes.whole_range(dtype)):
        walk.ranges[output] = inside
    return dtypes.wrapped(result, dtype, inside)


# The index of the operand that has poles, such as 0, where the derivative is infinite, and a number that is none.
_POLES = {
    **dict.fromkeys(("Log", "Log2", "Log10", "Log1p", "Sqrt", "Reciprocal", "Inv", "Pow", "ArcTan2"), (0, 1.0)),
    **dict.fromkeys(("Gamma", "GammaLn", "Psi", "TriGamma", "Erfcinv"), (0, 1.0)),
    **dict.fromkeys(("TrueDiv", "TrueDivide"), (1, 1.0)),
    **dict.fromkeys(("ArcSin", "ArcCos", "ArcTanh", "Erfinv"), (0, 0.0)),
    **{"ArcCosh": (0, 2.0), "Log1mexp": (0, -1.0)},
}
_CHAIN = 64  # the largest number of nodes of a branch to examine


def _guarded(walk: LineageWalk, branch: Any, taken: Any, otherwise: bool) -> LineageWalk:
    """A walk in which the operands at poles in a branch of a switch are those of `_POLES` where it is not taken.

    Without it the gradient there is 0 times an infinite derivative, NaN; the lineage's rewrites of a gradient give 0
    (local_mul_switch_sink, local_div_switch_sink). ``otherwise``: the branch is the second one.
    """
    chain, changed = _chain(walk, branch) if prod(taken.shape) > 1 else (), set[Any]()
    if not chain:
        return walk
    own = LineageWalk({one: walk.value(one) for node in chain for one in (*node.inputs, *node.outputs)})
    for node in chain:
        place, plain = _POLES.get(type(node.op.scalar_op).__name__, (None, 1.0))
        before: dict[Any, Any] = {}  # the guard is for this node only
        if place is not None and _can_be_guarded(value := own.value(pole := node.inputs[place]), taken):
            one, before[pole] = np.asarray(plain, value.dtype.value), value
            own.values[pole] = xb.where(taken, *((one, value) if otherwise else (value, one)))
        if before or not changed.isdisjoint(node.inputs):
            own.values[node.outputs[0]] = elementwise(own, node, [])
            changed.add(node.outputs[0])
        own.values.update(before)
    return own


def _can_be_guarded(value: Any, taken: Any) -> bool:
    """Whether a value is an array of the program of floating point, no smaller than the condition."""
    is_floating = isinstance(value, Array) and value.dtype.is_floating
    return is_floating and np.broadcast_shapes(value.shape, taken.shape) == value.shape


def _chain(walk: LineageWalk, branch: Any) -> list[Any]:
    """The elementwise nodes that a branch ends in, predecessors first, back to given variables, other switches and
    other ops."""
    found: list[Any] = []
    entered = set[Any]()

    def enter(variable: Any) -> None:
        node: Any = None if variable in walk.given else variable.owner
        if node in entered or len(entered) == _CHAIN or type(getattr(node, "op", None)).__name__ != "Elemwise":
            return
        if type(node.op.scalar_op).__name__ not in ("Switch", "Composite") and isinstance(walk.value(variable), Array):
            entered.add(node)
            for one in node.inputs:
                enter(one)
            found.append(node)

    enter(branch)
    return found


def _range(walk: LineageWalk, variable: Any) -> dtypes.Range | None:
    value, dtype = walk.value(variable), variable.type.dtype
    if not isinstance(value, Array):
        known = np.asarray(value)
        return (int(known.min()), int(known.max())) if known.size else (0, 0)
    if variable in walk.ranges:
        return walk.ranges[variable]
    return (0, 1) if dtype == "bool" else dtypes.whole_range(dtype) if dtype in dtypes.SMALL else None


_REDUCED: dict[str, Callable[..., Any]] = {
    **{"Add": xb.sum, "Mul": xb.prod, "Maximum": xb.max, "ScalarMaximum": xb.max},
    **{"Minimum": xb.min, "ScalarMinimum": xb.min},
}


@row(
    *("CAReduce", "CAReduceDtype", "Sum", "Prod", "Max", "Min", "All", "Any", "FixedOpCAReduce", "NonZeroDimsCAReduce"),
    props="axis acc_dtype initial",
)
def reduction(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    """A reduction. ``initial`` concerns empty arrays only, whose maximum and minimum a program refuses."""
    (variable,), dtype = node.inputs, node.outputs[0].type.dtype
    axes, name = _axes(node), type(node.op.scalar_op).__name__
    if variable.type.dtype == "bool" and name in ("AND", "OR"):
        return (xb.all if name == "AND" else xb.any)(walk.array(variable), axis=axes)
    if name not in _REDUCED:
        raise GraphError(f"{name} along axes of {variable.type.dtype} has no row")
    inside = getattr(node.op, "acc_dtype", None) or dtype
    options = {"dtype": dtypes.held(inside)} if name in ("Add", "Mul") else {}
    result = _REDUCED[name](walk.cast(variable, inside), axis=axes, **options)
    return dtypes.cast(dtypes.in_range(result, inside) if options else result, inside, dtype)


@row("ProdWithoutZeros", props="axis acc_dtype")
def product_without_zeros(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    (variable,), dtype = node.inputs, node.outputs[0].type.dtype
    array = walk.cast(variable, dtype)
    ones = xb.where(xb.equal(array, 0), xb.ones_like(array), array)
    return dtypes.in_range(xb.prod(ones, axis=_axes(node), dtype=dtypes.held(dtype)), dtype)


def _axes(node: Any) -> tuple[int, ...] | None:
    """The axes of a reduction; `None` for all. Those of a scalar are ignored: as NumPy, the lineage accepts axis 0."""
    axes = node.op.axis
    return None if axes is None or not node.inputs[0].type.ndim else tuple(axes)
