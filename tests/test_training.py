"""Training: optimisers and schedules against their formulas, batches, layers, checkpoints, event files, bad input."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import xbackend as xb
from xbackend.backends.contract import Backend
from xbackend.errors import (
    ArgumentError,
    CheckpointError,
    DeviceMemoryError,
    DTypeError,
    GradientError,
    ShapeError,
    SharedVariableError,
    StoreError,
    TraceError,
    TrainingError,
)
from xbackend.results import schema
from xbackend.results.trained import Trainings
from xbackend.strategies import Mirrored, ModelParallel, OneDevice, Towers
from xbackend.training import SGD, Adam, Batches, Events, RMSProp, Training, checkpoints, layers, schedules
from xbackend.training.checkpoints import Checkpoint
from xbackend.training.sources import Stream

pytestmark = pytest.mark.tier("standard")

X = np.random.default_rng(0).normal(size=(20, 3))
LABELS = (X[:, 0] > 0).astype(np.int64)
START = {"w": np.full((3, 2), 0.1), "b": np.zeros(2)}


@pytest.fixture(scope="module")
def backend() -> Any:
    with xb.open("numpy", virtual_devices=2) as opened:
        yield opened


def classifier(weights: Any, x: Any, labels: Any) -> Any:
    return layers.cross_entropy(layers.dense(x, weights["w"], weights["b"]), labels)


def training(backend: Backend, **options: Any) -> Training:
    return Training(backend, classifier, START, options.pop("optimizer", SGD(0.1)), **options)


# Schedules and optimisers.


def at(backend: Backend, schedule: Any, step: int) -> float:
    return float(backend.compile(lambda n: schedule(n) * xb.ones(()), np.int64(step))(np.int64(step)))


@pytest.mark.parametrize("step", [0, 1, 7, 10, 25])
def test_schedules_are_optaxs(backend: Backend, step: int) -> None:
    expected = {
        0.1 * 0.5 ** (step / 10): schedules.exponential(0.1, 0.5, 10),
        0.1 * 0.5 ** (step // 10): schedules.exponential(0.1, 0.5, 10, staircase=True),
        0.1 * (0.9 * 0.5 * (1 + np.cos(np.pi * min(step, 20) / 20)) + 0.1): schedules.cosine(0.1, 20, least=0.1),
        0.1 * (0.5 if step >= 5 else 1) * (0.1 if step >= 10 else 1): schedules.piecewise(0.1, {5: 0.5, 10: 0.1}),
        2.0 * (3.0 if step >= 7 else 1): schedules.piecewise(2, {7: 3}),
        0.1 * step / 10 if step < 10 else 0.2: schedules.warmed_up(lambda n: 0.2, 0.1, 10),
    }
    for value, schedule in expected.items():
        assert at(backend, schedule, step) == pytest.approx(value, rel=1e-12), schedule


def test_nesterov_looks_ahead(backend: Backend) -> None:
    made = training(backend, optimizer=SGD(0.1, momentum=0.5, nesterov=True))
    without = training(backend)
    made.step(X, LABELS)
    without.step(X, LABELS)
    for name, value in made.weights().items():
        np.testing.assert_allclose(value - START[name], 1.5 * (without.weights()[name] - START[name]), rtol=1e-12)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SGD(0.0),
        lambda: SGD(-1.0),
        lambda: SGD(float("nan")),
        lambda: SGD(True),
        lambda: SGD(0.1, momentum=1.0),
        lambda: SGD(0.1, clip=0.0),
        lambda: Adam(0.1, a=1.0),
        lambda: Adam(0.1, epsilon=-1.0),
        lambda: RMSProp(0.1, decay="0.9"),
    ],
)
def test_an_optimizer_refuses_numbers_that_it_cannot_have(make: Any) -> None:
    with pytest.raises(ArgumentError, match=r"SGD|Adam|RMSProp"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda n: SGD(n(0.1), momentum=n(0.5), clip=n(0.9)),
        lambda n: RMSProp(n(0.1), decay=n(0.5), epsilon=n(1e-8)),
        lambda n: Adam(n(0.1), a=n(0.5), b=n(0.9), epsilon=n(1e-8)),
        lambda n: SGD(lambda step: n(0.1)),
    ],
)
def test_a_number_of_numpys_does_not_widen_an_update(make: Any) -> None:
    """`np.geomspace` gives float64, which is a dtype where Python's float takes that of the weights."""
    optimizer = make(np.float64)

    def step(w: Any, g: Any) -> Any:
        slots = {name: xb.zeros_like(w) for name in optimizer.slots}
        return optimizer.update(w, optimizer.limited([g])(g), slots, xb.asarray(0))[0]

    program = xb.trace(step, *[xb.ArraySpec((2,), "float32")] * 2)
    assert all(node.dtype == "float32" for node in program.values if node.shape)


# Batches.


