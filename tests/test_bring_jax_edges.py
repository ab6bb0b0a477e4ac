"""Edge cases of JAX's functions and of files of `jax.export`: casts out of range, initial values of reductions, empty
writes. Wrong shapes, dtypes and files have an error that says so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from bring_helpers import Brought, brought, check

import xbackend as xb
from xbackend.workers.remote import ready_environment

pytestmark = [pytest.mark.tier("standard"), pytest.mark.needs("jax")]

SCRIPT = Path(__file__).with_name("jax_edges.py")
GRAPHS = ("nested_vmap", "casts_beyond", "windows_of_bools", "writes_into_nothing")
OF_FILES = tuple(f"{name}_of_a_file" for name in (*GRAPHS, "running_from", "reduced_from"))
ANSWERS = {
    "both widths": r"\[True, True\]",  # whether the cache of one session keeps 32 and 64 bits apart
    "two lengths": r"GraphError: sin was not exported for arrays of \(3, 4\): .*n",
    "too short": r"GraphError: sin was not exported for arrays of \(1,\): .*n >= 2",
    "of float64": r"(?!GraphError).",  # JAX itself takes it in 32 bits
    "of int32": r"GraphError: sin takes float32\[3\], and int32\[3\] is given",
    "large": "int64,int64",
    "sum from 5": "GraphError: .*reduce_window by add from an initial value, once, first at .*begin a sum with 0",
    "sorted by hand": "input,.*sort.*",
    "upper": "GraphError: cholesky: the upper factor has no row",
    "read with 32 bits": "GraphError: written has 64-bit arguments, and JAX read it with 32-bit numbers: write jax",
    "dictionary": r"\['x'\]",
    "tuple": r"\['x'\]",
    "loop": r"\[\]",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("jax")


@pytest.fixture(scope="module")
def graphs(folder: Path) -> dict[str, Brought]:
    return brought(ready_environment("jax").python, SCRIPT, folder, JAX_PLATFORMS="cpu")


@pytest.fixture(scope="module")
def oracle() -> Iterator[xb.Backend]:
    with xb.open("numpy") as backend:
        yield backend


@pytest.mark.parametrize("name", (*GRAPHS, *OF_FILES))
def test_what_jax_leaves_to_xla_is_as_xla_has_it(name: str, graphs: dict[str, Brought], oracle: xb.Backend) -> None:
    check(graphs[name], oracle, xb)


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_asked_is_answered(name: str, graphs: dict[str, Brought], folder: Path) -> None:
    answers = dict(line.split("\t") for line in (folder / "answers.txt").read_text().splitlines())
    assert re.match(ANSWERS[name], answers[name]), answers[name]
