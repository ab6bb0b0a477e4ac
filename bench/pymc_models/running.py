"""Each model on each backend, compared and timed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
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
MODULES = {"pymc_models": str(Path(__file__).parent)}


def run(folder: Path, backends: Sequence[str], limit: float, only: Sequence[str] | None, gradients: bool) -> None:
    """Compare and time each model on each backend, if that was not done before. ``gradients``: a log-density that has a
    gradient is compiled with it only, which halves the time where compiling is slow."""
    there = {(one["model"], one["backend"]) for one in results(folder)}
    models = [place for place in sorted(folder.iterdir()) if (place / "own.npz").is_file()]
    for backend in backends:
        opened: RemoteBackend | None = None
        for place in models:
            if (place.name, backend) in there or (only and place.name not in only):
                continue
            opened = opened or RemoteBackend(backend, Settings(1, None, 1), limit=limit, modules=MODULES)
            found: dict[str, Any] = {"model": place.name, "backend": backend}
            try:
                found |= _compared(opened, place, gradients)
            except xb.errors.XBackendError as error:
                found["error"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
                opened.close()
                opened = None
            with (folder / RESULTS).open("a") as file:
                file.write(json.dumps(found) + "\n")
            print(json.dumps(found), flush=True)
        if opened is not None:
            opened.close()


def _compared(opened: RemoteBackend, place: Path, gradients: bool) -> dict[str, Any]:
    """Whether a model's numbers are PyTensor's own, how far they are off, and its times in seconds."""
    program = xb.Program.from_json((place / "program.json").read_text())
    with np.load(place / "own.npz") as file:
        held = dict(file)
    points = [array for key, array in sorted(held.items()) if key.startswith("point")]
    found: dict[str, Any] = {"free": points[0].size}

    def built(function: Any, name: str) -> Any:
        begun = time.perf_counter()
        made = opened.compile(function, points[0])
        made(points[0])
        found[f"{name}: compile"] = time.perf_counter() - begun
        found[f"{name}: call"] = opened.call("pymc_models.timed:timed", made, points[0])
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
    return {**found, "agreement": worst.agreement, "off": worst.error, "why": worst.reason}


def _slopes(found: Any, own: Any, near: float) -> Verified:
    plain = verified(found, own, TOLERANCE)
    if plain.agreement is Agreement.DIFFERS and plain.error is not None and plain.error <= MARGIN * near:
        return verified(found, own, TOLERANCE, undetermined=f"the last digits of the input move it by {near:.1e}")
    return plain


def results(folder: Path) -> Iterator[dict[str, Any]]:
    """The results so far."""
    if (folder / RESULTS).is_file():
        yield from map(json.loads, (folder / RESULTS).read_text().splitlines())
