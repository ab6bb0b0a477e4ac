"""The Array API namespace of a backend: functions run at once, compiled once for each kind of arguments."""

from __future__ import annotations

import doctest
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from strategies import mixed_keys

import xbackend as xb
from xbackend.api import functions, linalg
from xbackend.backends import registry
from xbackend.backends.contract import Backend
from xbackend.backends.numpy.adapter import Linker
from xbackend.backends.placement import Executed, Execution
from xbackend.eager import by_value
from xbackend.eager.array import EagerArray
from xbackend.eager.namespace import Namespace
from xbackend.errors import (
    ArgumentError,
    BackendClosed,
    CopyNeeded,
    DeviceUnavailable,
    DTypeError,
    NoSuchElement,
    NoSuchMethod,
    PlacementError,
    ShapeError,
    UnboundDevice,
)

ROOT = Path(__file__).parent.parent
X = np.array([[1.5, -2.0, 3.0], [0.25, 4.0, -0.5]])


@pytest.fixture(scope="module")
def numpy_backend() -> Iterator[Backend]:
    with xb.open("numpy", virtual_devices=2) as backend:
        yield backend


@pytest.fixture
def xp(numpy_backend: Backend) -> Namespace:
    """A fresh namespace, with nothing compiled."""
    return Namespace(numpy_backend)


@pytest.fixture(scope="module", params=registry.names())
def each(request: pytest.FixtureRequest) -> Iterator[Namespace]:
    """The namespace of each backend, in a worker."""
    with xb.open(request.param, isolated=True) as backend:
        yield backend.namespace


def same(got: Any, want: Any, tolerance: float = 1e-12) -> None:
    assert isinstance(got, EagerArray)
    want = np.asarray(want)
    assert (got.shape, got.dtype) == (want.shape, want.dtype.name)
    np.testing.assert_allclose(np.asarray(got), want, rtol=tolerance, atol=tolerance)


# On every backend.

UNARY = {"sin": np.sin, "exp": np.exp, "abs": np.abs, "negative": np.negative, "isfinite": np.isfinite}
BINARY = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "less": np.less}


@pytest.mark.takes_turns
@settings(max_examples=tiers.share(50))
@given(
    name=st.sampled_from([*UNARY, *BINARY]),
    shape=st.sampled_from([(), (3,), (2, 3)]),
    dtype=st.sampled_from(["float32", "float64"]),
    data=st.data(),
)
def test_functions_are_numpys(each: Namespace, name: str, shape: Any, dtype: str, data: st.DataObject) -> None:
    numbers = st.floats(-10, 10, width=32)
    count = 1 if name in UNARY else 2
    given = [data.draw(arrays.arrays(dtype, shape, elements=numbers)) for _ in range(count)]
    wanted = {**UNARY, **BINARY}[name](*given)
    same(getattr(each, name)(*map(each.asarray, given)), wanted, 1e-12 if dtype == "float64" else 1e-5)


@pytest.mark.heavy
@pytest.mark.takes_turns
def test_a_script(each: Namespace) -> None:
    """Operators, reductions, indexing, writing and numbers, as one types them."""
    x = each.asarray(X)
    same(x @ x.T + 1, X @ X.T + 1)
    same(2.0 - each.mean(x, axis=0), 2.0 - X.mean(axis=0))
    same(x[1], X[1])
    same(x[:, -1], X[:, -1])
    same(x[x > 0.5], X[X > 0.5])
    same(each.where(x > 0.0, x, 0.0), np.where(X > 0, X, 0.0))
    assert float(x[0, 2]) == 3.0 and int(each.argmax(x)) == 4 and bool(each.any(x > 3.5))
    y = each.asarray(x, copy=True)
    y[0, 1] = 9.0
    y[1, :] = each.asarray([1.0, 2.0, 3.0])
    same(y, [[1.5, 9.0, 3.0], [1.0, 2.0, 3.0]])
    same(x, X)
    total = 0.0
    for row in x:
        total += float(each.sum(row))
    assert total == X.sum()
    assert list(each.__array_namespace_info__().devices()) == [x.device]


# What there is.


def test_whatever_the_api_has_is_in_the_namespace(xp: Namespace) -> None:
    assert set(functions.NAMES) <= set(dir(xp))
    assert set(linalg.__all__) <= set(vars(xp.linalg))
    assert xp.linalg.matmul is xp.matmul
    x = xp.asarray(X[:, :2])
    same(xp.linalg.matrix_power(x, 3), np.linalg.matrix_power(X[:, :2], 3))


