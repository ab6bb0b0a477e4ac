"""The op set: promotion, shapes and values against the Array API standard and NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.special
from hypothesis import assume, given, settings
from strategies import DTYPES, ELEMENTWISE, FLOATING, INTEGER, SIGNED, TAKES, keys, sample_of, shapes

import xbackend as xb
from xbackend.api.tracing import tracer
from xbackend.backends import registry
from xbackend.backends.contract import Backend
from xbackend.errors import ArgumentError, DTypeError, ShapeError, TraceError, XBackendError
from xbackend.program.dtypes import DType, as_dtype, promote, scalar_dtype
from xbackend.program.ops import OPS
from xbackend.program.shapes import broadcast_shapes

B, U1, U4, I4, I8, F4, F8 = DTYPES

# https://data-apis.org/array-api/2025.12/API_specification/type_promotion.html, for our dtypes, row by row.
PROMOTION = {
    B: (B, None, None, None, None, None, None),
    U1: (None, U1, U4, I4, I8, None, None),
    U4: (None, U4, U4, I8, I8, None, None),
    I4: (None, I4, I8, I4, I8, None, None),
    I8: (None, I8, I8, I8, I8, None, None),
    F4: (None, None, None, None, None, F4, F8),
    F8: (None, None, None, None, None, F8, F8),
}
# Its section 'Mixing arrays with Python scalars': the kinds of scalars that keep each dtype.
SCALARS = {B: (True,), U1: (3,), U4: (3,), I4: (3,), I8: (3,), F4: (3, 0.5), F8: (3, 0.5)}
# The dtypes of the standard's functions, by its pages; the kinds have the standard's names.
KINDS = {
    "numeric": "add multiply maximum minimum less less_equal greater greater_equal",
    # Numeric too. Unsigned integers are widened while tracing.
    "signed": "abs negative sign square subtract floor_divide remainder pow sum prod max min argmax argmin "
    "cumulative_sum cumulative_prod matmul sort argsort searchsorted",
    "floating": "floor ceil trunc round exp expm1 log log1p log2 log10 sqrt sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh isnan isinf isfinite divide atan2 mean erf erfc erfinv gammaln digamma expit cholesky inv det "
    "slogdet solve solve_triangular eigh eigvalsh qr svd svdvals conv2d",
    "integer": "bitwise_and bitwise_or bitwise_xor bitwise_invert",
    "bool": "logical_not logical_and logical_or logical_xor any all",
    "any": "equal not_equal diagonal",
}  # fmt: skip
MEMBERS = {
    "integer": INTEGER, "numeric": (*INTEGER, *FLOATING), "signed": SIGNED[1:], "floating": FLOATING, "bool": (B,),
    "any": DTYPES,
}  # fmt: skip


@pytest.fixture(scope="module")
def numpy_backend() -> Backend:
    return registry.get("numpy").load()


def trace_one(function: Callable[..., Any], *arguments: Any) -> tuple[tuple[int, ...], str]:
    """Shape and dtype of a program's single output."""
    program = xb.trace(function, *arguments)
    node = program.values[program.outputs[0]]
    return node.shape, str(node.dtype)


# --- dtypes ----------------------------------------------------------------------------------------------------------


def test_numbers_of_numpys_are_pythons(numpy_backend: Backend) -> None:
    """Arrays of rank 0 have no elements to iterate over, and np.int64 is no int."""
    a = np.arange(9.0).reshape(3, 3)

    def function(x: Any) -> Any:
        empty = xb.repeat(x[:0], [], axis=0), xb.repeat(x[:0], np.asarray(2), axis=0)
        return xb.zeros(np.asarray(3)), xb.tensordot(x, x, axes=np.int64(1)), xb.tensordot(x, x, axes=(1, 0)), *empty

    zeros, product, same, *empty = numpy_backend.compile(function, a)(a)
    assert zeros.shape == (3,) and [each.shape for each in empty] == [(0, 3)] * 2
    np.testing.assert_array_equal(product, a @ a)
    np.testing.assert_array_equal(same, a @ a)


