"""The ops of a program as functions of NumPy, and of autograd's NumPy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from xbackend.backends.numpy import control_flow, linear_algebra, sorting
from xbackend.backends.numpy.convolution import conv2d
from xbackend.program.ops import ELEMENTWISE
from xbackend.program.program import Node

Function = Callable[..., Any]


def slices(params: Mapping[str, Any]) -> tuple[slice, ...]:
    """The slices of an op of that name, by axis."""
    return tuple(map(slice, params["starts"], params["stops"], params["steps"]))


def index(params: Mapping[str, Any]) -> tuple[slice | int, ...]:
    """By what an op `slice` reads: numbers on the axes that it drops."""
    return tuple(s.start if axis in params["drop"] else s for axis, s in enumerate(slices(params)))


def selected(axis: int, indices: Any) -> tuple[Any, ...]:
    """The index by which an array gives, and takes, what `take` reads."""
    return (*(slice(None),) * axis, indices)


def along(axis: int, indices: np.ndarray) -> tuple[Any, ...]:
    """The index by which an array gives what `take_along_axis` reads."""
    places: list[Any] = [*np.ogrid[tuple(slice(n) for n in indices.shape)]]
    places[axis] = indices
    return tuple(places)


def _set(x: np.ndarray, key: Any, value: np.ndarray) -> np.ndarray:
    """``x`` with other elements where an index reads."""
    result = np.array(x)  # which may be a number
    result[key] = value
    return result


def _add(x: np.ndarray, key: Any, value: np.ndarray) -> np.ndarray:
    """``x`` with something added where an index reads, each time that it does."""
    result = np.array(x)  # which may be a number
    np.add.at(result, key, value)
    return result


@cache
def _differentiable() -> tuple[Function, Function]:
    """`_set` and `_add` as autograd differentiates them."""
    from autograd.extend import defvjp, primitive

    written, added = primitive(_set), primitive(_add)
    zero = partial(np.asarray, 0.0)
    defvjp(
        written,
        lambda _, x, key, value: lambda g: written(g, key, zero(dtype=g.dtype)),
        lambda _, x, key, value: lambda g: g[key],
        argnums=(0, 2),
    )
    defvjp(added, lambda _, x, key, value: lambda g: g, lambda _, x, key, value: lambda g: g[key], argnums=(0, 2))
    return written, added


def _getter(key: Any) -> Function:
    return lambda x: x[key]


def _writer(write: Function, key: Any) -> Function:
    return lambda x, value: write(x, key, value)


def _writing(xp: Any) -> tuple[Function, Function]:
    return (_set, _add) if xp is np else _differentiable()


@cache
def _broadcasting() -> Function:
    """`broadcast_to` as autograd differentiates it, which its own knows for axes that are there and not empty only."""
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
    """What autograd goes through for a node.

    It sees neither integers and booleans, which have no gradient, nor that an op broadcasts, which not all of its
    gradients undo: a broadcast is a function of its own, whose gradient is the sum over the new elements.
    """
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
    """``power``, which takes the square root where the exponent is one number, 0.5: that of -inf differs."""

    def power(x: Any, y: Any) -> Any:
        if y.ndim == 0 and y == 0.5:
            x = xp.where(x == -np.inf, np.inf, x + 0.0)
        return xp.power(x, y)

    return power


# What NumPy calls what the standard calls asin.
ARC_NAMES = {name: name.replace("a", "arc", 1) for name in ["asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2"]}
_NAMES = {**ARC_NAMES, "round": "rint", "transfer": "array", "bitwise_invert": "invert"}


def _product(xp: Any, x: Any, axes: Sequence[int]) -> Any:
    """A product as a tree of products of two: autograd's own gradient divides by the factors, which may be 0."""
    kept = [a for a in range(x.ndim) if a not in axes]
    count, shape = math.prod(x.shape[a] for a in axes), tuple(x.shape[a] for a in kept)
    if not count:
        return xp.ones(shape, x.dtype)
    factors = xp.reshape(xp.transpose(x, (*axes, *kept)), (count, *shape))
    while count > 1:
        half, odd = divmod(count, 2)
        products = factors[:half] * factors[half : 2 * half]
        factors, count = xp.concatenate([products, factors[2 * half :]]) if odd else products, half + odd
    return factors[0]


