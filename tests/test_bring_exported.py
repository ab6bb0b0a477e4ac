"""Files of `jax.export` become programs, with JAX's values and gradients of the functions that were exported."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tiers
from bring_helpers import REPOSITORY, Brought, brought, check, compare
from test_bring import check as check_origin
from test_bring_jax import CPU, GRAPHS, SCRIPT

import xbackend as xb
from xbackend.bring.kinds import kind, target_of
from xbackend.errors import GraphError
from xbackend.workers.bringing import bring
from xbackend.workers.remote import ready_environment

pytestmark = [pytest.mark.tier("standard"), pytest.mark.needs("jax")]

FILES = Path(__file__).with_name("jax_exports.py")
WITHOUT = {"stopped"}  # a file has no `jax.lax.stop_gradient`
SOME = (
    *("arithmetic", "conditions", "dropped_writes", "special", "scans", "sorts", "solves", "searches"),
    "beyond_the_ends",
)
NAMES = sorted(set(GRAPHS) - WITHOUT) if tiers.chosen == tiers.TIERS[-1] else list(SOME)
REFUSED = {
    "cut": "no file of jax.export, or is cut off: .*write it with jax.export",
    "empty": "no file of jax.export, or is cut off",
    "text": "no file of jax.export, or is cut off",
    "changed": "is damaged",
    "of_symbols": r"x\w* \(float64\[n, 3\]\) has no fixed shape: give each input with --input",
    "several": "count_leading_zeros, 2 times, first at .*jax_exports.py:\\d+: it looks .*fft, once.*complex numbers",
    "half": "sin of float16, once, first at .*jax_exports.py.*cast to a dtype",
    "printing": "custom_call xla_ffi_python_cpu_callback, once: it is code outside of JAX",
    "spread": "exported for 2 devices: bring the function",
    "unknown_attribute": "sine: the attribute accuracy_of_tomorrow=3 : i64 has no row",
    "calling_itself": "the file calls f, which calls itself",
    "many_calls": "more than 500000 ops, those of functions once for each call",
}


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Brought]:
    folder = tmp_path_factory.mktemp("exported")
    return brought(ready_environment("jax").python, SCRIPT, folder, "--exported", *NAMES, timeout=1200, **CPU)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.fixture(scope="module")
def answers(folder: Path) -> dict[str, str]:
    """The answer to each file, by name: the error, if it has no program."""
    two = "--xla_force_host_platform_device_count=2"
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "XLA_FLAGS": two, **CPU}
    command = [str(ready_environment("jax").python), str(FILES), str(folder), *REFUSED, "large"]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(line.split("\t") for line in done.stdout.splitlines())


@pytest.fixture(scope="module")
def oracle() -> Iterator[xb.Backend]:
    with xb.open("numpy") as backend:
        yield backend


@pytest.mark.parametrize("name", NAMES)
def test_a_file_has_the_values_and_gradients_of_its_function(
    name: str, graphs: dict[str, Brought], oracle: xb.Backend
) -> None:
    check(graphs[name], oracle, xb)


def test_what_jax_wrote_out_is_one_op_again(graphs: dict[str, Brought]) -> None:
    ops = {name: {node.op for node in xb.Program.from_json(graphs[name].program).nodes} for name in NAMES}
    assert {"solve", "inv", "det", "cholesky", "solve_triangular"} <= ops["solves"]
    assert {"erfinv", "gammaln", "digamma", "erf"} <= ops["special"]
    assert {"sort", "argsort"} <= ops["sorts"] and "searchsorted" in ops["searches"]
    assert "scan" in ops["scans"] and "while_loop" not in ops["scans"]


def test_lines_are_the_users(graphs: dict[str, Brought]) -> None:
    text = SCRIPT.read_text().splitlines()
    program = xb.Program.from_json(graphs["arithmetic"].program)
    file, _, line = next(node for node in program.nodes if node.op == "divide").source.rpartition(":")
    assert Path(file) == SCRIPT and "(x + y) * x - y / (2.0 + x**2)" in text[int(line) - 1]


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_without_a_program_is_refused_with_what_to_do(name: str, answers: dict[str, str]) -> None:
    assert answers[name].startswith("GraphError: ") and re.search(REFUSED[name], answers[name]), answers[name]


def test_a_large_array_of_one_number_is_no_large_array(answers: dict[str, str]) -> None:
    assert answers["large"].startswith("no error")


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("loss", ()),
        ("with_rule", ()),
        ("of_symbols", ("float64[5,3]", "float64[3,3]")),
        ("of_two", ()),
        ("of_another", ()),
    ],
)
def test_a_file_comes_in_by_its_name(name: str, inputs: tuple[str, ...], answers: dict[str, str], folder: Path) -> None:
    origin = bring("jax", str(folder / f"{name}.jaxexport"), inputs or None)
    assert origin.facts["graph"].endswith("exported for cuda") == (not origin.results) == (name == "of_another")
    assert list(origin.gradient) == {"of_two": [], "of_another": [], "of_symbols": ["x0", "x1"]}.get(name, ["x", "w"])
    if origin.results:
        check_origin(origin, ("numpy",))


def test_any_file_but_pythons_is_one_of_jax_export(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"")
    (tmp_path / "model.py").write_text("")
    of_jax = kind("jax")
    assert target_of(f"{tmp_path}/model.bin", of_jax).stored and target_of("gone.bin", of_jax).stored
    assert not target_of(f"{tmp_path}/model.py:f", of_jax).stored and not target_of(str(tmp_path), of_jax).stored
    with pytest.raises(GraphError, match="has one function: leave out :f"):
        bring("jax", f"{tmp_path}/model.bin:f", None)


@pytest.mark.tier("exhaustive")
def test_a_wrong_row_would_be_found(tmp_path: Path, oracle: xb.Backend) -> None:
    """A row of `sub` that adds is planted in the walk of the jaxpr."""
    found = brought(ready_environment("jax").python, SCRIPT, tmp_path, "--exported", "--planted", "arithmetic", **CPU)
    with pytest.raises(AssertionError, match="result 0"):
        check(found["arithmetic"], oracle, xb)


def test_a_wrong_number_would_be_found(graphs: dict[str, Brought]) -> None:
    results = graphs["arithmetic"].results
    with pytest.raises(AssertionError, match="result 0"):
        compare([np.asarray(one) * (1.0 + 1e-10) for one in results], results)
