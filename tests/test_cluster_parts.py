"""A task's program in parts equals the whole program; and users' errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from in_process import Running, programs, server, tasks
from tiers import share

import xbackend as xb
from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.cluster import parts
from xbackend.devices import Device, DeviceMap
from xbackend.engines.spec import Task
from xbackend.errors import ClusterError
from xbackend.program.binding import bind
from xbackend.program.ops import GENERATORS
from xbackend.program.program import Program

SHAPES: tuple[tuple[int, ...], ...] = ((), (2,), (2, 2))
WORKERS = 2  # sums and means of two equal numbers are exact
STEPS = 3
X = np.array([[0.3, -0.7], [1.1, 0.2]])
Step = tuple[str, int, int, str | None]


@dataclass(frozen=True)
class Recipe:
    """A small job as data, which can be traced for a cluster and for one process.

    ``variables``: for each its server, `None` for the task's own, and its shape. ``steps``: an op, the indices of its
    operands among the values so far, and its scope. ``updates``: for each variable the index of its update or `None`,
    and whether the update replaces it, if it fits, or is added. ``outputs`` are indices of values.
    """

    variables: tuple[tuple[int | None, tuple[int, ...]], ...]
    steps: tuple[Step, ...]
    updates: tuple[tuple[int, bool] | None, ...]
    outputs: tuple[int, ...]

    @property
    def servers(self) -> int:
        return max((place + 1 for place, _ in self.variables if place is not None), default=0)


OPS = (
    "add",
    "multiply",
    "subtract",
    "tanh",
    "sin",
    "matmul",
    "sum",
    "grad",
    "mean across",
    "sum across",
    "both across",
)
PLACES = st.sampled_from([None, 0, 0, 1])
NUMBER = st.integers(0, 30)


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    variables = tuple(draw(st.lists(st.tuples(PLACES, st.sampled_from(SHAPES)), min_size=1, max_size=4)))
    scope = st.sampled_from([None, None, None, "cpu:0", "cpu:1"])
    steps = tuple(draw(st.lists(st.tuples(st.sampled_from(OPS), NUMBER, NUMBER, scope), max_size=8)))
    becomes = st.none() | st.tuples(NUMBER, st.booleans())
    updates = tuple(draw(becomes) for _ in variables)
    return Recipe(variables, steps, updates, tuple(draw(st.lists(NUMBER, min_size=1, max_size=3))))


class _Making:
    """A recipe being traced. ``reaches`` has for each value its source variables; ``reduced`` those of them behind an
    all-reduce, through which there is no gradient."""

    def __init__(self, recipe: Recipe, task: Task | None, x: Any) -> None:
        self.recipe, self.task = recipe, task
        rng = np.random.default_rng(0)
        self.variables = []
        for k, (place, shape) in enumerate(recipe.variables):
            device = None if place is None or task is None else server(place)
            self.variables.append(xb.shared(rng.uniform(-1, 1, shape), f"v{k}", device=device))
        self.pool = [x, *(xb.asarray(v) for v in self.variables)]
        self.reaches = [set[int](), *({k} for k in range(len(self.variables)))]
        self.reduced = [set[int]() for _ in self.pool]

    def make(self) -> list[Any]:
        for op, i, j, scope in self.recipe.steps:
            with nullcontext() if scope is None else xb.device(scope):
                self._step(op, i % len(self.pool), j % len(self.pool))
        for variable, becomes in zip(self.variables, self.recipe.updates, strict=True):
            if becomes is not None:
                value = self.pool[becomes[0] % len(self.pool)]
                fits = becomes[1] and value.shape == variable.shape
                xb.update(variable, value if fits else 0.5 * variable + xb.tanh(xb.sum(value)))
        return [self.pool[o % len(self.pool)] for o in self.recipe.outputs]

    def _step(self, op: str, i: int, j: int) -> None:
        a, b = self.pool[i], self.pool[j]
        of = [i]
        reaches, reduced = None, None
        if op in ("add", "multiply", "subtract"):
            of, made = [i, j], getattr(xb, op)(a, b)
        elif op in ("tanh", "sin"):
            made = getattr(xb, op)(a)
        elif op == "matmul":
            of, made = [i, j], xb.matmul(a, b) if a.ndim and b.ndim else a - b
        elif op == "sum":
            made = xb.sum(a)
        elif op == "grad":
            targets = sorted(self.reaches[i] - self.reduced[i])
            if not targets:
                return
            made = xb.grad(xb.sum(xb.tanh(a)), self.variables[targets[j % len(targets)]])
        else:
            made = self._across(op, a)
            reaches = reduced = self.reaches[i]
        self.pool.append(xb.tanh(made) if op in ("multiply", "matmul", "sum across") else made)
        self.reaches.append(set().union(*(self.reaches[k] for k in of)) if reaches is None else reaches)
        self.reduced.append(set().union(*(self.reduced[k] for k in of)) if reduced is None else reduced)

    def _across(self, op: str, a: Any) -> Any:
        """All tasks have this task's values: their mean is the value, and their sum a multiple of it."""
        values = [a, 2.0 * a] if op == "both across" else [a]
        reduction = "sum" if op == "sum across" else "mean"
        made = xb.all_reduce(values, reduction, across=self.task)[-1]
        return made * float(WORKERS) if self.task is None and reduction == "sum" else made


