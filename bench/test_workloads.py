"""``pytest bench --workload model.py``: workloads of your own, a benchmark of each on every backend."""

from __future__ import annotations

from typing import Any


def test_workload(xbackend_workload: Any) -> None:
    row = xbackend_workload()
    assert row.status == "ok"
