"""A^10 + B^10, the powers on two logical devices, the sum on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

from xbackend.measure import statistics
from xbackend.measure.replay import MARK

pytestmark = MARK


@pytest.fixture
def candidate(backend: str, devices: int, size: int, dtype: str, recorded: Any) -> Any:
    return recorded.candidates[backend, devices, size, dtype]


def test_matpow(candidate: Any, recorded: Any, replay: Any, benchmark: Any) -> None:
    """The benchmark is the rounds of all its processes, seconds per execution."""
    parameters = candidate.task.parameters
    benchmark.group = f"matpow size={parameters['size']} {parameters['dtype']}"
    if candidate.status != "ok":
        pytest.fail(f"{candidate.label}: {candidate.status}: {candidate.reason}", pytrace=False)
    row = candidate.measurement()
    rounds = [seconds for process in row.processes for seconds in process.rounds]
    assert row.parity is not None and row.parity.passed
    extra = {
        "processes": [process.median for process in row.processes],
        "order": [process.order for process in row.processes],
        "gflops": row.operations / statistics.time_of([process.median for process in row.processes]) / 1e9,
        "relative_error": row.parity.relative_error,
        "inputs": row.parity.inputs,
        "floor": statistics.noise_floor(recorded.results.pairs, row).factor,
        "versions": row.description.get("versions", {}),
        "threads": row.description.get("threads", {}),
        "warnings": row.warnings,
    }
    replay(rounds, row.processes[0].iterations, extra)
