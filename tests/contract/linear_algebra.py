"""The checks of linear algebra, sorting, special functions, bits, and composed functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from batches import Batch, Check
from strategies import FLOATING, SIGNED
from tolerances import CHAIN

import xbackend as xb
from xbackend.program.dtypes import DType

Functions = dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]]
nan, inf = np.nan, np.inf
# Iterative algorithms: XLA's, for TensorFlow, stop at about nine digits (compiler/xla: SelfAdjointEig, SVD).
BY_ITERATION = ("eig", "svd", "pinv", "matrix_norm_nuc", "matrix_norm_-2")
ITERATED = {"float32": 2e-3, "float64": 1e-6}
la = xb.linalg


def general(dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Matrices of full rank with well separated singular values."""
    x = np.random.default_rng(seed).uniform(-1.0, 1.0, shape)
    diagonal = np.zeros(shape[-2:])
    np.fill_diagonal(diagonal, [2.0, 3.5, 5.5, 8.0][: min(shape[-2:])])
    return (x + diagonal).astype(dtype.value)


def positive(dtype: DType, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Symmetric positive definite matrices."""
    x = general(dtype, shape, seed).astype("f8")
    return (x @ x.swapaxes(-1, -2)).astype(dtype.value)


def _signed(q: Any, r: Any) -> Any:
    """R with a positive diagonal: frameworks differ in the signs of its rows."""
    return r * xb.sign(la.diagonal(r))[..., :, None]


def matrices(dtype: DType) -> Functions:
    """Functions of one matrix and of a stack."""
    one, stack = general(dtype, (3, 3), 1), general(dtype, (2, 3, 3), 2)
    tall, wide = general(dtype, (4, 3), 3), general(dtype, (2, 2, 4), 4)
    right, row = general(dtype, (3, 2), 5), general(dtype, (1, 3), 6)[0]
    rights = general(dtype, (2, 3, 2), 7)
    definite, definites = positive(dtype, (3, 3), 8), positive(dtype, (2, 3, 3), 9)
    huge = np.diag([1e150, -1e150, 1e150] if dtype is DType.float64 else [1e18, -1e18, 1e18]).astype(dtype.value)
    return {
        "cholesky": (la.cholesky, (definite,)),
        "cholesky_upper": (lambda x: la.cholesky(x, upper=True), (definite,)),
        "cholesky_of_stack": (la.cholesky, (definites,)),
        "cholesky_of_the_lower_triangle": (lambda x: la.cholesky(xb.tril(x) + xb.tril(x, k=-1).mT), (definite,)),
        "solve": (la.solve, (one, right)),
        "solve_vector": (la.solve, (one, row)),
        "solve_of_stacks": (la.solve, (stack, rights)),
        "solve_broadcast": (la.solve, (one, rights)),
        "solve_triangular_lower": (lambda a, b: la.solve_triangular(a, b, lower=True), (one, right)),
        "solve_triangular_upper": (la.solve_triangular, (one, right)),
        "solve_triangular_vector": (lambda a, b: la.solve_triangular(a.T, b), (one, row)),
        "solve_triangular_of_stacks": (lambda a, b: la.solve_triangular(a, b, lower=True), (stack, rights)),
        "inv": (la.inv, (one,)),
        "inv_of_stack": (la.inv, (stack,)),
        "det": (la.det, (one,)),
        "det_of_stack": (lambda x: la.det(-x), (stack,)),
        "slogdet_sign": (lambda x: la.slogdet(-x).sign, (one,)),
        "slogdet_logarithm": (lambda x: la.slogdet(x).logabsdet, (one,)),
        "slogdet_both_of_stack": (lambda x: xb.stack([*la.slogdet(x)]), (stack,)),
        "slogdet_beyond_the_largest_number": (lambda x: xb.stack([*la.slogdet(x)]), (huge,)),
        "eigvalsh": (la.eigvalsh, (definite,)),
        "eigh": (lambda x: _of_eigh(la.eigh(x)), (definite,)),
        "eigh_of_stack": (lambda x: _of_eigh(la.eigh(x)), (definites,)),
        "eigh_of_what_is_not_symmetric": (la.eigvalsh, (one,)),
        "qr": (lambda x: _signed(*la.qr(x)), (tall,)),
        "qr_product": (lambda x: xb.matmul(*la.qr(x)), (wide,)),
        "qr_complete": (lambda x: _orthogonal(la.qr(x, mode="complete").Q), (tall,)),
        "svdvals": (la.svdvals, (tall,)),
        "svd_product": (lambda x: _of_svd(la.svd(x, full_matrices=False)), (tall,)),
        "svd_of_stack": (lambda x: _of_svd(la.svd(x, full_matrices=False)), (wide,)),
        "svd_full": (lambda x: _orthogonal(la.svd(x).U), (tall,)),
        "svd_full_of_wide": (lambda x: _orthogonal(la.svd(x).Vh), (wide,)),
        "pinv": (la.pinv, (tall,)),
        "pinv_of_lower_rank": (lambda x, y: la.pinv(x @ y), (tall[:, :2], right.T)),
        "matrix_rank": (lambda x, y: la.matrix_rank(x @ y), (tall[:, :2], right.T)),
        "matrix_power_of_inverse": (lambda x: la.matrix_power(x, -3), (one,)),
        **{f"matrix_norm_{o}": (lambda x, o=o: la.matrix_norm(x, ord=o), (tall,)) for o in ("fro", "nuc", 1, -2, inf)},
    }


def _of_eigh(found: Any) -> Any:
    values, vectors = found
    return (vectors * xb.exp(values / 10.0)[..., None, :]) @ vectors.mT


def _of_svd(found: Any) -> Any:
    return (found.U * xb.sqrt(found.S)[..., None, :]) @ found.Vh


def _orthogonal(q: Any) -> Any:
    return q @ q.mT + 1.0


def vectors(dtype: DType) -> Functions:
    """Linear algebra without a factorization."""
    a, b, tall = general(dtype, (2, 3), 1), general(dtype, (4, 2, 3), 2), general(dtype, (4, 3), 3)
    images, kernel = general(dtype, (2, 6, 5, 3), 5), general(dtype, (3, 2, 3, 4), 6)
    return {
        "cross": (la.cross, (a, b)),
        "cross_axis": (lambda a, b: la.cross(a.T[:, None], b[0].T[:, :, None], axis=0), (a, b)),
        "trace": (lambda x: la.trace(x, offset=1), (b,)),
        **{f"vector_norm_{o}": (lambda x, o=o: la.vector_norm(x, axis=1, ord=o), (b,)) for o in (2, 1, 3, 0, -inf)},
        "vector_norm_kept": (lambda x: la.vector_norm(x, axis=(0, 2), keepdims=True, ord=inf), (b,)),
        "einsum_product": (lambda x, y: xb.einsum("ij,kj->ik", x, y), (a, tall)),
        "einsum_stacks": (lambda x, y: xb.einsum("...ij,kj->...ki", x, y), (b, tall)),
        "einsum_three": (lambda x, y, z: xb.einsum("bij,kj,bil->kl", x, y, z), (b, tall, b)),
        "einsum_trace": (lambda x: xb.einsum("ii", x[:, :3]), (tall[:3],)),
        "einsum_diagonal": (lambda x: xb.einsum("ii->i", x), (tall[:3],)),
        "einsum_sum": (lambda x: xb.einsum("ijk->j", x), (b,)),
        "einsum_outer": (lambda x, y: xb.einsum("i,j->ji", x[0], y[0]), (a, tall)),
        "einsum_elementwise": (lambda x, y: xb.einsum("ij,ij->ij", x, y), (a, a)),
        "conv2d": (xb.conv2d, (images, kernel)),
        "conv2d_same": (lambda x, k: xb.conv2d(x, k, strides=2, padding="SAME"), (images, kernel)),
        "conv2d_padded": (
            lambda x, k: xb.conv2d(x, k, strides=(1, 2), padding=((1, 0), (2, 1))),
            (images, kernel),
        ),
    }


def special(dtype: DType) -> Functions:
    """Functions of exponentials and of signs."""
    x = np.array((0.5, -0.5, 2.5, -2.5, 100.0, -80.0, 0.0, inf, -inf, nan), dtype.value)
    negative = np.array((-1e-7, -1e-3, -0.5, -0.7, -3.0, -40.0), dtype.value)
    finite = general(dtype, (3, 4), 1) * 40
    zeros = np.array((0.0, -0.0, 1.5, -1.5, inf, -inf), dtype.value)
    large = np.array((3.0, -4.0, 0.0, 1e200 if dtype is DType.float64 else 1e30, inf, -inf, nan), dtype.value)
    gammas = np.array((0.1, 0.5, 1.5, 2.5, 30.0, -0.5, -2.5, -3.75), dtype.value)
    return {
        "digamma": (xb.digamma, (gammas,)),
        "log1mexp": (xb.log1mexp, (negative,)),
        "logsumexp": (lambda x: xb.logsumexp(x, axis=1), (finite,)),
        "logsumexp_kept": (lambda x: xb.logsumexp(x, keepdims=True), (finite,)),
        "logsumexp_special": (lambda x: xb.logsumexp(xb.stack([x, x]), axis=0), (x,)),
        "logaddexp": (lambda x: xb.logaddexp(x[:, None], x), (x,)),
        "hypot": (lambda x: xb.hypot(x[:, None], x), (large,)),
        "signbit": (xb.signbit, (zeros,)),
        "copysign": (lambda x: xb.copysign(x[:, None], x), (zeros,)),
        "reciprocal": (xb.reciprocal, (zeros,)),
    }


def ordered(dtype: DType) -> Functions:
    """Sorting and searching."""
    rng = np.random.default_rng(3)
    x = rng.permutation(24).reshape(2, 3, 4).astype(dtype.value) - 7
    ties = rng.integers(-2, 3, (3, 7)).astype(dtype.value)
    mixed = np.array((3, -1, 7, 0, -1, 2), dtype.value)
    if dtype.is_floating:
        mixed = np.array((3.5, nan, -inf, 0.5, inf, -1.5, nan, 0.5), dtype.value)
    grid, line = np.array((-2, 0, 0, 1, 5), dtype.value), np.array((-3, 0, 1, 2, 5, 9), dtype.value)
    return {
        "cumulative_prod_in_its_own_dtype": (lambda x: xb.cumulative_prod(x, axis=0, dtype=x.dtype), (ties,)),
        "sort": (xb.sort, (x,)),
        "sort_axis_0": (lambda x: xb.sort(x, axis=0, descending=True), (x,)),
        "sort_axis_1": (lambda x: xb.sort(x, axis=1), (x,)),
        "sort_special": (xb.sort, (mixed,)),
        "argsort": (xb.argsort, (ties,)),
        "argsort_descending": (lambda x: xb.argsort(x, axis=0, descending=True), (ties,)),
        "argsort_special": (xb.argsort, (mixed,)),
        "searchsorted": (xb.searchsorted, (grid, line)),
        "searchsorted_right": (lambda g, x: xb.searchsorted(g, xb.reshape(x, (2, 3)), side="right"), (grid, line)),
        "searchsorted_with_sorter": (lambda g, x: xb.searchsorted(g, x, sorter=xb.argsort(g)), (mixed[:1], line)),
        "isin": (xb.isin, (x, line)),
        "isin_inverted": (lambda x, y: xb.isin(x, y, invert=True), (x, line)),
        "cumulative_prod": (lambda x: xb.cumulative_prod(x, axis=1), (ties,)),
        "cumulative_prod_from_1": (lambda x: xb.cumulative_prod(x, axis=0, include_initial=True), (ties,)),
    }


def composed(dtype: DType) -> Functions:
    """Functions composed of ops that move elements, and of bits."""
    x = np.arange(24).reshape(2, 3, 4).astype(dtype.value) - 3
    row = x[0, 0]
    functions: Functions = {
        "flip": (lambda x: xb.flip(x, axis=(0, -1)), (x,)),
        "flip_all": (xb.flip, (x,)),
        "moveaxis": (lambda x: xb.moveaxis(x, (0, 1), (-1, 0)), (x,)),
        "roll": (lambda x: xb.roll(x, (1, -2), axis=(0, 2)), (x,)),
        "roll_flat": (lambda x: xb.roll(x, 5), (x,)),
        "repeat": (lambda x: xb.repeat(x, 2, axis=1), (x,)),
        "repeat_each": (lambda x: xb.repeat(x, [0, 3, 1], axis=1), (x,)),
        "tile": (lambda x: xb.tile(x, (2, 1, 1, 3)), (x,)),
        "unstack": (lambda x: xb.concat(xb.unstack(x, axis=1)[::-1]), (x,)),
        "meshgrid": (lambda x: xb.stack(xb.meshgrid(x, x[:2])), (row,)),
        "broadcast_arrays": (lambda x, y: xb.stack(xb.broadcast_arrays(x, y)), (x, row)),
        "tril": (lambda x: xb.tril(x, k=1), (x,)),
        "triu": (lambda x: xb.triu(x, k=-1), (x,)),
        "count_nonzero": (lambda x: xb.count_nonzero(x, axis=(0, 2)), (x,)),
        "diff": (lambda x: xb.diff(x, axis=1, n=2, prepend=x[:, :1]), (x,)),
        "fftshift": (lambda x: xb.fft.ifftshift(xb.fft.fftshift(x, axes=1)), (x,)),
    }
    if dtype.is_integer:
        bits = np.array((0, 1, -1, 5, -6, np.iinfo(dtype.value).max, np.iinfo(dtype.value).min), dtype.value)
        places = np.array((0, 1, 3, 8 * dtype.itemsize - 2, 8 * dtype.itemsize - 1, 70), dtype.value)
        functions |= {
            "bitwise_left_shift": (lambda x, n: x[:, None] << n, (bits, places)),
            "bitwise_right_shift": (lambda x, n: x[:, None] >> n, (bits, places)),
            "operators": (lambda x: (x & 3) ^ (x | 8) ^ ~x, (bits,)),
        }
    return functions


def _batch(family: str, dtype: DType, functions: Functions, rule: Any, limits: dict[str, float] | None = None) -> Batch:
    more: list[Any] = [limits] if limits else []
    checks = [
        Check(f"{label}-{dtype}", f, arrays, rule, *([ITERATED] if label.startswith(BY_ITERATION) else more))
        for label, (f, arrays) in functions.items()
    ]
    return Batch(f"{family}-{dtype}", tuple(checks))


def batches() -> list[Batch]:
    found = []
    for dtype in FLOATING:
        found.append(_batch("matrices", dtype, matrices(dtype), "array", CHAIN))
        found.append(_batch("vectors", dtype, vectors(dtype), "array", CHAIN))
        found.append(_batch("special", dtype, special(dtype), "array", {k: v * 10 for k, v in CHAIN.items()}))
    found += [_batch("ordered", dtype, ordered(dtype), "bits") for dtype in SIGNED[1:]]
    found += [
        _batch("composed", d, composed(d), "bits") for d in SIGNED if d in (DType.int32, DType.int64, DType.float64)
    ]
    return found