@pytest.mark.parametrize("first", DTYPES)
@pytest.mark.parametrize("second", DTYPES)
def test_promotion_is_the_standards_table(first: DType, second: DType) -> None:
    wanted = PROMOTION[first][DTYPES.index(second)]
    assert promote(first, second) is wanted
    if wanted is not None:
        assert np.promote_types(first.value, second.value) == wanted.value
    spec_a, spec_b = xb.ArraySpec(2, first), xb.ArraySpec(2, second)
    for function in (xb.equal, lambda a, b: xb.concat([a, b]), lambda a, b: xb.where(a == a, a, b)):
        if wanted is None:
            with pytest.raises(DTypeError, match=f"of {first} and {second} is undefined"):
                xb.trace(function, spec_a, spec_b)
        else:
            assert trace_one(function, spec_a, spec_b)[1] in (wanted, "bool")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scalar", [True, 3, 0.5])
def test_python_numbers_promote_as_the_standard_says(dtype: DType, scalar: bool | int | float) -> None:
    allowed = any(type(scalar) is type(s) for s in SCALARS[dtype])
    assert scalar_dtype(scalar, dtype) is (dtype if allowed else None)
    for function in (lambda x: xb.where(x == x, x, scalar), lambda x: xb.where(x == x, scalar, x)):
        if allowed:
            assert trace_one(function, xb.ArraySpec(2, dtype)) == ((2,), dtype)
        else:
            with pytest.raises(DTypeError, match="undefined"):
                xb.trace(function, xb.ArraySpec(2, dtype))


def test_every_op_takes_the_dtypes_of_the_standard() -> None:
    wanted = {op: MEMBERS[kind] for kind, names in KINDS.items() for op in names.split()}
    assert set(wanted) == set(TAKES), "an op is in neither table"
    assert {op: tuple(TAKES[op]) for op in wanted} == wanted


@pytest.mark.parametrize("op", sorted(TAKES))
def test_other_dtypes_are_refused_with_the_kind_that_is_taken(op: str) -> None:
    function = getattr(xb, op) if op in dir(xb) else getattr(xb.linalg, op)
    arity = OPS[op].arity
    shape = {"searchsorted": (2,), "conv2d": (2, 2, 2, 2)}.get(op, (2, 2))
    for dtype in DTYPES:
        spec = [xb.ArraySpec(shape, dtype)] * arity
        known = ("floor", "ceil", "trunc", "round", "isnan", "isinf", "isfinite")
        known_of_integers = op in known and dtype.is_integer
        truth = op in ("any", "all")  # for numbers: whether they are nonzero
        one_bit = op.startswith("bitwise") and dtype is B
        call = (lambda *a: function(*a, axis=0)) if op.startswith("cumulative") else function
        widened = OPS[op].widened and dtype.is_unsigned
        if dtype in TAKES[op] or known_of_integers or truth or one_bit or widened:
            xb.trace(call, *spec)
        else:
            with pytest.raises(DTypeError, match=f"{op} takes .* arrays, not {dtype}; convert with xb.astype"):
                xb.trace(call, *spec)


@pytest.mark.parametrize(
    ("spelling", "dtype"),
    [("float32", F4), (np.float32, F4), (np.dtype("f4"), F4), (float, F8), (int, I8), (bool, B), (np.bool_, B),
     (xb.int32, I4), (np.dtype(">f8"), F8)],
)  # fmt: skip
def test_dtypes_are_understood_in_every_spelling(spelling: Any, dtype: DType) -> None:
    assert as_dtype(spelling) is dtype
    assert np.dtype(dtype.value) == dtype and dtype.itemsize == np.dtype(dtype.value).itemsize


@pytest.mark.parametrize(
    "spelling", ["float16", "f8", "str", "", None, object, str, np.uint16, complex, 3, ["float32"]]
)
def test_other_dtypes_are_named_with_those_that_there_are(spelling: Any) -> None:
    with pytest.raises(DTypeError, match=f"is not supported; the dtypes are {', '.join(DTYPES)}$"):
        as_dtype(spelling)


