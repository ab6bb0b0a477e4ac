"""Each model on each backend: compared, then timed in turn with the others."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import xbackend as xb
from xbackend.backends.contract import Settings
from xbackend.workers.remote import RemoteBackend
from xbackend.workloads.agreement import Agreement, Verified, verified

RESULTS = "results.jsonl"
TOLERANCE = 1e-8  # of the largest number
MARGIN = 100  # times the change of a gradient by one change of the input's last digits: it is determined no better
AT_ONCE = 2  # backends compile at the same time; calls are timed one at a time
ROUNDS = 20  # each is timed so often, in turn with the others
ENOUGH = 20.0  # seconds: what has been timed for so long is not timed again
MODULES = {"pymc_models": str(Path(__file__).parent)}


def run(folder: Path, backends: Sequence[str], limit: float, only: Sequence[str] | None, gradients: bool) -> None:
    """Compare each model on each backend, if that was not done before, then time the backends in turn. ``gradients``: a
    log-density that has a gradient is compiled with it only, which halves the time where compiling is slow."""
    there = {(one["model"], one["backend"]) for one in results(folder)}
    models = [place for place in sorted(folder.iterdir()) if (place / "own.npz").is_file()]
    opened: dict[str, RemoteBackend] = {}
    try:
        for place in models:
            missing = [backend for backend in backends if (place.name, backend) not in there]
            if missing and not (only and place.name not in only):
                _of_model(place, missing, opened, limit, gradients)
    finally:
        for each in opened.values():
            each.close()


def _of_model(
    place: Path, backends: Sequence[str], opened: dict[str, RemoteBackend], limit: float, gradients: bool
) -> None:
    """Compare a model on backends, time it on them in turn, and store each result."""
    program = xb.Program.from_json((place / "program.json").read_text())
    with np.load(place / "own.npz") as file:
        held = dict(file)
    found: dict[str, dict[str, Any]] = {backend: {"model": place.name, "backend": backend} for backend in backends}
    calls: dict[str, dict[str, Call]] = {}

    def compiled(backend: str) -> None:
        with _failing(found[backend], backend, opened):
            if backend not in opened:
                opened[backend] = RemoteBackend(backend, Settings(1, None, 1), limit=limit, modules=MODULES)
            calls[backend] = _compared(opened[backend], program, held, gradients, found[backend])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(compiled, backends))  # raises what is no error of a backend
    _take_turns({backend: calls[backend] for backend in backends if backend in calls}, found, opened)
    with (place.parent / RESULTS).open("a") as file:
        for one in found.values():
            file.write(json.dumps(one) + "\n")
            print(json.dumps(one), flush=True)


def _take_turns(
    calls: dict[str, dict[str, Call]], found: dict[str, dict[str, Any]], opened: dict[str, RemoteBackend]
) -> None:
    """Time the calls of all backends in turn. ``found`` gets the seconds of a call in each round."""
    rounds: dict[tuple[str, str], list[float]] = {(backend, name): [] for backend in calls for name in calls[backend]}
    for _ in range(ROUNDS):
        for (backend, name), seconds in rounds.items():
            if "error" in found[backend] or sum(seconds) > ENOUGH:
                continue
            with _failing(found[backend], backend, opened):
                call = calls[backend][name]
                taken = opened[backend].call("pymc_models.timed:timed", call.made, call.point, call.iterations)
                seconds.append(taken / call.iterations)
    for (backend, name), seconds in rounds.items():
        if "error" not in found[backend]:
            found[backend][f"{name}: call"] = seconds


@contextmanager
def _failing(found: dict[str, Any], backend: str, opened: dict[str, RemoteBackend]) -> Iterator[None]:
    """An error of a backend is its result, and ends its process."""
    try:
        yield
    except xb.errors.XBackendError as error:
        found["error"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        if backend in opened:
            opened.pop(backend).close()


@dataclass(frozen=True)
class Call:
    """A compiled log-density, with or without its gradient, and its argument."""

    made: Any
    point: np.ndarray
    iterations: int  # of a round


def _compared(
    opened: RemoteBackend, program: xb.Program, held: dict[str, np.ndarray], gradients: bool, found: dict[str, Any]
) -> dict[str, Call]:
    """What is to be timed, by its name. ``found`` gets whether a model's numbers are PyTensor's own, how far they are
    off, and the seconds to compile."""
    points = [array for key, array in sorted(held.items()) if key.startswith("point")]
    found["free"] = points[0].size
    calls: dict[str, Call] = {}

    def built(function: Any, name: str) -> Any:
        begun = time.perf_counter()
        made = opened.compile(function, points[0])
        made(points[0])
        found[f"{name}: compile"] = time.perf_counter() - begun
        iterations = opened.call("pymc_models.timed:calibrated", made, points[0])
        calls[name] = Call(made, points[0], iterations)
        return made

    each = []
    if "slopes0" not in held or not gradients:
        value = built(program.__call__, "value")
        each += [verified(value(point), held[f"own{k}"], TOLERANCE) for k, point in enumerate(points)]
    if "slopes0" in held:
        both = built(lambda theta: (own := program(theta), xb.grad(own, theta)), "gradient")
        for k, point in enumerate(points):
            value, slopes = both(point)
            each.append(verified(value, held[f"own{k}"], TOLERANCE))
            if np.isfinite(held[f"own{k}"]):  # elsewhere the gradient is nobody's
                each.append(_slopes(slopes, held[f"slopes{k}"], float(held[f"near{k}"])))
    worst = max(each, key=lambda one: (list(Agreement).index(one.agreement), one.error or 0.0))
    found |= {"agreement": worst.agreement, "off": worst.error, "why": worst.reason}
    return calls


def _slopes(found: Any, own: Any, near: float) -> Verified:
    plain = verified(found, own, TOLERANCE)
    if plain.agreement is Agreement.DIFFERS and plain.error is not None and plain.error <= MARGIN * near:
        return verified(found, own, TOLERANCE, undetermined=f"the last digits of the input move it by {near:.1e}")
    return plain


def results(folder: Path) -> Iterator[dict[str, Any]]:
    """The results so far."""
    if (folder / RESULTS).is_file():
        yield from map(json.loads, (folder / RESULTS).read_text().splitlines())
