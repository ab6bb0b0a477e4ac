"""Checkpoints of the backends that compile fast, from each to each. The others exchange theirs with NumPy, in the
contract."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers

import xbackend as xb
from xbackend.backends import registry
from xbackend.backends.contract import Backend
from xbackend.strategies import Mirrored, OneDevice
from xbackend.training import Adam, Batches, Training, checkpoints, layers

pytestmark = pytest.mark.tier("exhaustive")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(48, 5))
LABELS = (X[:, 0] > X[:, 1]).astype(np.int64)
START = {"w": RNG.normal(size=(5, 8)) / 2, "b": np.zeros(8), "v": RNG.normal(size=(8, 2)) / 3}


def classifier(weights: Mapping[str, Any], x: Any, labels: Any) -> Any:
    return layers.cross_entropy(xb.tanh(layers.dense(x, weights["w"], weights["b"])) @ weights["v"], labels)


def opened(name: str) -> Backend:
    return xb.open(name, virtual_devices=2, isolated=True)


def rows() -> Batches:
    return Batches(X, LABELS, size=16, seed=1)


def training(backend: Backend, mirrored: bool = False) -> Training:
    strategy = Mirrored(("cpu:0", "cpu:1")) if mirrored else OneDevice("cpu:0")
    return Training(backend, classifier, START, Adam(0.02), strategy=strategy)


def bits(arrays: Mapping[str, np.ndarray]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}


def test_every_backend_goes_on_from_the_checkpoint_of_every_other(tmp_path: Path) -> None:
    """The weights equal the file's to the bit. The next loss is within 1e-5 of the writer's."""
    expected = {}
    names = [name for name in registry.names() if name in tiers.named or name not in tiers.COMPILED]
    for name in names:
        with opened(name) as backend:
            written, batches = training(backend), rows()
            written.fit(batches, epochs=2, folder=tmp_path / name)
            expected[name] = written.step(*next(iter(batches)))["loss"]
    for name in names:
        with opened(name) as backend:
            here = training(backend, mirrored=True)
            for other in names:
                found, _ = checkpoints.newest(tmp_path / other)
                assert found is not None
                batches = rows()
                here.restore(found, batches)
                for copy in range(2):
                    assert bits(here.values(copy)) == bits(found.arrays)
                loss = here.step(*next(iter(batches)))["loss"]
                assert abs(loss - expected[other]) <= 1e-5 * abs(expected[other]), (other, name)