def test_integers_are_summed_in_int64_unless_told_otherwise() -> None:
    for function in (xb.sum, xb.prod, lambda x, **k: xb.cumulative_sum(x, axis=0, **k)):
        for dtype in (*INTEGER, *FLOATING):
            spec = xb.ArraySpec((2, 3), dtype)
            assert trace_one(function, spec)[1] == (I8 if dtype.is_integer else dtype)
            assert trace_one(lambda x, f=function, d=dtype: f(x, dtype=d), spec)[1] == dtype


# --- shapes, against NumPy's own -------------------------------------------------------------------------------------


@given(st.lists(shapes(), min_size=1, max_size=4))
def test_broadcasting_is_numpys(found: list[tuple[int, ...]]) -> None:
    try:
        wanted = np.broadcast_shapes(*found)
    except ValueError:
        with pytest.raises(ShapeError, match="do not broadcast"):
            broadcast_shapes(*found)
    else:
        assert broadcast_shapes(*found) == wanted


SMALL = shapes().filter(lambda s: np.prod(s) <= 30)


def agree(backend: Backend, function: Callable[[Any, Any], Any], x: np.ndarray) -> None:
    """The traced program gives NumPy's result, or both refuse."""
    try:
        wanted = function(np, x)
    except (ValueError, IndexError, TypeError):
        with pytest.raises(XBackendError):
            xb.trace(lambda a: function(xb, a), x)
        return
    got = backend.compile(lambda a: function(xb, a), x)(x)
    assert got.shape == np.shape(wanted)
    np.testing.assert_array_equal(got, wanted)


@settings(max_examples=300)
@given(SMALL.flatmap(lambda s: st.tuples(st.just(s), keys(s))), st.sampled_from(DTYPES))
def test_slices_are_numpys(numpy_backend: Backend, case: tuple[tuple[int, ...], Any], dtype: DType) -> None:
    shape, key = case
    agree(numpy_backend, lambda xp, a: a[key], sample_of(dtype, shape))


INDEX = st.integers(-4, 4) | st.slices(4) | st.none() | st.just(Ellipsis) | st.integers(-4, 4).map(np.int64)


@settings(max_examples=300)
@given(SMALL, st.lists(INDEX, max_size=4).map(tuple) | INDEX)
def test_any_basic_index_is_numpys_or_both_refuse(numpy_backend: Backend, shape: tuple[int, ...], key: Any) -> None:
    agree(numpy_backend, lambda xp, a: a[key], sample_of(DType.int64, shape))


AXIS = st.integers(-4, 3)
AXES = st.none() | AXIS | st.lists(AXIS, max_size=3).map(tuple)


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
@settings(max_examples=400)
@given(SMALL, st.sampled_from(["sum", "prod", "max", "min", "mean", "any", "all"]), AXES, st.booleans())
def test_reductions_have_numpys_shapes(shape: tuple[int, ...], op: str, axis: Any, keepdims: bool) -> None:
    assume(shape or axis in (None, ()))  # NumPy gives a scalar an axis 0, the standard does not
    x = sample_of(DType.float64, shape)
    try:
        with np.errstate(all="ignore"):
            wanted = getattr(np, op)(x, axis=axis, keepdims=keepdims)
    except (ValueError, IndexError):
        with pytest.raises(ShapeError):
            xb.trace(lambda a: getattr(xb, op)(a, axis=axis, keepdims=keepdims), x)
        return
    assert trace_one(lambda a: getattr(xb, op)(a, axis=axis, keepdims=keepdims), x)[0] == np.shape(wanted)


@settings(max_examples=200)
@given(SMALL, st.sampled_from(["argmax", "argmin"]), st.none() | AXIS, st.booleans())
def test_argmax_is_numpys(numpy_backend: Backend, shape: tuple[int, ...], op: str, axis: Any, keepdims: bool) -> None:
    assume(shape or axis is None)
    agree(
        numpy_backend, lambda xp, a: getattr(xp, op)(a, axis=axis, keepdims=keepdims), sample_of(DType.int64, shape)
    )  # fmt: skip


