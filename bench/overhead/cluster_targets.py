"""The figures of clusters with their limits: ours against the engines used by hand and against TensorFlow's
strategies, one graph against several, bytes, start and weights.

Both sides of a ratio run in turn, each in processes of its own, a core each; a pair of runs counts as one process in
the ratio's interval.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from overhead import cluster_jobs as jobs
from overhead import clusters
from overhead.asking import Part, measure
from overhead.clusters import Case, Run
from overhead.figure import Figure
from overhead.targets import ratio
from xbackend.backends import registry
from xbackend.cluster.programs import Programs, WorkerProgram
from xbackend.engines.registry import of
from xbackend.engines.spec import local
from xbackend.errors import ClusterError
from xbackend.wording import counted
from xbackend.workloads.agreement import relative_error

GROUP = "clusters"
Extent = tuple[int, int]  # pairs of runs, and steps of each
LIMIT = 1.05  # our step over that by hand
EXACT = {"float32": 1e-5, "float64": 1e-10}  # largest error of weights against those of one process
REPLICAS = (1, 2, 4)
FILES = {"mpi": "with_mpi.py", "jax": "with_jax.py", "tensorflow": "with_tensorflow.py"}
# Workers and servers: one worker beside a server, so that each process has one of two cores.
TASKS = {"add_rank": (1, 1), "mirrored": (2, 0), "served": (1, 1)}
NAMES = {"add_rank": "P7, adding to a server's number", "mirrored": "P10, mirrored", "served": "P10, served"}
# How the side by hand gets its gradients, a name of `handwritten.cluster.slopes`, and the limit of the ratio.
SLOPES: dict[str, dict[str, float | None]] = {
    "numpy": {"autograd": LIMIT, "written out": None},
    "pytensor": {"pytensor": LIMIT},
}
ADDS = "ours counts each update, writes down what it was computed from, and loses none"
DIFFERS = {
    ("mpi", "add_rank"): f"by hand MPI's own lock of the window; {ADDS}",
    ("mpi", "mirrored"): "by hand one call for the gradients, one Allreduce, and the update in NumPy",
    ("mpi", "served"): f"by hand one call for the gradients, MPI's own lock, and the update in NumPy; {ADDS}",
    ("jax", "mirrored"): "by hand one jitted step with four reductions in it, shares filled up to be equal; ours in "
    "three parts, one reduction between them, shares as they are",
    ("tensorflow", "add_rank"): f"by hand assign_add, which counts nothing; {ADDS}",
    ("tensorflow", "mirrored"): "by hand one graph with one collective in a session; ours one function with one "
    "collective in the eager runtime",
    ("tensorflow", "served"): f"by hand MomentumOptimizer without a lock, whose updates can be lost; {ADDS}",
}


def extent(quick: bool, processes: int) -> Extent:
    """Pairs of runs, and steps of each. Quick, they are two, or one where one process was asked for."""
    return (min(2, processes), 200) if quick else (10, 500)


def pairs(ours: Sequence[Run], theirs: Sequence[Run]) -> list[tuple[list[float], list[float]]]:
    """The seconds of steps of all workers, of our run beside theirs, as many of each."""
    made = []
    for one, other in zip(ours, theirs, strict=True):
        sides = [[second for own in run.seconds for second in own] for run in (one, other)]
        count = min(map(len, sides))
        made.append((sides[0][:count], sides[1][:count]))
    return made


def against(
    subject: str, what: str, ours: Sequence[Run], theirs: Sequence[Run], *, limit: float | None, **detail: Any
) -> Figure:
    """The median step of ours over theirs."""
    if any(len(run.seconds[0]) < 2 for run in (*ours, *theirs)):
        return Figure(group=GROUP, name=what, subject=subject, value=None, unit="ratio", reason="too few steps")
    value, interval = ratio(pairs(ours, theirs))
    seconds = {
        f"{side}_{name}": median(of_run(run) for run in runs)
        for side, runs in (("ours", ours), ("theirs", theirs))
        for name, of_run in (("seconds", step), ("start_seconds", lambda run: run.start))
    }
    return Figure(
        group=GROUP,
        name=what,
        subject=subject,
        value=value,
        unit="ratio",
        limit=limit,
        detail={"interval": interval, **seconds, "runs": len(ours), **detail},
    )


def step(run: Run) -> float:
    """Median seconds of a step, of the slowest worker."""
    return max(median(own) for own in run.seconds)


def difference(found: dict[str, np.ndarray] | Any, expected: dict[str, np.ndarray]) -> float:
    """The largest relative error over all arrays."""
    return max(relative_error(np.asarray(found[name]), expected[name]) for name in expected)


def elementwise(found: dict[str, np.ndarray] | Any, expected: dict[str, np.ndarray]) -> float:
    """The largest difference of an element over that element, of all arrays (rtol where atol is 0)."""

    def apart(own: Any, other: np.ndarray) -> float:
        differs = np.asarray(own) != other
        with np.errstate(divide="ignore"):
            each = np.abs(np.asarray(own)[differs] - other[differs]) / np.abs(other[differs])
        return float(each.max(initial=0.0))

    return float(np.max([apart(found[name], expected[name]) for name in expected]))


def copies_differ(run: Run) -> bool:
    """Whether the workers' copies are not equal to the bit."""
    return any(own[name].tobytes() != value.tobytes() for own in run.copies for name, value in run.weights.items())


