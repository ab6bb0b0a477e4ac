"""Edges of what comes in of TensorFlow: what is fed, sparse gradients, old functions, large constants, indices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


class Anywhere:
    """A backend that binds all logical devices of programs to one."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend

    def compile(self, program: Any) -> Any:
        named = {node.device for node in program.nodes if node.device and "gpu" in node.device}
        return self.backend.compile(program, devices=dict.fromkeys(named, "cpu:0"))


VALUES = [
    *("sparse_gradient", "sparse_gradient_of_a_session", "signature"),
    *("no_gradient", "no_gradient_of_a_plain_function", "no_gradient_of_a_session", "no_gradient_of_an_old_function"),
    *("second_result_fed", "first_result_fed"),
    *("begin_fed", "begin_fed_after_its_parts", "begin_of_a_reference"),
    *("second_of_one_name", "first_as_list", "large_first"),
    *("constant_of_zeros", "constant_with_a_tail", "far_divided"),
    *("old_call_that_assigns", "old_call_in_a_branch", "gradient_of_a_branch", "constant_elsewhere"),
    *("label_of_no_class_without_gradients", "gradient_by_labels"),
]


@pytest.mark.parametrize("name", VALUES)
def test_values_and_gradients_are_those_of_tensorflow(graphs: dict[str, Brought], name: str) -> None:
    with xb.open("numpy") as backend:
        check(graphs[name], Anywhere(backend), xb)


def test_gradients_of_tensorflow_are_there_or_not(graphs: dict[str, Brought]) -> None:
    for name in ("sparse_gradient", "sparse_gradient_of_a_session", "signature", "gradient_by_labels"):
        assert graphs[name].gradients
    for name in ("no_gradient", "no_gradient_of_a_session", "no_gradient_of_an_old_function", "gradient_of_a_branch"):
        assert not graphs[name].gradients


def test_a_range_has_as_many_numbers_as_tensorflows(graphs: dict[str, Brought]) -> None:
    with xb.open("numpy") as backend:
        check(graphs["long_range"], backend, xb, {"float32": 1e-4})


def test_what_is_computed_while_walking_stays_small(graphs: dict[str, Brought]) -> None:
    assert not graphs["large_diagonal"].error
    assert "where" in {node.op for node in xb.Program.from_json(graphs["large_diagonal"].program).nodes}


def test_a_loop_has_its_own_line(graphs: dict[str, Brought]) -> None:
    (line,) = [i for i, text in enumerate(SCRIPT.read_text().splitlines(), 1) if "return tf.while_loop(" in text]
    (loop,) = [node for node in xb.Program.from_json(graphs["lines_of_a_loop"].program).nodes if node.op == "scan"]
    assert loop.source == f"{SCRIPT}:{line}"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("several_of_one_name", ["a and b are one variable", "several values"]),
        ("first_of_other_dtype", ["the variable 'a' is float32(2,), was given float64(2,)"]),
        ("first_of_other_shape", ["the variable 'a' is float32(2,), was given float32(3,)"]),
        ("old_call_in_a_loop_on_two_devices", ["gpu:0 and gpu:1", "one device"]),
        ("gradient_of_a_function", ["the function has a gradient of its own", "gradients=False"]),
        ("gradient_in_python", ["the function has a gradient of its own", "gradients=False"]),
        ("label_of_no_class", ["labels do not sum to 1", "gradients=False"]),
        ("negative_gather", ["the indices of a gather go from -1 to 0, and TensorFlow takes 0 to 2"]),
        ("gather_beyond", ["go from 0 to 4, and TensorFlow takes 0 to 3"]),
        ("negative_place", ["the indices of axis 1 go from -1 to -1, and TensorFlow takes 0 to 3"]),
        ("scatter_beyond", ["the indices of axis 0 go from 3 to 3, and TensorFlow takes 0 to 2"]),
        ("update_beyond", ["the indices of axis 0 go from -1 to -1, and TensorFlow takes 0 to 2"]),
        ("segment_beyond", ["the segments go from 0 to 2, and TensorFlow takes 0 to 1"]),
        ("segments_unsorted", ["the segments are not in order"]),
        ("negative_label", ["the labels go from -1 to 1, and TensorFlow takes 0 to 3"]),
    ],
)
def test_what_tensorflow_or_a_program_refuses_is_said(graphs: dict[str, Brought], name: str, said: list[str]) -> None:
    for text in ("GraphError", *said):
        assert text in graphs[name].error


def test_an_unknown_first_value_is_said_once(graphs: dict[str, Brought]) -> None:
    assert graphs["drawn_first"].error.count("the first value of") == 2  # what is not known, and which ops are why
    assert graphs["drawn_first"].error.count("is not known") == 1