@given(st.integers(1, 40), st.integers(1, 50), st.integers(0, 5), st.booleans(), st.booleans())
def test_every_row_is_once_in_an_epoch(rows: int, size: int, seed: int, partial: bool, shuffled: bool) -> None:
    if size > rows and not partial:
        with pytest.raises(ArgumentError, match="none is full"):
            Batches(np.arange(rows), size=size, seed=seed, partial=partial)
        return
    batches = Batches(np.arange(rows), -np.arange(rows), size=size, seed=seed, partial=partial, shuffled=shuffled)
    for epoch in range(2):
        assert batches.epoch == epoch
        found = list(batches)
        assert len(found) == len(batches)
        assert [len(x) for x, _ in found[:-1]] == [size] * (len(found) - 1)
        order = np.concatenate([x for x, _ in found])
        np.testing.assert_array_equal(order, -np.concatenate([y for _, y in found]))
        assert len(set(order.tolist())) == len(order) == (rows if partial else rows // size * size)


@given(st.integers(0, 11))
def test_the_order_is_had_again_from_any_place(steps: int) -> None:
    def made() -> Batches:
        return Batches(np.arange(10), size=3, seed=1, seeds=True)

    def rest(batches: Batches, epochs: int) -> list[tuple[list[int], list[int]]]:
        found = []
        while batches.epoch < epochs:
            found += [(x.tolist(), s.tolist()) for x, s in batches]
        return found

    whole, again = rest(made(), 4), made()
    first = made()
    done = 0
    while done < steps:
        for _ in first:
            done += 1
            if done == steps:
                break
    again.restore(first.state())
    assert rest(again, 4) == whole[steps:]
    assert len({tuple(s) for _, s in whole}) == len(whole)  # seeds are drawn anew in each epoch


@pytest.mark.parametrize(
    ("arrays", "options", "error", "words"),
    [
        ((), {"size": 1}, ShapeError, "same number of rows"),
        ((np.zeros(()),), {"size": 1}, ShapeError, "same number of rows"),
        ((np.zeros(0),), {"size": 1}, ShapeError, "one or more"),
        ((np.zeros(3), np.zeros(4)), {"size": 1}, ShapeError, "not 3, 4"),
        ((np.zeros(3),), {"size": 0}, ArgumentError, "whole number from 1 up"),
        ((np.zeros(3),), {"size": 2.0}, ArgumentError, "whole number from 1 up"),
    ],
)
def test_a_data_set_that_gives_no_batches_is_refused(arrays: Any, options: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        Batches(*arrays, **options)


# Layers.


def test_cross_entropy_and_accuracy_are_those_of_softmax(backend: Backend) -> None:
    scores = np.random.default_rng(1).normal(size=(6, 4)) * 50
    labels = np.array([0, 3, 1, 1, 2, 0], np.int32)

    def function(scores: Any, labels: Any) -> Any:
        loss = layers.cross_entropy(scores, labels)
        return loss, layers.accuracy(scores, labels), xb.grad(loss, scores)

    loss, accuracy, gradient = backend.compile(function, scores, labels)(scores, labels)
    softmax = np.exp(scores - scores.max(1, keepdims=True))
    softmax /= softmax.sum(1, keepdims=True)
    own = softmax[np.arange(6), labels]
    top = scores.max(1)
    exact = np.mean(top + np.log(np.exp(scores - top[:, None]).sum(1)) - scores[np.arange(6), labels])
    np.testing.assert_allclose(loss, exact, rtol=1e-12)
    assert accuracy == np.mean(scores.argmax(1) == labels)
    expected = softmax - np.eye(4)[labels]
    np.testing.assert_allclose(gradient, expected / 6, rtol=1e-9, atol=1e-15)
    assert own.shape == (6,)


def test_dropout_drops_as_many_as_it_says_and_the_same_for_a_row_wherever_it_is(backend: Backend) -> None:
    x, seeds = np.ones((400, 50)), np.random.default_rng(2).integers(1 << 32, size=400, dtype=np.uint32)
    run = backend.compile(lambda x, s: (layers.dropout(x, 0.3, s), layers.dropout(x, 0.3, s, layer=1)), x, seeds)
    first, second = run(x, seeds)
    for dropped in (first, second):
        assert set(np.unique(dropped)) == {0.0, 1 / 0.7}
        assert abs(np.mean(dropped == 0) - 0.3) < 0.02
        assert abs(np.mean(dropped[:, 0] == 0) - 0.3) < 0.1
    agree = np.mean((first == 0) == (second == 0))
    assert abs(agree - (0.3**2 + 0.7**2)) < 0.02
    order = np.random.default_rng(3).permutation(400)
    np.testing.assert_array_equal(run(x, seeds[order])[0], first[order])


def test_dropout_takes_numbers_of_numpys_as_pythons(backend: Backend) -> None:
    x, seeds = np.ones((40, 50), np.float32), np.arange(40, dtype=np.uint32)
    own, numpys = (
        backend.compile(lambda x, s, n=n: layers.dropout(x, n[0](0.3), s, layer=n[1](3)), x, seeds)(x, seeds)
        for n in ((float, int), (np.float64, np.int64))
    )
    assert numpys.dtype == np.float32
    np.testing.assert_array_equal(numpys, own)


def test_layers_refuse_what_they_cannot_take() -> None:
    spec, seeds = xb.ArraySpec((4, 2)), xb.ArraySpec((4,), "uint32")
    with pytest.raises(DTypeError, match="labels that are integers"):
        xb.trace(lambda s: layers.cross_entropy(s, s[:, 0]), spec)
    with pytest.raises(ShapeError, match="labels"):
        xb.trace(layers.accuracy, spec, xb.ArraySpec((3,), "int64"))
    with pytest.raises(ArgumentError, match="from 0 to below 1"):
        xb.trace(lambda x, s: layers.dropout(x, 1.0, s), spec, seeds)
    with pytest.raises(ShapeError, match="one uint32 for each of 4 rows"):
        xb.trace(lambda x: layers.dropout(x, 0.1, x), spec)


# Strategies.


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Towers("dev0"), ArgumentError, "one entry for each replica"),
        (lambda: Mirrored({"dev0", "dev1"}), ArgumentError, "one entry for each replica"),
        (lambda: Mirrored(()), ArgumentError, "one entry for each replica"),
        (lambda: Mirrored(({},)), ArgumentError, "empty mapping"),
        (lambda: OneDevice("dev 0").variables(START, SGD(0.1)), ValueError, "dev 0"),
        (lambda: OneDevice().variables({}, SGD(0.1)), ArgumentError, "no weights"),
        (
            lambda: ModelParallel({"w": "cpu:0"}).variables(START, SGD(0.1)),
            ArgumentError,
            "no device for the weight 'b'",
        ),
    ],
)
def test_a_strategy_refuses_what_it_cannot_spread(make: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize("strategy", [Towers, Mirrored])
def test_a_strategy_of_an_iterator_has_its_devices_more_than_once(strategy: Any) -> None:
    places = ("dev0", "dev1")
    once = strategy(iter(places))
    assert once == replace(once) == strategy(places) and len(once.replicas) == 2


def test_a_batch_smaller_than_the_replicas_is_refused(backend: Backend) -> None:
    made = training(backend, strategy=Mirrored(("cpu:0", "cpu:1")))
    with pytest.raises(ShapeError, match=r"a batch of 1 rows for 2 replicas.*leave the partial ones out"):
        made.step(X[:1], LABELS[:1])
    with pytest.raises(ShapeError, match="same number of rows"):
        made.step(X, LABELS[:3])
    fed = training(backend, strategy=Mirrored(("cpu:0", "cpu:1")), fed=True)
    with pytest.raises(ArgumentError, match="each gets a batch of its own"):
        fed.step(X, LABELS, X)


def test_a_model_that_one_device_cannot_hold_is_trained_in_two_parts() -> None:
    """Two layers of 128 KiB each, with momenta: more than 700 KiB on one device, less on each of two."""
    rng = np.random.default_rng(0)
    start = {"w": rng.normal(size=(64, 256)) / 8, "v": rng.normal(size=(256, 64)) / 16}
    x, y = rng.normal(size=(4, 64)), rng.normal(size=(4, 64))

    def two_layers(w: Any, x: Any, y: Any) -> Any:
        with xb.device("dev0"):
            hidden = xb.tanh(x @ w["w"])
        with xb.device("dev1"):
            return xb.mean(xb.square(hidden @ w["v"] - y))

    limit = 700 * 1024
    with xb.open("numpy", virtual_devices=2) as backend:

        def trained(strategy: Any, limit: int | None, **devices: str) -> Training:
            options: dict[str, Any] = {"strategy": strategy, "devices": devices, "device_memory": limit}
            made = Training(backend, two_layers, start, SGD(0.1, momentum=0.9), **options)
            for _ in range(3):
                made.step(x, y)
            return made

        whole = trained(OneDevice("cpu:0"), None, dev0="cpu:0", dev1="cpu:0")
        with pytest.raises(DeviceMemoryError, match=r"has [\d,]+ bytes on cpu:0 at once.*device_memory allows 716,800"):
            trained(OneDevice("cpu:0"), limit, dev0="cpu:0", dev1="cpu:0")
        parts = trained(ModelParallel({"w": "dev0", "v": "dev1"}), limit, dev0="cpu:0", dev1="cpu:1")
        for name, weight in parts.weights().items():
            np.testing.assert_allclose(weight, whole.weights()[name], rtol=1e-12)
        peaks = {place: peak.bytes for place, peak in parts.compiled_step.memory.items()}
        assert set(peaks) == {"cpu:0", "cpu:1"} and max(peaks.values()) <= limit
        one = whole.compiled_step.memory["cpu:0"].bytes
        assert 2 * sum(w.nbytes for w in start.values()) < one  # gradients come on top of weights and momenta


@pytest.mark.parametrize("limit", [0, -1, 1.5, True])
def test_a_device_memory_that_is_none_is_refused(backend: Backend, limit: Any) -> None:
    with pytest.raises(ArgumentError, match="is no whole number from 1 up"):
        backend.compile(lambda x: x + 1.0, X, device_memory=limit)


@pytest.mark.parametrize("given", [5, "loss", np.zeros(3)])
def test_a_model_is_of_a_function(given: Any) -> None:
    with pytest.raises(TrainingError, match=r"is no function: xb\.model is of one that returns a loss"):
        xb.model(given)


def test_a_loss_that_is_no_scalar_is_refused(backend: Backend) -> None:
    for loss, words in (
        (lambda w, x: x @ w["w"], "the loss that training is given"),
        (lambda w, x: (xb.sum(x @ w["w"]), {"rows": x}), "the rows that training is given"),
        (lambda w, x: (xb.sum(x @ w["w"]), 3), "return a dictionary"),
    ):
        with pytest.raises(xb.errors.TraceError, match=words):
            Training(backend, loss, START, SGD(0.1)).step(X)


def test_copies_that_differ_are_found(backend: Backend) -> None:
    made = training(backend, strategy=Mirrored(("cpu:0", "cpu:1")))
    made.step(X, LABELS)
    made.check_copies()
    backend.set_value(made.copies[1].weights["b"], np.array([0.0, 1e-300]))
    with pytest.raises(TrainingError, match="copy 1 of weights/b is not the first one after step 1"):
        made.check_copies()


# The loop.


def test_a_label_that_is_no_class_stops_it_and_the_last_checkpoint_stays(backend: Backend, tmp_path: Path) -> None:
    made, batches = training(backend), Batches(X, LABELS, size=10)
    made.fit(batches, epochs=1, folder=tmp_path)
    wrong = LABELS.copy()
    wrong[3] = 2
    with pytest.raises(TrainingError, match=r"step [34] is nan.*no class; the last checkpoint is .*step-00000002"):
        training(backend).fit(Batches(X, wrong, size=10), epochs=2, folder=tmp_path)
    newest = checkpoints.place(tmp_path, 9)  # an unreadable one is not the last
    newest.write_bytes(checkpoints.files(tmp_path)[0].read_bytes()[:-9])
    with (
        pytest.warns(UserWarning, match="damaged"),
        pytest.raises(TrainingError, match=r"no class; the last checkpoint is .*step-00000002"),
    ):
        training(backend).fit(Batches(X, wrong, size=10), epochs=2, folder=tmp_path)
    newest.unlink()
    kept, _ = checkpoints.newest(tmp_path)
    assert kept is not None and all(np.isfinite(array).all() for array in kept.arrays.values())


def test_it_stops_early_when_the_test_loss_no_longer_falls(backend: Backend) -> None:
    made = training(backend, optimizer=SGD(5.0))
    epochs = made.fit(Batches(X, LABELS, size=5), epochs=60, test=[(X, 1 - LABELS)], patience=3)
    losses = [epoch.test["loss"] for epoch in epochs]
    assert len(losses) < 60
    assert min(losses[-3:]) >= min(losses[:-3])
    with pytest.raises(ArgumentError, match="patience"):
        made.fit(Batches(X, LABELS, size=5), epochs=1, patience=0)


def test_train_and_test_share_weights_and_not_statistics(backend: Backend) -> None:
    made = training(backend)
    (epoch,) = made.fit(Batches(X, LABELS, size=20), epochs=1, test=[(X[:5], LABELS[:5]), (X[5:], LABELS[5:])])
    assert epoch.test["loss"] == pytest.approx(made.evaluate(X, LABELS)["loss"], rel=1e-12)
    assert epoch.train["loss"] == pytest.approx(np.log(2), rel=1e-12)  # before the step: all scores are equal
    assert epoch.test["loss"] < epoch.train["loss"]
    assert made.steps == 1


# Checkpoints.

ARRAYS = {"weights/w": np.arange(6.0).reshape(2, 3), "step": np.array(7), "f": np.float32([1.5])}
SAVED = Checkpoint(ARRAYS, "a" * 64, 7, {"seed": 0, "epoch": 1, "place": 2})


def test_a_checkpoint_is_what_was_written(tmp_path: Path) -> None:
    path = checkpoints.write(tmp_path, SAVED)
    found = checkpoints.read(path, SAVED.model)
    assert (found.model, found.step, found.data) == (SAVED.model, 7, SAVED.data)
    for name, array in ARRAYS.items():
        assert found.arrays[name].dtype == array.dtype and found.arrays[name].shape == array.shape
        np.testing.assert_array_equal(found.arrays[name], array)
    from safetensors.numpy import load_file

    assert set(load_file(path)) == set(ARRAYS)  # as any reader sees it


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in range(1, 6):
        checkpoints.write(tmp_path, Checkpoint(ARRAYS, "a", step, {}))
    assert [int(path.stem[5:]) for path in checkpoints.files(tmp_path)] == [5, 4, 3]


def test_the_newest_is_that_of_the_largest_step(tmp_path: Path) -> None:
    for step in (99_999_999, 100_000_000, 100_000_001, 7, 100_000_002):
        checkpoints.write(tmp_path, Checkpoint(ARRAYS, "a", step, {}))
    found, _ = checkpoints.newest(tmp_path)
    assert found is not None and found.step == 100_000_002
    assert [int(path.stem[5:]) - 100_000_000 for path in checkpoints.files(tmp_path)] == [2, 1, 0]


def test_what_has_another_name_is_neither_read_nor_counted_nor_deleted(tmp_path: Path) -> None:
    own = [tmp_path / f"step-{name}.safetensors" for name in ("00000001-best", "z", "", "٣", "-1")]
    for path in (*own, tmp_path / ".step-00000001-best.safetensors.0a"):
        path.write_bytes(b"")
    (tmp_path / ".step-00000001.safetensors.0a").mkdir()
    (tmp_path / "step-a.safetensors").mkdir()
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    os.mkfifo(tmp_path / "step-b.safetensors")
    before = {*tmp_path.iterdir()}
    for step in range(1, 6):
        checkpoints.write(tmp_path, Checkpoint(ARRAYS, "a", step, {}))
    assert before < {*tmp_path.iterdir()}
    assert [int(path.stem[5:]) for path in checkpoints.files(tmp_path)] == [5, 4, 3]
    assert checkpoints.newest(tmp_path)[1] == []


def _deep(path: Path) -> None:
    header = b'{"__metadata__":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    path.write_bytes(len(header).to_bytes(8, "little") + header)


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, _deep, lambda path: path.symlink_to(path.parent)])
def test_what_cannot_be_read_does_not_block_going_on(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "step-9.safetensors")
    with pytest.raises(CheckpointError, match=r"step-9.safetensors is damaged"):
        checkpoints.newest(tmp_path)
    for step in range(1, 6):
        checkpoints.write(tmp_path, Checkpoint(ARRAYS, "a", step, {}))
    found, wrong = checkpoints.newest(tmp_path)
    assert found is not None and found.step == 5
    assert len(wrong) == 1 and "step-9.safetensors is damaged" in wrong[0]


