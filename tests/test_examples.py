"""The tutorials' programs, run as a user runs them, on every backend, against their published values."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from xbackend.backends import registry

pytestmark = [pytest.mark.tier("standard"), pytest.mark.shared_out]

EXAMPLES = Path(__file__).parent.parent / "examples"


def run_example(name: str, *arguments: str) -> str:
    """Standard output of an example in its own process. A failure shows all its output."""
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def records(output: str, op: str) -> list[tuple[str, str]]:
    """(bound, executed) of every op of a name in a printed placement; executed is ? if it was not read."""
    return re.findall(rf"^{op} \(node \d+, \S+:\d+\): asked .*? = (\S+), executed (\S+),", output, re.MULTILINE)


def summary(count: int, read: bool) -> str:
    """The beginning of the answer about so many ops."""
    return rf"^all {count} ops? as asked" if read else rf"^of {count} ops? none is read back: \w"


@pytest.fixture(params=registry.names())
def name(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@pytest.mark.one_each(8, 14)
def test_p1_names_devices_and_refuses_one_that_is_not_there(name: str) -> None:
    output = run_example("p1_name_devices.py", name)
    assert f"{name}: pinned [[22.0, 28.0], [49.0, 64.0]]" in output
    assert f"{name}: default [[22.0, 28.0], [49.0, 64.0]]" in output
    ((bound, ran),) = records(output, "matmul")
    assert bound == "cpu:0" and ran in ("cpu:0", "?")
    assert re.search(summary(1, read=ran != "?"), output, re.MULTILINE), output
    refused = re.search(r"refused: there is no device gpu:7 .*p1_name_devices.py:(\d+)\); there is cpu:0", output)
    assert refused, output
    assert "return a @ b" in (EXAMPLES / "p1_name_devices.py").read_text().splitlines()[int(refused[1]) - 1]


@pytest.mark.one_each(3, 14)
def test_p2_two_products_on_two_devices(name: str) -> None:
    output = run_example("p2_two_devices.py", name)
    assert f"{name}: total [[44.0, 56.0], [98.0, 128.0]]" in output
    read = name != "numpy"
    assert sorted(records(output, "matmul")) == [(d, d if read else "?") for d in ("cpu:0", "cpu:1")]
    assert records(output, "add") == [("cpu:0", "cpu:0" if read else "?")]
    assert re.search(r"^transfer cpu:1 -> cpu:0: 16 bytes \(crossing\)$", output, re.MULTILINE), output
    assert re.search(rf"{summary(3, read)}.*transfers? \(", output, re.MULTILINE), output


@pytest.mark.one_each(2, 14)
def test_p3_one_device_against_two(name: str) -> None:
    output = run_example("p3_one_against_two.py", "--size", "64", name)
    assert re.search(rf"^{name}: one device \d+\.\d ms, two \d+\.\d ms, speed-up \d+\.\d\d$", output, re.MULTILINE)


@pytest.mark.one_each(9, 14)
def test_p4_shared_variable_on_one_device_function_on_another(name: str) -> None:
    output = run_example("p4_shared_variable.py", name)
    assert f"{name}: doubled [2.0, 4.0, 6.0]" in output
    assert f"{name}: x is now [2.0, 3.0, 4.0], doubled [4.0, 6.0, 8.0]" in output


@cache
def two_layer_losses(steps: int = 20, rate: float = 0.1) -> tuple[float, ...]:
    """The losses of P5 and P11, by NumPy in float64, with the example's data and first weights."""
    example = runpy.run_path(str(EXAMPLES / "p5_model_parallel.py"))
    x, target = (array.astype(float) for array in example["data"]())
    w1, w2 = (array.astype(float) for array in example["weights"]().values())
    losses = []
    for _ in range(steps):
        hidden = np.tanh(x @ w1)
        wrong = hidden @ w2 - target
        losses.append(float(np.mean(wrong**2)))
        by_output = 2 * wrong / wrong.size
        by_hidden = by_output @ w2.T * (1 - hidden**2)
        w1, w2 = w1 - rate * x.T @ by_hidden, w2 - rate * hidden.T @ by_output
    return tuple(losses)


