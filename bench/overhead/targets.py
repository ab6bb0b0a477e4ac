"""The figures that xbackend sets itself, with their limits: measured, and shown whether they are reached or not.

Ratios are of two things measured in turn in the same process; intervals are bootstrapped over fresh processes.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

import numpy as np

from overhead import MODULES, handwritten
from overhead.figure import Figure
from xbackend import cores, environments
from xbackend.backends import registry
from xbackend.errors import XBackendError
from xbackend.measure.worker import Worker, open_worker

CALL_LIMIT = 0.5  # our call on 2x2 arrays over the hand-written one
POWERS_LIMIT = 1.02  # our A^10 + B^10 at 1024 over the hand-written one
CHAIN_LIMIT = 1.0  # our chain of 100 element-by-element operations over the same function on NumPy's arrays
BLAS_LIMIT = 0.9  # our rate at 2048 over the BLAS's called directly
IMPORT_LIMIT = 0.030  # seconds over Python's own start
TRACING_LIMIT = 0.5  # seconds for 10 000 nodes
GROWTH_LIMIT = 2.5  # 20 000 nodes over 10 000: 2 is linear, the rest is noise
QUICK_LIMIT = 90.0  # seconds

SIZE_OF_POWERS, SIZE_OF_BLAS = 1024, 2048
DRAWS = 2000
KNOWN = 0.02  # half of the interval of a ratio over it: a wider one does not tell a ratio from its limit
SUITE_LIMIT = 1.02  # our workload of the suite over the same as users of the framework write it, from `TAKES` on
TAKES = 1e-3  # seconds
LOOP_LIMIT = 1.02  # our loop of 10 000 small steps over the framework's own
STEP_LIMIT = 1.02  # our step of training over the one by hand
IMPORTED_LIMIT = 1.02  # a brought graph over the framework's own compiled function of it
BUILDING_LIMIT = 1.1  # ours over the framework's graph of 5 000 operations built by hand, to the first result

OF_SUITE = {name: f"{name} by hand" for name in handwritten.SUITE}
IMPORTED = {name: f"{name} imported" for name in ("nbody", "radon")}
BY_HAND = (
    "product",
    "powers",
    "loop",
    "building",
    "step",
    *OF_SUITE.values(),
    *IMPORTED.values(),
)  # the parts that need a hand-written version
USUAL = ("product", "powers", "blas")  # those of every backend
CHAINS = {4096: "chain of 4096", 65536: "chain of 65536"}  # elements


def parts(quick: bool) -> dict[str, tuple[str, dict[str, Any]]]:
    """The requests to a worker: a function and its job, by the name of the part."""
    tax, blas = "overhead.calls:tax", "overhead.calls:blas"
    chain, sizes = "overhead.calls:chain", {"rounds": 40 if quick else 100, "round_seconds": 0.02}
    suite = {"rounds": 20 if quick else 60, "round_seconds": 0.02}
    return {
        **{
            part: ("overhead.calls:of_suite", {"workload": name, "parameters": handwritten.SUITE[name], **suite})
            for name, part in OF_SUITE.items()
        },
        **{
            part: ("overhead.calls:imported", {"workload": name, "parameters": handwritten.SUITE[name], **suite})
            for name, part in IMPORTED.items()
        },
        **{name: (chain, {"size": size, **sizes}) for size, name in CHAINS.items()},
        "loop": ("overhead.calls:loop", {"steps": 10_000, "rounds": 10 if quick else 40, "round_seconds": 0.05}),
        "step": (
            "overhead.calls:step",
            {"batch": 32, "widths": (64, 32, 10), "rounds": 40 if quick else 200, "round_seconds": 0.02},
        ),
        "building": ("overhead.calls:building", {"layers": 200 if quick else 1000, "rounds": 2 if quick else 5}),
        "product": (tax, {"size": 2, "n": 1, "rounds": 40 if quick else 200, "round_seconds": 0.005}),
        "powers": (tax, {"size": SIZE_OF_POWERS, "n": 10, "rounds": 5 if quick else 15, "round_seconds": 0.0}),
        "blas": (blas, {"size": SIZE_OF_BLAS, "rounds": 7 if quick else 20}),
    }


@dataclass
class Collected:
    """The answers of one backend's processes for each part, or why there are none."""

    backend: str
    found: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def pairs(self, part: str) -> list[tuple[list[float], list[float]]]:
        """Our seconds and theirs, a pair of lists for each process."""
        if part == "blas":
            return [(f["ours"], fastest(f["libraries"])["seconds"]) for f in self.found.get(part, []) if f["libraries"]]
        return [(f["ours"], f["by_hand"]) for f in self.found.get(part, [])]


