"""Graphs of a framework that come in: an importer runs in the framework's environment, and its programs are compared
with what the framework computes.

A script writes for each graph a program, inputs, results, and gradients where it has some (`write`). The tests read
them (`brought`) and compare (`check`).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

REPOSITORY = Path(__file__).parent.parent
LIMITS = {"float32": 2e-5, "float64": 1e-12}


@dataclass(frozen=True)
class Brought:
    """A graph that came in, or why it did not.

    Attributes:
        program: as JSON; empty where there is an ``error``.
        inputs: an array for each argument.
        results: what the framework computes, as one list.
        weights: of the loss whose gradients these are, for each result; `None` for one that is not in the loss.
        gradients: of the loss, for the inputs numbered ``of``; none where the graph has no gradient.
    """

    program: str
    inputs: list[np.ndarray]
    results: list[np.ndarray]
    weights: list[np.ndarray | None]
    gradients: list[np.ndarray]
    of: list[int]
    error: str = ""


def weights_of(results: Sequence[np.ndarray]) -> list[np.ndarray | None]:
    """Different numbers for all elements of the results that are of floating point."""
    return [
        np.cos(np.arange(one.size) + number).reshape(one.shape).astype(one.dtype) if one.dtype.kind == "f" else None
        for number, one in enumerate(results)
    ]


def write(folder: Path, name: str, graph: Brought) -> None:
    """Store a graph, in the environment of the framework."""
    arrays = {f"{what}{i}": one for what in ("inputs", "results", "gradients") for i, one in _numbered(graph, what)}
    arrays |= {f"weights{i}": one for i, one in enumerate(graph.weights) if one is not None}
    np.savez(folder / f"{name}.npz", **arrays)
    counts = {what: len(getattr(graph, what)) for what in ("inputs", "results", "weights", "gradients")}
    said = {"program": graph.program, "of": graph.of, "error": graph.error, "counts": counts}
    (folder / f"{name}.json").write_text(json.dumps(said))


def _numbered(graph: Brought, what: str) -> list[tuple[int, np.ndarray]]:
    return list(enumerate(getattr(graph, what)))


def brought(
    python: Path, script: Path, folder: Path, *arguments: str, timeout: float = 600, **environ: str
) -> dict[str, Brought]:
    """The graphs that a script wrote to the folder, by name."""
    done = subprocess.run(
        [str(python), str(script), str(folder), *arguments],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return {path.stem: _read(path) for path in sorted(folder.glob("*.json"))}


def _read(path: Path) -> Brought:
    said = json.loads(path.read_text())
    with np.load(path.with_suffix(".npz")) as arrays:
        each: dict[str, list[Any]] = {
            what: [arrays.get(f"{what}{i}") for i in range(count)] for what, count in said["counts"].items()
        }
    return Brought(said["program"], of=said["of"], error=said["error"], **each)


def flat(results: Any) -> list[Any]:
    """The arrays of nested tuples, lists and dictionaries, these in the order of their keys."""
    if isinstance(results, Mapping):
        return [one for key in sorted(results) for one in flat(results[key])]
    return [one for part in results for one in flat(part)] if isinstance(results, tuple | list) else [results]


def loss_program(graph: Brought, program: Any, xb: Any) -> Callable[..., Any]:
    """A function with the results, and the gradients of their weighted sum, for `xbackend.trace`."""

    def function(*inputs: Any) -> Any:
        results = flat(program(*inputs))
        parts = zip(results, graph.weights, strict=True)
        loss = sum((xb.sum(xb.multiply(one, weight)) for one, weight in parts if weight is not None), xb.zeros(()))
        return results, xb.grad(loss, [inputs[i] for i in graph.of])

    return function


def check(graph: Brought, backend: Any, xb: Any, limits: Mapping[str, float] = LIMITS) -> None:
    """Raises `AssertionError` unless a backend computes the framework's results and gradients."""
    assert not graph.error, graph.error
    program = xb.Program.from_json(graph.program)
    if not graph.gradients:
        compare(flat(backend.compile(program)(*graph.inputs)), graph.results, limits)
        return
    results, gradients = backend.compile(xb.trace(loss_program(graph, program, xb), *graph.inputs))(*graph.inputs)
    compare(flat(results), graph.results, limits)
    compare(gradients, graph.gradients, limits)


def compare(got: Sequence[Any], want: Sequence[np.ndarray], limits: Mapping[str, float] = LIMITS) -> None:
    """Raises `AssertionError` where a number differs by more than the limit of the largest of its array."""
    assert len(got) == len(want)
    for number, (own, theirs) in enumerate(zip(got, want, strict=True)):
        array = np.asarray(own)
        assert (array.shape, array.dtype) == (theirs.shape, theirs.dtype), f"result {number}: {array.dtype}"
        if theirs.dtype.kind != "f":
            np.testing.assert_array_equal(array, theirs, f"result {number}")
            continue
        size = np.abs(theirs[np.isfinite(theirs)]).max(initial=0.0)
        limit = limits[theirs.dtype.name]
        np.testing.assert_allclose(array, theirs, limit, limit * max(size, 1e-3), err_msg=f"result {number}")
