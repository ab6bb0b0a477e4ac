"""The rate of one product at 2048 x 2048, beside that of the BLAS in the same process called directly."""

from __future__ import annotations

from typing import Any

import pytest

from overhead import targets


@pytest.mark.figure("blas")
def test_product_at_2048(backend: str, collected: Any, replay_part: Any, note: Any, benchmark: Any) -> None:
    benchmark.group = "one product at 2048x2048"
    assert replay_part("blas", backend) > 0
    best = targets.best_rate(collected.values())
    assert note(targets.rate_figure(collected[backend], best[0] if best else None)) > 0


@pytest.mark.figure("blas")
def test_best_of_the_machine(collected: Any, note: Any, benchmark: Any, replay: Any) -> None:
    """The best rate of this machine, beside which the others are shown."""
    benchmark.group = "one product at 2048x2048"
    rate = note(targets.machine_figure(collected.values()))
    assert rate > 0
    replay([2.0 * targets.SIZE_OF_BLAS**3 / (rate * 1e9)])
