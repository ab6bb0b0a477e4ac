"""Makes the data of the report's tests: results.json, with every kind of row and foreign text; from it report.md and
report.html; history.md and history.html of runs over time.

After an intended change of the report, run ``python tests/data/make_results.py`` and read ``git diff tests/data``.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec

from xbackend import report
from xbackend.analysis.history import series
from xbackend.backends.description import Description
from xbackend.backends.placement import ProfiledCall, Span
from xbackend.backends.threads import Pool
from xbackend.devices import Device
from xbackend.measure.profiles import summary
from xbackend.report import render
from xbackend.report.said.history import build
from xbackend.results.schema import (
    Machine,
    Measurement,
    Parity,
    Phases,
    Process,
    Profile,
    Results,
    SessionSettings,
    Visit,
    sealed,
)

HERE = Path(__file__).parent
_OLD = "pytensor==2.38.3"
_BLOCK = 14  # measurements with a time
_OPERATIONS = {"matmul": 18, "add": 1}
_RATES = {"numpy": 210.0, "tensorflow": 260.0, "pytensor-jax": 310.0}
_FACTORS = {  # the time on two devices over that on one, by backend and size
    ("numpy", 128): 0.97, ("numpy", 1024): 0.99, ("tensorflow", 128): 1.41, ("tensorflow", 1024): 0.98,
    ("pytensor-jax", 128): 0.52, ("pytensor-jax", 1024): 0.6,
}  # fmt: skip


def _graph(size: int, devices: int) -> dict[str, Any]:
    second, shape = f"cpu:{devices - 1}", f"float32[{size},{size}]"
    boxes = [
        {"text": f"input a {shape}", "device": "cpu:0"},
        {"text": f"input b {shape}", "device": second},
        {"text": f"matmul {shape}", "device": "cpu:0"},
        {"text": f"matmul {shape} (fused)", "device": second, "mark": "inside"},
        {"text": f"add {shape} MOVED, asked for cpu:7", "device": "cpu:0", "mark": "moved"},
        {"text": "result 0", "device": "cpu:0", "mark": "result"},
    ]
    edges: list[dict[str, Any]] = [{"source": i, "target": j} for i, j in ((0, 2), (0, 2), (1, 3), (2, 4), (4, 5))]
    crossing = {"text": "1 MiB, crossing", "kind": "transfer"} if devices > 1 else {}
    links = [{"source": second, "target": "cpu:0", "text": "2 transfers, 8 bytes, framework"}] if devices > 1 else []
    return {
        "title": "matpow",
        "boxes": boxes,
        "edges": [*edges, {"source": 3, "target": 4, **crossing}],
        "links": links,
    }


def _profile(backend: str, seconds: float, devices: int, first: bool) -> Profile | None:
    """NumPy uses its devices in turn, the other backend at once, with a long transfer; TensorFlow has no profile."""
    if backend == "tensorflow":
        return None
    half, second = seconds / 2, f"cpu:{devices - 1}"
    start = half if backend == "numpy" or devices == 1 else 0.02 * seconds
    spans = [("cpu:0", 0.0, 0.9 * half, "compute", "matmul | <b>"), (second, start, start + half, "compute", "matmul")]
    spans.append(("cpu:0", start + half, 1.1 * seconds, "transfer", "copy"))
    found = summary(ProfiledCall([Span(Device.parse(d), *rest) for d, *rest in spans], 1.15 * seconds))
    return Profile(**{**found, "taken": 3, "spans": [tuple(s) for s in found["spans"]] if first else []})


def _placement(size: int, devices: int, cause: str) -> dict[str, Any]:
    second = f"cpu:{devices - 1}"
    ops = []
    for node, (asked, bound) in enumerate([("dev0", "cpu:0")] * 3 + [("dev1", second)] * 3 + [("cpu:0", "cpu:0")]):
        ops.append(
            {
                "node": node,
                "op": "add" if node == 6 else "matmul",
                "asked": asked,
                "bound": bound,
                "executed": bound,
                "framework_op": "",
                "evidence": "test",
                "status": "as asked",
            }
        )
    transfer = {"node": 7, "source": second, "target": "cpu:0", "bytes": 1 << 20, "cause": cause}
    transfer |= {"framework_op": "copy", "evidence": "test"}
    return {"ops": ops, "transfers": [transfer] if devices > 1 else [], "graph": _graph(size, devices)}


def _versions(backend: str, environment: str) -> dict[str, str]:
    framework = environment.partition("==")[2] or "3.0.7"
    return {"python": "3.11.7", "numpy": "2.4.6", backend.partition("-")[0]: framework}


def _description(backend: str, environment: str) -> Description:
    return Description(
        blas=[Pool("openblas", "0.3.30", 2, "libscipy_openblas64_.so")],
        devices=["cpu:0", "cpu:1"],
        threads={"openblas": 2},
        versions=_versions(backend, environment),
    )


def _processes(generator: random.Random, seconds: float, first: int, backend: str, devices: int) -> list[Process]:
    found = []
    for i in range(3):
        centre = seconds * generator.uniform(0.97, 1.04)
        rounds = [round(centre * generator.uniform(0.99, 1.02), 9) for _ in range(5)]
        phases = Phases(
            process_start=0.21,
            framework_import=generator.choice([0.1, 2.5, 4.1]),
            trace=0.0012,
            lower=0.05 if i == 1 and "pytensor" in backend else 0.35,
            first_call=seconds * 1.5,
            host_to_device=0.0004,
            call=seconds,
            device_to_host=None if i == 0 else 0.0003,
        )
        order = first + _BLOCK * i
        common: dict[str, Any] = {"order": order, "started": 1.79e9 + 11.5 * order, "iterations": 4}
        profile = _profile(backend, seconds, devices, first=i == 0)
        common["cache"] = ("cold", "warm", "cold")[i] if "pytensor" in backend else ""
        if "pytensor" in backend:
            common |= {"rewriting": 0.03, "rewrites": 76}
        own = 1.93 if backend == "numpy" else 1.02
        common |= {"affinity": [0, 1], "load": round(0.1 * i, 1), "accelerator_processes": []}
        visits = [Visit(rounds[:3], 0.5, 0.1, own), Visit(rounds[3:], 1.5, 0.1, own)]
        found.append(Process(**common, phases=phases, visits=visits, profile=profile))
    return found


def _measured(
    generator: random.Random,
    size: int,
    backend: str,
    devices: int,
    first: int,
    *,
    environment: str = "",
    scale: float = 1.0,
) -> Measurement:
    operations = 9 * 2 * 2 * size**3 + size**2
    seconds = operations / _RATES[backend] / 1e9 * (_FACTORS[backend, size] if devices == 2 else 1.0) * scale + 3e-5
    return Measurement(
        workload="matpow",
        parameters={"size": size, "n": 10, "dtype": "float32", "method": "chain"},
        backend=backend,
        devices=devices,
        bindings={"dev0": "cpu:0", "dev1": f"cpu:{devices - 1}"},
        status="ok",
        operations=operations,
        operations_by_op=_OPERATIONS,
        parity=Parity(relative_error=2.1e-7 * devices, tolerance=5.4e-5, inputs="ab12" * 16, ulps=3.5),
        processes=_processes(generator, seconds, first, backend, devices),
        placement=_placement(size, devices, "framework" if backend == "tensorflow" else "crossing"),
        description=_description(backend, environment),
        environment=environment,
        versions=_versions(backend, environment),
        warnings=["the machine was busy: load 1.9 | close other programs"] if first == 2 else [],
        unprofiled="this backend does not tell what its devices did when" if backend == "tensorflow" else "",
    )


def _not_ok(size: int) -> list[Measurement]:
    parameters = {"size": size, "n": 10, "dtype": "float32", "method": "chain"}
    common: dict[str, Any] = {"workload": "matpow", "parameters": parameters, "devices": 1, "bindings": {}}
    return [
        Measurement(
            **common, backend="aesara", status="missing", reason="its environment is not there:\n`xbackend env`"
        ),
        Measurement(
            **common, backend="aesara-jax", status="failed", reason="ended by SIGKILL | <script>alert(1)</script>"
        ),
        Measurement(
            **common,
            backend="tensorflow-eager",
            status="wrong",
            reason="relative error 0.3, at most 5.4e-05 passes",
            parity=Parity(relative_error=0.3, tolerance=5.4e-5, inputs="ab12" * 16),
        ),
    ]


def make() -> Results:
    """The results, the same every time."""
    generator = random.Random(0)
    measurements = []
    for size in (128, 1024):
        for i, backend in enumerate(_RATES):
            for devices in (1, 2):
                first = (size == 1024) * 7 + 2 * i + devices - 1
                measurements.append(_measured(generator, size, backend, devices, first))
        first = (size == 1024) * 7 + 6
        measurements.append(_measured(generator, size, "pytensor-jax", 1, first, environment=_OLD, scale=1.3))
        measurements += _not_ok(size)
    return Results(
        name="fixture",
        created="2026-11-21T00:00:00+00:00",
        xbackend="0.1.0",
        machine=Machine(
            processor="A Processor (R) @ 2.50GHz",
            cores=2,
            memory_bytes=8 << 30,
            system="Linux x86_64",
            python="3.11.7",
            accelerators=[],
            fingerprint="0123456789abcdef",
        ),
        settings=SessionSettings(processes=3, threads=2, seed=0, effort={"visits": 2, "seconds": 2.0}),
        order=[
            *3 * [f"matpow | {m.backend} | {m.devices}" for m in measurements if m.processes],
            "matpow | aesara-jax | 1",
        ],
        measurements=measurements,
        run="20261121-000000",
    )


def history() -> list[Results]:
    """Runs over time, the oldest first: a new version of PyTensor, an incomplete run, and another machine."""
    generator = random.Random(1)
    runs = []
    months = [(1, "2.38.2", 1.0), (2, "2.38.2", 1.01), (3, "2.38.3", 0.99), (4, "3.0.7", 0.8), (5, "3.0.7", 0.81)]
    for month, version, scale in [*months, (6, "3.0.7", 1.3)]:
        rows = [_measured(generator, 1024, "numpy", 1, 0)]
        for devices in (1, 2):
            row = _measured(generator, 1024, "pytensor-jax", devices, devices, scale=scale)
            rows.append(msgspec.structs.replace(row, versions=_versions("pytensor", f"pytensor=={version}")))
        if month == 2:
            rows[-1] = msgspec.structs.replace(rows[-1], status="failed", reason="ended by SIGKILL | <b>", processes=[])
        complete = month != 5
        if not complete:
            rows = [msgspec.structs.replace(row, processes=row.processes[:2]) for row in rows]
        runs.append(_run(month, complete, rows))
    other = msgspec.structs.replace(make().machine, processor="Another Processor", fingerprint="fedcba9876543210")
    return [*runs, msgspec.structs.replace(_run(7, True, [_measured(generator, 1024, "numpy", 1, 0)]), machine=other)]


def _run(month: int, complete: bool, rows: list[Measurement]) -> Results:
    run, created = f"2026{month:02}01-120000", f"2026-{month:02}-01T12:00:00+00:00"
    return msgspec.structs.replace(make(), run=run, created=created, measurements=rows, complete=complete, order=[])


DAMAGED = [("20260415-120000", "results.json is damaged: JSON is malformed <script>")]


if __name__ == "__main__":
    (HERE / "results.json").write_bytes(sealed(make()))
    files = render(make()) | report.files("history", *build(history(), series(history(), "matpow"), "matpow", DAMAGED))
    for name in ("report.md", "report.html", "history.md", "history.html"):
        (HERE / name).write_bytes(files[name])