@given(st.data())
def test_a_flipped_bit_or_a_cut_is_seen_and_the_one_before_is_taken(tmp_path_factory: Any, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("checkpoints")
    checkpoints.write(folder, Checkpoint(ARRAYS, "a", 1, {}))
    path = checkpoints.write(folder, Checkpoint(ARRAYS, "a", 2, {}))
    whole = path.read_bytes()
    if data.draw(st.booleans()):
        path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    else:
        place = data.draw(st.integers(0, 8 * len(whole) - 1))
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(bytes(changed))
    try:
        found = checkpoints.read(path, "a")
    except CheckpointError:
        older, wrong = checkpoints.newest(folder, "a")
        assert older is not None and older.step == 1 and len(wrong) == 1
        return
    # The damaged bit has no meaning: the numbers are unchanged.
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found.arrays[name], array)


def test_what_is_no_checkpoint_of_this_model_or_version_is_refused(tmp_path: Path, backend: Backend) -> None:
    path = checkpoints.write(tmp_path, SAVED)
    with pytest.raises(CheckpointError, match=r"of another model, .*: its fingerprint is aaaaaaaaaaaa, not bbb"):
        checkpoints.read(path, "b" * 64)
    data = path.read_bytes()
    newer = data.replace(b'"version":"1"', b'"version":"9"')
    assert newer != data
    path.write_bytes(newer)
    with pytest.raises(CheckpointError, match="version 9, and 1 is read here: upgrade"):
        checkpoints.read(path)
    path.write_bytes(data.replace(b"xbackend checkpoint", b"another  checkpoint"))
    with pytest.raises(CheckpointError, match="no checkpoint of xbackend"):
        checkpoints.read(path)
    with pytest.raises(CheckpointError):
        checkpoints.newest(tmp_path)
    with pytest.raises(StoreError, match="cannot be read"):
        checkpoints.read(tmp_path / "none")
    assert checkpoints.newest(tmp_path / "nothing") == (None, [])
    one, other = training(backend), training(backend, optimizer=Adam(0.1))
    batches = Batches(X, LABELS, size=10)
    saved = checkpoints.read(one.save(tmp_path / "one", batches))
    with pytest.raises(CheckpointError, match="another optimiser"):
        other.restore(saved, batches)