def fastest(libraries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The library of the shortest median."""
    return min(libraries, key=lambda library: median(library["seconds"]))


def collect(
    backends: Iterable[str],
    *,
    wanted: Iterable[str] = USUAL,
    processes: int = 1,
    quick: bool = True,
    threads: int | None = None,
    seed: int = 0,
    limit: float | None = 600.0,
    on_progress: Callable[[str], None] = lambda _: None,
    opener: Callable[..., Worker] = open_worker,
) -> dict[str, Collected]:
    """Ask fresh processes, backends in shuffled blocks. A failure becomes a reason, and the rest goes on."""
    from xbackend.measure.runner import shuffler

    collected = {name: Collected(name) for name in backends}
    jobs = {name: job for name, job in parts(quick).items() if name in set(wanted)}
    shuffle = shuffler(seed)
    plan = [name for _ in range(processes) for name in shuffle(list(collected))]
    for number, name in enumerate(plan):
        on_progress(f"[{number + 1}/{len(plan)}] figures of {name}: {', '.join(jobs)}")
        try:
            worker = opener(
                name, threads=threads or cores.count(), limit=limit, on_progress=on_progress, modules=MODULES
            )
        except XBackendError as error:
            collected[name].reasons.update(dict.fromkeys(jobs, str(error)))
            continue
        with worker.backend:
            _ask(worker, collected[name], jobs)
    return collected


def written(part: str, backend: str) -> bool:
    """Whether the hand-written version that a part needs exists for a backend's framework."""
    return handwritten.exists(registry.get(backend), part.removesuffix(" by hand").removesuffix(" imported"))


def _ask(worker: Worker, collected: Collected, jobs: dict[str, tuple[str, dict[str, Any]]]) -> None:
    for part, (function, job) in jobs.items():
        if part in BY_HAND and not written(part, collected.backend):
            collected.reasons[part] = (
                "it has no hand-written version: there is no such framework, or it cannot be written"
            )
            continue
        try:
            collected.found.setdefault(part, []).append(worker.call(function, job))
        except XBackendError as error:
            collected.reasons[part] = str(error)


def ratio(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], seed: int = 0) -> tuple[float, list[float]]:
    """Median over processes of (median of the first / median of the second), and its 95 % bootstrap interval.

    Processes are drawn with replacement, and within each its pairs of rounds. With one process the interval says
    nothing about differences between processes.
    """
    value = median([median(a) / median(b) for a, b in pairs])
    generator = np.random.default_rng(seed)
    arrays = [np.array([a, b]) for a, b in pairs]
    drawn = []
    for _ in range(DRAWS):
        ratios = []
        for k in generator.integers(len(arrays), size=len(arrays)):
            sample = arrays[k][:, generator.integers(arrays[k].shape[1], size=arrays[k].shape[1])]
            first, second = np.median(sample, axis=1)
            ratios.append(first / second)
        drawn.append(float(np.median(ratios)))
    return value, [float(q) for q in np.quantile(drawn, [0.025, 0.975])]


