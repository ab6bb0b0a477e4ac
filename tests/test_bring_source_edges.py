"""Edges of single ops in scripts: ties, zeros with a sign, the smallest integer, arrays without elements, loops without
steps. Each framework's own op gives another number there, or an error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import source_scripts
from source_scripts import case, ran

import xbackend as xb
from xbackend.bring.source import FRAMEWORKS, to_source
from xbackend.errors import UnsupportedOperation

pytestmark = pytest.mark.tier("standard")

EACH = [pytest.param(name, marks=pytest.mark.needs(name)) for name in FRAMEWORKS]
SMALLEST = np.iinfo("int64").min
LARGE = np.array([1, 5, 4_000_000_000], "uint32")


@pytest.fixture(scope="module")
def oracle() -> Iterator[Any]:
    with xb.open("numpy", virtual_devices=4) as backend:
        yield backend


def both_forms(x: Any) -> Any:
    return xb.linalg.qr(x), xb.linalg.qr(x, mode="complete")


def added_by_a_part(x: Any, i: Any, v: Any) -> Any:
    return xb.at(x)[:, i[1:3]].add(v)


def one_triangle(a: Any, b: Any) -> Any:
    return xb.linalg.solve_triangular(a, b, lower=True)


def ranges(x: Any, y: Any, n: Any) -> Any:
    single = xb.astype(y, "float32") * x + xb.arange(0.1, 1.0, 0.3, dtype="float32")
    return single, y + 1.0, n + xb.arange(0.5, 5.0, 1.5, dtype="int64")


def into_nothing(x: Any, v: Any) -> Any:
    places = xb.at(x)[:, np.array([0, 1])]
    return places.set(v), places.add(v)


def signed_zeros(x: Any, v: Any) -> Any:
    return xb.signbit(xb.at(x)[1:3].add(v))


def read_twice(x: Any) -> Any:
    same = xb.reshape(x, x.shape)
    summed = xb.scan(lambda c, r: (c + xb.sum(x) * r + xb.sum(same), c), xb.asarray(0.0), x)
    return summed, xb.while_loop(lambda s: s < xb.sum(x), lambda s: s + xb.sum(same), xb.asarray(0.0)), same


def counted(x: Any, i: Any) -> Any:
    return xb.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + x[s[0]]), (i, xb.asarray(0.0)))


def of_quotients(x: Any, y: Any) -> Any:
    quotient = (x * 2.0) // (y + 0.0)
    return quotient, xb.grad(xb.sum(quotient * x), [x, y])


def beside_zero(x: Any) -> Any:
    return xb.grad(xb.sum(xb.where(x == 0.0, 0.0, 1.0 // x) * x), x)


def taken_elsewhere(w: Any, i: Any) -> Any:
    with xb.device("dev0"):
        weights = w * 2.0
    with xb.device("dev1"):
        return weights - 0.1 * xb.grad(xb.sum(xb.take(weights, i, axis=0) ** 2.0), weights)


def written_over(x: Any, y: Any) -> Any:
    return xb.grad(xb.at(x)[...].set(y) * 2.0, [x, y])


def written_over_nothing(x: Any, v: Any) -> Any:
    return xb.grad(xb.sum(xb.at(x)[:, np.array([0, 1])].set(v)), [x, v])


THREE = np.arange(3.0)
VALUES: dict[str, tuple[Any, list[np.ndarray]]] = {
    "qr": (both_forms, [np.arange(15.0).reshape(5, 3) ** 2 + np.eye(5, 3)]),
    "take_add": (added_by_a_part, [np.ones((2, 4)), np.array([0, 3, 3, 2]), np.ones((2, 2))]),
    "floor_divide": (lambda x, y: x // y, [np.array([1.0, -1.0, 3.5, 0.6]), np.array([0.1, 0.1, 0.5, 0.2])]),
    "solve_triangular": (one_triangle, [np.array([[1.0, np.inf], [2.0, 3.0]]), np.array([[1.0], [np.nan]])]),
    "arange": (ranges, [np.ones(3, "float32"), np.ones(3), np.arange(3)]),
    "least": (lambda x: (xb.min(x, axis=1), xb.argmin(x, axis=1)), [np.array([[SMALLEST, 5], [8, 7]])]),
    "nothing": (into_nothing, [np.ones((0, 3)), np.ones((0, 2))]),
    "slice_add": (signed_zeros, [np.array([-0.0, 1.0, 2.0, -0.0]), np.ones(2)]),
    "twice": (read_twice, [np.array([0.5, 1.0, 0.25])]),
    "no_steps": (counted, [THREE, np.asarray(3)]),
    "two_steps": (counted, [THREE, np.asarray(1)]),
    "matmul": (lambda a, b: a @ b, [np.full((2, 1, 3), 4097, "int32"), np.full((2, 3, 2), 4099, "int32")]),
}
SLOPES: dict[str, tuple[Any, list[np.ndarray]]] = {
    "quotients": (of_quotients, [np.array([1.0, 2.0, 7.0]), np.array([0.1, 0.2, 0.3])]),
    "beside_zero": (beside_zero, [np.array([1.0, 0.0, 7.0])]),
    "elsewhere": (taken_elsewhere, [np.arange(6.0).reshape(3, 2), np.array([0, 2])]),
    "written_over": (written_over, [np.asarray(1.0), np.asarray(2.0)]),
    "nothing": (written_over_nothing, [np.ones((0, 3)), np.ones((0, 2))]),
}


def wrong(cases: dict[str, tuple[Any, list[np.ndarray]]], oracle: Any, framework: str, folder: Any) -> str:
    made = {name: case(oracle, xb.trace(one, *given), given) for name, (one, given) in cases.items()}
    return "\n".join(f"{name}: {said}" for name, said in ran(made, framework, folder).items())


@pytest.mark.parametrize("framework", EACH)
def test_edges_are_the_programs(framework: str, oracle: Any, tmp_path: Any) -> None:
    said = wrong(VALUES | (SLOPES if framework != "numpy" else {}), oracle, framework, tmp_path)
    assert not said, said


@pytest.mark.parametrize("framework", EACH)
def test_large_numbers_of_few_bits(framework: str, oracle: Any, tmp_path: Any) -> None:
    """Without dtypes of 64 bits, which JAX has to be asked for."""

    def unsigned(x: Any) -> Any:
        several = (
            x * 2654435769,
            x & 4294967295,
            x ^ 3000000000,
            xb.where(x > 3, x, np.uint32(4000000000)),
        )
        made = xb.full((3,), 3000000000, dtype="uint32"), xb.arange(2999999990, 3000000000, 4, dtype="uint32")
        return *several, *(x + one for one in made), xb.at(x)[1].set(4000000000)

    said = wrong({"unsigned": (unsigned, [LARGE])}, oracle, framework, tmp_path)
    assert not said, said


@pytest.mark.needs("pytensor")
@pytest.mark.tier("exhaustive")
def test_the_default_mode_of_pytensor_gives_the_same(
    oracle: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numba's quotients, sorts and products differ from NumPy's. It computes both sides of a choice."""

    def all_of_them(x: Any, y: Any, a: Any, b: Any, i: Any) -> Any:
        return x // y, xb.argsort(xb.astype(a, "int64")[:, 0]), a @ b, counted(x, i)

    monkeypatch.setitem(source_scripts.FLAGS, "PYTENSOR_FLAGS", "")
    a, b = np.tile(np.array([[4097, 1], [4096, 1]], "int32"), (40, 1)), np.full((2, 2), 4099, "int32")
    given = [np.array([1.0, 2.0, 7.0]), np.array([0.1, 0.2, 0.3]), a, b, np.asarray(3)]
    said = wrong({"all": (all_of_them, given)}, oracle, "pytensor", tmp_path)
    assert not said, said


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_devices_of_a_job_are_refused_where_code_has_devices(framework: str) -> None:
    def placed(x: Any) -> Any:
        with xb.device("/job:worker/task:1/gpu:0"):
            return x + 1.0

    program = xb.trace(placed, np.ones(2))
    if framework in ("numpy", "pytensor"):
        assert "has no devices" in to_source(program, framework).text
        return
    with pytest.raises(UnsupportedOperation, match="names /job:worker/task:1/gpu:0, and a script is one process"):
        to_source(program, framework)


def test_operands_that_a_row_repeats_are_computed_once() -> None:
    images, kernel = np.ones((1, 4, 4, 1)), np.ones((2, 2, 1, 2))
    text = to_source(xb.trace(lambda x, k: xb.conv2d(-x, k), images, kernel), "numpy").text
    assert "= -x\n" in text, text
