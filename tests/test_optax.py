"""Optimisers and schedules against optax itself, in float64, in the environment of JAX."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from uv import find_uv_bin

import xbackend as xb
from xbackend.training import SGD, Adam, Optimizer, RMSProp, Training, schedules
from xbackend.workers.remote import ready_environment

pytestmark = [pytest.mark.tier("standard"), pytest.mark.needs("jax")]

STEPS = 30
# Optax counts steps in int32, from which JAX makes float32 rates.
RATES_IN_FLOAT32 = ("momentum, scheduled", "adam, warmed up")
VERSION = "0.2.8"  # named in `xbackend.training.optimizers`
SCRIPT = Path(__file__).with_name("optax_steps.py")
SCHEDULES: dict[str, Any] = {
    "exponential": schedules.exponential(0.1, 0.5, 10),
    "staircase": schedules.exponential(0.1, 0.5, 10, staircase=True),
    "cosine": schedules.cosine(0.1, 20, least=0.1),
    "piecewise": schedules.piecewise(0.1, {5: 0.5, 10: 0.1}),
    "warmed up": schedules.warmed_up(lambda _: 0.1, 0.1, 10),
}
OPTIMIZERS: dict[str, Optimizer] = {
    "descent": SGD(0.1),
    "momentum": SGD(0.1, momentum=0.9),
    "nesterov": SGD(0.1, momentum=0.9, nesterov=True),
    "rmsprop": RMSProp(0.01),
    "adam": Adam(0.01),
    "adam, clipped": Adam(0.01, clip=0.5),
    "momentum, scheduled": SGD(SCHEDULES["exponential"], momentum=0.9),
    "adam, warmed up": Adam(SCHEDULES["warmed up"], a=0.8, b=0.99, epsilon=1e-6),
}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The results of `optax_steps`."""
    python, beside = ready_environment("jax").python, tmp_path_factory.mktemp("optax")
    beneath = ["chex==0.1.92", "absl-py==2.5.1", "toolz==1.2.0", "typing_extensions==4.16.0"]
    packages = [f"optax=={VERSION}", *beneath]
    into = ["--quiet", "--target", str(beside), "--no-deps", "--python", str(python)]
    subprocess.run([find_uv_bin(), "pip", "install", *into, *packages], check=True, timeout=300)
    done = subprocess.run(
        [str(python), str(SCRIPT)],
        env={**os.environ, "PYTHONPATH": str(beside), "JAX_PLATFORMS": "cpu"},
        input=str(STEPS),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert not done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["version"] == VERSION
    return found


@pytest.fixture(scope="module")
def backend() -> Any:
    with xb.open("numpy") as opened:
        yield opened


def gradients() -> np.ndarray:
    """The gradients of `optax_steps`."""
    return np.random.default_rng(5).normal(size=(STEPS, 5)) * np.logspace(-3, 1, 5)


def along(weights: Any, v: Any, w: Any) -> Any:
    """A loss with the fed arrays as gradient."""
    return xb.sum(weights["v"] * v[0]) + xb.sum(weights["w"] * w[0])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_weights_are_those_of_optax(name: str, backend: Any, theirs: dict[str, Any]) -> None:
    start = {"v": np.zeros(3), "w": np.zeros(2)}
    training = Training(backend, along, start, OPTIMIZERS[name])
    for one, expected in zip(gradients(), theirs["weights"][name], strict=True):
        training.step(one[None, :3], one[None, 3:])
        found = training.weights()
        bounds = {"rtol": 1e-6, "atol": 1e-7} if name in RATES_IN_FLOAT32 else {"rtol": 1e-11}
        np.testing.assert_allclose(np.concatenate([found["v"], found["w"]]), expected, **bounds)


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_those_of_optax(name: str, backend: Any, theirs: dict[str, Any]) -> None:
    rate = backend.compile(lambda n: SCHEDULES[name](n) * xb.ones(()), np.int64(0))
    found = [float(rate(np.int64(k))) for k in range(STEPS)]
    np.testing.assert_allclose(found, theirs["rates"][name], rtol=1e-11, atol=1e-18)