def function(recipe: Recipe, task: Task | None) -> Callable[..., Any]:
    return lambda x: _Making(recipe, task, x).make()


def on_one_process(recipe: Recipe) -> tuple[list[list[np.ndarray]], dict[str, np.ndarray]]:
    """The outputs of each step and the final variables, of the whole program with all-reduces of one task."""
    backend = registry.get("numpy").load(Settings(virtual_devices=2))
    run = backend.compile(function(recipe, None), X)
    outputs = [list(run(X)) for _ in range(STEPS)]
    return outputs, {v.name: backend.get_value(v) for v in run.placed.program.shared.values()}


def in_parts(recipe: Recipe) -> tuple[list[list[np.ndarray]], dict[str, np.ndarray]]:
    """The same from its parts, for one of two equal tasks."""
    one = programs(lambda task, x: _Making(recipe, task, x).make(), WORKERS, recipe.servers)
    try:
        running = Running(one, tasks(one)[0], X)
    except ClusterError as error:
        assume("several parameter servers" not in str(error) or recipe.servers < 2)
        raise
    outputs = [running(X) for _ in range(STEPS)]
    return outputs, dict(running.values())


@settings(max_examples=share(400))
@given(recipes())
def test_the_parts_come_to_what_the_whole_program_comes_to(recipe: Recipe) -> None:
    found, values = in_parts(recipe)
    expected, wanted = on_one_process(recipe)
    event(f"{recipe.servers} servers")
    for own, one in zip(found, expected, strict=True):
        for a, b in zip(own, one, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)
    for name, value in wanted.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-13, atol=1e-13, err_msg=name)


def needed(program: Program) -> Counter[str]:
    """How often each op is needed, except leaves."""
    found, todo = set[int](), [*program.outputs, *program.updates.values()]
    while todo:
        i = todo.pop()
        if i not in found:
            found.add(i)
            todo += program.values[i].inputs
    ops = Counter(program.values[i].op for i in found)
    return Counter({op: n for op, n in ops.items() if op not in ("input", "shared", *GENERATORS)})


