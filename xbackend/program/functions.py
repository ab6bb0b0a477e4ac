"""The functions that a user writes programs with: names and semantics of the Array API standard 2024.12.

https://data-apis.org/array-api/2024.12/API_specification/

They work on traced arrays (inside a function given to `xbackend.trace` or ``backend.compile``), shared variables, NumPy
arrays and Python numbers. Dtypes promote as the standard says; a mix that it leaves undefined (integer with floating
point) raises `DTypeError`, shapes that do not fit raise `ShapeError`, both with the user's file and line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod as product
from typing import Any

from xbackend.devices import Device, canonical
from xbackend.errors import DTypeError, ShapeError
from xbackend.program.array import Array
from xbackend.program.dtypes import DType, as_dtype, promote, scalar_dtype
from xbackend.program.ops import broadcast_shapes
from xbackend.program.tracing import Tracer, current

Scalar = bool | int | float


def _is_scalar(value: Any) -> bool:
    return isinstance(value, bool | int | float) and not hasattr(value, "dtype")


def _cast(array: Array, dtype: DType) -> Array:
    return array if array.dtype is dtype else array._tracer.emit("astype", (array,), {"dtype": dtype})


def _operands(name: str, tracer: Tracer, *values: Any) -> list[Array]:
    """The values as arrays of their common dtype."""
    arrays = [None if _is_scalar(v) else tracer.array(v) for v in values]
    known = [a.dtype for a in arrays if a is not None]
    if not known:
        return [tracer.array(v) for v in values]
    dtype = known[0]
    for other in known[1:]:
        common = promote(dtype, other)
        if common is None:
            raise DTypeError(f"{name} of {dtype} and {other} is undefined; convert one of them with xb.astype")
        dtype = common
    result = []
    for value, array in zip(values, arrays, strict=True):
        if array is None:
            if scalar_dtype(value, dtype) is None:
                raise DTypeError(
                    f"{name} of a {dtype} array and the Python {type(value).__name__} {value!r} is undefined; "
                    "convert the array with xb.astype"
                )
            array = tracer.array(value, dtype)
        result.append(_cast(array, dtype))
    return result


def _unary(name: str, doc: str, integers_unchanged: bool = False) -> Callable[[Any], Array]:
    def function(x: Any, /) -> Array:
        tracer = current(f"xb.{name}")
        array = tracer.array(x)
        if integers_unchanged and array.dtype.is_integer:
            return array
        return tracer.emit(name, (array,), {})

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc}, element by element."
    return function


def _binary(name: str, doc: str) -> Callable[[Any, Any], Array]:
    def function(x1: Any, x2: Any, /) -> Array:
        tracer = current(f"xb.{name}")
        return tracer.emit(name, _operands(name, tracer, x1, x2), {})

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc}, element by element; shapes broadcast."
    return function


abs = _unary("abs", "The absolute value")
negative = _unary("negative", "The number with its sign turned")
sign = _unary("sign", "-1, 0 or 1 (NaN for NaN)")
square = _unary("square", "The square")
floor = _unary("floor", "The largest integer not above", integers_unchanged=True)
ceil = _unary("ceil", "The smallest integer not below", integers_unchanged=True)
trunc = _unary("trunc", "The integer nearest to zero between", integers_unchanged=True)
round = _unary("round", "The nearest integer, halves to the even one", integers_unchanged=True)
exp = _unary("exp", "e to the power of the number")
expm1 = _unary("expm1", "exp(x) - 1, accurate near 0")
log = _unary("log", "The natural logarithm")
log1p = _unary("log1p", "log(1 + x), accurate near 0")
log2 = _unary("log2", "The logarithm to base 2")
log10 = _unary("log10", "The logarithm to base 10")
sqrt = _unary("sqrt", "The square root")
sin = _unary("sin", "The sine (radians)")
cos = _unary("cos", "The cosine (radians)")
tan = _unary("tan", "The tangent (radians)")
asin = _unary("asin", "The inverse sine (radians)")
acos = _unary("acos", "The inverse cosine (radians)")
atan = _unary("atan", "The inverse tangent (radians)")
sinh = _unary("sinh", "The hyperbolic sine")
cosh = _unary("cosh", "The hyperbolic cosine")
tanh = _unary("tanh", "The hyperbolic tangent")
asinh = _unary("asinh", "The inverse hyperbolic sine")
acosh = _unary("acosh", "The inverse hyperbolic cosine")
atanh = _unary("atanh", "The inverse hyperbolic tangent")
isnan = _unary("isnan", "Whether it is NaN")
isinf = _unary("isinf", "Whether it is infinite")
isfinite = _unary("isfinite", "Whether it is neither infinite nor NaN")
logical_not = _unary("logical_not", "Not")

add = _binary("add", "The sum")
subtract = _binary("subtract", "The difference")
multiply = _binary("multiply", "The product")
divide = _binary("divide", "The quotient (floating point only)")
floor_divide = _binary("floor_divide", "The quotient rounded down (integers: a zero divisor gives an unspecified number)")
remainder = _binary("remainder", "The remainder of `floor_divide`, with the divisor's sign")
pow = _binary("pow", "The first to the power of the second (integers: negative exponents are unspecified)")
atan2 = _binary("atan2", "The angle of the point (x2, x1) (radians)")
maximum = _binary("maximum", "The larger one (NaN if one is)")
minimum = _binary("minimum", "The smaller one (NaN if one is)")
equal = _binary("equal", "Whether equal")
not_equal = _binary("not_equal", "Whether not equal")
less = _binary("less", "Whether less")
less_equal = _binary("less_equal", "Whether less or equal")
greater = _binary("greater", "Whether greater")
greater_equal = _binary("greater_equal", "Whether greater or equal")
logical_and = _binary("logical_and", "And")
logical_or = _binary("logical_or", "Or")
logical_xor = _binary("logical_xor", "Either, not both")


def positive(x: Any, /) -> Array:
    """The array itself."""
    return current("xb.positive").array(x)


def where(condition: Any, x1: Any, x2: Any, /) -> Array:
    """``x1`` where the bool ``condition`` holds, else ``x2``; shapes broadcast, dtypes of ``x1`` and ``x2`` promote."""
    tracer = current("xb.where")
    return tracer.emit("where", (tracer.array(condition), *_operands("where", tracer, x1, x2)), {})


def clip(x: Any, /, min: Any = None, max: Any = None) -> Array:
    """The values limited to the range from ``min`` to ``max``, of which one may be missing."""
    array = current("xb.clip").array(x)
    if min is not None:
        array = maximum(array, min)
    return minimum(array, max) if max is not None else array


def astype(x: Any, dtype: Any, /) -> Array:
    """The array in another dtype; floating point to integer cuts the fraction off."""
    return _cast(current("xb.astype").array(x), as_dtype(dtype))


# Axes and reductions


def normalize_axis(axis: Any, rank: int) -> int:
    """The non-negative number of an axis. Raises `ShapeError`."""
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise ShapeError(f"axis {axis!r} is not an integer")
    if not -rank <= axis < rank:
        raise ShapeError(f"axis {axis} does not exist in an array of rank {rank}")
    return axis % rank


def _normalize_axes(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    axes = tuple(normalize_axis(a, rank) for a in (axis if isinstance(axis, tuple | list) else (axis,)))
    if len(set(axes)) != len(axes):
        raise ShapeError(f"axis {axis} names an axis twice")
    return tuple(sorted(axes))


def _keep(result: Array, shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> Array:
    if not keepdims:
        return result
    return reshape(result, tuple(1 if a in axes else n for a, n in enumerate(shape)))


def _reduce(name: str, array: Array, axis: Any, keepdims: bool) -> Array:
    axes = _normalize_axes(axis, array.ndim)
    return _keep(array._tracer.emit(name, (array,), {"axis": axes}), array.shape, axes, keepdims)


def _accumulated(array: Array, dtype: Any) -> Array:
    """What a sum or product is accumulated in: the given dtype, else int64 for integers, else its own."""
    if dtype is None:
        dtype = DType.int64 if array.dtype.is_integer else array.dtype
    return _cast(array, as_dtype(dtype))


def sum(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The sum over the axes (all if None). Integers give int64 unless ``dtype`` says otherwise; of nothing it is 0."""
    return _reduce("sum", _accumulated(current("xb.sum").array(x), dtype), axis, keepdims)


