"""Shared variables, and memory that a call must not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xbackend as xb
from xbackend.backends.contract import Backend
from xbackend.errors import ComputationError, SharedVariableError, UnsupportedOperation, WorkerError
from xbackend.program.dtypes import DType

pytestmark = pytest.mark.takes_turns

START = np.array([1.0, 2.0, 3.0])


def test_updates_take_effect_once_after_the_outputs(backend: Backend) -> None:
    w, v = xb.shared(START, name="w"), xb.shared(START * 10, name="v")

    def function(x: Any) -> Any:
        xb.update(w, w + v * x)
        xb.update(v, w)
        return w, w * 2.0, v + x

    run = backend.compile(function, 1.0)
    a, b = START, START * 10
    for x in (1.0, -0.5, 2.0):
        old_w, twice, moved = run(x)
        np.testing.assert_array_equal(old_w, a)
        np.testing.assert_array_equal(twice, a * 2)
        np.testing.assert_array_equal(moved, b + x)
        a, b = a + b * x, a
        np.testing.assert_array_equal(backend.get_value(w), a)
        np.testing.assert_array_equal(backend.get_value(v), b)


def test_two_shared_variables_can_be_exchanged_and_one_set_to_a_number(backend: Backend) -> None:
    w, v, n = xb.shared(START, name="w"), xb.shared(-START, name="v"), xb.shared(np.int64(7), name="n")

    def function() -> None:
        xb.update(w, v)
        xb.update(v, w)
        xb.update(n, 3)

    run = backend.compile(function)
    assert run() == ()
    np.testing.assert_array_equal(backend.get_value(w), -START)
    np.testing.assert_array_equal(backend.get_value(v), START)
    assert backend.get_value(n) == 3 and backend.get_value(n).dtype == np.int64
    run()
    np.testing.assert_array_equal(backend.get_value(w), START)


def test_values_are_got_and_set_before_between_and_after_programs(backend: Backend) -> None:
    w = xb.shared(START, name="w")
    np.testing.assert_array_equal(backend.get_value(w), START)
    backend.set_value(w, START + 1)
    np.testing.assert_array_equal(backend.get_value(w), START + 1)
    run = backend.compile(lambda: w * 1.0)
    np.testing.assert_array_equal(run(), START + 1)
    given = START * 5
    backend.set_value(w, given)
    given[:] = -1
    np.testing.assert_array_equal(run(), START * 5)
    found = backend.get_value(w)
    found[:] = -2
    np.testing.assert_array_equal(backend.get_value(w), START * 5)
    np.testing.assert_array_equal(w.value, START)


def test_two_programs_share_one_state_and_other_variables_of_its_name_do_not(backend: Backend) -> None:
    w, namesake = xb.shared(START, name="w"), xb.shared(START, name="w")

    def step(x: Any) -> None:
        xb.update(w, w + x)

    add = backend.compile(step, 1.0)
    read = backend.compile(lambda: (w + 0.0, namesake + 0.0))
    add(1.0)
    add(2.0)
    ours, other = read()
    np.testing.assert_array_equal(ours, START + 3)
    np.testing.assert_array_equal(other, START)


@pytest.mark.parametrize("dtype", list(DType))
def test_state_of_every_dtype_keeps_dtype_and_shape(backend: Backend, dtype: DType) -> None:
    initial = np.array([[0, 1, 1]], dtype.value)
    w, scalar, empty = xb.shared(initial), xb.shared(initial[0, 1]), xb.shared(initial[:0])
    for variable, value in ((w, initial), (scalar, initial[0, 1]), (empty, initial[:0])):
        found = backend.get_value(variable)
        assert found.dtype == dtype.value and found.shape == np.shape(value)
        other = np.logical_not(value).astype(dtype.value)
        backend.set_value(variable, other)
        np.testing.assert_array_equal(backend.get_value(variable), other, strict=True)


def test_one_program_updates_state_of_every_dtype_and_of_no_elements(backend: Backend) -> None:
    variables = {d: xb.shared(np.array([[0, 1, 1]], d.value), name=f"w_{d}") for d in DType}
    empty, scalar = xb.shared(np.zeros((0, 2), np.float32)), xb.shared(np.int32(5))

    def function() -> Any:
        for dtype, w in variables.items():
            xb.update(w, ~w if dtype is DType.bool else w - 1)
        xb.update(empty, empty * 2.0)
        xb.update(scalar, scalar * scalar)
        return list(variables.values()), empty + 1.0, scalar

    values, nothing, five = backend.compile(function)()
    for (dtype, w), old in zip(variables.items(), values, strict=True):
        assert old.dtype == dtype.value and old.tolist() == [[0, 1, 1]]
        found = backend.get_value(w)
        assert found.dtype == dtype.value and found.shape == (1, 3)
        least = dtype.most if dtype.is_unsigned else -1
        assert found.tolist() == ([[True, False, False]] if dtype is DType.bool else [[least, 0, 0]])
    assert nothing.shape == (0, 2) and nothing.dtype == np.float32
    assert five == 5 and five.shape == () and five.dtype == np.int32
    assert backend.get_value(scalar) == 25 and backend.get_value(empty).shape == (0, 2)


@pytest.mark.parametrize(
    "value", [START[:2], START.astype(np.float32), START[None], "abc", [[1.0], [1.0, 2.0]], None, np.array([None] * 3)],
    ids=lambda v: repr(v)[:25],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_refused_and_the_old_one_stays(backend: Backend, value: Any) -> None:
    w = xb.shared(START, name="w")
    with pytest.raises(xb.errors.XBackendError):
        backend.set_value(w, value)
    np.testing.assert_array_equal(backend.get_value(w), START)


def test_what_is_no_shared_variable_has_no_value(backend: Backend) -> None:
    for wrong in (START, "w", None):
        with pytest.raises(SharedVariableError, match=r"not a shared variable; make one with xb\.shared"):
            backend.get_value(wrong)  # type: ignore[arg-type]
        with pytest.raises(SharedVariableError, match="not a shared variable"):
            backend.set_value(wrong, START)  # type: ignore[arg-type]


def test_outputs_outlive_later_calls_and_inputs_stay_as_they_are(backend: Backend) -> None:
    w = xb.shared(START, name="w")

    def function(x: Any) -> Any:
        xb.update(w, w * 2.0)
        y = xb.reshape(x, (3, 2))
        return x, y, y + 1.0, w, x[0], xb.broadcast_to(w, (2, 3)) + x, w[::-1]

    x = np.arange(6.0).reshape(2, 3)
    run = backend.compile(function, x)
    (value,) = run.put(x)
    first = run.execute(value)
    before = [backend.get(v) for v in first]
    wanted = [x, x.reshape(3, 2), x.reshape(3, 2) + 1, START, x[0], START + x, START[::-1]]
    for got, want in zip(before, wanted, strict=True):
        np.testing.assert_array_equal(got, want)
    (other,) = run.put(-x)
    for _ in range(3):
        backend.synchronize(run.execute(other))
    backend.set_value(w, START * 100)
    for got, want in zip([backend.get(v) for v in first], wanted, strict=True):
        np.testing.assert_array_equal(got, want, "an output was overwritten by a later call")
    np.testing.assert_array_equal(backend.get(value), x, "an input was changed")
    np.testing.assert_array_equal(backend.get(other), -x, "an input was changed")


def test_values_of_state_outlive_its_updates(backend: Backend) -> None:
    """Frameworks that overwrite or free state must not do so with returned values."""
    w, v = xb.shared(START, name="w"), xb.shared(START * 10, name="v")

    def look() -> Any:
        return w, v, w

    def step() -> Any:
        new = w * 2.0 + 1.0
        xb.update(w, new)
        xb.update(v, new)  # two variables with one value
        return new, w, new

    def swap() -> Any:
        xb.update(w, v)
        xb.update(v, w)
        return v

    looking, stepping, swapping = backend.compile(look), backend.compile(step), backend.compile(swap)
    held, expected, value, other = list[Any](), list[np.ndarray](), START, START * 10
    for _ in range(3):
        read = backend.get_value(w)
        held += [*looking.execute(), *stepping.execute()]
        expected += [value, other, value, value * 2 + 1, value, value * 2 + 1]
        np.testing.assert_array_equal(read, value)
        value = other = value * 2 + 1
        held += [*looking.execute(), *swapping.execute()]
        expected += [value, other, value, other]
    for found, array in zip(held, expected, strict=True):
        np.testing.assert_array_equal(backend.get(found), array)
    np.testing.assert_array_equal(backend.get_value(v), value)


@pytest.mark.parametrize("start", [START, np.array(-4, "int64")])
def test_two_shared_variables_set_to_one_value_stay_two(backend: Backend, start: np.ndarray) -> None:
    """One array for both would be overwritten as one and read as the other."""
    w, v = xb.shared(start, name="w"), xb.shared(start * 10, name="v")

    def step() -> Any:
        new = xb.asarray(w) * 2
        xb.update(w, new)
        xb.update(v, new)
        return v, new

    run, value = backend.compile(step), start
    for number in range(3):
        old, new = run()
        np.testing.assert_array_equal(old, value if number else start * 10)
        value = value * 2
        np.testing.assert_array_equal(new, value)


@pytest.mark.parametrize("start", [START, np.array(0.5), np.array(-4, "int32")], ids=["floats", "float", "int"])
def test_ops_that_overwrite_leave_alone_what_was_given_and_returned(backend: Backend, start: np.ndarray) -> None:
    """Returned state, and an input that becomes state, are copies."""
    w = xb.shared(start, name="w")

    def step(x: Any) -> Any:
        old = xb.asarray(w)
        xb.update(w, x)
        return x, old, xb.negative(xb.sum((old + 3) * 2)), xb.abs((old + 3) * 5)

    def double() -> None:
        xb.update(w, xb.asarray(w) * 2)

    stepping, doubling = backend.compile(step, start), backend.compile(double)
    (given,) = stepping.put(start + 7)
    held, expected, value = list[Any](), list[np.ndarray](), start
    for _ in range(2):
        held += stepping.execute(given)
        expected += [start + 7, value, -np.sum((value + 3) * 2), np.abs((value + 3) * 5)]
        backend.synchronize(doubling.execute())
        value = (start + 7) * 2
    for found, array in zip(held, expected, strict=True):
        np.testing.assert_array_equal(backend.get(found), array)
    np.testing.assert_array_equal(backend.get(given), start + 7, "an input was changed")
    np.testing.assert_array_equal(backend.get_value(w), value)


def test_elementwise_ops_in_place(backend: Backend) -> None:
    """Where an argument is not needed again, a framework may compute in place, by other code."""
    x = np.arange(1.0, 7.0).reshape(2, 3) / 2
    ops = (xb.reciprocal, xb.expit, xb.digamma, xb.round, xb.sqrt, xb.log1p, xb.floor, xb.sign)

    def each(x: Any) -> Any:
        return tuple(op(xb.cumulative_sum(x + k, axis=0)) for k, op in enumerate(ops))

    with xb.open("numpy") as oracle:
        expected = oracle.compile(each, x)(x)
    for found, right in zip(backend.compile(each, x)(x), expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12)


@pytest.mark.parametrize("shape", [(6,), (6, 2)], ids=str)
def test_parts_of_an_input_are_not_written_into(backend: Backend, shape: tuple[int, ...]) -> None:
    """The gradient of a concatenation is parts of its cotangent, here an input."""

    def function(a: Any, b: Any, weights: Any) -> Any:
        loss = xb.sum(xb.concat([a, b], axis=0) * weights)
        return [xb.negative(g) for g in xb.grad(loss, [a, b])]

    weights = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    run = backend.compile(function, weights[:2], weights[2:], weights)
    values = run.put(weights[:2], weights[2:], weights)
    first, second = map(backend.get, run.execute(*values))
    np.testing.assert_array_equal(first, -weights[:2])
    np.testing.assert_array_equal(second, -weights[2:])
    np.testing.assert_array_equal(backend.get(values[2]), weights, "an input was changed")


def _outside(a: Any) -> Any:
    """An index that is out of range if ``a`` is all zeros."""
    return xb.take(START, xb.reshape(xb.astype(7.0 - 2.0 * xb.sum(a), "int64"), (1,)))


@pytest.mark.parametrize("devices", ["cpu:0", "cpu:1"])
@pytest.mark.parametrize("failing", [xb.linalg.inv, _outside], ids=["inv", "take"])
def test_a_call_that_fails_leaves_all_state_as_it_was(
    backend: Backend, three: Backend, failing: Callable[[Any], Any], devices: str
) -> None:
    """A result that did not fail, such as a singular matrix's in XLA, is a result: its updates take effect."""
    backend = backend if devices == "cpu:0" else three
    w, v, n = xb.shared(START, name="w"), xb.shared(np.eye(3), name="v", device="there"), xb.shared(np.int64(0))

    def step(a: Any) -> Any:
        xb.update(w, w + 1.0)
        with xb.device("there"):
            made = failing(a)
            xb.update(v, v + a)
        xb.update(n, n + 1)
        return w, made, n

    def plain() -> None:
        xb.update(w, w + 1.0)

    run, other = (backend.compile(f, *x, devices={"there": devices}) for f, x in ((step, [np.eye(3)]), (plain, [])))
    held, expected, matrix, count = list[Any](), START, np.eye(3), 0
    for a in (np.zeros((3, 3)), np.eye(3), np.zeros((3, 3)), np.eye(3)):
        try:
            held.append((run.execute(*run.put(a)), expected, count))
            backend.synchronize(held[-1][0])
        except (ComputationError, WorkerError, UnsupportedOperation):
            assert not a.any()
        else:
            expected, matrix, count = expected + 1.0, matrix + a, count + 1
        for variable, value in ((w, expected), (v, matrix), (n, count)):
            np.testing.assert_array_equal(backend.get_value(variable), value)
        backend.synchronize(other.execute())
        expected = expected + 1.0
    for (old, _, number), value, before in held:
        np.testing.assert_array_equal(backend.get(old), value)
        assert backend.get(number) == before


