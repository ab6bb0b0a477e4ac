"""Rows of primitives that create, move, join, split, reduce and sort arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.bring import dtypes
from xbackend.bring.arrays import parts
from xbackend.bring.jax.scalars import joining, ordered
from xbackend.bring.jax.walk import JaxprWalk, dtype_of, row
from xbackend.errors import GraphError


@row("copy", "copy_p", "optimization_barrier", "name", attributes=None)
def same(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    return values


@row("broadcast_in_dim", attributes=("shape", "broadcast_dimensions"))
def broadcast_in_dim(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    if len(values) > 1:
        raise GraphError("a shape that is an array has no row: a program's shapes are fixed")
    shape, axes = tuple(equation.params["shape"]), ints(equation.params["broadcast_dimensions"])
    known = walk.known(equation.invars[0]) if not axes else None
    if known is not None:
        return xb.full(shape, known.item(), dtype=dtypes.held(dtype_of(equation.outvars[0])))
    return xb.broadcast_to(xb.expand_dims(values[0], axis=[a for a in range(len(shape)) if a not in axes]), shape)


def _of(name: str, attribute: str, function: Callable[[list[Any], Any], Any]) -> None:
    """Add the row of a primitive that is a function of its operands and of one attribute."""

    def made(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
        value = equation.params[attribute]
        return function(values, ints(value) if isinstance(value, tuple) else int(value))

    row(name, attributes=(attribute,))(made)


_of("reshape", "new_sizes", lambda values, shape: xb.reshape(values[0], shape))
_of("squeeze", "dimensions", lambda values, axes: xb.squeeze(values[0], axis=axes))
_of("expand_dims", "dimensions", lambda values, axes: xb.expand_dims(values[0], axis=axes))
_of("transpose", "permutation", lambda values, axes: turned(values[0], axes))
_of("concatenate", "dimension", lambda values, axis: xb.concat(values, axis=axis))
_of("stack", "axis", lambda values, axis: xb.stack(values, axis=axis))
_of("unstack", "axis", lambda values, axis: list(xb.unstack(values[0], axis=axis)))
_of("tile", "reps", lambda values, counts: xb.tile(values[0], counts))
_of("rev", "dimensions", lambda values, axes: xb.flip(values[0], axis=axes))


def ints(numbers: Any) -> tuple[int, ...]:
    """The numbers of an attribute as Python integers."""
    return tuple(int(n) for n in numbers)


def turned(array: Any, axes: Sequence[int]) -> Any:
    """The array with permuted axes. ``axes`` has the array's axis for each axis of the result."""
    order = ints(axes)
    return array if order == tuple(range(len(order))) else xb.permute_dims(array, order)


def shaped(array: Any, shape: tuple[int, ...]) -> Any:
    """The array reshaped, unless it has the shape."""
    return array if array.shape == shape else xb.reshape(array, shape)


row("split", attributes=("axis", "sizes"))(
    lambda _, equation, values: parts(values[0], int(equation.params["axis"]), ints(equation.params["sizes"]))
)


@row("slice", attributes=("start_indices", "limit_indices", "strides"))
def sliced(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    starts, stops, steps = (equation.params[name] for name in ("start_indices", "limit_indices", "strides"))
    bounds = zip(ints(starts), ints(stops), ints(steps or (1,) * len(starts)), strict=True)
    return xb.asarray(values[0])[tuple(slice(*each) for each in bounds)]


@row("iota", attributes=("dtype", "shape", "dimension"), wraps=True)
def iota(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    shape, axis = tuple(equation.params["shape"]), int(equation.params["dimension"])
    dtype = dtypes.held(dtype_of(equation.outvars[0]))
    many = shape[axis] > 256  # more numbers than uint8 has: it wraps around
    line = xb.astype(xb.arange(shape[axis], dtype=dtype.wider if many else dtype), dtype)
    if len(shape) == 1:
        return line
    return xb.broadcast_to(xb.expand_dims(line, axis=[a for a in range(len(shape)) if a != axis]), shape)


# Arrays without values, which are written later: here they are zeros.
row("empty", "empty2", attributes=None)(
    lambda _, equation, values: xb.zeros(
        equation.outvars[0].aval.shape, dtype=dtypes.held(dtype_of(equation.outvars[0]))
    )
)


def padded(array: Any, value: Any, config: Sequence[tuple[int, int, int]]) -> Any:
    """The array padded with ``value``. ``config``: (low, high, interior) for each axis; low and high below 0 crop."""
    each = [ints(one) for one in config]
    lengths = [n + max(n - 1, 0) * between for n, (_, _, between) in zip(array.shape, each, strict=True)]
    shape = tuple(n + max(a, 0) + max(b, 0) for n, (a, b, _) in zip(lengths, each, strict=True))
    result = xb.asarray(array)
    if shape != result.shape:
        pairs = zip(lengths, each, strict=True)
        places = tuple(slice(max(a, 0), max(a, 0) + n, between + 1) for n, (a, _, between) in pairs)
        result = xb.at(xb.broadcast_to(value, shape))[places].set(result)
    cut = tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b, _) in zip(shape, each, strict=True))
    return result[cut] if any(a < 0 or b < 0 for a, b, _ in each) else result


row("pad", attributes=("padding_config",))(
    lambda _, equation, values: padded(values[0], values[1], equation.params["padding_config"])
)


# --- reductions -------------------------------------------------------------------------------------------------------


