"""The memory of a call, within five percent, or the reason why a system cannot tell."""

from __future__ import annotations

import gc
import weakref
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from report_helpers import measured, of, whole_of

from xbackend.api.tracing.trace import trace
from xbackend.backends.contract import Settings
from xbackend.backends.numpy.adapter import NumPyBackend
from xbackend.measure import loop, memory_watch
from xbackend.measure.worker import open_worker
from xbackend.results.schema import Memory, Phases, Process, Visit

MIB = 1 << 20


def test_the_peak_is_that_of_what_lives_at_once() -> None:
    watch = memory_watch.MemoryWatch(dict)

    def work() -> int:
        for _ in range(3):
            held = np.ones(100 * MIB // 8)
        return len(held)

    assert watch.during("call", work) == 100 * MIB // 8
    watch.during("nothing", lambda: None)
    found, why = watch.result()
    assert found is not None and why == ""
    assert abs(found["call"] - 200 * MIB) <= 0.05 * 200 * MIB  # the next array exists before the last is freed
    assert found["nothing"] < 5 * MIB


def test_what_is_given_back_is_not_counted() -> None:
    kept = [bytearray(2000) for _ in range(50_000)]
    del kept
    watch = memory_watch.MemoryWatch(dict)
    found, _ = (watch.during("call", lambda: np.ones(64 * MIB // 8)), watch.result())[1]
    assert found is not None and found["call"] >= 0.95 * 64 * MIB


def test_the_peaks_of_devices_are_those_that_rose() -> None:
    told = iter([{"gpu:0": 5, "gpu:1": 7}, {"gpu:0": 9, "gpu:1": 7, "gpu:2": 1}])
    watch = memory_watch.MemoryWatch(lambda: next(told))
    found, _ = watch.result()
    assert found is not None and found["devices"] == {"gpu:0": 9, "gpu:2": 1}


@pytest.mark.parametrize("missing", ["STATUS", "BEGIN_ANEW"])
def test_a_system_that_does_not_tell_is_said(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_watch, missing, tmp_path / "nowhere" / "file")
    watch = memory_watch.MemoryWatch(dict)
    assert watch.during("call", lambda: 3) == 3
    found, why = watch.result()
    assert found is None and "nowhere" in why


# --- in a worker ------------------------------------------------------------------------------------------------------

LARGE = 512 * MIB


def job_of(program: str, paths: list[str], folder: Path) -> dict[str, Any]:
    """What a worker is to measure: a program of one input, with the files of that and of the expected result."""
    return {
        "label": "large",
        "program": program,
        "bindings": {},
        "inputs": paths[:1],
        "expected": paths[1:],
        "kept": str(folder / "compiled"),
        "cold": True,
        "tolerance": 0.0,
        "undetermined": "",
        "allow_nan": False,
        "first": True,
        "profiled": True,
        "effort": asdict(loop.Effort(visits=1, at_least=1, seconds=1.0, rounds=2, round_seconds=0.001)),
    }


class Cycle:
    """An object that only a collection of garbage lets go."""

    def __init__(self) -> None:
        self.own = self


def test_a_program_that_was_not_finished_is_let_go_before_the_next_one(tmp_path: Path) -> None:
    """As after a visit that failed. What `gc.freeze` froze is in no collection."""
    path, backend = str(tmp_path / "ones.npy"), NumPyBackend("numpy", Settings(1))
    np.save(path, np.ones(3))
    job = job_of(trace(lambda x: x * 1.0, np.ones(3)).to_json(), [path, path], tmp_path)
    assert loop.prepare(backend, {**job, "first": False})["wrong"] == ""
    cycle = Cycle()
    gone = weakref.ref(cycle)
    gc.freeze()
    del cycle
    gc.collect()
    assert gone() is not None
    loop.prepare(backend, {**job, "first": False})
    assert gone() is None
    loop._HELD.clear()
    gc.unfreeze()


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize(("backend", "percent"), [("numpy", 5), ("jax", 7), ("tensorflow", 5)])
def test_the_memory_of_a_call_on_a_large_array_is_known(backend: str, percent: int, tmp_path: Path) -> None:
    """Its input and its result, of 512 MiB each. JAX's runtime takes 64 MiB more at its first call."""
    array = np.arange(LARGE // 8, dtype=np.float64)
    program = trace(lambda x: x + 1.0, array)
    paths = [str(tmp_path / name) for name in ("input.npy", "expected.npy")]
    for path, content in zip(paths, (array, array + 1.0), strict=True):
        np.save(path, content)
    del array, content
    job = job_of(program.to_json(), paths, tmp_path)
    worker = open_worker(backend)
    with worker.backend:
        measured = worker.call("xbackend.measure.loop:prepare", job)
        assert measured["wrong"] == ""
        worker.call("xbackend.measure.loop:visit", {})
        found = worker.call("xbackend.measure.loop:finish", {})
    assert found["memory"] is not None, found["memory_unknown"]
    assert abs(found["memory"]["call"] - 2 * LARGE) <= percent / 100 * 2 * LARGE
    assert found["memory"]["first_call"] >= found["memory"]["call"]


# --- in a report ------------------------------------------------------------------------------------------------------


def process(order: int, call: int) -> Process:
    held = Memory(before=10 * MIB, first_call=3 * call, call=call, devices={"gpu:0": 7 * MIB})
    return Process(order=order, started=0.0, iterations=1, visits=[Visit([1.0])], phases=Phases(call=1.0), memory=held)


def test_it_is_in_the_report_with_why_there_is_none() -> None:
    rows = [
        measured(backend, [1.0, 1.0, 1.0], workload=workload, memory_unknown="no such file" if backend == "b" else "")
        for workload in ("x", "y")
        for backend in ("a", "b")
    ]
    processes = [process(i, (4 + i) * MIB) for i in range(3)]
    with_memory = [msgspec.structs.replace(m, processes=processes) if m.backend == "a" else m for m in rows]
    text = whole_of(of(*with_memory))
    assert "| x | 5 MiB | – |" in text  # noqa: RUF001
    assert "b (2 rows): no such file." in text
    assert "15 MiB" in text and "gpu:0 7 MiB" in text
    assert "## Memory" not in whole_of(of(*rows[:1]))
