"""Scripts that `to_source` wrote, run without xbackend: a folder for each, all of them by one process of a framework's
environment."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from xbackend.bring.source import to_source
from xbackend.program.program import Program
from xbackend.workers.remote import ready_environment

RUNNER = """
import importlib.util, sys, traceback
from pathlib import Path
import numpy as np

def flat(value):
    if isinstance(value, dict):
        return [one for part in value.values() for one in flat(part)]
    return [one for part in value for one in flat(part)] if isinstance(value, (tuple, list)) else [np.asarray(value)]

framework = sys.argv[1]
for folder in map(Path, sys.argv[2:]):
    if framework == "pytensor":
        import pytensor
        pytensor.config.floatX = "float64"  # a script before may have set another
    try:
        spec = importlib.util.spec_from_file_location("script", folder / "script.py")
        script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(script)
        with np.load(folder / "inputs.npz") as arrays:
            inputs = {name: arrays[name] for name in arrays}
        given = [inputs[f"input{i}"] for i in range(sum(name.startswith("input") for name in inputs))]
        state = [inputs[f"state{i}"] for i in range(sum(name.startswith("state") for name in inputs))]
        name, *updated = (folder / "name").read_text().split()
        if framework == "pytensor":
            found = flat(script.compiled()(*given))
            found += [np.asarray(getattr(script, one).get_value()) for one in updated]
        elif framework == "tensorflow":
            found = flat(getattr(script, name)(*given))
            found += [getattr(script, one).numpy() for one in updated]
        else:
            found = flat(getattr(script, name)(*given, *state))
        np.savez(folder / "results.npz", **{f"r{i}": one for i, one in enumerate(found)})
    except Exception:
        (folder / "error").write_text(traceback.format_exc())
"""
FLAGS = {"PYTENSOR_FLAGS": "mode=FAST_COMPILE,cxx=", "TF_CPP_MIN_LOG_LEVEL": "3", "JAX_NUM_CPU_DEVICES": "4"}
LIMITS = {"float32": 2e-4, "float64": 1e-11}  # of chains of ops, as in the contract


@dataclass(frozen=True)
class Case:
    """A program, its inputs, and what the oracle computes: the results, then the new values of its state."""

    program: Program
    inputs: Sequence[np.ndarray]
    expected: Sequence[np.ndarray]


def flat(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [one for part in value.values() for one in flat(part)]
    return [one for part in value for one in flat(part)] if isinstance(value, tuple | list) else [value]


def case(backend: Any, program: Any, inputs: Sequence[np.ndarray], devices: Any = None) -> Case:
    """A program with what a backend computes for it."""
    bound = devices or {name: f"cpu:{i % 4}" for i, name in enumerate(program.logical_devices)}
    run = backend.compile(program, devices=bound)
    results = flat(run(*inputs))
    state = [backend.get_value(program.shared[i]) for i in program.updates]
    return Case(program, inputs, [*results, *state])


def write(folder: Path, one: Case, framework: str) -> str:
    """Write the script of a case and what the runner needs; returns its text."""
    folder.mkdir()
    source = to_source(one.program, framework)
    source.write(folder / "script.py")
    arrays = {f"input{i}": array for i, array in enumerate(one.inputs)}
    arrays |= {f"state{i}": v.value for i, v in enumerate(one.program.shared.values())}
    np.savez(folder / "inputs.npz", **arrays)
    names = [one.program.shared[i].name for i in one.program.updates]
    (folder / "name").write_text(" ".join([source.function, *names]))
    return source.text


def ran(cases: Mapping[str, Case], framework: str, folder: Path) -> dict[str, str]:
    """Run the scripts of cases; returns what is wrong, by name."""
    for name, one in cases.items():
        write(folder / name, one, framework)
    python = ready_environment(framework).python
    subprocess.run(
        [str(python), "-c", RUNNER, framework, *(str(folder / name) for name in cases)],
        env={**os.environ, **FLAGS},
        check=True,
        timeout=900,
        cwd=folder,
    )
    return {name: wrong for name, one in cases.items() if (wrong := difference(folder / name, one))}


def difference(folder: Path, one: Case) -> str:
    """What a script computed otherwise; empty if nothing."""
    if not (folder / "results.npz").exists():
        return (folder / "error").read_text()
    with np.load(folder / "results.npz") as arrays:
        return differs([arrays[f"r{i}"] for i in range(len(arrays))], one)


def differs(found: Sequence[np.ndarray], one: Case) -> str:
    """Where results are not those of a case; empty if nowhere."""
    if len(found) != len(one.expected):
        return f"{len(found)} results in place of {len(one.expected)}"
    # Results of single precision are no better than their input.
    single = any(dtype == "float32" for node in one.program.nodes for _, dtype in node.results)
    for number, (got, want) in enumerate(zip(found, map(np.asarray, one.expected), strict=True)):
        if got.shape != want.shape or got.dtype != want.dtype:
            return f"result {number} is {got.dtype}{got.shape} in place of {want.dtype}{want.shape}"
        if want.dtype.kind != "f":
            if not (got == want).all():
                return f"result {number} is {got} in place of {want}"
            continue
        size = np.abs(want[np.isfinite(want)]).max(initial=0.0)
        limit = LIMITS["float32" if single else "float64"] * max(size, 1e-2)
        if not np.allclose(got, want, rtol=0, atol=limit, equal_nan=True):
            return f"result {number} is off by {np.nanmax(np.abs(got - want))}"
    return ""
