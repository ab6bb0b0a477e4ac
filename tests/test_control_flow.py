"""Loops and choices against Python's own, and refusals with the user's line."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xbackend as xb
from xbackend.backends.numpy.adapter import NumPyBackend
from xbackend.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    GradientError,
    ShapeError,
    SharedVariableError,
    TraceError,
    XBackendError,
)
from xbackend.program import analyses
from xbackend.program.serialization import from_json, to_json

X = np.array([1.0, 2.0, 3.0])


def computed(function: Any, *arrays: Any) -> Any:
    with NumPyBackend("numpy") as backend:
        return backend.compile(function, *arrays)(*arrays)


@given(
    st.lists(st.integers(-5, 5), min_size=0, max_size=6),
    st.integers(-5, 5),
    st.booleans(),
    st.booleans(),
)
def test_a_scan_is_a_loop_of_python(numbers: list[int], first: int, reverse: bool, known: bool) -> None:
    xs = np.array(numbers, np.int64)
    carry, made = first, [0] * len(numbers)
    for i in reversed(range(len(numbers))) if reverse else range(len(numbers)):
        made[i] = carry - 2 * numbers[i]
        carry = 3 * carry + numbers[i]

    def function(a: Any, b: Any) -> Any:
        return xb.scan(lambda c, x: (3 * c + x, c - 2 * x), b, xs if known else a, reverse=reverse)

    last, ys = computed(function, xs, np.array(first))
    assert int(last) == carry
    np.testing.assert_array_equal(ys, np.array(made, np.int64))


@given(st.integers(-3, 40), st.integers(1, 7))
def test_a_while_loop_is_that_of_python(n: int, down: int) -> None:
    value, steps = n, 0
    while value > 0:
        value, steps = value - down, steps + 1
    found = computed(
        lambda a, d: xb.while_loop(lambda s: s[0] > 0, lambda s: (s[0] - d, s[1] + 1), (a, xb.asarray(0))),
        np.array(n),
        np.array(down),
    )
    assert tuple(map(int, found)) == (value, steps)


@given(st.booleans())
def test_a_choice_is_that_of_python(p: bool) -> None:
    found = computed(lambda q, x: xb.cond(q, lambda a: a * 2.0, lambda a: a - X, x), np.array(p), X)
    np.testing.assert_array_equal(found, X * 2 if p else X - X)


def test_a_branch_that_is_not_chosen_is_not_computed() -> None:
    """On the oracle: it would not end."""

    def forever(a: Any) -> Any:
        return xb.while_loop(lambda s: xb.all(s < 1e300) | True, lambda s: s, a)

    np.testing.assert_array_equal(computed(lambda q, x: xb.cond(q, lambda a: a, forever, x), np.array(True), X), X)


def test_arrays_that_nobody_carries_are_closed_over() -> None:
    w = xb.shared(np.array(10.0), name="w")

    def function(x: Any) -> Any:
        y = x * 2.0
        table = np.arange(100.0)

        def step(c: Any, i: Any) -> Any:
            inner, _ = xb.scan(lambda d, _: (d + y[0] * w, None), c, length=2)
            return inner + xb.sum(xb.asarray(table)), None

        return xb.scan(step, x[0], xb.arange(3))[0]

    assert float(computed(function, X)) == 1.0 + 3 * (2 * 2.0 * 10.0 + 4950.0)
    program = xb.trace(function, X)
    (loop,) = (n for n in program.values if n.op == "scan")
    inside = [n for n in loop.params["body"].values if n.op != "input"]
    assert not any(n.op == "shared" or n.aval.size > 64 for n in inside)


def test_a_place_of_outside_is_written_inside() -> None:
    def function(x: Any) -> Any:
        first, ends = xb.at(x)[0], xb.at(x)[xb.asarray([0, 2])]
        return xb.scan(lambda c, _: (xb.sum(first.set(c)) + xb.sum(ends.add(c)), None), x[0], length=2)[0]

    # The sums are c + 5 and 2 * c + 6.
    assert float(computed(function, X)) == 3 * (3 * 1.0 + 11) + 11


def test_what_is_carried_is_not_changed() -> None:
    """Neither an argument, nor an operand with another use."""
    x = X.copy()

    def function(a: Any) -> Any:
        b = a * 2.0
        same, _ = xb.scan(lambda c, _: (c, None), b, length=2)
        return b + 1.0, same, xb.cond(xb.sum(a) > 0, lambda c: c, lambda c: c, b) + 0.0

    one, same, chosen = computed(function, x)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(same, 2 * X)
    np.testing.assert_array_equal(chosen, 2 * X)
    np.testing.assert_array_equal(one, 2 * X + 1)


def test_results_of_one_loop_are_computed_once() -> None:
    program = xb.trace(lambda x: xb.scan(lambda c, e: (c + e, c * e), x[0], x), X)
    loops = [i for i, n in enumerate(program.values) if n.op == "scan"]
    assert len(loops) == 2
    assert sum(set(step.makes) == set(loops) for step in analyses.steps(program)) == 1
    assert program.operations.by_op["scan"] == 3 * 2


def test_a_program_with_loops_is_written_down_and_read_back() -> None:
    def function(x: Any) -> Any:
        def step(c: Any, e: Any) -> Any:
            return xb.cond(c > e, lambda a: a + 1.5, lambda a: a * e, c), c

        return xb.scan(step, x[0], x), xb.while_loop(lambda s: xb.any(s < 50.0), lambda s: s * 2.0 + x, x)

    program = xb.trace(function, X)
    again = from_json(to_json(program))
    assert again == program
    with NumPyBackend("numpy") as backend:
        for a, b in zip(backend.compile(program)(X)[0], backend.compile(again)(X)[0], strict=True):
            np.testing.assert_array_equal(a, b)


def test_programs_with_other_bodies_are_others() -> None:
    def program(factor: float) -> xb.Program:
        return xb.trace(lambda x: xb.scan(lambda c, e: (c * factor + e, None), x[0], x)[0], X)

    assert program(2.0) == program(2.0)
    assert program(2.0) != program(3.0)


def _refused(function: Any, error: type[XBackendError], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        xb.trace(function, X)
    assert __file__ in str(caught.value), "the user's line"


@pytest.mark.parametrize(
    ("function", "error", "words"),
    [
        (lambda x: xb.scan(lambda c, e: (x, None), x[0], x), ShapeError, "shapes stay"),
        (lambda x: xb.scan(lambda c, e: (e, None), 0, x), DTypeError, r"begin with xb.asarray\(value, dtype"),
        (lambda x: xb.scan(lambda c, e: ((c, c), None), x[0], x), TraceError, "one array, then a tuple of 2"),
        (lambda x: xb.scan(lambda c, e: c + e, x[0], x), TraceError, r"returns \(carry, y\)"),
        (lambda x: xb.scan(lambda c, e: (c, None), x[0]), ArgumentError, "neither xs nor a length"),
        (lambda x: xb.scan(lambda c, e: (c, None), x[0], x, length=4), ShapeError, "3, 4"),
        (lambda x: xb.scan(lambda c, e: (c, None), x[0], length=-1), ArgumentError, "not a number of steps"),
        (lambda x: xb.scan(lambda c, e: (c, None), x[0], x[0]), ShapeError, "has none"),
        (lambda x: xb.scan(3, x[0], x), ArgumentError, "in the place of a function"),
        (lambda x: xb.while_loop(lambda s: s > 1.0, lambda s: s, x), TraceError, "one bool of shape"),
        (
            lambda x: xb.while_loop(lambda s: s > 1.0, lambda s: xb.astype(s, xb.float32), x[0]),
            DTypeError,
            "dtypes stay",
        ),
        (lambda x: xb.while_loop(lambda s: True, lambda s: s, ()), ArgumentError, "no state"),
        (lambda x: xb.cond(x > 1.0, lambda: x, lambda: x), TraceError, "xb.where chooses for each element"),
        (lambda x: xb.cond(x[0] > 1.0, lambda: x, lambda: x[0]), ShapeError, "shapes stay"),
        (lambda x: xb.cond(x[0] > 1.0, lambda: x, lambda: (x,)), TraceError, "one form"),
        (lambda x: xb.cond(x[0] > 1.0, lambda: None, lambda: None), TraceError, "return nothing"),
        (lambda x: xb.scan(lambda c, e: (xb.to_device(c, "dev1"), None), x[0], x), DeviceError, "before or after"),
    ],
)
def test_what_is_no_loop_is_refused(function: Any, error: type[XBackendError], words: str) -> None:
    _refused(function, error, words)


def test_a_device_inside_of_a_loop_is_refused() -> None:
    def step(c: Any, e: Any) -> Any:
        with xb.device("dev1"):
            return c + e, None

    _refused(lambda x: xb.scan(step, x[0], x), DeviceError, "asks for dev1 inside of it")
    for many in (64, 65):  # more are made outside of the loop
        made = partial(xb.zeros, many, device="dev1")
        _refused(
            lambda x, made=made: xb.scan(lambda c, e: (c + xb.sum(made()), None), x[0], x), DeviceError, "for dev1"
        )


def test_a_loop_runs_where_its_scope_says() -> None:
    def function(x: Any) -> Any:
        with xb.device("dev1"):
            return xb.scan(lambda c, e: (c + e, c), x[0], x)

    with xb.open("numpy", virtual_devices=2) as backend:
        run = backend.compile(function, X, devices={"dev1": "cpu:1"})
        run(X)
        assert {r.bound for r in run.placement.ops if r.op == "scan"} == {"cpu:1"}
        assert {str(d) for d in run.output_devices} == {"cpu:1"}


def test_an_update_inside_of_a_loop_is_refused() -> None:
    w = xb.shared(np.array(0.0), name="w")

    def step(c: Any, e: Any) -> Any:
        xb.update(w, c)
        return c + e, None

    _refused(lambda x: xb.scan(step, x[0], x), SharedVariableError, "update outside")


def test_no_gradient_goes_through_a_loop_without_a_length() -> None:
    def loop(x: Any) -> Any:
        return xb.while_loop(lambda s: xb.sum(s) < 50.0, lambda s: s * 2.0, x)

    _refused(lambda x: xb.grad(xb.sum(loop(x)), x), GradientError, "write it as xb.scan")
    _refused(
        lambda x: xb.grad(xb.sum(xb.cond(x[0] > 0, loop, lambda a: a, x)), x), GradientError, "write it as xb.scan"
    )

    # A value that only counts steps has a gradient: zero.
    def counted(x: Any) -> Any:
        _, steps = xb.while_loop(lambda s: xb.sum(s[0]) < 50.0, lambda s: (s[0] * 2.0, s[1] + 1), (x, xb.asarray(0)))
        return xb.grad(xb.sum(x**2) * xb.astype(steps, xb.float64), x)

    steps = 0
    total = X.copy()
    while total.sum() < 50:
        total, steps = total * 2, steps + 1
    for name in ("numpy", "jax"):
        with xb.open(name) as backend:
            np.testing.assert_allclose(backend.compile(counted, X)(X), 2 * X * steps)


def test_an_array_of_a_body_does_not_outlive_it() -> None:
    kept: list[Any] = []

    def function(x: Any) -> Any:
        def step(c: Any, e: Any) -> Any:
            kept.append(c)
            return c + e, None

        return xb.scan(step, x[0], x)[0] + kept[0]

    _refused(function, TraceError, "do not outlive their function")