def test_the_model_of_a_checkpoint_is_its_loss_whatever_spreads_it(backend: Backend) -> None:
    spread = [OneDevice("cpu:0"), Towers(("cpu:0", "cpu:1")), Mirrored(("dev0", "dev1"))]
    assert len({training(backend, strategy=s).model(X, LABELS) for s in spread}) == 1
    assert training(backend).model(X[:7], LABELS[:7]) == training(backend).model(X, LABELS)
    other = Training(backend, lambda w, x, y: classifier(w, x, y) * 2.0, START, SGD(0.1))
    assert other.model(X, LABELS) != training(backend).model(X, LABELS)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints.write(tmp_path, SAVED)
    code = f"""
import resource, signal, sys
import numpy as np
from pathlib import Path
from xbackend.errors import StoreError
from xbackend.training import checkpoints
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    checkpoints.write(Path({str(tmp_path)!r}), checkpoints.Checkpoint({{"w": np.zeros(10000)}}, "a", 8, {{}}))
except StoreError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cannot be written: File too large" in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000007.safetensors"]
    assert checkpoints.newest(tmp_path)[0] is not None


# The command.

FILE = """
import numpy as np
import xbackend as xb
from xbackend.training import SGD, layers

@xb.model(optimizer=SGD(0.5, momentum=0.9), batch=8, epochs=2, places={"w": "cpu:0", "b": "cpu:1"})
def classifier(weights, x, labels):
    scores = layers.dense(x, weights["w"], weights["b"])
    return layers.cross_entropy(scores, labels), {"accuracy": layers.accuracy(scores, labels)}

@classifier.weights
def weights(rng):
    return {"w": rng.normal(size=(3, 2)), "b": np.zeros(2)}

