"""Several devices of one backend: a program gives the same on one of them and on three."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np
import pytest
from tolerances import CHAIN, check_equal

import xbackend as xb
from xbackend.backends.contract import Backend
from xbackend.devices import Device
from xbackend.errors import DeviceUnavailable
from xbackend.program.dtypes import DType

pytestmark = pytest.mark.takes_turns

THREE = tuple(Device("cpu", i) for i in range(3))
SPREAD = "dev0=cpu:0,dev1=cpu:1,dev2=cpu:2"
ONE = "dev0=cpu:0,dev1=cpu:0,dev2=cpu:0"


def test_there_are_as_many_devices_as_asked_for(three: Backend) -> None:
    accelerators = three.devices[len(THREE) :]
    assert three.devices[: len(THREE)] == THREE and all(device.is_accelerator for device in accelerators)
    assert three.default_device == (*accelerators, THREE[0])[0]
    for device in THREE:
        value = three.put(np.arange(3.0), device)
        assert three.device_of(value) == device
        np.testing.assert_array_equal(three.get(value), np.arange(3.0))


def test_what_is_put_may_have_any_byte_order(three: Backend) -> None:
    x = np.array([1.0, -2.0, 3.0])
    value = three.put(x.astype(">f8"), THREE[1])
    assert three.get(value).dtype == x.dtype and three.get(value).tolist() == x.tolist()
    run = three.compile(lambda x: xb.to_device(x, "dev1") * 2.0, x, devices=SPREAD)
    assert three.get(run.execute(value)[0]).tolist() == [2.0, -4.0, 6.0]


def test_equal_constants_may_be_on_several_devices(three: Backend) -> None:
    def function(x: Any) -> Any:
        with xb.device("dev1"):
            nothing = xb.zeros((0,))
        diagonal = xb.linalg.diagonal(x, offset=-2)  # without elements
        with xb.device("dev1"):
            product = xb.matmul(diagonal, nothing)
        return xb.sin(product + x)

    x = np.array([[2.0]])
    np.testing.assert_allclose(three.compile(function, x, devices=SPREAD)(x), np.sin(x))


def test_an_equal_constant_of_an_update_is_on_its_own_device(three: Backend) -> None:
    state = xb.shared(np.zeros(2))

    def function() -> Any:
        with xb.device("dev1"):
            value = xb.full((2,), 1.5)
        xb.update(state, value)
        return value

    np.testing.assert_allclose(three.compile(function, devices=SPREAD)(), [1.5, 1.5])


@pytest.mark.parametrize("dtype", list(DType))
def test_values_of_every_dtype_stay_on_their_device(three: Backend, dtype: DType) -> None:
    """Arguments, large constants, shared variables and results: only the program's own transfers move values."""
    x, many = np.arange(4).astype(dtype.value), np.arange(2000).astype(dtype.value)
    state = xb.shared(x, device="dev1")

    def function(x: Any, single: Any) -> Any:
        with xb.device("dev1"):
            found = xb.concat([x, state, xb.asarray(many), xb.reshape(single, (1,))])
        return x, found, state, xb.to_device(found, "dev2"), single

    run = three.compile(function, x, x[3], devices=SPREAD)
    values = run.put(x, x[3])
    for _ in range(2):
        results = run.execute(*values)
        three.synchronize(results)
        assert [str(three.device_of(v)) for v in (*values, *results)] == ["cpu:1"] * 5 + ["cpu:2", "cpu:1"]
        want = np.concatenate([x, x, many, x[3:]])
        for got, expected in zip(map(three.get, results), (x, want, x, want, x[3]), strict=True):
            assert got.dtype == dtype.value
            np.testing.assert_array_equal(got, expected)
        values = (results[0], results[4])  # results of a program are arguments of the next
    run.placement.check()
    moved = [(t.source, t.target, t.bytes) for t in run.placement.transfers]
    assert moved == [("cpu:1", "cpu:2", want.nbytes)]


