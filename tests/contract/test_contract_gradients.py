"""Gradients: every backend's agree with the oracle's, and the oracle's with differences of the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradients
import numpy as np
import pytest
from batches import ORACLE, Batch, Check, Host
from gradient_rules import OFTEN_BATCH, RULES, SELDOM_BATCH, WITHOUT, arrays_of, gradient, total
from gradients import BATCHES as OF_LOSSES
from gradients import CHANGES_NOTHING, ONE, SECOND, SQUARE, TWO, Loss, weighted
from kinks import KNOWN

import xbackend as xb
from xbackend.backends.contract import Backend
from xbackend.program.ops import OPS

pytestmark = pytest.mark.takes_turns

BATCHES = (*OF_LOSSES, OFTEN_BATCH)
ALL = [(batch, check) for batch in BATCHES for check in batch.checks]


@pytest.mark.parametrize("batch", BATCHES, ids=[b.name for b in BATCHES])
def test_gradients_compile_as_one_program(host: Host, batch: Batch) -> None:
    host.check_whole(batch)


@pytest.mark.parametrize(("batch", "check"), ALL, ids=[c.label for _, c in ALL])
def test_gradient(host: Host, batch: Batch, check: Check) -> None:
    host.check(batch, check)


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize("check", SELDOM_BATCH.checks, ids=[c.label for c in SELDOM_BATCH.checks])
def test_gradient_at_other_shapes(host: Host, check: Check) -> None:
    host.check(SELDOM_BATCH, check)


def differences(loss: Loss, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """For each array, central differences of the weighted loss by element, extrapolated (Richardson)."""
    run = ORACLE.backend.compile(lambda *a: weighted(loss(*a)), *arrays)
    return [_differences(run, arrays, number) for number in range(len(arrays))]


def _differences(run: Callable[..., Any], arrays: list[np.ndarray], number: int) -> np.ndarray:
    def slope(position: tuple[int, ...], step: float) -> float:
        values = []
        for sign in (1, -1):
            moved = [a.copy() for a in arrays]
            moved[number][position] += sign * step
            values.append(float(run(*moved)))
        return (values[0] - values[1]) / (2 * step)

    result = np.empty_like(arrays[number])
    for position in np.ndindex(result.shape):
        result[position] = (4 * slope(position, 5e-5) - slope(position, 1e-4)) / 3
    return result


CASES = {label: (loss, [x]) for label, (loss, x) in ONE.items() if label != "astype_through_float32"}
CASES |= {label: (loss, [x, y]) for label, (loss, x, y) in TWO.items()}


@pytest.mark.parametrize("label", CASES)
def test_the_oracles_gradient_is_that_of_central_differences(label: str) -> None:
    loss, arrays = CASES[label]
    for number, wanted in enumerate(differences(loss, arrays)):
        run = ORACLE.backend.compile(lambda *a, n=number: xb.grad(weighted(loss(*a)), a[n]), *arrays)
        found = run(*arrays)
        np.testing.assert_allclose(found, wanted, rtol=2e-8, atol=2e-9)
        assert np.abs(found).max() > 0, "a gradient that is zero everywhere proves nothing"


def test_every_op_that_has_a_gradient_is_compared() -> None:
    assert RULES.keys() ^ WITHOUT == OPS.keys()


@pytest.mark.parametrize("op", RULES)
def test_the_oracles_rule_is_that_of_central_differences(op: str) -> None:
    uses, arrays = RULES[op], arrays_of(RULES[op])
    ops = {node.op for node in xb.trace(total(uses), *arrays).values}
    assert op in ops | {"all_reduce"}, f"the uses are of {ops}"  # expanded while tracing
    found = ORACLE.backend.compile(gradient(uses), *arrays)(*arrays)
    wanted = np.concatenate([each.ravel() for each in differences(total(uses), arrays)])
    np.testing.assert_allclose(found, wanted, rtol=2e-8, atol=5e-9)


@pytest.mark.parametrize("label", SECOND)
def test_the_oracles_second_gradient_is_that_of_central_differences(label: str) -> None:
    loss, x = ONE[label]

    def first(x: object) -> object:
        return xb.grad(weighted(loss(x)), x) ** 2

    (check,) = (c for b in BATCHES for c in b.checks if c.label == f"grad-grad-{label}")
    np.testing.assert_allclose(ORACLE.result(check), differences(first, [x])[0], rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("label", CHANGES_NOTHING)
def test_a_gradient_with_respect_to_a_copy_does_not_count_the_uses_of_the_original(label: str) -> None:
    (check,) = (c for b in BATCHES for c in b.checks if c.label == f"grad-of_a_copy_by_{label}")
    weights = np.linspace(0.5, 1.5, SQUARE.size).reshape(SQUARE.shape)
    np.testing.assert_allclose(ORACLE.result(check), weights * SQUARE, rtol=1e-12)


@pytest.mark.parametrize("label", KNOWN)
def test_the_oracles_gradient_is_the_known_one(label: str) -> None:
    (check,) = (c for b in BATCHES for c in b.checks if c.label == f"grad-known-{label}")
    found = ORACLE.result(check)
    last = 5e3 * np.finfo(found.dtype).eps if found.dtype == "float64" else 2 * np.finfo(found.dtype).eps
    np.testing.assert_allclose(found, KNOWN[label].want, rtol=last, atol=last / 100)


def test_gradients_of_shared_variables_and_arguments_in_one_list(backend: Backend) -> None:
    w = xb.shared(gradients.WEIGHTS, name="w")

    def function(x: object) -> object:
        loss = xb.sum(xb.sin(x * w) * w)
        return loss, xb.grad(loss, [x, w])

    x = gradients.X
    run = backend.compile(function, x)
    for _ in range(2):
        loss, (by_x, by_w) = run(x)
        v = backend.get_value(w)
        np.testing.assert_allclose(loss, np.sum(np.sin(x * v) * v), rtol=1e-12)
        np.testing.assert_allclose(by_x, np.cos(x * v) * v * v, rtol=1e-12)
        np.testing.assert_allclose(by_w, np.cos(x * v) * x * v + np.sin(x * v), rtol=1e-12)
        backend.set_value(w, v * 0.5)
