"""The call of a training's loss, which is a user's function, and the check of its results."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.tracer import current
from xbackend.errors import ArgumentError, ShapeError, TraceError
from xbackend.wording import counted

Loss = Callable[..., Any]
TOWER = re.compile(r"tower_\d+/")  # the prefix of one replica's scalars
STATELESS = (
    "the loss of a training: each evaluation and each replica would do it too, and no checkpoint has it; return what "
    "it needs as a scalar beside the loss, {'mean': ...}, and keep the state outside, from what step returns"
)


def called(loss: Loss, weights: Mapping[str, Any], arrays: Sequence[Array]) -> Any:
    """Call the loss. Raises `ArgumentError` if the arrays do not fit its signature, `SharedVariableError` for an update
    in it."""
    try:
        signature = inspect.signature(loss)
    except (TypeError, ValueError):  # a callable in C: it refuses arguments itself
        signature = None
    try:
        if signature is not None:
            signature.bind(weights, *arrays)
    except TypeError as error:
        raise ArgumentError(
            f"the loss {getattr(loss, '__name__', '')}{signature} is given the weights and a batch of "
            f"{counted(len(arrays), 'array')}: {error}; a batch has an array for each of its other arguments, in order"
        ) from None
    with current("a step of training").without_updates(STATELESS):
        return loss(weights, *arrays)


def results_of(loss: Loss, weights: Mapping[str, Any], arrays: Sequence[Array]) -> tuple[Array, dict[str, Array]]:
    """The results of a loss: its value and the further scalars. Raises `TraceError`, `ShapeError`, and as `called`."""
    result = called(loss, weights, arrays)
    tracer = current("a step of training")
    if result is None or (isinstance(result, tuple | list) and len(result) != 2):
        form = "None" if result is None else f"{len(result)} values"
        raise TraceError(f"the loss returns {form}: return a scalar, or a scalar and a dictionary of further scalars")
    value, further = result if isinstance(result, tuple | list) else (result, {})
    if not isinstance(further, Mapping):
        raise TraceError(f"the loss returns {type(further).__name__} beside its value; return a dictionary of scalars")
    for name in further:
        if not isinstance(name, str) or not name or name == "loss" or TOWER.match(name):
            raise TraceError(
                f"the loss returns a further scalar called {name!r:.40}: they have names, and 'loss' and what begins "
                "with tower_0/ is what training itself says; give it another name"
            )
    scalars = {"loss": tracer.array(value), **{name: tracer.array(of) for name, of in further.items()}}
    for name, array in scalars.items():
        if array.shape != () or not array.dtype.is_floating:
            raise ShapeError(f"the {name} that training is given is {array!r}: return floating-point scalars, means")
    return scalars.pop("loss"), scalars
