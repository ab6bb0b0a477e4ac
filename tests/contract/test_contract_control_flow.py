"""Loops and choices, and gradients through them: every backend's own agree with the oracle's."""

from __future__ import annotations

from typing import Any

import numpy as np
import operations
import pytest
from batches import ORACLE, Batch, Check, Host
from control_flow import BATCHES, GRADIENTS
from gradients import weighted
from tolerances import check_equal

import xbackend as xb
from xbackend.backends.contract import Backend

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


@pytest.mark.parametrize("batch", operations.BATCHES, ids=[b.name for b in operations.BATCHES])
def test_an_op_in_a_loop_of_the_oracle_gives_what_it_gives_outside(batch: Batch) -> None:
    """In its bodies a value without axes is a NumPy number, not an array."""
    arrays = list({id(a): a for check in batch.checks for a in check.arguments}.values())
    position = {id(a): i for i, a in enumerate(arrays)}

    def together(*inputs: Any) -> Any:
        return [check.function(*(inputs[position[id(a)]] for a in check.arguments)) for check in batch.checks]

    def in_a_loop(*inputs: Any) -> Any:
        return xb.scan(lambda count, _: (count + 1, together(*inputs)), xb.asarray(0), length=2)[1]

    expected = ORACLE.backend.compile(together, *arrays)(*arrays)
    for found, wanted in zip(ORACLE.backend.compile(in_a_loop, *arrays)(*arrays), expected, strict=True):
        check_equal(found[1, ...], wanted, "bits")


@pytest.mark.tier("exhaustive")
@pytest.mark.shared_out
def test_a_gradient_through_many_steps_of_many_ops(backend: Backend) -> None:
    """In a mode without loops the steps are one graph, as deep as their number."""

    def step(carry: Any, _: Any) -> tuple[Any, None]:
        for _ in range(4):
            carry = xb.sin(carry) * 1.1
        return carry, None

    def function(v: Any) -> Any:
        carry, _ = xb.scan(step, v, length=50)
        return xb.grad(xb.sum(carry), v)

    v = np.array([0.3, -0.7, 1.1])
    carry, expected = v, np.ones(3)
    for _ in range(200):
        expected, carry = expected * 1.1 * np.cos(carry), np.sin(carry) * 1.1
    np.testing.assert_allclose(backend.compile(function, v)(v), expected, rtol=1e-10)
