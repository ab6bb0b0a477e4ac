"""Binding: every node gets a device, every crossing one transfer, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from random_programs import Case, programs
from tiers import share

import xbackend as xb
from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.devices import Device, DeviceMap
from xbackend.errors import DeviceUnavailable, SharedVariableError, UnboundDevice
from xbackend.program.binding import Placed, bind, renamed
from xbackend.program.ops import GENERATORS

CPU = [Device("cpu", i) for i in range(3)]
NAMES = ("dev0", "dev1", "dev2", "cpu:1")
SPEC = xb.ArraySpec((2,))
LINE = r"test_binding\.py:\d+"


def place(function: Any, *specs: Any, devices: str = "dev0=cpu:0,dev1=cpu:1,dev2=cpu:2", default: int = 0) -> Placed:
    return bind(xb.trace(function, *(specs or (SPEC,))), DeviceMap.parse(devices), CPU, CPU[default])


def listing(placed: Placed) -> list[str]:
    """``op@device`` of every node."""
    return [f"{n.op}@{d}" for n, d in zip(placed.program.values, placed.devices, strict=True)]


def test_an_op_runs_where_the_innermost_scope_says() -> None:
    def function(x: Any) -> Any:
        with xb.device("dev1"):
            a = xb.exp(x)
            with xb.device("/gpu:0"), xb.device("CPU:2"):
                b = xb.sin(a)
            return b, xb.cos(a)

    assert listing(place(function)) == [
        "input@cpu:1", "exp@cpu:1", "transfer@cpu:2", "sin@cpu:2", "cos@cpu:1"
    ]  # fmt: skip


def test_outside_of_scopes_an_op_runs_where_its_inputs_are_else_on_the_default_device() -> None:
    def function(x: Any, y: Any) -> Any:
        with xb.device("dev1"):
            a = xb.exp(x)
        with xb.device("dev2"):
            b = xb.exp(y)
        return a * 2.0, xb.sin(b), a + b

    assert listing(place(function, SPEC, SPEC)) == [
        "input@cpu:1", "input@cpu:2", "exp@cpu:1", "exp@cpu:2", "constant@cpu:1", "multiply@cpu:1", "sin@cpu:2",
        "transfer@cpu:0", "transfer@cpu:0", "add@cpu:0",
    ]  # fmt: skip


UNCHANGED: dict[str, Callable[[Any], Any]] = {
    "astype": lambda x: xb.astype(x, "float64"),
    "astype_without_copy": lambda x: xb.astype(x, "float64", copy=False),
    "asarray": xb.asarray,
    "positive": lambda x: +x,
    "real": xb.real,
    "reshape": lambda x: xb.reshape(x, (2, 2)),
    "broadcast_to": lambda x: xb.broadcast_to(x, (2, 2)),
    "broadcast_arrays": lambda x: xb.broadcast_arrays(x, x)[1],
    "squeeze": lambda x: xb.squeeze(x, axis=()),
    "index": lambda x: x[...],
    "slice": lambda x: x[:, :],
    "roll": lambda x: xb.roll(x, 0, axis=0),
    "flip": lambda x: xb.flip(x, axis=()),
    "clip": xb.clip,
    "diff": lambda x: xb.diff(x, n=0),
    "einsum": lambda x: xb.einsum("ij->ij", x),
    "matrix_power": lambda x: xb.linalg.matrix_power(x, 1),
    "round_of_integers": lambda x: xb.round(xb.astype(x, "int64")),
    "abs_of_unsigned": lambda x: xb.abs(xb.astype(x, "uint8")),
    "to_device": lambda x: xb.to_device(x, "dev1"),
}


@pytest.mark.parametrize("label", UNCHANGED)
@pytest.mark.parametrize("made", ["argument", "value", "constant"])
def test_what_changes_nothing_leaves_its_device_behind(label: str, made: str) -> None:
    """Ops after it, outside of the scope, run there."""

    def function(x: Any) -> Any:
        array = {"argument": x, "value": x * 2.0, "constant": xb.ones((2, 2))}[made]
        with xb.device("dev1"):
            same = UNCHANGED[label](array)
        return xb.exp(x), same * same

    placed = place(function, xb.ArraySpec((2, 2)))
    first, second = placed.program.outputs
    assert (placed.devices[first], placed.devices[second]) == (CPU[0] if made != "argument" else CPU[1], CPU[1])


@pytest.mark.parametrize("label", UNCHANGED)
def test_what_changes_nothing_where_it_is_leaves_nothing(label: str) -> None:
    def function(x: Any) -> Any:
        with xb.device("dev0"):
            return xb.square(UNCHANGED[label](xb.exp(x)))

    moves = label == "to_device"
    found = {n.op for n in place(function, xb.ArraySpec((2, 2))).program.values}
    assert found - {"astype"} == {"input", "exp", "square", *(["transfer"] if moves else [])}


def test_an_argument_that_nothing_uses_is_on_the_default_device() -> None:
    assert listing(place(lambda x, y: y, SPEC, SPEC, default=2)) == ["input@cpu:2", "input@cpu:2"]


def test_a_shared_variable_is_on_its_own_device_else_on_the_default_one() -> None:
    own, free = xb.shared(np.ones(2), device="dev1"), xb.shared(np.ones(2))

    def function() -> Any:
        with xb.device("dev2"):
            return own + free

    placed = bind(xb.trace(function), DeviceMap.parse("dev1=cpu:1,dev2=cpu:2"), CPU, CPU[0])
    assert listing(placed) == ["shared@cpu:1", "shared@cpu:0", "transfer@cpu:2", "transfer@cpu:2", "add@cpu:2"]
    assert {placed.devices[i].index: v for i, v in placed.program.shared.items()} == {1: own, 0: free}


def test_a_value_is_transferred_once_to_each_device_that_uses_it() -> None:
    def function(x: Any) -> Any:
        with xb.device("dev0"):
            a = xb.exp(x)
        with xb.device("dev1"):
            b, c = xb.sin(a), xb.cos(a) + a
        with xb.device("dev2"):
            d = a + a
        return b, c, d

    assert listing(place(function)).count("transfer@cpu:1") == 1
    assert listing(place(function)).count("transfer@cpu:2") == 1


def test_the_transfer_that_the_user_wrote_serves_all_uses_there() -> None:
    def function(x: Any) -> Any:
        with xb.device("dev0"):
            a = xb.exp(x)
        moved = xb.to_device(a, "dev1")
        with xb.device("dev1"):
            return moved + 1.0, xb.sin(a), xb.to_device(moved, "dev1"), xb.to_device(a, "cpu:1")

    placed = place(function)
    assert [d for d in listing(placed) if d.startswith("transfer")] == ["transfer@cpu:1"]
    (position,) = (i for i, n in enumerate(placed.program.values) if n.op == "transfer")
    assert placed.origin[position] is not None and placed.asked[position] == "dev1"


def test_a_value_goes_to_no_device_that_has_it_nor_twice_to_another() -> None:
    def function(x: Any) -> Any:
        with xb.device("dev0"):
            a = xb.exp(x)
        c = xb.to_device(a, "dev1")
        with xb.device("dev0"):
            back = xb.sin(c)
        with xb.device("dev2"):
            both = c + a
        with xb.device("dev1"):
            return back, both, xb.cos(c), xb.to_device(c, "dev0"), xb.to_device(xb.to_device(a, "dev2"), "dev1")

    placed = place(function)
    nodes = placed.program.values
    ways = [(str(placed.devices[n.inputs[0]]), n.device) for n in nodes if n.op == "transfer"]
    assert ways == [("cpu:0", "cpu:1"), ("cpu:1", "cpu:2")]
    (add,) = (n for n in nodes if n.op == "add")
    assert add.inputs[0] == add.inputs[1]
    assert [str(placed.devices[i]) for i in placed.program.outputs] == ["cpu:0", "cpu:2", "cpu:1", "cpu:0", "cpu:1"]


def test_an_inserted_transfer_stands_for_no_node_and_names_the_line_that_needs_it() -> None:
    def function(x: Any) -> Any:
        with xb.device("dev0"):
            a = xb.exp(x)
        with xb.device("dev1"):
            return xb.sin(a)

    placed = place(function)
    (position,) = (i for i, n in enumerate(placed.program.values) if n.op == "transfer")
    assert placed.origin[position] is None and placed.asked[position] is None
    assert placed.program.values[position].source == placed.program.values[position + 1].source


def test_arrays_made_of_nothing_are_made_where_they_are_used() -> None:
    def function(x: Any) -> Any:
        c = xb.asarray(np.array([1.0, 2.0]))
        with xb.device("dev1"):
            a = x + c
        with xb.device("dev2"):
            return a * c + xb.to_device(c, "dev2")

    names = listing(place(function))
    assert names.count("constant@cpu:1") == names.count("constant@cpu:2") == 1
    assert [n for n in names if n.startswith("transfer")] == ["transfer@cpu:2"]


def test_a_gradient_lives_where_its_array_lives() -> None:
    w = xb.shared(np.ones(2), name="w", device="dev1")

    def function(x: Any) -> Any:
        with xb.device("dev0"):
            y = xb.exp(x)
        with xb.device("dev2"):
            loss = xb.sum(y * w)
            return xb.grad(loss, [x, y, w])

    placed = place(function)
    gradients = [(n, d) for n, d in zip(placed.program.values, placed.devices, strict=True) if n.op == "grad"]
    assert [d for _, d in gradients] == [CPU[0], CPU[0], CPU[1]]
    for node, device in gradients:
        assert placed.devices[node.wrt] == device
        assert placed.devices[node.inputs[0]] == CPU[2]
    assert placed.program.values[gradients[2][0].wrt].op == "shared"
    assert len({id(node.node) for node, _ in gradients}) == 1


def test_a_gradient_with_respect_to_the_loss_itself_is_one() -> None:
    backend = registry.get("numpy").load()
    assert backend.compile(lambda x: xb.grad(x, x), 3.0)(4.0) == 1.0
    c = backend.compile(lambda x: xb.grad(c := xb.asarray(2.0) * 1.0, c), 3.0)
    assert c(1.0) == 1.0


def test_a_constant_that_a_gradient_is_taken_of_is_one_array_wherever_it_is_used() -> None:
    def function(x: Any) -> Any:
        c = xb.asarray(np.array([1.0, 2.0]))
        with xb.device("dev1"):
            left = xb.sum(c * x)
        with xb.device("dev2"):
            right = xb.sum(c * x * 10.0)
        return xb.grad(left + right, c)

    x = np.array([3.0, 5.0])
    with registry.get("numpy").load(Settings(virtual_devices=3)) as backend:
        for devices in ("dev1=cpu:1,dev2=cpu:2", "dev1=cpu:0,dev2=cpu:0"):
            np.testing.assert_allclose(backend.compile(function, x, devices=devices)(x), 11 * x)


def test_a_transfer_that_a_gradient_is_taken_of_is_no_other_copy() -> None:
    def function(x: Any) -> Any:
        with xb.device("dev0"):
            y = xb.exp(x)
        moved = xb.to_device(y, "dev1")
        with xb.device("dev1"):
            loss = xb.sum(moved * 2.0) + xb.sum(y * 100.0)
        return xb.grad(loss, [moved, y])

    x = np.array([3.0, 5.0])
    with registry.get("numpy").load(Settings(virtual_devices=3)) as backend:
        for devices in ("dev0=cpu:1,dev1=cpu:2", "dev0=cpu:0,dev1=cpu:0"):
            moved, y = backend.compile(function, x, devices=devices)(x)
            np.testing.assert_allclose(moved, [2.0, 2.0])
            np.testing.assert_allclose(y, [102.0, 102.0])


def test_a_logical_name_without_a_binding_names_the_line() -> None:
    def function(x: Any) -> Any:
        with xb.device("dev9"):
            return xb.exp(x)

    with pytest.raises(UnboundDevice, match=rf"'dev9' is not bound \(asked for at .*{LINE}\)"):
        place(function)


def test_a_device_that_is_not_there_names_the_line_and_the_devices() -> None:
    def function(x: Any) -> Any:
        with xb.device("gpu:4"):
            return xb.exp(x)

    with pytest.raises(DeviceUnavailable, match=rf"gpu:4 \(asked for at .*{LINE}\); there is cpu:0, cpu:1, cpu:2"):
        place(function)
    with pytest.raises(DeviceUnavailable, match="dev0=gpu:7"):
        place(lambda x: xb.to_device(x, "dev0"), devices="dev0=gpu:7")


def test_a_generator_asks_for_its_device_too() -> None:
    def function(x: Any) -> Any:
        with xb.device("gpu:4"):
            c = xb.ones((2,))
        return x + c

    with pytest.raises(DeviceUnavailable, match="gpu:4"):
        place(function)


def test_a_shared_variable_on_two_devices_is_refused() -> None:
    w = xb.shared(np.ones(2), name="w", device="dev0")
    with registry.get("numpy").load(Settings(virtual_devices=2)) as backend:
        backend.compile(lambda: w * 2.0, devices="dev0=cpu:0")
        with pytest.raises(SharedVariableError, match=r"shared w.*lives on cpu:0.*also live on cpu:1"):
            backend.compile(lambda: w * 2.0, devices="dev0=cpu:1")
        backend.compile(lambda: w * 3.0, devices="dev0=cpu:0")


def test_results_of_an_all_reduce_on_one_device_share_a_transfer_and_no_identity() -> None:
    def function(x: Any, y: Any) -> Any:
        terms = []
        for number, name in enumerate(("dev0", "dev1", "dev1")):
            with xb.device(name):
                terms.append((y if number else x) * float(number + 1))
        reduced = xb.all_reduce(terms)
        return reduced[0], reduced[1], xb.grad(xb.sum(reduced[1] * reduced[2]), reduced[1])

    placed = place(function, np.ones(2), np.ones(2), devices="dev0=cpu:0,dev1=cpu:1")
    assert len([n for n in placed.reducing if placed.devices[n] == CPU[1]]) == 1
    first, second = placed.program.outputs[1], placed.program.values[placed.program.outputs[2]].inputs[1]
    assert first == second and placed.program.values[first].op == "reshape"


def test_a_result_of_an_all_reduce_goes_on_from_where_its_sum_is() -> None:
    def function(x: Any, y: Any) -> Any:
        with xb.device("dev0"):
            first = xb.exp(x)
        with xb.device("dev1"):
            second = xb.exp(y)
        _, total = xb.all_reduce([first, second])
        with xb.device("dev0"):
            back = xb.sin(total)
        with xb.device("dev2"):
            return back, xb.cos(total), xb.tan(total)

    placed = place(function, np.ones(2), np.ones(2), devices="dev0=cpu:0,dev1=cpu:1,dev2=cpu:2")
    nodes = placed.program.values
    ways = [(str(placed.devices[n.inputs[0]]), n.device, n.inputs[0]) for n in nodes if n.op == "transfer"]
    (total,) = (i for i, n in enumerate(nodes) if n.op == "add")
    assert [way for way in ways if way[2] == total] == [("cpu:0", "cpu:1", total), ("cpu:0", "cpu:2", total)]
    assert not any(way[:2] == ("cpu:1", "cpu:2") for way in ways)


def test_a_weighted_mean_across_tasks_is_divided_where_its_sum_is() -> None:
    def mean(x: Any) -> Any:
        return xb.all_reduce([xb.to_device(x, "dev1")], weights=[3.0], across=SimpleNamespace(count=2))

    placed = place(mean, xb.ArraySpec((4,)))
    assert {value.device for value in placed.program.values if value.op in ("full", "divide")} == {"cpu:1"}


BINDINGS = st.fixed_dictionaries({name: st.sampled_from(CPU) for name in NAMES if name.startswith("dev")})


@settings(max_examples=share(300))
@given(programs(NAMES, grads=True), BINDINGS, st.sampled_from(CPU))
def test_every_input_of_an_op_is_on_the_ops_device(case: Case, bindings: dict[str, Device], default: Device) -> None:
    placed = bind(case.program, DeviceMap(bindings), CPU, default)
    nodes = placed.program.values
    seen: set[tuple[int, Device]] = set()
    for i, node in enumerate(nodes):
        assert node.device == str(placed.devices[i])
        assert all(j < i for j in node.inputs)
        if node.op == "grad":
            assert placed.devices[node.wrt] == placed.devices[i]
        elif node.op == "transfer":
            if placed.origin[i] is None:
                assert placed.devices[node.inputs[0]] != placed.devices[i]
                assert nodes[node.inputs[0]].op not in GENERATORS or node.inputs[0] in targets(placed)
            if i not in targets(placed):
                value = node.inputs[0]
                while nodes[value].op == "transfer" and value not in targets(placed):
                    (value,) = nodes[value].inputs
                assert placed.devices[value] != placed.devices[i], "transferred to where it is"
                assert (value, placed.devices[i]) not in seen, "transferred twice"
                seen.add((value, placed.devices[i]))
        else:
            assert {placed.devices[j] for j in node.inputs} <= {placed.devices[i]}, f"{node.op} misses a transfer"
    for target, expression in placed.program.updates.items():
        assert placed.devices[target] == placed.devices[expression]
    traced = case.program.values
    assert [nodes[i].aval for i in placed.program.inputs] == [traced[i].aval for i in case.program.inputs]
    assert [nodes[i].aval for i in placed.program.outputs] == [traced[i].aval for i in case.program.outputs]


def targets(placed: Placed) -> set[int]:
    return {i for n in placed.program.nodes if n.op == "grad" for i in n.inputs[1:]}


@settings(max_examples=share(200))
@given(programs(NAMES, grads=True), BINDINGS)
def test_an_op_is_where_its_scope_asked_for(case: Case, bindings: dict[str, Device]) -> None:
    placed = bind(case.program, DeviceMap(bindings), CPU, CPU[0])
    for node, device, origin in zip(placed.program.values, placed.devices, placed.origin, strict=True):
        traced = case.program.values[origin] if origin is not None else node
        if traced.device is not None and traced.op not in ("grad", "all_reduce") and node.op not in GENERATORS:
            assert device == DeviceMap(bindings).resolve(traced.device, CPU)


@settings(max_examples=share(150))
@given(programs(NAMES), BINDINGS)
def test_the_devices_change_no_bit_and_one_device_needs_no_transfer(case: Case, bindings: dict[str, Device]) -> None:
    one = dict.fromkeys(bindings, "cpu:1")
    results, state = [], []
    for devices in (one, bindings):
        with registry.get("numpy").load(Settings(virtual_devices=3)) as backend:
            run = backend.compile(case.program, devices=devices)
            results.append(repr(run(*case.arguments)))
            state.append([repr(backend.get_value(w)) for w in case.shared])
    assert results[0] == results[1] and state[0] == state[1]
    alone = bind(case.program, DeviceMap(one), CPU[1:2], CPU[1])
    assert not [i for i, n in enumerate(alone.program.values) if n.op == "transfer" and alone.origin[i] is None]


def test_every_crossing_has_a_record_with_its_bytes() -> None:
    def function(x: Any) -> Any:
        with xb.device("dev0"):
            a = xb.exp(x)
        with xb.device("dev1"):
            return xb.sin(a) + 1.0

    with registry.get("numpy").load(Settings(virtual_devices=2)) as backend:
        run = backend.compile(function, SPEC, devices="dev0=cpu:0,dev1=cpu:1")
        run(np.ones(2))
        (record,) = run.placement.transfers
        assert (record.source, record.target, record.bytes, record.cause) == ("cpu:0", "cpu:1", 16, "crossing")
        by_op = {r.op: (r.asked, r.bound, r.executed, r.status) for r in run.placement.ops}
        assert by_op["exp"] == ("dev0", "cpu:0", None, "nothing to read")
        assert by_op["sin"] == ("dev1", "cpu:1", None, "nothing to read")


def test_names_of_a_traced_program_are_replaced_by_what_is_bound_to_them() -> None:
    def function(x: Any) -> Any:
        with xb.device("dev0"):
            first = xb.scan(lambda c, i: (c * 2.0, c), x, xb.arange(3))[0]
        with xb.device("gpu:1"):
            return xb.sin(first) + x

    program = xb.trace(function, np.ones(2))
    other = renamed(program, DeviceMap({"dev0": "cpu:0", "/gpu:1": "cpu:1"}))
    assert set(program.logical_devices) == {"dev0"}
    assert {node.device for node in other.nodes} == {None, "cpu:0", "cpu:1"}
    assert not other.logical_devices and renamed(program, DeviceMap()) == program
