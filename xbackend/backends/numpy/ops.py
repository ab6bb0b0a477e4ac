"""The ops of a program as functions of NumPy, and of autograd's NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np

from xbackend import extras
from xbackend.backends.numpy import control_flow, linear_algebra
from xbackend.backends.numpy.linear_algebra import Function, Maker
from xbackend.backends.special_numbers import by_factors
from xbackend.program.ops import ELEMENTWISE
from xbackend.program.program import Node


def slices(params: Mapping[str, Any]) -> tuple[slice, ...]:
    """The slices of an op with ``starts``, ``stops`` and ``steps``, by axis."""
    return tuple(map(slice, params["starts"], params["stops"], params["steps"]))


def index(params: Mapping[str, Any]) -> tuple[slice | int, ...]:
    """The index of an op `slice`: numbers on the axes that it drops, slices on the others."""
    return tuple(s.start if axis in params["drop"] else s for axis, s in enumerate(slices(params)))


def selected(axis: int, indices: Any) -> tuple[Any, ...]:
    """The index of `take`, `take_set` and `take_add`."""
    return (*(slice(None),) * axis, indices)


def along(axis: int, indices: np.ndarray) -> tuple[Any, ...]:
    """The index of `take_along_axis`."""
    places: list[Any] = [*np.ogrid[tuple(slice(n) for n in indices.shape)]]
    places[axis] = indices
    return tuple(places)


def _set(x: np.ndarray, value: np.ndarray, key: Any) -> np.ndarray:
    result = np.array(x)  # `x` may be a number
    result[key] = value
    return result


def _add(x: np.ndarray, value: np.ndarray, key: Any) -> np.ndarray:
    """``x`` plus a value at an index. An element that the index has twice gets both."""
    result = np.array(x)  # `x` may be a number
    np.add.at(result, key, value)
    return result


@cache
def _differentiable() -> tuple[Function, Function]:
    from autograd.extend import defvjp, primitive

    written, added = primitive(_set), primitive(_add)
    of_value: Function = lambda _, x, value, key: itemgetter(key)  # noqa: E731
    defvjp(written, lambda _, x, value, key: lambda g: written(g, np.asarray(0.0, g.dtype), key), of_value)
    defvjp(added, lambda _, x, value, key: lambda g: g, of_value)
    return written, added


def _writing(xp: Any) -> tuple[Function, Function]:
    return (_set, _add) if xp is np else _differentiable()


@cache
def _broadcasting() -> Function:
    """`broadcast_to` with a gradient for new and for empty axes, which autograd's own lacks."""
    import autograd.numpy as anp
    from autograd.extend import defvjp, primitive

    @primitive  # type: ignore[untyped-decorator]
    def broadcast(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        return np.broadcast_to(x, shape)

    def summed(_: Any, x: Any, shape: tuple[int, ...]) -> Function:
        new = len(shape) - x.ndim
        axes = (*range(new), *(a for a, n in enumerate(x.shape, new) if n != shape[a]))
        return lambda g: anp.reshape(anp.sum(g, axis=axes), x.shape)

    defvjp(broadcast, summed, argnums=(0,))
    return broadcast  # type: ignore[no-any-return]


def _differentiated(xp: Any, node: Node) -> Function:
    """The function of a node for autograd: without a gradient for integers and booleans; broadcasts are separate."""
    from autograd.tracer import getval, isbox

    if not node.dtype.is_floating:
        plain = _function(np, node)
        return lambda *x: np.asarray(plain(*map(getval, x)), node.dtype.value)
    call = _function(xp, node)
    if node.op not in ELEMENTWISE:
        return call
    shape, broadcast = node.shape, _broadcasting()
    return lambda *x: call(*(broadcast(a, shape) if isbox(a) and a.shape != shape else a for a in x))


def _integer_power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Negative exponents give an unspecified number, as in the standard; NumPy would raise."""
    result: np.ndarray = np.power(x, np.maximum(y, 0))
    return result


def _power(xp: Any) -> Function:
    """``power``. For an exponent of rank 0 that is 0.5 NumPy takes the square root, whose result for -inf differs."""

    def power(x: Any, y: Any) -> Any:
        if y.ndim == 0 and y == 0.5:
            x = xp.where(x == -np.inf, np.inf, x + 0.0)
        return xp.power(x, y)

    return power


# NumPy's names of the standard's asin and the like.
ARC_NAMES = {name: name.replace("a", "arc", 1) for name in ["asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2"]}
_NAMES = {**ARC_NAMES, "round": "rint", "transfer": "array", "bitwise_invert": "invert", "cumulative_sum": "cumsum"}


def _product(x: Any, axis: Sequence[int]) -> Any:
    """A product as a tree of products of two: autograd's own gradient divides by the factors, which may be 0."""
    import autograd.numpy as anp

    kept = [a for a in range(x.ndim) if a not in axis]
    count, shape = math.prod(x.shape[a] for a in axis), tuple(x.shape[a] for a in kept)
    if not count:
        return anp.ones(shape, x.dtype)
    factors = anp.reshape(anp.transpose(x, (*axis, *kept)), (count, *shape))
    while count > 1:
        half, odd = divmod(count, 2)
        products = factors[:half] * factors[half : 2 * half]
        factors, count = anp.concatenate([products, factors[2 * half :]]) if odd else products, half + odd
    return factors[0]


@cache
def _running_product() -> Function:
    """`np.cumprod` with a gradient, also a second one, that does not divide by the factors: they may be 0."""
    import autograd.numpy as anp
    from autograd.extend import defvjp, primitive

    def pullback(ans: Any, x: Any, axis: int, dtype: str) -> Function:
        along = {"axis": axis, "length": x.shape[axis], "join": anp.concatenate}
        return lambda g: by_factors(anp, x, ans, g, **along)

    cumprod = primitive(np.cumprod)
    defvjp(cumprod, pullback, argnums=(0,))
    return cumprod  # type: ignore[no-any-return]


# NumPy has no special functions: they are SciPy's, as in most users' code.
SPECIAL_FUNCTIONS = ("erf", "erfc", "erfinv", "gammaln", "digamma", "expit")


def _special_function(xp: Any, node: Node) -> Function:
    extras.need(f"{node.op} on numpy", ["scipy"], "numpy")
    if xp is np:
        from scipy import special
    else:
        from autograd.scipy import special
    return getattr(special, node.op)  # type: ignore[no-any-return]


@cache
def _sorting() -> Function:
    """`np.sort` with a gradient, also a second one."""
    from autograd.extend import defvjp, primitive
    from autograd.tracer import getval

    def put_back(_: Any, x: Any, axis: int) -> Function:
        """Move each cotangent to the position of its element before sorting."""
        order = np.argsort(np.argsort(getval(x), axis=axis, kind="stable"), axis=axis)
        return itemgetter(along(axis, order))

    sort = primitive(np.sort)
    defvjp(sort, put_back, argnums=(0,))
    return sort  # type: ignore[no-any-return]


def _conv2d(xp: Any, node: Node) -> Function:
    """A sum of matrix products: of each element of the kernel with the pixels that it multiplies."""
    (down, across), padding, (_, rows, columns, _) = node.params["strides"], node.params["padding"], node.shape

    def conv2d(images: Any, kernel: Any) -> Any:
        if any(padding):
            images = xp.pad(images, ((0, 0), tuple(padding[:2]), tuple(padding[2:]), (0, 0)), "constant")
        result = 0.0
        for i in range(kernel.shape[0]):
            for j in range(kernel.shape[1]):
                met = images[:, i : i + (rows - 1) * down + 1 : down, j : j + (columns - 1) * across + 1 : across]
                result = result + xp.matmul(met, kernel[i, j])
        return result

    return conv2d


def results(xp: Any, node: Node, compiled: control_flow.Compiler) -> Function:
    """The function of ``xp`` that computes all results of an op with several."""
    return control_flow.ROWS[node.op](xp, node, compiled) if node.bodies else ROWS[node.op](xp, node)


def function(xp: Any, node: Node) -> Function:
    """The function of ``xp`` (numpy or autograd.numpy) that computes a node from its inputs."""
    return _function(xp, node) if xp is np else _differentiated(xp, node)


def _function(xp: Any, node: Node) -> Function:
    if node.op in ROWS:
        return ROWS[node.op](xp, node)
    call: Function = getattr(xp, _NAMES.get(node.op, node.op))
    return partial(call, axis=node.params["axis"]) if "axis" in node.params else call


def _joining(name: str, xp: Any, node: Node) -> Function:
    join, axis = getattr(xp, name), node.params["axis"]
    return lambda *x: join(x, axis=axis)


def _taking(place: Function, xp: Any, node: Node) -> Function:
    axis = node.params["axis"]
    return lambda x, indices: x[place(axis, indices)]


def _writing_taken(which: int, xp: Any, node: Node) -> Function:
    write, axis = _writing(xp)[which], node.params["axis"]
    return lambda x, indices, value: write(x, value, selected(axis, indices))


def _mean(xp: Any, node: Node) -> Function:
    """NumPy warns of the mean of nothing, which is NaN as the standard says."""
    axis = node.params["axis"]
    return lambda x: xp.mean(x, axis=axis) if x.size else np.full(node.shape, np.nan)


ROWS: Mapping[str, Maker] = {
    "astype": lambda xp, node: methodcaller("astype", node.dtype.value),
    "reshape": lambda xp, node: methodcaller("reshape", node.params["shape"]),
    "permute_dims": lambda xp, node: partial(xp.transpose, axes=node.params["axes"]),
    "broadcast_to": lambda xp, node: partial(np.broadcast_to if xp is np else _broadcasting(), shape=node.shape),
    "concat": partial(_joining, "concatenate"),
    "stack": partial(_joining, "stack"),
    "slice": lambda xp, node: itemgetter((*index(node.params), ...) if node.shape else index(node.params)),
    "take": partial(_taking, selected),
    "take_along_axis": partial(_taking, along),
    "slice_set": lambda xp, node: partial(_writing(xp)[0], key=slices(node.params)),
    "slice_add": lambda xp, node: partial(_writing(xp)[1], key=slices(node.params)),
    "take_set": partial(_writing_taken, 0),
    "take_add": partial(_writing_taken, 1),
    "cumulative_prod": lambda xp, node: partial(
        np.cumprod if xp is np else _running_product(), axis=node.params["axis"], dtype=node.dtype.value
    ),
    "mean": _mean,
    "prod": lambda xp, node: partial(np.prod if xp is np else _product, axis=node.params["axis"]),
    "pow": lambda xp, node: _power(xp) if node.dtype.is_floating else _integer_power,
    "conv2d": _conv2d,
    **dict.fromkeys(SPECIAL_FUNCTIONS, _special_function),
    "sort": lambda xp, node: partial(np.sort if xp is np else _sorting(), axis=node.params["axis"]),
    "argsort": lambda xp, node: partial(np.argsort, axis=node.params["axis"], kind="stable"),
    "searchsorted": lambda xp, node: partial(np.searchsorted, side="right" if node.params["right"] else "left"),
    **linear_algebra.ROWS,
}
"""What makes the function of an op whose name, or arguments, in ``xp`` are not the standard's."""
