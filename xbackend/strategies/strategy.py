"""The base of training's strategies: a model's variables, their devices, and a step that updates them.

``loss(weights, *batch)`` takes the weights by name, and arrays with their rows along axis 0. It returns a
floating-point scalar, the mean over the rows; or that and a dictionary of further scalars (accuracy, say), also means
over the rows. It updates nothing. A strategy makes the variables (`Strategy.variables`), and turns the loss into a
function of a batch that updates them (`Strategy.step`), compiled as any other.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import cast
from xbackend.api.tracing.gradient import grad
from xbackend.api.tracing.scopes import on
from xbackend.api.tracing.state import shared, update
from xbackend.api.tracing.tracer import current
from xbackend.errors import ArgumentError, GradientError, ShapeError, TraceError
from xbackend.program.shared import SharedVariable
from xbackend.strategies.loss import Loss, results_of
from xbackend.strategies.merging import weighted
from xbackend.strategies.replication import Replica, bounds

if TYPE_CHECKING:
    from xbackend.training.optimizers import Optimizer

# The loss, further scalars, and for each copy the new values of its variables, by their names in a checkpoint.
Stepped = tuple[Array, dict[str, Array], list[dict[str, Array]]]
# Whether a loss is traced for an evaluation, which leaves out the randomness of training (dropout).
EVALUATES: ContextVar[bool] = ContextVar("evaluates", default=False)


@dataclass(frozen=True)
class Copy:
    """One copy of the variables of a model: its weights, the optimiser's slots, the number of steps made.

    They are shared variables, or traced arrays for `Strategy.pure_step`.

    >>> (copy,) = xb.strategies.OneDevice("cpu:0").variables({"w": np.zeros(2)}, xb.training.SGD(0.1, momentum=0.9))
    >>> sorted(copy.named())
    ['step', 'velocity/w', 'weights/w']
    >>> sorted(xb.strategies.Copy.of(copy.named()).weights)
    ['w']
    """

    weights: Mapping[str, Any]
    slots: Mapping[str, Mapping[str, Any]]  # by the name of the slot, and then of the weight
    count: Any

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> Copy:
        """The copy of variables by their names in a checkpoint, as `named` gives them."""
        slots: dict[str, dict[str, Any]] = {}
        for key, variable in named.items():
            slot, _, name = key.partition("/")
            if name:
                slots.setdefault(slot, {})[name] = variable
        return cls(slots.pop("weights"), slots, named["step"])

    def named(self) -> dict[str, Any]:
        """Every variable by the name that it has in a checkpoint."""
        found = {f"weights/{name}": weight for name, weight in self.weights.items()}
        for slot, variables in self.slots.items():
            found |= {f"{slot}/{name}": variable for name, variable in variables.items()}
        return {**found, "step": self.count}


class Strategy(abc.ABC):
    """How a step of training is spread over devices.

    >>> def loss(w, x):
    ...     return xb.mean((x - w["m"]) ** 2)
    >>> weights, optimizer = {"m": np.zeros(())}, xb.training.SGD(0.5)
    >>> strategy = xb.strategies.Towers(("cpu:0", "cpu:1"), on="cpu:0")
    >>> copies = strategy.variables(weights, optimizer)
    >>> strategy.splits_on, strategy.place("m", 0), len(strategy.replicas)
    ('cpu:0', 'cpu:0', 2)
    >>> step = backend.compile(strategy.step(loss, copies, optimizer), np.ones(4))
    >>> value, scalars = step(np.ones(4))
    >>> float(value), sorted(scalars)
    (1.0, ['tower_0/loss', 'tower_1/loss'])
    >>> value, scalars = backend.compile(strategy.evaluation(loss, copies), np.ones(4))(np.ones(4))
    >>> float(value)
    0.0
    >>> start = strategy.start(weights, optimizer)
    >>> pure = strategy.pure_step(loss, start, optimizer)
    >>> len(xb.trace(pure, np.ones(4), *(value for copy in start for value in copy.values())).outputs)
    5
    """

    replicas: tuple[Replica, ...]
    copies = 1  # of every variable

    @property
    def splits_on(self) -> str | None:
        """The device on which a batch is split and the replicas' results are averaged."""
        return self.replicas[0].place

    def variables(self, weights: Mapping[str, Any], optimizer: Optimizer) -> list[Copy]:
        """The variables of a model with these initial weights (arrays by name), each copy in its place.

        Raises `ArgumentError` for no weights, `DTypeError` and `DeviceSpellingError` as `xbackend.shared` does.
        """
        return [self._copy(values, number) for number, values in enumerate(self.start(weights, optimizer))]

    def start(self, weights: Mapping[str, Any], optimizer: Optimizer) -> list[dict[str, np.ndarray]]:
        """The initial values of each copy's variables, by their names in a checkpoint.

        Raises `ArgumentError` for no weights.
        """
        if not weights:
            raise ArgumentError("there are no weights to train; give arrays by name, {'w': ..., 'b': ...}")
        unnamed = [name for name in weights if not isinstance(name, str) or not name]
        if unnamed:
            raise ArgumentError(f"a weight is called {unnamed[0]!r:.40}: give each a name, {{'w': ..., 'b': ...}}")
        arrays = {name: np.asarray(value) for name, value in weights.items()}
        slots = {slot: {name: np.zeros_like(value) for name, value in arrays.items()} for slot in optimizer.slots}
        return [Copy(arrays, slots, np.zeros((), np.int64)).named() for _ in range(self.copies)]

    def step(
        self, loss: Loss, copies: Sequence[Copy], optimizer: Optimizer, *, fed: bool = False
    ) -> Callable[..., tuple[Array, dict[str, Array]]]:
        """A function of a batch that makes one step. It returns the loss and the further scalars of all rows.

        With ``fed`` its arguments are a batch for each replica, one after the other. Otherwise one batch is split; a
        remainder goes to the first replicas, one row each. In both cases replicas are weighted by their rows. The
        scalars of several replicas are also returned under ``tower_0/`` and so on.
        """

        def step(*batch: Any) -> tuple[Array, dict[str, Array]]:
            value, further, moved = self._step(loss, copies, optimizer, self._parts(batch, fed))
            for copy, new in zip(copies, moved, strict=True):
                for name, variable in copy.named().items():
                    update(variable, new[name])
            return value, further

        return step

    def pure_step(
        self, loss: Loss, start: Sequence[Mapping[str, Any]], optimizer: Optimizer
    ) -> Callable[..., tuple[Array, dict[str, Array], tuple[Array, ...]]]:
        """A step as a function of arrays alone: of a batch, and then of the variables, copy after copy, in the order of
        ``start`` (made by `start`). It returns a step's results, and the variables' new values in the same order."""
        names = [list(one) for one in start]
        count = sum(map(len, names))

        def step(*arrays: Any) -> tuple[Array, dict[str, Array], tuple[Array, ...]]:
            tracer = current("a step of training")
            values = iter([tracer.array(value) for value in arrays[-count:]])
            copies = [Copy.of(dict(zip(own, values, strict=False))) for own in names]
            value, further, moved = self._step(loss, copies, optimizer, self._parts(arrays[:-count], fed=False))
            return value, further, tuple(new[name] for own, new in zip(names, moved, strict=True) for name in own)

        return step

    def evaluation(self, loss: Loss, copies: Sequence[Copy]) -> Callable[..., tuple[Array, dict[str, Array]]]:
        """A function of a batch with the results of a step, without updates and without the randomness of training. The
        first replica alone computes it."""

        def evaluate(*batch: Any) -> tuple[Array, dict[str, Array]]:
            tracer = current("an evaluation")
            before = EVALUATES.set(True)
            try:
                with self.replicas[0].scopes():
                    arrays = [tracer.array(value) for value in batch]
                    rows_of(arrays)
                    return results_of(loss, copies[0].weights, arrays)
            finally:
                EVALUATES.reset(before)

        return evaluate

    @abc.abstractmethod
    def place(self, name: str, number: int) -> str | None:
        """The device of a variable in copy ``number``; `None` is the backend's default device."""

    def _step(self, loss: Loss, copies: Sequence[Copy], optimizer: Optimizer, parts: Sequence[Share]) -> Stepped:
        found, by_replica = [], []
        for number, (replica, part) in enumerate(zip(self.replicas, parts, strict=True)):
            with replica.scopes():
                scalars, by_weight = gradients(loss, copies[number % len(copies)].weights, part)
            found.append(scalars)
            by_replica.append(by_weight)
        new = []
        for number, (copy, own) in enumerate(zip(copies, self._reduced(by_replica, parts), strict=True)):
            new.append(moved(copy, optimizer, own, partial(self.place, number=number)))
        with on(self.splits_on):
            return *merged(found, parts), new

    def _reduced(self, found: Sequence[Mapping[str, Array]], parts: Sequence[Share]) -> list[dict[str, Array]]:
        """For each copy the mean of the replicas' gradients over all rows, by weight."""
        with on(self.splits_on):
            return [{name: mean([one[name] for one in found], parts) for name in found[0]}]

    def _copy(self, values: Mapping[str, Any], number: int) -> Copy:
        suffix = f"/{number}" if self.copies > 1 else ""
        first = next(iter(Copy.of(values).weights))

        def variable(key: str, value: Any) -> SharedVariable:
            slot, _, name = key.partition("/")
            called = name if slot == "weights" else key
            return shared(value, f"{called}{suffix}", self.place(name or first, number))

        return Copy.of({key: variable(key, value) for key, value in values.items()})

    def _parts(self, batch: Sequence[Any], fed: bool) -> list[Share]:
        tracer, count = current("a step of training"), len(self.replicas)
        arrays = [tracer.array(value) for value in batch]
        if fed:
            each, rest = divmod(len(arrays), count)
            if rest or not each:
                raise ArgumentError(
                    f"{len(arrays)} arrays for {count} replicas: with fed=True each gets a batch of its own, and all "
                    "batches have as many arrays"
                )
            batches = [tuple(arrays[i : i + each]) for i in range(0, len(arrays), each)]
            return [Share(rows_of(own), own) for own in batches]
        rows = rows_of(arrays)
        if count == 1:
            return [Share(rows, tuple(arrays))]
        if rows < count:
            raise ShapeError(
                f"a batch of {rows} rows for {count} replicas: each needs one; give fewer devices or larger batches, "
                "or leave the partial ones out"
            )
        with on(self.splits_on):
            return [Share(b - a, tuple(array[a:b] for array in arrays)) for a, b in bounds(rows, count)]