def products(a: Any, b: Any) -> Any:
    """A^3 on dev1, B^3 on dev2, their sum on dev0, and the gradient of all of it."""
    with xb.device("dev1"):
        an = xb.linalg.matrix_power(a, 3)
    with xb.device("dev2"):
        bn = xb.linalg.matrix_power(b, 3)
    with xb.device("dev0"):
        total = an + bn
        loss = xb.sum(xb.square(total))
    return total, loss, xb.to_device(total, "dev2"), *xb.grad(loss, [a, b, an])


@pytest.mark.heavy
def test_a_program_on_three_devices_equals_the_same_on_one(three: Backend) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((4, 4)), rng.random((4, 4))
    spread = three.compile(products, a, b, devices=SPREAD)
    alone = three.compile(products, a, b, devices=ONE)
    results = spread(a, b)
    for got, want in zip(results, alone(a, b), strict=True):
        check_equal(got, want, "array", CHAIN)
    power = np.linalg.matrix_power
    check_equal(results[0], power(a, 3) + power(b, 3), "array", CHAIN)
    check_equal(results[5], 2 * results[0], "array", CHAIN)
    assert spread.input_devices == (THREE[1], THREE[2])
    assert spread.output_devices == (THREE[0], THREE[0], THREE[2], THREE[1], THREE[2], THREE[1])
    values = spread.execute(*spread.put(a, b))
    three.synchronize(values)
    assert tuple(three.device_of(v) for v in values) == spread.output_devices
    assert not [r for r in spread.placement.ops if r.status == "moved"]
    executed = {(r.op, r.asked, r.executed) for r in spread.placement.ops if r.executed is not None}
    for op, asked, where in executed:
        assert asked not in ("dev0", "dev1", "dev2") or where == f"cpu:{asked[-1]}", f"{op} ran on {where}"
    assert {(t.source, t.target) for t in spread.placement.transfers} >= {("cpu:1", "cpu:0"), ("cpu:2", "cpu:0")}
    assert alone.placement.transfers == ()


def test_state_lives_on_its_device_and_is_updated_there(three: Backend) -> None:
    start = np.array([1.0, 2.0])
    w = xb.shared(start, name="w", device="dev2")

    def step(x: Any) -> Any:
        with xb.device("dev1"):
            y = x * w
        xb.update(w, w - 0.5 * xb.grad(xb.sum(y), w))
        return y

    run = three.compile(step, start, devices=SPREAD)
    value = start
    for _ in range(3):
        np.testing.assert_allclose(run(start), start * value, rtol=1e-12)
        value = value - 0.5 * start
        np.testing.assert_allclose(three.get_value(w), value, rtol=1e-12)
    with pytest.raises(xb.errors.SharedVariableError, match="lives on cpu:2"):
        three.compile(lambda: w * 1.0, devices={"dev2": "cpu:0"})


def test_gradients_tell_copies_from_what_they_were_copied_from(three: Backend) -> None:

    def function(x: Any) -> Any:
        c = xb.asarray(np.array([1.0, 2.0]))
        with xb.device("dev0"):
            y = x * 3.0 + c
        moved = xb.to_device(y, "dev1")
        with xb.device("dev1"):
            loss = xb.sum(moved * 2.0 * c) + xb.sum(y * 100.0)
        with xb.device("dev2"):
            loss = loss + xb.sum(c)
        return xb.grad(loss, [moved, y, x, c])

    x = np.array([5.0, 7.0])
    for devices in (SPREAD, ONE):
        moved, y, by_x, by_c = three.compile(function, x, devices=devices)(x)
        c = np.array([1.0, 2.0])
        np.testing.assert_allclose(moved, 2 * c)
        np.testing.assert_allclose(y, 100 + 2 * c)
        np.testing.assert_allclose(by_x, 3 * (100 + 2 * c))
        np.testing.assert_allclose(by_c, (100 + 2 * c) + 2 * (3 * x + c) + 1)


