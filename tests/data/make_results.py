"""Makes what the report's tests compare with: results.json, every kind of row with foreign text in it, and report.md.

After a change of the report that is meant, run ``python tests/data/make_results.py`` and read ``git diff tests/data``.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from xbackend.measure.results import Figure, Machine, Measurement, Parity, Phases, Process, Results, save
from xbackend.report import render

HERE = Path(__file__).parent
_BLOCK = 12  # measurements that give a time
_OPERATIONS = {"matmul": 18, "add": 1}
_RATES = {"numpy": 210.0, "tensorflow": 260.0, "pytensor-jax": 310.0}
_DRAWING = """flowchart TD
  subgraph d0["dev0"]
    n0["matmul float32[512,512]"]
  end
  subgraph d1["cpu:0"]
    n1["add float32[512,512]"]
  end
  n0 -->|1048576 bytes| n1
"""


def _placement(devices: int) -> dict[str, Any]:
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
    transfer = {"node": 7, "source": second, "target": "cpu:0", "bytes": 1 << 20, "cause": "crossing"}
    transfer |= {"framework_op": "copy", "evidence": "test"}
    return {"ops": ops, "transfers": [transfer] if devices > 1 else [], "drawing": _DRAWING}


def _description(backend: str) -> dict[str, Any]:
    return {
        "blas": [{"library": "openblas", "version": "0.3.30", "threads": 2, "file": "libscipy_openblas64_.so"}],
        "devices": ["cpu:0", "cpu:1"],
        "threads": {"openblas": 2},
        "versions": {"python": "3.11.7", "numpy": "2.4.6", backend.partition("-")[0]: "1.2.3"},
    }


def _processes(generator: random.Random, seconds: float, first: int) -> list[Process]:
    found = []
    for i in range(3):
        centre = seconds * generator.uniform(0.97, 1.04)
        rounds = [round(centre * generator.uniform(0.99, 1.02), 9) for _ in range(5)]
        phases = Phases(
            process_start=0.21,
            framework_import=generator.choice([0.1, 2.5, 4.1]),
            trace=0.0012,
            lower=0.35,
            first_call=seconds * 1.5,
            host_to_device=0.0004,
            call=seconds,
            device_to_host=None if i == 0 else 0.0003,
        )
        order = first + _BLOCK * i
        found.append(Process(order=order, started=1.79e9 + 11.5 * order, iterations=4, rounds=rounds, phases=phases))
    return found


def _measured(generator: random.Random, size: int, backend: str, devices: int, first: int) -> Measurement:
    operations = 9 * 2 * 2 * size**3 + size**2
    seconds = operations / _RATES[backend] / 1e9 * (0.97 if devices == 2 else 1.0) + 3e-5
    return Measurement(
        workload="matpow",
        parameters={"size": size, "n": 10, "dtype": "float32", "method": "chain"},
        backend=backend,
        devices=devices,
        bindings={"dev0": "cpu:0", "dev1": f"cpu:{devices - 1}"},
        status="ok",
        operations=operations,
        operations_by_op=_OPERATIONS,
        parity=Parity(relative_error=2.1e-7 * devices, tolerance=5.4e-5, inputs="ab12" * 16),
        processes=_processes(generator, seconds, first),
        placement=_placement(devices),
        description=_description(backend),
        warnings=["the machine was busy: load 1.9 | close other programs"] if first == 2 else [],
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


def _figures() -> list[Figure]:
    return [
        Figure(
            group="framework tax",
            name="call of a 2x2 product",
            subject="pytensor",
            value=0.41,
            unit="x",
            limit=0.5,
            detail={"interval": [0.39, 0.44], "ours": 8e-7, "by hand": [2e-6] * 20},
        ),
        Figure(group="framework tax", name="call of a 2x2 product", subject="aesara", value=0.7, unit="x", limit=0.5),
        Figure(
            group="BLAS", name="rate", subject="numpy", value=301.2, unit="GFLOP/s", limit=280.0, relation="at least"
        ),
        Figure(group="BLAS", name="rate", subject="aesara", value=None, unit="GFLOP/s", limit=280.0, reason="missing"),
        Figure(group="tracing", name="10 000 nodes", subject="trace", value=0.2113, unit="s", limit=0.5),
    ]


def make() -> Results:
    """The results, the same every time."""
    generator = random.Random(0)
    measurements = []
    for size in (128, 1024):
        for i, backend in enumerate(_RATES):
            for devices in (1, 2):
                first = (size == 1024) * 6 + 2 * i + devices - 1
                measurements.append(_measured(generator, size, backend, devices, first))
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
        settings={"processes": 3, "threads": 2, "seed": 0, "effort": {"rounds": 5, "seconds": 2.0}},
        order=[
            *3 * [f"matpow | {m.backend} | {m.devices}" for m in measurements if m.processes],
            "matpow | aesara-jax | 1",
        ],
        measurements=measurements,
        figures=_figures(),
    )


if __name__ == "__main__":
    save(make(), HERE / "results.json")
    (HERE / "report.md").write_bytes(render(make())["report.md"])
