"""Tracing 10 000 and 20 000 nodes."""

from __future__ import annotations

from typing import Any

import pytest

from overhead import targets


@pytest.fixture(scope="module")
def seconds() -> tuple[list[float], list[float]]:
    return targets.tracing_seconds()


@pytest.mark.parametrize("nodes", [10_000, 20_000])
def test_tracing(nodes: int, seconds: Any, note: Any, benchmark: Any, replay: Any) -> None:
    """With 20 000 nodes the figure is how much longer that takes than 10 000."""
    benchmark.group = "tracing"
    which = [10_000, 20_000].index(nodes)
    assert note(targets.tracing_figures(*seconds)[which]) > 0
    replay(seconds[which])
