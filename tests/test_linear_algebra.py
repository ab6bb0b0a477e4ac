"""Linear algebra, sorting, bits, special and composed functions, against NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

import xbackend as xb
from xbackend.backends import registry
from xbackend.backends.contract import Backend
from xbackend.errors import ArgumentError, ComputationError, DTypeError, GradientError, ShapeError, TraceError
from xbackend.program.serialization import from_json, to_json

la = xb.linalg


@pytest.fixture(scope="module")
def numpy_backend() -> Iterator[Backend]:
    with registry.get("numpy").load() as backend:
        yield backend


def agree(backend: Backend, function: Callable[..., Any], wanted: Any, *given_arrays: Any, rtol: float = 1e-10) -> None:
    found = backend.compile(function, *given_arrays)(*given_arrays)
    several = isinstance(found, tuple)
    for got, want in zip(found if several else [found], wanted if several else [wanted], strict=True):
        assert got.shape == np.shape(want) and got.dtype == np.asarray(want).dtype
        np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-12)


def sample(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, shape)


LEADING = st.sampled_from([(), (2,), (0,), (2, 1)])


@settings(max_examples=60)
@given(LEADING, st.integers(1, 4), st.integers(0, 9))
def test_square_matrices(numpy_backend: Backend, leading: tuple[int, ...], n: int, seed: int) -> None:
    x = sample(seed, *leading, n, n) + 3.0 * np.eye(n)
    definite, right = x @ x.swapaxes(-1, -2), sample(seed + 1, *leading, n, 2)
    agree(numpy_backend, la.cholesky, np.linalg.cholesky(definite), definite)
    agree(numpy_backend, la.inv, np.linalg.inv(x), x)
    agree(numpy_backend, la.det, np.linalg.det(x), x)
    agree(numpy_backend, lambda x: tuple(la.slogdet(x)), tuple(np.linalg.slogdet(-x)), -x)
    agree(numpy_backend, la.solve, np.linalg.solve(x, right), x, right)
    agree(numpy_backend, la.solve_triangular, np.linalg.solve(np.triu(x), right), x, right)
    lower = np.linalg.solve(np.tril(x), right)
    agree(numpy_backend, lambda a, b: la.solve_triangular(a, b, lower=True), lower, x, right)
    agree(numpy_backend, la.eigvalsh, np.linalg.eigvalsh(definite), definite)
    agree(numpy_backend, lambda x: tuple(la.eigh(x)), tuple(np.linalg.eigh(definite)), definite)
    agree(numpy_backend, lambda x: la.matrix_power(x, -2), np.linalg.matrix_power(x, -2), x)


@settings(max_examples=60)
@given(LEADING, st.integers(1, 4), st.integers(1, 4), st.integers(0, 9))
def test_matrices_of_any_shape(numpy_backend: Backend, leading: tuple[int, ...], m: int, n: int, seed: int) -> None:
    x = sample(seed, *leading, m, n)
    for mode in ("reduced", "complete"):
        agree(numpy_backend, lambda x, mode=mode: tuple(la.qr(x, mode=mode)), tuple(np.linalg.qr(x, mode=mode)), x)
    for full in (True, False):
        wanted = tuple(np.linalg.svd(x, full_matrices=full))
        agree(numpy_backend, lambda x, full=full: tuple(la.svd(x, full_matrices=full)), wanted, x)
    agree(numpy_backend, la.svdvals, np.linalg.svd(x, compute_uv=False), x)
    agree(numpy_backend, la.pinv, np.linalg.pinv(x), x, rtol=1e-7)
    agree(numpy_backend, la.matrix_rank, np.linalg.matrix_rank(x).astype("i8"), x)
    agree(numpy_backend, lambda x: la.pinv(x, rtol=0.5), np.linalg.pinv(x, rcond=0.5), x, rtol=1e-7)
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        wanted = np.linalg.norm(x, ord=order, axis=(-2, -1), keepdims=True)
        agree(numpy_backend, lambda x, o=order: la.matrix_norm(x, ord=o, keepdims=True), wanted, x)
    for k in (-2, 0, 1, 5):
        agree(numpy_backend, lambda x, k=k: la.diagonal(x, offset=k), np.diagonal(x, k, -2, -1), x)
        agree(numpy_backend, lambda x, k=k: la.trace(x, offset=k), np.trace(x, k, -2, -1), x)
        agree(numpy_backend, lambda x, k=k: (xb.tril(x, k=k), xb.triu(x, k=k)), (np.tril(x, k), np.triu(x, k)), x)


def test_norms_and_products_of_vectors(numpy_backend: Backend) -> None:
    x, a, b = sample(0, 3, 4, 5), sample(1, 2, 3), sample(2, 4, 1, 3)
    for order in (0, 1, 2, 3.5, np.inf, -np.inf):
        wanted = np.linalg.norm(x, ord=order, axis=1)
        agree(numpy_backend, lambda x, o=order: la.vector_norm(x, axis=1, ord=o), wanted, x)
    agree(numpy_backend, la.vector_norm, np.linalg.norm(x), x)
    agree(numpy_backend, la.cross, np.cross(a, b), a, b)


EINSUM = {
    "ij,jk": ((2, 3), (3, 4)), "ij,jk->ki": ((2, 3), (3, 4)), "ii": ((3, 3),), "ii->i": ((3, 3),),
    "iij->j": ((3, 3, 2),),
    "i,j": ((2,), (3,)), "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)), "...ij,...jk->...ik": ((5, 2, 3), (3, 4)),
    "ij,ij->": ((2, 3), (2, 3)), "ijk->kij": ((2, 3, 4),), "ij,jk,kl,lm->im": ((2, 3), (3, 4), (4, 5), (5, 2)),
    "i...,i...->...": ((4, 2, 3), (4, 3)), "ab,ac,ad->bcd": ((2, 3), (2, 4), (2, 5)), "ij,kl->ijkl": ((1, 2), (2, 1)),
    "...": ((2, 3),), "ba": ((2, 3),), "a,a,a->a": ((3,), (3,), (3,)), "ij,k->i": ((2, 3), (4,)),
}  # fmt: skip


@pytest.mark.parametrize("subscripts", EINSUM)
def test_einsum_is_numpys(numpy_backend: Backend, subscripts: str) -> None:
    arrays = [sample(i, *shape) for i, shape in enumerate(EINSUM[subscripts])]
    agree(numpy_backend, lambda *a: xb.einsum(subscripts, *a), np.einsum(subscripts, *arrays), *arrays)


@settings(max_examples=100)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=3), st.data())
def test_any_einsum_is_numpys(numpy_backend: Backend, lengths: list[int], data: st.DataObject) -> None:
    letters = "ijk"[: len(lengths)]
    length = dict(zip(letters, lengths, strict=True))
    terms = data.draw(st.lists(st.text(letters, max_size=3), min_size=1, max_size=3))
    there = sorted(set("".join(terms)))
    output = "".join(data.draw(st.permutations(there)))[: data.draw(st.integers(0, len(there)))]
    arrays = [sample(i, *(length[x] for x in t)) for i, t in enumerate(terms)]
    subscripts = f"{','.join(terms)}->{output}"
    agree(numpy_backend, lambda *a: xb.einsum(subscripts, *a), np.einsum(subscripts, *arrays), *arrays)


NUMBERS = st.lists(st.sampled_from([0, 1, -1, 2, 5, -7]), max_size=8)


@settings(max_examples=100)
@given(NUMBERS, NUMBERS, st.sampled_from(["i4", "i8", "f4", "f8"]))
def test_sorting_is_numpys(numpy_backend: Backend, first: list[int], second: list[int], dtype: str) -> None:
    x, y = np.array(first, dtype), np.array(second, dtype)
    order, ordered = np.argsort(x, kind="stable"), np.sort(x)
    agree(numpy_backend, lambda x: (xb.sort(x), xb.argsort(x)), (ordered, order), x)
    down = np.argsort(-x, kind="stable")
    agree(numpy_backend, lambda x: (xb.sort(x, descending=True), xb.argsort(x, descending=True)), (x[down], down), x)
    for side in ("left", "right"):
        wanted = np.searchsorted(ordered, y, side=side)
        agree(numpy_backend, lambda x, y, s=side: xb.searchsorted(x, y, side=s), wanted, ordered, y)
        found = lambda x, y, s=side: xb.searchsorted(x, y, side=s, sorter=xb.argsort(x))  # noqa: E731
        agree(numpy_backend, found, wanted, x, y)
    agree(
        numpy_backend, lambda x, y: (xb.isin(x, y), xb.isin(x, y, invert=True)), (np.isin(x, y), ~np.isin(x, y)), x, y
    )
    agree(numpy_backend, xb.count_nonzero, np.count_nonzero(x), x)
    products = np.cumprod(x, dtype="i8" if dtype[0] == "i" else dtype)
    agree(numpy_backend, xb.cumulative_prod, products, x)


@settings(max_examples=100)
@given(st.integers(-9, 9), st.integers(0, 2), st.integers(0, 3), st.booleans())
def test_rearranging_is_numpys(numpy_backend: Backend, shift: int, axis: int, times: int, whole: bool) -> None:
    x, over = np.arange(24.0).reshape(2, 3, 4) ** 2, None if whole else axis
    agree(numpy_backend, lambda x: xb.roll(x, shift, axis=over), np.roll(x, shift, over), x)
    agree(numpy_backend, lambda x: xb.flip(x, axis=over), np.flip(x, over), x)
    agree(numpy_backend, lambda x: xb.repeat(x, times, axis=over), np.repeat(x, times, over), x)
    agree(numpy_backend, lambda x: xb.tile(x, (times, 2)), np.tile(x, (times, 2)), x)
    agree(numpy_backend, lambda x: xb.moveaxis(x, axis, -1), np.moveaxis(x, axis, -1), x)
    agree(numpy_backend, lambda x: xb.diff(x, axis=axis, n=times), np.diff(x, times, axis), x)
    agree(numpy_backend, lambda x: xb.unstack(x, axis=axis), tuple(np.moveaxis(x, axis, 0)), x)
    for indexing in ("xy", "ij"):
        wanted = tuple(np.meshgrid(x[0, 0], x[0, 1, :2], indexing=indexing))
        agree(numpy_backend, lambda x, i=indexing: xb.meshgrid(x[0, 0], x[0, 1, :2], indexing=i), wanted, x)
    agree(numpy_backend, lambda x: xb.broadcast_arrays(x, x[:1, :, :1]), np.broadcast_arrays(x, x[:1, :, :1]), x)
    agree(numpy_backend, lambda x: xb.fft.fftshift(x, axes=over), np.fft.fftshift(x, over), x)
    agree(numpy_backend, lambda x: xb.fft.ifftshift(x, axes=over), np.fft.ifftshift(x, over), x)


@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_bits_are_numpys(numpy_backend: Backend, dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.array([0, 1, -1, 6, -77, info.max, info.min], dtype)
    y, places = x[::-1].copy(), np.arange(info.bits, dtype=dtype)
    agree(numpy_backend, lambda x, y: (x & y, x | y, x ^ y, ~x), (x & y, x | y, x ^ y, ~x), x, y)
    agree(numpy_backend, lambda x, n: x[:, None] << n, x[:, None] << places, x, places)
    agree(numpy_backend, lambda x, n: x[:, None] >> n, x[:, None] >> places, x, places)
    agree(numpy_backend, lambda x: (5 & x, np.bitwise_or(3, x)), (5 & x, 3 | x), x)
    mask = x > 0
    agree(numpy_backend, lambda m: (m & True, m ^ m, ~m, m | m), (mask, mask & False, ~mask, mask), mask)


def test_special_functions_are_scipys(numpy_backend: Backend) -> None:
    x = np.array([0.5, -0.5, 3.0, 700.0, -800.0, 0.0, -0.0, np.inf, -np.inf, np.nan])
    with np.errstate(all="ignore"):
        for name in ("erf", "erfc", "gammaln", "expit"):
            agree(numpy_backend, getattr(xb, name), getattr(scipy.special, name)(x), x)
        agree(numpy_backend, lambda x: xb.logaddexp(x[:, None], x), np.logaddexp(x[:, None], x), x)
        agree(numpy_backend, lambda x: xb.hypot(x[:, None], x), np.hypot(x[:, None], x), x)
        agree(numpy_backend, lambda x: xb.copysign(x[:, None], x[:-1]), np.copysign(x[:, None], x[:-1]), x)
        agree(numpy_backend, lambda x: xb.signbit(x[:-1]), np.signbit(x[:-1]), x)
        agree(numpy_backend, xb.reciprocal, 1.0 / x, x)
        pairs = np.stack([x, x[::-1]])
        for axis in (0, 1, None):
            wanted = scipy.special.logsumexp(pairs, axis=axis)
            agree(numpy_backend, lambda x, a=axis: xb.logsumexp(x, axis=a), wanted, pairs)
        agree(numpy_backend, lambda x: xb.logsumexp(x[:, :4]), scipy.special.logsumexp(pairs[:, :4]), pairs)
        agree(numpy_backend, lambda x: xb.logsumexp(x[:0]), -np.inf, x)
    small = -np.array([1e-300, 1e-12, 0.1, 0.6931, 0.6932, 30.0, 700.0, np.inf])
    agree(
        numpy_backend, xb.log1mexp, np.where(small > -1e-9, np.log(-small), np.log1p(-np.exp(small))), small, rtol=1e-9
    )


def test_a_gradient_of_log1mexp_is_finite_far_from_where_it_branches(numpy_backend: Backend) -> None:
    x = -np.array([1e-20, 1e-3, 800.0])
    found = numpy_backend.compile(lambda x: xb.grad(xb.sum(xb.log1mexp(x)), x), x)(x)
    np.testing.assert_allclose(found, -1.0 / np.expm1(-x), rtol=1e-12)


@pytest.mark.parametrize("padding", ["VALID", "SAME", 1, ((2, 0), (1, 3))])
@pytest.mark.parametrize("strides", [1, 2, (2, 1)])
def test_convolution_is_the_sum_that_defines_it(numpy_backend: Backend, padding: Any, strides: Any) -> None:
    images, kernel = sample(0, 2, 6, 5, 3), sample(1, 3, 2, 3, 4)
    found = numpy_backend.compile(lambda x, k: xb.conv2d(x, k, strides=strides, padding=padding), images, kernel)
    down, across = (strides, strides) if isinstance(strides, int) else strides
    zeros: Any = {"VALID": ((0, 0), (0, 0)), 1: ((1, 1), (1, 1))}.get(padding, padding) if padding != "SAME" else None
    if zeros is None:
        totals = [(-(-n // s) - 1) * s + k - n for n, k, s in ((6, 3, down), (5, 2, across))]
        zeros = [(max(t, 0) // 2, max(t, 0) - max(t, 0) // 2) for t in totals]
    padded = np.pad(images, ((0, 0), *zeros, (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 2), axis=(1, 2))[:, ::down, ::across]
    np.testing.assert_allclose(found(images, kernel), np.einsum("nhwcij,ijco->nhwo", windows, kernel), rtol=1e-12)


def test_what_dtypes_are_asked() -> None:
    assert xb.result_type(xb.float32, xb.float64, 1) is xb.float64
    assert xb.result_type(np.zeros(2, "i4"), 3) is xb.int32 and xb.result_type(xb.int32, xb.int64) is xb.int64
    assert (
        xb.can_cast(xb.int32, xb.int64) and not xb.can_cast(xb.int64, xb.int32) and not xb.can_cast("int64", "float64")
    )
    assert xb.isdtype(xb.int32, "integral") and xb.isdtype("bool", "bool") and not xb.isdtype(xb.bool, "numeric")
    assert xb.isdtype(xb.float32, ("integral", xb.float32)) and not xb.isdtype(xb.float32, "complex floating")
    assert (xb.finfo("float32").eps, xb.finfo(xb.float64).bits) == (2.0**-23, 64)
    assert (xb.iinfo(xb.int32).max, xb.iinfo(np.zeros(1, "i8")).min) == (2**31 - 1, -(2**63))
    assert xb.broadcast_shapes((2, 1), (3,)) == (2, 3)
    for wrong in (
        lambda: xb.result_type(xb.int32, xb.float32), lambda: xb.result_type(1), lambda: xb.result_type(xb.bool, 1),
        lambda: xb.finfo(xb.int32), lambda: xb.iinfo(xb.float32), lambda: xb.isdtype(xb.bool, "wrong"),
    ):  # fmt: skip
        with pytest.raises(DTypeError):
            wrong()


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda x: la.cholesky(x[:, :2]), ShapeError, "cholesky takes square matrices, not shape"),
        (lambda x: la.solve(x, x[:2]), ShapeError, "square matrices, and as many rows"),
        (lambda x: la.solve(x[0], x), ShapeError, "square matrices"),
        (lambda x: la.inv(xb.astype(x, xb.int64)), DTypeError, "inv takes floating-point arrays"),
        (lambda x: la.qr(x, mode="full"), ArgumentError, "'reduced' and 'complete'"),
        (lambda x: la.svd(x[0]), ShapeError, "svd takes matrices"),
        (lambda x: xb.grad(xb.sum(la.qr(x[:, :2], mode="complete").R), x), GradientError, 'write mode="reduced"'),
        (lambda x: xb.grad(xb.sum(la.svd(x[:2]).S), x), GradientError, "write full_matrices=False"),
        (lambda x: la.matrix_norm(x, ord=3), ArgumentError, "'fro', 'nuc', 1"),
        (lambda x: la.vector_norm(x, ord="fro"), ArgumentError, "it is a number"),
        (lambda x: la.cross(x[:, :2], x[:, :2]), ShapeError, "vectors of three elements"),
        (lambda x: la.diagonal(x, offset=0.5), TraceError, "known while tracing"),
        (lambda x: xb.searchsorted(x, x), ShapeError, "looks in a vector"),
        (lambda x: xb.searchsorted(x, x, sorter=xb.argsort(x)), ShapeError, "looks in a vector"),
        (lambda x: xb.searchsorted(x[0], x, side="up"), ArgumentError, "'left' and 'right'"),
        (lambda x: xb.sort(x, axis=2), ShapeError, "axis 2 does not exist"),
        (lambda x: xb.repeat(x, xb.argsort(x[0]), axis=0), TraceError, "known while tracing"),
        (lambda x: xb.repeat(x, [1, 2], axis=0), ShapeError, "one for each"),
        (lambda x: xb.roll(x, (1, 2), axis=0), ShapeError, "2 shifts and 1 axes"),
        (lambda x: xb.einsum("ij,jk", x), ArgumentError, "subscripts are letters"),
        (lambda x: xb.einsum(x, "ij->ji"), ArgumentError, "subscripts come first"),
        (lambda x: xb.tensordot(x, x, axes=3), ShapeError, "how many axes, or those of each array"),
        (lambda x: xb.tensordot(x, x, axes=-1), ShapeError, "how many axes, or those of each array"),
        (lambda x: xb.tensordot(x, x, axes=(1,)), ShapeError, "how many axes, or those of each array"),
        (lambda x: xb.tensordot(x, x, axes=1.5), ShapeError, "how many axes, or those of each array"),
        (lambda x: xb.zeros(np.asarray(1.5)), ShapeError, "is not a tuple of integers"),
        (lambda x: xb.einsum("ijk", x), ShapeError, "does not say the 2 axes"),
        (lambda x: xb.einsum("ij,jk", x, x[:2]), ShapeError, "of the lengths 3 and 2"),
        (lambda x: xb.einsum("ij->ik", x), ArgumentError, "has letters that an array has"),
        (lambda x: xb.conv2d(x, x), ShapeError, "conv2d of shapes"),
        (lambda x: xb.conv2d(x[None, ..., None], x[..., None, None], strides=0), ArgumentError, "strides 0"),
        (lambda x: xb.conv2d(x[None, ..., None], x[..., None, None], padding="FULL"), ArgumentError, "padding 'FULL'"),
        (lambda x: xb.conv2d(x[None, :2, :, None], x[..., None, None]), ShapeError, "has to fit"),
        (lambda x: x & 1, DTypeError, "bitwise_and takes integer arrays"),
        (lambda x: x << x, DTypeError, "takes integer arrays"),
        (xb.meshgrid, ShapeError, "takes vectors"),
        (lambda x: xb.fft.fftfreq(0), ShapeError, "from 1 up"),
    ],
)
def test_what_does_not_fit_is_an_error(function: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        xb.trace(function, np.eye(3))


def test_results_of_one_factorization_are_one_call() -> None:
    program = xb.trace(la.svd, np.eye(3))
    assert len(program.outputs) == 3 and [node.op for node in program.nodes] == ["input", "svd"]
    assert [n.op for n in xb.trace(la.svdvals, np.eye(3)).values] == ["input", "svdvals"]
    assert from_json(to_json(program)) == program


def test_equal_results_of_one_factorization_are_not_overwritten(numpy_backend: Backend) -> None:
    """Both nodes are one NumPy array, and one of them is squared in place."""
    x = sample(0, 3, 3)
    run = numpy_backend.compile(lambda x: (xb.square(la.svd(x).S), la.svd(x).S * 2.0 + 1.0, la.slogdet(x)), x)
    squares, doubles, _ = run(x)
    values = np.linalg.svd(x, compute_uv=False)
    np.testing.assert_allclose(squares, values**2, rtol=1e-12)
    np.testing.assert_allclose(doubles, values * 2.0 + 1.0, rtol=1e-12)


def test_operations_are_counted() -> None:
    x = np.eye(6)
    assert xb.trace(la.cholesky, x).operations.by_op == {"cholesky": 72}
    assert xb.trace(lambda x: la.solve_triangular(x, x[:, :2]), x).operations.by_op["solve_triangular"] == 72
    assert xb.trace(la.slogdet, x).operations.by_op == {"slogdet": 144}
    assert xb.trace(la.eigvalsh, x).operations.uncounted == ("eigvalsh",)


def test_a_matrix_without_a_result_is_one_error_and_the_next_call_works(numpy_backend: Backend) -> None:
    singular = np.ones((2, 2))
    for function in (la.inv, lambda x: la.solve(x, x), lambda x: la.cholesky(-x)):
        run = numpy_backend.compile(function, singular)
        with pytest.raises(
            ComputationError, match=r"numpy has no result for these numbers: LinAlgError.*linear_algebra"
        ):
            run(singular)
        with pytest.raises(ComputationError, match="numpy has no result for these numbers"):
            run.profile(*run.put(singular))
    assert numpy_backend.compile(la.inv, singular)(np.eye(2))[0, 0] == 1.0
