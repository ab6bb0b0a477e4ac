"""Bad input gives an error of xbackend that says what, where and what would be right. The backend goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from batches import Host

import xbackend as xb
from xbackend.backends.contract import Backend, Executable
from xbackend.errors import (
    ArgumentError,
    BackendClosed,
    DeviceSpellingError,
    DeviceUnavailable,
    DTypeError,
    ShapeError,
    SharedVariableError,
    TraceError,
    UnboundDevice,
    UnknownBackend,
    XBackendError,
)

pytestmark = pytest.mark.takes_turns

A = np.arange(6.0).reshape(2, 3)
HERE = r"test_contract_bad_input\.py:\d+"


@pytest.fixture(scope="module")
def executable(host: Host) -> Iterator[Executable]:
    yield host.backend.compile(lambda a, b: a + b, A, A)


@pytest.mark.parent_decides
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((A,), r"takes 2 arrays, 1 were given"),
        ((A, A, A), r"\(a, b\) takes 2 arrays, 3 were given"),
        ((), r"takes 2 arrays, 0 were given"),
        ((A, A.T), r"'b' of .* is float64\[2,3\], was given float64\[3,2\]"),
        ((A, A[:, :0]), r"float64\[2,0\]"),
        ((A, 1.0), r"was given float64\[\]"),
        ((A.astype(np.float32), A), r"'a' of .* is float64\[2,3\], was given float32\[2,3\]"),
        ((A > 0, A), "was given bool"),
        ((A.astype(object), A), "was given object"),
        ((A.astype(str), A), "was given <U"),
        ((A, "abc"), "was given <U3"),
        ((A, None), "was given object"),
        ((A, [[1.0, 2.0], [3.0]]), "'b' of .* which is no array"),
    ],
    ids=lambda p: None if isinstance(p, str) else "call",
)
def test_wrong_arguments_are_named(executable: Executable, arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        executable(*arguments)
    with pytest.raises(ArgumentError, match=said):
        executable.put(*arguments)
    np.testing.assert_array_equal(executable(A, A), A + A)


@pytest.mark.parent_decides
def test_arguments_by_name_and_values_of_a_device_are_refused(executable: Executable) -> None:
    for call in (executable, executable.put):
        with pytest.raises(ArgumentError, match=r"\(a, b\) takes arrays by position, in this order, not b=\.\.\."):
            call(A, b=A)
    said = r"'a' of .* is a value on a device: .*backend.get\(value\); run.execute\(value\) takes it"
    with pytest.raises(ArgumentError, match=said):
        executable(*executable.put(A, A))


def on_gpu_99(a: Any) -> Any:
    with xb.device("gpu:99"):
        return a * 2.0


def on_nowhere(a: Any) -> Any:
    with xb.device("dev7"):
        return a * 2.0


BAD: dict[str, tuple[Callable[..., Any], type[XBackendError], str]] = {
    "returns_nothing": (lambda a: None, TraceError, "returns nothing and updates nothing"),
    "returns_text": (lambda a: "result", TraceError, "dtype"),
    "returns_none_inside": (lambda a: (a, None), TraceError, "returns None in place of an array"),
    "branches_on_a_value": (lambda a: a if a[0, 0] > 0 else -a, TraceError, r"xb\.where"),
    "updates_an_array": (lambda a: xb.update(a, a), SharedVariableError, "not a shared variable"),
    "not_square": (lambda a: xb.linalg.matrix_power(a, 2), ShapeError, r"square matrices, not shape \(2, 3\)"),
    "huge_power": (lambda a: xb.linalg.matrix_power(a @ a.T, 2**63), TraceError, "up to 2"),
    "huge_chain": (lambda a: xb.linalg.matrix_power(a @ a.T, 10**6, method="chain"), TraceError, "method='squaring'"),
    "shapes": (lambda a: a @ a, ShapeError, "3 columns on the left, 2 rows on the right"),
    "largest_of_nothing": (lambda a: xb.max(a[:0]), ShapeError, "no elements"),
    "mixed_dtypes": (lambda a: a + xb.arange(3), DTypeError, "float64 and int64 is undefined"),
    "object_dtype": (lambda a: a + np.array([None, 1, 2]), DTypeError, "object"),
    "string_dtype": (lambda a: xb.astype(a, "str"), DTypeError, "the dtypes are bool, uint8"),
    "unknown_device": (on_gpu_99, DeviceUnavailable, "no device gpu:99.*there is cpu:0"),
    "unbound_name": (on_nowhere, UnboundDevice, "'dev7' is not bound"),
    "no_device": (lambda a: xb.to_device(a, "gpu:x"), DeviceSpellingError, "names neither a device"),
}


@pytest.mark.parent_decides
@pytest.mark.parametrize("label", BAD)
def test_a_wrong_function_is_named_with_its_line(backend: Backend, label: str) -> None:
    function, kind, said = BAD[label]
    with pytest.raises(kind, match=said) as caught:
        backend.compile(function, A)
    code = function.__code__
    line = code.co_firstlineno + (2 if function.__name__.startswith("on_") else 0)
    assert f"{code.co_filename}:{line}" in str(caught.value)


@pytest.mark.parent_decides
@pytest.mark.parametrize(
    ("arguments", "keywords", "kind", "said"),
    [
        ((), {}, ArgumentError, "missing a required argument"),
        ((A, A), {}, ArgumentError, "too many positional arguments"),
        ((A.astype(object),), {}, DTypeError, "'a': dtype object is not supported"),
        (("text",), {}, DTypeError, "not supported"),
        ((A.astype(np.float16),), {}, DTypeError, "float16"),
        ((A + 1j,), {}, DTypeError, "complex128"),
        ((A.astype(np.uint16),), {}, DTypeError, "uint16"),
        (([[1], [1, 2]],), {}, ShapeError, "no array"),
        ((A,), {"devices": {"dev0": "gpu:99"}}, DeviceUnavailable, "dev0=gpu:99"),
        ((A,), {"devices": {"dev0": "nowhere"}}, DeviceSpellingError, "names no device"),
        ((A,), {"devices": 3}, DeviceSpellingError, "binds nothing"),
        ((A,), {"placement": "lenient"}, ArgumentError, "'strict' or 'soft'"),
        ((A,), {"unknown": 1}, ArgumentError, "unexpected keyword"),
    ],
)
def test_wrong_examples_and_bindings_are_named(
    backend: Backend, arguments: Any, keywords: Any, kind: type[XBackendError], said: str
) -> None:
    def function(a: Any) -> Any:
        return xb.to_device(a, "dev0") * 2.0

    with pytest.raises(kind, match=said):
        backend.compile(function, *arguments, **{"devices": "dev0=cpu:0", **keywords})


@pytest.mark.parent_decides
def test_what_is_no_function_is_refused(backend: Backend) -> None:
    with pytest.raises(ArgumentError, match="is not a function"):
        backend.compile(3)  # type: ignore[arg-type]
    program = xb.trace(lambda a: a, A)
    with pytest.raises(ArgumentError, match="already traced"):
        backend.compile(program, A)


@pytest.mark.parametrize(
    "shape", [(0,), *(pytest.param(s, marks=pytest.mark.variant) for s in ((0, 3), (2, 0), (0, 0)))]
)
def test_arrays_without_elements_are_no_error(backend: Backend, shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    out, total = backend.compile(lambda x: (x * 2.0 + 1.0, xb.sum(x)), x)(x)
    assert out.shape == shape and total == 0.0


@pytest.mark.parent_decides
def test_what_is_used_after_the_end_says_so(name: str) -> None:
    backend = xb.open(name, isolated=True)
    w = xb.shared(A, name="w")
    run = backend.compile(lambda a: a + w, A)
    np.testing.assert_array_equal(run(A), A + A)
    (value,) = run.put(A)
    backend.close()
    backend.close()
    uses: list[Callable[[], Any]] = [
        lambda: run(A), lambda: run.put(A), lambda: run.placement, lambda: backend.get_value(w),
        lambda: backend.set_value(w, A), lambda: backend.compile(lambda a: a, A), lambda: run.execute(value),
        lambda: backend.get(value), lambda: backend.put(A, backend.devices[0]), lambda: backend.synchronize([value]),
        lambda: backend.device_of(value), backend.describe, backend.compilations,
    ]  # fmt: skip
    for use in uses:
        with pytest.raises(BackendClosed, match=rf"{name} was closed; open it again with xb\.open\('{name}'\)"):
            use()
    assert "closed" in repr(backend)


def test_an_unknown_backend_is_named_with_those_that_there_are() -> None:
    for wrong in ("torch", "tensorflow-fast", "", "numpy "):
        with pytest.raises(UnknownBackend, match="there is numpy, tensorflow, tensorflow-xla"):
            xb.open(wrong)


@pytest.mark.parent_decides
@pytest.mark.parametrize(
    "keywords", [{"virtual_devices": 0}, {"virtual_devices": True}, {"virtual_devices": "2"}, {"threads": -1}]
)
def test_settings_that_make_no_sense_are_refused(name: str, keywords: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="a whole number from 1 up is needed"):
        xb.open(name, isolated=True, **keywords)


OPEN: dict[str, Callable[[Any, Any], Any]] = {
    "floor_divide_by_zero": lambda x, y: x // (y * 0),
    "remainder_by_zero": lambda x, y: x % (y * 0),
    "least_floor_divided_by_-1": lambda x, y: x // y,
    "remainder_of_least_by_-1": lambda x, y: x % y,
    "negative_exponent": lambda x, y: x**y,
    "overflow": lambda x, y: x * x + abs(x) - (-x),
}


@pytest.mark.variant
@pytest.mark.parametrize("label", OPEN)
def test_integers_without_an_answer_are_some_number_and_no_error(backend: Backend, label: str) -> None:
    def function(*pairs: Any) -> Any:
        return [OPEN[label](x, y) for x, y in zip(pairs[::2], pairs[1::2], strict=True)]

    arrays = []
    for dtype in (np.int32, np.int64):
        arrays += [np.array([7, 0, np.iinfo(dtype).min, 2], dtype), np.array([-1, -1, -1, -2], dtype)]
    for result, given in zip(backend.compile(function, *arrays)(*arrays), arrays[::2], strict=True):
        assert result.shape == given.shape and result.dtype == given.dtype


@pytest.mark.variant
def test_nan_as_an_integer_or_in_a_search_is_some_number_and_no_error(backend: Backend) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e300])
    small, large, position = backend.compile(
        lambda x: (xb.astype(x, xb.int32), xb.astype(x, xb.int64), xb.argmax(x)), x
    )(x)
    assert small.shape == large.shape == (4,) and small.dtype == np.int32 and large.dtype == np.int64
    assert 0 <= position < 4
