"""Imported functions, graphs and files of TensorFlow: values and gradients are TensorFlow's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bring_helpers import Brought, brought, check, compare, flat

import xbackend as xb
from xbackend import environments
from xbackend.cli import users
from xbackend.cli.graphs import GraphChoice
from xbackend.errors import UsageError
from xbackend.results.naming import FILE
from xbackend.workers.bringing import bring

pytestmark = pytest.mark.tier("standard")

SCRIPT = Path(__file__).with_name("tensorflow_graphs.py")
DEVICES = {"gpu:0": "cpu:0", "gpu:1": "cpu:1"}


def listed(name: str) -> list[str]:
    """The names in a list of the script, which cannot be imported here."""
    tree = ast.parse(SCRIPT.read_text())
    (found,) = [n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == name]
    return [one.id for one in ast.walk(found) if isinstance(one, ast.Name)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


@pytest.fixture(scope="module")
def graphs(folder: Path) -> dict[str, Brought]:
    environment = environments.get("tensorflow")
    if environment.state != "ready":
        environments.sync("tensorflow")
    return brought(environments.get("tensorflow").python, SCRIPT, folder)


class Bound:
    """A backend that binds the logical devices of programs to `DEVICES`."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend

    def compile(self, program: Any) -> Any:
        devices = {name: to for name, to in DEVICES.items() if name in {n.device for n in program.nodes}}
        return self.backend.compile(program, devices=devices)


@pytest.fixture(scope="module", params=["numpy", "tensorflow"])
def backend(request: pytest.FixtureRequest) -> Iterator[Bound]:
    with xb.open(request.param, virtual_devices=2, isolated=request.param != "numpy") as found:
        yield Bound(found)


FILES = [f"file_{name}" for name in ("predict", "loss", "rows", "step", "old", "meta", "frozen", "text", "reshaped")]


@pytest.mark.parametrize("name", [*listed("FUNCTIONS"), "towers", "powers", "saved", *FILES])
def test_values_and_gradients_are_those_of_tensorflow(graphs: dict[str, Brought], backend: Bound, name: str) -> None:
    check(graphs[name], backend, xb)


NORMALISED = ("normalised", "older_normalised")
OPTIMIZERS = ("AdamOptimizer", "RMSPropOptimizer", "AdagradOptimizer")


@pytest.mark.parametrize("name", ["updates", "adam", "trained", "momentum", *NORMALISED, *OPTIMIZERS])
def test_assignments_are_updates(graphs: dict[str, Brought], backend: Bound, name: str) -> None:
    graph = graphs[name]
    run = backend.compile(xb.Program.from_json(graph.program))
    compare([one for _ in range(2) for one in flat(run(*graph.inputs))], graph.results)


def test_a_wrong_number_is_found(graphs: dict[str, Brought], backend: Bound) -> None:
    graph = graphs["products"]
    wrong = [graph.results[0] * (1.0 + 1e-9), *graph.results[1:]]
    with pytest.raises(AssertionError, match="result 0"):
        check(replace(graph, results=wrong), backend, xb)


def test_devices_and_lines_are_the_users(graphs: dict[str, Brought]) -> None:
    program = xb.Program.from_json(graphs["placed"].program)
    assert {n.op: n.device for n in program.nodes if n.op in ("matmul", "sin", "add")} == {
        "matmul": "gpu:0",
        "sin": "gpu:1",
        "add": "cpu:0",
    }
    lines = SCRIPT.read_text().splitlines()
    (line,) = [i for i, text in enumerate(lines, 1) if "z = tf.sin(x)" in text]
    (sine,) = [n for n in program.nodes if n.op == "sin"]
    assert sine.source == f"{SCRIPT}:{line}"


def test_names_and_forms_are_kept(graphs: dict[str, Brought]) -> None:
    program = xb.Program.from_json(graphs["nested"].program)
    assert program.name == "nested"
    with xb.open("numpy") as backend:
        found = backend.compile(program)(np.ones(5))
    assert set(found) == {"a", "b"}
    assert isinstance(found["a"], tuple)
    shared = xb.Program.from_json(graphs["with_variable"].program).shared
    assert [one.name for one in shared.values()] == ["scale"]


