"""Loops and choices, and gradients through them: every backend's own agree with the oracle's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from batches import ORACLE, Batch, Check, Host
from control_flow import BATCHES, GRADIENTS
from gradients import weighted

import xbackend as xb

pytestmark = pytest.mark.takes_turns

ALL = [(batch, check) for batch in BATCHES for check in batch.checks]


@pytest.mark.parametrize(("batch", "check"), ALL, ids=[c.label for _, c in ALL])
def test_control_flow(host: Host, batch: Batch, check: Check) -> None:
    host.check(batch, check)


@pytest.mark.parametrize("label", GRADIENTS)
def test_the_oracles_gradient_is_that_of_central_differences(label: str) -> None:
    loss, x = GRADIENTS[label]

    def both(x: Any) -> Any:
        total = weighted(loss(x))
        return total, xb.grad(total, x)

    run = ORACLE.backend.compile(both, x)
    gradient = run(x)[1]
    found = np.empty_like(x)
    for place in np.ndindex(x.shape):
        values = []
        for step in (1e-6, -1e-6):
            moved = x.copy()
            moved[place] += step
            values.append(float(run(moved)[0]))
        found[place] = (values[0] - values[1]) / 2e-6
    np.testing.assert_allclose(gradient, found, rtol=1e-6, atol=1e-7)
    assert np.abs(gradient).max() > 0
