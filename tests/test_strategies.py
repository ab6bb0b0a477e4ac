"""In-graph replication gives the same on several devices as on one, and named errors for impossible requests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from random_programs import Case, programs

import xbackend as xb
from xbackend.backends import registry
from xbackend.backends.contract import Backend, Settings
from xbackend.errors import (
    ArgumentError,
    DeviceSpellingError,
    DTypeError,
    ShapeError,
    SharedVariableError,
    TraceError,
    UnboundDevice,
)
from xbackend.strategies import replicate

DEVICES = 5
NAMES = ("dev0", "dev1", "cpu:1")
BINDINGS = {f"dev{i}": f"cpu:{i}" for i in range(DEVICES)}
TWO = ("dev0", "dev1")
LINE = r"\(at .*test_strategies\.py:\d+\)"


@pytest.fixture(scope="module")
def backend() -> Iterator[Backend]:
    with registry.get("numpy").load(Settings(virtual_devices=DEVICES)) as backend:
        yield backend


def names(count: int) -> list[str]:
    return [f"dev{i}" for i in range(count)]


def bound(run: Any, op: str) -> list[str]:
    """The devices to which the ops of a name are bound."""
    return [r.bound for r in run.placement.ops if r.op == op]


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, int, int, np.ndarray]:
    """Replicas, rows, the axis of the rows, and an array."""
    replicas = draw(st.integers(1, DEVICES))
    rows = draw(st.integers(replicas, 12))
    shape = draw(st.lists(st.integers(1, 3), max_size=2))
    axis = draw(st.integers(0, len(shape)))
    shape.insert(axis, rows)
    array = np.random.default_rng(draw(st.integers(0, 99))).normal(size=shape)
    return replicas, rows, draw(st.sampled_from([axis, axis - len(shape)])), array


@settings(max_examples=150)
@given(cases())
def test_rows_computed_on_several_devices_are_those_of_one(backend: Backend, case: Any) -> None:
    replicas, rows, axis, array = case

    def function(x: Any, factor: Any) -> Any:
        return {"rows": xb.tanh(x) * factor, "more": [x > 0.0, (xb.exp(x),)]}

    spread = replicate(function, devices=names(replicas), split="x", axis=axis)
    run = backend.compile(spread, array, 3.0, devices=BINDINGS)
    found, expected = run(array, 3.0), backend.compile(function, array, 3.0)(array, 3.0)
    np.testing.assert_array_equal(found["rows"], expected["rows"], strict=True)
    np.testing.assert_array_equal(found["more"][0], expected["more"][0], strict=True)
    np.testing.assert_array_equal(found["more"][1][0], expected["more"][1][0], strict=True)
    assert bound(run, "tanh") == [f"cpu:{i}" for i in range(replicas)]
    sizes = [n.shape[axis] for n in run.program.values if n.op == "tanh"]
    assert sum(sizes) == rows and sizes == sorted(sizes, reverse=True) and sizes[0] - sizes[-1] <= 1


@settings(max_examples=150)
@given(cases())
def test_means_and_sums_over_rows_are_those_of_one_device(backend: Backend, case: Any) -> None:
    replicas, _, axis, array = case
    axis %= array.ndim

    def function(x: Any, w: Any) -> Any:
        y = xb.square(x - w)
        return (xb.mean(y), xb.mean(y, axis=axis)), {
            "sum": xb.sum(y, axis=axis),
            "count": xb.sum(xb.astype(x > w, "int64")),
        }

    merge = ("mean", {"count": "sum", "sum": "sum"})
    spread = replicate(function, devices=names(replicas), split={"x": axis}, merge=merge)
    (mean, means), rest = backend.compile(spread, array, 0.5, devices=BINDINGS)(array, 0.5)
    y = np.square(array - 0.5)
    np.testing.assert_allclose(mean, y.mean(), rtol=1e-12)
    np.testing.assert_allclose(means, y.mean(axis), rtol=1e-12)
    np.testing.assert_allclose(rest["sum"], y.sum(axis), rtol=1e-12)
    assert rest["count"] == (array > 0.5).sum()


@settings(max_examples=100)
@given(cases())
def test_gradients_of_the_merged_loss_and_merged_gradients_are_those_of_one_device(backend: Backend, case: Any) -> None:
    replicas, _, axis, array = case
    w = xb.shared(np.array(0.3), name="w", device="dev0")

    def loss_of(x: Any, v: Any) -> Any:
        return xb.mean(xb.square(xb.tanh(x * w) - v))

    def step(loss_of: Any, x: Any, v: Any) -> Any:
        loss = loss_of(x, v)
        return loss, xb.grad(loss, [w, v, x])

    def tower(x: Any, v: Any) -> Any:
        loss = loss_of(x, v)
        return loss, xb.grad(loss, [w, v])

    where: Any = {"devices": names(replicas), "split": "x", "axis": axis, "merge": "mean"}
    one, (by_w, by_v, by_x) = backend.compile(partial(step, loss_of), array, 0.1, devices=BINDINGS)(array, 0.1)
    outside = backend.compile(partial(step, replicate(loss_of, **where)), array, 0.1, devices=BINDINGS)(array, 0.1)
    towers = backend.compile(replicate(tower, **where), array, 0.1, devices=BINDINGS)(array, 0.1)
    for loss, gradients in (outside, towers):
        np.testing.assert_allclose(loss, one, rtol=1e-12)
        np.testing.assert_allclose(gradients[:2], [by_w, by_v], rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(outside[1][2], by_x, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_gradient_with_respect_to_the_rows_of_a_replica_counts_those_only(backend: Backend, replicas: int) -> None:
    w = xb.shared(np.array([3.0, 3.0]), name="w", device="dev0")
    spread = replicate(lambda rows: xb.grad(xb.sum(rows) * xb.sum(w), rows), devices=names(replicas), split="rows")
    np.testing.assert_array_equal(backend.compile(lambda: spread(w), devices=BINDINGS)(), [6.0, 6.0])


def test_several_arguments_are_split_each_along_its_own_axis_and_given_by_name(backend: Backend) -> None:
    def function(x: Any, y: Any, *, power: int = 1) -> Any:
        return x @ y**power

    spread = replicate(function, devices=names(3), split={"x": 1, "y": -2}, merge="sum")
    x, y = np.arange(8.0).reshape(2, 4), np.arange(12.0).reshape(4, 3)
    np.testing.assert_allclose(backend.compile(spread, x, y, devices=BINDINGS, power=2)(x, y), x @ y**2)
    other = backend.compile(lambda x, y: spread(y=y, x=x), x, y, devices=BINDINGS)
    np.testing.assert_allclose(other(x, y), x @ y)


def test_a_structure_of_arrays_is_split_as_one_argument(backend: Backend) -> None:
    spread = replicate(lambda batch: batch["x"] + batch["y"][0], devices=TWO, split=("batch",))
    x = np.arange(3.0)
    run = backend.compile(lambda x, y: spread({"x": x, "y": [y]}), x, x, devices=BINDINGS)
    np.testing.assert_array_equal(run(x, x * 10), x * 11)


def test_rows_are_split_where_they_are_and_everything_crosses_once(backend: Backend) -> None:
    w = xb.shared(np.ones((3, 2)), name="w", device="dev0")

    def function(x: Any, scale: Any) -> Any:
        return x @ w * scale + x @ w

    spread = replicate(function, devices=("dev1", "dev2"), split="x", on="dev3")
    run = backend.compile(spread, np.ones((5, 3)), 2.0, devices=BINDINGS)
    run(np.ones((5, 3)), 2.0)
    assert bound(run, "slice") == ["cpu:3", "cpu:3"] and bound(run, "concat") == ["cpu:3"]
    assert bound(run, "matmul") == ["cpu:1", "cpu:1", "cpu:2", "cpu:2"]
    moved = sorted((t.source, t.target, t.bytes) for t in run.placement.transfers)
    assert moved == [
        ("cpu:0", "cpu:1", 48), ("cpu:0", "cpu:2", 48),  # w
        ("cpu:1", "cpu:2", 8),  # scale, which is placed at its first use
        ("cpu:1", "cpu:3", 48), ("cpu:2", "cpu:3", 32),  # the results
        ("cpu:3", "cpu:1", 72), ("cpu:3", "cpu:2", 48),  # the rows
    ]  # fmt: skip


def layers(x: Any) -> Any:
    """Model parallel: one part on dev0, the other on dev1, and an op outside of every scope."""
    with xb.device("dev0"):
        hidden = xb.tanh(x)
    with xb.device("dev1"):
        moved = xb.to_device(xb.sin(hidden), "dev0")
    return xb.cos(moved)


def test_each_replica_has_devices_of_its_own_for_the_names_inside(backend: Backend) -> None:
    pairs = ({"dev0": "dev1", "dev1": "dev2"}, {"dev0": "dev3", "dev1": "cpu:4"})
    x = np.linspace(0, 1, 5)
    run = backend.compile(replicate(layers, devices=pairs, split="x"), x, devices=BINDINGS)
    np.testing.assert_array_equal(run(x), np.cos(np.sin(np.tanh(x))))
    assert [bound(run, op) for op in ("tanh", "sin", "cos")] == [
        ["cpu:1", "cpu:3"], ["cpu:2", "cpu:4"], ["cpu:1", "cpu:3"]
    ]  # fmt: skip
    crossings = {(t.source, t.target) for t in run.placement.transfers}
    assert crossings >= {("cpu:2", "cpu:1"), ("cpu:4", "cpu:3")} and ("cpu:2", "cpu:3") not in crossings


def test_names_that_a_mapping_leaves_out_mean_the_same_in_all_replicas(backend: Backend) -> None:
    spread = replicate(layers, devices=({"dev0": "dev2"}, {"dev0": "dev3"}), split="x")
    run = backend.compile(spread, np.ones(2), devices=BINDINGS)
    run(np.ones(2))
    assert bound(run, "tanh") == ["cpu:2", "cpu:3"] and bound(run, "sin") == ["cpu:1", "cpu:1"]


def test_replicas_can_be_replicated(backend: Backend) -> None:
    inner = replicate(xb.tanh, devices=("a", "b"), split="x", on="a")
    outer = replicate(inner, devices=({"a": "dev0", "b": "dev1"}, {"a": "dev2", "b": "dev3"}), split="x", on="dev4")
    x = np.arange(7.0)
    run = backend.compile(outer, x, devices=BINDINGS)
    np.testing.assert_array_equal(run(x), np.tanh(x))
    assert bound(run, "tanh") == ["cpu:0", "cpu:1", "cpu:2", "cpu:3"]
    assert bound(run, "concat") == ["cpu:0", "cpu:2", "cpu:4"]


def test_what_a_mapping_names_is_renamed_by_the_mapping_around_it(backend: Backend) -> None:
    inner = replicate(layers, devices=({"dev0": "a", "dev1": "b"}, {"dev0": "b", "dev1": "a"}), split="x")
    outer = replicate(inner, devices=({"a": "dev0", "b": "dev1"}, {"a": "dev2", "b": "dev3"}), split="x")
    run = backend.compile(outer, np.ones(4), devices=BINDINGS)
    run(np.ones(4))
    assert bound(run, "tanh") == ["cpu:0", "cpu:1", "cpu:2", "cpu:3"]
    assert bound(run, "sin") == ["cpu:1", "cpu:0", "cpu:3", "cpu:2"]


def test_a_device_scope_around_the_call_ends_at_the_replicas(backend: Backend) -> None:
    spread = replicate(xb.tanh, devices=TWO, split="x")

    def function(x: Any) -> Any:
        with xb.device("dev4"):
            return xb.sin(spread(x))

    run = backend.compile(function, np.ones(2), devices=BINDINGS)
    run(np.ones(2))
    assert bound(run, "tanh") == ["cpu:0", "cpu:1"] and bound(run, "sin") == ["cpu:4"]


def regression(x: Any, t: Any, w: Any) -> Any:
    loss = xb.mean(xb.square(x @ w - t))
    return loss, xb.grad(loss, w)


def test_a_program_goes_in_and_a_program_comes_out(backend: Backend) -> None:
    """It is the program of each replica: the replicated one takes twice its rows."""
    rng = np.random.default_rng(0)
    x, t, w = rng.normal(size=(6, 3)), rng.normal(size=6), rng.normal(size=3)
    part = xb.trace(regression, x[:3], t[:3], w)
    whole = replicate(part, devices=TWO, split=("x", "t"), merge="mean")
    assert isinstance(whole, xb.Program) and whole.name == "regression"
    assert [whole.values[i].params["name"] for i in whole.inputs] == ["x", "t", "w"]
    assert [whole.values[i].shape for i in whole.inputs] == [(6, 3), (6,), (3,)]
    whole = xb.Program.from_json(whole.to_json())
    loss, gradient = backend.compile(whole, devices=BINDINGS)(x, t, w)
    expected = backend.compile(regression, x, t, w)(x, t, w)
    np.testing.assert_allclose(loss, expected[0], rtol=1e-12)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-12)


def test_drawings_and_records_name_the_users_lines() -> None:
    program = xb.trace(replicate(layers, devices=TWO, split="x"), np.ones(4))
    assert {Path(node.source.rpartition(":")[0]).name for node in program.values} == {"test_strategies.py"}


def test_a_program_called_inside_of_another_is_part_of_it(backend: Backend) -> None:
    w = xb.shared(np.array(2.0), name="w", device="dev1")

    def inner(x: Any, y: Any) -> Any:
        with xb.device("dev0"):
            z = xb.sin(x) * y
        xb.update(w, w + 1.0)
        return {"z": z * w, "by_x": xb.grad(z * w, x)}

    program = xb.trace(inner, 1.0, 1.0)

    def outer(x: Any) -> Any:
        with xb.device("dev2"):
            found = program(x, xb.exp(x))
        return found["z"], found["by_x"], xb.grad(found["z"], x)

    run = backend.compile(outer, 0.5, devices=BINDINGS)
    z, by_x, total = run(0.5)
    np.testing.assert_allclose(z, 2 * np.sin(0.5) * np.exp(0.5))
    np.testing.assert_allclose(by_x, 2 * np.cos(0.5) * np.exp(0.5))  # inside, the second argument is not x
    np.testing.assert_allclose(total, 2 * (np.cos(0.5) + np.sin(0.5)) * np.exp(0.5))
    assert backend.get_value(w) == 3.0
    assert bound(run, "sin") == ["cpu:0"] and bound(run, "exp") == ["cpu:2"]


@settings(max_examples=150)
@given(programs(NAMES))
def test_a_program_traced_again_is_the_same_program(case: Case) -> None:
    again = xb.trace(case.program, *case.arguments)
    assert again == case.program
    assert [n.source for n in again.values if n.op not in ("input", "shared")] == [
        n.source for n in case.program.values if n.op not in ("input", "shared")
    ]


@pytest.mark.tier("standard")
@settings(max_examples=100)
@given(programs(NAMES, grads=True))
def test_a_program_inside_of_another_computes_the_same_with_its_gradients(backend: Backend, case: Case) -> None:
    bindings = {**BINDINGS, "dev2": "cpu:0"}
    again = xb.trace(case.program, *case.arguments)
    results, state = [], []
    for program in (case.program, again):
        for variable in case.shared:
            backend.set_value(variable, variable.value)
        results.append(repr(backend.compile(program, devices=bindings)(*case.arguments)))
        state.append([repr(backend.get_value(variable)) for variable in case.shared])
    assert results[0] == results[1] and state[0] == state[1]


def test_a_program_is_called_with_its_own_shapes_while_tracing_only() -> None:
    program = xb.trace(lambda x, y: x + y, np.ones(3), np.ones(3))
    with pytest.raises(TraceError, match="call it inside of a function"):
        program(np.ones(3), np.ones(3))

    def user(*arrays: Any) -> Any:
        return program(*arrays)

    for function in (user, program):
        with pytest.raises(ArgumentError, match=rf"argument 'y' is float64\[3\], was given .*\[4\].*{LINE}"):
            xb.trace(function, np.ones(3), np.ones(4))
        with pytest.raises(ArgumentError, match=rf"takes 2 arrays, 1 were given {LINE}"):
            xb.trace(function, np.ones(3))
    assert xb.trace(program, np.ones(3), np.ones(3)).outputs == program.outputs


def identity(x: Any, t: Any = 0) -> Any:
    return x


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"devices": ()}, ArgumentError, "devices is empty: there are no replicas"),
        ({"devices": "dev0"}, ArgumentError, "one entry for each replica"),
        ({"devices": {"dev0": "dev1"}}, ArgumentError, "one entry for each replica"),
        ({"devices": {"dev0", "dev1"}}, ArgumentError, "one entry for each replica"),
        ({"devices": 2}, ArgumentError, "one entry for each replica"),
        ({"devices": ({},)}, ArgumentError, "empty mapping"),
        ({"devices": ("dev 0",)}, DeviceSpellingError, "names neither a device"),
        ({"devices": ({"dev0": 3},)}, DeviceSpellingError, "names neither a device"),
        ({"on": "/what?"}, DeviceSpellingError, "names neither a device"),
        ({"split": ()}, ArgumentError, "there is nothing to split; name arguments of identity, which has x, t"),
        ({"split": 0}, ArgumentError, "give the name of an argument"),
        ({"split": "rows"}, ArgumentError, "identity has no argument 'rows' to split; it has x, t"),
        ({"split": {"x": "first"}}, ArgumentError, "argument 'x' is to be split along axis 'first'"),
        ({"axis": 0.5}, ArgumentError, "axis=0.5 is not an integer"),
        ({"merge": "average"}, ArgumentError, "'average' is none of 'concat', 'mean', 'sum'"),
        ({"merge": ("mean", None)}, ArgumentError, "None is none of"),
    ],
)
def test_bad_options_are_refused_at_once(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        replicate(identity, **{"devices": TWO, "split": "x", **options})


@pytest.mark.parametrize(
    ("function", "options", "error", "message"),
    [
        (identity, {"devices": names(5)}, ShapeError, "'x' of identity has 4 rows, too few for 5 replicas"),
        (identity, {"axis": 2}, ShapeError, "cannot be split along axis 2: its shape is (4, 3)"),
        (identity, {"axis": -3}, ShapeError, "cannot be split along axis -3"),
        (identity, {"split": ("x", "t")}, ArgumentError, "'t' of identity is to be split and was not given"),
        (xb.sum, {}, ShapeError, "shapes (), () cannot be concatenated: they have no axis 0"),
        (lambda x: x[:, 0], {"split": {"x": 0}, "axis": 1}, ShapeError, "they have no axis 1"),
        (lambda x: x @ x.T, {"devices": names(3)}, ShapeError, "(2, 2), (1, 1), (1, 1) cannot be concatenated along"),
        (lambda x: x, {"merge": "mean", "devices": names(3)}, ShapeError, "cannot be averaged: their shapes differ"),
        (lambda x: x, {"merge": "sum", "devices": names(3)}, ShapeError, "cannot be summed: their shapes differ"),
        (lambda x: x > 0.0, {"merge": "sum"}, DTypeError, "bool and cannot be summed; only numeric ones can"),
        (xb.argmax, {"merge": "mean"}, DTypeError, "int64 and cannot be averaged"),
        (lambda x: (x, x), {"merge": ["sum"]}, ArgumentError, "has not the form of the results"),
        (lambda x: {"a": x}, {"merge": {"b": "sum"}}, ArgumentError, "has not the form of the results"),
        (lambda x: x, {"merge": ["sum"]}, ArgumentError, "has not the form of the results"),
        (lambda x: (x,) * len(x), {"devices": names(3)}, TraceError, "results of replica 1 have the form"),
        (lambda x: None, {}, TraceError, "the replicated function returns None"),
    ],
)
def test_what_cannot_be_replicated_is_a_named_error_with_the_users_line(
    function: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    spread = replicate(function, **{"devices": TWO, "split": "x", **options})

    def user(x: Any) -> Any:
        return spread(x)

    for traced in (spread, user):
        with pytest.raises(error, match=f"{re.escape(message)}.*{LINE}"):
            xb.trace(traced, np.ones((4, 3)))


def test_arguments_of_different_lengths_are_not_split_together() -> None:
    spread = replicate(lambda x, t: x, devices=TWO, split=("x", "t"))
    with pytest.raises(ShapeError, match=rf"'x' has 4 rows, 't' has 5 along axis 0 {LINE}"):
        xb.trace(spread, np.ones((4, 3)), np.ones(5))
    with pytest.raises(ArgumentError, match=rf"replicated .*too many positional arguments {LINE}"):
        xb.trace(lambda x: spread(x, x, x), np.ones(4))
    with pytest.raises(ArgumentError, match="hold no array"):
        xb.trace(lambda x: replicate(identity, devices=TWO, split="t")(x, []), np.ones(3))


def test_an_update_inside_of_a_replica_is_refused() -> None:
    w = xb.shared(np.ones(3), name="w")

    def function(x: Any) -> Any:
        xb.update(w, w + 1.0)
        return x * w

    for count in (1, 2):
        with pytest.raises(SharedVariableError, match=f"'w' is updated inside of a replica of function.*{LINE}"):
            xb.trace(replicate(function, devices=names(count), split="x"), np.ones((2, 3)))


def test_programs_without_distinct_names_and_of_too_few_axes_are_refused() -> None:
    program = xb.trace(lambda *x1: x1[0] + x1[1], np.ones(3), np.ones(3))
    whole = replicate(program, devices=TWO, split=("x0", "x1"))
    assert [whole.values[i].shape for i in whole.inputs] == [(6,), (6,)]
    twice = xb.trace(lambda x1, *rest: x1 + rest[0], np.ones(3), np.ones(3))
    with pytest.raises(ArgumentError, match="cannot be replicated: its arguments have no names to split by"):
        replicate(twice, devices=TWO, split="x1")
    with pytest.raises(ShapeError, match=rf"cannot be split along axis 1: its shape is \(3,\) {LINE}"):
        replicate(program, devices=TWO, split="x0", axis=1)


def test_a_device_that_is_not_bound_names_the_line(backend: Backend) -> None:
    with pytest.raises(UnboundDevice, match=r"'devX' is not bound \(asked for at .*test_strategies\.py:\d+\)"):
        backend.compile(replicate(identity, devices=TWO, split="x", on="devX"), np.ones(4), devices=BINDINGS)