@settings(max_examples=share(400))
@given(recipes())
def test_every_op_is_in_one_part(recipe: Recipe) -> None:
    program = xb.trace(function(recipe, Task("worker", 0, WORKERS)), X)
    try:
        cut = parts.split(program, recipe.servers)
    except ClusterError as error:
        assume("several parameter servers" not in str(error) or recipe.servers < 2)
        raise
    own = needed(cut.own)
    assert sum((needed(one.program) for one in cut.applies), own) == needed(program)
    for one in cut.applies:
        assert len(one.program.inputs) == len(one.pushed) + len(one.reads)
        assert len(one.program.outputs) >= len(one.writes)
        assert not one.program.shared and not one.program.updates
        assert not {"grad", "all_reduce"} & {node.op for node in one.program.values}
        assert all(node.device is None for node in one.program.values)
    assert not any(parts.server_of(node.device) is not None for node in cut.own.values)


@settings(max_examples=share(200))
@given(recipes())
def test_between_segments_are_all_reduces_and_nothing_else(recipe: Recipe) -> None:
    plain = Recipe(tuple((None, shape) for _, shape in recipe.variables), *list(vars(recipe).values())[1:])
    cpus = (Device("cpu", 0), Device("cpu", 1))
    placed = bind(xb.trace(function(plain, Task("worker", 0, WORKERS)), X), DeviceMap(), cpus, cpus[0])
    (segments, reduced), nodes = parts.segments(placed), placed.program.values
    between = {i for i, node in enumerate(nodes) if node.op == "all_reduce"}
    assert sorted(i for level in reduced for i in level) == sorted(between)
    there = set(placed.program.inputs)
    for k, segment in enumerate(segments):
        assert set(segment.takes) <= there and not between & set(segment.gives) - there
        assert not any(node.op == "all_reduce" for node in segment.program.values)
        assert bool(segment.program.updates) <= (k == len(reduced)), "only the last one changes variables"
        there |= set(segment.gives)
        if k < len(reduced):
            assert {nodes[i].inputs[0] for i in reduced[k]} <= there | _leaves(placed.program)
            there |= set(reduced[k])
    assert set(placed.program.outputs) <= there


def _leaves(program: Program) -> set[int]:
    return {i for i, node in enumerate(program.values) if node.op in ("shared", *GENERATORS)}


# --- what a server's update is ------------------------------------------------------------------------------------


def ran(function: Callable[..., Any], servers: int = 1) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """The results of one step of a job, and the variables after it."""
    one = programs(function, WORKERS, servers)
    running = Running(one, tasks(one)[0], X)
    return running(X), dict(running.values())


def test_what_only_an_update_needs_is_computed_with_what_the_variable_is_by_then() -> None:
    """Another task's update between this one's read and write is not lost."""

    def job(task: Any, x: Any) -> Any:
        total = xb.shared(np.float64(0.0), "total", device=server(0))
        xb.update(total, total + xb.sum(x))

    one = programs(job, WORKERS, 1)
    running = Running(one, tasks(one)[0], X)
    layout, engine = running.layouts[0], running.here.engine
    pull = engine.pull

    def disturbed(own: Any) -> np.ndarray:
        record = pull(own)
        layout.arrays(engine.records[0])["total"] += 100.0  # by another task, after this one's read
        return record

    engine.pull = disturbed  # type: ignore[assignment, method-assign]
    running(X)
    assert running.values()["total"] == 100.0 + X.sum()


def _noting(name: str, do: Callable[..., Any], events: list[str]) -> Callable[..., Any]:
    def noted(*arguments: Any) -> Any:
        events.append(name)
        return do(*arguments)

    return noted


@pytest.mark.parametrize("reduces", [False, True])
def test_in_step_all_have_read_before_anybody_brings_an_update(reduces: bool) -> None:
    """Else a slow task reads the update of a fast one at the same step. An all-reduce is a barrier too."""

    def job(task: Any, x: Any) -> Any:
        w = xb.shared(np.float64(1.0), "w", device=server(0))
        moved = xb.all_reduce([xb.sum(x)], across=task)[0] if reduces else xb.sum(x)
        xb.update(w, w + moved)

    one = programs(job, WORKERS, 1)
    running = Running(one, tasks(one)[0], X)
    engine, events = running.here.engine, list[str]()
    for name in ("pull", "all_reduce", "push"):
        setattr(engine, name, _noting(name, getattr(engine, name), events))
    engine.asynchronous = False
    running(X)
    assert events == ["pull", "all_reduce", "push"]
    engine.asynchronous, running.number = True, 0
    events.clear()
    running(X)
    assert events == ["pull", *(["all_reduce"] if reduces else []), "push"], "out of step nobody waits"