def test_a_function_that_is_added_to_the_api_is_in_the_namespace(
    numpy_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def halves(x: Any, /) -> tuple[Any, Any]:
        return x / 2.0, x / 2.0

    monkeypatch.setattr(functions, "halves", halves, raising=False)
    monkeypatch.setattr(functions, "NAMES", (*functions.NAMES, "halves"))
    xp = Namespace(numpy_backend)
    first, _ = xp.halves(xp.asarray(X))
    same(first, X / 2)


def test_operators_are_those_of_traced_arrays(xp: Namespace) -> None:
    x, y = xp.asarray(X), xp.asarray(X + 5.0)
    for name in ("__add__", "__sub__", "__mul__", "__truediv__", "__mod__", "__floordiv__", "__lt__", "__eq__"):
        same(getattr(x, name)(y), getattr(X, name)(X + 5.0))
    same(X + x, X + X)
    same(np.float64(2.0) * x, 2.0 * X)
    same(np.sin(x), np.sin(X))
    same(-x, -X)
    same(~(x > 0.0), ~(X > 0))
    same(x.mT, X.T)
    x += y
    same(x, 2 * X + 5)


def test_results_of_several_arrays_keep_their_names(xp: Namespace) -> None:
    found = xp.linalg.eigh(xp.asarray([[2.0, 0.0], [0.0, 1.0]]))
    same(found.eigenvalues, [1.0, 2.0])
    found = xp.unique_all(xp.asarray([3, 1, 3, 2]))
    same(found.values, [1, 2, 3])
    same(found.indices, [1, 3, 0])
    same(found.inverse_indices, [2, 0, 2, 1])
    same(found.counts, [1, 1, 2])


@given(arrays.arrays(st.sampled_from([np.float64, np.int64, np.bool_]), arrays.array_shapes(min_dims=1, min_side=0)))
def test_what_depends_on_values_is_numpys(numpy_backend: Backend, array: np.ndarray) -> None:
    xp = numpy_backend.namespace
    x = xp.asarray(array)
    values, counts = np.unique(array, return_counts=True, equal_nan=False)
    found = xp.unique_counts(x)
    same(found.values, values)
    same(found.counts, counts)
    same(xp.unique_values(x), values)
    np.testing.assert_array_equal(np.asarray(found.values)[np.asarray(xp.unique_inverse(x).inverse_indices)], array)
    for got, want in zip(xp.nonzero(x), np.nonzero(array), strict=True):
        same(got, want)


def test_repeats_may_be_an_array(xp: Namespace) -> None:
    x = xp.asarray(X)
    same(xp.repeat(x, xp.asarray([1, 0, 2]), axis=1), np.repeat(X, [1, 0, 2], axis=1))
    same(xp.repeat(x, xp.asarray(2)), np.repeat(X, 2))
    same(xp.repeat(x, [0, 3], axis=0), np.repeat(X, [0, 3], axis=0))


# Indexing.


@st.composite
def keys(draw: st.DrawFn) -> Any:
    key = draw(arrays.basic_indices((3, 4, 5), allow_newaxis=True))
    if draw(st.booleans()):
        count = draw(st.integers(1, 3))
        parts = [draw(st.integers(-n, n - 1) | arrays.arrays(np.int64, (2,), elements=st.integers(-n, n - 1)))
                 for n in (3, 4, 5)[:count]]  # fmt: skip
        key = tuple(parts)
    return key


CUBE = np.arange(60.0).reshape(3, 4, 5)


@given(keys() | mixed_keys(CUBE.shape))
def test_reading_is_numpys(numpy_backend: Backend, key: Any) -> None:
    same(numpy_backend.namespace.asarray(CUBE)[key], CUBE[key])


@given(keys() | mixed_keys(CUBE.shape), st.booleans())
def test_writing_is_numpys(numpy_backend: Backend, key: Any, several: bool) -> None:
    xp, expected = numpy_backend.namespace, CUBE.copy()
    value = np.asarray(np.sin(CUBE[key])) if several else -1.0
    expected[key] = value
    x = xp.asarray(CUBE)
    x[key] = xp.asarray(value) if several else value
    same(x, expected)


@given(st.integers(0, 3), st.data())
def test_masks_are_numpys(numpy_backend: Backend, rank: int, data: st.DataObject) -> None:
    xp, expected = numpy_backend.namespace, CUBE.copy()
    mask = data.draw(arrays.arrays(np.bool_, (3, 4, 5)[:rank]))
    x = xp.asarray(CUBE)
    same(x[xp.asarray(mask)], CUBE[mask])
    expected[mask] = 7.0
    x[xp.asarray(mask)] = 7.0
    same(x, expected)


def test_writing_changes_that_array_alone(xp: Namespace) -> None:
    x = xp.asarray(X)
    copy, part, itself = xp.asarray(x, copy=True), x[0], xp.asarray(x)
    x[0, 0] = 100.0
    assert itself is x and float(x[0, 0]) == 100.0
    assert float(copy[0, 0]) == float(part[0]) == 1.5
    same(xp.at(copy)[0].add(1.0), X + np.array([[1.0], [0.0]]))
    same(xp.at(copy)[:, [0, 2, 2]].add(1.0), X + np.array([1.0, 0.0, 2.0]))
    same(xp.at(copy)[1, 1].set(0.0), [X[0], [0.25, 0.0, -0.5]])
    same(copy, X)


@pytest.mark.parametrize(
    ("read", "error", "words"),
    [
        (lambda xp, x: x[2], NoSuchElement, "index 2 is out of range for axis 0 of shape"),
        (lambda xp, x: x[0, -4], IndexError, "index -4 is out of range for axis 1"),
        (lambda xp, x: x[0, 0, 0], IndexError, "3 indices for an array of shape"),
        (lambda xp, x: x[xp.asarray([True, False, True])], IndexError, "a mask of shape"),
        (lambda xp, x: x[x > 0.0, 0], ShapeError, "a mask is an index alone"),
        (lambda xp, x: x["a"], ArgumentError, "arrays of integers|not with 'a'"),
        (lambda xp, x: x[0.5:], ShapeError, "slice"),
        (lambda xp, x: x.__setitem__(x > 0.0, x), ShapeError, "takes a number or an array of rank 0"),
        (lambda xp, x: x.__setitem__(0, xp.asarray([1.0, 2.0])), ShapeError, "does not fit into a place"),
        (lambda xp, x: xp.arange(3).__setitem__(0, 1.5), DTypeError, "undefined"),
    ],
)
def test_what_is_no_index_is_an_error(
    xp: Namespace, read: Callable[..., Any], error: type[Exception], words: str
) -> None:
    with pytest.raises((error, xb.errors.XBackendError), match=words) as found:
        read(xp, xp.asarray(X))
    assert isinstance(found.value, xb.errors.XBackendError)


# What is compiled.


@pytest.fixture
def compilations(numpy_backend: Backend, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The programs that the backend compiles."""
    found: list[Any] = []
    compile = numpy_backend.compile

    def counted(program: Any, *rest: Any, **more: Any) -> Any:
        found.append(program)
        return compile(program, *rest, **more)

    monkeypatch.setattr(numpy_backend, "compile", counted)
    return found


def test_an_op_is_compiled_once_for_each_shape_dtype_and_static_argument(
    xp: Namespace, compilations: list[Any]
) -> None:
    x = xp.asarray(X)
    for _ in range(3):
        xp.sum(x, axis=0)
    assert len(compilations) == 1
    xp.sum(x * 1.0, axis=1)  # another axis, and a product
    xp.sum(xp.asarray(X[0]), axis=0)
    xp.sum(xp.asarray(X, dtype="float32"), axis=0)
    xp.sum(xp.asarray(X, device="cpu:1"), axis=0)
    assert len(compilations) == 6
    info = xp.cache_info()
    assert (info.misses, info.hits, info.kept, info.limit) == (6, 2, 6, 1024)
    xp.cache_clear()
    xp.sum(x, axis=0)
    assert len(compilations) == 7


def test_another_number_is_no_other_op(xp: Namespace, compilations: list[Any]) -> None:
    x = xp.asarray(X)
    for i in range(10):
        same(x + i, X + i)
        same(0.5 * i * x, 0.5 * i * X)
        same(xp.maximum(x, i - 5), np.maximum(X, i - 5))
    assert len(compilations) == 3
    assert np.isnan(np.asarray(x + np.nan)).all()
    same(xp.divide(1.0, x * 0.0 + 0.0), np.full(X.shape, np.inf))
    assert np.signbit(np.asarray(xp.asarray(0.0) * -0.0)) and not np.signbit(np.asarray(xp.asarray(0.0) * 0.0))


def test_zeros_with_another_sign_are_another_op(xp: Namespace) -> None:
    for number in (0.0, -0.0, 0.0, -0.0):
        assert np.signbit(np.asarray(xp.full((2,), number))).tolist() == [bool(np.signbit(number))] * 2


def test_another_place_is_no_other_op(xp: Namespace, compilations: list[Any]) -> None:
    x = xp.asarray(X)
    for i in range(2):
        for j in range(3):
            assert float(x[i, j]) == X[i, j]
            x[i, j] = float(i - j)
    assert len(compilations) == 2
    same(x, [[0.0, -1.0, -2.0], [1.0, 0.0, -1.0]])


def test_what_is_made_of_nothing_is_not_compiled(xp: Namespace, compilations: list[Any]) -> None:
    same(xp.zeros((2, 3)), np.zeros((2, 3)))
    same(xp.arange(5), np.arange(5))
    same(xp.eye(3, k=1), np.eye(3, k=1))
    same(xp.linspace(0.0, 1.0, 7), np.linspace(0, 1, 7))
    same(xp.ones_like(xp.asarray(X)), np.ones_like(X))
    same(xp.isnan(xp.arange(3)), np.zeros(3, bool))
    assert compilations == []


def test_no_more_ops_are_kept_than_the_limit(numpy_backend: Backend) -> None:
    xp = Namespace(numpy_backend, limit=3)
    for _ in range(2):
        for n in range(1, 8):
            same(xp.sin(xp.ones((n,))), np.sin(np.ones(n)))
    assert xp.cache_info().kept == 3


def test_what_was_not_used_for_longest_is_forgotten(numpy_backend: Backend, compilations: list[Any]) -> None:
    xp = Namespace(numpy_backend, limit=3)
    often = xp.ones((3,))
    for n in range(1, 9):
        xp.sin(often)
        xp.cos(xp.ones((n,)))
    xp.sin(often)
    assert len(compilations) == 1 + 8


def test_ops_are_named_and_know_the_users_line(xp: Namespace, compilations: list[Any]) -> None:
    xp.sin(xp.asarray(X))
    (program,) = compilations
    assert program.name == "sin"
    assert all(Path(__file__).name in node.source for node in program.values)


# Devices.


def test_arrays_are_where_they_were_asked_for(xp: Namespace) -> None:
    there = xb.Device("cpu", 1)
    for x in (
        xp.asarray(X, device="cpu:1"),
        xp.zeros((2,), device=there),
        xp.asarray(X).to_device("CPU:1"),
        xp.sin(xp.asarray(X, device=there)) + 1,
        xp.zeros_like(xp.ones(3, device="cpu:1")),
        xp.unique_values(xp.ones(3, device="cpu:1")),
        xp.asarray(X, device="cpu:1")[0],
        xp.asarray(X, device="cpu:1")[xp.asarray(X > 0)],
        xp.asarray(X, device="cpu:1") * X,
    ):
        assert x.device == there
    assert xp.asarray(X).device == xb.Device("cpu", 0)
    same(xp.asarray(X, device="cpu:1").to_device("cpu:0") + xp.asarray(X), 2 * X)


def test_the_place_of_each_op_is_read_from_the_framework(
    numpy_backend: Backend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def elsewhere(linker: Linker) -> Execution:
        wrong = xb.Device("cpu", 0)
        return Execution({i: Executed(wrong, node.op, "planted") for i, node in enumerate(linker.program.values)})

    monkeypatch.setattr(Linker, "_executed", elsewhere)
    xp = Namespace(numpy_backend)
    with pytest.raises(PlacementError):
        xp.sin(xp.asarray(X, device="cpu:1"))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda xp: xp.zeros(3, device="cpu:7"), DeviceUnavailable, "there is no device cpu:7"),
        (lambda xp: xp.asarray(X, device="gpu"), DeviceUnavailable, "there is no device gpu"),
        (lambda xp: xp.asarray(X).to_device("cpu:9"), DeviceUnavailable, "there is no device cpu:9"),
        (lambda xp: xp.asarray(X, device="dev1"), UnboundDevice, "'dev1' is not bound"),
        (lambda xp: xp.asarray(X) + xp.asarray(X, device="cpu:1"), PlacementError, "nothing is moved unasked"),
        (lambda xp: xp.asarray(X).to_device("cpu:1", stream=3), ArgumentError, "takes no stream"),
    ],
)
def test_devices_that_are_not_there(
    xp: Namespace, call: Callable[..., Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        call(xp)


# Other libraries, and Python.


def test_numbers_and_numpy_arrays_come_out(xp: Namespace) -> None:
    x = xp.asarray(2)
    assert (int(x), float(x), complex(x), bool(x), [10, 20, 30][x], f"{xp.asarray(0.5):.2f}") == (
        *(2, 2.0, 2 + 0j, True, 30, "0.50"),
    )
    host = np.asarray(xp.asarray(X))
    host[0, 0] = 100.0  # a copy
    same(xp.asarray(X), X)
    assert np.asarray(xp.asarray(X), dtype="float32").dtype == np.float32
    assert repr(xp.asarray([1.0, 2.0])) == "array([1., 2.], dtype=float64, device=cpu:0)"
    assert (len(xp.asarray(X)), xp.asarray(X).ndim, xp.asarray(X).size) == (2, 2, 6)


def test_dlpack_goes_over_the_host(xp: Namespace) -> None:
    x = xp.asarray(X)
    np.testing.assert_array_equal(np.from_dlpack(x), X)
    same(xp.from_dlpack(X.copy()), X)
    assert xp.from_dlpack(x) is x and xp.from_dlpack(x, device="cpu:1").device == xb.Device("cpu", 1)
    for refused in (
        lambda: x.__dlpack__(copy=False),
        lambda: x.__array__(copy=False),
        lambda: xp.from_dlpack(X, copy=False),
        lambda: xp.asarray([1.0], copy=False),
        lambda: xp.asarray(x, dtype="float32", copy=False),
    ):
        with pytest.raises(CopyNeeded):
            refused()
    with pytest.raises(ArgumentError, match="does not go over DLPack"):
        xp.from_dlpack([1.0])


def test_a_namespace_says_what_there_is(xp: Namespace) -> None:
    x, info = xp.asarray(X), xp.__array_namespace_info__()
    assert x.__array_namespace__() is xp and x.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ArgumentError, match=r"version '1999\.12' of the Array API standard is not known"):
        x.__array_namespace__(api_version="1999.12")
    assert info.default_device() == info.devices()[0] == x.device and len(info.devices()) == 2
    assert {"float32": xp.float32, "float64": xp.float64} == info.dtypes(kind="real floating")
    assert set(info.dtypes()) == set(xb.DType) and xp.bool in info.dtypes(kind=("bool", "integral")).values()
    assert info.default_dtypes(device="cpu:1")["integral"] is xp.int64
    assert set(info.capabilities()) == {"boolean indexing", "data-dependent shapes", "max dimensions"}
    with pytest.raises(DTypeError, match="kind colourful is not supported"):
        info.dtypes(kind="colourful")
    with pytest.raises(DeviceUnavailable):
        info.dtypes(device="cpu:5")


def test_dtypes_answer(xp: Namespace) -> None:
    assert xp.finfo(xp.float32).eps == float(np.finfo("float32").eps) and xp.finfo(xp.asarray(X)).bits == 64
    assert xp.iinfo("int32").max == 2**31 - 1 and xp.iinfo(xp.int64).min == -(2**63)
    assert xp.isdtype(xp.int32, "integral") and not xp.isdtype(xp.int32, ("bool", xp.int64))
    assert xp.result_type(xp.float32, xp.asarray(X), 1) is xp.float64
    assert xp.can_cast(xp.int32, xp.int64) and not xp.can_cast(xp.int64, xp.int32)
    for wrong in (
        lambda: xp.finfo(xp.int32),
        lambda: xp.iinfo(xp.float64),
        lambda: xp.result_type(xp.int32, xp.float32),
        lambda: xp.result_type(xp.int32, 1.5),
        lambda: xp.asarray([1j]),
        lambda: xp.add(xp.asarray(1), xp.asarray(1.0)),
        lambda: xp.asarray(X) + True,
        lambda: xp.arange(3, dtype="int32") + 2**40,
    ):
        with pytest.raises(DTypeError):
            wrong()


# What is refused.


def test_a_closed_backend_says_so() -> None:
    backend = xb.open("numpy")
    xp = backend.namespace
    x = xp.asarray(X)
    backend.close()
    for use in (
        lambda: x + 1,
        lambda: np.asarray(x),
        lambda: xp.zeros(3),
        lambda: float(x[0, 0]),
        lambda: xp.asarray(1),
    ):
        with pytest.raises(BackendClosed, match="backend numpy was closed"):
            use()
    assert "was closed" in repr(x)


def test_arrays_of_two_backends_do_not_mix(xp: Namespace) -> None:
    with xb.open("numpy") as other:
        theirs = other.namespace.asarray(X)
        for use in (
            lambda: xp.asarray(X) + theirs,
            lambda: xp.sin(theirs),
            lambda: xp.concat([xp.asarray(X), theirs]),
            lambda: xp.asarray(X)[theirs > 0.0],
            lambda: xp.unique_values(theirs),
        ):
            with pytest.raises(ArgumentError, match=r"xp.asarray\(np.asarray\(x\)\) copies it over the host"):
                use()
        same(xp.asarray(np.asarray(theirs)) + 1, X + 1)
        same(xp.asarray(theirs), X)


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        (lambda xp, x: bool(x > 0.0), TypeError, "rank 0, this has shape"),
        (lambda xp, x: float(x), TypeError, "use xp.all, xp.any or xp.sum"),
        (lambda xp, x: [1, 2][x[0, 0]], TypeError, "an index is an integer, not float64"),
        (lambda xp, x: np.sum(x), ArgumentError, "np.sum computes with numbers on the host"),
        (lambda xp, x: np.add.reduce(x), ArgumentError, "np.add.reduce computes with numbers on the host"),
        (lambda xp, x: x.sum(), NoSuchMethod, r"has no .sum: write xp.sum\(x, ...\)"),
        (lambda xp, x: x.numpy(), AttributeError, r"write np.asarray\(x\)"),
        (lambda xp, x: x.frobnicate(), NoSuchMethod, r"dir\(xp\) lists them"),
        (lambda xp, x: xp.frobnicate(x), AttributeError, "the namespace of numpy has no 'frobnicate'"),
        (lambda xp, x: xp.complex64, AttributeError, "has no 'complex64'"),
        (lambda xp, x: xp.sin({"a": 1}), ArgumentError, "a dict, which is no array of the namespace"),
        (lambda xp, x: xp.add(x, xb.shared(1.0)), ArgumentError, r"xp.asarray\(backend.get_value\(w\)\)"),
        (lambda xp, x: xp.sin(lambda y: y), ArgumentError, "give the whole function to backend.compile"),
        (lambda xp, x: xp.reshape(x, (4, 4)), ShapeError, r"cannot reshape .*test_namespace.py:\d+"),
        (lambda xp, x: x + xp.ones(4), ShapeError, r"do not broadcast .*test_namespace.py:\d+"),
        (lambda xp, x: xp.nonzero(xp.asarray(1.0)), ShapeError, "rank 0 is undefined"),
    ],
)
def test_what_is_refused_says_what_to_write(
    xp: Namespace, use: Callable[..., Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        use(xp, xp.asarray(X))


def test_traced_arrays_are_for_programs(xp: Namespace, numpy_backend: Backend) -> None:
    with pytest.raises(ArgumentError, match=r"which is traced: inside of a program write xb\.sin"):
        xb.trace(xp.sin, X)
    weights = xp.asarray(X)
    run = numpy_backend.compile(lambda x: x * weights, X)  # a constant, as an array of NumPy's
    np.testing.assert_array_equal(run(weights), X * X)


# Documents.


def test_the_document_runs_as_printed() -> None:
    text = (ROOT / "docs" / "namespace.md").read_text()
    examples = re.findall(r"```pycon\n(.*?)```", text, re.DOTALL)
    assert examples
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    for number, example in enumerate(examples):
        test = doctest.DocTestParser().get_doctest(example, {}, f"namespace.md {number}", "docs/namespace.md", 0)
        runner.run(test, clear_globs=False)
        test.globs["backend"].close()
    assert runner.failures == 0


def test_the_documents_name_what_is_computed_on_the_host_and_each_backend() -> None:
    text = (ROOT / "docs" / "namespace.md").read_text()
    host = text[text.index("## Computed on the host") :].split("\n## ")[0]
    assert set(re.findall(r"`xp\.(\w+)`", host)) == {*by_value.FUNCTIONS, "repeat"}
    assert "(namespace.md)" in (ROOT / "docs" / "programs.md").read_text()
    conformance = (ROOT / "docs" / "array_api_conformance.md").read_text()
    assert all(f"`{name}`" in conformance for name in registry.names())