@cache
def _running_product() -> Function:
    """`np.cumprod` as autograd differentiates it, also twice: nothing is divided by the factors, which may be 0."""
    import autograd.numpy as anp
    from autograd.extend import defvjp, primitive

    def by_factors(_: Any, x: Any, axis: int, dtype: str) -> Function:
        """The gradient of each factor is that of the next one times the next factor, and its own; times the product of
        the factors before."""
        x = x.swapaxes(axis, -1)
        count = x.shape[-1]

        def pullback(g: Any) -> Any:
            if not count:
                return g
            g = g.swapaxes(axis, -1)
            behind, before = [g[..., -1]], [anp.ones_like(x[..., 0])]
            for k in range(count - 2, -1, -1):
                behind.append(g[..., k] + x[..., k + 1] * behind[-1])
            for k in range(count - 1):
                before.append(before[-1] * x[..., k])
            return (anp.stack(behind[::-1], -1) * anp.stack(before, -1)).swapaxes(axis, -1)

        return pullback

    cumprod = primitive(np.cumprod)
    defvjp(cumprod, by_factors, argnums=(0,))
    return cumprod  # type: ignore[no-any-return]


# NumPy has no special functions: they are SciPy's, as in most users' code.
SPECIAL_FUNCTIONS = ("erf", "erfc", "erfinv", "gammaln", "digamma", "expit")


def _special_function(xp: Any, name: str) -> Function:
    if xp is np:
        from scipy import special
    else:
        from autograd.scipy import special
    return getattr(special, name)  # type: ignore[no-any-return]


def results(xp: Any, node: Node, compiled: control_flow.Compiler) -> Function:
    """The function of ``xp`` that computes all results of an op that has several."""
    if node.op in control_flow.CONTROL:
        return control_flow.function(xp, node, compiled)
    return linear_algebra.ROWS[node.op](xp, node)


def function(xp: Any, node: Node) -> Function:
    """The function of ``xp`` (numpy or autograd.numpy) that computes a node from its inputs."""
    return _function(xp, node) if xp is np else _differentiated(xp, node)


def _function(xp: Any, node: Node) -> Function:
    p = node.params
    rows: dict[str, Callable[[], Function]] = {
        "astype": lambda: lambda x: x.astype(p["dtype"].value if hasattr(p["dtype"], "value") else p["dtype"]),
        "reshape": lambda: lambda x: xp.reshape(x, p["shape"]),
        "permute_dims": lambda: lambda x: xp.transpose(x, p["axes"]),
        "broadcast_to": lambda: partial(np.broadcast_to if xp is np else _broadcasting(), shape=p["shape"]),
        "concat": lambda: lambda *x: xp.concatenate(x, axis=p["axis"]),
        "stack": lambda: lambda *x: xp.stack(x, axis=p["axis"]),
        "slice": lambda: _getter((*index(p), ...) if node.shape else index(p)),
        "take": lambda: lambda x, indices: x[selected(p["axis"], indices)],
        "take_along_axis": lambda: lambda x, indices: x[along(p["axis"], indices)],
        "slice_set": lambda: _writer(_writing(xp)[0], slices(p)),
        "slice_add": lambda: _writer(_writing(xp)[1], slices(p)),
        "take_set": lambda: lambda x, indices, value: _writing(xp)[0](x, selected(p["axis"], indices), value),
        "take_add": lambda: lambda x, indices, value: _writing(xp)[1](x, selected(p["axis"], indices), value),
        "cumulative_sum": lambda: lambda x: xp.cumsum(x, axis=p["axis"]),
        "cumulative_prod": lambda: partial(
            np.cumprod if xp is np else _running_product(), axis=p["axis"], dtype=node.dtype.value
        ),
        "argmax": lambda: lambda x: np.asarray(xp.argmax(x, axis=p["axis"])),
        "argmin": lambda: lambda x: np.asarray(xp.argmin(x, axis=p["axis"])),
        # NumPy warns of the mean of nothing, which is NaN as the standard says.
        "mean": lambda: lambda x: xp.mean(x, axis=p["axis"]) if x.size else np.full(node.shape, np.nan),
        "prod": lambda: lambda x: np.prod(x, axis=p["axis"]) if xp is np else _product(xp, x, p["axis"]),
        "pow": lambda: _power(xp) if node.dtype.is_floating else _integer_power,
        "conv2d": lambda: conv2d(xp, node),
        **dict.fromkeys(SPECIAL_FUNCTIONS, lambda: _special_function(xp, node.op)),
    }
    if node.op in rows:
        return rows[node.op]()
    for others in (linear_algebra.ROWS, sorting.ROWS):
        if node.op in others:
            return others[node.op](xp, node)
    call: Function = getattr(xp, _NAMES.get(node.op, node.op))
    if "axis" in p:
        axis = p["axis"]
        return lambda x: call(x, axis=axis)
    return call