def prod(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Array:
    """The product over the axes (all if None). Integers give int64 unless ``dtype`` says otherwise; of nothing: 1."""
    return _reduce("prod", _accumulated(current("xb.prod").array(x), dtype), axis, keepdims)


def max(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """The largest value over the axes (all if None), NaN if one is. Raises `ShapeError` over no elements."""
    return _reduce("max", current("xb.max").array(x), axis, keepdims)


def min(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """The smallest value over the axes (all if None), NaN if one is. Raises `ShapeError` over no elements."""
    return _reduce("min", current("xb.min").array(x), axis, keepdims)


def mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """The arithmetic mean over the axes (all if None) of a floating-point array; of nothing it is NaN."""
    return _reduce("mean", current("xb.mean").array(x), axis, keepdims)


def var(x: Any, /, *, axis: Any = None, correction: int | float = 0.0, keepdims: bool = False) -> Array:
    """The variance over the axes (all if None): sum((x - mean)**2) / (N - correction)."""
    array = current("xb.var").array(x)
    axes = _normalize_axes(axis, array.ndim)
    deviation = subtract(array, mean(array, axis=axes, keepdims=True))
    n = product(array.shape[a] for a in axes)
    return divide(sum(square(deviation), axis=axes, keepdims=keepdims), float(n - correction))


def std(x: Any, /, *, axis: Any = None, correction: int | float = 0.0, keepdims: bool = False) -> Array:
    """The standard deviation over the axes (all if None): the square root of `var`."""
    return sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def _truth(array: Array) -> Array:
    return array if array.dtype is DType.bool else not_equal(array, 0)


def any(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether one value over the axes (all if None) is true, or not zero."""
    return _reduce("any", _truth(current("xb.any").array(x)), axis, keepdims)


def all(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Array:
    """Whether every value over the axes (all if None) is true, or not zero."""
    return _reduce("all", _truth(current("xb.all").array(x)), axis, keepdims)


def _arg(name: str, x: Any, axis: int | None, keepdims: bool) -> Array:
    tracer = current(f"xb.{name}")
    array = tracer.array(x)
    shape = array.shape
    if axis is None:
        flat = array if array.ndim == 1 else reshape(array, (array.size,))
        return _keep(tracer.emit(name, (flat,), {"axis": 0}), shape, tuple(range(len(shape))), keepdims)
    number = normalize_axis(axis, len(shape))
    return _keep(tracer.emit(name, (array,), {"axis": number}), shape, (number,), keepdims)


def argmax(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The position (int64) of the first largest value along the axis, or in the flattened array."""
    return _arg("argmax", x, axis, keepdims)


def argmin(x: Any, /, *, axis: int | None = None, keepdims: bool = False) -> Array:
    """The position (int64) of the first smallest value along the axis, or in the flattened array."""
    return _arg("argmin", x, axis, keepdims)


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Array:
    """The running sum along the axis, which may be left out for one-dimensional arrays only."""
    array = _accumulated(current("xb.cumulative_sum").array(x), dtype)
    if axis is None and array.ndim != 1:
        raise ShapeError(f"cumulative_sum of shape {array.shape} needs an axis")
    number = normalize_axis(0 if axis is None else axis, array.ndim)
    result = array._tracer.emit("cumulative_sum", (array,), {"axis": number})
    if include_initial:
        first = (*array.shape[:number], 1, *array.shape[number + 1 :])
        result = concat([zeros(first, dtype=array.dtype), result], axis=number)
    return result


# Shapes


def _shape(shape: Any) -> tuple[int, ...]:
    lengths = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in lengths:
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise ShapeError(f"shape {shape!r} is not a tuple of non-negative integers")
    return lengths


def reshape(x: Any, /, shape: Any) -> Array:
    """The same elements, in row-major order, in another shape, of which one length may be -1."""
    array = current("xb.reshape").array(x)
    lengths = [shape] if isinstance(shape, int) else list(shape)
    if lengths.count(-1) == 1:
        known = product(n for n in lengths if n != -1)
        if known == 0 or array.size % known:
            raise ShapeError(f"cannot reshape {array.shape} ({array.size} elements) to {tuple(lengths)}")
        lengths[lengths.index(-1)] = array.size // known
    target = _shape(lengths)
    return array if target == array.shape else array._tracer.emit("reshape", (array,), {"shape": target})


def expand_dims(x: Any, /, *, axis: int = 0) -> Array:
    """The array with a new axis of length 1 at the position."""
    array = current("xb.expand_dims").array(x)
    number = normalize_axis(axis, array.ndim + 1)
    return reshape(array, (*array.shape[:number], 1, *array.shape[number:]))


def squeeze(x: Any, /, axis: Any) -> Array:
    """The array without the axes, which must have length 1."""
    array = current("xb.squeeze").array(x)
    axes = _normalize_axes(axis, array.ndim)
    for a in axes:
        if array.shape[a] != 1:
            raise ShapeError(f"cannot squeeze axis {a} of shape {array.shape}: its length is {array.shape[a]}")
    return reshape(array, tuple(n for a, n in enumerate(array.shape) if a not in axes))


def permute_dims(x: Any, /, axes: Sequence[int]) -> Array:
    """The array with its axes in another order."""
    array = current("xb.permute_dims").array(x)
    order = tuple(normalize_axis(a, array.ndim) for a in axes)
    return array._tracer.emit("permute_dims", (array,), {"axes": order})


def matrix_transpose(x: Any, /) -> Array:
    """The array with its last two axes exchanged."""
    array = current("xb.matrix_transpose").array(x)
    if array.ndim < 2:
        raise ShapeError(f"matrix_transpose needs a matrix, this has shape {array.shape}")
    return permute_dims(array, (*range(array.ndim - 2), array.ndim - 1, array.ndim - 2))


def broadcast_to(x: Any, /, shape: Any) -> Array:
    """The array repeated to the shape, as broadcasting would."""
    array = current("xb.broadcast_to").array(x)
    target = _shape(shape)
    return array if target == array.shape else array._tracer.emit("broadcast_to", (array,), {"shape": target})


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Array:
    """The arrays one after the other along the axis (`None`: each flattened first); dtypes promote."""
    tracer = current("xb.concat")
    if not arrays:
        raise ShapeError("concat of no arrays")
    parts = _operands("concat", tracer, *[tracer.array(a) for a in arrays])
    if axis is None:
        parts, axis = [reshape(p, (p.size,)) for p in parts], 0
    return tracer.emit("concat", parts, {"axis": normalize_axis(axis, parts[0].ndim)})


def stack(arrays: Sequence[Any], /, *, axis: int = 0) -> Array:
    """The arrays, all of one shape, along a new axis; dtypes promote."""
    tracer = current("xb.stack")
    parts = [tracer.array(a) for a in arrays]
    if len({p.shape for p in parts}) > 1:
        raise ShapeError(f"stack of arrays of different shapes {', '.join(str(p.shape) for p in parts)}")
    return concat([expand_dims(p, axis=axis) for p in parts], axis=axis)


# Products of matrices


def matmul(x1: Any, x2: Any, /) -> Array:
    """The matrix product; leading axes broadcast, a vector counts as a row on the left and a column on the right."""
    tracer = current("xb.matmul")
    a, b = _operands("matmul", tracer, x1, x2)
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul of shapes {a.shape} and {b.shape}: a number is no matrix; use *")
    left, right = a.ndim == 1, b.ndim == 1
    a = expand_dims(a, axis=0) if left else a
    b = expand_dims(b, axis=1) if right else b
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"matmul of shapes {a.shape} and {b.shape}: {a.shape[-1]} columns, {b.shape[-2]} rows")
    leading = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = broadcast_to(a, (*leading, *a.shape[-2:]))
    b = broadcast_to(b, (*leading, *b.shape[-2:]))
    result = tracer.emit("matmul", (a, b), {})
    if left or right:
        rows, columns = () if left else (a.shape[-2],), () if right else (b.shape[-1],)
        result = reshape(result, (*leading, *rows, *columns))
    return result


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """The sum of products along the axis."""
    products = multiply(x1, x2)
    return sum(products, axis=axis, dtype=products.dtype)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Array:
    """The sum of products over the axes: a number of them (last of the first, first of the second) or two tuples."""
    tracer = current("xb.tensordot")
    a, b = _operands("tensordot", tracer, x1, x2)
    if isinstance(axes, int):
        axes = (tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes)))
    over_a = [normalize_axis(i, a.ndim) for i in axes[0]]
    over_b = [normalize_axis(i, b.ndim) for i in axes[1]]
    if [a.shape[i] for i in over_a] != [b.shape[i] for i in over_b]:
        raise ShapeError(f"tensordot of shapes {a.shape} and {b.shape} over axes {axes}: lengths differ")
    kept_a = [i for i in range(a.ndim) if i not in over_a]
    kept_b = [i for i in range(b.ndim) if i not in over_b]
    rows, columns = [a.shape[i] for i in kept_a], [b.shape[i] for i in kept_b]
    inner = product(a.shape[i] for i in over_a)
    left = reshape(permute_dims(a, kept_a + over_a), (product(rows), inner))
    right = reshape(permute_dims(b, over_b + kept_b), (inner, product(columns)))
    return reshape(matmul(left, right), (*rows, *columns))


# Making arrays


def asarray(value: Any, /, *, dtype: Any = None) -> Array:
    """A constant of the program: numbers, nested lists, NumPy arrays. Python floats are float64, integers int64."""
    array = current("xb.asarray").array(value)
    return array if dtype is None else _cast(array, as_dtype(dtype))


def full(shape: Any, fill_value: Scalar, *, dtype: Any = None) -> Array:
    """An array filled with a number; without a dtype it is float64, int64 or bool, as the number is."""
    if not _is_scalar(fill_value):
        raise DTypeError(f"full takes a Python number, not {fill_value!r:.60}; use xb.broadcast_to")
    kind = as_dtype(type(fill_value) if dtype is None else dtype)
    value = {"bool": bool, "int32": int, "int64": int}.get(kind.value, float)(fill_value)
    params = {"shape": _shape(shape), "dtype": kind, "fill_value": value}
    return current("xb.full").emit("full", (), params)


def zeros(shape: Any, *, dtype: Any = DType.float64) -> Array:
    """An array of zeros."""
    return full(shape, 0, dtype=dtype)


def ones(shape: Any, *, dtype: Any = DType.float64) -> Array:
    """An array of ones."""
    return full(shape, 1, dtype=dtype)


def full_like(x: Any, /, fill_value: Scalar, *, dtype: Any = None) -> Array:
    """An array of the shape, and unless given the dtype, of another, filled with a number."""
    array = current("xb.full_like").array(x)
    return full(array.shape, fill_value, dtype=dtype or array.dtype)


def zeros_like(x: Any, /, *, dtype: Any = None) -> Array:
    """Zeros in the shape, and unless given the dtype, of another array."""
    return full_like(x, 0, dtype=dtype)


def ones_like(x: Any, /, *, dtype: Any = None) -> Array:
    """Ones in the shape, and unless given the dtype, of another array."""
    return full_like(x, 1, dtype=dtype)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = DType.float64) -> Array:
    """A matrix with ones on its k-th diagonal and zeros elsewhere."""
    shape = _shape((n_rows, n_rows if n_cols is None else n_cols))
    return current("xb.eye").emit("eye", (), {"k": k, "shape": shape, "dtype": as_dtype(dtype)})