@classifier.data
def data(rng):
    x = rng.normal(size=(30, 3))
    labels = (x[:, 0] > 0).astype(int)
    return (x[:20], labels[:20]), (x[20:], labels[20:])

@xb.model()
def unfinished(weights, x):
    return xb.sum(x)

@xb.model(batch=8)
def raising(weights, x, labels):
    return weights["nope"]

raising.weights(lambda rng: {"w": np.zeros(2)})
raising.data(lambda rng: (np.zeros((8, 2)), np.zeros(8, np.int64)))

@xb.model(batch=8)
def spread(weights, x, labels):
    with xb.device("dev1"):
        return layers.cross_entropy(layers.dense(x, weights["w"]), labels)

spread.weights(lambda rng: {"w": np.zeros((3, 2))})
spread.data(classifier._data)
spread.places = {"w": "dev1"}

def no_model(x):
    return x
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.py"
    path.write_text(FILE)
    return path


def command(*words: object) -> tuple[int, str, str]:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "xbackend",
            "train",
            *([] if "--backends" in words else ["--backends", "numpy"]),
            *map(str, words),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(str(words[0]).partition(":")[0]).parent,  # its report goes there
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("strategy", ["one", "towers", "mirrored", "model"])
def test_a_users_model_is_trained(file: Path, strategy: str) -> None:
    code, out, err = command(f"{file}:classifier", "--strategy", strategy)
    assert code == 0, err
    assert "numpy" in out and "reference" in out and "accuracy" in out
    assert "epoch 2 of 2, step 6" in err


def test_it_goes_on_from_its_checkpoints(file: Path, tmp_path: Path) -> None:
    target, folder = f"{file}:classifier", tmp_path / "saved"
    assert command(target, "--checkpoints", folder)[0] == 0
    assert command(target, "--checkpoints", folder, "--epochs", 3)[0] == 0
    assert sorted(path.name for path in (folder / "numpy").iterdir()) == [
        f"step-{step:08d}.safetensors" for step in (3, 6, 9)
    ]
    code, out, _ = command(target, "--checkpoints", folder, "--epochs", 3)
    assert code == 0 and "accuracy" in out  # it was finished before: its weights are still compared
    assert "Trained to the end before" in (file.parent / "reports" / "classifier" / "training.md").read_text()
    code, out, _ = command(target, "--checkpoints", folder, "--epochs", 2)
    assert code == 1 and "3 epochs were trained before, and 2 are asked for" in out


@pytest.mark.tier("exhaustive")
def test_what_was_interrupted_on_one_backend_is_ended_beside_those_that_ended(file: Path, tmp_path: Path) -> None:
    target, folder = f"{file}:classifier", tmp_path / "saved"
    assert command(target, "--checkpoints", folder)[0] == 0
    code, out, err = command(target, "--checkpoints", folder, "--backends", "numpy,jax")
    assert code == 0, out + err
    assert re.search(r"jax .* \d\.\de-\d\d|jax .* 0\.0e\+00", out), out


def test_a_damaged_checkpoint_is_said_for_good(file: Path, tmp_path: Path) -> None:
    target, folder = f"{file}:classifier", tmp_path / "saved"
    assert command(target, "--checkpoints", folder)[0] == 0
    newest = checkpoints.files(folder / "numpy")[0]
    newest.write_bytes(newest.read_bytes()[:-9])
    code, _, err = command(target, "--checkpoints", folder)
    assert code == 0 and f"checkpoint {newest} is damaged" in err.splitlines()[-1]


def test_checkpoints_of_one_strategy_are_not_begun_again_beside_several(file: Path, tmp_path: Path) -> None:
    target, folder = f"{file}:classifier", tmp_path / "saved"
    assert command(target, "--checkpoints", folder)[0] == 0
    code, _, err = command(target, "--checkpoints", folder, "--strategy", "one,towers")
    assert code == 2 and f"{folder / 'numpy'} has checkpoints" in err and "move them there" in err


def test_what_a_step_moves_is_said_with_a_limit_of_memory_too(file: Path) -> None:
    """With a limit the evaluation is compiled before the step."""
    told = []
    for more in ((), ("--device-memory", "64MiB")):
        code, _, err = command(f"{file}:classifier", "--strategy", "mirrored", *more)
        assert code == 0, err
        (run,) = schema.read(file.parent / "reports" / "classifier" / "training.json.gz", Trainings).runs
        told.append((run.transfers, run.memory))
    assert told[0] == told[1] and told[0][0] > 0


def test_a_batch_may_be_larger_than_there_are_devices(file: Path) -> None:
    code, _, err = command(f"{file}:classifier", "--batch", 2048)
    assert code == 2 and "batches of 2048 rows of" in err


def test_more_devices_than_names_of_them(file: Path) -> None:
    code, out, err = command(f"{file}:classifier", "--strategy", "mirrored", "--devices", 70, "--batch", 5)
    assert code == 1 and "70" in out + err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("no_model",), "is no model: write @xb.model(...) above it"),
        (("",), "has classifier, unfinished, raising and spread: write @xb.model(...) above a loss, and name it"),
        (("unfinished",), "model unfinished has no weights: write @unfinished.weights above def weights(rng)"),
        (("classifier", "--strategy", "tower"), "strategy 'tower': there is one, towers, mirrored, model"),
        (("classifier", "--devices", "2"), "strategy one has 1"),
        (("classifier", "--epochs", "0"), "--epochs"),
        (("classifier", "--devices", "1,2"), "'1,2' has several numbers of devices: write one, such as 2 or gpu,2"),
    ],
)
def test_what_cannot_be_trained_is_one_line(file: Path, words: tuple[str, ...], said: str) -> None:
    code, _, err = command(f"{file}:{words[0]}".rstrip(":"), *words[1:])
    assert code == 2
    assert said in err and "Traceback" not in err and len(err.strip().splitlines()) == 1


def test_what_the_users_function_raises_is_his_lines(file: Path) -> None:
    code, out, err = command(f"{file}:raising")
    assert code == 2 and not out
    assert 'return weights["nope"]' in err and "KeyError: 'nope'" in err and "xbackend/training" not in err


@pytest.mark.parametrize("words", [("model", "1"), ("one,model", "2")])
def test_devices_that_a_loss_names_are_bound_to_those_there_are(file: Path, words: tuple[str, str]) -> None:
    code, out, err = command(f"{file}:spread", "--strategy", words[0], "--devices", words[1])
    assert code == 0 and "failed" not in out, out + err


