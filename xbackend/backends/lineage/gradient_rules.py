"""Gradients of single ops that differ from `docs/numbers.md` in the lineage, mended while xbackend takes a gradient,
not for the user's own gradients in the same interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import prod
from typing import Any

from xbackend.backends.lineage.linear_algebra import has_stacks, of_single_matrices
from xbackend.backends.lineage.shapes import lengths, shape_of
from xbackend.backends.lineage.special import digamma, digamma_in_ops
from xbackend.backends.special_numbers import by_factors

# In `Backend.added`.
MENDED = "gradients of equal values (max, maximum), of 0 ** 0, of products and of running products of zeros"

# From the framework's rule, the op, its inputs, outputs and cotangents to the gradients of the inputs.
Rule = Callable[[Callable[..., Any], Any, Sequence[Any], Sequence[Any], Sequence[Any]], Sequence[Any]]


@contextmanager
def mended(backend: Any) -> Iterator[None]:
    """A context in which the framework of a `LineageBackend` has the rules of this file."""
    T, scalars = backend.T, backend.module("scalar.basic")
    largest = T.max(T.constant([0.0]), axis=(0,)).owner.op
    rules: list[tuple[Any, Rule]] = [
        (largest, _of_largest(T)),
        (T.prod(T.constant([1.0]), axis=(0,)).owner.op, _of_product(T)),
        (T.cumprod(T.constant([1.0]), axis=0).owner.op, _of_running_product(T)),
        (scalars.pow, _of_power(scalars)),
        (getattr(scalars, "scalar_maximum", None) or scalars.maximum, _of_larger(scalars, scalars.gt)),
        (getattr(scalars, "scalar_minimum", None) or scalars.minimum, _of_larger(scalars, scalars.lt)),
    ]
    if backend.rows.get("digamma") is digamma:
        rules.append((T.gammaln(T.constant(1.0)).owner.op.scalar_op, _of_gammaln(scalars, backend.digamma_dtypes)))
    with ExitStack() as stack:
        for op, rule in rules:
            stack.enter_context(_replaced(type(op), "pullback" if hasattr(op, "pullback") else "L_op", rule))
        for kind in () if has_stacks(T) else of_single_matrices(T):
            stack.enter_context(_replaced(kind, "L_op", _of_matrices(T)))
        if backend.overwrites_views:
            stack.enter_context(_replaced(backend.module("tensor.shape").SpecifyShape, "L_op", _of_shape))
        yield


@contextmanager
def _replaced(kind: type, name: str, rule: Rule) -> Iterator[None]:
    """A context in which a class of ops has another gradient rule, its method ``name``."""
    theirs, inherited = getattr(kind, name), name not in vars(kind)

    def method(self: Any, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        return rule(theirs, self, inputs, outputs, cotangents)

    setattr(kind, name, method)
    try:
        yield
    finally:
        if inherited:
            delattr(kind, name)
        else:
            setattr(kind, name, theirs)


def _of_shape(theirs: Any, op: Any, inputs: Any, outputs: Any, cotangents: Any) -> Sequence[Any]:
    """Of a specified shape: the cotangent itself, unless its type lacks lengths of 1, without which it would not
    broadcast."""
    own, *rest = theirs(op, inputs, outputs, cotangents)
    same = cotangents[0].type.broadcastable == own.type.broadcastable
    return [cotangents[0] if same else own, *rest]


def _of_matrices(T: Any) -> Rule:
    """Of linear algebra: the types of the frameworks' gradients lack static lengths 1."""

    def rule(theirs: Any, op: Any, inputs: Any, outputs: Any, cotangents: Any) -> Sequence[Any]:
        found = zip(inputs, theirs(op, inputs, outputs, cotangents), strict=True)
        return [_shaped_as(T, x, g) if hasattr(g.type, "dtype") else g for x, g in found]

    return rule


def _shaped_as(T: Any, x: Any, gradient: Any) -> Any:
    """The gradient with the static lengths 1 of ``x`` in its type."""
    shape = shape_of(x)
    return T.reshape(gradient, shape) if 1 in (shape or ()) else gradient