def arange(start: Scalar, /, stop: Scalar | None = None, step: Scalar = 1, *, dtype: Any = None) -> Array:
    """Evenly spaced numbers from ``start`` (or 0) up to ``stop``, which is not reached."""
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise ShapeError("arange with a step of 0 never ends")
    numbers = (start, stop, step)
    floating = [n for n in numbers if isinstance(n, float)]
    kind = as_dtype(dtype if dtype is not None else (float if floating else int))
    # ceil((stop - start) / step) without the loss of a floating-point division for integers
    distance = -((start - stop) // step)
    params = {"start": start, "step": step, "shape": (int(distance) if distance > 0 else 0,), "dtype": kind}
    return current("xb.arange").emit("arange", (), params)


def linspace(start: Scalar, stop: Scalar, /, num: int, *, dtype: Any = DType.float64, endpoint: bool = True) -> Array:
    """``num`` evenly spaced numbers from ``start`` to ``stop``, which is one of them unless ``endpoint`` is false."""
    import numpy as np

    kind, (length,) = as_dtype(dtype), _shape(num)
    return asarray(np.linspace(start, stop, length, endpoint=endpoint, dtype=kind.value))


# Devices


def to_device(x: Any, device: str | Device, /) -> Array:
    """The same values on another device or logical device: a transfer, unless they are there already."""
    array = current("xb.to_device").array(x)
    return array._tracer.emit("transfer", (array,), {}, canonical(device))
