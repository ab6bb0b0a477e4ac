"""Rewrites of the lineage that give wrong numbers for ordinary values: mended here, or left out by name. Algebra of
real numbers stays: see ``tests/expected_failures/``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

# They replace acosh(cosh(x)) by x, whatever the sign, and log(x + c) by log1p(x) for c within 1e-5 of 1.
LEFT_OUT = ("local_func_inv", "local_log1p")


def attaching(rewriter: type, title: str, feature: Callable[[], Any]) -> Any:
    """A rewrite without effect, to be run first, that attaches a feature to each graph; ``rewriter`` is its base."""

    class Attach(rewriter):  # type: ignore[misc]
        name = title

        def add_requirements(self, graph: Any) -> None:
            graph.attach_feature(feature())

        def apply(self, graph: Any) -> None:
            """Nothing."""

    return Attach()


def counting(feature: type, counted: Counter[str]) -> type:
    """A feature of a graph that counts the variables that rewrites replace."""

    class Replacements(feature):  # type: ignore[misc]
        last: Any = None  # a variable that several nodes read is replaced in one after the other

        def on_change_input(self, graph: Any, node: Any, i: int, old: Any, *_: Any, **__: Any) -> None:
            counted["replaced"] += old is not self.last
            self.last = old

    return Replacements


def multiply_integers_exactly(rewriting: Any) -> None:
    """Merge constant integer factors of a product exactly: the framework's function divides even without a denominator,
    so integers beyond 2**53 went through float64 (mul_calculate)."""
    canonizer = rewriting.local_mul_canonizer
    theirs: Callable[..., Any] = canonizer.calculate
    if getattr(theirs, "exact", False):
        return

    def calculate(num: Sequence[Any], denum: Sequence[Any], aslist: bool = False, out_type: Any = None) -> Any:
        factors = [np.asarray(factor) for factor in num]
        if denum or not factors or any(factor.dtype.kind not in "iu" for factor in factors):
            return theirs(num, denum, aslist=aslist, out_type=out_type)
        dtype = np.result_type(*factors) if out_type is None else np.dtype(out_type.dtype)
        if dtype.kind not in "iu":
            return theirs(num, denum, aslist=aslist, out_type=out_type)
        product = np.asarray(1, dtype)
        with np.errstate(over="ignore"):
            for factor in factors:
                product = np.multiply(product, factor, dtype=dtype)
        if not aslist:
            return product
        return [] if np.all(product == 1) else [product]

    calculate.exact = True  # type: ignore[attr-defined]
    canonizer.calculate = calculate


def count_along_axes(rewriting: Any) -> bool:
    """Stop ``prod(c * x, axis)`` to ``c ** size(x) * prod(x, axis)`` where axes are left: the exponent counts all
    elements, not the elements along the axis (Aesara's and Theano's local_sum_prod_mul_by_scalar). Returns whether the
    framework has it."""
    rewrite = getattr(rewriting, "local_sum_prod_mul_by_scalar", None)
    if rewrite is None or getattr(rewrite, "exact", False):
        return rewrite is not None
    call = "fn" if hasattr(rewrite, "fn") else "transform"
    theirs: Callable[..., Any] = getattr(rewrite, call)

    def whole(*given: Any) -> Any:
        op, (x,) = given[-1].op, given[-1].inputs[:1]
        axes_left = getattr(op, "axis", None) is not None and len(op.axis) < x.type.ndim
        return None if axes_left and isinstance(op, rewriting.Prod) else theirs(*given)

    setattr(rewrite, call, whole)
    rewrite.exact = True
    return True


def leave_integers(rewriting: Any) -> None:
    """For integers, which overflow, stop ``abs(x * y)`` to ``abs(x) * abs(y)`` and back, ``abs(x * x)`` to ``x *
    x``."""
    for name in ("local_abs_lift", "local_abs_merge", "local_useless_abs"):
        rewrite = getattr(rewriting, name, None)
        if rewrite is None or getattr(rewrite, "exact", False):
            continue
        call = "fn" if hasattr(rewrite, "fn") else "transform"
        setattr(rewrite, call, _of_floats(getattr(rewrite, call)))
        rewrite.exact = True


def _of_floats(theirs: Callable[..., Any]) -> Callable[..., Any]:
    """The rewrite without effect on nodes of integers. Its last argument is the node."""
    return lambda *given: None if given[-1].outputs[0].type.dtype.startswith("int") else theirs(*given)


def keep_lengths(rewriting: Any) -> None:
    """Stop a rewrite that loses elements: it replaces ``and`` and ``or`` with a constant by the other input, even if
    that has one element and the constant three (Theano's local_useless_elemwise)."""
    rewrite = rewriting.local_useless_elemwise
    theirs: Callable[[Any], Any] = rewrite.transform
    if getattr(rewrite, "exact", False):
        return

    def transform(node: Any) -> Any:
        found = theirs(node)
        return found if not found or found[0].type.broadcastable == node.outputs[0].type.broadcastable else False

    rewrite.transform, rewrite.exact = transform, True


def tell_zeros_apart(*signatures: type) -> None:
    """Keep constants 0.0 and -0.0 apart, which are equal and were merged, by the classes that compare constants
    (TensorConstantSignature in tensor/var.py, ScalarConstantSignature in scalar/basic.py)."""
    for signature in signatures:
        theirs: Any = signature.__eq__
        if getattr(theirs, "exact", False):
            continue

        def equal(self: Any, other: Any, theirs: Any = theirs) -> bool:
            return bool(theirs(self, other)) and _same_signs(self[1], other[1])

        equal.exact = True  # type: ignore[attr-defined]
        signature.__eq__ = equal  # type: ignore[method-assign,assignment]


def _same_signs(x: Any, y: Any) -> bool:
    """Whether equal constants have the same signs, zeros included; signs of NaN do not count."""
    x, y = np.asarray(x), np.asarray(y)
    return x.dtype.kind != "f" or np.array_equal(np.signbit(x) & ~np.isnan(x), np.signbit(y) & ~np.isnan(y))