def by_hand(backend: str, program: str, extent: Extent, say: Callable[[str], None]) -> tuple[list[Figure], list[Run]]:
    """Ours against the engine used by hand, with each of its ways to gradients; and our runs."""
    (repeats, steps), engine = extent, engine_of(backend)
    case = Case(backend, program, *TASKS[program], steps)
    ways: Mapping[str, float | None] = {} if program == "add_rank" else SLOPES.get(backend, {})
    ways = ways or {"": LIMIT}

    def own() -> Run:
        say(f"{backend}: {NAMES[program]}")
        return clusters.ours(case)

    def other(way: str) -> Run:
        say(f"{backend}: {NAMES[program]}, by hand{_gradients(way)}")
        return clusters.by_hand(FILES[engine], case, slopes=way)

    ours, *others = clusters.in_turn([own, *(partial(other, way) for way in ways)], repeats)
    expected = case.weights()
    figures = [
        against(
            backend,
            f"{NAMES[program]}: a step over that of {of(backend).summary} by hand{_gradients(way)}",
            ours,
            theirs,
            limit=limit,
            what_differs=DIFFERS[engine, program],
            difference=difference(ours[0].weights, expected),
            difference_by_hand=difference(theirs[0].weights, expected),
        )
        for (way, limit), theirs in zip(ways.items(), others, strict=True)
    ]
    return figures, ours


def _gradients(way: str) -> str:
    return f", gradients {way}" if way == "written out" else f", gradients by {way}" if way else ""


def engine_of(backend: str) -> str:
    return registry.get(backend).engines[0]


def strategies(program: str, extent: Extent, say: Callable[[str], None]) -> tuple[list[Figure], list[Run]]:
    """TensorFlow's own strategy for a program by hand, on two workers, beside ours with the same strategy as engine,
    and beside ours with its servers and sessions."""
    repeats, steps = extent
    backend, servers = "tensorflow", int(program == "served")
    case = Case(backend, program, 2, servers, steps)
    name = "ParameterServerStrategy with its coordinator" if servers else "MultiWorkerMirroredStrategy (RING)"
    engines = {"tensorflow": "sessions", "coordinator" if servers else "multi-worker-mirrored": "the strategy"}

    def own(engine: str) -> Callable[[], Run]:
        def run() -> Run:
            say(f"{backend}: {NAMES[program]}, two workers, by {engines[engine]}")
            return clusters.ours(replace(case, engine=engine), pinned=not servers)

        return run

    def other() -> Run:
        say(f"{backend}: {NAMES[program]}, {name}, by hand")
        return clusters.by_hand("with_strategies.py", case, chief=bool(servers))

    *each, theirs = clusters.in_turn([*map(own, engines), other], repeats)
    expected = case.weights(in_turn=False)
    told = (
        "asynchronous: the weights depend on who came first; theirs is the time of an epoch over its steps; no process "
        "is pinned, as their coordinator waits for ever on one core"
        if servers
        else "Keras has the rate in float32"
    )
    figures = [
        against(
            backend,
            f"{NAMES[program]}: a step by {way} over that under {name} by hand",
            ours,
            theirs,
            limit=LIMIT if way == "the strategy" else None,
            what_differs=told,
            difference=difference(ours[0].weights, expected),
            difference_of_theirs=difference(theirs[0].weights, expected),
        )
        for way, ours in zip(engines.values(), each, strict=True)
    ]
    return figures, each[0]


def growth(backend: str, extent: Extent, say: Callable[[str], None]) -> tuple[list[Figure], list[Run]]:
    """For each number of replicas: one graph with all of them, against as many processes with a graph each."""
    repeats, steps = extent
    figures, runs = [], []
    for count in REPLICAS if repeats > 1 else REPLICAS[:2]:
        say(f"{backend}: {counted(count, 'replica')} in one graph, and in {counted(count, 'process', 'processes')}")
        case = Case(backend, "mirrored", count, 0, steps)
        inside = _in_graph(backend, count, steps)
        begun = time.perf_counter()
        first, *_ = _traced(backend, count)
        traced = time.perf_counter() - begun
        between = clusters.ours(case, pinned=count <= 2)
        detail = {
            "nodes_in_one_graph": inside["nodes"],
            "nodes_of_a_process": len(first.program.values),
            "build_seconds_in_one_graph": inside["build"],
            "build_seconds_of_processes": traced + between.build,
            "difference": difference(between.weights, case.weights()),
        }
        timed = count <= 2
        runs.append(between)
        if timed:
            detail |= {"step_in_one_graph": median(inside["seconds"]), "step_of_processes": step(between)}
        else:
            detail["step"] = "not measured: there are two cores"
        figures.append(
            Figure(
                group=GROUP,
                name=f"P10, mirrored, {counted(count, 'replica')}: nodes of one graph with all over those of a process",
                subject=backend,
                value=inside["nodes"] / detail["nodes_of_a_process"],
                unit="ratio",
                detail=detail,
            )
        )
        if timed:
            name = f"P10, mirrored, {counted(count, 'replica')}: a step of processes over one of one graph with all"
            value = step(between) / median(inside["seconds"])
            figures.append(Figure(group=GROUP, name=name, subject=backend, value=value, unit="ratio", detail=detail))
    return figures, runs


