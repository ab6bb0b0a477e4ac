"""Replicas on JAX are one program over a mesh of their devices: what it computes, where, and whose memory it takes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import placement_plants
import pytest

import xbackend as xb
from xbackend import environments
from xbackend.backends.contract import Settings
from xbackend.backends.jax import devices
from xbackend.backends.jax.over_mesh import MeshArray, SharedCell
from xbackend.devices import Device
from xbackend.errors import PlacementError, SharedVariableError, WorkerError
from xbackend.program.dtypes import DType
from xbackend.strategies import Mirrored
from xbackend.training import SGD, layers
from xbackend.workers.remote import RemoteBackend

pytestmark = pytest.mark.tier("standard")

PLACES = ("cpu:0", "cpu:1", "cpu:2")
X = np.linspace(-1.0, 1.0, 24).reshape(6, 4)
LABELS = np.array([0, 1, 1, 0, 1, 0])
START = {"w": np.linspace(-0.5, 0.5, 8).reshape(4, 2), "b": np.zeros(2)}
ONE = "one program of 3 replicas"


@pytest.fixture(scope="module")
def backend() -> Iterator[RemoteBackend]:
    if environments.get("jax").state != "ready":
        environments.sync("jax")
    modules = {"placement_plants": placement_plants.__file__}
    with RemoteBackend("jax", Settings(virtual_devices=3), modules=modules, limit=120.0) as found:
        yield found


@pytest.fixture
def plant(backend: RemoteBackend) -> Iterator[Callable[..., Any]]:
    """Plant a fault in the backend for one test."""
    yield lambda name, *arguments: backend.call(f"placement_plants:{name}", *arguments)
    backend.call("placement_plants:clean")


def loss(weights: Any, x: Any, labels: Any) -> Any:
    return layers.cross_entropy(xb.tanh(layers.dense(x, weights["w"], weights["b"])), labels)


def mirrored(backend: Any) -> tuple[Any, Any]:
    """A compiled step and its variables."""
    strategy = Mirrored(PLACES)
    copies = strategy.variables(START, SGD(0.25, momentum=0.5))
    return backend.compile(strategy.step(loss, copies, SGD(0.25, momentum=0.5)), X, LABELS), copies


def evidence(run: Any) -> set[str]:
    return {r.evidence.split(",")[0] for r in run.placement.ops if r.status == "as asked"}


def test_a_mirrored_step_is_one_program_on_the_devices_asked_for(backend: RemoteBackend) -> None:
    run, _ = mirrored(backend)
    run(X, LABELS)
    assert evidence(run) == {ONE}
    assert run.placement.as_asked and run.placement.backward
    assert {r.executed for r in run.placement.ops if r.op == "tanh"} == {*PLACES}
    assert {r.executed for r in run.placement.backward if r.status == "as asked"} == {*PLACES}
    nodes = run.program.values
    made = {t.node: (t.source, t.target, t.bytes) for t in run.placement.transfers}
    assert made == {
        i: (nodes[n.inputs[0]].device, n.device, n.aval.nbytes) for i, n in enumerate(nodes) if n.op == "transfer"
    }
    values = run.execute(*run.put(X, LABELS))
    assert tuple(map(backend.device_of, values)) == run.output_devices
    spans = run.profile(*run.put(X, LABELS)).spans
    assert {str(span.device) for span in spans} == {*PLACES}


def test_a_part_on_another_device_is_an_error(backend: RemoteBackend, plant: Callable[..., Any]) -> None:
    plant("misread_replicas", "cpu:1")
    run, _ = mirrored(backend)
    with pytest.raises(PlacementError, match=r"asked for cpu:2 = cpu:2, ran on cpu:1"):
        run(X, LABELS)


def test_replicas_in_another_order_of_devices_are_an_error(backend: RemoteBackend, plant: Callable[..., Any]) -> None:
    plant("moved_replicas")
    run, _ = mirrored(backend)
    with pytest.raises(PlacementError, match=r"ran on cpu:2"):
        run(X, LABELS)


def test_an_argument_on_another_device_is_an_error(backend: RemoteBackend) -> None:
    run, _ = mirrored(backend)
    x, labels = run.put(X, LABELS)
    elsewhere = backend.put(X, backend.devices[1])
    with pytest.raises(PlacementError, match=r"given values on cpu:1, cpu:0"):
        run.execute(elsewhere, labels)
    run.execute(x, labels)


def test_variables_are_read_and_written_between_steps(backend: RemoteBackend) -> None:
    """State stays an array over the mesh, whose memory a step takes; nobody else may have it."""
    run, copies = mirrored(backend)
    weights = [copy.weights["b"] for copy in copies]
    taken = backend.compile(lambda: weights[1])  # the variable itself, on cpu:1
    seen, values = [], run.put(X, LABELS)
    for _ in range(4):
        run.execute(*values)
        (own,) = taken.execute()
        found = [backend.get_value(weight) for weight in weights]
        assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
        seen.append((own, found[1]))
        run.execute(*values)
    for own, then in seen:
        np.testing.assert_array_equal(backend.get(own), then)
    backend.set_value(weights[1], np.array([0.5, -0.5]))
    run.execute(*values)
    first, second, third = (backend.get_value(weight) for weight in weights)
    np.testing.assert_array_equal(first, third)
    assert np.abs(first - second).max() > 0.1  # each device keeps its own


def test_arguments_on_each_others_devices_are_an_error(backend: RemoteBackend) -> None:
    """JAX puts the values of an array over a mesh in the mesh's order."""
    strategy = Mirrored(PLACES)
    copies = strategy.variables(START, SGD(0.25))
    parts = [part for k in range(3) for part in (X[k::3], LABELS[k::3])]
    run = backend.compile(strategy.step(loss, copies, SGD(0.25), fed=True), *parts)
    values = list(run.put(*parts))
    swapped = [backend.put(parts[0], backend.devices[2]), *values[1:4], backend.put(parts[4], backend.devices[0])]
    with pytest.raises(PlacementError, match="put them with the executable's own put"):
        run.execute(*swapped, values[5])
    run.execute(*values)
    assert evidence(run) == {ONE}