@settings(max_examples=300)
@given(SMALL, st.lists(st.integers(-1, 6), max_size=3).map(tuple) | st.integers(-1, 9))
def test_reshape_is_numpys(numpy_backend: Backend, shape: tuple[int, ...], target: Any) -> None:
    agree(numpy_backend, lambda xp, a: xp.reshape(a, target), sample_of(DType.int64, shape))


@settings(max_examples=200)
@given(SMALL, st.lists(AXIS, max_size=3), st.lists(st.integers(0, 3), max_size=4).map(tuple))
def test_axes_are_moved_added_and_repeated_as_numpy_does(
    numpy_backend: Backend, shape: tuple[int, ...], axes: list[int], target: tuple[int, ...]
) -> None:
    x = sample_of(DType.int32, shape)
    agree(numpy_backend, lambda xp, a: xp.permute_dims(a, axes), x)
    agree(numpy_backend, lambda xp, a: xp.broadcast_to(a, target), x)
    agree(numpy_backend, lambda xp, a: xp.matrix_transpose(a), x)
    for axis in axes:
        agree(numpy_backend, lambda xp, a, axis=axis: xp.expand_dims(a, axis=axis), x)
        if shape:
            agree(numpy_backend, lambda xp, a, axis=axis: xp.squeeze(a, axis=axis), x)


@settings(max_examples=200)
@given(st.lists(SMALL, min_size=1, max_size=3), AXIS | st.none())
def test_concat_and_stack_are_numpys(numpy_backend: Backend, found: list[tuple[int, ...]], axis: int | None) -> None:
    parts = [sample_of(DType.int32, shape) for shape in found]
    same = [parts[0]] * len(parts)
    for given_parts in (parts, same):
        for name in ("concat", "stack"):
            if name == "stack" and axis is None:
                continue
            try:
                wanted = getattr(np, name)(given_parts, axis=axis)
            except (ValueError, IndexError):
                with pytest.raises(ShapeError):
                    xb.trace(lambda *a, n=name: getattr(xb, n)(a, axis=axis), *given_parts)
            else:
                got = numpy_backend.compile(lambda *a, n=name: getattr(xb, n)(a, axis=axis), *given_parts)(*given_parts)
                np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", ["concat", "stack"])
def test_an_array_is_joined_by_its_rows(numpy_backend: Backend, name: str) -> None:
    rows = np.arange(6.0).reshape(3, 2)
    got = numpy_backend.compile(lambda: getattr(xb, name)(rows))()
    np.testing.assert_array_equal(got, {"concat": rows.ravel(), "stack": rows}[name])


@settings(max_examples=300)
@given(SMALL, SMALL, st.sampled_from([DType.int64, DType.float64]))
def test_matmul_is_numpys(
    numpy_backend: Backend, first: tuple[int, ...], second: tuple[int, ...], dtype: DType
) -> None:
    a, b = sample_of(dtype, first), sample_of(dtype, second)
    try:
        wanted = np.matmul(a, b)
    except ValueError:
        with pytest.raises(ShapeError, match=r"matmul|do not broadcast"):
            xb.trace(xb.matmul, a, b)
        return
    got = numpy_backend.compile(xb.matmul, a, b)(a, b)
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-13)


@given(st.integers(0, 3), st.data())
def test_tensordot_is_numpys(numpy_backend: Backend, over: int, data: st.DataObject) -> None:
    inner = tuple(data.draw(st.lists(st.integers(0, 3), min_size=over, max_size=over)))
    a = sample_of(DType.float64, data.draw(shapes()) + inner)
    b = sample_of(DType.float64, inner + data.draw(shapes()))
    assume(a.size <= 100 and b.size <= 100)
    got = numpy_backend.compile(lambda a, b: xb.tensordot(a, b, axes=over), a, b)(a, b)
    np.testing.assert_allclose(got, np.tensordot(a, b, axes=over), rtol=1e-12, atol=1e-12)