def test_variables_of_a_server_take_each_others_places() -> None:
    def job(task: Any, x: Any) -> Any:
        a, b = (xb.shared(np.float64(k), name, device=server(0)) for k, name in enumerate("ab"))
        xb.update(a, b)
        xb.update(b, a)

    _, values = ran(job)
    assert (float(values["a"]), float(values["b"])) == (1.0, 0.0)


@pytest.mark.parametrize("updates", [False, True])
def test_results_that_are_arguments_need_no_framework_unless_the_task_has_updates(updates: bool) -> None:
    def job(task: Any, x: Any) -> Any:
        total, own = xb.shared(np.float64(0.0), "total", device=server(0)), xb.shared(np.float64(0.0), "own")
        xb.update(total, total + 1.0)
        if updates:
            xb.update(own, own + 1.0)
        return total, x

    one = programs(job, WORKERS, 1)
    running, x = Running(one, tasks(one)[0], X), X.copy()
    assert (running.program.handed is None) is updates
    first, second = running(x), running(X)
    x[...] = 0.0
    assert [float(total) for total, _ in (first, second)] == [0.0, 1.0]
    assert all(np.array_equal(own, X) for _, own in (first, second)), "a result is a copy of its argument"
    assert running.values() == {"total": 2.0, **({"own": 2.0} if updates else {})}


def test_a_variable_takes_that_of_another_server_and_what_the_task_has() -> None:
    def job(task: Any, x: Any) -> Any:
        a, b = (xb.shared(np.float64(k + 5.0), f"v{k}", device=server(k)) for k in range(2))
        c = xb.shared(np.zeros((2, 2)), "c", device=server(1))
        xb.update(a, b)
        xb.update(c, x)
        return xb.sum(c) + a

    outputs, values = ran(job, servers=2)
    assert values["v0"] == 6.0 and outputs[0] == 5.0
    np.testing.assert_array_equal(values["c"], X)


def test_an_op_may_be_asked_for_on_its_server() -> None:
    def job(task: Any, x: Any) -> Any:
        a = xb.shared(np.float64(2.0), "a", device=server(0))
        with xb.device(server(0)):
            squared = a * a + 1.0
        xb.update(a, squared)
        return squared

    outputs, values = ran(job)
    assert outputs[0] == values["a"] == 5.0


def test_arrays_made_in_the_scope_of_a_server_are_the_tasks_own_where_it_needs_them() -> None:
    def job(task: Any, x: Any) -> Any:
        with xb.device(server(0)):
            a = xb.shared(np.ones(2), "a", device=server(0))
            ones = xb.full((2,), 3.0)
        loss = xb.sum(x @ (a * ones))
        xb.update(a, a - 0.1 * xb.grad(loss, a))
        return loss

    outputs, values = ran(job)
    np.testing.assert_allclose(outputs[0], 3 * X.sum())
    np.testing.assert_allclose(values["a"], 1 - 0.3 * X.sum(0))


def test_a_gradient_beside_an_all_reduce_of_the_same_variable() -> None:
    """The gradient does not pass through the all-reduce, even if its variable is reduced too."""

    def job(task: Any, x: Any) -> Any:
        w = xb.shared(np.array([1.0, 2.0]), "w")
        (total,) = xb.all_reduce([xb.sum(x)], "sum", across=task)
        (mean,) = xb.all_reduce([w * 1.0], across=task)
        return xb.grad(total * xb.sum(w * w), w), mean

    outputs, _ = ran(job, servers=0)
    np.testing.assert_allclose(outputs[0], 2 * X.sum() * 2 * np.array([1.0, 2.0]))
    np.testing.assert_array_equal(outputs[1], [1.0, 2.0])


