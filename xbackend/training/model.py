"""A model in a user's file: a loss, its initial weights, its data, and its training options.

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

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from xbackend.errors import TrainingError
from xbackend.habits import keywords
from xbackend.program.host import check_whole, host_array
from xbackend.training.batches import Batches
from xbackend.training.optimizers import SGD, Optimizer
from xbackend.training.sources import Stream

Made = TypeVar("Made", bound=Callable[..., Any])


class Model:
    """A model for `xbackend train`, made by `model` above the function of its loss.

    Attributes:
        name, summary: the function's name and the first line of its docstring.
        loss: ``loss(weights, *batch)``, as for `xbackend.strategies`.
        optimizer, batch, epochs: the defaults of its training.
        partial: whether an epoch ends with a smaller batch of the remaining rows.
        seeds: whether the last array of a batch has one uint32 for each row (`layers.dropout`).
        places: the device of each variable by name, for model parallel training.

    >>> @xb.model(optimizer=xb.training.SGD(0.5), batch=2, epochs=3)
    ... def line(weights, x, y):
    ...     return xb.mean((weights["w"] * x - y) ** 2)
    >>> @line.weights
    ... def weights(rng):
    ...     return {"w": rng.normal(size=())}
    >>> @line.data
    ... def data(rng):
    ...     x = rng.normal(size=8)
    ...     return x, 3.0 * x
    >>> sorted(line.start(seed=0))
    ['w']
    >>> batches, test = line.batches(size=4)
    >>> [x.shape for x, y in batches]
    [(4,), (4,)]
    """

    def __init__(
        self,
        loss: Callable[..., Any],
        *,
        optimizer: Optimizer | None = None,
        batch: int = 32,
        epochs: int = 1,
        seeds: bool = False,
        partial: bool = True,
        places: Mapping[str, str] | None = None,
    ) -> None:
        if not callable(loss):
            raise TrainingError(f"{loss!r:.60} is no function: xb.model is of one that returns a loss")
        name = str(getattr(loss, "__name__", "model"))
        if optimizer is not None and not isinstance(optimizer, Optimizer):
            raise TrainingError(f"model {name}: optimizer={optimizer!r:.60} is none; write SGD(0.1), Adam()")
        for what, value in (("batch", batch), ("epochs", epochs)):
            check_whole(value, f"model {name}: {what}={value!r:.40}", error=TrainingError)
        self.loss, self.name = loss, name
        self.__wrapped__ = loss  # `inspect.signature` of the model is the loss's
        self.summary = (inspect.getdoc(loss) or "").partition("\n")[0]
        self.optimizer = optimizer or SGD(0.01)
        self.batch, self.epochs, self.seeds, self.partial = batch, epochs, seeds, partial
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
        """``make(rng)`` returns the training arrays, or these and the test arrays; each group has one number of rows
        (axis 0). The training arrays may be a `Stream` instead."""
        self._data = make
        return make

    def start(self, seed: int = 0) -> dict[str, np.ndarray]:
        """The initial weights. Raises `TrainingError` for a model without any."""
        made = self._made(self._weights, "weights", np.random.default_rng([seed, 0]))
        if not isinstance(made, Mapping) or not made:
            raise TrainingError(f"the weights of model {self.name} are arrays by name, not {type(made).__name__}")
        return {name: host_array(value, f"the weight {name!r}") for name, value in made.items()}

    def batches(self, seed: int = 0, size: int | None = None) -> tuple[Batches | Stream, list[tuple[np.ndarray, ...]]]:
        """Training batches, of ``size`` rows if given, and test batches, none without test arrays.

        Raises `TrainingError` for invalid data, and for a size that they cannot have.
        """
        made = self._made(self._data, "data", np.random.default_rng([seed, 1]))
        train, test = made if _is_pair(made) else (made, ())
        if not (isinstance(train, Stream) or _is_arrays(train)) or not (len(test) == 0 or _is_arrays(test)):
            raise TrainingError(
                f"the data of model {self.name} are a tuple of arrays to train with, or that and one to test with, not "
                f"{made!r:.60}"
            )
        if isinstance(train, Stream):
            if size is not None:
                raise TrainingError(
                    f"the data of model {self.name} are a stream, which makes its batches: leave --batch"
                )
            return train, self._held(test)
        rows = len(train[0]) if np.ndim(train[0]) else 0
        own = max(1, min(self.batch, rows)) if size is None else size
        check_whole(own, f"model {self.name}: size={size!r:.40} of a batch", error=TrainingError)
        if own > rows > 0:
            raise TrainingError(f"batches of {own} rows of {rows} that model {self.name} has: there are no such")
        options: dict[str, Any] = {"seed": seed, "seeds": self.seeds, "partial": self.partial}
        return Batches(*train, size=own, **options), self._held(test)

    def _held(self, test: Sequence[Any]) -> list[tuple[np.ndarray, ...]]:
        if len(test) == 0 or np.shape(test[0])[:1] == (0,):
            return []
        return [*Batches(*test, size=max(self.batch, 1), shuffled=False, seeds=self.seeds)]

    def _made(self, make: Callable[..., Any] | None, what: str, rng: np.random.Generator) -> Any:
        if make is None:
            raise TrainingError(f"model {self.name} has no {what}: write @{self.name}.{what} above def {what}(rng)")
        return make(rng)


def _is_arrays(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) > 0 and all(isinstance(one, np.ndarray) for one in value)


def _is_pair(made: Any) -> bool:
    """Whether it has training data and test arrays."""
    if not isinstance(made, tuple | list) or len(made) != 2 or not isinstance(made[1], tuple | list):
        return False
    return isinstance(made[0], Stream) or _is_arrays(made[0])


@keywords
def model(
    function: Callable[..., Any] | None = None,
    *,
    optimizer: Optimizer | None = None,
    batch: int = 32,
    epochs: int = 1,
    seeds: bool = False,
    partial: bool = True,
    places: Mapping[str, str] | None = None,
) -> Any:
    """Make a `Model` of the decorated function, with these options.

    >>> @xb.model(optimizer=xb.training.SGD(0.5), batch=2)
    ... def constant(weights, x):
    ...     "The number nearest to all."
    ...     return xb.mean((weights["c"] - x) ** 2)
    >>> constant.name, constant.summary, constant.batch
    ('constant', 'The number nearest to all.', 2)
    """
    made = functools.partial(
        Model, optimizer=optimizer, batch=batch, epochs=epochs, seeds=seeds, partial=partial, places=places
    )
    return made if function is None else made(function)