def _of_largest(T: Any) -> Rule:
    """Of the maximum along axes: the frameworks' rule gives each of several equal elements the whole gradient."""

    def rule(theirs: Any, op: Any, inputs: Any, outputs: Any, cotangents: Any) -> Sequence[Any]:
        (x,) = inputs
        kept = iter(range(x.ndim - len(op.axis)))
        back = ["x" if axis in op.axis else next(kept) for axis in range(x.ndim)]
        where = T.cast(T.eq(x, outputs[0].dimshuffle(*back)), x.dtype)
        share = T.true_div(cotangents[0], T.sum(where, axis=op.axis))
        return [T.mul(where, share.dimshuffle(*back))]

    return rule


def _of_larger(scalars: Any, before: Any) -> Rule:
    """Of the larger of two: where they are equal, the frameworks' rule gives all to the first."""

    def rule(theirs: Any, op: Any, inputs: Any, outputs: Any, cotangents: Any) -> Sequence[Any]:
        if outputs[0].type in scalars.discrete_types:
            return theirs(op, inputs, outputs, cotangents)  # type: ignore[no-any-return]
        (x, y), (cotangent,) = inputs, cotangents
        half, one, zero = (scalars.constant(value, dtype=cotangent.dtype) for value in (0.5, 1.0, 0.0))
        part = scalars.switch(scalars.eq(x, y), half, scalars.switch(before(x, y), one, zero))
        return [part * cotangent, (one - part) * cotangent]

    return rule


def _of_product(T: Any) -> Rule:
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

    def rule(theirs: Any, op: Any, inputs: Any, outputs: Any, cotangents: Any) -> Sequence[Any]:
        (x,) = inputs
        shape, axes = shape_of(x), range(x.ndim) if op.axis is None else op.axis
        if shape is None or 0 in shape or not axes or x.dtype != outputs[0].dtype:
            return theirs(op, inputs, outputs, cotangents)  # type: ignore[no-any-return]
        kept = [axis for axis in range(x.ndim) if axis not in axes]
        order, count = (*kept, *axes), prod(shape[axis] for axis in axes)
        rows = T.reshape(x.dimshuffle(*order), (*(shape[axis] for axis in kept), count))
        gradient = others(rows, count) * cotangents[0].dimshuffle(*range(len(kept)), "x")
        whole = T.reshape(gradient, tuple(shape[axis] for axis in order))
        return [whole.dimshuffle(*(order.index(axis) for axis in range(x.ndim)))]

    return rule


def _of_running_product(T: Any) -> Rule:
    """Of cumulative products: the frameworks' rule divides by the factors."""

    def rule(theirs: Any, op: Any, inputs: Any, outputs: Any, cotangents: Any) -> Sequence[Any]:
        if op.mode != "mul":
            return theirs(op, inputs, outputs, cotangents)  # type: ignore[no-any-return]
        (x,), along = inputs, {"axis": op.axis, "length": lengths(inputs[0])[op.axis], "join": T.concatenate}
        return [_shaped_as(T, x, by_factors(T, x, outputs[0], cotangents[0], **along))]

    return rule


def _of_gammaln(scalars: Any, dtypes: Sequence[str]) -> Rule:
    """Of the logarithm of the gamma function: the frameworks' digamma is inexact, and 0 for negative numbers. It is
    written out for these dtypes; for others it is theirs for positive numbers, else NaN."""

    def rule(theirs: Any, op: Any, inputs: Any, outputs: Any, cotangents: Any) -> Sequence[Any]:
        (x,) = inputs
        if x.type.dtype not in dtypes:
            (own,) = theirs(op, inputs, outputs, cotangents)
            zero, negative = (scalars.constant(number, dtype=x.dtype) for number in (0.0, -1.0))
            none = scalars.log(negative)  # NaN: Theano has no such constant in float32
            return [scalars.switch(scalars.gt(x, zero), own, none)]
        return [digamma_in_ops(scalars, x, scalars.round_half_to_even(x)) * cotangents[0]]

    return rule


def _of_power(scalars: Any) -> Rule:
    """Of ``x ** y`` by ``x``: ``y * x ** (y - 1)`` is 0 times infinity where both are 0, in every derivative."""

    def rule(theirs: Any, op: Any, inputs: Any, outputs: Any, cotangents: Any) -> Sequence[Any]:
        x, y = inputs
        zeros = [scalars.eq(number, scalars.constant(0, dtype=number.dtype)) for number in (x, y)]
        apart = scalars.switch(scalars.and_(*zeros), scalars.constant(1, dtype=x.dtype), x)
        return [theirs(op, [apart, y], outputs, cotangents)[0], theirs(op, inputs, outputs, cotangents)[1]]

    return rule