def test_values_on_a_device_are_copies_and_go_from_program_to_program(backend: Backend) -> None:
    x = np.arange(6.0).reshape(2, 3)
    value = backend.put(x, backend.default_device)
    x += 100
    np.testing.assert_array_equal(backend.get(value), np.arange(6.0).reshape(2, 3))
    backend.get(value)[:] = -1
    np.testing.assert_array_equal(backend.get(value), np.arange(6.0).reshape(2, 3))
    assert backend.device_of(value) == backend.default_device
    run = backend.compile(lambda x: x * 2.0 + 1.0, xb.ArraySpec((2, 3)))
    expected = np.arange(6.0).reshape(2, 3)
    for _ in range(3):
        (value,) = run.execute(value)
        expected = expected * 2 + 1
    assert [backend.device_of(value)] == list(run.output_devices)
    backend.synchronize([value])
    np.testing.assert_array_equal(backend.get(value), expected)


@pytest.mark.parametrize("dtype", list(DType))
def test_every_dtype_and_memory_layout_goes_to_the_device_and_back(backend: Backend, dtype: DType) -> None:
    x = (np.arange(24).reshape(2, 3, 4) % 5).astype(dtype.value)
    layouts = (x, x.T, x[::-1, ::2, 1:], np.asfortranarray(x), x[:0], x[0, 0, 1], np.broadcast_to(x[0, 0], (3, 4)))
    for array in layouts:
        found = backend.get(backend.put(np.asarray(array), backend.default_device))
        assert found.dtype == array.dtype and found.shape == array.shape
        np.testing.assert_array_equal(found, array)
        assert found.flags.writeable