def test_a_loop_of_a_known_length_is_a_scan(graphs: dict[str, Brought]) -> None:
    ops = {name: {n.op for n in xb.Program.from_json(graphs[name].program).nodes} for name in ("counted", "until")}
    assert "scan" in ops["counted"]
    assert "while_loop" in ops["until"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("of_values", ["Where", "depends on the values", "tf.where"]),
        ("draws_and_prints", ["PyFunc", "PrintV2", "RandomStandardNormal", "as an input", "tensorflow_graphs.py:"]),
        ("custom", ["tf.custom_gradient", "gradients=False"]),
        ("dilated", ["dilations"]),
        ("complex_numbers", ["FFT", "complex"]),
        ("small", ["float16"]),
        ("two_devices_in_a_loop", ["gpu:0 and gpu:1", "one device"]),
        ("looked_up", ["as an input"]),
        ("statistics", ["FusedBatchNormV3", "gradients=False"]),
        ("checked_values", ["Assert", "no program stops", "tensorflow_graphs.py:"]),
        ("old_loop", ["Switch", "Merge", "Enter", "enable_control_flow_v2"]),
        ("drawn_variable", ["variables={'v': array}"]),
        ("of_two_graphs", ["found has tensors of several graphs"]),
        ("label_out_of_range", ["does not run found: Received a label value", "--input"]),
        ("no_fixed_placeholder", ["the input x (float64(None,)) has no fixed shape", "--input 'float64[3,4]'"]),
        ("a_session", ["no session fetches Session"]),
        ("a_dictionary", ["found is dict", "a tensor, an operation or a list of them"]),
        ("unordered", ["v is assigned twice", "tf.control_dependencies"]),
        ("calls_itself", ["call themselves"]),
        ("too_many_calls", ["2097152 operations"]),
        ("too_few", ["2 arrays as arguments, and 1 are given"]),
        ("no_second", ["no arguments of the function", "'y'"]),
        ("damaged", ["no GraphDef"]),
        ("no_shape", ["not fixed", "xb.ArraySpec"]),
        ("file_several", ["no signature serving_default, but loss, predict, rows and step", "FOLDER:SIGNATURE"]),
        ("file_no_signature", ["no signature fit, but loss, predict, rows and step"]),
        ("file_without", ["no signature: save it with signatures="]),
        ("file_table", ["HashTable", "LookupTableFind", "as an input, for tf.gather"]),
        ("file_ragged", ["Ragged", "pad it, with a mask"]),
        ("file_python", ["PyFunc", "write it in TensorFlow's operations"]),
        ("file_string", ["the input x: dtype string has no place", "give numbers"]),
        ("file_shape", ["the input x (float32(None, 3)) has no fixed shape", "--input 'float64[3,4]'"]),
        ("file_wrong_shape", ["the input x (float32(None, 3)) was given an array of shape (3, 4)"]),
        ("file_no_output", ["frozen.pb:OUTPUT[,OUTPUT...]: nothing else uses loss"]),
        ("file_other_output", ["the graph has no 'yy'"]),
        ("file_later", ["from graph version 1000000 on", "--from tensorflow=PATH"]),
        ("file_deep", ["deep.pbtxt is no GraphDef: maximum recursion depth exceeded"]),
        ("file_large", ["has 2147483649 bytes, and 2147483648 are read at most"]),
        ("file_damaged", ["variables are not read from"]),
        ("file_noise", ["no GraphDef"]),
        ("file_run_variable", ["WriteFile, once", "give the batch as an input"]),
        ("file_run_function", ["WriteFile, once", "give the batch as an input"]),
        ("file_run_fed", ["the input x is the result of Identity, and no placeholder"]),
        ("file_twice", ["the inputs a and b are one placeholder"]),
        ("file_empty", ["the signature has no outputs"]),
        ("file_cast", ["the variable v is restored by Neg"]),
        ("file_lost", ["there is no", "lost.ckpt.index", "copy it there"]),
        ("file_folder", ["is a folder without saved_model.pb or saved_model.pbtxt"]),
        ("file_inside", ["name the folder", "old:SIGNATURE"]),
        ("file_wrong_dtype", ["the input k (int64(3,)) was given an array of float64: give int64"]),
    ],
)
def test_what_no_program_has_is_said(graphs: dict[str, Brought], name: str, said: list[str]) -> None:
    for text in said:
        assert text in graphs[name].error


def test_files_keep_names_variables_and_assignments(graphs: dict[str, Brought]) -> None:
    programs = {name: xb.Program.from_json(graphs[name].program) for name in FILES}
    assert [n.params["name"] for n in programs["file_step"].nodes if n.op == "input"] == ["by", "x"]
    assert programs["file_predict"].structure == {"dict": [["best", "*"], ["scores", "*"]]}
    assert [len(programs[name].updates) for name in ("file_step", "file_meta", "file_frozen")] == [1, 2, 0]
    assert graphs["file_loss"].gradients


def test_files_are_named_on_the_command_line(graphs: dict[str, Brought], folder: Path) -> None:
    graph, files = GraphChoice("tensorflow"), folder / "files"
    made = users.cases(f"{files}/fitted:loss", ["float64[4,3]"], {}, graph=graph)
    assert [one.workload for one in made] == ["loss", "loss+gradient"]
    assert made[0].parameters[FILE] == graph.place(f"{files}/fitted:loss") == str(files / "fitted")
    assert graph.named(f"{files}/frozen.pb:y:0,loss") == f"{files}/frozen.pb:frozen"
    assert graph.named(f"{files}/old") == f"{files}/old:old"
    with pytest.raises(UsageError, match=r"there is no file .*none\.pb"):
        bring("tensorflow", f"{files}/none.pb:y", None)
    with pytest.raises(UsageError, match=r"is not FILE\.py:NAME"):
        bring("jax", f"{files}/fitted", None)


def test_without_gradients_a_stop_is_nothing(graphs: dict[str, Brought]) -> None:
    assert not graphs["unstopped"].error
    assert [n.op for n in xb.Program.from_json(graphs["unstopped"].program).nodes] == ["input", "multiply"]


def test_one_number_for_a_large_array_stays_one(graphs: dict[str, Brought]) -> None:
    assert "full" in {n.op for n in xb.Program.from_json(graphs["large"].program).nodes}
