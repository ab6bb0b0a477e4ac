"""The files of `xbackend train`, and a step of a model as a workload."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from tiers import share

import xbackend as xb
from xbackend.drawing.graph import bytes_text
from xbackend.errors import ArgumentError, DamagedStore, StoreError, WorkloadError
from xbackend.measure.machine import machine
from xbackend.report import files, write
from xbackend.report.drawn import losses
from xbackend.report.said import training as report
from xbackend.report.said.text import NOTHING
from xbackend.results.schema import read, sealed
from xbackend.results.trained import Passed, Trained, Trainings
from xbackend.strategies.named import NAMES, named
from xbackend.training import SGD, Training, layers
from xbackend.training.model import Model
from xbackend.training.workload import step_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5))
LABELS = (X[:, 0] > 0).astype(np.int64)


def loss(weights: Any, x: Any, labels: Any) -> Any:
    """Two layers."""
    with xb.device("dev0"):
        hidden = xb.tanh(layers.dense(x, weights["w"], weights["b"]))
    with xb.device("dev1"):
        scores = hidden @ weights["v"]
        return layers.cross_entropy(scores, labels), {"accuracy": layers.accuracy(scores, labels)}


def plain(weights: Any, x: Any, labels: Any) -> Any:
    """Two layers."""
    scores = xb.tanh(layers.dense(x, weights["w"], weights["b"])) @ weights["v"]
    return layers.cross_entropy(scores, labels), {"accuracy": layers.accuracy(scores, labels)}


def model(function: Any = plain, **options: Any) -> Model:
    made = Model(function, optimizer=SGD(0.5, momentum=0.9), batch=9, **options)
    made.weights(lambda rng: {"w": rng.normal(size=(5, 4)), "b": np.zeros(4), "v": rng.normal(size=(4, 2))})
    made.data(lambda rng: ((X[:30], LABELS[:30]), (X[30:], LABELS[30:])))
    return made


# A step as a workload.


@pytest.mark.parametrize("strategy", NAMES)
def test_a_step_as_a_workload_is_a_step_of_training(strategy: str) -> None:
    places = {"w": "dev0", "b": "dev0", "v": "dev1"}
    own = model(loss, places=places) if strategy == "model" else model()
    workload = step_of(own)
    parameters = workload.resolve(strategy=strategy)
    arrays = workload.arrays(3, **parameters)
    spread = {"dev0": "cpu:0", "dev1": "cpu:1"}
    with xb.open("numpy", virtual_devices=2) as backend:
        run = backend.compile(workload.traced(parameters), *arrays, devices=spread)
        found, scalars, moved = run(*arrays)
        again = run(*arrays)[2]
        start = {name: arrays[2 + i] for i, name in enumerate(("w", "b", "v"))}
        training = Training(
            backend, own.loss, start, own.optimizer,
            strategy=named(strategy, ("dev0", "dev1"), places), devices=spread,
        )  # fmt: skip
        expected = training.step(*arrays[:2])
        values = [value for copy in range(len(training.copies)) for value in training.values(copy).values()]
    assert float(found) == expected["loss"] and float(scalars["accuracy"]) == expected["accuracy"]
    for value, other, same in zip(moved, values, again, strict=True):
        np.testing.assert_array_equal(value, other)
        np.testing.assert_array_equal(value, same)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"strategy": "model"}, "none of one, towers, mirrored"),
        ({"strategy": "tower"}, "none of one, towers, mirrored"),
        ({"strategy": "towers", "replicas": 20}, "batch=9 is no whole number from 20"),
        ({"replicas": 0}, "replicas=0"),
        ({"batch": 0}, "batch=0"),
    ],
)
def test_a_step_that_cannot_be_is_refused(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        step_of(model()).resolve(**parameters)


@pytest.mark.parametrize(("name", "places"), [("two", {}), ("model", {})])
def test_a_strategy_is_known_by_its_name(name: str, places: dict[str, str]) -> None:
    with pytest.raises(ArgumentError, match=r"there is one, towers|says of no weight"):
        named(name, ("dev0",), places)


@pytest.mark.tier("exhaustive")
def test_a_model_is_compared_as_a_workload_is(tmp_path: Path) -> None:
    """By the command: fresh processes, one device and two. The check is of the weights after the step."""
    examples = Path(__file__).parent.parent / "examples"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "xbackend", "compare", str(examples / "p8_towers.py"), "--quick", "--wait", "0"),
            *("--processes", "1", "--backends", "jax", "--devices", "1,2", "--set", "strategy=one,mirrored"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    written = (tmp_path / "reports" / "p8_towers" / "report.md").read_text()
    for strategy in ("one", "mirrored"):
        assert f"strategy={strategy}" in written
    assert "classifier" in done.stdout and "wrong" not in done.stdout


# The report.


def run_of(backend: str = "numpy", strategy: str = "one", **more: Any) -> Trained:
    epochs = tuple(
        Passed(number=i, steps=4 * (i + 1), train={"loss": 1.0 / (i + 1), "accuracy": 0.5}, test={"loss": 2.0})
        for i in range(3)
    )
    common: dict[str, Any] = {
        **{"backend": backend, "strategy": strategy, "devices": 1, "places": ("cpu:0",), "epochs": epochs},
        **{"losses": (1.0, 0.5), "seconds": (0.5, 0.25, 0.125), "rows": (8, 8, 8), "memory": {"cpu:0": 4096}},
    }
    return Trained(**{**common, **more})


def trainings(*runs: Trained, name: str = "classifier") -> Trainings:
    return Trainings(
        model=name, summary="Two layers.", optimizer="SGD(rate=0.5)", dtypes=("float64",), batch=8, seed=0,
        created="2026-01-02T03:04:05+00:00", machine=machine(), runs=runs,
    )  # fmt: skip


FAILED = Trained(backend="theano", strategy="mirrored", devices=2, status="failed", reason="it is | broken")


def test_a_report_says_first_whether_the_weights_agree() -> None:
    far = run_of("jax", "mirrored", devices=2, places=("cpu:0", "cpu:1"), difference=3e-12, transfers=12)
    blocks, pictures = report.build(trainings(run_of(), far, FAILED))
    text = files("training", blocks, pictures)["training.md"].decode()
    first = text.splitlines()[2]
    assert first.startswith(
        "All 2 trainings of classifier end with the weights of numpy, one on 1 device, but for 3.0e-12"
    )
    assert "jax, mirrored on 2 devices" in first and "1 training failed" in first
    for row in (("numpy", "reference", NOTHING), ("jax", NOTHING, "3.0e-12"), ("theano", NOTHING, "failed")):
        assert f"| {' | '.join(row)} |" in text
    assert "theano, mirrored on 2 devices: it is | broken" in text.replace("\\", "")
    assert list(pictures) == ["losses-01.svg"] and "(losses-01.svg)" in text
    assert f"cpu:0 {bytes_text(4096)}" in text and "250.0 ms" in text


def test_trainings_that_coincide_are_one_curve_and_rounding_is_no_divergence() -> None:
    near = [run_of(name, losses=(1.0, 0.5 + 1e-15)) for name in ("jax", "theano")]
    far = run_of("aesara", losses=(1.0, 0.6))
    drawn = losses.picture([run_of(), *near, far], report.named, 1e-5, "t").decode()
    assert ">numpy, one on 1 device, and 2 that coincide with it<" in drawn and ">aesara, one on 1 device<" in drawn
    assert "jax" not in drawn and "theano" not in drawn
    # The axis reaches the limit of roundings, with numbers on it.
    assert "no more than roundings make" in drawn and drawn.count(">1e-") > 2


def test_losses_that_are_equal_to_the_bit_are_drawn() -> None:
    assert b"and 1 that coincide" in losses.picture([run_of(), run_of("jax")], report.named, 1e-5, "t")


def test_other_weights_are_no_roundings() -> None:
    near, far = (run_of("jax", difference=3e-12), run_of("theano", difference=0.25))
    said = report.said(trainings(run_of(), near, far)).answer
    assert said.startswith(
        "2 of 3 trainings of classifier end with the weights of numpy, one on 1 device, but for 3.0e"
    )
    assert said.endswith("other weights, by more than roundings make: theano, one on 1 device (2.5e-01)")
    assert report.said(trainings(run_of(), near, far)).ended.apart == [far]
    assert report.said(trainings(run_of(), far)).answer.startswith("1 of 2 trainings of classifier")
    single = msgspec.structs.replace(trainings(run_of(), run_of("jax", difference=1e-3)), dtypes=("float32",))
    assert report.said(single).ended.apart == []


def test_the_reference_is_the_first_that_ended_and_who_did_not_is_named() -> None:
    nan, same = run_of("jax", status="not verified", reason="NaN"), run_of("aesara", difference=1e-17)
    assert report.said(trainings(FAILED, run_of(), nan, same)).answer == (
        "all 2 trainings of classifier end with the weights of numpy, one on 1 device, but for 1.0e-17 of the largest "
        "at most (aesara, one on 1 device, float64); 1 training failed; with NaN, not verified: jax, one on 1 device; "
        "the reference is numpy, one on 1 device, as theano, mirrored on 2 devices failed"
    )


def test_a_report_that_is_written_again_leaves_no_picture_of_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "mine.svg").write_text("")
    assert write(trainings(run_of()), tmp_path).name == "training.md" and (tmp_path / "losses-01.svg").exists()
    write(trainings(FAILED), tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "mine.svg",
        "training.html",
        "training.json.gz",
        "training.md",
    ]


def test_without_two_that_ended_nothing_is_said_of_weights() -> None:
    assert report.said(trainings(FAILED)).answer == "0 trainings of classifier ended; 1 training failed"
    assert report.said(trainings(run_of())).answer == "1 training of classifier ended"
    blocks, pictures = report.build(trainings(FAILED))
    assert not pictures and blocks


@settings(max_examples=share(100))
@given(st.text(min_size=1), st.text())
def test_any_names_make_a_report(name: str, reason: str) -> None:
    failed = Trained(backend=name, strategy=name, devices=1, status="failed", reason=reason)
    assert files("training", *report.build(trainings(run_of(name), failed, name=name)))["training.md"]


def test_trainings_are_read_as_they_were_written(tmp_path: Path) -> None:
    path, whole = tmp_path / "training.json", trainings(run_of(), FAILED)
    path.write_bytes(sealed(whole))
    assert read(path, Trainings) == whole
    text = path.read_text()
    path.write_text(text.replace('"broken', '"BROKEN').replace("it is", "it was"))
    with pytest.raises(DamagedStore, match="not what its checksum says"):
        read(path, Trainings)
    path.write_text(text[: len(text) // 2])
    with pytest.raises(DamagedStore):
        read(path, Trainings)
    path.write_text("{}")
    with pytest.raises(DamagedStore, match="holds nothing of xbackend train"):
        read(path, Trainings)
    with pytest.raises(StoreError):
        read(tmp_path / "nowhere.json", Trainings)