@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(-4, 4).filter(bool), st.sampled_from([1, 0.5, 0.1, 0.3]))
def test_arange_is_numpys(numpy_backend: Backend, start: int, stop: int, step: int, scale: float) -> None:
    numbers = (start * scale, stop * scale, step * scale)
    got = numpy_backend.compile(lambda: xb.arange(*numbers))()
    wanted = np.arange(*numbers)
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


@given(st.integers(0, 4), st.integers(0, 4) | st.none(), st.integers(-5, 5), st.sampled_from(DTYPES))
def test_eye_is_numpys(numpy_backend: Backend, rows: int, columns: int | None, k: int, dtype: DType) -> None:
    got = numpy_backend.compile(lambda: xb.eye(rows, columns, k=k, dtype=dtype))()
    np.testing.assert_array_equal(got, np.eye(rows, columns, k=k, dtype=dtype.value), strict=True)


def test_numbers_of_numpy_count_as_shapes_axes_indices_and_exponents() -> None:
    n = np.int64(1)
    spec = xb.ArraySpec((2, 2))
    assert trace_one(lambda x: xb.reshape(x, (np.int32(4), n)), spec)[0] == (4, 1)
    assert trace_one(lambda x: xb.sum(x, axis=n), spec)[0] == (2,)
    assert trace_one(lambda x: xb.permute_dims(x, np.array([1, 0])), spec)[0] == (2, 2)
    assert trace_one(lambda x: x[n, : np.int64(1)], spec)[0] == (1,)
    assert trace_one(lambda x: xb.zeros(np.prod([2, 3])), spec)[0] == (6,)
    assert trace_one(lambda x: xb.linalg.matrix_power(x, n), spec)[0] == (2, 2)


# --- values of the oracle, against NumPy's own functions ------------------------------------------------------------


NUMPY_NAMES = {"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan"}
NUMPY_NAMES |= {"atanh": "arctanh", "atan2": "arctan2", "pow": "power", "round": "rint", "bitwise_invert": "invert"}


@pytest.mark.parametrize("op", ELEMENTWISE)
def test_the_oracle_computes_what_numpy_computes(numpy_backend: Backend, op: str) -> None:
    for dtype in TAKES[op]:
        x = np.array([0, 1, -1, 2, 3, -4] if dtype.is_integer else [0.0, -0.0, 0.5, -0.5, 2.5, np.inf, -np.inf, np.nan])
        given_arrays = [x.astype(dtype.value)]
        if OPS[op].arity == 2:
            second = np.abs(x) + (1 if dtype.is_integer else 0) if op in ("pow", "floor_divide", "remainder") else x
            given_arrays = [given_arrays[0][:, None], second.astype(dtype.value)]
        with np.errstate(all="ignore"):
            name = NUMPY_NAMES.get(op, op)
            wanted = getattr(np if hasattr(np, name) else scipy.special, name)(*given_arrays)
        got = numpy_backend.compile(getattr(xb, op), *given_arrays)(*given_arrays)
        np.testing.assert_array_equal(got, wanted, strict=True)


def test_the_oracle_in_this_process_copies_what_it_is_given_and_gives(numpy_backend: Backend) -> None:
    x = np.arange(3.0)
    value = numpy_backend.put(x, numpy_backend.default_device)
    run = numpy_backend.compile(lambda a: (a, a[1:], xb.reshape(a, (3, 1))), x)
    found = run(x)
    w = xb.shared(x, name="w")
    numpy_backend.set_value(w, x)
    x[:] = -1
    for array in (numpy_backend.get(value), *found, numpy_backend.get_value(w)):
        assert (array >= 0).all()
        array[:] = -2
    np.testing.assert_array_equal(numpy_backend.get(value), [0.0, 1.0, 2.0])
    np.testing.assert_array_equal(numpy_backend.get_value(w), [0.0, 1.0, 2.0])