def _traced(backend: str, workers: int) -> list[WorkerProgram]:
    """The programs of all workers of P10, mirrored."""
    spec = local(workers, 0)
    made = Programs(
        jobs.job("mirrored", "float64"), spec, of(backend), asynchronous=False, guard=lambda _: nullcontext()
    )
    return [made.of(task, made.arrays(task, 0)) for task in spec.tasks]


def moved(backend: str, say: Callable[[str], None]) -> tuple[list[Figure], list[Run]]:
    """Bytes of a step over those that any exchange needs: for a server the weights pulled and the gradients pushed; for
    an all-reduce the gradients, the loss and the number of rows (a ring sends 2 (n - 1) / n of them)."""
    figures, runs = [], []
    size = sum(array.nbytes for array in jobs.zeros("float64").values())
    if not of(backend).no_servers:
        say(f"{backend}: bytes of P10, served")
        steps = 50
        run = clusters.ours(Case(backend, "served", 1, 1, steps))
        runs.append(run)
        each = {what: count / (steps + clusters.WARM) for what, count in run.moved.items()}
        needed = {"pulled": size, "pushed": size}
        figures.append(_bytes(backend, "P10, served", each, needed))
    first, *_ = _traced(backend, 2)
    nodes = [n for n in first.program.values if n.op == "all_reduce" and n.params["tasks"] > 1]
    reduced = sum(math.prod(node.shape) * np.dtype(node.dtype.value).itemsize for node in nodes)
    figures.append(_bytes(backend, "P10, mirrored", {"reduced": reduced}, {"reduced": size + 16}))
    return figures, runs


def _bytes(backend: str, name: str, each: Mapping[str, float], needed: Mapping[str, int]) -> Figure:
    value = sum(each.values()) / sum(needed.values())
    detail = {**each, **{f"{what}_needed": count for what, count in needed.items()}}
    what = f"{name}: bytes of a step over those needed"
    return Figure(group=GROUP, name=what, subject=backend, value=value, unit="ratio", detail=detail)


def scaling(backend: str, extent: Extent, say: Callable[[str], None]) -> tuple[list[Figure], list[Run]]:
    """A step of two workers over that of one, a core each, and the seconds to the end of the first step."""
    repeats, steps = extent

    def run(workers: int) -> Run:
        say(f"{backend}: P10, mirrored, {counted(workers, 'worker')}")
        return clusters.ours(Case(backend, "mirrored", workers, 0, steps))

    one, two = clusters.in_turn([lambda: run(1), lambda: run(2)], repeats)
    figures = [against(backend, "P10, mirrored: a step of two workers over one of one", two, one, limit=None)]
    name = "P10, mirrored: from the start to the end of the first step, two workers"
    starts = [run.start for run in two]
    detail = {"one_worker": median(run.start for run in one), "runs": repeats}
    figures.append(Figure(group=GROUP, name=name, subject=backend, value=median(starts), unit="s", detail=detail))
    return figures, two


def exact(case: Case, say: Callable[[str], None]) -> tuple[Figure, Run]:
    """The difference of the weights from those of one process, for tasks in step with uneven shares."""
    name = f"{NAMES[case.program]}: {case.dtype} weights from those of one process, {counted(case.workers, 'worker')}"
    say(f"{case.backend}: {name}")
    run, expected = clusters.ours(case, asynchronous=False, pinned=case.workers + case.servers <= 2), case.weights()
    figure = Figure(
        group=GROUP,
        name=name,
        subject=case.backend,
        value=difference(run.weights, expected),
        unit="",
        limit=EXACT[case.dtype],
        detail={
            "copies_equal_to_the_bit": case.program != "mirrored" or not copies_differ(run),
            "of_an_element": elementwise(run.weights, expected),
        },
    )
    return figure, run


def _in_graph(backend: str, replicas: int, steps: int) -> dict[str, Any]:
    """The answer of `cluster_replicas.replicas`."""
    pinned = replicas <= 2
    part = Part(
        "overhead.cluster_replicas:replicas", replicas, None if pinned else 1, {"steps": steps}, 1 if pinned else None
    )
    found = measure(backend, "replicas in one graph", part)
    if isinstance(found, str):
        raise ClusterError(found)
    return found