def test_devices_are_of_the_kind_asked_for_and_environments_are_named(file: Path) -> None:
    code, out, err = command(f"{file}:classifier", "--devices", "gpu,1", "--backends", "jax,numpy", "--env", "jax")
    assert code == 1 and "backend jax has no device of kind gpu" in out and "numpy" in out, out + err


def test_the_code_of_the_document_runs(tmp_path: Path) -> None:
    text = (Path(__file__).parent.parent / "docs" / "training.md").read_text()
    first, second = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    done = subprocess.run([sys.executable, "-c", first], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["0", "1", "2"]
    (tmp_path / "model.py").write_text(second)
    words = re.findall(r"xbackend train model.py:classifier (.*) --backends", text)[0].split()
    code, out, err = command(f"{tmp_path / 'model.py'}:classifier", *words)
    assert code == 0 and re.search(r"accuracy (0\.9\d*|1)\b", out), out + err


# What users get wrong, or go on from.


def plain(w: Any, x: Any, labels: Any) -> Any:
    return layers.cross_entropy(layers.dense(x, w["w"], w["b"]), labels)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (lambda v: (v, {"loss": v}), "'loss' and what begins with tower_0/"),
        (lambda v: (v, {"tower_0/x": v}), "called 'tower_0/x'"),
        (lambda v: (v, {1: v}), "called 1"),
        (lambda v: (v, v, v), "returns 3 values"),
        (lambda v: None, "returns None"),
        (lambda v: (v, [v]), "returns list beside its value"),
    ],
)
def test_what_a_loss_returns_is_said_of_it(backend: Backend, returned: Any, words: str) -> None:
    with pytest.raises(TraceError, match=re.escape(words)):
        Training(backend, lambda w, x, labels: returned(plain(w, x, labels)), START, SGD(0.1)).step(X, LABELS)


@pytest.mark.parametrize("strategy", [OneDevice("cpu:0"), Mirrored(("cpu:0", "cpu:1"))])
def test_an_update_in_a_loss_is_refused_with_its_line(backend: Backend, strategy: Any) -> None:
    """An evaluation would do it too, and neither checkpoints nor `restart` have the state."""
    running = xb.shared(0.0, "running")

    def loss(w: Any, x: Any, labels: Any) -> Any:
        xb.update(running, 0.9 * running + 0.1 * xb.mean(x))
        return plain(w, x, labels)

    made = Training(backend, loss, START, SGD(0.1), strategy=strategy)
    said = rf"'running' is updated inside of the loss.*training\.py:{loss.__code__.co_firstlineno + 1}\)"
    for use in (made.step, made.evaluate):
        with pytest.raises(SharedVariableError, match=said):
            use(X, LABELS)


BATCHES = Batches(X, LABELS, size=10)


@pytest.mark.parametrize(
    ("use", "error", "words"),
    [
        (lambda make: make().fit(BATCHES, epochs=1, test=(X, LABELS)), ArgumentError, "ndarray in the place of"),
        (lambda make: make().fit(BATCHES, epochs=1, test=X), ArgumentError, r"write \[\(x, y\)\]"),
        (lambda make: make().means(3), ArgumentError, "int in the place of a batch"),
        (lambda make: make().fit([(X, LABELS)], epochs=1), ArgumentError, r"given list.*write xb.training.Batches\("),
        (lambda make: make().save("folder", [(X, LABELS)]), ArgumentError, "given list in the place of its data"),
        (lambda make: make().fit(BATCHES, epochs="2"), ArgumentError, "epochs='2' of a training is no whole number"),
        (lambda make: make().fit(BATCHES, epochs=1, patience=2.5), ArgumentError, "patience=2.5 of a training"),
        (lambda make: make(optimizer="sgd"), ArgumentError, r"optimizer='sgd' of a training: write SGD\(0.1\)"),
        (lambda make: make(strategy="mirrored"), ArgumentError, "strategy='mirrored' .*write xb.strategies.Mirrored"),
        (lambda make: make(backend="numpy"), ArgumentError, "backend='numpy' of a training: write xb.open"),
        (lambda make: make(loss=START), ArgumentError, "of a training: write a function of the weights and"),
        (lambda make: make(weights=[X]), ArgumentError, "of a training: give arrays by name"),
        (lambda make: make().restart([X]), ArgumentError, "give arrays by name"),
        (lambda make: make().step(X), ArgumentError, r"plain\(w.*a batch of 1 array: missing .*labels.*py:\d+"),
        (lambda make: make().evaluate(X, X, X), ArgumentError, r"of 3 arrays: too many .*test_training.py:\d+"),
        (lambda make: make().model(X), ArgumentError, "a batch of 1 array: missing"),
        (lambda make: make(loss=xb.model(plain)).step(X), ArgumentError, "a batch of 1 array: missing"),
        (lambda make: make().evaluate(), ShapeError, "a batch of no arrays"),
        (lambda make: make().evaluate(X[:0], LABELS[:0]), ShapeError, r"a batch of \(0, 3\), \(0,\): .*one or more"),
        (lambda make: make().evaluate(X, LABELS[:3]), ShapeError, "the same number of rows"),
    ],
)
def test_what_a_training_is_given_wrong_is_said(backend: Backend, use: Any, error: Any, words: str) -> None:
    def make(**given: Any) -> Training:
        parts = {"backend": backend, "loss": plain, "weights": START, "optimizer": SGD(0.1), **given}
        return Training(**parts)

    with pytest.raises(error, match=words):
        use(make)


def test_the_rows_of_a_step_are_those_of_all_replicas(backend: Backend) -> None:
    for fed in (False, True):
        made = training(backend, strategy=Mirrored(("cpu:0", "cpu:1")), fed=fed)
        made.step(*((X[:5], LABELS[:5], X[5:8], LABELS[5:8]) if fed else (X[:8], LABELS[:8])))
        assert made.rows == 8


def test_a_weight_that_the_loss_does_not_need_is_named(backend: Backend) -> None:
    start = {**START, "unused": np.zeros(2)}
    with pytest.raises(GradientError, match="the weight 'unused'"):
        Training(backend, plain, start, SGD(0.1)).step(X, LABELS)
    for name in ("", 0):
        with pytest.raises(ArgumentError, match="give each a name"):
            Training(backend, plain, {name: np.zeros(2)}, SGD(0.1))  # type: ignore[dict-item]