def test_negative_exponents_of_integers_are_no_error(numpy_backend: Backend) -> None:
    x = np.array([2, 0, -3])
    got = numpy_backend.compile(xb.pow, x, x)(x, x)
    assert got.shape == (3,) and got.dtype == np.int64 and got[0] == 4 and got[1] == 1


@pytest.mark.filterwarnings("error")
def test_nan_infinities_and_arrays_of_nothing_give_no_warning(numpy_backend: Backend) -> None:
    x = np.array([np.nan, np.inf, 0.0])

    def function(x: Any) -> Any:
        return x / 0.0, xb.log(x - 1.0), xb.mean(x[:0]), xb.astype(x, xb.int64), x * 1e300 * 1e300, xb.full(2, 1e300)

    quotient, logarithm, mean, _, product, _ = numpy_backend.compile(function, x)(x)
    np.testing.assert_array_equal(quotient, [np.nan, np.inf, np.nan])
    np.testing.assert_array_equal(logarithm, [np.nan, np.inf, np.nan])
    np.testing.assert_array_equal(product, [np.nan, np.inf, 0.0])
    assert np.isnan(mean)
    single = x.astype(np.float32)
    wide = numpy_backend.compile(lambda x: x * 1e300, single)(single)
    assert wide.shape == x.shape and np.isnan(wide[0]) and np.isinf(wide[1])


def test_functions_made_of_others_are_numpys(numpy_backend: Backend) -> None:
    x = np.random.default_rng(0).random((3, 4))
    cases: list[tuple[Callable[[Any], Any], Any]] = [
        (lambda a: xb.var(a, axis=1, correction=1), np.var(x, axis=1, ddof=1)),
        (xb.std, np.std(x)),
        (lambda a: xb.clip(a, 0.2, 0.7), np.clip(x, 0.2, 0.7)),
        (lambda a: xb.clip(a, max=0.5), np.clip(x, None, 0.5)),
        (lambda a: xb.cumulative_sum(a, axis=0, include_initial=True), np.vstack([np.zeros(4), np.cumsum(x, axis=0)])),
        (lambda a: xb.vecdot(a, a), np.vecdot(x, x)),
        (lambda a: xb.linalg.outer(a[0], a[1]), np.outer(x[0], x[1])),
        (lambda a: xb.any(a > 0.9, axis=0), np.any(x > 0.9, axis=0)),
        (xb.all, np.all(x)),
        (lambda a: xb.linspace(0.0, 1.0, 5, endpoint=False), np.linspace(0.0, 1.0, 5, endpoint=False)),
        (xb.positive, x),
        (lambda a: a.T @ a, x.T @ x),
        (lambda a: list(a)[1], x[1]),
    ]  # fmt: skip
    for function, wanted in cases:
        np.testing.assert_allclose(numpy_backend.compile(function, x)(x), wanted, rtol=1e-13)


# --- powers of matrices ----------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.integers(0, 40), st.integers(0, 4), st.sampled_from([(), (2,), (0,)]))
def test_powers_by_chain_and_by_squaring_are_numpys(
    numpy_backend: Backend, n: int, size: int, leading: tuple[int, ...]
) -> None:
    a = sample_of(DType.float64, (*leading, size, size)) * 0.5
    wanted = np.linalg.matrix_power(a, n)
    for method in ("chain", "squaring"):
        got = numpy_backend.compile(lambda a, m=method: xb.linalg.matrix_power(a, n, method=m), a)(a)
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max(initial=0.0))


@pytest.mark.parametrize("dtype", [*INTEGER, *FLOATING])
def test_powers_0_and_1_have_the_dtype_and_shape_of_the_matrix(numpy_backend: Backend, dtype: DType) -> None:
    a = sample_of(dtype, (2, 3, 3))
    zero, one = numpy_backend.compile(lambda a: [xb.linalg.matrix_power(a, n) for n in (0, 1)], a)(a)
    np.testing.assert_array_equal(zero, np.broadcast_to(np.eye(3, dtype=dtype.value), (2, 3, 3)), strict=True)
    np.testing.assert_array_equal(one, a, strict=True)


