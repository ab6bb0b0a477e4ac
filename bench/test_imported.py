"""Brought graphs on their own framework, over the framework's own compiled functions of the same graphs, in turn in one
process.

The framework's function also stands beside itself, compiled twice: the two differ by noise. A figure that is not
reached is shown as such and fails nothing; one that cannot be measured fails.
"""

from __future__ import annotations

from typing import Any

import pytest

from overhead import targets

GRAPHS = [pytest.param(name, marks=pytest.mark.figure(part)) for name, part in targets.IMPORTED.items()]


@pytest.mark.only_full
@pytest.mark.only_for("pytensor", "jax", "tensorflow")
@pytest.mark.parametrize("graph", GRAPHS)
def test_imported(backend: str, graph: str, replay_part: Any, benchmark: Any) -> None:
    benchmark.group = f"imported: {graph} over the framework's own function"
    assert replay_part(targets.IMPORTED[graph], backend) > 0
