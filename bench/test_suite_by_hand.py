"""Workloads of the suite on each framework over the same as its users write it, in turn in one process.

The version by hand also stands beside itself, compiled twice: the two differ by noise. A figure that is not
reached is shown as such and fails nothing; one that cannot be measured fails.
"""

from __future__ import annotations

from typing import Any

import pytest

from overhead import targets

WORKLOADS = [pytest.param(name, marks=pytest.mark.figure(part)) for name, part in targets.OF_SUITE.items()]


@pytest.mark.only_full
@pytest.mark.parametrize("workload", WORKLOADS)
def test_by_hand(backend: str, workload: str, replay_part: Any, benchmark: Any) -> None:
    benchmark.group = f"suite: {workload} over the version written by hand"
    assert replay_part(targets.OF_SUITE[workload], backend) > 0
