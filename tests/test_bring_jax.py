"""Functions of JAX become programs, with JAX's values and gradients on other backends."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from bring_helpers import REPOSITORY, Brought, brought, check, compare

import xbackend as xb
from xbackend.workers.remote import ready_environment

pytestmark = [pytest.mark.tier("standard"), pytest.mark.needs("jax")]

SCRIPT = Path(__file__).with_name("jax_graphs.py")
REFUSALS = Path(__file__).with_name("jax_refusals.py")
GRAPHS = re.findall(r"^def ([a-z]\w*)\(\w+=", SCRIPT.read_text(), re.MULTILINE)
# One for each kind of row: a second backend would compile all.
SOME = ("arithmetic", "layers", "indices", "dropped_writes", "products", "scans", "conditions", "gaussian_process")
IN_FLOAT32 = ("arithmetic", "reductions", "indices", "written", "scans", "layers", "stopped", "nested")
CPU = {"JAX_PLATFORMS": "cpu"}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Brought]:
    return brought(ready_environment("jax").python, SCRIPT, tmp_path_factory.mktemp("jax"), **CPU)


@pytest.fixture(scope="module")
def oracle() -> Iterator[xb.Backend]:
    with xb.open("numpy") as backend:
        yield backend


@pytest.fixture(scope="module")
def second() -> Iterator[xb.Backend]:
    with xb.open("tensorflow") as backend:
        yield backend


@pytest.mark.parametrize("name", GRAPHS)
def test_a_function_has_jaxs_values_and_gradients(name: str, graphs: dict[str, Brought], oracle: xb.Backend) -> None:
    check(graphs[name], oracle, xb)


@pytest.mark.parametrize("name", SOME)
def test_so_it_has_on_another_backend(name: str, graphs: dict[str, Brought], second: xb.Backend) -> None:
    check(graphs[name], second, xb)


@pytest.mark.tier("exhaustive")
def test_without_float64_programs_are_in_float32(tmp_path: Path, oracle: xb.Backend) -> None:
    found = brought(ready_environment("jax").python, SCRIPT, tmp_path, "--x32", *IN_FLOAT32, **CPU)
    assert set(found) == set(IN_FLOAT32)
    for name, graph in found.items():
        assert not any(one.dtype in (np.float64, np.int64) for one in (*graph.inputs, *graph.results)), name
        check(graph, oracle, xb)


def test_most_functions_have_a_gradient_that_is_compared(graphs: dict[str, Brought]) -> None:
    assert set(graphs) == set(GRAPHS)
    assert sum(bool(graph.gradients) for graph in graphs.values()) > 0.8 * len(graphs)


def test_arguments_results_and_lines_keep_their_names_and_places(graphs: dict[str, Brought]) -> None:
    program = xb.Program.from_json(graphs["nested"].program)
    names = [program.values[i].params["name"] for i in program.inputs]
    assert names == ["p_layers_0", "p_layers_1_0", "p_layers_1_1_b", "p_w", "x"]
    assert program.structure == {"dict": [["parts", {"list": ["*", {"tuple": ["*", {"list": ["*"]}]}]}], ["y", "*"]]}
    text = SCRIPT.read_text().splitlines()
    matmul = next(node for node in program.nodes if node.op == "matmul")
    file, _, line = matmul.source.rpartition(":")
    assert Path(file) == SCRIPT and "x @ p" in text[int(line) - 1]


def test_what_depends_on_constants_only_is_computed_when_it_comes_in(graphs: dict[str, Brought]) -> None:
    for name in ("known_indices", "slices"):
        ops = {node.op for node in xb.Program.from_json(graphs[name].program).nodes}
        assert not ops & {"less", "where", "take_along_axis"}, name


def test_a_program_of_jax_is_not_longer_than_what_jax_computes(graphs: dict[str, Brought]) -> None:
    """Functions of `jax.numpy.linalg` are one op each."""
    ops = [node.op for node in xb.Program.from_json(graphs["solves"].program).nodes]
    assert {"solve", "inv", "det", "solve_triangular", "cholesky"} <= set(ops)
    assert [one for one in ops if one == "solve"] == ["solve", "solve"]


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The answer to each function of JAX that has no program, by name."""
    python = ready_environment("jax").python
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), **CPU}
    done = subprocess.run(
        [str(python), str(REFUSALS)], env=environ, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(line.split("\t") for line in done.stdout.splitlines())


REFUSED = {
    "random": "draw them outside",
    "callback": "it calls Python while it runs",
    "printing": "debug_",
    "several": "lu, once, first at .*jax_refusals.py.*nextafter, 2 times, first at .*jax_refusals.py:\\d+: it looks at",
    "inside_of_a_loop": "nextafter, once, first at .*jax_refusals.py",
    "half": "of float16",
    "complex_numbers": "of complex128",
    "small_argument": "dtype int8, which arguments of a program have not",
    "applied": "x.at\\[...\\].apply has no row",
    "no_function": "is no function",
    "nothing": "returns nothing|no array|None",
    "unknown_attribute": "the attribute accuracy_of_tomorrow=3 has no row",
    "signed_shift": "shift_right_arithmetic of uint32 has no row",
    "own_gradient_of_a_solution": "give the loss in place of jax.grad",
    "while_over_devices": "while, once, first at .*jax_refusals.py.*on one device: write lax.fori_loop",
    "many_steps_over_devices": "scan, once, first at .*jax_refusals.py.*64 steps at most",
    "many_steps_together": "scan, once, first at .*jax_refusals.py.*64 steps at most, together with loops inside",
    "choice_over_devices": "cond \\(at .*jax_refusals.py.*compute both results, and choose with jnp.where",
    "ragged": "ragged_all_to_all, once, first at .*jax_refusals.py.*write jax.shard_map with psum",
    "one_inside_of_another": "shard_map, once, first at .*one inside of another has no row",
    "own_solver": "write jnp.linalg.solve",
    "one_line": "^GraphError: ",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_program_has_is_refused_with_what_to_do(name: str, refusals: dict[str, str]) -> None:
    assert re.search(REFUSED[name], refusals[name]), refusals[name]


KEPT = """
import gc, weakref
import jax, jax.numpy as jnp, numpy as np
from xbackend.bring.jax.programs import from_jaxpr

closed = jax.make_jaxpr(lambda x: jax.lax.scan(lambda c, row: (c + row, jnp.sin(c)), 0.0, x)[1])(np.ones(3))
from_jaxpr(closed, ["x"], "f", lambda made: made[0])
inner = [weakref.ref(one.params["jaxpr"].jaxpr) for one in closed.eqns if "jaxpr" in one.params]
del closed
jax.clear_caches()
gc.collect()
print([one() for one in inner])
"""


def test_a_jaxpr_ends_with_its_walk() -> None:
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), **CPU}
    command = [str(ready_environment("jax").python), "-c", KEPT]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout.strip() == "[None]", done.stdout + done.stderr[-2000:]


def test_a_wrong_row_would_be_found(tmp_path: Path, oracle: xb.Backend) -> None:
    """A row of `sub` that adds is planted in the importer."""
    names = ("arithmetic", "powers")
    found = brought(ready_environment("jax").python, SCRIPT, tmp_path, "--planted", *names, **CPU)
    check(found["powers"], oracle, xb)
    with pytest.raises(AssertionError, match="result 0"):
        check(found["arithmetic"], oracle, xb)


def test_a_wrong_number_would_be_found(graphs: dict[str, Brought]) -> None:
    results = graphs["arithmetic"].results
    compare(results, results)
    with pytest.raises(AssertionError, match="result 0"):
        compare([one * (1.0 + 1e-10) for one in results], results)