def test_a_weighted_mean_across_tasks() -> None:
    def job(task: Any, x: Any) -> Any:
        return xb.all_reduce([xb.sum(x), xb.max(x)], weights=[1, 3], across=task)

    outputs, _ = ran(job, servers=0)
    np.testing.assert_allclose(outputs, [(X.sum() + 3 * X.max()) / 4] * 2)


# --- what users get wrong -----------------------------------------------------------------------------------------


def variable(name: str | None = "w", place: int | None = 0, value: Any = 1.0) -> Any:
    return xb.shared(np.asarray(value, np.float64), name, device=None if place is None else server(place))


def on_server(task: Any, x: Any) -> Any:
    w = variable()
    with xb.device(server(0)):
        y = xb.sum(x) * w
    return xb.grad(y, w)


def of_two_servers(task: Any, x: Any) -> Any:
    v, w = variable("v", 1), variable("w", 0)
    xb.update(w, v * w)


def of_two_servers_at_once(task: Any, x: Any) -> Any:
    v, w = variable("v", 1), variable("w", 0)
    xb.update(w, v * 2.0)


def of_another_worker(task: Any, x: Any) -> Any:
    with xb.device("/job:worker/task:1"):
        return x + 1.0


def second_cpu_of_a_server(task: Any, x: Any) -> Any:
    with xb.device("/job:ps/task:0/device:CPU:1"):
        return x + 1.0


def unnamed(task: Any, x: Any) -> Any:
    w = variable(None)
    xb.update(w, w + 1.0)


def gradient_on_a_server(task: Any, x: Any) -> Any:
    w = variable()
    with xb.device(server(0)):
        return xb.grad(xb.sum(x) * w, w)


def no_such_server(task: Any, x: Any) -> Any:
    xb.update(variable("w", 1), 2.0)


def computed_on_no_server(task: Any, x: Any) -> Any:
    with xb.device(server(1)):
        return x + 2.0


def two_of_one_name(task: Any, x: Any) -> Any:
    return variable("w", None) + variable("w", None)


def two_of_one_name_in_two_places(task: Any, x: Any) -> Any:
    return variable("w", None) + variable("w", 0)


def begins_otherwise(task: Any, x: Any) -> Any:
    xb.update(variable("w", 0, float(task.index)), 1.0)


def begins_in_another_shape(task: Any, x: Any) -> Any:
    xb.update(variable("w", 0, np.zeros(1 + task.index)), np.zeros(1 + task.index))


def gradient_through_a_reduction(task: Any, x: Any) -> Any:
    w = variable("w", None)
    (mean,) = xb.all_reduce([w * xb.sum(x)], across=task)
    return xb.grad(mean * mean, w)


def reduces(task: Any, x: Any) -> Any:
    w = variable()
    (mean,) = xb.all_reduce([xb.sum(x)], across=task)
    xb.update(w, w + mean)


def updates_its_own(task: Any, x: Any) -> Any:
    own, w = variable("own", None), variable()
    xb.update(own, own + 1.0)
    xb.update(w, w + own)