@pytest.mark.parametrize(("n", "products"), [(1, 0), (2, 1), (3, 2), (10, 4), (255, 14), (256, 8), (2**63 - 1, 124)])
def test_squaring_takes_few_products(n: int, products: int) -> None:
    program = xb.trace(lambda a: xb.linalg.matrix_power(a, n), xb.ArraySpec((2, 2)))
    assert sum(node.op == "matmul" for node in program.values) == products


@pytest.mark.parametrize(
    ("n", "method", "said"),
    [
        (-(2**70), "squaring", "exponents reach up to"),
        (2**63, "squaring", "exponents reach up to"),
        (100_001, "chain", "takes 100000 products; use method='squaring'"),
        (2.0, "squaring", "an integer known while tracing"),
        (True, "squaring", "an integer known while tracing"),
        ("3", "squaring", "an integer known while tracing"),
        (2, "binary", "the methods 'chain' and 'squaring', not 'binary'"),
    ],
)
def test_exponents_and_methods_that_are_none(n: Any, method: str, said: str) -> None:
    with pytest.raises(TraceError, match=said):
        xb.trace(lambda a: xb.linalg.matrix_power(a, n, method=method), xb.ArraySpec((2, 2)))


def test_an_exponent_that_is_an_array_is_refused() -> None:
    with pytest.raises(TraceError, match="known while tracing"):
        xb.trace(xb.linalg.matrix_power, xb.ArraySpec((2, 2)), 3)


@pytest.mark.parametrize("shape", [(), (2,), (2, 3), (4, 2, 3)])
def test_matrices_that_are_not_square(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError, match="takes square matrices, not shape"):
        xb.trace(lambda a: xb.linalg.matrix_power(a, 2), xb.ArraySpec(shape))


def test_special_values_are_numpys(numpy_backend: Backend) -> None:
    """Each is a workaround for some backend, and must change nothing on the oracle."""
    x, inf, nan = np.array([-np.inf, -0.0, 0.0, np.inf, np.nan, 4.0]), np.inf, np.nan
    given = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -7.0, 1e-3, 1e300, inf, -inf, nan])
    run = numpy_backend.compile(lambda a, b: (xb.floor_divide(a, b), xb.remainder(a, b)), given[:, None], given)
    with np.errstate(all="ignore"):
        wanted = np.floor_divide(given[:, None], given), np.remainder(given[:, None], given)
    for found, want in zip(run(given[:, None], given), wanted, strict=True):
        np.testing.assert_array_equal(found, want)
        np.testing.assert_array_equal(np.signbit(found[~np.isnan(want)]), np.signbit(want[~np.isnan(want)]))
    functions: list[tuple[Callable[[Any], Any], list[float]]] = [
        (lambda x: xb.pow(x, 0.5), [inf, 0.0, 0.0, inf, nan, 2.0]),
        (lambda x: xb.pow(x, -0.5), [0.0, inf, inf, 0.0, nan, 0.5]),
        (lambda x: xb.var(x[:, None], axis=1), [nan, 0.0, 0.0, nan, nan, 0.0]),
        (lambda x: xb.std(x[:, None], axis=1, correction=1), [nan] * 6),
        (lambda x: xb.var(x[2:3] + xb.arange(3.0), correction=5), inf),  # type: ignore[list-item]
    ]
    for function, expected in functions:
        np.testing.assert_array_equal(numpy_backend.compile(function, x)(x), expected)
    gradient = numpy_backend.compile(lambda x: xb.grad(xb.sum(xb.remainder(x, 1.0) + x**0.5), x), x[2:4] + 0.0)
    np.testing.assert_array_equal(gradient(np.array([0.0, 4.0])), [inf, 1.25])


