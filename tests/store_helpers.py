"""Results and runs to order, for the tests of the store and the gate."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xbackend.results import journal
from xbackend.results.runs import Run, Store
from xbackend.results.schema import Machine, Measurement, Pair, Parity, Phases, Process, Results, SessionSettings

MACHINE = Machine(
    processor="a processor", cores=2, memory_bytes=1 << 34, system="Linux x86_64", python="3.11.9", accelerators=[],
    fingerprint="0123456789abcdef",
)  # fmt: skip
STEADY = (0.98, 0.99, 1.0, 1.01, 1.02)  # the spread of five processes


def process(median: float, order: int = 0) -> Process:
    """A process of three rounds."""
    rounds = [median, 0.99 * median, 1.01 * median]
    return Process(order=order, started=1.8e9 + order, iterations=2, rounds=rounds, phases=Phases(call=median))


def row(backend: str = "numpy", medians: Sequence[float] = STEADY, **fields: Any) -> Measurement:
    """A measurement that is ok, with a process for each median, or one that is not, with its reason."""
    given: dict[str, Any] = {
        "workload": "matpow",
        "parameters": {"size": 8, "dtype": "float32"},
        "devices": 1,
        "bindings": {"dev0": "cpu:0"},
        "status": "ok",
        "operations": 1000,
        "parity": Parity(relative_error=1e-7, tolerance=1e-5, inputs="abc"),
        "processes": [process(m, i) for i, m in enumerate(medians)],
    }
    return Measurement(backend=backend, **{**given, **fields})


def results(*rows: Measurement, pairs: Sequence[Pair] = (), **fields: Any) -> Results:
    """A complete run of these measurements, of two if there are none."""
    given: dict[str, Any] = {
        "name": "matpow",
        "created": "2026-01-31T12:00:00+00:00",
        "xbackend": "0.1.0",
        "machine": MACHINE,
        "settings": SessionSettings(threads=2, seed=0),
        "order": ["a", "b"],
    }
    return Results(measurements=list(rows) or [row(), row("other")], pairs=list(pairs), **{**given, **fields})


def begin(store: Store, planned: Results | None = None) -> Run:
    """A run that nothing was measured for yet."""
    return store.create(planned or results())


def rounds(run: Run, number: int, seconds: Sequence[float]) -> None:
    """What the process of this number writes while it measures."""
    for position, one in enumerate(seconds):
        line = {"task": "a", "round": position, "seconds": one, "iterations": 2}
        journal.append(run.journal(number), line)


def finished(store: Store, measured: Results | None = None) -> Run:
    """A whole run in the store."""
    measured = measured or results()
    run = begin(store, measured)
    for number, measurement in enumerate(measured.measurements, 1):
        for one in measurement.processes:
            rounds(run, number, one.rounds)
        run.record(measurement, label="a")
    run.finish(measured)
    return run


def cut_off(store: Store) -> Run:
    """A run that was killed: two processes of `numpy` and one of `other` finished, one in its rounds, one torn line."""
    run = begin(store)
    for number, backend, order in ((1, "numpy", 0), (2, "other", 1), (3, "numpy", 2)):
        rounds(run, number, process(0.01).rounds)
        run.record(row(backend, [], processes=[process(0.01, order)]), label=backend)
    rounds(run, 4, [0.01, 0.02])
    with run.journal(4).open("ab") as file:
        file.write(b'{"crc":"00000000","record":{"task":"a","sec')
    run.close()
    return run


def snapshot(folder: Path) -> Mapping[str, bytes]:
    """Every file below a folder."""
    found: dict[str, bytes] = {}
    for at, _, names in os.walk(folder):
        for name in sorted(names):
            path = os.path.join(at, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found