def test_a_weight_that_is_no_number_stops_it_where_the_loss_does_not_show_it(backend: Backend, tmp_path: Path) -> None:
    def hidden(w: Any, x: Any, labels: Any) -> Any:  # the gradient of a root is infinite at 0
        return plain(w, x, labels) + 0.0 * xb.sum(xb.sqrt(xb.square(w["b"])))

    made = Training(backend, hidden, START, SGD(0.1))
    with pytest.raises(TrainingError, match="the weight 'b' is not finite after step 1; there is no checkpoint"):
        made.fit(Batches(X, LABELS, size=20), epochs=1, folder=tmp_path)
    assert not checkpoints.files(tmp_path)

    def save(step: int, found: Any) -> None:
        made.save(tmp_path, Batches(X, LABELS, size=10))

    made = Training(backend, hidden, START, SGD(0.1))
    with pytest.raises(TrainingError, match="the weight 'b' is not finite after step 1"):
        made.fit(Batches(X, LABELS, size=20), epochs=1, on_step=save)
    assert not checkpoints.files(tmp_path)


def test_an_epoch_of_which_no_batch_is_left_is_none(backend: Backend) -> None:
    batches = Batches(X, LABELS, size=20)
    next(iter(batches))
    epochs = Training(backend, plain, START, SGD(0.1)).fit(batches, epochs=3)
    assert [epoch.number for epoch in epochs] == [1, 2]


def test_without_a_strategy_it_is_on_the_default_device() -> None:
    with xb.open("numpy", virtual_devices=2, visible=("cpu:1",)) as backend:
        made = Training(backend, plain, START, SGD(0.1))
        made.step(X, LABELS)
        assert {str(op.bound) for op in made.compiled_step.placement.ops} == {"cpu:1"}


def test_checkpoints_of_another_order_are_refused_and_damaged_ones_named(backend: Backend, tmp_path: Path) -> None:
    Training(backend, plain, START, SGD(0.1)).fit(Batches(X, LABELS, size=8), epochs=2, folder=tmp_path)
    for options in ({"size": 8, "seed": 1}, {"size": 4}):
        again = Training(backend, plain, START, SGD(0.1))
        with pytest.raises(CheckpointError, match="give that, or another folder"):
            again.fit(Batches(X, LABELS, **options), epochs=3, folder=tmp_path)
    newest = checkpoints.files(tmp_path)[0]
    newest.write_bytes(newest.read_bytes()[:-9])
    said: list[str] = []
    again = Training(backend, plain, START, SGD(0.1))
    assert len(again.fit(Batches(X, LABELS, size=8), epochs=3, folder=tmp_path, on_notice=said.append)) == 2
    assert len(said) == 1 and str(newest) in said[0] and "damaged" in said[0]


def test_a_folder_that_a_training_goes_on_in_is_refused_to_others(backend: Backend, tmp_path: Path) -> None:
    def both(step: int, found: Any) -> None:
        made.save(tmp_path, batches)
        for train in (lambda: other.fit(batches, epochs=1, folder=tmp_path), lambda: other.save(tmp_path, batches)):
            with pytest.raises(CheckpointError, match=r"another training or job goes on in .*give another folder"):
                train()

    made, other = (Training(backend, plain, START, SGD(0.1)) for _ in range(2))
    batches = Batches(X, LABELS, size=20)
    made.fit(batches, epochs=1, folder=tmp_path, on_step=both)
    assert other.fit(batches, epochs=1, folder=tmp_path) == []


def test_a_save_looks_what_lies_in_the_folder(backend: Backend, tmp_path: Path) -> None:
    first, batches = Training(backend, plain, START, SGD(0.1)), Batches(X, LABELS, size=8)
    first.fit(batches, epochs=2, folder=str(tmp_path))
    other, rows = Training(backend, plain, START, SGD(0.1)), Batches(X, LABELS, size=8)
    other.step(X, LABELS)
    with pytest.raises(CheckpointError, match=r"a checkpoint of step 6, and this training is at step 1: restore it"):
        other.save(str(tmp_path), rows)
    found, _ = checkpoints.newest(str(tmp_path))
    assert found is not None
    other.restore(found, rows)
    other.step(X, LABELS)
    assert other.save(tmp_path, rows).exists()
    another = Training(backend, lambda weights, x, labels: 2.0 * plain(weights, x, labels), START, SGD(0.1))
    another.step(X, LABELS)
    with pytest.raises(CheckpointError, match="of another model"):
        another.save(tmp_path, rows)
    assert len(checkpoints.files(tmp_path)) == 3


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (Batches(X[:16], LABELS[:16], size=8), "rows 20, these have 16"),
        (Batches(X, LABELS, size=8, shuffled=False), "shuffled 1, these have 0"),
        (Batches(X, LABELS, size=8, partial=False), "partial 1, these have 0"),
        (Batches(X, LABELS, size=5), "size 8, these have 5"),
    ],
    ids=["rows", "shuffled", "partial", "size"],
)
def test_a_checkpoint_of_another_order_of_the_data_is_refused(
    backend: Backend, tmp_path: Path, other: Batches, said: str
) -> None:
    made = Training(backend, plain, START, SGD(0.1))
    made.fit(Batches(X, LABELS, size=8), epochs=1, folder=tmp_path)
    found, _ = checkpoints.newest(tmp_path)
    assert found is not None
    again = Training(backend, plain, START, SGD(0.1))
    with pytest.raises(CheckpointError, match=f"the checkpoint is of batches with {said}"):
        again.restore(found, other)
    with pytest.raises(CheckpointError, match=f"the checkpoints in .* are of batches with {said}"):
        again.fit(other, epochs=2, folder=tmp_path)


def test_a_training_is_begun_again_with_other_weights_and_compiles_nothing(backend: Backend, tmp_path: Path) -> None:
    other = {name: w + 0.5 for name, w in START.items()}

    def losses(training: Training) -> list[float]:
        return [training.step(X, LABELS)["loss"] for _ in range(3)]

    training = Training(backend, plain, START, Adam(0.01), strategy=xb.strategies.Mirrored(("cpu:0", "cpu:1")))
    first = losses(training)
    training.save(tmp_path, Batches(X, LABELS, size=8))
    compiled = training.executables
    training.restart(other)
    assert training.steps == 0
    assert losses(training) == losses(Training(backend, plain, other, Adam(0.01), strategy=training.strategy)) != first
    training.check_copies()
    assert training.executables == compiled
    training.restart(START)
    assert losses(training) == first
    training.restart(START)
    with pytest.raises(CheckpointError, match="has a checkpoint of step 3, and this training is at step 0"):
        training.save(tmp_path, Batches(X, LABELS, size=8))
    with pytest.raises(TrainingError, match="make another one"):
        training.restart({**other, "more": np.zeros(2)})
    with pytest.raises(TrainingError, match="make another one"):
        training.restart({name: w.astype(np.float32) for name, w in START.items()})


