"""State: ``xbackend.shared`` makes it and ``xbackend.update`` changes it."""

from __future__ import annotations

from typing import Any

from xbackend.api.functions.creation import full
from xbackend.api.tracing.casting import is_scalar
from xbackend.api.tracing.tracer import current
from xbackend.devices import Device
from xbackend.errors import DTypeError, ShapeError, SharedVariableError
from xbackend.habits import keywords
from xbackend.program.shared import SharedVariable


@keywords
def shared(value: Any, name: str | None = None, device: str | Device | None = None) -> SharedVariable:
    """A shared variable with the initial value ``value`` (any shape and dtype).

    ``device`` is a device or a logical name; without one it lives on the backend's default device. Raises `DTypeError`
    for other dtypes, `SharedVariableError` for a bad name, `DeviceSpellingError` for a bad device.

    >>> weights = xb.shared(np.zeros(2), "weights", device="cpu:1")
    >>> backend.compile(lambda x: x + weights, np.ones(2))(np.ones(2))
    array([1., 1.])
    """
    return SharedVariable(value, name, device)


def update(variable: SharedVariable, expression: Any) -> None:
    """Assign the value of ``expression`` to the shared variable, once per execution, after the outputs.

    Shapes and dtypes must be equal; a Python number fills the variable. Outputs and all updates read the old values, as
    in Theano. Raises `SharedVariableError`, `ShapeError`, `DTypeError`.

    >>> count = xb.shared(0, "count")
    >>> run = backend.compile(lambda: xb.update(count, count + 1))
    >>> run(), run()
    ((), ())
    >>> int(backend.get_value(count))
    2
    """
    tracer = current("xb.update")
    if not isinstance(variable, SharedVariable):
        raise SharedVariableError(
            f"xb.update was given {variable!r:.80}, which is not a shared variable; make one with xb.shared"
        )
    if tracer.body:
        raise SharedVariableError(
            f"{variable!r} is updated inside of xb.{tracer.body}; return the new value from it, and update outside"
        )
    if tracer.pure:
        raise SharedVariableError(f"shared variable {variable.name!r} is updated inside of {tracer.pure}")
    target = tracer.shared(variable)
    if target.node in tracer.updates:
        raise SharedVariableError(f"{variable!r} is updated twice in one program; combine the expressions")
    if is_scalar(expression):
        expression = full(variable.shape, expression, dtype=variable.dtype)
    value = tracer.array(expression)
    if value.shape != variable.shape:
        raise ShapeError(f"{variable!r} cannot take a value of shape {value.shape}")
    if value.dtype != variable.dtype:
        raise DTypeError(f"{variable!r} cannot take a value of dtype {value.dtype}; convert it with xb.astype")
    tracer.updates[target.node] = value.node
