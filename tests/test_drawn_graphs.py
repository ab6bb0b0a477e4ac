"""Random graphs of PyTensor, TensorFlow and JAX come in, with the values and gradients that the framework computes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiers
from bring_helpers import Brought, brought, check

import xbackend as xb
from xbackend.workers.remote import ready_environment

pytestmark = pytest.mark.tier("standard")

SCRIPT = Path(__file__).with_name("drawn_graphs.py")
COUNT = 2000 if tiers.chosen == tiers.TIERS[-1] else 25
LIMITS = {"float32": 3e-4, "float64": 1e-10}  # of chains of functions
SINGLE = dict.fromkeys(LIMITS, LIMITS["float32"])  # results of single precision are no better than their input
EACH = [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("pytensor", "tensorflow", "jax")]
FLAGS = {"JAX_PLATFORMS": "cpu", "PYTENSOR_FLAGS": "cxx=", "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
# JAX compiles each function for each shape.
FLAGS |= {"XLA_FLAGS": tiers.LITTLE_OPTIMISED}


@pytest.fixture(scope="module")
def oracle() -> Iterator[Any]:
    with xb.open("numpy") as backend:
        yield backend


def drawn(framework: str, folder: Path, first: int, end: int, *how: str) -> dict[str, Brought]:
    folder.mkdir()
    python = ready_environment(framework).python
    return brought(python, SCRIPT, folder, framework, str(first), str(end), *how, timeout=7200, **FLAGS)


def wrong(graph: Brought, oracle: Any) -> str:
    """What is wrong with a graph; empty if nothing."""
    try:
        check(graph, oracle, xb, SINGLE if "float32" in graph.program else LIMITS)
    except Exception as error:  # the oracle's own errors, too
        return f"{type(error).__name__}: {error}"
    return ""


def small(framework: str, folder: Path, name: str, oracle: Any) -> str:
    """The smallest part of a graph that is wrong, and what is wrong with it."""
    parts = drawn(framework, folder / f"parts{name}", int(name), int(name) + 1, "--parts")
    for part, graph in parts.items():
        said = wrong(graph, oracle)
        if said:
            return f"{(folder / f'parts{name}' / f'{part}.txt').read_text()}\n{said}"
    return (folder / "graphs" / f"{name}.txt").read_text()


@pytest.mark.parametrize("framework", EACH)
def test_random_graphs_have_the_frameworks_values_and_gradients(framework: str, oracle: Any, tmp_path: Path) -> None:
    graphs = drawn(framework, tmp_path / "graphs", 0, COUNT)
    assert len(graphs) == COUNT
    assert sum(bool(graph.gradients) for graph in graphs.values()) > COUNT // 4
    found = {name: said for name, graph in graphs.items() if (said := wrong(graph, oracle))}
    shown = "\n\n".join(f"{name}: {found[name]}\n{small(framework, tmp_path, name, oracle)}" for name in [*found][:3])
    assert not found, f"{len(found)} of {COUNT} graphs are wrong: {', '.join(found)}\n{shown}"
