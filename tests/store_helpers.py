"""Results and runs to order, for the tests of the store and the gate."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from xbackend.errors import StoreError
from xbackend.results.runs import RunRecorder, Store
from xbackend.results.schema import Machine, Measurement, Parity, Phases, Process, Results, SessionSettings, Visit

MACHINE = Machine(
    processor="a processor", cores=2, memory_bytes=1 << 34, system="Linux x86_64", python="3.11.9", accelerators=[],
    fingerprint="0123456789abcdef",
)  # fmt: skip
STEADY = (0.98, 0.99, 1.0, 1.01, 1.02)  # the spread of five processes


def process(median: float, order: int = 0) -> Process:
    """A process with one visit of three rounds."""
    visits = [Visit([median, 0.99 * median, 1.01 * median])]
    return Process(order=order, started=1.8e9 + order, iterations=2, visits=visits, phases=Phases(call=median))


def beside(process: Process, foreign_cores: float | None = None, own_cores: float | None = None) -> Process:
    """The process with so many cores busy by others, and by itself, during its visits."""
    cores = {"foreign_cores": foreign_cores, "own_cores": own_cores}
    return replace(process, visits=[replace(visit, **cores) for visit in process.visits])


def row(backend: str = "numpy", medians: Sequence[float] = STEADY, **fields: Any) -> Measurement:
    """A measurement with a process for each median, or one that is not ok, with its reason."""
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


def results(*rows: Measurement, **fields: Any) -> Results:
    """A complete run of these measurements, by default of two."""
    given: dict[str, Any] = {
        "name": "matpow",
        "created": "2026-01-31T12:00:00+00:00",
        "xbackend": "0.1.0",
        "machine": MACHINE,
        "settings": SessionSettings(threads=2, seed=0),
        "order": ["a", "b"],
    }
    return Results(measurements=list(rows) or [row(), row("other")], **{**given, **fields})


def begin(store: Store, planned: Results | None = None) -> RunRecorder:
    """A run without measurements yet."""
    return store.create(planned or results())


def finished(store: Store, measured: Results | None = None) -> RunRecorder:
    """A whole run in the store."""
    measured = measured or results()
    run = begin(store, measured)
    for measurement in measured.measurements:
        run.record(measurement, label="a")
    run.finish(measured)
    run.close()
    return run


def damages(store: Store) -> list[str]:
    """The damage of each run of a store, empty if it has none; for a damaged file, that of the file."""
    return [str(run) if isinstance(run, StoreError) else "" for _, run in store.runs()]


def cut_off(store: Store) -> RunRecorder:
    """A killed run: two processes of `numpy` and one of `other`, whose rounds came later."""
    run = begin(store)
    for backend, order in (("numpy", 0), ("other", 1), ("numpy", 2)):
        run.record(row(backend, [], processes=[process(0.01, order)]), label=backend)
    run.visited(1, Visit([0.01, 0.02]))
    run.close()
    return run


def changed(store: Store, run: str, change: Callable[[bytes], bytes | None], table: str = "runs") -> None:
    """Change the rows of a run in a table, past all guards; `None` deletes them."""
    with closing(sqlite3.connect(store.path, isolation_level=None)) as file:
        for number, content in file.execute(f"SELECT rowid, content FROM {table} WHERE run = ?", (run,)).fetchall():
            new = change(content)
            if new is None:
                file.execute(f"DELETE FROM {table} WHERE rowid = ?", (number,))
            else:
                file.execute(f"UPDATE {table} SET content = ? WHERE rowid = ?", (new, number))


def snapshot(folder: Path) -> Mapping[str, bytes]:
    """Every file below a folder."""
    found: dict[str, bytes] = {}
    for at, _, names in os.walk(folder):
        for name in sorted(names):
            path = os.path.join(at, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found
