"""Programs as files of ONNX: workloads and random programs give NumPy's results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers
from onnx_runs import evaluated
from random_programs import ops_of
from source_cases import of_workloads
from source_scripts import Case, case, differs
from test_bring_source import WITHOUT, drawn

import xbackend as xb
from xbackend.bring.onnx.graph import NEWER, OPSET
from xbackend.bring.onnx.walk import graph_of, refusal
from xbackend.cli import DONE, WRONG, main
from xbackend.errors import UnsupportedOperation
from xbackend.program.ops import OPS

pytestmark = pytest.mark.tier("standard")
LACKS = frozenset(op for op in OPS if refusal(op))


@pytest.fixture(scope="module")
def oracle() -> Iterator[Any]:
    with xb.open("numpy", virtual_devices=4) as backend:
        yield backend


def wrong(cases: dict[str, Case], folder: Path) -> dict[str, str]:
    """The differences of files' results, by name."""
    found = evaluated({name: (one.program, one.inputs) for name, one in cases.items()}, folder)
    said = {name: got if isinstance(got, str) else differs(got, cases[name]) for name, got in found.items()}
    return {name: text for name, text in said.items() if text}


def written(one: Case) -> bool:
    return LACKS.isdisjoint(ops_of(one.program)) and not any(node.device for node in one.program.nodes)


def test_workloads_compute_the_same(oracle: Any, tmp_path: Path) -> None:
    cases = {name: one for name, one in of_workloads(oracle, gradient=False).items() if written(one)}
    assert len(cases) >= 10
    found = wrong(cases, tmp_path)
    assert not found, "\n".join(f"{name}: {said}" for name, said in found.items())


def test_random_programs_compute_the_same(oracle: Any, tmp_path: Path) -> None:
    cases = {
        f"random{i}": case(oracle, one.program, one.arguments)
        for i, one in enumerate(drawn(False, number=33, count=tiers.share(400), without=WITHOUT | LACKS))
    }
    found = wrong(cases, tmp_path)
    assert not found, "\n".join(f"{name}: {said}\n{cases[name].program}" for name, said in found.items())


def test_state_is_inputs_and_results(oracle: Any, tmp_path: Path) -> None:
    total = xb.shared(np.array([1.0, 2.0]), name="total")

    def step(w: Any) -> Any:
        xb.update(total, total + w)
        return {"dot": xb.sum(total * w), "same": w, "again": w}

    one = case(oracle, xb.trace(step, np.array([3.0, 4.0])), [np.array([3.0, 4.0])])
    assert not wrong({"step": one}, tmp_path)
    graph = graph_of(one.program)
    assert [name for name, _ in graph.inputs] == ["w", "total"]
    assert [name for name, _ in graph.outputs] == ["dot", "same", "again", "new_total"]
    assert graph.defaults["total"].tolist() == [1.0, 2.0]


