"""Gradients of QR and of the SVD, which Aesara and Theano lack. Each op is a subclass of the framework's own, compiled
as that, and has the shape of its matrix, so the formulas' other matrices are constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

FACTORS = "gradients of qr and svd, which it lacks"  # in `Backend.added`


@cache
def differentiable(T: Any, kind: Any, solve_upper: Callable[[Any, Any], Any]) -> type:
    """A subclass with a gradient, made of an op of the class and the shape of its matrix. ``T`` is the generation's
    module of tensors."""
    names = kind.__props__

    class Differentiable(kind):  # type: ignore[misc]
        __props__ = (*names, "lengths")

        def __init__(self, op: Any, lengths: tuple[int, ...]) -> None:
            super().__init__(**{name: getattr(op, name) for name in names})
            self.lengths = tuple(lengths)

        def L_op(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
            known = [
                by if hasattr(by.type, "dtype") else T.zeros_like(output)
                for by, output in zip(cotangents, outputs, strict=True)
            ]
            formula = _of_svd if "full_matrices" in names else _of_qr
            result = formula(T, self, outputs, known, solve_upper)
            # The type must have the static lengths 1 that the matrix's type may have.
            return [T.reshape(result, self.lengths) if 1 in self.lengths else result]

    if not hasattr(kind, "infer_shape"):
        Differentiable.infer_shape = lambda op, *_: _shapes_of_qr(op)
    Differentiable.__name__ = kind.__name__
    return Differentiable


def _shapes_of_qr(op: Any) -> list[tuple[int, ...]]:
    rows, columns = op.lengths
    inner = rows if op.mode == "complete" else min(rows, columns)
    return [(rows, inner), (inner, columns)]


def _constant(T: Any, array: np.ndarray, like: Any) -> Any:
    return T.constant(array.astype(like.dtype))


def _of_qr(T: Any, op: Any, outputs: Sequence[Any], cotangents: Sequence[Any], solve_upper: Any) -> Any:
    """Walter, Lehmann and Lamour, On higher-order derivatives of QR (2010), for columns <= rows."""
    columns = op.lengths[1]
    (q, r), (by_q, by_r) = outputs, cotangents
    inner = T.sub(T.dot(r, by_r.T), T.dot(by_q.T, q))
    lower = _constant(T, np.tril(np.ones((columns, columns))), inner)
    below = _constant(T, np.tril(np.ones((columns, columns)), -1), inner)
    symmetric = T.add(T.mul(inner, lower), T.mul(inner, below).T)
    return solve_upper(r, T.add(by_q, T.dot(q, symmetric)).T).T


def _of_svd(T: Any, op: Any, outputs: Sequence[Any], cotangents: Sequence[Any], solve_upper: Any) -> Any:
    """Townsend, Differentiating the singular value decomposition (2016), for the thin SVD."""
    rows, columns = op.lengths
    (u, s, vt), (by_u, by_s, by_vt) = outputs, cotangents
    v, by_v = vt.T, by_vt.T
    identity = _constant(T, np.eye(min(rows, columns)), s)
    squares = T.mul(s, s)
    apart = T.add(T.sub(squares.dimshuffle("x", 0), squares.dimshuffle(0, "x")), identity)
    turned_u, turned_v = T.dot(u.T, by_u), T.dot(v.T, by_v)
    inner = T.add(
        T.mul(T.true_div(T.sub(turned_u, turned_u.T), apart), s.dimshuffle("x", 0)),
        T.mul(identity, by_s.dimshuffle("x", 0)),
        T.mul(s.dimshuffle(0, "x"), T.true_div(T.sub(turned_v, turned_v.T), apart)),
    )
    result = T.dot(T.dot(u, inner), vt)
    if rows < columns:
        beside = T.sub(_constant(T, np.eye(columns), s), T.dot(v, vt))
        result = T.add(result, T.dot(T.dot(T.true_div(u, s.dimshuffle("x", 0)), by_v.T), beside))
    if rows > columns:
        beside = T.sub(_constant(T, np.eye(rows), s), T.dot(u, u.T))
        result = T.add(result, T.dot(T.dot(beside, by_u), T.true_div(v, s.dimshuffle("x", 0)).T))
    return result
