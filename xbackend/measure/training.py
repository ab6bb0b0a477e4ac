"""Trains a model on backends, with strategies, one process for each: the outcomes, and the difference of the weights
from those of the first."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from xbackend.api.tracing.repeated import noticing_kept, trace_twice
from xbackend.backends.contract import Backend
from xbackend.devices import DeviceMap
from xbackend.errors import ArgumentError, UsageError, XBackendError
from xbackend.measure import matrix
from xbackend.measure.machine import machine
from xbackend.measure.matrix import BackendChoice
from xbackend.measure.oracle import first_devices
from xbackend.results import naming
from xbackend.results.trained import Passed, Trained, Trainings
from xbackend.strategies.named import named
from xbackend.training import Batches, Epoch, Events, Training
from xbackend.training.checkpoints import files
from xbackend.training.model import Model
from xbackend.training.sources import Stream
from xbackend.training.workload import MOST
from xbackend.wording import placed
from xbackend.workloads.agreement import INFINITE, apart, no_number, not_finite

Progress = Callable[[str], None]
HeldBatches = Sequence[tuple[np.ndarray, ...]]  # batches to test with
Made = tuple[
    Mapping[str, np.ndarray], Batches | Stream, HeldBatches
]  # weights, data and tests at the start, the same for each training
_RECENT = 20  # steps that a rate averages
_OFTEN = 0.5  # seconds from one line about the progress to the next


@dataclass(frozen=True)
class Asked:
    """How a model is trained, everywhere the same.

    ``checkpoints`` and ``events`` are folders. Each has a folder for each backend, and in it one for each of several
    strategies, so that a later training can go on from an earlier one. ``guard`` is around the model's own functions;
    ``on_notice`` is told of faults in a checkpoint. ``device_memory`` is that of `Backend.compile`; ``devices_map`` is
    added to its ``devices``. The strategy's devices are of these ``kinds``, if any. With ``allow_nan`` a training may
    end with NaN.
    """

    model: Model
    epochs: int
    batch: int | None
    seed: int
    checkpoints: Path | None
    events: Path | None
    guard: Callable[[str], AbstractContextManager[None]]
    on_notice: Progress
    on_progress: Progress
    device_memory: int | None = None
    devices_map: DeviceMap = field(default_factory=DeviceMap)
    kinds: Sequence[str] = ()
    allow_nan: bool = False


def trainings(asked: Asked, runs: Sequence[BackendChoice], spreads: Sequence[tuple[str, int]]) -> Trainings:
    """Each backend with each strategy and its number of devices; one that fails is a row with its reason."""
    with asked.guard(asked.model.name):
        start = asked.model.start(asked.seed)
        data = asked.model.batches(asked.seed, asked.batch)
        batch = next(iter(copy(data[0])))
        _check_repeated(asked, start, batch)
    return Trainings(
        model=asked.model.name,
        summary=asked.model.summary,
        optimizer=repr(asked.model.optimizer),
        dtypes=tuple(sorted({str(weight.dtype) for weight in start.values()})),
        batch=len(batch[0]),
        seed=asked.seed,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=machine(),
        runs=tuple(_each(asked, (start, *data), runs, spreads)),
        devices_map=str(asked.devices_map),
    )


def _each(
    asked: Asked, made: Made, runs: Sequence[BackendChoice], spreads: Sequence[tuple[str, int]]
) -> Iterator[Trained]:
    failures = matrix.ready(runs, asked.on_progress)
    first: dict[str, np.ndarray] | None = None
    for (strategy, count), spread in placed(spreads):
        for run, place in placed(runs):
            called = naming.label(*run)
            asked.on_progress(f"{called}{place}, {strategy}{spread}: starts and compiles")
            try:
                with matrix.opened(run, failures, count, asked.kinds) as backend:
                    one = _One(asked, called, strategy, count, len(spreads) > 1)
                    found, weights = one.on(backend, *made)
            except UsageError:  # of the user's own functions, with their lines
                raise
            except XBackendError as error:
                yield Trained(
                    backend=called, strategy=strategy, devices=count, status="failed", reason=str(error).splitlines()[0]
                )
                continue
            missing = 0 if asked.allow_nan else not_finite(weights.values())
            if missing:
                yield msgspec.structs.replace(
                    found, status="not verified", reason=no_number(missing, INFINITE), losses=(), seconds=(), rows=()
                )
                continue
            # The largest difference of a weight over the largest element of its array in the first.
            difference = None if first is None else apart((weights[name], other) for name, other in first.items())
            first = weights if first is None else first
            yield msgspec.structs.replace(found, versions=matrix.own_versions(*run), difference=difference)


def _check_repeated(asked: Asked, start: Mapping[str, np.ndarray], batch: Sequence[Any]) -> None:
    """Raises `TraceError` where the loss is another program when it is traced again, and what tracing raises."""

    def loss(*arrays: Any) -> Any:
        return asked.model.loss(dict(zip(start, arrays, strict=False)), *arrays[len(start) :])

    loss.__name__ = asked.model.name
    with noticing_kept(asked.on_notice):
        trace_twice(loss, *start.values(), *batch)


@dataclass(frozen=True)
class _One:
    """A training: what is asked, on which backend, with which strategy on how many devices."""

    asked: Asked
    called: str
    strategy: str
    devices: int
    several: bool  # strategies on this backend

    @property
    def own(self) -> Path:
        """Its folder below the folders of checkpoints and of event files."""
        return Path(self.called) / self.strategy if self.several else Path(self.called)

    def on(
        self, backend: Backend, start: Mapping[str, np.ndarray], data: Batches | Stream, test: HeldBatches
    ) -> tuple[Trained, dict[str, np.ndarray]]:
        """The outcome and the weights."""
        asked, watched = self.asked, _Watched()
        places = [str(device) for device in first_devices(backend, self.devices, asked.kinds)]
        logical = [f"dev{i}" for i in range(max(MOST, self.devices))]  # a loss may name more than there are
        with asked.guard(asked.model.name):
            made = Training(
                backend,
                asked.model.loss,
                start,
                asked.model.optimizer,
                strategy=named(self.strategy, logical[: self.devices], asked.model.places),
                devices={**{n: places[i % len(places)] for i, n in enumerate(logical)}, **asked.devices_map},
                device_memory=asked.device_memory,
            )
            batches = copy(data)
            done = self._fitted(made, watched, batches, test) or [self._before(made, batches, test)]
        steps = [made.compiled_step] if watched.losses else []
        found = Trained(
            backend=self.called,
            strategy=self.strategy,
            devices=self.devices,
            places=tuple(places),
            began=made.steps - len(watched.losses),
            epochs=tuple(_passed(epoch) for epoch in done),
            losses=tuple(watched.losses),
            seconds=tuple(watched.seconds),
            rows=tuple(watched.rows),
            memory={place: peak.bytes for step in steps for place, peak in step.memory.items()},
            transfers=sum(len(step.placement.transfers) for step in steps),
        )
        return found, made.weights()

    def _before(self, made: Training, batches: Batches | Stream, test: HeldBatches) -> Epoch:
        """The last epoch, where an earlier training took all of them. Raises `ArgumentError` where it took more."""
        if batches.epoch > self.asked.epochs:
            raise ArgumentError(
                f"{batches.epoch} epochs were trained before, and {self.asked.epochs} are asked for: ask for as many "
                "or more with --epochs, or give another folder"
            )
        return Epoch(batches.epoch - 1, made.steps, {}, made.means(test))

    def _fitted(self, made: Training, watched: _Watched, batches: Batches | Stream, test: HeldBatches) -> list[Epoch]:
        asked = self.asked
        with ExitStack() as stack:
            scopes: dict[str, Events] = {}
            if asked.events is not None:
                both = ("train", "test")
                scopes = {scope: stack.enter_context(Events(asked.events / self.own, scope)) for scope in both}

            def say(epoch: int, step: int, loss: str) -> None:
                where = f"epoch {epoch + 1} of {asked.epochs}, step {step}, {loss}"
                asked.on_progress(f"{self.called}, {self.strategy}: {where}, {watched.rate()}")

            def on_step(number: int, scalars: Mapping[str, float]) -> None:
                if watched.step(scalars["loss"], made):
                    say(batches.epoch, number, f"loss {scalars['loss']:.4g}")
                if scopes:
                    scopes["train"].scalars(number, scalars)

            def on_epoch(epoch: Epoch) -> None:
                if scopes:
                    scopes["train"].histograms(epoch.steps, made.weights())
                    scopes["test"].scalars(epoch.steps, epoch.test)
                watched.paused()
                say(epoch.number, epoch.steps, f"mean loss {epoch.train['loss']:.4g}")

            folder = None if asked.checkpoints is None else _folder(asked.checkpoints, self)
            calls: dict[str, Any] = {"on_step": on_step, "on_epoch": on_epoch, "on_notice": asked.on_notice}
            done = made.fit(batches, epochs=asked.epochs, test=test, folder=folder, **calls)
            if scopes and done:
                scopes["train"].program(made.compiled_step.program)
        return done


def _folder(checkpoints: Path, one: _One) -> Path:
    """The folder of its checkpoints. Raises `UsageError` where they lie in the folder for one strategy (or for several)
    instead: the training would begin again."""
    own = checkpoints / one.own
    other = checkpoints / one.called if one.several else checkpoints / one.called / one.strategy
    if files(other) and not files(own):
        raise UsageError(
            f"{other} has checkpoints, and with {'several strategies' if one.several else 'one strategy'} those of "
            f"{one.called}, {one.strategy} are in {own}: move them there, or give another folder"
        )
    return own


def _passed(epoch: Epoch) -> Passed:
    train, test = ({k: v for k, v in of.items() if math.isfinite(v)} for of in (epoch.train, epoch.test))
    return Passed(number=epoch.number, steps=epoch.steps, train=train, test=test)


class _Watched:
    """Losses and times of the steps. A step is timed if it follows another one and compiles nothing."""

    def __init__(self) -> None:
        self.losses, self.seconds, self.rows = list[float](), list[float](), list[int]()
        self._last: float | None = None
        self._said = -_OFTEN
        self._compiled = 0

    def step(self, loss: float, made: Training) -> bool:
        """Note a step; returns whether progress is due."""
        now, before = time.perf_counter(), self._last
        compiled, self._last = len(made.executables), now
        self.losses.append(loss)
        if before is not None and compiled == self._compiled:
            self.seconds.append(now - before)
            self.rows.append(made.rows)
        self._compiled = compiled
        if now - self._said < _OFTEN:
            return False
        self._said = now
        return True

    def rate(self) -> str:
        """The rate of the last steps, in words."""
        recent = self.seconds[-_RECENT:]
        if not recent:
            return "compiled"
        return f"{len(recent) / sum(recent):.0f} steps/s, {sum(self.rows[-_RECENT:]) / sum(recent):.0f} examples/s"

    def paused(self) -> None:
        """The time to the next step does not count: something else is done meanwhile."""
        self._last = None
