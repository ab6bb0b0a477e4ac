"""Training on every backend: each strategy has the weights of one device, and any backend restores any checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xbackend as xb
from xbackend.backends.contract import Backend
from xbackend.strategies import Mirrored, ModelParallel, OneDevice, Strategy, Towers
from xbackend.training import SGD, Adam, Batches, Events, RMSProp, Training, checkpoints, layers

pytestmark = [pytest.mark.tier("standard"), pytest.mark.takes_turns, pytest.mark.shared_out]

SPREAD = {"dev0": "cpu:0", "dev1": "cpu:1", "dev2": "cpu:2"}
STEPS = 100
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (60, 4))
Y = np.sin(X[:, :2] + X[:, 2:])
START = {"w": RNG.uniform(-0.5, 0.5, (4, 8)), "b": np.zeros(8), "v": RNG.uniform(-0.5, 0.5, (8, 2))}


def loss(weights: Mapping[str, Any], x: Any, y: Any) -> Any:
    """A smooth network with its second layer on another device, if there is one."""
    with xb.device("dev0"):
        hidden = xb.tanh(layers.dense(x, weights["w"], weights["b"]))
    with xb.device("dev1"):
        difference = hidden @ weights["v"] - y
        return xb.mean(xb.square(difference)), {"error": xb.mean(xb.abs(difference))}


def plain(weights: Mapping[str, Any], x: Any, y: Any) -> Any:
    """The same without device scopes."""
    difference = xb.tanh(layers.dense(x, weights["w"], weights["b"])) @ weights["v"] - y
    return xb.mean(xb.square(difference)), {"error": xb.mean(xb.abs(difference))}


PAIRS = ({"dev0": "cpu:0", "dev1": "cpu:1"}, {"dev0": "cpu:2", "dev1": "cpu:0"})
STRATEGIES: dict[str, tuple[Strategy, Callable[..., Any]]] = {
    "one device": (OneDevice("dev1"), plain),
    "towers": (Towers(("dev0", "dev1", "dev2"), on="dev1"), plain),
    "mirrored": (Mirrored(("dev0", "dev1", "dev2")), plain),
    "model parallel": (ModelParallel({"w": "dev0", "b": "dev0", "v": "dev1"}), loss),
    "towers of two devices each": (Towers(PAIRS), loss),
    "mirrored on two devices each": (Mirrored(PAIRS, places={"v": "dev1"}), loss),
}
OPTIMIZERS = {
    "momentum": SGD(0.1, momentum=0.9),
    "adam": Adam(lambda step: 0.01 / (1.0 + 0.01 * xb.astype(step, xb.float64))),
    "rmsprop": RMSProp(0.01, clip=0.1),
}
BOUND = {"momentum": 1e-10, "adam": 1e-8, "rmsprop": 1e-8}


def gradients(w: Mapping[str, np.ndarray], x: np.ndarray, y: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
    hidden = np.tanh(x @ w["w"] + w["b"])
    difference = hidden @ w["v"] - y
    back = 2 * difference / difference.size
    through = (back @ w["v"].T) * (1 - hidden**2)
    found = {"w": x.T @ through, "b": through.sum(0), "v": hidden.T @ back}
    return float(np.mean(difference**2)), found


# Optimizers that a framework's rewrites may compute differently on two devices: mirrored copies would differ.
REWRITTEN = {
    "descent": SGD(0.07),
    "nesterov, clipped": SGD(0.07, momentum=0.9, nesterov=True, clip=0.1),
    "rmsprop": RMSProp(0.01),
    "rmsprop, clipped": RMSProp(0.01, clip=0.1),
    "adam, clipped": Adam(0.01, clip=0.1),
}


def by_hand(optimizer: str) -> tuple[list[float], dict[str, np.ndarray]]:
    """The losses and the weights, by NumPy alone."""
    w = dict(START)
    m, n = ({name: np.zeros_like(a) for name, a in w.items()} for _ in range(2))
    losses: list[float] = []
    batches = Batches(X, Y, size=16, seed=3)
    while len(losses) < STEPS:
        for x, y in batches:
            value, g = gradients(w, x, y)
            t = len(losses)
            losses.append(value)
            norm = np.sqrt(sum(np.sum(a**2) for a in g.values()))
            for k, own in w.items():
                if optimizer == "momentum":
                    m[k] = g[k] + 0.9 * m[k]
                    w[k] = own - 0.1 * m[k]
                elif optimizer == "adam":
                    m[k] = 0.9 * m[k] + 0.1 * g[k]
                    n[k] = 0.999 * n[k] + 0.001 * g[k] ** 2
                    moved = (m[k] / (1 - 0.9 ** (t + 1))) / (np.sqrt(n[k] / (1 - 0.999 ** (t + 1))) + 1e-8)
                    w[k] = own - 0.01 / (1 + 0.01 * t) * moved
                else:
                    clipped = g[k] * min(1.0, 0.1 / norm)
                    n[k] = 0.9 * n[k] + 0.1 * clipped**2
                    w[k] = own - 0.01 * clipped / np.sqrt(n[k] + 1e-8)
            if len(losses) == STEPS:
                break
    return losses, w


def trained(backend: Backend, strategy: str, optimizer: str) -> tuple[list[float], Training]:
    spread, function = STRATEGIES[strategy]
    training = Training(backend, function, START, OPTIMIZERS[optimizer], strategy=spread, devices=SPREAD)
    losses: list[float] = []
    batches = Batches(X, Y, size=16, seed=3)  # the last one of an epoch has 12 rows
    while len(losses) < STEPS:
        for batch in batches:
            losses.append(training.step(*batch)["loss"])
            if len(losses) in (1, STEPS):
                training.check_copies()
            if len(losses) == STEPS:
                break
    return losses, training


def agrees(backend: Backend, strategy: str, optimizer: str) -> None:
    expected, weights = by_hand(optimizer)
    losses, training = trained(backend, strategy, optimizer)
    np.testing.assert_allclose(losses, expected, rtol=1e-7)
    for name, value in training.weights().items():
        assert np.max(np.abs(value - weights[name])) <= BOUND[optimizer] * np.max(np.abs(weights[name])), name
    for run in training.executables:
        assert not run.placement.differences()


@pytest.mark.variant
@pytest.mark.parametrize("optimizer", REWRITTEN)
@pytest.mark.parametrize("strategy", ["mirrored", "mirrored on two devices each"])
def test_mirrored_copies_are_equal_to_the_bit(three: Backend, strategy: str, optimizer: str) -> None:
    spread, function = STRATEGIES[strategy]
    training = Training(three, function, START, REWRITTEN[optimizer], strategy=spread, devices=SPREAD)
    for step in range(STEPS):  # copies may differ by one rounding in a hundred steps
        training.step(X[:17], Y[:17])
        if step < 3 or not step % 10:
            training.check_copies()


@pytest.mark.heavy
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_has_the_weights_of_one_device(three: Backend, strategy: str) -> None:
    agrees(three, strategy, "momentum")


@pytest.mark.heavy
@pytest.mark.variant
@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
@pytest.mark.parametrize("strategy", ["towers", "mirrored on two devices each"])
def test_every_optimizer_has_the_weights_of_one_device(three: Backend, strategy: str, optimizer: str) -> None:
    agrees(three, strategy, optimizer)


@pytest.mark.variant
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_losses_in_float32_are_those_of_one_device_in_float64(three: Backend, strategy: str) -> None:
    """The tolerance is that between the modes of tf_cnn_benchmarks: rtol 1e-5, atol 0."""
    spread, function = STRATEGIES[strategy]
    start = {name: value.astype(np.float32) for name, value in START.items()}
    training = Training(three, function, start, OPTIMIZERS["momentum"], strategy=spread, devices=SPREAD)
    batches = Batches(X.astype(np.float32), Y.astype(np.float32), size=16, seed=3)
    losses: list[float] = []
    while len(losses) < STEPS:
        losses += [training.step(*batch)["loss"] for batch in batches]
    np.testing.assert_allclose(losses[:STEPS], by_hand("momentum")[0], rtol=1e-5, atol=0)


def test_an_all_reduce_gives_every_device_the_same(three: Backend) -> None:
    x = np.linspace(-1, 1, 6).reshape(2, 3) / 3

    def function(x: Any) -> Any:
        values = []
        for number in range(3):
            with xb.device(f"dev{number}"):
                values.append(xb.sin(x * (number + 1.0)))
        mean, total = xb.all_reduce(values, weights=[3, 2, 2]), xb.all_reduce(values, "sum")
        doubled = []
        for number in range(3):
            with xb.device(f"dev{number}"):
                doubled.append(mean[number] * 2.0)
        return mean, doubled, total[2], xb.grad(xb.sum(total[1] * total[1]), x)

    run = three.compile(function, x, devices=SPREAD)
    mean, doubled, total, gradient = run(x)
    values = [np.sin(x * k) for k in (1.0, 2.0, 3.0)]
    expected = sum(w / 7 * v for w, v in zip((3, 2, 2), values, strict=True))
    for number in range(3):
        np.testing.assert_allclose(mean[number], expected, rtol=1e-12)
        assert mean[number].tobytes() == mean[0].tobytes()
        np.testing.assert_array_equal(doubled[number], 2 * mean[0])
    np.testing.assert_allclose(total, sum(values), rtol=1e-12)
    np.testing.assert_allclose(gradient, 2 * sum(values) * sum(k * np.cos(x * k) for k in (1, 2, 3)), rtol=1e-11)
    assert not run.placement.differences()
    ways = {(t.source, t.target) for t in run.placement.transfers if t.cause == "all-reduce"}
    assert ways == {("cpu:1", "cpu:0"), ("cpu:2", "cpu:0"), ("cpu:0", "cpu:1"), ("cpu:0", "cpu:2")}


def test_averages_by_stacking_by_the_list_and_by_all_reduce_are_one(three: Backend) -> None:
    """Of dense gradients, and of those of `take`, which TensorFlow keeps as rows with their indices."""
    rows, start = np.array([[0, 2, 2], [2, 1, 0]]), np.linspace(-1, 1, 8).reshape(4, 2)

    def function(rows: Any, w: Any) -> Any:
        found = []
        for number in range(2):
            with xb.device(f"dev{number}"):
                found.append(xb.grad(xb.sum(xb.take(w, rows[number], axis=0) ** 3) + xb.sum(xb.sin(w)), w))
        stacked = xb.mean(xb.stack(found), axis=0)
        return stacked, (found[0] + found[1]) / 2.0, xb.all_reduce(found, "mean")[0], xb.all_reduce(found, "sum")[1]

    run = three.compile(function, rows, start, devices=SPREAD)
    stacked, listed, reduced, total = run(rows, start)
    expected = np.cos(start)
    for row in rows.ravel():
        expected[row] += 3 * start[row] ** 2 / 2
    for found in (stacked, listed, reduced, total / 2):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_each_replica_is_fed_a_batch_of_its_own(three: Backend) -> None:
    parts = [(X[:3], Y[:3]), (X[3:8], Y[3:8]), (X[8:10], Y[8:10])]
    spread, function = STRATEGIES["towers"]
    training = Training(three, function, START, SGD(0.1), strategy=spread, devices=SPREAD, fed=True)
    found = training.step(*(array for part in parts for array in part))
    value, g = gradients(START, X[:10], Y[:10])
    np.testing.assert_allclose(found["loss"], value, rtol=1e-12)
    for number, part in enumerate(parts):
        np.testing.assert_allclose(found[f"tower_{number}/loss"], gradients(START, *part)[0], rtol=1e-12)
    for name, weight in training.weights().items():
        np.testing.assert_allclose(weight, START[name] - 0.1 * g[name], rtol=1e-10, atol=1e-14)


IMAGES = RNG.uniform(-1, 1, (11, 5, 4, 2))
KINDS = RNG.integers(0, 3, 11)
KERNELS = {
    "k": RNG.uniform(-0.5, 0.5, (3, 3, 2, 2)),
    "b": np.zeros(2),
    "v": RNG.uniform(-0.5, 0.5, (12, 3)),
}


def convolved(weights: Mapping[str, Any], images: Any, kinds: Any) -> Any:
    hidden = xb.tanh(layers.convolution(images, weights["k"], weights["b"]))
    return layers.cross_entropy(xb.reshape(hidden, (images.shape[0], 12)) @ weights["v"], kinds)


def of_kernels(w: Mapping[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
    """The loss and the gradients of `convolved`, by formula."""
    rows = np.arange(len(KINDS))
    windows = np.lib.stride_tricks.sliding_window_view(IMAGES, (3, 3), axis=(1, 2))
    hidden = np.tanh(np.einsum("nhwcij,ijco->nhwo", windows, w["k"]) + w["b"])
    flat = hidden.reshape(len(rows), -1)
    shares = np.exp(flat @ w["v"])
    shares /= shares.sum(1, keepdims=True)
    value = -np.mean(np.log(shares[rows, KINDS]))
    shares[rows, KINDS] -= 1.0
    shares /= len(rows)
    back = (shares @ w["v"].T).reshape(hidden.shape) * (1 - hidden**2)
    found = {"k": np.einsum("nhwcij,nhwo->ijco", windows, back), "b": back.sum((0, 1, 2)), "v": flat.T @ shares}
    return float(value), found


@pytest.mark.heavy
@pytest.mark.variant
def test_a_convolution_is_trained_on_several_devices(three: Backend) -> None:
    training = Training(three, convolved, KERNELS, SGD(0.5), strategy=STRATEGIES["mirrored"][0], devices=SPREAD)
    weights = dict(KERNELS)
    for _ in range(5):
        value, found = of_kernels(weights)
        np.testing.assert_allclose(training.step(IMAGES, KINDS)["loss"], value, rtol=1e-10)
        weights = {name: own - 0.5 * found[name] for name, own in weights.items()}
    training.check_copies()
    for name, own in training.weights().items():
        np.testing.assert_allclose(own, weights[name], rtol=1e-9, atol=1e-12)


def classifier(weights: Mapping[str, Any], x: Any, labels: Any, seeds: Any) -> Any:
    hidden = layers.dropout(xb.tanh(layers.dense(x, weights["w"], weights["b"])), 0.25, seeds)
    scores = hidden @ weights["v"]
    return layers.cross_entropy(scores, labels), {"accuracy": layers.accuracy(scores, labels)}


@pytest.mark.heavy
@pytest.mark.variant
def test_a_checkpoint_is_read_by_others_and_gone_on_from_to_the_bit(three: Backend, tmp_path: Path) -> None:
    """Written by one device on NumPy, read here by replicas; then written here, and read here twice."""
    labels = (X[:, 0] > X[:, 1]).astype(np.int64)

    def training(backend: Backend, strategy: str) -> tuple[Training, Batches]:
        spread = STRATEGIES[strategy][0]
        made = Training(backend, classifier, START, Adam(0.02), strategy=spread, devices=SPREAD)
        return made, Batches(X, labels, size=25, seed=5, seeds=True)

    with xb.open("numpy", virtual_devices=3) as oracle:
        first, batches = training(oracle, "one device")
        first.fit(batches, epochs=2, folder=tmp_path)
        following = next(iter(batches))
        expected = first.step(*following)["loss"]
    written, _ = checkpoints.newest(tmp_path)
    assert written is not None

    here, batches = training(three, "mirrored")
    here.restore(written, batches)
    assert {name: a.tobytes() for name, a in here.values(2).items()} == bits(written.arrays)
    here.check_copies()
    found = next(iter(batches))
    for array, other in zip(found, following, strict=True):
        np.testing.assert_array_equal(array, other)
    np.testing.assert_allclose(here.step(*found)["loss"], expected, rtol=1e-9)
    here.save(tmp_path / "here", batches)

    ends = []
    again, others = training(three, "mirrored")
    for number in range(2):
        if number:  # in the same process, with its compiled programs
            kept, _ = checkpoints.newest(tmp_path / "here")
            assert kept is not None
            again.restore(kept, others)
        epochs = again.fit(others, epochs=3, folder=tmp_path / "here")
        assert [epoch.number for epoch in epochs] == [2] and again.steps == 9
        ends.append(bits(again.values()))
        checkpoints.files(tmp_path / "here")[0].unlink()  # the last one, so that both go on from the same
    here.fit(batches, epochs=3)
    assert ends[0] == ends[1] == bits(here.values())


def test_event_files_are_read_by_tensorboards_own_reader(three: Backend, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    spread, function = STRATEGIES["towers"]
    training = Training(three, function, START, SGD(0.1), strategy=spread, devices=SPREAD)
    with Events(tmp_path, "train") as events:
        losses = []
        for step in range(3):
            found = training.step(X[:16], Y[:16])
            losses.append(found["loss"])
            events.scalars(step, found)
        events.histograms(2, training.weights())
        events.program(training.compiled_step.program)
    read = EventAccumulator(str(tmp_path / "train"), size_guidance={"histograms": 0})
    read.Reload()
    towers = {f"tower_{number}/{name}" for number in range(3) for name in ("loss", "error")}
    assert set(read.Tags()["scalars"]) == {"loss", "error", *towers}
    np.testing.assert_allclose([event.value for event in read.Scalars("loss")], losses, rtol=1e-6)
    (histogram,) = read.Histograms("w")
    value = histogram.histogram_value
    assert value.num == 32 and sum(value.bucket) == 32
    w = training.weights()["w"]
    assert (value.sum, value.min, value.max) == pytest.approx((w.sum(), w.min(), w.max()))
    assert {node.device for node in read.Graph().node} == {"cpu:0", "cpu:1", "cpu:2"}


def bits(arrays: Mapping[str, np.ndarray]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in arrays.items()}
