"""The limits that xbackend sets itself: ratios side by side, their intervals, and reasons for missing ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xbackend as xb
from overhead import calls, document, handwritten, targets
from overhead.figure import Figure
from xbackend.backends import registry
from xbackend.errors import BackendUnavailable
from xbackend.measure.machine import machine
from xbackend.measure.worker import Worker
from xbackend.report.said.text import NOTHING

OTHERS = [name for name in registry.names() if name != "numpy"]


def test_ratio_and_its_interval() -> None:
    assert targets.ratio([([2.0, 4.0], [1.0, 2.0])]) == (2.0, [2.0, 2.0])
    generator = np.random.default_rng(0)
    pairs = [(list(0.5 + generator.random(50) / 10), list(1.0 + generator.random(50) / 10)) for _ in range(5)]
    value, (low, high) = targets.ratio(pairs)
    assert low <= value <= high
    assert 0.5 < value < 0.55 and high - low < 0.05
    assert targets.ratio(pairs) == (value, [low, high])


def test_sides_take_turns() -> None:
    seen: list[str] = []

    def side(name: str) -> Callable[[int], float]:
        def run(iterations: int) -> float:
            seen.append(name)
            return 0.001 * iterations

        return run

    seconds, iterations = calls.in_turn([side("ours"), side("theirs")], 3, 0.01)
    assert [len(s) for s in seconds] == [3, 3] and min(iterations) >= 10
    assert seen[-6:] == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]


def test_blas_called_directly_computes_the_product() -> None:
    with registry.get("numpy").load() as backend:
        found = calls.blas(backend, {"size": 64, "rounds": 2})
    assert len(found["ours"]) == 2
    assert all(len(library["seconds"]) == 2 and library["file"] for library in found["libraries"])


def test_a_chain_is_measured_beside_the_same_function_on_numpys_arrays() -> None:
    with registry.get("numpy").load() as backend:
        found = calls.chain(backend, {"size": 64, "rounds": 3, "round_seconds": 0.0})
        run = backend.compile(calls.equation_of_state, *[np.ones(64)] * 3, sqrt=xb.sqrt)
    assert len(found["ours"]) == len(found["by_hand"]) == 3
    assert 95 <= run.program.operations.total / 64 <= 110


def test_a_figure_that_was_not_measured_says_why() -> None:
    def opener(name: str, **options: Any) -> Worker:
        raise BackendUnavailable("not here")

    collected = targets.collect(["pytensor"], wanted=targets.parts(True), opener=opener)
    found = [targets.figure(part, collected["pytensor"]) for part in targets.parts(True)]
    assert all(f.value is None and f.reached is None and f.reason == "not here" for f in found)
    assert targets.machine_figure(collected.values()).value is None


@pytest.mark.parametrize("backend", OTHERS)
def test_every_framework_has_a_hand_written_version(backend: str) -> None:
    assert handwritten.exists(registry.get(backend))


def test_the_document_says_what_was_reached() -> None:
    common: dict[str, Any] = {"group": "framework tax", "name": "a call", "unit": "x", "limit": 0.5}
    found = [
        Figure(**common, subject="pytensor", value=0.41, detail={"interval": [0.39, 0.44], "by hand": [2e-6] * 20}),
        Figure(**common, subject="aesara", value=0.7),
        Figure(**common, subject="theano", value=None, reason="missing"),
        Figure(group="tracing", name="10 000 nodes", subject="xbackend", value=0.2113, unit="s"),
    ]
    written = document.write(found, machine(), "2026-11-21T00:00:00+00:00")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in written.splitlines()]
    row = ["a call", "pytensor", "0.410 x", "0.390 x to 0.440 x", "at most 0.5 x", "yes", NOTHING, "by hand 20 values"]
    assert [cell.replace("=", " ") for cell in next(r for r in rows if "pytensor" in r)] == row
    assert ["a call", "aesara", "0.700 x", NOTHING, "at most 0.5 x", "no", NOTHING, NOTHING] in rows
    assert ["a call", "theano", NOTHING, NOTHING, "at most 0.5 x", "not measured", "missing", NOTHING] in rows
    assert ["10 000 nodes", "xbackend", "211.3 ms", NOTHING, NOTHING, "no limit set", NOTHING, NOTHING] in rows


def test_import_and_tracing_figures() -> None:
    found = targets.import_figure([0.05, 0.06, 0.07], [0.03, 0.03, 0.03])
    assert found.value == pytest.approx(0.03) and found.reached in (True, False)
    once, growth = targets.tracing_figures([0.1, 0.1, 0.1], [0.2, 0.2, 0.2])
    assert (once.value, once.reached, growth.value, growth.reached) == (0.1, True, 2.0, True)
