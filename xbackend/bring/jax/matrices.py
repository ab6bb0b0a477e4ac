"""Rows of factorisations and solves, and of functions of `jax.numpy.linalg` that JAX computes by LU factorisation."""

from __future__ import annotations

from typing import Any

import xbackend.api.functions as xb
from xbackend.api import linalg
from xbackend.bring.arrays import with_ones
from xbackend.bring.jax.arrays import ints
from xbackend.bring.jax.walk import OWN, JaxprWalk, is_literal, mapping, row
from xbackend.errors import GraphError

mapping({"cholesky": linalg.cholesky})


@row("triangular_solve", attributes=("left_side", "lower", "transpose_a", "conjugate_a", "unit_diagonal"))
def triangular_solve(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    params, (a, b) = equation.params, values
    lower = bool(params["lower"])
    a = with_ones(a) if params["unit_diagonal"] else a
    # X @ a = b is a.mT @ X.mT = b.mT.
    left, turned = bool(params["left_side"]), bool(params["transpose_a"])
    if turned == left:
        a, lower = xb.matrix_transpose(a), not lower
    if left:
        return linalg.solve_triangular(a, b, lower=lower)
    return xb.matrix_transpose(linalg.solve_triangular(a, xb.matrix_transpose(b), lower=lower))


@row("eigh", attributes=("lower", "sort_eigenvalues", "subset_by_index", "algorithm"))
def eigh(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    """JAX returns the vectors first, and reads one triangle."""
    _no_subset(equation)
    x = values[0]
    if not _is_symmetric(walk, equation.invars[0]):
        lower = bool(equation.params["lower"])
        half, other = (xb.tril(x), xb.tril(x, k=-1)) if lower else (xb.triu(x), xb.triu(x, k=1))
        x = xb.add(half, xb.matrix_transpose(other))
    found = linalg.eigh(x)
    return [found.eigenvectors, found.eigenvalues]


def _no_subset(equation: Any) -> None:
    if equation.params.get("subset_by_index") is not None:
        raise GraphError("some of the eigenvalues or singular values alone have no row: take them of all")


def _is_symmetric(walk: JaxprWalk, atom: Any) -> bool:
    """Whether an operand was made as (x + x.mT) / 2, or by another number, as JAX symmetrizes."""
    half = walk.made_by(atom, "div", "mul")
    found = []
    if half is not None and any(_is_one_number(walk, one) for one in half.invars):
        found = [walk.made_by(one, "add") for one in half.invars if not is_literal(one)]
    pair = found[0].invars if found and found[0] is not None else []
    for one, other in zip(pair, reversed(pair), strict=True):
        made, rank = walk.made_by(other, "transpose"), len(one.aval.shape)
        if made is not None and made.invars[0] is one:
            return ints(made.params["permutation"]) == (*range(rank - 2), rank - 1, rank - 2)
    return False


def _is_one_number(walk: JaxprWalk, atom: Any) -> bool:
    known = walk.known(atom) if atom.aval.shape else None
    return not atom.aval.shape or (known is not None and known.size > 0 and bool((known == known.flat[0]).all()))


@row("qr", attributes=("full_matrices", "pivoting", "use_magma"))
def qr(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    if equation.params.get("pivoting"):
        raise GraphError("qr with pivoting has no row: leave it out")
    return list(linalg.qr(values[0], mode="complete" if equation.params["full_matrices"] else "reduced"))


@row("svd", attributes=("full_matrices", "compute_uv", "subset_by_index", "algorithm"))
def svd(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    """JAX returns the singular values first."""
    _no_subset(equation)
    if not equation.params["compute_uv"]:
        return [linalg.svdvals(values[0])]
    left, singular, right = linalg.svd(values[0], full_matrices=bool(equation.params["full_matrices"]))
    return [singular, left, right]


def _solve(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    a, b = values
    vector = equation.outvars[0].aval.ndim == a.ndim - 1 and b.ndim == a.ndim - 1
    if vector and b.ndim > 1:
        return xb.squeeze(linalg.solve(a, xb.expand_dims(b, axis=-1)), axis=-1)
    return linalg.solve(a, b)


OWN["solve"] = _solve
OWN["inv"] = lambda walk, equation, values: linalg.inv(*values)
OWN["det"] = lambda walk, equation, values: linalg.det(*values)
OWN["slogdet"] = lambda walk, equation, values: list(linalg.slogdet(*values))
