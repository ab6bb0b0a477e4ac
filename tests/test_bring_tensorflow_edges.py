"""Edges of what comes in of TensorFlow: what is fed, sparse gradients, old functions, large constants, indices."""

from __future__ import annotations

from pathlib import Path

import pytest
from bring_helpers import Brought, brought, check

import xbackend as xb
from xbackend import environments

pytestmark = pytest.mark.tier("standard")

SCRIPT = Path(__file__).with_name("tensorflow_edges.py")


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Brought]:
    environment = environments.get("tensorflow")
    if environment.state != "ready":
        environments.sync("tensorflow")
    return brought(environments.get("tensorflow").python, SCRIPT, tmp_path_factory.mktemp("edges"))


VALUES = [
    *("sparse_gradient", "sparse_gradient_of_a_session", "signature"),
    *("no_gradient", "no_gradient_of_a_plain_function", "no_gradient_of_a_session"),
]


@pytest.mark.parametrize("name", VALUES)
def test_values_and_gradients_are_those_of_tensorflow(graphs: dict[str, Brought], name: str) -> None:
    with xb.open("numpy", virtual_devices=2) as backend:
        check(graphs[name], backend, xb)


def test_sparse_gradients_are_made_dense(graphs: dict[str, Brought]) -> None:
    for name in ("sparse_gradient", "sparse_gradient_of_a_session"):
        assert graphs[name].gradients[0].shape == (4,)
    assert not graphs["no_gradient"].gradients
