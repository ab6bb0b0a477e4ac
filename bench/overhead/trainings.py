"""The worker's part of the figures of training: strategies of our own beside those of the frameworks, an epoch beside
Keras, how a graph grows with its replicas, and a prediction of a step from measurements of its parts.

Plain data in, plain data out, as in the measuring loop.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

import xbackend as xb
from overhead.calls import _round, classifier, data_of_step, in_turn
from overhead.handwritten.training import MOMENTUM, RATE
from xbackend.backends import registry
from xbackend.errors import ParityError
from xbackend.measure.load import foreign_load
from xbackend.strategies import Mirrored, OneDevice, Strategy
from xbackend.training import SGD, Batches, Training
from xbackend.workloads.agreement import relative_error

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend, Executable

OPTIMIZER = SGD(RATE, momentum=MOMENTUM)


def spread(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a step on all devices (mirrored) or on one: ours, and under the framework's own strategy.

    ``job``: ``batch``, ``widths``, ``steps``, ``rounds``, ``round_seconds``, and ``fed``: whether the batch is spread
    before the call, as theirs is. Returns ``ours`` and ``theirs`` (seconds per call of each round, in turn),
    ``difference``: of the weights after so many steps, the largest over the largest weight of each array, and
    ``foreign_cores``.
    """
    places, fed = [str(device) for device in backend.devices], bool(job.get("fed"))
    x, labels, start = data_of_step(job, "float64")
    strategy = Mirrored(places) if len(places) > 1 else OneDevice(places[0])
    copies = strategy.variables(start, OPTIMIZER)
    parts = zip(*(np.split(array, len(places)) for array in (x, labels)), strict=True)
    batch = [array for part in parts for array in part] if fed else [x, labels]
    run = backend.compile(strategy.step(classifier, copies, OPTIMIZER, fed=fed), *batch)
    own = _theirs(backend).spread(start, len(places))
    placed = own.place(x, labels)
    for _ in range(job["steps"]):
        run(*batch)
        own.call(*placed)
    weights = own.weights()
    ours = {name: backend.get_value(variable) for name, variable in copies[0].weights.items()}
    sides = [
        _round(run.execute, run.put(*batch), backend.synchronize),
        _round(own.call, placed, own.wait),
    ]
    with foreign_load() as foreign:
        (seconds, theirs), iterations = in_turn(sides, job["rounds"], job["round_seconds"])
    return {
        "ours": seconds,
        "theirs": theirs,
        "difference": _difference(ours, weights),
        "iterations": iterations,
        "foreign_cores": foreign[0],
    }