@row("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or", attributes=("axes",))
def reduced(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    name, axes, dtype = equation.primitive.name, ints(equation.params["axes"]), dtype_of(equation.outvars[0])
    if not axes:
        return values[0]
    if name in ("reduce_sum", "reduce_prod"):
        function = xb.sum if name == "reduce_sum" else xb.prod
        return dtypes.in_range(function(values[0], axis=axes, dtype=dtypes.held(dtype)), dtype)
    if dtype == "bool":
        return (xb.any if name in ("reduce_max", "reduce_or") else xb.all)(values[0], axis=axes)
    if name in ("reduce_and", "reduce_or"):
        raise GraphError(f"{name} of {dtype} has no row: compare the numbers before")
    return (xb.max if name == "reduce_max" else xb.min)(values[0], axis=axes)


@row("argmax", "argmin", attributes=("axes", "index_dtype"))
def position(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    function = xb.argmax if equation.primitive.name == "argmax" else xb.argmin
    found = function(ordered(values[0]), axis=ints(equation.params["axes"])[0])
    return dtypes.cast(found, "int64", dtype_of(equation.outvars[0]))


_JOINED = {"cummax": xb.maximum, "cummin": xb.minimum, "cumlogsumexp": xb.logaddexp}


@row("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp", attributes=("axis", "reverse"), wraps=True)
def cumulative(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    name, axis, array = equation.primitive.name, int(equation.params["axis"]), xb.asarray(values[0])
    array = xb.flip(array, axis=axis) if equation.params["reverse"] else array
    if name in _JOINED:
        result = _doubled(_JOINED[name], array, axis)
    else:
        result = (xb.cumulative_sum if name == "cumsum" else xb.cumulative_prod)(array, axis=axis, dtype=array.dtype)
    return xb.flip(result, axis=axis) if equation.params["reverse"] else result


def _doubled(join: Callable[[Any, Any], Any], array: Any, axis: int) -> Any:
    """The running results of an associative function along an axis, in log2(n) steps (Hillis and Steele, Data parallel
    algorithms, 1986)."""
    whole, length, distance = (slice(None),) * axis, array.shape[axis], 1
    while distance < length:
        first = array[(*whole, slice(None, distance))]
        both = join(array[(*whole, slice(distance, None))], array[(*whole, slice(None, length - distance))])
        array, distance = xb.concat([first, both], axis=axis), 2 * distance
    return array


# By primitive: the neutral element of the function that joins two elements of a window, which is the padding.
_WINDOWS = {"reduce_window_sum": 0.0, "reduce_window_max": -np.inf, "reduce_window_min": np.inf}
_LARGEST_WINDOW = 256  # elements
_OF_WINDOWS = ("window_dimensions", "window_strides", "base_dilation", "window_dilation", "padding")


@row(*_WINDOWS, attributes=_OF_WINDOWS, wraps=True)
def windows(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    """One strided slice for each element of the window, joined."""
    lengths, steps, spread, inside = (ints(equation.params[name]) for name in _OF_WINDOWS[:4])
    if prod(lengths) > _LARGEST_WINDOW:
        raise GraphError(f"windows of {lengths} have no row: the largest has {_LARGEST_WINDOW} elements")
    name, shape = equation.primitive.name, equation.outvars[0].aval.shape
    dtype, outside = np.dtype(dtype_of(equation.outvars[0])), _WINDOWS[name]
    join = xb.add if name == "reduce_window_sum" else joining(name[-3:], dtype.name)
    if dtype.kind == "b":
        outside = outside > 0.0
    elif dtype.kind != "f":
        outside = min(max(outside, np.iinfo(dtype).min), np.iinfo(dtype).max)
    config = [(*around, n - 1) for around, n in zip(equation.params["padding"], spread, strict=True)]
    array = padded(values[0], dtypes.array(np.asarray(outside, dtype)), config)

    def part(place: tuple[int, ...]) -> Any:
        begins = [p * n for p, n in zip(place, inside, strict=True)]
        return array[tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(begins, shape, steps, strict=True))]

    return reduce(join, map(part, np.ndindex(*lengths)))


# --- sorts ------------------------------------------------------------------------------------------------------------


@row("sort", attributes=("dimension", "is_stable", "num_keys"))
def sort(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    axis, keys = int(equation.params["dimension"]), int(equation.params["num_keys"])
    dtype = dtype_of(equation.invars[0])
    if len(values) == 1:
        return dtypes.cast(xb.sort(ordered(values[0]), axis=axis), "int32" if dtype == "bool" else dtype, dtype)
    order = None
    for key in reversed([ordered(one) for one in values[:keys]]):
        by = key if order is None else xb.take_along_axis(key, order, axis=axis)
        own = xb.argsort(by, axis=axis)
        order = own if order is None else xb.take_along_axis(order, own, axis=axis)
    iotas = [walk.made_by(one, "iota") for one in equation.invars]
    positions = [made is not None and int(made.params["dimension"]) == axis for made in iotas]
    return [
        dtypes.cast(order, "int64", dtype_of(one)) if position else xb.take_along_axis(value, order, axis=axis)
        for value, one, position in zip(values, equation.invars, positions, strict=True)
    ]


@row("top_k", attributes=("k", "axis", "operand", "is_stable"))
def top_k(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    array = xb.asarray(values[0])
    count, axis = int(equation.params["k"]), int(equation.params.get("axis", -1)) % array.ndim
    order = xb.argsort(ordered(array), axis=axis, descending=True)[(*(slice(None),) * axis, slice(None, count))]
    return [xb.take_along_axis(array, order, axis=axis), dtypes.cast(order, "int64", dtype_of(equation.outvars[1]))]