def test_nothing_is_dropped_in_an_evaluation(backend: Backend) -> None:
    def half(weights: Any, x: Any, labels: Any, seeds: Any) -> Any:
        kept = layers.dropout(x, 0.5, seeds)
        return layers.cross_entropy(layers.dense(kept, weights["w"], weights["b"]), labels)

    seeds = np.arange(20, dtype=np.uint32)
    start = {"w": X[:3, :2], "b": np.zeros(2)}
    dropped, whole = (Training(backend, loss, start, SGD(0.1)) for loss in (half, classifier))
    assert dropped.evaluate(X, LABELS, seeds)["loss"] == whole.evaluate(X, LABELS)["loss"]
    assert dropped.step(X, LABELS, seeds)["loss"] != whole.step(X, LABELS)["loss"]


def test_a_save_stays_where_those_of_a_longer_training_lie(tmp_path: Path) -> None:
    arrays = {"w": np.zeros(2)}
    for step in (20, 16, 12, 1):
        path = checkpoints.write(tmp_path, Checkpoint(arrays, "m", step, {"seed": 0}))
        assert path.exists()


def test_it_goes_on_from_the_last_batch_of_an_epoch(backend: Backend, tmp_path: Path) -> None:
    made, batches = Training(backend, plain, START, SGD(0.1)), Batches(X, LABELS, size=8)
    made.fit(batches, epochs=1, on_step=lambda number, scalars: made.save(tmp_path, batches))
    found = checkpoints.read(checkpoints.files(tmp_path)[0])
    assert found.data["place"] == 20
    again, rest = Training(backend, plain, START, SGD(0.1)), Batches(X, LABELS, size=8)
    again.restore(found, rest)
    assert (rest.epoch, rest.place) == (1, 0)
    assert [epoch.number for epoch in again.fit(rest, epochs=2)] == [1]


def test_test_rows_may_be_given_once_and_batches_of_replicas_are_not_for_epochs(backend: Backend) -> None:
    made = Training(backend, plain, START, SGD(0.1))
    epochs = made.fit(Batches(X, LABELS, size=8), epochs=3, test=iter([(X, LABELS)]))
    assert all("loss" in epoch.test for epoch in epochs)
    fed = Training(backend, plain, START, SGD(0.1), strategy=Towers(("cpu:0", "cpu:1")), fed=True)
    with pytest.raises(ArgumentError, match="fit feeds whole batches"):
        fed.fit(Batches(X, LABELS, size=8), epochs=1)


@pytest.mark.parametrize("rate", [lambda step: 0.5, lambda step: 1, lambda step: np.float64(0.5)])
def test_a_rate_may_be_a_function_of_a_number(backend: Backend, rate: Any) -> None:
    made = Training(backend, plain, START, SGD(rate))
    made.step(X, LABELS)
    same = Training(backend, plain, START, SGD(float(rate(0))))
    same.step(X, LABELS)
    np.testing.assert_array_equal(made.weights()["w"], same.weights()["w"])


@pytest.mark.parametrize("make", [lambda n: schedules.exponential(0.1, 0.9, n), lambda n: schedules.cosine(0.1, n)])
@pytest.mark.parametrize("steps", [0, -1, 1.5, True])
def test_a_schedule_of_no_steps_is_refused(make: Any, steps: Any) -> None:
    with pytest.raises(ArgumentError, match="is no whole number from 1 up"):
        make(steps)


def test_labels_of_a_small_dtype_have_as_many_classes_as_there_are(backend: Backend) -> None:
    scores, labels = np.zeros((2, 300)), np.array([3, 255], np.uint8)
    assert float(backend.compile(layers.cross_entropy, scores, labels)(scores, labels)) == pytest.approx(np.log(300))


def test_an_all_reduce_in_a_loop_is_a_sum_there(backend: Backend) -> None:
    def function(x: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            mean, total = xb.all_reduce([carry, row], weights=[1, 3])[1], xb.all_reduce([carry, row], "sum")[0]
            return mean, total

        return xb.scan(step, xb.zeros(3), x)

    carry, rows = backend.compile(function, X)(X)
    expected, totals = np.zeros(3), []
    for row in X:
        totals.append(expected + row)
        expected = 0.25 * expected + 0.75 * row
    np.testing.assert_allclose(carry, expected)
    np.testing.assert_allclose(rows, totals)


def test_event_files_that_cannot_be_written_are_one_error() -> None:
    with pytest.raises(StoreError, match="event files cannot be written to /dev/null/here"):
        Events(Path("/dev/null/here"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"optimizer": SGD}, "is none; write SGD(0.1)"),
        ({"epochs": "2"}, "epochs='2' is no whole number"),
        ({"batch": 0}, "batch=0 is no whole number"),
    ],
)
def test_a_model_says_what_it_cannot_be(options: dict[str, Any], words: str) -> None:
    with pytest.raises(TrainingError, match=re.escape(words)):
        xb.model(**options)(plain)


@pytest.mark.parametrize(
    ("data", "size", "words"),
    [
        (lambda rng: ([1.0, 2.0], [0, 1]), None, "a tuple of arrays to train with"),
        (lambda rng: ((X,), X), None, "a tuple of arrays to train with"),
        (lambda rng: Stream(lambda rng: iter([(X, LABELS)]), steps=1), 8, "leave --batch"),
        (lambda rng: (X, LABELS), 21, "batches of 21 rows of 20"),
        (lambda rng: (X, LABELS), 0, "size=0 of a batch is no whole number from 1 up"),
    ],
)
def test_data_that_are_none_are_refused(data: Any, size: int | None, words: str) -> None:
    model = xb.model(plain)
    model.data(data)
    with pytest.raises(TrainingError, match=re.escape(words)):
        model.batches(0, size)


def test_a_state_of_other_data_is_refused() -> None:
    with pytest.raises(ArgumentError, match="not one of 20 rows"):
        Batches(X, size=5).restore(json.loads('{"seed": 0, "epoch": 0, "place": 21}'))
    with pytest.raises(ArgumentError, match="not one of 20 rows"):
        Batches(X, size=5).restore({"epoch": 0, "place": 5})
