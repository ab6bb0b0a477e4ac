"""Indices out of range that are unknown while tracing, as docs/indexing.md has them for each backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import documented
import numpy as np
import pytest
from batches import Host

import xbackend as xb
from xbackend.backends import registry
from xbackend.backends.contract import Backend
from xbackend.errors import UnsupportedOperation, WorkerError

pytestmark = pytest.mark.takes_turns

SAID = {name: row for row in documented.rows("indexing.md", "backends") for name in row["backends"].split(", ")}
X, GRID = np.arange(1.0, 9.0), np.arange(1.0, 13.0).reshape(3, 4)
READ, ALONG, WRITTEN = "`x[i]`, `take`", "`take_along_axis`", "`set`, `add`"


def _in_a_scan(x: Any, i: Any) -> Any:
    return xb.scan(lambda c, _: (xb.take(x, i), None), xb.zeros(1), length=2)[0]


FUNCTIONS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "take": (xb.take, READ),
    "take_in_a_scan": (_in_a_scan, READ),
    "take_along_axis": (xb.take_along_axis, ALONG),
    "set": (lambda x, i: xb.at(x)[i].set(7.0), WRITTEN),
    "add": (lambda x, i: xb.at(x)[i].add(x[:1]), WRITTEN),
}
NEAREST = {8: 8.0, -9: 1.0, 50_000: 8.0}


def given(host: Host, function: Callable[..., Any], *arrays: np.ndarray) -> Callable[..., Any]:
    """The compiled function. It raises `IndexError` if the backend says that it executed nothing."""
    run = host.backend.compile(function, *arrays)

    def call(*arrays: np.ndarray) -> Any:
        try:
            return run(*arrays)
        except (WorkerError, UnsupportedOperation) as error:
            assert "IndexError" in str(error) or "InvalidArgumentError" in str(error), error
            raise IndexError from error

    return call


@pytest.mark.parametrize("label", FUNCTIONS)
def test_an_index_out_of_range(host: Host, label: str) -> None:
    function, column = FUNCTIONS[label]
    said = SAID[registry.base(host.name)][column]
    run = given(host, function, X, np.array([0]))
    for index, nearest in NEAREST.items():
        place = np.array([index])
        if said == "error":
            with pytest.raises(IndexError):
                run(X, place)
        else:
            found = run(X, place)
            expected = {"nearest": [nearest], "NaN": [np.nan], "nothing written": X, "first or last": found}[said]
            np.testing.assert_array_equal(found, expected)
            assert said != "first or last" or found[0] in (X[0], X[-1])
    assert np.isfinite(run(X, np.array([-8]))).all()


def test_one_of_two_indices_out_of_range_is_not_another_row(host: Host) -> None:
    said = SAID[registry.base(host.name)][READ]
    run = given(host, lambda x, i, j: x[i, j], GRID, np.array([0]), np.array([0]))
    for i, j in ((0, 4), (1, -5), (-4, 0)):
        if said == "error":
            with pytest.raises(IndexError):
                run(GRID, np.array([i]), np.array([j]))
        else:
            assert run(GRID, np.array([i]), np.array([j])) == [12.0]
    assert run(GRID, np.array([-1]), np.array([-4])) == [9.0]


def test_along_an_axis_no_index_finds_another_row(host: Host) -> None:
    said = SAID[registry.base(host.name)][ALONG]
    run = given(host, lambda x, i: xb.take_along_axis(x, i, axis=1), GRID, np.zeros((3, 1), int))
    outside = np.array([[4], [-5], [1]])
    if said == "error":
        with pytest.raises(IndexError):
            run(GRID, outside)
    else:
        expected = {
            "nearest": [[4.0], [5.0], [10.0]],
            "NaN": [[np.nan], [np.nan], [10.0]],
            "first or last": [[4.0], [8.0], [10.0]],
        }[said]
        np.testing.assert_array_equal(run(GRID, outside), expected)


def test_many_indices_some_of_them_negative(host: Host) -> None:
    """TensorFlow looks for a negative one before it writes so many anew."""
    rng = np.random.default_rng(0)
    inside, added = rng.integers(0, 8, 20_000), rng.random(20_000)
    read = given(host, lambda x, i: (xb.take(x, i), xb.grad(xb.sum(xb.square(xb.take(x, i))), x)), X, inside)
    write = given(host, lambda x, i, v: xb.at(x)[i].add(v), X, inside, added)
    gradient = 2.0 * X * np.bincount(inside)
    for places in (inside, inside - 8, np.where(added < 0.5, inside, inside - 8)):
        found, by_x = read(X, places)
        np.testing.assert_array_equal(found, X[inside])
        np.testing.assert_allclose(by_x, gradient, rtol=1e-12)
        np.testing.assert_allclose(write(X, places, added), X + np.bincount(inside, added), rtol=1e-12)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 0)], ids=str)
def test_the_gradient_where_nothing_is_taken_is_that_of_the_rest(backend: Backend, shape: tuple[int, ...]) -> None:
    def function(x: Any) -> Any:
        taken = xb.take(x, np.zeros(0, np.int64), axis=1)
        return taken, xb.grad(xb.sum(xb.sin(taken)) + xb.sum(x * 2.0), x)

    x = np.ones(shape)
    taken, gradient = backend.compile(function, x)(x)
    assert taken.shape == (2, 0, *shape[2:])
    np.testing.assert_array_equal(gradient, np.full(shape, 2.0))