@pytest.mark.parametrize(
    "op",
    [
        lambda x: xb.linalg.diagonal(x, offset=3),
        lambda x: xb.argsort(x[:0], axis=0),
        lambda x: xb.sort(x[:0], axis=0),
        lambda x: xb.take(x, np.zeros(0, np.int64), axis=1),
        lambda x: xb.concat([x[:0], x[:0]]),
        lambda x: x[:0] @ x.T,
    ],
    ids=["diagonal", "argsort", "sort", "take", "concat", "matmul"],
)
def test_what_a_result_without_elements_is_made_of_crosses_devices(three: Backend, op: Callable[[Any], Any]) -> None:
    """A row whose result has no elements still reads its input: else nothing would execute the input's transfer."""

    def function(x: Any) -> Any:
        y = xb.tan(x)
        with xb.device("dev1"):
            found = op(y)
        return found, y, xb.grad(xb.sum(xb.astype(found, xb.float64)) + xb.sum(x), x)

    x = np.linspace(0.1, 0.9, 6).reshape(2, 3)
    found, y, gradient = three.compile(function, x, devices=SPREAD)(x)
    assert not found.size
    np.testing.assert_allclose(y, np.tan(x))
    np.testing.assert_array_equal(gradient, np.ones_like(x))


@pytest.mark.parametrize("given", [False, True], ids=["alone", "beside_an_input"])
def test_a_gradient_by_what_is_made_of_constants_is_that_of_one_device(three: Backend, given: bool) -> None:
    """Its target and its loss are computed in the same stage, if nothing parts them, and then it would be 0."""

    def function(x: Any) -> Any:
        with xb.device("dev1"):
            target = xb.sin(xb.arange(3, dtype=xb.float64))
            own = xb.sum(xb.exp(target))
            by_target = xb.grad(own + xb.sum(x) if given else own, target)
            crossing = target * 2.0
        with xb.device("dev0"):
            loss = xb.sum(xb.sin(x) * crossing) + xb.sum(by_target * x)
            return by_target, loss, xb.grad(loss, x)

    x = np.array([0.5, 1.0, 2.0])
    target = np.sin(np.arange(3.0))
    by_target, loss, by_x = three.compile(function, x, devices=SPREAD)(x)
    np.testing.assert_allclose(by_target, np.exp(target))
    np.testing.assert_allclose(loss, np.sum(2 * np.sin(x) * target + np.exp(target) * x))
    np.testing.assert_allclose(by_x, 2 * np.cos(x) * target + np.exp(target))


def test_pieces_cross_devices_and_the_gradient_goes_back_to_each_of_them(three: Backend) -> None:

    def function(x: Any) -> Any:
        with xb.device("dev1"):
            a = x * 2.0
            column, turned = a[:, 1], a[::-1]
        with xb.device("dev2"):
            b = x * 3.0
        with xb.device("dev0"):
            loss = xb.sum(xb.concat([a, b[:1]]) ** 2) + xb.sum(xb.stack([a, b], axis=1) ** 3)
            return column + 1.0, turned + 1.0, xb.grad(loss, x)

    x = np.arange(1.0, 13.0).reshape(3, 4)
    column, turned, gradient = three.compile(function, x, devices=SPREAD)(x)
    np.testing.assert_array_equal(column, 2 * x[:, 1] + 1)
    np.testing.assert_array_equal(turned, 2 * x[::-1] + 1)
    want = 8 * x + 3 * (8 + 27) * x**2
    want[:1] += 18 * x[:1]
    np.testing.assert_allclose(gradient, want, rtol=1e-12)


def scanned(x: Any) -> Any:
    """A loop's final carry and its outputs, sent to another device, and the gradient back."""
    with xb.device("dev1"):
        last, every = xb.scan(lambda c, row: (c * 0.7 + xb.sin(c) * row, c + row), xb.ones((2,)), x)
    with xb.device("dev2"):
        loss = xb.sum(last * last) + xb.sum(xb.tanh(every))
    return last, xb.to_device(every, "dev2"), loss, xb.grad(loss + xb.sum(x), x)


def looped(x: Any) -> Any:
    with xb.device("dev1"):
        state = xb.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * s[1]), (xb.asarray(0), x))
    with xb.device("dev2"):
        return state[1] * 2.0, state[0] + 1


def looped_beside(x: Any) -> Any:
    """A loop without a gradient beside values with one, of an argument on another device."""
    with xb.device("dev1"):
        y = xb.sin(x)
        state = xb.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * s[1]), (xb.asarray(0), y))
        near = xb.sum(xb.exp(y))
    with xb.device("dev2"):
        loss = xb.sum(xb.cos(y)) + near
    return state[1], xb.grad(loss + xb.sum(xb.tan(y)), x)