def test_state_that_a_failed_step_consumed_is_said_and_set_again(
    backend: RemoteBackend, plant: Callable[..., Any]
) -> None:
    run, _ = mirrored(backend)
    variables = list(run.program.shared.values())
    before = [backend.get_value(one) for one in variables]
    plant("ended_replicas")
    failing = backend.compile(run.program)
    with pytest.raises(WorkerError, match="ended"):
        failing(X, LABELS)
    plant("clean")
    with pytest.raises(SharedVariableError, match="set all variables of the step again, or go on from a checkpoint"):
        backend.get_value(variables[0])
    for one, value in zip(variables, before, strict=True):
        backend.set_value(one, value)
    run(X, LABELS)
    assert run.placement.as_asked


def test_a_variable_is_freed_without_the_garbage_collector() -> None:
    """And leaves the values of the others as they are."""

    class Mesh:
        def copies(self, values: list[Any]) -> list[Any]:
            return list(values)

    class Joined:
        def __init__(self, values: list[Any]) -> None:
            self.is_deleted = lambda: False
            self.addressable_shards = [SimpleNamespace(data=value) for value in values]

    cells = [SharedCell(k, Device("cpu", k)) for k in range(3)]
    whole: Any = MeshArray(cells, Mesh(), Joined)  # type: ignore[arg-type]
    gone, array = weakref.ref(cells[1]), weakref.ref(whole.joined())
    whole.array = Joined([10, 11, 12])
    assert array() is None
    gc.disable()
    try:
        del cells[1], whole
        assert gone() is None
    finally:
        gc.enable()
    assert [cell.value for cell in cells] == [10, 12]
    cells[0].value = 5
    assert [cell.value for cell in cells] == [5, 12]