_RATIOS: dict[str, tuple[str, str, float | None, Literal["at most", "at least"]]] = {
    **{
        part: ("suite by hand", f"{name} over the version written by hand", SUITE_LIMIT, "at most")
        for name, part in OF_SUITE.items()
    },
    **{
        part: ("imported", f"{name} as it came in over the framework's own function", IMPORTED_LIMIT, "at most")
        for name, part in IMPORTED.items()
    },
    "product": ("framework tax", "a call on 2x2 arrays over the call written by hand", CALL_LIMIT, "at most"),
    "powers": ("framework tax", "A^10 + B^10 at 1024x1024 over the version written by hand", POWERS_LIMIT, "at most"),
    **{
        name: ("framework tax", f"100 operations on {size} elements over plain NumPy", CHAIN_LIMIT, "at most")
        for size, name in CHAINS.items()
    },
    "loop": ("framework tax", "a loop of 10 000 small steps over the version written by hand", LOOP_LIMIT, "at most"),
    "step": ("framework tax", "a step of training at batch 32 over the one by hand", STEP_LIMIT, "at most"),
    "building": (
        "framework tax",
        "operations to their first result, over a graph by hand",
        BUILDING_LIMIT,
        "at most",
    ),
    "blas": ("blas", "rate at 2048x2048 over that of the BLAS called directly", BLAS_LIMIT, "at least"),
}


def figure(part: str, collected: Collected) -> Figure:
    """The figure of a part for one backend; without a value and with the reason where it was not measured."""
    group, name, limit, relation = _RATIOS[part]
    pairs = collected.pairs(part)
    common: dict[str, Any] = {"group": group, "name": name, "subject": collected.backend, "unit": "ratio"}
    if not pairs or part in collected.reasons:
        reason = collected.reasons.get(part, "there is no BLAS in its process that can be called directly")
        return Figure(**common, value=None, limit=limit, relation=relation, reason=reason)
    # A rate is the inverse of seconds: theirs over ours is our rate over theirs.
    value, interval = ratio([(b, a) for a, b in pairs] if part == "blas" else pairs)
    detail: dict[str, Any] = {
        "interval": interval,
        "processes": len(pairs),
        "rounds": len(pairs[0][0]),
        "foreign_cores": max(found["foreign_cores"] for found in collected.found[part]),
        "ours": median([median(a) for a, _ in pairs]),
        "theirs": median([median(b) for _, b in pairs]),
        "fastest_ours": min(min(a) for a, _ in pairs),
        "fastest_theirs": min(min(b) for _, b in pairs),
    }
    if part in (*OF_SUITE.values(), *IMPORTED.values()) and detail["theirs"] < TAKES:
        limit = None  # in shorter ones the cost of a call dominates
    again = [(f["again"], f["by_hand"]) for f in collected.found[part] if "again" in f]
    if again:
        detail |= dict(zip(("by_hand_over_itself", "its_interval"), ratio(again), strict=True))
        known = interval[1] - interval[0] <= 2 * KNOWN * value
        detail["known"] = "yes" if known else f"not known to {KNOWN:.0%}"
    return Figure(**common, value=value, limit=limit, relation=relation, detail=detail)


def rate_figure(collected: Collected, machine_best: float | None = None) -> Figure:
    """The backend's rate at 2048, beside the libraries called directly and the machine's best. It has no limit."""
    common: dict[str, Any] = {"group": "blas", "name": "rate at 2048x2048", "unit": "GFLOP/s"}
    found = collected.found.get("blas", [])
    if not found:
        return Figure(**common, subject=collected.backend, value=None, reason=collected.reasons.get("blas", ""))
    rates: dict[str, list[float]] = {}
    threads: dict[str, int] = {}
    for library in (library for f in found for library in f["libraries"]):
        rates.setdefault(library["file"], []).append(_rate(library["seconds"]) / 1e9)
        threads[library["file"]] = library["threads"]
    own = median([_rate(f["ours"]) for f in found])
    detail: dict[str, Any] = {"of_machine_best": own / machine_best if machine_best else None}
    detail.update({f"{file} ({threads[file]} threads)": median(r) for file, r in rates.items()})
    return Figure(**common, subject=collected.backend, value=own / 1e9, detail=detail)


def _rate(seconds: Sequence[float]) -> float:
    return 2.0 * SIZE_OF_BLAS**3 / median(seconds)


def best_rate(collected: Iterable[Collected]) -> tuple[float, str] | None:
    """The machine's best rate at 2048 (operations per second) and who reached it: a backend, or a BLAS beside it."""
    rates = []
    for one in collected:
        for found in one.found.get("blas", []):
            rates.append((_rate(found["ours"]), one.backend))
            rates += [(_rate(x["seconds"]), f"{x['file']}, called directly") for x in found["libraries"]]
    return max(rates, default=None)


