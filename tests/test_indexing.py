"""Indexing by arrays of integers, and writing at an index: as NumPy does, or an error with the user's line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from strategies import mixed_keys

import xbackend as xb
from xbackend.backends.numpy.adapter import NumPyBackend
from xbackend.errors import DTypeError, ShapeError, TraceError

X = np.arange(60.0).reshape(3, 4, 5)


def computed(function: Any, *given: Any) -> np.ndarray:
    with NumPyBackend("numpy") as backend:
        result: np.ndarray = backend.compile(function, *given)(*given)
        return result


@given(mixed_keys(X.shape), st.booleans())
def test_reading_is_numpys(key: tuple[Any, ...], known: bool) -> None:
    """Whether the arrays are known while tracing, or arguments."""
    places = [i for i, k in enumerate(key) if isinstance(k, np.ndarray)]

    def read(x: Any, *indices: Any) -> Any:
        own = list(key)
        for place, index in zip(places, indices, strict=False):
            own[place] = index
        return x[tuple(own)]

    given = [] if known else [key[i] for i in places]
    np.testing.assert_array_equal(computed(read, X, *given), X[key])


@given(mixed_keys(X.shape), st.sampled_from(["set", "add"]))
def test_writing_is_numpys(key: tuple[Any, ...], how: str) -> None:
    def written(value: Any) -> np.ndarray:
        result = X.copy()
        if how == "set":
            result[key] = value
        else:
            np.add.at(result, key, value)
        return result

    value = np.arange(X[key].size).reshape(X[key].shape) + 0.5
    np.testing.assert_array_equal(computed(lambda x, v: getattr(xb.at(x)[key], how)(v), X, value), written(value))
    np.testing.assert_array_equal(computed(lambda x: getattr(xb.at(x)[key], how)(7.5), X), written(7.5))


@given(st.integers(0, 2), st.data())
def test_taking_along_an_axis_is_numpys(axis: int, data: st.DataObject) -> None:
    shape = list(X.shape)
    shape[axis] = data.draw(st.integers(0, 3))
    n = X.shape[axis]
    indices = data.draw(arrays.arrays(np.int64, tuple(shape), elements=st.integers(-n, n - 1)))
    found = computed(lambda x, i: xb.take_along_axis(x, i, axis=axis), X, indices)
    np.testing.assert_array_equal(found, np.take_along_axis(X, indices, axis))


def test_indices_broadcast_beside_the_axis() -> None:
    indices = np.array([[[0, 4, -1]]])
    found = computed(xb.take_along_axis, X, indices)
    np.testing.assert_array_equal(found, np.take_along_axis(X, np.broadcast_to(indices, (3, 4, 3)), 2))


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda x: x[[0, 3]], ShapeError, "index 3 is out of range for axis 0 of shape"),
        (lambda x: xb.take(x, [-6], axis=2), ShapeError, "index -6 is out of range for axis 2"),
        (lambda x: xb.take(x, [0]), ShapeError, "needs an axis"),
        (lambda x: xb.take(x, [0.5], axis=0), DTypeError, "indexed with integers, not with float64"),
        (lambda x: x[x > 3.0], TraceError, "not indexed with a mask"),
        (lambda x: x["a"], TraceError, "not with 'a'"),
        (lambda x: x[[0], :, [1]], TraceError, "side by side"),
        (
            lambda x: xb.at(x)[0].set(xb.ones((3,))),
            ShapeError,
            r"does not fit into a place of shape \(4, 5\)",
        ),
        (lambda x: xb.at(xb.arange(3))[0].set(x[0, 0, 0]), DTypeError, "undefined"),
        (lambda x: xb.take_along_axis(x, [0]), ShapeError, "ranks 3 and 1"),
        (lambda x: xb.exp(xb.at(x)), TraceError, r"\.set\(value\) and \.add\(value\) give one"),
        (lambda x: xb.at(x)[0], TraceError, r"\.set\(value\) and \.add\(value\) give one"),
    ],
)
def test_what_is_no_index_is_an_error(function: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        xb.trace(function, X)


def test_assignment_says_what_to_write() -> None:
    def assigns(x: Any) -> Any:
        x[0] = 1.0
        return x

    with pytest.raises(TraceError, match=r"write x = xb\.at\(x\)\[\.\.\.\]\.set\(value\)"):
        xb.trace(assigns, X)
