"""Replicas are found on placed programs that are alike but for the device, and nowhere else; without a framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xbackend as xb
from xbackend.api.tracing.trace import trace
from xbackend.devices import Device, DeviceMap
from xbackend.program import replicas
from xbackend.program.binding import bind
from xbackend.program.program import Program
from xbackend.strategies import Mirrored, ModelParallel, Strategy, Towers
from xbackend.training import SGD, Adam, layers

DEVICES = tuple(Device("cpu", i) for i in range(3))
PLACES = tuple(map(str, DEVICES))
X = np.linspace(-1.0, 1.0, 24).reshape(6, 4)
LABELS = np.array([0, 1, 1, 0, 1, 0])
START = {"w": np.linspace(-0.5, 0.5, 8).reshape(4, 2), "b": np.zeros(2)}


def placed(function: Callable[..., Any], *arguments: Any) -> Program:
    return bind(trace(function, *arguments), DeviceMap(), DEVICES, DEVICES[0]).program


def classifier(weights: Any, x: Any, labels: Any) -> Any:
    scores = xb.tanh(layers.dense(x, weights["w"], weights["b"]))
    return layers.cross_entropy(scores, labels), {"accuracy": layers.accuracy(scores, labels)}


def step(strategy: Strategy, optimizer: Any, *batch: Any, fed: bool = False) -> Program:
    copies = strategy.variables(START, optimizer)
    return placed(strategy.step(classifier, copies, optimizer, fed=fed), *batch)


@pytest.mark.parametrize("optimizer", [SGD(0.1, momentum=0.5), Adam(0.01, clip=0.1)])
def test_a_mirrored_step_is_one_replica_on_each_device(optimizer: Any) -> None:
    program = step(Mirrored(PLACES), optimizer, X, LABELS)
    found = replicas.found(program)
    assert found.devices == DEVICES
    assert len(found.one.nodes) < len(program.nodes) / 2.5
    assert {value.device for value in found.one.values} == {"cpu:0"}
    assert [n.params for n in found.one.nodes if n.op == "all_reduce"] == [{"shares": (), "tasks": 3}] * 4
    assert [n.op for n in found.before.nodes] == ["input", "input", *["slice"] * 6]
    for i, each in found.given.items():
        devices = [program.values[j].device for j in each]
        assert devices == (["cpu:0"] * 3 if set(each) <= found.prior.keys() else list(PLACES))
        assert {program.values[j].aval for j in each} == {found.one.values[i].aval}
    # Every value that is no source has a place: on its device, in one replica or before them.
    for i, value in enumerate(program.values):
        if value.op not in ("input", "constant", "full", "arange") and i not in found.prior:
            sent = value.op == "transfer" and value.inputs[0] in found.prior
            assert sent or str(DEVICES[found.place[i][1]]) == value.device, value
    updates = {found.place[i]: found.place[j] for i, j in program.updates.items()}
    assert updates == {(i, k): (j, k) for i, j in found.one.updates.items() for k in range(3)}


def test_replicas_that_are_fed_have_arguments_of_their_own() -> None:
    parts = [a for k in range(3) for a in (X[2 * k : 2 * k + 2], LABELS[2 * k : 2 * k + 2])]
    program = step(Mirrored(PLACES), SGD(0.1), *parts, fed=True)
    found = replicas.found(program)
    assert not found.prior and not found.before.nodes
    assert [found.given[i] for i in found.one.inputs] == [tuple(program.inputs[k::2]) for k in range(2)]


def alike(
    *,
    op: Callable[[Any], Any] = xb.tanh,
    constant: float = 2.0,
    axis: int = 0,
    operands: Callable[[list[Any]], list[Any]] = list,
    reads: tuple[int, int] = (0, 0),
    rate: float = 0.1,
    weights: Any = None,
    device: str = "cpu:1",
    order: tuple[int, ...] = (0, 1, 2),
) -> Program:
    """Three replicas of a step; the arguments are what is different on the second device."""
    variables = [xb.shared(np.ones(4), f"w/{k}", place) for k, place in enumerate(PLACES)]

    def function(*rows: Any) -> Any:
        hidden, gradients, losses = [], [], []
        for k, place in enumerate(PLACES):
            own = k == 1
            with xb.device(place):
                y = (op if own else xb.tanh)(rows[k] * variables[k] * (constant if own else 2.0))
                hidden.append(y)
            with xb.device(device if own else place):
                y = y + hidden[reads[1] if k == reads[0] else k]
                loss = xb.sum(xb.max(y, axis=axis if own else 0))
            losses.append(loss)
            gradients.append(xb.grad(loss, variables[k]))
        gradients = operands(gradients)
        sums = xb.all_reduce([gradients[k] for k in order], "mean", weights=weights)
        for k, place in enumerate(PLACES):
            with xb.device(place):
                total = sums[order.index(k)]
                xb.update(variables[k], variables[k] - (rate if k == 1 else 0.1) * total)
        return losses

    return placed(function, *[np.ones((4, 4))] * 3)


def test_three_replicas_are_alike() -> None:
    found = replicas.found(alike())
    assert len(found.devices) == 3 and len(found.one.updates) == 1


DIFFERENT: dict[str, tuple[dict[str, Any], str]] = {
    "an op": ({"op": xb.sin}, "tanh at .* is on cpu:0 only|sin at .* has no counterpart"),
    "a constant": ({"constant": 3.0}, "multiply at .* has no counterpart"),
    "a constant of the update": ({"rate": 0.2}, "multiply at .* has no counterpart"),
    "a parameter": ({"axis": 1}, "max at .* has no counterpart"),
    "another's value": ({"reads": (1, 0)}, "tanh at .* has no counterpart on each device"),
    "the value of a third one": ({"reads": (2, 1)}, "values go between more than one and the others"),
    "another device for one op": ({"device": "cpu:2"}, "."),
    "shares": ({"weights": [1, 2, 1]}, "no sum over all devices comes back"),
    "an operand twice": ({"operands": lambda g: [g[0], g[1], g[1]]}, "."),
    "an operand that is something else": ({"operands": lambda g: [g[0], g[1] * 2.0, g[2]]}, "."),
}


@pytest.mark.parametrize("difference", DIFFERENT)
def test_a_difference_is_found(difference: str) -> None:
    changed, reason = DIFFERENT[difference]
    program = alike(**changed)
    with pytest.raises(replicas.Unlike, match=reason):
        replicas.found(program)


@pytest.mark.parametrize(("order", "root"), [((0, 2, 1), 0), ((1, 0, 2), 1)])
def test_terms_of_an_all_reduce_may_have_any_order(order: tuple[int, ...], root: int) -> None:
    """The sum is made on the device of the first one."""
    found = replicas.found(alike(order=order))
    assert found.devices[0] == DEVICES[root] and {*found.devices} == {*DEVICES}


def test_a_permuted_all_reduce_of_other_operands_is_refused() -> None:
    """The first replica's gradient by one variable, the others' by another."""
    variables = [[xb.shared(np.ones(4) * j, f"{j}/{k}", place) for k, place in enumerate(PLACES)] for j in range(2)]

    def function(permuted: bool) -> Callable[..., Any]:
        def step(*rows: Any) -> Any:
            both = []
            for k, place in enumerate(PLACES):
                with xb.device(place):
                    loss = xb.sum(rows[k] * variables[0][k] * xb.exp(variables[1][k]))
                found = xb.grad(loss, [variables[0][k], variables[1][k]])
                both.append(found[::-1] if permuted and k == 1 else found)
            for j in range(2):
                for own, total in zip(variables[j], xb.all_reduce([g[j] for g in both]), strict=True):
                    xb.update(own, own - total)

        return lambda *rows: (step(*rows), rows[0])[1]

    rows = [np.ones(4)] * 3
    assert replicas.found(placed(function(False), *rows))
    with pytest.raises(replicas.Unlike, match="values that are no counterparts"):
        replicas.found(placed(function(True), *rows))


def unequal_rows() -> Program:
    return step(Mirrored(PLACES), SGD(0.1), X[:5], LABELS[:5])


def one_device() -> Program:
    return step(Mirrored(("cpu:0",)), SGD(0.1), X, LABELS)


def towers() -> Program:
    return step(Towers(PLACES), SGD(0.1), X, LABELS)


def parallel_model() -> Program:
    return step(ModelParallel({"w": "cpu:0", "b": "cpu:1"}), SGD(0.1), X, LABELS)


def through_the_sum() -> Program:
    """A gradient through an all-reduce."""
    variables = [xb.shared(np.ones(3), f"w/{k}", place) for k, place in enumerate(PLACES)]

    def function() -> Any:
        values = []
        for place, own in zip(PLACES, variables, strict=True):
            with xb.device(place):
                values.append(xb.sin(own))
        losses = []
        for place, total in zip(PLACES, xb.all_reduce(values, "sum"), strict=True):
            with xb.device(place):
                losses.append(xb.sum(total * total))
        return [xb.grad(loss, own) for loss, own in zip(losses, variables, strict=True)]

    return placed(function)


def computed_before() -> Program:
    """The root computes what it sends."""
    variables = [xb.shared(np.ones(4), f"w/{k}", place) for k, place in enumerate(PLACES)]

    def function(x: Any) -> Any:
        with xb.device("cpu:0"):
            scaled = xb.exp(x)
            parts = [scaled[2 * k : 2 * k + 2] for k in range(3)]
        sums = []
        for place, own, part in zip(PLACES, variables, parts, strict=True):
            with xb.device(place):
                sums.append(xb.sum(part * own, axis=0))
        return xb.all_reduce(sums)

    return placed(function, X)


def test_one_more_op_on_the_root_is_none_of_replicas() -> None:
    strategy = Mirrored(PLACES)
    train = strategy.step(classifier, strategy.variables(START, SGD(0.1)), SGD(0.1))
    program = placed(lambda x, labels: (train(x, labels), xb.exp(x)), X, LABELS)
    with pytest.raises(replicas.Unlike, match=r"exp at .* is on cpu:0 only"):
        replicas.found(program)


@pytest.mark.parametrize(
    "program",
    [unequal_rows, one_device, towers, parallel_model, through_the_sum, computed_before],
)
def test_other_programs_of_several_devices_are_none_of_replicas(program: Callable[[], Program]) -> None:
    with pytest.raises(replicas.Unlike):
        replicas.found(program())


def test_bodies_of_loops_are_compared_without_their_devices() -> None:
    def function(steps: int) -> Callable[..., Any]:
        def of(*rows: Any) -> Any:
            lasts = []
            for k, place in enumerate(PLACES):
                with xb.device(place):
                    numbers = xb.arange(steps if k == 1 else 3, dtype="float64")
                    lasts.append(xb.scan(lambda c, i: (xb.sin(c) + i, c), rows[k], numbers)[0])
            return xb.all_reduce(lasts)

        return of

    rows = [np.ones(2)] * 3
    assert replicas.found(placed(function(3), *rows))
    with pytest.raises(replicas.Unlike):
        replicas.found(placed(function(4), *rows))


@pytest.mark.tier("standard")
@pytest.mark.needs("jax")
def test_the_placement_says_why_a_program_is_none_of_replicas() -> None:
    def means(rows: int) -> Callable[[Any], Any]:
        def function(x: Any) -> Any:
            terms = []
            for place, part in zip(PLACES[:2], (x[:3], x[3 : 3 + rows]), strict=True):
                with xb.device(place):
                    terms.append(xb.sum(part * 2.0))
            return xb.all_reduce(terms)

        return function

    with xb.open("jax", virtual_devices=2) as backend:
        alike, unlike, one = (backend.compile(f, np.ones(6)) for f in (means(3), means(2), xb.exp))
        for run in (alike, unlike, one):
            run(np.ones(6))
        why = unlike.placement.separate
        assert "multiply at" in why and "no counterpart" in why
        assert why in str(unlike.placement) and why in unlike.placement._repr_html_()
        assert unlike.placement.to_dict()["separate"] == why
        assert alike.placement.separate == one.placement.separate == ""
