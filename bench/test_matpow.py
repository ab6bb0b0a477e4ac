"""A^10 + B^10, the powers on two logical devices, the sum on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

from xbackend.pytest_plugin import show


@pytest.fixture
def candidate(backend: str, devices: int, size: int, dtype: str, recorded: Any) -> Any:
    return recorded.candidates[backend, devices, size, dtype]


def test_matpow(candidate: Any, recorded: Any, replay: Any, benchmark: Any) -> None:
    """The benchmark is the rounds of all its processes, seconds per execution."""
    benchmark.group = f"matpow size={candidate.case.parameters['size']} {candidate.case.parameters['dtype']}"
    row = show(candidate, recorded.results, replay)
    assert row.status == "ok"