@pytest.mark.heavy
@pytest.mark.one_each(1, 14)
def test_p5_a_model_on_two_devices_learns_as_on_one(name: str) -> None:
    output = run_example("p5_model_parallel.py", name)
    printed = re.search(rf"^{name}: losses (.*)$", output, re.MULTILINE)
    assert printed, output
    np.testing.assert_allclose([float(loss) for loss in printed[1].split()], two_layer_losses(), atol=2e-5)
    assert f"{name}: one device and two agree" in output


@pytest.mark.one_each(5, 14)
def test_p6_rows_spread_over_three_devices(name: str) -> None:
    output = run_example("p6_in_graph_replication.py", name)
    assert f"{name}: rows [[9.0], [21.0], [33.0], [45.0]]" in output
    read = name != "numpy"
    assert records(output, "matmul") == [(f"cpu:{i}", f"cpu:{i}" if read else "?") for i in range(3)]
    assert records(output, "concat") == [("cpu:0", "cpu:0" if read else "?")]


@pytest.mark.heavy
@pytest.mark.one_each(10, 14)
def test_p11_data_and_model_parallel_give_the_same_weights(name: str) -> None:
    output = run_example("p11_data_and_model_parallel.py", name)
    used = {
        "one device": "cpu:0",
        "data parallel": "cpu:0 cpu:1",
        "model parallel": "cpu:0 cpu:1",
        "both": "cpu:0 cpu:1 cpu:2 cpu:3",
    }
    for way, devices in used.items():
        row = re.search(rf"^{name}: {way}: ops on {devices}, losses (\S+) to (\S+)$", output, re.MULTILINE)
        assert row, output
        expected = two_layer_losses()
        np.testing.assert_allclose([float(row[1]), float(row[2])], [expected[0], expected[-1]], atol=2e-5)
    assert f"{name}: the weights agree" in output


@pytest.mark.heavy
@pytest.mark.one_each(7, 14)
def test_p8_towers_have_the_weights_of_one_device(name: str) -> None:
    output = run_example("p8_towers.py", name)
    row = re.search(rf"^{name}: tower losses (\S+) and (\S+), loss (\S+)$", output, re.MULTILINE)
    assert row, output
    first, second, loss = map(float, row.groups())
    assert abs((first + second) / 2 - loss) < 2e-4  # both towers have equally many rows
    assert f"{name}: after 16 steps, accuracy 0.950 on 60 others" in output
    assert f"{name}: the weights are those of one device" in output


@pytest.mark.heavy
@pytest.mark.one_each(0, 14)
def test_p9_mirrored_has_the_weights_of_one_device_and_a_mean_is_no_sum(name: str) -> None:
    output = run_example("p9_mirrored.py", name)
    assert f"{name}: visible cpu:0, cpu:1" in output
    assert f"{name}: mean 8.0, sum 16.0" in output
    assert f"{name}: loss 0.1221, validation accuracy 0.900" in output
    assert f"{name}: the weights are those of one device" in output


@pytest.mark.heavy
@pytest.mark.one_each(4, 14)
def test_digits_are_recognised_as_well_as_by_scikit_learn(name: str) -> None:
    output = run_example("digits.py", name)
    for model in ("linear", "network"):
        row = re.search(rf"^{model} on {name}: (\S+), scikit-learn (\S+)$", output, re.MULTILINE)
        assert row, output
        assert float(row[1]) >= float(row[2]) - 0.01


def test_p1_to_p6_on_devices_that_are_named() -> None:
    """As on a GPU and the CPU, but on two CPU devices."""
    output = run_example("on_devices.py", "--devices", "cpu:1,cpu:0", "jax", "pytensor-jax")
    for name in ("jax", "pytensor-jax"):
        assert f"{name}: devices cpu:0, cpu:1, default cpu:0" in output
        assert f"{name}: P1 on cpu:1: all 1 op as asked" in output
        assert f"{name}: P2 on cpu:0, cpu:1: all 3 ops as asked" in output
        assert {line.split()[1] for line in output.splitlines() if line.startswith(f"{name}: P")} == {
            f"P{number}" for number in range(1, 7)
        }
