"""Small graphs of PyTensor, Aesara and Theano that come in as the framework computes them, or not at all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bring_helpers import Brought, brought, check

import xbackend as xb
from xbackend import environments

pytestmark = pytest.mark.tier("standard")

KINDS = ("pytensor", "aesara", "theano")
RULE = "an OpFromGraph with a gradient of its own has no row"
REFUSED = {
    "short_sequence": "a sequence has fewer rows than the loop's 10 steps",
    "short_sequence_with_until": "a sequence has fewer rows than the loop's 10 steps",
    "branches_of_two_lengths": r"its branches have the shapes \(3,\) and \(1,\)",
    "split_without_a_row": r"a split of 3 rows into \(1, 1\)",
    "short_mask": r"a mask of shape \(2,\) is an index of axes of lengths \(3,\)",
    "short_mask_of_values": r"a mask of shape \(1,\) is an index of axes of lengths \(3,\)",
    "subclass_with_a_rule": RULE,
    "subclass_with_an_override": RULE,
    "update_of_an_input": "updates: x is no shared variable",
    "draws_of_another_kind": "draws='output': it is 'inputs', or None",
}
COMES_IN = (
    *("subclass_without", "given_node", "given_node_beside_draws", "given_node_in_a_branch"),
    *("given_node_in_a_branch_beside_its_input", "large_of_small", "writes_in_place", "one_loss", "updates_only"),
)


@pytest.fixture(scope="module", params=KINDS)
def graphs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Brought]:
    kind = request.param
    environment = environments.get(kind)
    python = (environment if environment.state == "ready" else environments.sync(kind)).python
    script = Path(__file__).with_name("lineage_edges.py")
    flags = {"AESARA_FLAGS": "blas__ldflags=,cxx=", "PYTENSOR_FLAGS": "cxx="}
    return {"": kind, **brought(python, script, tmp_path_factory.mktemp(kind), kind, **flags)}  # type: ignore[dict-item]


@pytest.fixture(scope="module")
def numpy() -> Any:
    with xb.open("numpy") as backend:
        yield backend


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_framework_refuses_is_refused(name: str, graphs: Any) -> None:
    assert re.match(f"GraphError: .*{REFUSED[name]}", graphs[name].error), graphs[name].error


@pytest.mark.parametrize("name", COMES_IN)
def test_numbers_are_those_of_the_framework(name: str, graphs: Any, numpy: Any) -> None:
    check(graphs[name], numpy, xb)


def test_a_gradient_is_zero_in_a_branch_that_is_not_taken(graphs: Any, numpy: Any) -> None:
    graph = graphs["poles_in_branches"]
    if graphs[""] == "theano":  # its own rewrites leave NaN
        program = xb.Program.from_json(graph.program)
        found = numpy.compile(xb.trace(lambda x: xb.grad(program(x), x), *graph.inputs))(*graph.inputs)
        assert np.isfinite(found).all()
    else:
        check(graph, numpy, xb)


def test_gamma_at_its_poles_is_that_of_c(graphs: Any, numpy: Any) -> None:
    """SciPy's, which Aesara and Theano call without a compiler, is infinite."""
    graph = graphs["gamma_at_poles"]
    if graphs[""] == "pytensor":
        check(graph, numpy, xb)
    found = numpy.compile(xb.Program.from_json(graph.program))(*graph.inputs)
    np.testing.assert_array_equal(found[:5], [np.nan, -np.inf, np.inf, np.inf, np.nan])


def test_draws_of_theano_are_refused(graphs: Any) -> None:
    assert ("has no draws" in graphs["draws"].error) == (graphs[""] == "theano")


def test_a_compiled_loss_is_one_number_and_has_a_gradient_before_rewrites(graphs: Any, numpy: Any) -> None:
    """PyTensor and Aesara keep the graph after them only."""
    graph = graphs["one_loss"]
    assert np.shape(numpy.compile(xb.Program.from_json(graph.program))(*graph.inputs)) == ()
    assert graph.of == [0] * (graphs[""] == "theano")


def test_what_is_large_is_left_to_the_program(graphs: Any) -> None:
    program = xb.Program.from_json(graphs["large_of_small"].program)
    assert max(np.size(node.params.get("value", 0)) for node in program.nodes) <= 300
