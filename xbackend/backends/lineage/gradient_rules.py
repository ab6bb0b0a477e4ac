"""Gradients of single ops that differ from `docs/numbers.md` in the lineage, mended while xbackend takes a gradient,
not for the user's own gradients in the same interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from math import prod
from typing import Any

from xbackend.backends.lineage.linear_algebra import gradient_of, has_stacks, of_single_matrices
from xbackend.backends.lineage.shapes import lengths, shape_of
from xbackend.backends.lineage.special import digamma, digamma_in_ops
from xbackend.backends.special_numbers import by_factors

# In `Backend.added`.
MENDED = "gradients of equal values (max, maximum), of 0 ** 0, of (running) products of zeros, and inside of loops"

# From the op, its inputs, outputs and cotangents, and the framework's rule of these, to the gradients of the inputs.
Rule = Callable[[Any, tuple[Any, Any, Any], Callable[..., Any]], Sequence[Any]]


@contextmanager
def mended(backend: Any) -> Iterator[None]:
    """A context in which the framework of a `LineageBackend` has the rules of this file."""
    T, scalars = backend.T, backend.module("scalar.basic")
    larger = getattr(scalars, "scalar_maximum", None) or scalars.maximum
    smaller = getattr(scalars, "scalar_minimum", None) or scalars.minimum
    rules: list[tuple[Any, Rule]] = [
        (T.max(T.constant([0.0]), axis=(0,)).owner.op, partial(_of_largest, T)),
        (T.prod(T.constant([1.0]), axis=(0,)).owner.op, partial(_of_product, T)),
        (T.cumprod(T.constant([1.0]), axis=0).owner.op, partial(_of_running_product, T)),
        (scalars.pow, partial(_of_power, scalars)),
        (larger, partial(_of_larger, scalars, scalars.gt)),
        (smaller, partial(_of_larger, scalars, scalars.lt)),
    ]
    if backend.rows.get("digamma") is digamma:
        gammaln = T.gammaln(T.constant(1.0)).owner.op.scalar_op
        rules.append((gammaln, partial(_of_gammaln, scalars, backend.digamma_dtypes)))
    with ExitStack() as stack:
        for op, rule in rules:
            stack.enter_context(_replaced(type(op), gradient_of(op), rule))
        for kind in () if has_stacks(T) else of_single_matrices(T):
            stack.enter_context(_replaced(kind, "L_op", _of_matrices))
        if backend.overwrites_views:
            stack.enter_context(_replaced(backend.module("tensor.shape").SpecifyShape, "L_op", _of_shape))
        yield


@contextmanager
def _replaced(kind: type, name: str, rule: Rule) -> Iterator[None]:
    """A context in which a class of ops has another gradient rule, its method ``name``."""
    theirs, inherited = getattr(kind, name), name not in vars(kind)
    setattr(kind, name, lambda self, *given: rule(self, given, partial(theirs, self)))
    try:
        yield
    finally:
        if inherited:
            delattr(kind, name)
        else:
            setattr(kind, name, theirs)


def _of_shape(op: Any, given: Any, theirs: Any) -> Sequence[Any]:
    """Of a specified shape: the cotangent itself, unless its type lacks lengths of 1, without which it would not
    broadcast."""
    (own, *rest), (cotangent, *_) = theirs(*given), given[2]
    same = cotangent.type.broadcastable == own.type.broadcastable
    return [cotangent if same else own, *rest]


def _of_matrices(op: Any, given: Any, theirs: Any) -> Sequence[Any]:
    """Of linear algebra: the types of the frameworks' gradients lack static lengths 1."""
    found = zip(given[0], theirs(*given), strict=True)
    return [_shaped_as(x, g) if hasattr(g.type, "dtype") else g for x, g in found]


def _shaped_as(x: Any, gradient: Any) -> Any:
    """The gradient with the static lengths 1 of ``x`` in its type."""
    shape = shape_of(x)
    return gradient.reshape(shape) if 1 in (shape or ()) else gradient