def epoch(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of a step in an epoch of batches from the host, as users train: ours by `Training.fit`, Keras by ``fit``.

    ``job``: ``batch``, ``batches`` (of an epoch), ``widths``, ``rounds``. Result as of `spread`; the difference is that
    of the weights after the first epoch, whose rows both take in order.
    """
    count: int = job["batches"]
    x, labels, start = data_of_step({**job, "batch": job["batch"] * count}, "float32")
    batches = Batches(x, labels, size=job["batch"], shuffled=False)
    training = Training(backend, classifier, start, OPTIMIZER, strategy=OneDevice(str(backend.default_device)))
    own = _theirs(backend).fitted(start, x, labels, job["batch"])

    def ours(epochs: int) -> float:
        begun = time.perf_counter()
        training.fit(batches, epochs=batches.epoch + epochs)
        return (time.perf_counter() - begun) / count

    def theirs(epochs: int) -> float:
        begun = time.perf_counter()
        own.call(epochs)
        return (time.perf_counter() - begun) / count

    ours(1)
    theirs(1)
    difference = _difference(training.weights(), own.weights())
    with foreign_load() as foreign:
        (seconds, other), iterations = in_turn([ours, theirs], job["rounds"], 0.0)
    return {
        "ours": seconds,
        "theirs": other,
        "difference": difference,
        "iterations": iterations,
        "foreign_cores": foreign[0],
    }


def growth(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """How a graph grows with the replicas in it. ``job``: ``batch``, ``widths``, ``replicas``, ``rounds``.

    Returns for each number of replicas, each on a device, ``nodes`` of the placed program, ``build`` (seconds from the
    function to the end of its first step) and ``step`` (median seconds, one round of each in turn).
    """
    x, labels, start = data_of_step(job, "float32")
    rows, sides = [], []
    for count in job["replicas"]:
        strategy = Mirrored([str(device) for device in backend.devices[:count]])
        copies = strategy.variables(start, OPTIMIZER)
        begun = time.perf_counter()
        run = backend.compile(strategy.step(classifier, copies, OPTIMIZER), x, labels)
        run(x, labels)
        built = time.perf_counter() - begun
        rows.append({"replicas": count, "nodes": len(run.program.values), "build": built})
        sides.append(_round(run.execute, run.put(x, labels), backend.synchronize))
    with foreign_load() as foreign:
        seconds, iterations = in_turn(sides, job["rounds"], 0.02)
    for row, own in zip(rows, seconds, strict=True):
        row["step"] = median(own)
    return {"rows": rows, "ours": seconds[-1], "iterations": iterations[-1:], "foreign_cores": foreign[0]}


def predicted(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """A mirrored step on all devices and the speed-up by it, predicted from measurements of parts before they are run.

    ``job``: ``batch``, ``widths``, ``rounds``, ``round_seconds``. With n rows and d devices the prediction is

        step(d) = launch(d) + wait x (compute(n/d) - launch(1)) + exchange(d) - launch(d)
        speed-up = compute(n) / step(d),  compute(n) on the line through compute(n/d) and compute(n/2d)

    - ``compute``: a step of one device with the rows of one replica, and with half of them, ``half``;
    - ``launch``: a call that computes next to nothing on each of the devices;
    - ``exchange``: the batch split and moved, and an all-reduce of arrays as large as the gradients;
    - ``wait``: a product of matrices on each device at once, over one on one device: 1 where devices do not wait for
      each other, d where one computes after the other.

    Returns medians by these names, ``predicted`` and ``measured``, ``predicted one`` and ``one`` (seconds of a step of
    all rows on one device), ``ours`` (the rounds of what was measured) and ``foreign_cores``.
    """
    places = [str(device) for device in backend.devices]
    x, labels, start = data_of_step(job, "float32")
    share = -(-len(x) // len(places))
    parts = {
        "compute": _step(backend, OneDevice(places[0]), start, x[:share], labels[:share]),
        "half": _step(backend, OneDevice(places[0]), start, x[: share // 2], labels[: share // 2]),
        "launch of one": _launch(backend, places[:1]),
        "launch": _launch(backend, places),
        "exchange": _exchange(backend, places, start, (x, labels)),
        "all-reduce": _exchange(backend, places, start, ()),
        "alone": _products(backend, places[:1]),
        "together": _products(backend, places),
    }
    with foreign_load() as foreign:
        found, _ = in_turn([side for _, side in parts.values()], job["rounds"], job["round_seconds"])
        seconds = {name: median(own) for name, own in zip(parts, found, strict=True)}
        wait = seconds["together"] / seconds["alone"]
        guess = wait * (seconds["compute"] - seconds["launch of one"]) + max(seconds["exchange"], seconds["launch"])
        row = (seconds["compute"] - seconds["half"]) / (share - share // 2)
        _, side = _step(backend, Mirrored(places), start, x, labels)
        _, alone = _step(backend, OneDevice(places[0]), start, x, labels)
        (measured, one), iterations = in_turn([side, alone], job["rounds"], job["round_seconds"])
    step = median(measured)
    return {
        **seconds,
        "wait": wait,
        "predicted": guess,
        "measured": step,
        "predicted one": seconds["compute"] + row * (len(x) - share),
        "one": median(one),
        "share of all-reduce": max(seconds["all-reduce"] - seconds["launch"], 0.0) / step,
        "ours": measured,
        "iterations": iterations[:1],
        "foreign_cores": foreign[0],
    }


def _theirs(backend: Backend) -> Any:
    return import_module(f"overhead.handwritten.training.{registry.get(backend.name).environment}")


def _difference(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> float:
    """Raises `ParityError` where they are of different models."""
    if set(ours) != set(theirs):
        raise ParityError(f"weights {', '.join(ours)} and by hand {', '.join(theirs)}")
    return max(relative_error(ours[name], theirs[name]) for name in theirs)


def _side(backend: Backend, run: Executable, *arrays: Any) -> tuple[Executable, Any]:
    return run, _round(run.execute, run.put(*arrays), backend.synchronize)


def _step(backend: Backend, strategy: Strategy, start: Mapping[str, Any], x: Any, labels: Any) -> tuple[Any, Any]:
    copies = strategy.variables(start, OPTIMIZER)
    run = backend.compile(strategy.step(classifier, copies, OPTIMIZER), x, labels)
    run(x, labels)
    return _side(backend, run, x, labels)


def _launch(backend: Backend, places: Sequence[str]) -> tuple[Any, Any]:
    def nothing(*values: Any) -> Any:
        made = []
        for place, value in zip(places, values, strict=True):
            with xb.device(place):
                made.append(value + 1.0)
        return made

    ones = [np.float32(1.0)] * len(places)
    return _side(backend, backend.compile(nothing, *ones), *ones)


def _exchange(
    backend: Backend, places: Sequence[str], start: Mapping[str, np.ndarray], batch: Sequence[np.ndarray]
) -> tuple[Any, Any]:
    """The batch split on the first device and moved, and arrays as large as the gradients all-reduced."""
    count, share = len(places), -(-len(batch[0]) // len(places)) if batch else 0
    arrays = [*batch, *(array for _ in places for array in start.values())]

    def exchange(*values: Any) -> Any:
        with xb.device(places[0]):
            parts = [[array[i * share : (i + 1) * share] for array in values[: len(batch)]] for i in range(count)]
        given, placed, made = values[len(batch) :], [], []
        for number, (place, part) in enumerate(zip(places, parts, strict=True)):
            with xb.device(place):
                placed.append([value + 1.0 for value in given[number * len(start) : (number + 1) * len(start)]])
                made += [array[:1] + 1 for array in part]
        results = [xb.all_reduce(list(same), "mean") for same in zip(*placed, strict=True)]
        for number, place in enumerate(places):
            with xb.device(place):
                made += [result[number] + 1.0 for result in results]
        return made

    return _side(backend, backend.compile(exchange, *arrays), *arrays)


def _products(backend: Backend, places: Sequence[str]) -> tuple[Any, Any]:
    x = np.eye(256, dtype=np.float32)

    def products(*values: Any) -> Any:
        made = []
        for place, value in zip(places, values, strict=True):
            with xb.device(place):
                made.append(xb.linalg.matrix_power(value, 8))
        return made

    arrays = [x] * len(places)
    return _side(backend, backend.compile(products, *arrays), *arrays)