def test_large_arrays_are_made_of_few_numbers(oracle: Any, tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        down = xb.arange(3, -4999, -5) * 2
        return down, xb.full((40, 50), 2.5) + x, xb.arange(0.0, 10.0, 0.01), xb.eye(20, 30, k=1) + x

    one = case(oracle, xb.trace(function, np.asarray(1.0)), [np.asarray(1.0)])
    assert not wrong({"large": one}, tmp_path)
    assert [node.op for node in graph_of(one.program).nodes].count("Range") == 1
    assert (tmp_path / "large" / "model.onnx").stat().st_size < 16000


def test_powers_wrap_and_logarithms_of_powers_are_whole(oracle: Any, tmp_path: Path) -> None:
    k, n = np.array([2, -6, 3, -1, 1, 0, 2]), np.array([64, 70, 5, 65, 99, 80, 62])
    x = np.concatenate([10.0 ** np.arange(-5, 20), [0.0, np.inf, 7.0, np.nan]])

    def function(k: Any, n: Any, x: Any) -> Any:
        return k**n, k**64, k**65, xb.log10(x), xb.log2(xb.pow(2.0, xb.floor(x)))

    folder = tmp_path / "own"
    folder.mkdir()
    one = case(oracle, xb.trace(function, k, n, x), [k, n, x])
    assert not wrong({"powers": one}, tmp_path)
    whole = evaluated({"log10": (xb.trace(xb.log10, x[:25]), [x[:25]])}, folder)["log10"][0]
    assert whole.tolist() == list(range(-5, 20))


def test_a_place_is_written_once(oracle: Any, tmp_path: Path) -> None:
    """The standard leaves open which of several writes to a place stays. With known indices the file has the last one
    only. Additions are all in it."""

    def function(x: Any, v: Any, i: Any) -> Any:
        twice, same = np.array([0, 2, -4, 1]), np.array([[1, 1], [3, -3]])
        each = [
            xb.at(x)[:, twice].set(v),
            xb.at(x)[:, twice].add(v),
            xb.at(x)[:, i].add(v),
            xb.at(x)[1, twice].set(v[0]),
        ]
        return each, xb.at(x)[:, same].set(xb.reshape(v, (2, 2, 2))), xb.at(x)[:, np.array([3, 1])].set(v[:, :2])

    arrays = [np.zeros((2, 4)), np.arange(1.0, 9.0).reshape(2, 4), np.array([1, 0, 1, 1])]
    one = case(oracle, xb.trace(function, *arrays), arrays)
    assert not wrong({"writes": one}, tmp_path)
    graph = graph_of(one.program)
    of_indices = [node for node in graph.nodes if node.op == "ScatterND" and node.attributes]  # not of slices
    added = [node for node in of_indices if node.attributes["reduction"] == "add"]
    places = [graph.model.constants[node.inputs[1]] for node in of_indices if node not in added]
    assert len(places) == 4 and all(len(np.unique(one)) == len(one) for one in places)
    assert len(added) == 2


def test_an_empty_part_has_no_operator() -> None:
    graph = graph_of(xb.trace(lambda x, v: xb.at(x * 2.0)[1:1].add(v), np.ones(3), np.ones(0)))
    assert "Add" not in [node.op for node in graph.nodes]


def test_a_result_with_the_name_of_an_input_has_a_number() -> None:
    graph = graph_of(xb.trace(lambda x, tanh: {"x": x * 2.0, "tanh": tanh, "y": xb.tanh(x)}, np.ones(3), np.ones(3)))
    assert [name for name, _ in graph.outputs] == ["x_2", "tanh_2", "y"]


def test_a_wrong_file_would_be_found(oracle: Any, tmp_path: Path) -> None:
    one = case(oracle, xb.trace(xb.exp, np.ones(3)), [np.ones(3)])
    assert "off by" in wrong({"exp": Case(one.program, one.inputs, [one.expected[0] * 1.001])}, tmp_path)["exp"]


def test_names_are_the_users_and_operators_are_no_newer_than_needed() -> None:
    def function(max: Any, rows: Any) -> Any:
        scaled = max * 2.0
        return xb.cumulative_prod(xb.tanh(scaled)) + rows, scaled

    graph = graph_of(xb.trace(function, np.ones(3), np.ones(3)))
    assert [name for name, _ in graph.inputs] == ["max", "rows"]
    assert [name for name, _ in graph.outputs] == ["output_0", "output_1"]
    assert graph.model.opset == NEWER["CumProd"] > OPSET == graph_of(xb.trace(xb.exp, np.ones(3))).model.opset


def test_a_file_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "softmax.onnx"
    assert main(["translate", "softmax", "--to", "onnx", "--write", str(path)]) == DONE
    assert b"xbackend" in path.read_bytes()
    assert main(["translate", "softmax", "--to", "onnx"]) == WRONG
    assert "onnx is no text: give --write PATH" in capsys.readouterr().err


def test_what_onnx_lacks_is_one_error() -> None:
    def function(a: Any, b: Any) -> Any:
        loss = xb.sum(xb.linalg.solve(a, b)) + xb.sum(xb.erfinv(b)) + xb.sum(xb.erfinv(a))
        return xb.cond(loss > 0.0, xb.linalg.inv, lambda a: a, a), xb.grad(loss, b)

    program = xb.trace(function, np.eye(3), np.ones(3))
    with pytest.raises(UnsupportedOperation, match="function has ops that ONNX lacks") as raised:
        graph_of(program)
    lines = str(raised.value).splitlines()[1:]
    assert [line.split(",")[0].strip() for line in lines] == ["erfinv", "grad", "inv", "solve"]
    assert "erfinv, 2 times, first at" in lines[0] and "no gradients: give the value alone" in lines[1]