@dataclass(frozen=True)
class Share:
    """A replica's share of a batch: arrays, and their number of rows."""

    rows: int
    arrays: tuple[Array, ...]


def rows_of(arrays: Sequence[Any]) -> int:
    """The number of rows (axis 0) of a batch of arrays. Raises `ShapeError` if they have none, or not the same."""
    rows = {array.shape[0] if array.ndim else 0 for array in arrays}
    if len(rows) != 1 or 0 in rows:
        shapes = ", ".join(str(array.shape) for array in arrays) or "no arrays"
        raise ShapeError(f"a batch of {shapes}: its arrays have the same number of rows, one or more")
    return rows.pop()


def gradients(loss: Loss, weights: Mapping[str, Any], part: Share) -> tuple[dict[str, Array], dict[str, Array]]:
    """The scalars of one replica, with its loss as ``loss``, and its gradients by weight, each on its device."""
    value, further = results_of(loss, weights, part.arrays)
    try:
        found = grad(value, list(weights.values()))
    except GradientError:
        for name, weight in weights.items():
            try:
                grad(value, weight)
            except GradientError as error:
                raise GradientError(f"the weight {name!r}: {error}") from None
        raise
    return {"loss": value, **further}, dict(zip(weights, found, strict=True))


def mean(values: Sequence[Array], parts: Sequence[Share]) -> Array:
    """The mean over all rows from the means v_i over the n_i rows of each part: sum(n_i v_i) / sum(n_i)."""
    return values[0] if len(values) == 1 else weighted(values, [part.rows for part in parts])


