"""Where TensorFlow and NumPy ran each op, and what they transferred, as read from them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import placement_plants
import pytest
from placement_programs import ONE, PROGRAMS, SPREAD, A, B, executed, network, same_product_twice, unary_ops

import xbackend as xb
from xbackend import environments
from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.errors import ArgumentError, ComputationError, PlacementError, UnsupportedOperation
from xbackend.workers.remote import RemoteBackend

pytestmark = pytest.mark.tier("standard")

TENSORFLOW = [n for n in registry.names() if registry.get(n).environment == "tensorflow"]
XLA = [n for n in TENSORFLOW if n.endswith("xla")]


def worker(name: str, **settings: Any) -> RemoteBackend:
    if environments.get(registry.get(name).environment).state != "ready":
        environments.sync(registry.get(name).environment)
    modules = {"placement_plants": placement_plants.__file__}
    return RemoteBackend(name, Settings(**settings), modules=modules, limit=120.0)


@pytest.fixture(scope="module", params=[*TENSORFLOW, "numpy"])
def backend(request: pytest.FixtureRequest) -> Iterator[RemoteBackend]:
    with worker(request.param, virtual_devices=3) as found:
        yield found


@pytest.fixture
def plant(backend: RemoteBackend) -> Iterator[Callable[..., Any]]:
    """Plant a wrong placement in the backend for one test."""
    yield lambda name, *arguments: backend.call(f"placement_plants:{name}", *arguments)
    backend.call("placement_plants:clean")


# Transfers


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_transfer_is_recorded_once_with_its_cause(backend: RemoteBackend, program: str) -> None:
    function, arguments = PROGRAMS[program]()
    run = executed(backend.compile(function, *arguments, devices=SPREAD), *arguments)
    nodes, devices = run.program.values, run.placed.devices
    asked = {i: (str(devices[n.inputs[0]]), str(devices[i])) for i, n in enumerate(nodes) if n.op == "transfer"}
    of_program = [t for t in run.placement.transfers if t.node is not None]
    assert {t.node: (t.source, t.target) for t in of_program} == asked
    assert len(of_program) == len(asked)
    for t in of_program:
        assert t.node is not None and t.bytes == nodes[t.node].aval.nbytes
        assert t.cause == ("crossing" if run.placed.origin[t.node] is None else "program")
        assert t.framework_op and t.evidence
    others = [t for t in run.placement.transfers if t.node is None]
    assert {t.cause for t in others} <= {"gradient"}
    found = sorted((t.source, t.target, t.bytes) for t in others)
    hidden, loss = 5 * 4 * 8, 5 * 2 * 8
    cotangents = {
        "P2": [],
        "network": [("cpu:0", "cpu:2", loss), ("cpu:2", "cpu:1", hidden)],
        "powers": [("cpu:0", "cpu:1", 72), ("cpu:0", "cpu:2", 72)],
    }
    assert found == cotangents[program]


def test_the_same_program_on_one_device_transfers_nothing(backend: RemoteBackend) -> None:
    function, arguments = PROGRAMS["powers"]()
    run = executed(backend.compile(function, *arguments, devices=ONE), *arguments)
    assert run.placement.transfers == ()
    assert {r.executed for r in run.placement.ops} <= {"cpu:1", None}


def test_two_transfers_of_one_value_to_one_device_are_one(backend: RemoteBackend) -> None:
    def function(x: Any) -> Any:
        with xb.device("dev0"):
            y = x * 2.0
        copy = xb.to_device(y, "dev1")
        with xb.device("dev1"):
            loss = xb.sum(copy * 3.0) + xb.sum(y * 5.0)
        return loss, *xb.grad(loss, [copy, y])

    x = np.ones(4)
    run = backend.compile(function, x, devices=SPREAD)
    np.testing.assert_array_equal(run(x)[2], [8.0] * 4)
    transfers = [i for i, n in enumerate(run.program.values) if n.op == "transfer"]
    records = {r.node: r for r in run.placement.ops if r.node in transfers}
    made = [t.node for t in run.placement.transfers if t.node is not None]
    assert made and sorted(made) == [i for i in transfers if records[i].status != "fused"]
    for i in set(transfers) - set(made):
        assert records[i].status == "fused" and "came with the transfer of node" in records[i].evidence
        assert records[i].executed == "cpu:1"


GRAPH = ["tensorflow"]


@pytest.mark.parametrize("backend", GRAPH, indirect=True)
def test_waiting_for_another_device_is_no_transfer(backend: RemoteBackend) -> None:
    found = backend.call("placement_plants:waiting_between_devices")
    assert [tuple(row) for row in found] == [("cpu:0", "cpu:2", 4)]


def test_integers_are_where_they_were_put(backend: RemoteBackend) -> None:
    x = np.arange(3, dtype=np.int32)
    value = backend.put(x, backend.devices[1])
    assert str(backend.device_of(value)) == "cpu:1"

    def function(x: Any) -> Any:
        with xb.device("dev1"):
            return x + 1

    run = backend.compile(function, x, devices=SPREAD)
    np.testing.assert_array_equal(run(x), x + 1)
    assert run.placement.transfers == ()


@pytest.mark.parametrize("backend", ["tensorflow", "tensorflow-eager"], indirect=True)
def test_an_array_that_no_memory_holds_is_refused_at_once(backend: RemoteBackend) -> None:
    for function in (lambda x: xb.sum(xb.ones(10**12)) + x, lambda x: xb.sum(xb.broadcast_to(x, (10**12, 1)))):
        with pytest.raises(ArgumentError, match=r"(full|broadcast_to) float64\[.*GiB of memory, and there are"):
            backend.compile(function, np.ones(1))


# Where ops run


@pytest.mark.parametrize("backend", TENSORFLOW, indirect=True)
def test_ops_on_two_devices_are_not_merged(backend: RemoteBackend) -> None:
    x = np.linspace(0.0, 1.0, 5)
    run = backend.compile(unary_ops, x, devices=SPREAD)
    np.testing.assert_allclose(run(x), np.tanh(np.cos(x)), rtol=1e-12)
    assert [(r.op, r.executed) for r in run.placement.ops] == [
        ("cos", "cpu:1"),
        ("transfer", "cpu:0"),
        ("tanh", "cpu:0"),
    ]
    assert [t.cause for t in run.placement.transfers] == ["crossing"]


@pytest.mark.parametrize("backend", GRAPH, indirect=True)
def test_ops_that_the_optimiser_merges_on_one_device_are_shown(backend: RemoteBackend) -> None:
    def function(x: Any) -> Any:
        with xb.device("dev1"):
            found = xb.sin(xb.cos(x))
        with xb.device("dev0"):
            return found * 2.0

    x = np.linspace(0.0, 1.0, 5)
    run = executed(backend.compile(function, x, devices=SPREAD), x)
    found = {r.op: (r.executed, r.status, r.framework_op) for r in run.placement.ops}
    assert found["cos"] == found["sin"] == ("cpu:1", "fused", "_UnaryOpsComposition")
    # The sent value has a name that only the optimiser knows.
    (made,) = run.placement.transfers
    assert (made.cause, made.bytes, made.source, made.target) == ("crossing", 40, "cpu:1", "cpu:0")


def chosen(total: Any, x: Any) -> Any:
    return xb.cond(total > 1.0, lambda a: xb.exp(-xb.square(a)), lambda a: a * 3.0, x)


def summed(total: Any, x: Any) -> Any:
    return xb.scan(lambda c, a: (c + xb.exp(-xb.square(a)), c), total, x)


@pytest.mark.parametrize("backend", GRAPH, indirect=True)
@pytest.mark.parametrize("function", [chosen, summed])
def test_ops_that_the_optimiser_merges_in_a_body_are_none_of_what_it_takes(
    backend: RemoteBackend, function: Callable[[Any, Any], Any]
) -> None:
    def across(x: Any) -> Any:
        with xb.device("dev1"):
            total = xb.sum(x)
        with xb.device("dev0"):
            return function(total, x)

    run = executed(backend.compile(across, np.ones(3), devices=SPREAD), np.ones(3))
    found = {r.op: (r.executed, r.status, r.framework_op) for r in run.placement.ops}
    assert found["sum"] == ("cpu:1", "as asked", "Sum")
    (body,) = found.keys() & {"cond", "scan"}
    assert found[body][:2] == ("cpu:0", "as asked") and found[body][2].endswith(f" ops of {body}")


@pytest.mark.parametrize("backend", GRAPH, indirect=True)
def test_ops_that_the_optimiser_merges_across_devices_are_shown(
    backend: RemoteBackend, plant: Callable[..., Any]
) -> None:
    plant("let_merge_across_devices")
    x = np.linspace(0.0, 1.0, 5)
    with pytest.raises(PlacementError, match=r"cos \(node \d+, \S+:\d+\) asked for dev1 = cpu:1, ran on cpu:0"):
        backend.compile(unary_ops, x, devices=SPREAD)(x)
    run = executed(backend.compile(unary_ops, x, devices=SPREAD, placement="soft"), x)
    found = {r.op: (r.executed, r.status, r.framework_op) for r in run.placement.ops}
    assert found["cos"] == ("cpu:0", "moved", "_UnaryOpsComposition")
    assert found["tanh"] == ("cpu:0", "fused", "_UnaryOpsComposition")


def test_gradients_of_gradients_go_back_and_forth(backend: RemoteBackend) -> None:
    def function(x: Any) -> Any:
        with xb.device("dev1"):
            cube = x * x * x
        with xb.device("dev2"):
            loss = xb.sum(cube * cube)
        first = xb.grad(loss, x)
        with xb.device("dev0"):
            again = xb.sum(xb.sin(first))
        return first, xb.grad(again, x)

    x = np.array([0.5, 0.7])
    run = backend.compile(function, x, devices=SPREAD)
    first, second = run(x)
    np.testing.assert_allclose(first, 6 * x**5, rtol=1e-12)
    np.testing.assert_allclose(second, np.cos(6 * x**5) * 30 * x**4, rtol=1e-12)
    assert not [r for r in run.placement.ops if r.status == "moved"]
    ways = {(t.source, t.target) for t in run.placement.transfers if t.cause == "gradient"}
    assert {("cpu:2", "cpu:1"), ("cpu:0", "cpu:1")} <= ways
    assert not [t for t in run.placement.transfers if t.cause == "framework"]


@pytest.mark.parametrize("backend", TENSORFLOW, indirect=True)
def test_equal_products_on_two_devices_stay_two(backend: RemoteBackend) -> None:
    run = backend.compile(same_product_twice, A, B, devices=SPREAD)
    np.testing.assert_array_equal(run(A, B), [[44, 56], [98, 128]])
    products = [r for r in run.placement.ops if r.op == "matmul"]
    assert [r.executed for r in products] == ["cpu:1", "cpu:2"]
    (total,) = (r for r in run.placement.ops if r.op == "add")
    assert total.executed == "cpu:0"
    assert {r.status for r in products} == {"fused" if backend.name in XLA else "as asked"}


def test_what_is_folded_is_shown_as_folded_on_its_device(backend: RemoteBackend) -> None:
    def function(x: Any) -> Any:
        with xb.device("dev1"):
            c = xb.ones((2, 2)) @ xb.ones((2, 2))
        with xb.device("dev2"):
            return x + c

    x = np.zeros((2, 2))
    run = backend.compile(function, x, devices=SPREAD)
    np.testing.assert_array_equal(run(x), np.full((2, 2), 2.0))
    (product,) = (r for r in run.placement.ops if r.op == "matmul")
    # TensorFlow optimises a graph before execution, XLA folds within its computation, the others obey.
    known = {"tensorflow": "folded", "tensorflow-xla": "fused", "numpy": "nothing to read"}
    assert product.status == known.get(backend.name, "as asked")
    assert product.executed in ("cpu:1", None)


def _in_a_branch(w: Any, p: Any) -> Any:
    return xb.cond(p, lambda: xb.scan(lambda c, _: (c * w, None), w, length=2)[0], lambda: w * 1.0)


def _branch_elsewhere(w: Any, p: Any) -> Any:
    with xb.device("cpu:1"):
        x = xb.sin(w)
        chosen = xb.cond(p, lambda: xb.sin(x) * x * x * xb.exp(x), lambda: x * 1.0)
    return xb.to_device(chosen, "cpu:0") * w


def _loop_elsewhere(w: Any, p: Any) -> Any:
    with xb.device("cpu:1"):
        return xb.scan(lambda c, _: (c * w, None), w, length=2)[0]


@pytest.mark.parametrize("backend", XLA, indirect=True)
@pytest.mark.parametrize("inner", [_in_a_branch, _branch_elsewhere, _loop_elsewhere])
def test_a_gradient_for_which_xla_keeps_too_little_is_refused_with_its_line(backend: RemoteBackend, inner: Any) -> None:
    w, p = np.array([1.5, 2.0]), np.True_
    said = rf"the gradient of xb\.(cond|scan) \(at {__file__}:\d+\) needs; take tensorflow or tensorflow-eager$"
    with pytest.raises(UnsupportedOperation, match=said):
        backend.compile(lambda w, p: xb.grad(xb.sum(inner(w, p)), w), w, p)
    # As long as nothing needs what a branch computed, its gradient is there.
    run = backend.compile(lambda w, p: (inner(w, p), xb.grad(xb.sum(xb.cond(p, lambda: w * 3.0, lambda: w)), w)), w, p)
    np.testing.assert_allclose(run(w, p)[1], [3.0, 3.0])


@pytest.mark.parametrize("backend", XLA, indirect=True)
def test_xla_compiles_for_each_device(backend: RemoteBackend) -> None:
    function, arguments = PROGRAMS["powers"]()
    run = executed(backend.compile(function, *arguments, devices=SPREAD), *arguments)
    computations: dict[str, set[str | None]] = {}
    for r in run.placement.ops:
        if r.op not in ("transfer", "grad"):
            assert r.framework_op.startswith("XLA computation ") and r.status == "fused"
            computations.setdefault(r.framework_op, set()).add(r.executed)
    # The sum is transferred early, and does not wait for the loss.
    assert sorted(computations.values(), key=str) == [{"cpu:0"}, {"cpu:0"}, {"cpu:1"}, {"cpu:2"}]


@pytest.mark.parametrize("backend", TENSORFLOW, indirect=True)
def test_updates_happen_on_the_devices_of_their_variables(backend: RemoteBackend) -> None:
    step, arguments, variables = network()
    run = backend.compile(step, *arguments, devices=SPREAD)
    losses = [float(run(*arguments)) for _ in range(3)]
    assert losses[0] > losses[1] > losses[2]
    assert not [r for r in run.placement.ops if r.status == "moved"]
    grads = [r for r in run.placement.ops if r.op == "grad"]
    assert [r.executed for r in grads] == ["cpu:1", "cpu:2"]
    assert all(backend.get_value(w).shape == w.shape for w in variables)


# Planted


@pytest.mark.parametrize("backend", TENSORFLOW, indirect=True)
def test_an_op_on_another_device_than_bound_is_caught(backend: RemoteBackend, plant: Callable[..., Any]) -> None:
    plant("misplace", "matmul", "cpu:2")
    with pytest.raises(PlacementError, match=r"matmul \(node \d+, \S+:\d+\) asked for dev1 = cpu:1, ran on cpu:2"):
        backend.compile(same_product_twice, A, B, devices=SPREAD)(A, B)
    run = backend.compile(same_product_twice, A, B, devices=SPREAD, placement="soft")
    np.testing.assert_array_equal(run(A, B), [[44, 56], [98, 128]])
    first, second = (r for r in run.placement.ops if r.op == "matmul")
    assert (first.bound, first.executed, first.status) == ("cpu:1", "cpu:2", "moved")
    assert (second.executed, second.status) != ("cpu:1", "moved")
    assert {t.cause for t in run.placement.transfers} <= {"crossing", "framework"}


@pytest.mark.parametrize("backend", TENSORFLOW, indirect=True)
def test_a_program_on_one_device_that_runs_on_another_is_caught(
    backend: RemoteBackend, plant: Callable[..., Any]
) -> None:
    plant(*(("launch_on",) if backend.name in XLA else ("misplace", "multiply")), "cpu:2")

    def function(x: Any) -> Any:
        with xb.device("dev1"):
            return x * 3.0

    x = np.ones(2)
    strict = backend.compile(function, x, devices=SPREAD)
    for _ in range(2):  # each time
        with pytest.raises(PlacementError, match="ran on cpu:2"):
            strict(x)
    run = backend.compile(function, x, devices=SPREAD, placement="soft")
    np.testing.assert_array_equal(run(x), [3.0, 3.0])
    assert "cpu:2" in {r.executed for r in run.placement.ops if r.status == "moved"}


@pytest.mark.parametrize("backend", TENSORFLOW, indirect=True)
def test_a_first_call_without_a_result_leaves_the_placement_to_the_next(backend: RemoteBackend) -> None:
    def function(x: Any) -> Any:
        with xb.device("dev1"):
            inverse = xb.linalg.inv(x)
        return inverse * 2.0

    run = backend.compile(function, np.eye(3), devices=SPREAD)
    with contextlib.suppress(ComputationError):
        run(np.zeros((3, 3)))
    run(np.eye(3))
    assert [(r.op, r.executed) for r in run.placement.ops if r.op == "inv"] == [("inv", "cpu:1")]
    assert not [r for r in run.placement.ops if r.status == "not read"]


@pytest.mark.parametrize("backend", ["numpy"], indirect=True)
def test_numpy_refuses_a_value_of_another_device(backend: RemoteBackend, plant: Callable[..., Any]) -> None:
    plant("misplace_in_numpy", "matmul", "cpu:2")
    for placement in ("strict", "soft"):
        with pytest.raises(PlacementError, match="a transfer is missing"):
            backend.compile(same_product_twice, A, B, devices=SPREAD, placement=placement)(A, B)


@pytest.mark.parametrize("backend", TENSORFLOW, indirect=True)
def test_a_backward_op_away_from_its_forward_op_is_caught(backend: RemoteBackend, plant: Callable[..., Any]) -> None:
    function, arguments = PROGRAMS["powers"]()
    run = executed(backend.compile(function, *arguments, devices=SPREAD), *arguments)
    assert {r.status for r in run.placement.ops if r.op == "grad"} == {"as asked"}
    plant("scatter_gradients")
    with pytest.raises(PlacementError, match=r"backward op .* bound to cpu"):
        backend.compile(function, *arguments, devices=SPREAD)(*arguments)
    run = executed(backend.compile(function, *arguments, devices=SPREAD, placement="soft"), *arguments)
    moved = [r for r in run.placement.backward if r.status == "moved"]
    assert moved and all(r.executed != r.bound for r in moved)


# What the devices did when


def test_a_profile_has_the_spans_of_each_device(backend: RemoteBackend) -> None:
    step, arguments, (w1, _) = network()
    run = backend.compile(step, *arguments, devices=SPREAD)
    values = run.put(*arguments)
    before = backend.get_value(w1)
    spans = run.profile(*values).spans  # the first execution
    between = backend.get_value(w1)
    assert not np.array_equal(before, between)
    spans = run.profile(*values).spans
    assert not np.array_equal(between, backend.get_value(w1))
    assert {str(s.device) for s in spans if s.kind == "compute"} == {"cpu:0", "cpu:1", "cpu:2"}
    assert {s.kind for s in spans} == {"compute", "transfer"}
    assert all(0 <= s.start <= s.end < 60 and s.what for s in spans)
    asked = [t for t in run.placement.transfers if t.node is not None]
    found = [(f"{t.source} to {t.target}", t.target) for t in asked]
    assert {(s.what, str(s.device)) for s in spans if s.kind == "transfer"} >= set(found)
    run(*arguments)
    assert len(run.placement.transfers) == len(asked) + 2


def test_a_program_on_one_device_has_a_profile_too(backend: RemoteBackend) -> None:
    run = backend.compile(same_product_twice, A, B, devices=ONE)
    values = run.put(A, B)
    run.execute(*values)
    spans = run.profile(*values).spans
    assert {(str(s.device), s.kind) for s in spans} == {("cpu:1", "compute")}


# Visible devices


@pytest.mark.parametrize("name", TENSORFLOW)
def test_only_the_visible_of_the_virtual_devices_are_used(name: str) -> None:
    with worker(name, virtual_devices=3, visible=("cpu:2", "cpu:1")) as backend:
        assert {str(d) for d in backend.devices} == {"cpu:1", "cpu:2"}
        assert str(backend.default_device) == "cpu:1"
        function, arguments = PROGRAMS["powers"]()
        run = executed(backend.compile(function, *arguments, devices="dev0=cpu:2,dev1=cpu:1,dev2=cpu:2"), *arguments)
        assert {r.executed for r in run.placement.ops} <= {"cpu:1", "cpu:2", None}
        assert {d for t in run.placement.transfers for d in (t.source, t.target)} == {"cpu:1", "cpu:2"}
        with pytest.raises(xb.errors.DeviceUnavailable, match="cpu:0"):
            backend.compile(function, *arguments, devices=SPREAD)