def _of_largest(T: Any, op: Any, given: Any, theirs: Any) -> Sequence[Any]:
    """Of the maximum along axes: the frameworks' rule gives each of several equal elements the whole gradient."""
    (x,), (largest, *_), (cotangent, *_) = given  # older generations have the position, too
    kept = iter(range(x.ndim - len(op.axis)))
    back = ["x" if axis in op.axis else next(kept) for axis in range(x.ndim)]
    where = T.cast(T.eq(x, largest.dimshuffle(*back)), x.dtype)
    share = T.true_div(cotangent, T.sum(where, axis=op.axis))
    return [T.mul(where, share.dimshuffle(*back))]


def _of_larger(scalars: Any, before: Any, op: Any, given: Any, theirs: Any) -> Any:
    """Of the larger of two: where they are equal, the frameworks' rule gives all to the first."""
    (x, y), (larger,), (cotangent,) = given
    if larger.type in scalars.discrete_types:
        return theirs(*given)
    half, one, zero = (scalars.constant(value, dtype=cotangent.dtype) for value in (0.5, 1.0, 0.0))
    part = scalars.switch(scalars.eq(x, y), half, scalars.switch(before(x, y), one, zero))
    return [part * cotangent, (one - part) * cotangent]


def _of_product(T: Any, op: Any, given: Any, theirs: Any) -> Any:
    """Of products along axes: the frameworks' rule divides by the factors, and has no gradient itself."""

    def others(x: Any, n: int) -> Any:
        """For each of the n factors on the last axis, the product of the others, by halves."""
        if n == 1:
            return T.ones_like(x)
        half, rest = n // 2, [x[..., n - 1 :]] * (n % 2)
        first, second = x[..., :half], x[..., half : 2 * half]
        behind = others(T.concatenate([first * second, *rest], axis=x.ndim - 1), n - half)
        both, rest = behind[..., :half], [behind[..., half:]] * (n % 2)
        return T.concatenate([both * second, both * first, *rest], axis=x.ndim - 1)

    (x,), (product,), (cotangent,) = given
    shape, axes = shape_of(x), range(x.ndim) if op.axis is None else op.axis
    if shape is None or 0 in shape or not axes or x.dtype != product.dtype:
        return theirs(*given)
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    order, count = (*kept, *axes), prod(shape[axis] for axis in axes)
    rows = T.reshape(x.dimshuffle(*order), (*(shape[axis] for axis in kept), count))
    gradient = others(rows, count) * cotangent.dimshuffle(*range(len(kept)), "x")
    whole = T.reshape(gradient, tuple(shape[axis] for axis in order))
    return [whole.dimshuffle(*(order.index(axis) for axis in range(x.ndim)))]


def _of_running_product(T: Any, op: Any, given: Any, theirs: Any) -> Any:
    """Of cumulative products: the frameworks' rule divides by the factors."""
    if op.mode != "mul":
        return theirs(*given)
    (x,), (products,), (cotangent,) = given
    along = {"axis": op.axis, "length": lengths(x)[op.axis], "join": T.concatenate}
    return [_shaped_as(x, by_factors(T, x, products, cotangent, **along))]


def _of_gammaln(scalars: Any, dtypes: Sequence[str], op: Any, given: Any, theirs: Any) -> Sequence[Any]:
    """Of the logarithm of the gamma function: the frameworks' digamma is inexact, and 0 for negative numbers. It is
    written out for these dtypes; for others it is theirs for positive numbers, else NaN."""
    (x,), _, (cotangent,) = given
    if x.type.dtype in dtypes:
        return [digamma_in_ops(scalars, x, scalars.round_half_to_even(x)) * cotangent]
    zero, negative = (scalars.constant(number, dtype=x.dtype) for number in (0.0, -1.0))
    none = scalars.log(negative)  # NaN: Theano has no such constant in float32
    return [scalars.switch(scalars.gt(x, zero), *theirs(*given), none)]


def _of_power(scalars: Any, op: Any, given: Any, theirs: Any) -> Sequence[Any]:
    """Of ``x ** y`` by ``x``: ``y * x ** (y - 1)`` is 0 times infinity where both are 0, in every derivative."""
    (x, y), *rest = given
    zeros = [scalars.eq(number, scalars.constant(0, dtype=number.dtype)) for number in (x, y)]
    apart = scalars.switch(scalars.and_(*zeros), scalars.constant(1, dtype=x.dtype), x)
    return [theirs([apart, y], *rest)[0], theirs(*given)[1]]
