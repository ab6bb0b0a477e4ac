"""The rate of one product at 2048 x 2048, beside that of the BLAS in the same process called directly."""

from __future__ import annotations

from typing import Any

import pytest

from xbackend.measure import targets
from xbackend.measure.replay import MARK

pytestmark = MARK


@pytest.mark.figure("blas")
def test_product_at_2048(backend: str, collected: Any, replay_part: Any, note: Any, benchmark: Any) -> None:
    benchmark.group = "one product at 2048x2048"
    replay_part("blas", backend)
    best = targets.best_rate(collected.values())
    note(targets.rate_figure(collected[backend], best[0] if best else None))


@pytest.mark.figure("blas")
def test_best_of_the_machine(collected: Any, note: Any, benchmark: Any, replay: Any) -> None:
    """The best rate that anything here reaches: what the others are shown beside."""
    benchmark.group = "one product at 2048x2048"
    figure = targets.machine_figure(collected.values())
    note(figure)
    assert figure.value is not None
    replay([2.0 * targets.SIZE_OF_BLAS**3 / (figure.value * 1e9)])