def taken(x: Any) -> Any:
    """A step with rows of a table on two devices and a norm of all gradients, as for clipping."""
    rows = xb.asarray([0, 2, 2])
    with xb.device("dev1"):
        near = xb.sum(xb.square(xb.take(x, rows, axis=0)))
    with xb.device("dev2"):
        far = xb.sum(xb.tanh(xb.take(x * 3.0, rows, axis=0)))
    gradients = [xb.grad(near, x), xb.grad(far, x)]
    with xb.device("dev1"):
        norm = xb.sqrt(sum(xb.sum(xb.square(g)) for g in gradients))
    return [g / norm for g in gradients]


def scanned_twice(x: Any) -> Any:
    """The gradient of a gradient through a loop that reads a value on another device."""
    with xb.device("dev1"):
        y = xb.tanh(x)
    with xb.device("dev2"):
        last, each = xb.scan(lambda c, i: (xb.tanh(c * 0.6 + xb.square(y[i])), c), xb.zeros(2), xb.arange(3))
    slope = xb.grad(xb.sum(last) + xb.sum(xb.sin(each)), x)
    return slope, xb.grad(xb.sum(xb.sin(slope)), x)


@pytest.mark.shared_out
@pytest.mark.heavy
@pytest.mark.parametrize("function", [scanned, scanned_twice, looped, looped_beside, taken])
def test_what_loops_leave_and_rows_that_were_taken_cross_devices(three: Backend, function: Any) -> None:
    x = np.array([[0.5, -1.0], [0.25, 2.0], [-0.75, 0.1]])
    alone, spread = (three.compile(function, x, devices=devices) for devices in (ONE, SPREAD))
    for found, wanted in zip(spread(x), alone(x), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    spread.placement.check()
    assert all(t.bytes for t in spread.placement.transfers)


def test_a_gradient_of_a_gradient_crosses_devices(three: Backend) -> None:
    w = xb.shared(np.array([1.0, 2.0, 3.0]), name="w", device="dev0")

    def function(x: Any) -> Any:
        with xb.device("dev1"):
            y = (w * x) ** 2
        with xb.device("dev2"):
            loss = xb.sum(y**2)
        first = xb.grad(loss, w)
        return first, xb.grad(xb.sum(first * first), w)

    x = np.array([0.5, 1.0, 2.0])
    run = three.compile(function, x, devices=SPREAD)
    first, second = run(x)
    np.testing.assert_allclose(first, 4 * x**4 * w.value**3, rtol=1e-12)
    np.testing.assert_allclose(second, 2 * first * 12 * x**4 * w.value**2, rtol=1e-12)
    assert not [r for r in run.placement.ops if r.status == "moved"]


def test_what_one_device_has_another_one_does_not_need(three: Backend) -> None:
    """The sum's value is not used, so the variable need not be on its device. It is on another."""
    w = xb.shared(np.arange(6.0).reshape(2, 3), name="w", device="dev1")

    def function() -> Any:
        with xb.device("dev2"):
            m = w * 2.0
        with xb.device("dev0"):
            s = xb.sum(w)
        return m, xb.grad(s, w)

    run = three.compile(function, devices=SPREAD)
    m, gradient = run()
    np.testing.assert_array_equal(m, 2 * w.value)
    np.testing.assert_array_equal(gradient, np.ones((2, 3)))
    assert not [r for r in run.placement.ops if r.status == "moved"]


def test_the_ops_of_a_backward_pass_have_records_of_their_own(three: Backend) -> None:
    """The gradient is on dev1. Part of its backward pass runs on dev2, with the loss."""

    def function(x: Any) -> Any:
        with xb.device("dev1"):
            y = xb.tanh(x * x)
        with xb.device("dev2"):
            loss = xb.sum(xb.sin(y) * xb.exp(y))
        return xb.grad(loss, x)

    x = np.linspace(0.1, 0.9, 5)
    run = three.compile(function, x, devices=SPREAD)
    y = np.tanh(x * x)
    np.testing.assert_allclose(run(x), np.exp(y) * (np.cos(y) + np.sin(y)) * (1 - y * y) * 2 * x, rtol=1e-6)
    placement = run.placement
    (gradient,) = (r for r in placement.ops if r.op == "grad")
    read = gradient.status != "nothing to read"
    assert (gradient.executed, gradient.status) == (("cpu:1", "as asked") if read else (None, "nothing to read"))
    assert {r.executed if read else r.bound for r in placement.backward} == {"cpu:1", "cpu:2"}
    assert {r.gradient for r in placement.backward} == {gradient.node}
    for record in placement.backward:
        assert record.status in (("as asked", "fused") if read else ("nothing to read",)), record
        assert record.executed in (record.bound, None) or record.bound is None, record
        assert record.evidence and record.framework_op and record.count > 0
        node = run.program.values[record.forward] if record.forward is not None else None
        assert node is None or record.bound == run.program.values[node.inputs[0]].device
    assert placement.to_dict()["backward"] and "backward op" in placement.listing()
    assert ("as asked" in str(placement) and "backward ops included" in str(placement)) == read


def test_a_backward_pass_on_one_device_has_records_too(three: Backend) -> None:
    x = np.linspace(0.1, 0.9, 5)
    run = three.compile(lambda x: xb.grad(xb.sum(xb.sin(x) * x), x), x, devices=ONE)
    run(x)
    assert run.placement.backward
    home = str(three.default_device)
    ran = home if run.placement.backward[0].status != "nothing to read" else None
    assert {(r.executed, r.bound) for r in run.placement.backward} <= {(ran, home), (ran, None)}
    # A backward pass of a transfer, and otherwise of ones.
    run = three.compile(lambda x: xb.grad(xb.sum(xb.to_device(x, "dev2")), x), x, devices=SPREAD)
    run(x)
    assert not [r for r in run.placement.backward if r.status in ("moved", "not read")]
    # Ones, for any argument.
    run = three.compile(lambda x: xb.grad(xb.sum(x), x), x, devices=ONE)
    run(x)
    assert run.placement.backward and {r.status for r in run.placement.backward} <= {
        "as asked", "fused", "folded", "nothing to read"
    }  # fmt: skip


@pytest.mark.parametrize("devices", [1, 3])
def test_a_record_says_what_was_observed_or_that_there_was_nothing(
    backend: Backend, three: Backend, devices: int
) -> None:
    def function(x: Any) -> Any:
        with xb.device("dev0"):
            y = xb.tanh(x * x)
        with xb.device("dev1"):
            loss = xb.sum(xb.sin(y))
        return loss, xb.grad(loss, x)

    x = np.linspace(0.1, 0.9, 5)
    run = (backend if devices == 1 else three).compile(function, x, devices=ONE if devices == 1 else SPREAD)
    run(x)
    records = (*run.placement.ops, *run.placement.backward)
    nothing = {r.evidence for r in records if r.status == "nothing to read"}
    for r in records:
        assert r.evidence and r.status != "not read", r
        assert r.executed is not None or r.status in ("nothing to read", "folded", "fused"), r
        assert devices > 1 or "thread" not in r.evidence, r  # one device needs no thread
    assert devices == 1 or nothing <= {"NumPy has no devices"}
    assert run.placement.summary().startswith("all ") != bool(nothing)
    assert all(why in str(run.placement) for why in nothing)


def batches(x: Any) -> Any:
    made = xb.matmul(x, xb.matrix_transpose(x))
    with xb.device("dev1"):
        loss = xb.sum(xb.sin(made))
    return (xb.grad(loss, x),)


def elements(x: Any) -> Any:
    taken = xb.take(x, xb.asarray(np.array([0, 2])) + 0, axis=1)
    with xb.device("dev1"):
        loss = xb.sum(xb.sin(xb.take(taken, np.array([1, 1]), axis=-2)))
    return (xb.grad(loss, x),)


def factors(x: Any) -> Any:
    with xb.device("dev1"):
        further = xb.exp(x)
    with xb.device("dev0"):
        loss = xb.sum(xb.sin(xb.prod(x, axis=0, keepdims=True) + 0.3))
        again = xb.sum(xb.sin(xb.grad(loss, x) + 0.3))
        return xb.grad(again, x), further


def places(x: Any) -> Any:
    with xb.device("dev0"):
        one = xb.take_along_axis(x, np.array([[-1, -1, -1]]), axis=0)
    with xb.device("dev1"):
        other = xb.take_along_axis(x, np.array([[-1, -1, 0]]), axis=0)
    slope = xb.grad(xb.sum(xb.sin(one + 0.3)) + xb.sum(xb.sin(xb.prod(other, axis=1) + 0.3)), x)
    return (xb.grad(xb.sum(xb.sin(slope + 0.3)), x),)


def matrices(x: Any) -> Any:
    """Stacks of matrices: a framework without stacks concatenates single results."""
    definite = xb.matmul(x, xb.matrix_transpose(x)) + xb.asarray(np.diag([1.0, 2.0, 4.0]))
    made = [xb.linalg.cholesky(definite), xb.linalg.eigvalsh(definite), xb.linalg.qr(definite).R]
    with xb.device("dev1"):
        loss = sum(xb.sum(xb.sin(each + 0.3)) for each in (*made, xb.linalg.svdvals(definite)))
    return loss, xb.grad(loss, x)


@pytest.mark.shared_out
@pytest.mark.parametrize(
    ("function", "shape"),
    [(batches, (2, 3, 3)), (elements, (2, 3, 3)), (factors, (3,)), (places, (1, 3)), (matrices, (2, 3, 3))],
)
def test_a_gradient_knows_the_lengths_of_what_another_device_has(
    three: Backend, function: Callable[..., Any], shape: tuple[int, ...]
) -> None:
    x = np.linspace(0.1, 0.9, prod(shape)).reshape(shape)
    expected = three.compile(function, x, devices=ONE)(x)
    got = three.compile(function, x, devices=SPREAD)(x)
    for one, other in zip(got, expected, strict=True):
        check_equal(one, other, "array", CHAIN)


def test_what_depends_on_constants_only_is_folded_where_it_was_not_seen(three: Backend) -> None:
    def function(x: Any) -> Any:
        with xb.device("dev1"):
            return xb.concat([xb.zeros((100,))[:50], x])

    x = np.arange(3.0)
    run = three.compile(function, x, devices=SPREAD)
    np.testing.assert_array_equal(run(x), [0.0] * 50 + [0.0, 1.0, 2.0])
    records = {r.op: r for r in run.placement.ops}
    assert not [r for r in run.placement.ops if r.status == "not read"]
    for op in ("full", "slice"):
        # Fused: with options that disable folding, it is part of each stage that uses it.
        assert records[op].executed == "cpu:1" or records[op].status in ("folded", "fused", "nothing to read")
        constant = records[op].evidence.startswith("it depends on constants only: ")
        assert records[op].executed or constant or records[op].status == "nothing to read"


@pytest.mark.parametrize("devices", [ONE, SPREAD])
def test_where_lowering_or_a_rewrite_leaves_an_op_out_it_is_read_too(three: Backend, devices: str) -> None:
    """The product of a matrix and a vector is one of two matrices between changes of axes. Readers may look through
    these, and equal ops may be merged."""

    def function(x: Any, v: Any) -> Any:
        with xb.device("dev1"):
            twice = xb.tanh(x @ v * 0.5) + xb.exp(x @ v * 0.5)
            return twice, (v @ x)[None, :] * x, xb.reshape(xb.reshape(v, (1, 3)), (3, 1)) * x

    x, v = np.linspace(-1.0, 1.0, 9).reshape(3, 3), np.arange(3.0)
    run = three.compile(function, x, v, devices=devices)
    run(x, v)
    assert not run.placement.differences()
    # If it was left out for its own sake, and not merged, its replacement is there.
    assert {r.executed for r in run.placement.ops if r.op == "matmul"} <= {devices.split(",")[1][5:], None}


def test_a_fourth_device_is_not_there(three: Backend) -> None:
    with pytest.raises(DeviceUnavailable, match=r"cpu:3.*there is cpu:0, cpu:1, cpu:2.*virtual_devices=4"):
        three.compile(lambda x: xb.to_device(x, "cpu:3"), 1.0)