def machine_figure(collected: Iterable[Collected]) -> Figure:
    """The machine's best rate of all, in GFLOP/s; it has no limit."""
    best = best_rate(collected)
    rate, who = best if best else (None, "")
    return Figure(
        group="blas",
        name="the machine's best rate at 2048x2048",
        subject=who or "this machine",
        value=rate / 1e9 if rate else None,
        unit="GFLOP/s",
        reason="" if rate else "no BLAS was measured",
    )


def import_seconds(repeats: int = 15) -> tuple[list[float], list[float]]:
    """Seconds of ``python -c 'import xbackend'`` and of ``python -c pass``, in turn."""

    def start(code: str) -> float:
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - begun

    start("import xbackend")  # compiles the bytecode
    pairs = [(start("import xbackend"), start("pass")) for _ in range(repeats)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def import_figure(ours: Sequence[float], bare: Sequence[float]) -> Figure:
    """What ``import xbackend`` adds to Python's own start."""
    generator = random.Random(0)
    pairs = list(zip(ours, bare, strict=True))
    draws = []
    for _ in range(DRAWS):
        sample = generator.choices(pairs, k=len(pairs))
        draws.append(median([a for a, _ in sample]) - median([b for _, b in sample]))
    interval = [float(q) for q in np.quantile(draws, [0.025, 0.975])]
    return Figure(
        group="import",
        name="import xbackend over Python's own start",
        subject="xbackend",
        value=median(ours) - median(bare),
        unit="s",
        limit=IMPORT_LIMIT,
        detail={"interval": interval, "with": median(ours), "without": median(bare), "repeats": len(pairs)},
    )


def tracing_seconds(repeats: int = 7) -> tuple[list[float], list[float]]:
    """Seconds of tracing programs of 10 000 and of 20 000 nodes, in turn."""
    from xbackend.api.functions import tanh
    from xbackend.api.tracing.trace import ArraySpec, trace
    from xbackend.program.dtypes import DType

    def program(x: Any, nodes: int) -> Any:
        for _ in range(nodes // 2):
            x = tanh(x + x)
        return x

    def once(nodes: int) -> float:
        start = time.perf_counter()
        trace(program, ArraySpec((2, 2), DType.float32), nodes=nodes)
        return time.perf_counter() - start

    once(10_000)
    pairs = [(once(10_000), once(20_000)) for _ in range(repeats)]
    return [a for a, _ in pairs], [b for _, b in pairs]


def tracing_figures(at_10000: Sequence[float], at_20000: Sequence[float]) -> list[Figure]:
    """Tracing 10 000 nodes, and how it grows from there."""
    growth, interval = ratio([(at_20000, at_10000)])
    detail = {"at_10000": median(at_10000), "at_20000": median(at_20000), "repeats": len(at_10000)}
    return [
        Figure(
            group="tracing",
            name="tracing 10 000 nodes",
            subject="xbackend",
            value=median(at_10000),
            unit="s",
            limit=TRACING_LIMIT,
            detail=detail,
        ),
        Figure(
            group="tracing",
            name="20 000 nodes over 10 000 (2 is linear)",
            subject="xbackend",
            value=growth,
            unit="ratio",
            limit=GROWTH_LIMIT,
            detail={"interval": interval, **detail},
        ),
    ]


def install(backends: Iterable[str], on_progress: Callable[[str], None]) -> None:
    """Make the environments of these backends that are not there. Raises `EnvironmentFailed`."""
    for name in dict.fromkeys(registry.get(backend).environment for backend in backends):
        if environments.get(name).state != "ready":
            environments.sync(name, on_progress)


def quick_comparison(seconds: float | None, processes: int, tasks: int) -> Figure:
    """How long a quick comparison of all backends took, their environments being there."""
    return Figure(
        group="compare",
        name="quick comparison of all backends",
        subject="xbackend",
        value=seconds,
        unit="s",
        limit=QUICK_LIMIT,
        detail={"backends": len(registry.names()), "processes": processes, "parameters": tasks, "cores": cores.count()},
    )