def test_what_the_standard_leaves_out_has_its_default(numpy_backend: Backend) -> None:
    for make in (xb.zeros, xb.ones, lambda n, dtype: xb.linspace(0, 1, n, dtype=dtype), xb.eye):
        assert trace_one(lambda make=make: make(2, dtype=None))[1] == "float64"
    x = np.array([1, 2])
    run = numpy_backend.compile(lambda x: (xb.isnan(x), xb.isinf(x), xb.isfinite(x), xb.expand_dims(x, 0)), x)
    for found, want in zip(run(x), ([False] * 2, [False] * 2, [True] * 2, [[1, 2]]), strict=True):
        np.testing.assert_array_equal(found, want)
    program = xb.trace(lambda x: xb.astype(x, "int64", copy=False), x)
    assert program.outputs == program.inputs


def test_the_keywords_of_the_standard_for_devices_and_copies() -> None:
    makers: list[Callable[[], Any]] = [
        lambda: xb.zeros(2, device="dev1"), lambda: xb.ones(2, device="dev1"), lambda: xb.full(2, 3, device="dev1"),
        lambda: xb.eye(2, device="dev1"), lambda: xb.arange(2, device="dev1"),
        lambda: xb.linspace(0, 1, 2, device="dev1"),
        lambda: xb.asarray([1.0], device="dev1"), lambda: xb.ones_like([1.0], device="dev1"),
    ]  # fmt: skip
    for make in makers:
        program = xb.trace(make)
        assert [program.values[i].device for i in program.outputs] == ["dev1"]
    for move in (lambda x: xb.asarray(x, device="dev1"), lambda x: xb.astype(x, "float64", device="dev1")):
        program = xb.trace(move, np.ones(2))
        assert [(program.values[i].op, program.values[i].device) for i in program.outputs] == [("transfer", "dev1")]
    for copy, op in ((True, "reshape"), (None, "input"), (False, "input")):
        program = xb.trace(lambda x, copy=copy: xb.asarray(x, copy=copy), np.ones(2))
        assert [program.values[i].op for i in program.outputs] == [op]
        assert xb.trace(lambda x, copy=copy: xb.reshape(x, (2, 1), copy=copy), np.ones(2))
    with pytest.raises(DTypeError, match="needs a copy"):
        xb.trace(lambda x: xb.asarray(x, dtype="float32", copy=False), np.ones(2))


def test_constants_beyond_what_is_sent_to_a_worker_are_refused_while_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracer, "CONSTANT_BYTES", 64)
    assert xb.trace(lambda x: x + np.ones(4) + np.ones(4), np.ones(4))
    with pytest.raises(ArgumentError, match=r"the constants of the program come to .* make a large array an argument"):
        xb.trace(lambda x: x + np.ones(4) + np.ones(4) + np.ones(1), np.ones(4))
    program = xb.trace(lambda x: xb.cond(x[0] > x[1], lambda v: v + np.ones(4), lambda v: v, x), np.ones(4))
    assert xb.trace(lambda x: program(program(x)), np.ones(4))
    with pytest.raises(ArgumentError, match=r"the constants of the program come to"):
        xb.trace(lambda x: program(program(program(x))), np.ones(4))


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_what_would_be_taken_for_something_else_is_refused(numpy_backend: Backend) -> None:
    masked, matrix, x = np.ma.masked_array([1.0, 2.0], [True, False]), np.matrix([[1.0, 2.0]]), np.ones(2)
    with pytest.raises(DTypeError, match=r"argument 'x' is a masked array.*filled"):
        xb.trace(xb.sum, masked)
    with pytest.raises(DTypeError, match=r"is a np.matrix.*np.asarray"):
        xb.trace(lambda x: x * matrix, x)
    with pytest.raises(DTypeError, match="masked"):
        numpy_backend.compile(lambda x: x + 1.0, x)(masked)
    with pytest.raises(DTypeError, match="masked"):
        xb.shared(masked)
    with pytest.raises(DTypeError, match=r"bool and float64 is undefined; write xb.where\(mask, x, 0\)"):
        xb.trace(lambda x: (x > 0) * x, x)
    with pytest.raises(ShapeError, match="vecdot of shapes"):
        xb.trace(xb.vecdot, np.ones(3), np.ones(1))