WRONG: dict[str, tuple[Callable[..., Any], dict[str, Any], str, str]] = {
    "an op on a server that the task needs": (
        *(on_server, {}, "sum on /job:ps/task:0/cpu:0 is needed by the task itself"),
        "y = xb.sum(x) * w",
    ),
    "variables of two servers": (
        *(
            of_two_servers,
            {"servers": 2},
            "needs what is on several parameter servers: an update reads the variables of its own",
        ),
        "xb.update(w, v * w)",
    ),
    "what is computed on another server": (
        *(of_two_servers_at_once, {"servers": 2}, "multiply needs what is on several parameter servers"),
        "xb.update(w, v * 2.0)",
    ),
    "a device of another worker": (of_another_worker, {}, "is a device of another task", "return x + 1.0"),
    "another device of a server": (second_cpu_of_a_server, {}, "is a device of another task", "return x + 1.0"),
    "a variable without a name": (unnamed, {}, "know a variable by its name: give it one", "xb.update(w, w + 1.0)"),
    "a gradient on a server": (
        gradient_on_a_server,
        {},
        "grad on /job:ps/task:0/cpu:0: it is the",
        "xb.sum(x) * w, w)",
    ),
    "more servers than there are": (no_such_server, {}, r"there are 1: --ps 2", 'xb.update(variable("w", 1), 2.0)'),
    "an op on a server beyond those": (
        *(computed_on_no_server, {}, r"add on /job:ps/task:1/cpu:0: of parameter servers there are 1: .* --ps 2"),
        "return x + 2.0",
    ),
    "an op on a server where there is none": (
        *(computed_on_no_server, {"servers": 0}, "of parameter servers there is none: leave its device out"),
        "return x + 2.0",
    ),
    "no server": (begins_otherwise, {"servers": 0}, "there is none: --ps 1", 'variable("w", 0, float(task.index))'),
    "two variables of one name": (two_of_one_name, {}, "two variables of the name 'w'", 'variable("w", None)'),
    "two of one name in two places": (
        *(two_of_one_name_in_two_places, {}, "two variables of the name 'w'", 'variable("w", 0)'),
    ),
    "other numbers to begin with": (
        begins_otherwise,
        {},
        "begins in /job:worker/task:1 with other numbers",
        "xb.update",
    ),
    "another shape to begin with": (begins_in_another_shape, {}, r"in another, float64\[1\] there", "xb.update"),
    "a gradient through an all-reduce": (
        *(gradient_through_a_reduction, {}, "a gradient through an all-reduce between tasks is not there"),
        "return xb.grad(mean * mean, w)",
    ),
    "an all-reduce of tasks out of step": (
        *(reduces, {"asynchronous": True}, "keeps them in step, and --asynchronous does not"),
        "xb.all_reduce([xb.sum(x)], across=task)",
    ),
    "a variable of an asynchronous task": (
        *(updates_its_own, {"asynchronous": True}, "updates own, which is its own: what an asynchronous task has"),
        "xb.update(own, own + 1.0)",
    ),
    "an engine without servers": (
        *(begins_otherwise, {"backend": "jax"}, "no parameter servers here: jax.distributed has collectives only"),
        "",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_the_line(name: str) -> None:
    function, how, words, line = WRONG[name]
    with pytest.raises(ClusterError, match=words) as found:
        one = programs(function, WORKERS, **{"servers": 1, **how})
        for task in tasks(one):
            Running(one, task, X)
    if line:
        numbers = [k + 1 for k, text in enumerate(Path(__file__).read_text().splitlines()) if line in text]
        said = [int(part.split(")")[0].split(",")[0]) for part in str(found.value).split("test_cluster_parts.py:")[1:]]
        assert set(said) & set(numbers), f"{found.value}: none of the lines {numbers}"


@pytest.mark.parametrize("steps", [0, -1, True, 1.5, "3"])
def test_a_job_takes_a_step_at_least(steps: Any) -> None:
    with pytest.raises(ClusterError, match="a whole number from 1 up is needed"):
        xb.job(steps=steps)(lambda task: 1.0)
    with pytest.raises(ClusterError, match=r"is no function: xb\.job is of one"):
        xb.job(steps)


def test_what_is_no_array_is_no_data() -> None:
    @xb.job
    def job(task: Any, x: Any) -> Any:
        return x

    job.data(lambda task, number: [[[1.0], [1.0, 2.0]]])
    with pytest.raises(xb.errors.XBackendError, match="array 0 of the data of /job:worker/task:0 for step 7"):
        job.arrays(Task("worker", 0, 1), 7)
