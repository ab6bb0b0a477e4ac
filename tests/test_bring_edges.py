"""Edge cases of importers: NaN and derivatives of Bessel functions, meshes, and limits of constant folding."""

from __future__ import annotations

from keyword import iskeyword
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import special

import xbackend as xb
from xbackend.bring.inputs import Input, arrays_of
from xbackend.bring.jax.meshes import mesh_of
from xbackend.bring.lineage.bessel import ive
from xbackend.bring.scalars import stopped
from xbackend.bring.tensorflow.folding import computed
from xbackend.bring.tensorflow.indexing import stitch
from xbackend.bring.tracing import identifiers
from xbackend.errors import GraphError

pytestmark = pytest.mark.tier("standard")


@pytest.mark.parametrize("order", [0.0, 1.0, 3.0, 0.5])
def test_bessel_functions_and_their_slopes(order: float) -> None:
    x = np.array([0.0, 1e-3, 2.0, 29.0, 600.0, np.nan, -2.0])

    def both(x: Any) -> Any:
        made = ive(order, x)
        return made, xb.grad(xb.sum(made), x)

    with xb.open("numpy") as backend:
        found, slopes = backend.compile(xb.trace(both, x))(x)
    np.testing.assert_allclose(found, special.ive(order, x), 1e-12)
    if order == 0.5:  # at 0 the slope is infinite, below 0 undefined
        assert np.isfinite(slopes[1:5]).all()
        x, slopes = x[1:6], slopes[1:6]
    step = 1e-5
    differences = (special.ive(order, x + step) - special.ive(order, x - step)) / (2 * step)
    np.testing.assert_allclose(slopes, differences, 1e-4, 1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_stopped_gradient_keeps_every_bit(dtype: Any) -> None:
    info = np.finfo(dtype)
    x = np.ldexp(np.asarray(1.0 / 3.0, dtype), np.arange(info.minexp - info.nmant, info.maxexp + 2)).astype(dtype)
    x = np.concatenate([x, -x, np.array([0.0, -0.0, np.inf, -np.inf, np.nan, info.max, info.tiny], dtype)])

    def function(x: Any) -> Any:
        kept = stopped(x)
        return kept, xb.grad(xb.sum(xb.add(kept, x)), x)

    with xb.open("numpy") as backend:
        found, slopes = backend.compile(xb.trace(function, x))(x)
    assert np.asarray(found).tobytes() == x.tobytes()
    assert (slopes == 1.0).all()


def test_meshes_whose_axes_are_in_another_order_differ() -> None:
    one, other, same = (
        mesh_of(SimpleNamespace(shape=shape), "ab") for shape in ({"a": 2, "b": 2}, {"b": 2, "a": 2}, {"a": 2, "b": 2})
    )
    assert one != other
    assert one == same


def test_what_is_computed_at_once_is_bounded_by_its_result() -> None:
    add = SimpleNamespace(type="AddV2", outputs=[None])
    row, column = np.zeros((1, 60_000), np.int64), np.zeros((60_000, 1), np.int64)
    assert computed(add, [row, column]) is None
    (found,) = computed(add, [row, row]) or []
    assert found.shape == (1, 60_000)


def test_a_stitch_of_few_rows_makes_no_large_array() -> None:
    values = [np.array([0, 1 << 40]), np.zeros((2, 3))]
    with pytest.raises(GraphError, match="leaves rows out"):
        xb.trace(lambda x: stitch(None, SimpleNamespace(get_attr=lambda _: 1), [values[0], x]), values[1])  # type: ignore[arg-type]


def test_inputs_keep_their_kind() -> None:
    generator = np.random.default_rng(0)
    whole, floating = Input("n", "n", "int32", [2]), Input("x", "x", "float32", [2])
    for one, given in (
        (whole, [1, 2]),
        (whole, np.array([1, 2])),
        (floating, [1, 2]),
        (floating, np.ones(2)),
        (whole, [1.0, 2.0]),
    ):
        assert arrays_of([one], [given], generator)[0].dtype == one.dtype
    for given in (np.array([1.0, 2.0]), [1.5, 2.0]):
        with pytest.raises(GraphError, match="was given an array of float64: give int32"):
            arrays_of([whole], [given], generator)
    for one, given in ((whole, np.array([2**40, 0])), (whole, [-(2**40), 0]), (floating, [1e300, 0.0])):
        with pytest.raises(GraphError, match=f"was given numbers that {one.dtype} cannot hold"):
            arrays_of([one], [given], generator)
    for given in ([2**70, 0], ["1", "2"]):
        with pytest.raises(GraphError, match="was given an array of"):
            arrays_of([whole], [given], generator)
    (kept,) = arrays_of([floating], [[np.inf, np.nan]], generator)
    np.testing.assert_array_equal(kept, [np.inf, np.nan])


def test_any_names_of_inputs_become_different_identifiers() -> None:
    names = identifiers(["x_2", "x", "x", "x", "σ²", "½", "lambda", "", "2a", "x 1", "ä-b"])
    assert len(set(names)) == len(names) and all(one.isidentifier() and not iskeyword(one) for one in names)
    assert [names[i] for i in (0, 1, 6, 8, 9, 10)] == ["x_2", "x", "x_lambda", "x_2a", "x_1", "ä_b"]
