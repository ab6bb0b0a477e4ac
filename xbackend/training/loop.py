"""A model in training on an open backend: steps, epochs, evaluation, checkpoints."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from xbackend.api.tracing.trace import ArraySpec, trace
from xbackend.backends.contract import Backend
from xbackend.errors import ArgumentError, CheckpointError, TrainingError
from xbackend.program.host import check_whole, host_array
from xbackend.strategies import OneDevice, Strategy
from xbackend.strategies.loss import TOWER, Loss, called
from xbackend.training import checkpoints, given
from xbackend.training.batches import Batches
from xbackend.training.checkpoints import Checkpoint
from xbackend.training.optimizers import Optimizer
from xbackend.training.sources import Stream


@dataclass(frozen=True)
class Epoch:
    """The results of an epoch: means over the rows of the training batches and of the test batches.

    >>> xb.training.Epoch(number=1, steps=10, train={"loss": 0.5})
    Epoch(number=1, steps=10, train={'loss': 0.5}, test={})
    """

    number: int
    steps: int  # since training began
    train: Mapping[str, float]
    test: Mapping[str, float] = field(default_factory=dict)


class _Mean:
    """Means over the rows of several batches."""

    def __init__(self) -> None:
        self.rows, self.sums = 0, dict[str, float]()

    def add(self, rows: int, scalars: Mapping[str, float]) -> None:
        self.rows += rows
        for name, value in scalars.items():
            self.sums[name] = self.sums.get(name, 0.0) + rows * value

    def found(self) -> dict[str, float]:
        return {name: total / self.rows for name, total in self.sums.items()}


class Training:
    """A model in training.

    The model is ``loss(weights, *batch)`` with initial ``weights`` (arrays by name), as for `xbackend.strategies`.
    Without a ``strategy`` all is on the backend's default device. ``devices`` binds the device names of strategy and
    loss. A step is compiled once for each shape of a batch. If its arrays need more than ``device_memory`` bytes on a
    device, it is refused (`DeviceMemoryError`).

    >>> def loss(w, x, y):
    ...     return xb.mean((x @ w["w"] - y) ** 2)
    >>> x, y = np.eye(4), np.arange(4.0)
    >>> batches = xb.training.Batches(x, y, size=2, seed=1)
    >>> mirrored = xb.strategies.Mirrored(("cpu:0", "cpu:1"))
    >>> training = xb.training.Training(backend, loss, {"w": np.zeros(4)}, xb.training.SGD(0.5), strategy=mirrored)
    >>> round(training.step(x[:2], y[:2])["loss"], 3)
    0.5
    >>> epochs = training.fit(batches, epochs=3)
    >>> len(epochs), training.steps, training.weights()["w"].shape
    (3, 7, (4,))
    >>> training.check_copies()
    >>> training.evaluate(x, y)["loss"] == training.means([(x, y)])["loss"]
    True
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = training.save(folder, batches)
    ...     training.restore(xb.training.checkpoints.read(path), batches)
    >>> training.restart({"w": np.zeros(4)})
    >>> training.steps, len(training.executables), sorted(training.values())
    (0, 2, ['step', 'weights/w'])
    >>> [str(device) for device in training.compiled_step.input_devices], len(training.model(x, y))
    (['cpu:0', 'cpu:0'], 64)
    """

    def __init__(
        self,
        backend: Backend,
        loss: Loss,
        weights: Mapping[str, Any],
        optimizer: Optimizer,
        *,
        strategy: Strategy | None = None,
        devices: Any = None,
        fed: bool = False,
        device_memory: int | None = None,
    ) -> None:
        given.check_training(backend, loss, optimizer, strategy)
        self.backend, self.device_memory, self._fed = backend, device_memory, fed
        self._compile = partial(backend.compile, devices=devices, device_memory=device_memory)
        self.strategy = strategy or OneDevice(str(backend.default_device))
        self._loss, self._initial = loss, given.weights(weights)
        self.copies = self.strategy.variables(self._initial, optimizer)
        self._step = self.strategy.step(loss, self.copies, optimizer, fed=fed)
        self._evaluate = self.strategy.evaluation(loss, self.copies)
        self._compiled: dict[Any, Any] = {}
        self.rows = 0  # of the last batch
        self._own: set[Path] = set()  # folders whose newest checkpoint this training restored or wrote

    def restart(self, weights: Mapping[str, Any]) -> None:
        """Begin again before the first step, from other initial weights. Compiled steps are kept.

        Raises `TrainingError` for weights of other names, shapes or dtypes.
        """
        new = given.weights(weights)
        kinds, known = ({name: (w.shape, w.dtype.name) for name, w in those.items()} for those in (new, self._initial))
        if kinds != known:
            raise TrainingError(f"a training of the weights {known} is not begun again with {kinds}: make another one")
        for copy in self.copies:
            for variable in copy.named().values():
                self.backend.set_value(variable, variable.value)
            for name, variable in copy.weights.items():
                self.backend.set_value(variable, new[name])
        self._initial, self.rows, self._own = new, 0, set()

    def step(self, *batch: Any) -> dict[str, float]:
        """Make a step. Returns its ``loss``, the further scalars, and each replica's under its prefix.

        Raises `TrainingError` if the loss is not finite; the weights have been updated by then.
        """
        found = self._run("step", self._step, batch)
        each = len(batch) // len(self.strategy.replicas) if self._fed else len(batch)  # arrays of a replica
        self.rows = sum(map(len, batch[::each]))
        if not math.isfinite(found["loss"]):
            raise TrainingError(
                f"the loss of step {self.steps} is {found['loss']}: a rate that is too high, numbers in the data that "
                "are not finite, or a label that is no class"
            )
        return found

    def evaluate(self, *batch: Any) -> dict[str, float]:
        """The loss and further scalars of a batch, without a step."""
        return self._run("evaluation", self._evaluate, batch)

    def means(self, batches: Iterable[Sequence[Any]]) -> dict[str, float]:
        """Means over the rows of evaluated batches; empty without batches."""
        found = _Mean()
        for batch in given.batches(batches):
            scalars = self.evaluate(*batch)
            found.add(len(batch[0]), scalars)
        return found.found() if found.rows else {}

    def _run(self, kind: str, function: Callable[..., Any], batch: Sequence[Any]) -> dict[str, float]:
        arrays = [host_array(array, f"array {i} of a batch") for i, array in enumerate(batch)]
        loss, further = self._executable(kind, function, arrays)(*arrays)
        return {"loss": float(loss), **{name: float(value) for name, value in further.items()}}

    def _executable(self, kind: str, function: Callable[..., Any], arrays: Sequence[Any]) -> Any:
        key = kind, *((np.shape(array), np.asarray(array).dtype.str) for array in arrays)
        if key not in self._compiled:
            self._compiled[key] = self._compile(function, *arrays)
        return self._compiled[key]

    @property
    def executables(self) -> tuple[Any, ...]:
        """The executables compiled so far."""
        return tuple(self._compiled.values())

    @property
    def compiled_step(self) -> Any:
        """The first step that was compiled. Raises `TrainingError` before a step."""
        for (kind, *_), run in self._compiled.items():
            if kind == "step":
                return run
        raise TrainingError("no step was made yet")

    @property
    def steps(self) -> int:
        """The number of steps made."""
        return int(self.backend.get_value(self.copies[0].count))

    def values(self, copy: int = 0) -> dict[str, np.ndarray]:
        """Every variable of a copy by its name in a checkpoint."""
        return {name: self.backend.get_value(of) for name, of in self.copies[copy].named().items()}

    def weights(self) -> dict[str, np.ndarray]:
        """The present weights."""
        return {name: self.backend.get_value(of) for name, of in self.copies[0].weights.items()}

    def check_copies(self) -> None:
        """Raises `TrainingError` unless all copies of a variable are equal to the bit."""
        first = self.values()
        for number in range(1, len(self.copies)):
            for name, value in self.values(number).items():
                if value.tobytes() != first[name].tobytes():
                    raise TrainingError(f"copy {number} of {name} is not the first one after step {self.steps}")

    @contextmanager
    def _going_on(
        self, folder: Path | None, model: str, batches: Batches | Stream, on_notice: Callable[[str], None]
    ) -> Iterator[None]:
        """Go on from the newest checkpoint of a folder, if any. The block holds the folder's lock."""
        if folder is None:
            yield
            return
        with checkpoints.alone(folder):
            found, wrong = checkpoints.newest(folder, model)
            for line in wrong:
                on_notice(line)
            if found is not None:
                _check_order(found, batches, f"the checkpoints in {folder} are")
                self.restore(found)
                batches.restore(found.data)
            self._own.add(folder.absolute())
            yield

    def _check_finite(self, loss: float = 0.0) -> None:
        """Raises `TrainingError` if a weight, or the ``loss`` of the test rows, is not finite. The loss of a step need
        not show it."""
        wrong = [f"the weight {name!r}" for name, value in self.weights().items() if not np.all(np.isfinite(value))]
        if not math.isfinite(loss):
            wrong.append("the loss of the test rows")
        if wrong:
            raise TrainingError(f"{wrong[0]} is not finite after step {self.steps}")

    def model(self, *batch: Any) -> str:
        """The fingerprint of the model's loss, independent of strategy, devices and number of rows."""
        specs = [ArraySpec((2, *np.shape(array)[1:]), np.asarray(array).dtype) for array in batch]
        names = list(self._initial)

        def loss(*arrays: Any) -> Any:
            return called(self._loss, dict(zip(names, arrays[: len(names)], strict=True)), arrays[len(names) :])

        program = trace(loss, *(ArraySpec(w.shape, w.dtype) for w in self._initial.values()), *specs)
        return replace(program, nodes=tuple(replace(node, device=None) for node in program.nodes)).fingerprint

    def save(self, folder: str | PathLike[str], batches: Batches | Stream) -> Path:
        """Write a checkpoint: it is on disk on return.

        Raises `StoreError`, `TrainingError` if a weight is not finite, and `CheckpointError` if another training holds
        the folder, or it has checkpoints of another model, or newer ones that this training has not restored.
        """
        self._check_finite()
        folder, model = Path(folder), self._model_of(batches)
        if folder.absolute() not in self._own:
            with checkpoints.alone(folder):
                found, _ = checkpoints.newest(folder, model)
            if found is not None and found.step > self.steps:
                raise CheckpointError(
                    f"{folder} has a checkpoint of step {found.step}, and this training is at step {self.steps}: "
                    "restore it, or give another folder"
                )
            self._own.add(folder.absolute())
        return self._save(folder, model, batches)

    def _save(self, folder: Path, model: str, batches: Batches | Stream) -> Path:
        return checkpoints.write(folder, Checkpoint(self.values(), model, self.steps, batches.state()))

    def restore(self, checkpoint: Checkpoint, batches: Batches | Stream | None = None) -> None:
        """Go on from a checkpoint of any backend and strategy: every copy takes its values.

        Raises `CheckpointError` for one of another model, optimiser or order of the data.
        """
        if batches is not None:
            if checkpoint.model != self._model_of(batches):
                raise CheckpointError("the checkpoint is of another model")
            _check_order(checkpoint, batches, "the checkpoint is")
        for copy in self.copies:
            named = copy.named()
            kinds = {name: (array.shape, array.dtype.name) for name, array in checkpoint.arrays.items()}
            if kinds != {name: (of.shape, of.dtype.value) for name, of in named.items()}:
                raise CheckpointError(
                    f"the checkpoint has {', '.join(sorted(kinds))}, and this training {', '.join(sorted(named))}, or "
                    "they have other shapes: it is of another optimiser or model"
                )
            for name, variable in named.items():
                self.backend.set_value(variable, checkpoint.arrays[name])
        if batches is not None:
            batches.restore(checkpoint.data)

    def _model_of(self, batches: Batches | Stream) -> str:
        given.check_data(batches)
        return self.model(*batches.arrays, *((np.zeros(2, np.uint32),) if batches.seeds else ()))

    def fit(
        self,
        batches: Batches | Stream,
        *,
        epochs: int,
        test: Iterable[Sequence[Any]] | None = None,
        folder: str | PathLike[str] | None = None,
        patience: int | None = None,
        on_notice: Callable[[str], None] = warnings.warn,
        on_step: Callable[[int, Mapping[str, float]], None] | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> list[Epoch]:
        """Train until ``epochs`` epochs are complete, epochs before a restored checkpoint included.

        ``test`` are batches evaluated after each epoch. With ``folder``, training goes on from its newest checkpoint
        and writes one after each epoch; ``on_notice`` is told of damaged newer ones. With ``patience`` it stops after
        so many epochs without a new minimum of the test loss (the training loss without ``test``), counted within this
        call.

        Raises `TrainingError` if the loss, or a weight at the end of an epoch, is not finite, with the path of the last
        checkpoint, `CheckpointError` for checkpoints of another model, optimiser or order of the data and for a folder
        that another training holds, and what `step` and `save` raise.
        """
        given.check_data(batches)
        check_whole(epochs, f"epochs={epochs!r:.40} of a training", 0)
        if patience is not None:
            check_whole(patience, f"patience={patience!r:.40} of a training")
        if self._fed:
            raise ArgumentError("fit feeds whole batches: with fed=True make each step of a batch for each replica")
        folder = None if folder is None else Path(folder)
        model = "" if folder is None else self._model_of(batches)
        held, done = [*given.batches(() if test is None else test)], list[Epoch]()
        if self.device_memory is not None and held:  # refuse before anything is computed
            self._executable("evaluation", self._evaluate, held[0])
        with self._going_on(folder, model, batches, on_notice):
            least, since, steps = math.inf, 0, self.steps
            while batches.epoch < epochs:
                number, mean = batches.epoch, _Mean()
                for batch in batches:
                    with _last_named(folder, model):
                        scalars = self.step(*batch)
                    mean.add(len(batch[0]), {name: value for name, value in scalars.items() if not TOWER.match(name)})
                    steps += 1
                    if on_step is not None:
                        on_step(steps, scalars)
                if not mean.rows:  # the epoch had no batch left
                    continue
                epoch = Epoch(number, steps, mean.found(), self.means(held))
                done.append(epoch)
                with _last_named(folder, model):
                    self._check_finite(epoch.test.get("loss", 0.0))
                if folder is not None:
                    self._save(folder, model, batches)
                if on_epoch is not None:
                    on_epoch(epoch)
                value = (epoch.test or epoch.train)["loss"]
                least, since = (value, 0) if value < least else (least, since + 1)
                if patience is not None and since >= patience:
                    break
        return done


def _check_order(found: Checkpoint, batches: Batches | Stream, those: str) -> None:
    """Raises `CheckpointError` if the checkpoint's batches had another order, size or number of rows."""
    now = batches.state()
    if ("size" in found.data) != ("size" in now):
        kinds = ("a data set", "a generator") if "size" in found.data else ("a generator", "a data set")
        raise CheckpointError(f"{those} of batches of {kinds[0]}, these are of {kinds[1]}: give another folder")
    for key in ("seed", "size", "rows", "shuffled", "partial", "steps"):
        if found.data.get(key, now.get(key)) != now.get(key):
            raise CheckpointError(
                f"{those} of batches with {key} {found.data[key]}, these have {now.get(key)}: give that, or another "
                "folder"
            )


@contextmanager
def _last_named(folder: Path | None, model: str) -> Iterator[None]:
    """Add the path of the last checkpoint to a `TrainingError` of the block."""
    try:
        yield
    except TrainingError as error:
        found = None
        if folder is not None:
            with suppress(CheckpointError):
                found, _ = checkpoints.newest(folder, model)
        last = f"the last checkpoint is {checkpoints.place(folder, found.step)}" if folder and found else ""
        raise TrainingError(f"{error}; {last or 'there is no checkpoint before it'}") from None
