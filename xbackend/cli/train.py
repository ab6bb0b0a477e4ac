"""``train``: a model of the user's file, trained on backends and compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.cli import DONE, INCOMPLETE, options
from xbackend.cli.console import progress, say, width
from xbackend.cli.users import calling, model
from xbackend.errors import BackendUnavailable, UsageError, XBackendError
from xbackend.measure import matrix
from xbackend.report import columns, text
from xbackend.strategies import Strategy
from xbackend.strategies.named import NAMES, named
from xbackend.training import Epoch, Events, Training
from xbackend.training.model import Model
from xbackend.wording import join
from xbackend.workers.remote import RemoteBackend

_TARGET = Parameter(help="a model in a file, under @xb.model", metavar="FILE.py:MODEL")
_STRATEGY = options.option(str, "NAME", f"how it is spread over devices: {', '.join(NAMES)} (default: one)")
_DEVICES = options.option(options.count, "N", "how many devices (default: 1, and 2 for what needs several)")
_EPOCHS = options.option(options.count, "N", "how often the data are seen (default: the model's)")
_BATCH = options.option(options.count, "N", "rows of a batch (default: the model's)")
_FOLDER = options.option(
    options.folder, "DIR", "write checkpoints there, by backend, and go on from those that lie there"
)
_NOTE = "a step's time is of one process, with the copies of its batch: which is faster, xbackend compare says"
_EVENTS = options.option(options.folder, "DIR", "write event files for TensorBoard there, by backend")


def train(
    target: Annotated[str, _TARGET],
    /,
    *,
    strategy: Annotated[str, _STRATEGY] = "one",
    devices: Annotated[int | None, _DEVICES] = None,
    epochs: Annotated[int | None, _EPOCHS] = None,
    batch: Annotated[int | None, _BATCH] = None,
    seed: options.Seed = 0,
    backends: options.Backends = None,
    python: options.Python = None,
    checkpoints: Annotated[Path | None, _FOLDER] = None,
    events: Annotated[Path | None, _EVENTS] = None,
) -> int:
    """Train a model on backends; print its losses, how far the weights differ, and the time of a step."""
    chosen = model(target)
    count = devices or (1 if strategy == "one" else 2)
    spread = _strategy(strategy, count, chosen)
    selected = matrix.runs(backends)
    asked = _Asked(chosen, epochs or chosen.epochs, batch, seed, checkpoints, events)
    with calling(target):
        start = chosen.start(seed)
    trained: dict[str, dict[str, np.ndarray]] = {}
    rows, failed = list[list[str]](), list[str]()
    with progress() as shown:
        failures = matrix.ready(selected, shown)
        for name, _ in selected:
            try:
                if registry.get(name).environment in failures:
                    raise BackendUnavailable(failures[registry.get(name).environment])
                with RemoteBackend(name, Settings(virtual_devices=count)) as backend:
                    made = Training(backend, chosen.loss, start, chosen.optimizer, strategy=spread)
                    done, seconds = asked.on(name, made, shown)
                    trained[name] = made.weights()
            except XBackendError as error:
                rows.append([name, "failed", *[text.NOTHING] * 4])
                failed.append(f"failed: {name}: {str(error).splitlines()[0]}")
                continue
            rows.append([name, *_found(done[-1]), _differs(trained, name), _step(seconds)])
    headers = ["backend", "loss", "scalars", "test", "weights against the first", "median step"]
    for line in columns.lines(headers, [("", rows)], width() or columns.WIDTH, headers[4:]):
        say(line)
    for note in (
        *failed,
        "a step's time is of one process, with the copies of its batch: which is faster, xbackend compare says",
    ):
        for line in columns.wrapped(note, width(), "  "):
            say(line)
    return INCOMPLETE if failed else DONE


@dataclass(frozen=True)
class _Asked:
    """What is trained, and how."""

    model: Model
    epochs: int
    batch: int | None
    seed: int
    checkpoints: Path | None
    events: Path | None

    def on(self, name: str, made: Training, shown: Callable[[str], None]) -> tuple[list[Epoch], list[float]]:
        """What the epochs came to on a backend, and the seconds from step to step."""
        with calling(self.model.name):
            batches, test = self.model.batches(self.seed, self.batch)
        ticks = [time.perf_counter()]
        with ExitStack() as stack:
            scopes: dict[str, Events] = {}
            if self.events is not None:
                scopes = {s: stack.enter_context(Events(self.events / name, s)) for s in ("train", "test")}

            def on_step(number: int, scalars: Mapping[str, float]) -> None:
                ticks.append(time.perf_counter())
                where = f"epoch {batches.epoch + 1} of {self.epochs}, step {number}"
                rate = 1 / (ticks[-1] - ticks[-2])
                shown(f"{name}: {where}, loss {scalars['loss']:.4g}, {rate:.0f} steps/s")
                if scopes:
                    scopes["train"].scalars(number, scalars)

            def on_epoch(epoch: Epoch) -> None:
                if scopes:
                    scopes["train"].histograms(epoch.steps, made.weights())
                    scopes["test"].scalars(epoch.steps, epoch.test)
                ticks.append(time.perf_counter())

            folder = None if self.checkpoints is None else self.checkpoints / name
            done = made.fit(batches, epochs=self.epochs, test=test, folder=folder, on_step=on_step, on_epoch=on_epoch)
            if scopes and made.executables:
                scopes["train"].program(made.executables[0].program)
        if not done:
            raise UsageError(f"{self.epochs} epochs were trained before; ask for more with --epochs, or another folder")
        return done, [b - a for a, b in pairwise(ticks)]


def _strategy(name: str, count: int, chosen: Model) -> Strategy:
    """Raises `UsageError`, `ArgumentError`."""
    if name == "one" and count != 1:
        raise UsageError(f"--devices {count}: strategy one has 1; take towers, mirrored or model")
    return named(name, [f"cpu:{i}" for i in range(count)], chosen.places)


def _found(epoch: Epoch) -> list[str]:
    def said(scalars: Mapping[str, float]) -> str:
        return join([f"{key} {value:.4g}" for key, value in scalars.items() if key != "loss"]) or text.NOTHING

    test = join([f"{key} {value:.4g}" for key, value in epoch.test.items()]) or text.NOTHING
    return [f"{epoch.train['loss']:.6g}", said(epoch.train), test]


def _differs(trained: Mapping[str, Mapping[str, np.ndarray]], name: str) -> str:
    """The largest difference of a weight over the largest of its elements."""
    first = next(iter(trained))
    if first == name:
        return "reference"
    of = trained[first]
    largest = max(
        float(np.max(np.abs(value - of[key]), initial=0.0)) / (float(np.max(np.abs(of[key]), initial=0.0)) or 1.0)
        for key, value in trained[name].items()
    )
    return f"{largest:.1e}"


def _step(seconds: list[float]) -> str:
    return f"{1e3 * median(seconds):.3g} ms" if seconds else text.NOTHING