def merged(found: Sequence[Mapping[str, Array]], parts: Sequence[Share]) -> tuple[Array, dict[str, Array]]:
    """The loss of all rows and the further scalars, with each replica's own under its prefix."""
    names = list(found[0])
    if any(list(one) != names for one in found):
        raise TraceError("the replicas return different scalars; return the same from each")
    means = {name: mean([one[name] for one in found], parts) for name in names}
    if len(found) > 1:
        for number, one in enumerate(found):
            means |= {f"tower_{number}/{name}": value for name, value in one.items()}
    return means.pop("loss"), means


def moved(
    copy: Copy, optimizer: Optimizer, found: Mapping[str, Array], place: Callable[[str], str | None]
) -> dict[str, Array]:
    """The optimiser's new value of every variable of a copy, each computed on the variable's device."""
    tracer = current("a step of training")
    limit = optimizer.limited(list(found.values()))
    weights, slots = dict[str, Array](), {slot: dict[str, Array]() for slot in copy.slots}
    for name, weight in copy.weights.items():
        with on(place(name)):
            arrays = {slot: tracer.array(variables[name]) for slot, variables in copy.slots.items()}
            own = tracer.array(weight)
            new, kept = optimizer.update(own, limit(found[name]), arrays, tracer.array(copy.count))
            weights[name] = cast(new, own.dtype)
            for slot, value in kept.items():
                slots[slot][name] = cast(value, own.dtype)
    with on(place(next(iter(copy.weights)))):
        return Copy(weights, slots, tracer.array(copy.count) + 1).named()
