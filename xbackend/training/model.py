"""A model of a user's file: a loss, its initial weights, its data, and how it is trained.

@xb.model(optimizer=xb.training.SGD(0.1, momentum=0.9), batch=32, epochs=5)
def classifier(weights, x, labels):
    scores = x @ weights["w"] + weights["b"]
    return xb.training.layers.cross_entropy(scores, labels)

@classifier.weights
def weights(rng):
    return {"w": rng.normal(size=(64, 10)) / 8, "b": np.zeros(10)}

@classifier.data
def data(rng):
    return (x_train, labels_train), (x_test, labels_test)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from xbackend.errors import TrainingError
from xbackend.program.host import host_array
from xbackend.training.batches import Batches
from xbackend.training.optimizers import SGD, Optimizer
from xbackend.training.sources import Stream

Made = TypeVar("Made", bound=Callable[..., Any])


class Model:
    """What `xbackend train` trains; made by `model`, above the function of its loss.

    Attributes:
        name, summary: of the function, its name and the first line of its docstring.
        loss: ``loss(weights, *batch)``, as `xbackend.strategies` takes it.
        optimizer, batch, epochs: how it is trained where nobody says otherwise.
        seeds: whether the last array of a batch is one uint32 for each row (`layers.dropout`).
        places: the device of a variable by its name, for model parallel training.
    """

    def __init__(
        self,
        loss: Callable[..., Any],
        *,
        optimizer: Optimizer | None = None,
        batch: int = 32,
        epochs: int = 1,
        seeds: bool = False,
        places: Mapping[str, str] | None = None,
    ) -> None:
        self.loss, self.name = loss, str(getattr(loss, "__name__", "model"))
        self.summary = (inspect.getdoc(loss) or "").partition("\n")[0]
        self.optimizer = optimizer or SGD(0.01)
        self.batch, self.epochs, self.seeds = batch, epochs, seeds
        self.places = dict(places or {})
        self._weights: Callable[..., Any] | None = None
        self._data: Callable[..., Any] | None = None
        self.__doc__ = inspect.getdoc(loss)

    def __call__(self, *arguments: Any) -> Any:
        """The loss itself."""
        return self.loss(*arguments)

    def __repr__(self) -> str:
        return f"<model {self.name}>"

    def weights(self, make: Made) -> Made:
        """``make(rng)`` returns the initial weights, arrays by name, drawn from a `numpy.random.Generator`."""
        self._weights = make
        return make

    def data(self, make: Made) -> Made:
        """``make(rng)`` returns the arrays to train with, or these and those to test with, each with the same number of
        rows in axis 0. In the place of the first ones it may be a `Stream`."""
        self._data = make
        return make

    def start(self, seed: int = 0) -> dict[str, np.ndarray]:
        """The initial weights. Raises `TrainingError` for a model without any."""
        made = self._made(self._weights, "weights", np.random.default_rng([seed, 0]))
        if not isinstance(made, Mapping) or not made:
            raise TrainingError(f"the weights of model {self.name} are arrays by name, not {type(made).__name__}")
        return {name: host_array(value, f"the weight {name!r}") for name, value in made.items()}

    def batches(self, seed: int = 0, size: int | None = None) -> tuple[Batches | Stream, list[tuple[np.ndarray, ...]]]:
        """Batches to train with, and those to test with, none where it has no such arrays. Raises `TrainingError`."""
        made = self._made(self._data, "data", np.random.default_rng([seed, 1]))
        made = (made, ()) if isinstance(made, Stream) else made
        if not isinstance(made, Sequence) or not made:
            raise TrainingError(
                f"the data of model {self.name} are a tuple of arrays, or two of them, not {made!r:.40}"
            )
        train, test = made if len(made) == 2 and isinstance(made[0], tuple | list | Stream) else (made, ())
        batches: Batches | Stream = (
            train
            if isinstance(train, Stream)
            else Batches(*train, size=size or self.batch, seed=seed, seeds=self.seeds)
        )
        if not test:
            return batches, []
        held = Batches(*test, size=size or self.batch, shuffled=False, seeds=self.seeds)
        return batches, list(held)

    def _made(self, make: Callable[..., Any] | None, what: str, rng: np.random.Generator) -> Any:
        if make is None:
            raise TrainingError(f"model {self.name} has no {what}: write @{self.name}.{what} above def {what}(rng)")
        return make(rng)


def model(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a `Model` of the function below, with the options of it."""
    if function is not None:
        return Model(function, **options)
    return lambda loss: Model(loss, **options)
