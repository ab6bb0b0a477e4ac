"""Data parallel on three devices of every backend: a training step equals that of one device on all rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import xbackend as xb
from xbackend.backends.contract import Backend
from xbackend.strategies import replicate

pytestmark = [pytest.mark.takes_turns, pytest.mark.shared_out]

DEVICES = ("dev0", "dev1", "dev2")
SPREAD = {"dev0": "cpu:0", "dev1": "cpu:1", "dev2": "cpu:2"}
RATE = 0.2
STEPS = 3


def batch(rows: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Seven rows are three, two and two on three devices."""
    x = np.random.default_rng(0).uniform(-1, 1, (rows, 4))
    return x, np.sin(x[:, :2] + x[:, 2:])


def training(way: str) -> tuple[dict[str, Any], Callable[..., Any]]:
    """Shared variables, and a step that returns the loss and the predictions, in one of three ways."""
    rng = np.random.default_rng(1)
    state = {
        "w": xb.shared(rng.uniform(-1, 1, (4, 2)), name="w", device="dev0"),
        "b": xb.shared(rng.uniform(-1, 1, 2), name="b", device="dev1"),
    }
    variables = list(state.values())

    def forward(x: Any, target: Any) -> Any:
        prediction = xb.tanh(x @ state["w"] + state["b"])
        return xb.mean(xb.square(prediction - target)), prediction

    def tower(x: Any, target: Any) -> Any:
        loss, prediction = forward(x, target)
        return loss, prediction, xb.grad(loss, variables)

    split = ("x", "target")
    merged = replicate(forward, devices=DEVICES, split=split, merge=("mean", "concat"))
    towers = replicate(tower, devices=DEVICES, split=split, merge=("mean", "concat", "mean"))

    def step(x: Any, target: Any) -> Any:
        if way == "towers":
            loss, prediction, gradients = towers(x, target)
        else:
            loss, prediction = (merged if way == "merged loss" else forward)(x, target)
            gradients = xb.grad(loss, variables)
        for variable, gradient in zip(variables, gradients, strict=True):
            xb.update(variable, variable - RATE * gradient)
        return loss, prediction

    return state, step


def by_hand() -> tuple[list[float], np.ndarray, dict[str, np.ndarray]]:
    """The losses, the last predictions and the weights after the steps, by NumPy alone."""
    x, target = batch()
    w, b = (variable.value for variable in training("one device")[0].values())
    losses = []
    for _ in range(STEPS):
        prediction = np.tanh(x @ w + b)
        losses.append(float(np.mean(np.square(prediction - target))))
        through = 2 * (prediction - target) * (1 - prediction**2) / prediction.size
        w, b = w - RATE * x.T @ through, b - RATE * through.sum(0)
    return losses, prediction, {"w": w, "b": b}


@pytest.mark.parametrize("way", ["one device", "merged loss", "towers"])
def test_a_data_parallel_training_step_is_that_of_one_device(three: Backend, way: str) -> None:
    state, step = training(way)
    arrays = batch()
    run = three.compile(step, *arrays, devices=SPREAD if way != "one device" else dict.fromkeys(SPREAD, "cpu:0"))
    losses, predictions, weights = by_hand()
    for expected in losses:
        loss, prediction = run(*arrays)
        np.testing.assert_allclose(loss, expected, rtol=1e-10)
    np.testing.assert_allclose(prediction, predictions, rtol=1e-10)
    for key, variable in state.items():
        np.testing.assert_allclose(three.get_value(variable), weights[key], rtol=1e-10, atol=1e-12)
    used = {r.executed for r in run.placement.ops if r.op == "tanh" and r.executed is not None}
    assert used <= ({"cpu:0"} if way == "one device" else set(SPREAD.values()))
    assert not [r for r in run.placement.ops if r.status == "moved"]


def test_replicas_of_two_devices_each_give_the_same(three: Backend) -> None:
    def layers(x: Any, w: Any) -> Any:
        with xb.device("dev0"):
            hidden = xb.tanh(x @ w)
        with xb.device("dev1"):
            return xb.sum(hidden * hidden, axis=1)

    x, w = batch()[0], np.linspace(-1, 1, 12).reshape(4, 3)
    pairs = ({"dev0": "dev0", "dev1": "dev1"}, {"dev0": "dev2", "dev1": "dev0"})
    run = three.compile(replicate(layers, devices=pairs, split="x"), x, w, devices=SPREAD)
    np.testing.assert_allclose(run(x, w), np.sum(np.tanh(x @ w) ** 2, axis=1), rtol=1e-12)
    asked = [r.bound for r in run.placement.ops if r.op in ("matmul", "sum")]
    assert asked == ["cpu:0", "cpu:1", "cpu:2", "cpu:0"]
    assert not [r for r in run.placement.ops if r.status == "moved"]


def test_a_program_is_replicated_and_called_inside_of_another(three: Backend) -> None:
    part = xb.trace(lambda x: (xb.exp(x), xb.grad(xb.sum(xb.sin(x)), x)), np.ones(2))
    whole = replicate(part, devices=DEVICES, split="x")
    x = np.linspace(0, 1, 6)
    run = three.compile(lambda x: whole(x * 2.0), x, devices=SPREAD)
    for found, expected in zip(run(x), (np.exp(2 * x), np.cos(2 * x)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