def test_two_steps_share_their_variables(backend: RemoteBackend) -> None:
    """As those of full and of partial batches."""
    strategy, optimizer = Mirrored(PLACES), SGD(0.25, momentum=0.5)
    copies = strategy.variables(START, optimizer)
    both = [(X, LABELS), (X[:3], LABELS[:3])]
    runs = [backend.compile(strategy.step(loss, copies, optimizer), *batch) for batch in both]
    alone = Mirrored(("cpu:0",))
    own = alone.variables(START, optimizer)
    singles = [backend.compile(alone.step(loss, own, optimizer), *batch) for batch in both]
    for k in (0, 1, 1, 0, 1):
        np.testing.assert_allclose(runs[k](*both[k])[0], singles[k](*both[k])[0], rtol=1e-12)
    assert all(evidence(run) == {ONE} for run in runs)
    for name, weight in own[0].weights.items():
        np.testing.assert_allclose(backend.get_value(copies[2].weights[name]), backend.get_value(weight), rtol=1e-12)


@pytest.mark.parametrize("dtype", list(DType))
def test_arrays_of_every_dtype_are_sent(backend: RemoteBackend, dtype: DType) -> None:
    """Rows of a batch, a large constant, and numbers without axes of each replica."""
    rows, many = (np.arange(18).reshape(6, 3) % 5).astype(dtype.value), np.arange(100.0)

    def function(rows: Any, *numbers: Any) -> Any:
        with xb.device("cpu:0"):
            parts = [rows[2 * k : 2 * k + 2] for k in range(3)]
        sums = []
        for place, part, number in zip(PLACES, parts, numbers, strict=True):
            with xb.device(place):
                sums.append(xb.astype(part, "float64") * number + xb.sum(xb.asarray(many) * number))
        return sums, xb.all_reduce(sums, "sum")

    numbers = [np.float64(k + 1.5) for k in range(3)]
    run = backend.compile(function, rows, *numbers)
    sums, totals = run(rows, *numbers)
    assert evidence(run) == {ONE}
    expected = [
        rows[2 * k : 2 * k + 2].astype(float) * number + many.sum() * number for k, number in enumerate(numbers)
    ]
    for k in range(3):
        np.testing.assert_allclose(sums[k], expected[k], rtol=1e-14)
        np.testing.assert_allclose(totals[k], sum(expected), rtol=1e-14)
        assert totals[k].tobytes() == totals[0].tobytes()


def test_an_argument_of_all_replicas_is_sent_as_it_is(backend: RemoteBackend) -> None:
    table = np.array([-0.0, np.nan, np.inf, -1.5])

    def function(table: Any, *rows: Any) -> Any:
        made = []
        for place, row in zip(PLACES, rows, strict=True):
            with xb.device(place):
                made.append((table * row, xb.sum(row)))
        return [own for own, _ in made], xb.all_reduce([total for _, total in made])

    rows = [np.full(4, k + 1.0) for k in range(3)]
    run = backend.compile(function, table, *rows)
    found, _ = run(table, *rows)
    assert evidence(run) == {ONE}
    for own, row in zip(found, rows, strict=True):
        np.testing.assert_array_equal(own, table * row)
        assert np.signbit(own[0])


def test_what_an_open_backend_changed_of_jax_ends_with_the_last_that_changed_it() -> None:
    class Config(SimpleNamespace):
        def update(self, name: str, value: Any) -> None:
            setattr(self, name, value)

    config = Config(precision="low", cache="mine")
    devices._hold(config, {"precision": "high"})
    devices._hold(config, {"precision": "high", "cache": None})
    assert vars(config) == {"precision": "high", "cache": None}
    devices._release(config, ["precision"])
    assert vars(config) == {"precision": "high", "cache": None}
    devices._release(config, ["precision", "cache"])
    assert vars(config) == {"precision": "low", "cache": "mine"}


def test_a_program_is_one_compilation_and_a_call_none(backend: RemoteBackend) -> None:
    before = backend.compilations()["jax"]
    run = backend.compile(lambda x: xb.sin(x) + 1.0, np.ones(7))
    for _ in range(2):
        run(np.ones(7))
        assert backend.compilations()["jax"] - before == 1


def test_replicas_are_compiled_as_one_device_is(backend: RemoteBackend) -> None:
    counts = []
    for places in (PLACES[:1], PLACES):
        before = backend.compilations()["jax"]
        strategy, optimizer = Mirrored(places), SGD(0.125)
        copies = strategy.variables(START, optimizer)
        backend.compile(strategy.step(loss, copies, optimizer), X, LABELS)(X, LABELS)
        counts.append(backend.compilations()["jax"] - before)
    assert counts[1] <= counts[0]