def test_a_result_has_the_form_that_the_function_returned(backend: Backend) -> None:
    def function(x: Any) -> Any:
        return {"sum": xb.sum(x), "more": [x, (x + 1.0,), {}], "same": x}

    found = backend.compile(function, START)(START)
    assert list(found) == ["sum", "more", "same"] and found["more"][2] == {}
    assert isinstance(found["more"], list) and isinstance(found["more"][1], tuple)
    np.testing.assert_array_equal(found["more"][1][0], START + 1)
    assert found["sum"].shape == () and found["sum"] == 6.0


def test_a_program_without_arguments_and_one_that_ignores_its_own(backend: Backend) -> None:
    np.testing.assert_array_equal(backend.compile(lambda: xb.arange(3) * 2)(), [0, 2, 4])
    run = backend.compile(lambda x, unused: xb.sum(x), START, START)
    assert run(START, START * np.nan) == 6.0


def test_the_ledger_and_the_placement_are_there_after_a_call(backend: Backend) -> None:
    run = backend.compile(lambda x: xb.tanh(x) @ x, START)
    assert run.ledger.trace is not None and run.ledger.lower is not None and run.ledger.first_call is None
    run(START)
    assert run.ledger.first_call is not None and run.ledger.first_call > 0
    assert {r.op for r in run.placement.ops} >= {"tanh", "matmul"}
    assert not [r for r in run.placement.ops if r.status == "moved"]
    assert run.placement.transfers == ()


def test_a_backend_describes_itself_in_plain_data(backend: Backend) -> None:
    import json
    from dataclasses import asdict

    description = backend.describe()
    assert json.loads(json.dumps(asdict(description))) == asdict(description)
    assert description.versions["numpy"] and description.threads and description.devices
    assert all(pool.library for pool in description.blas) and description.blas
