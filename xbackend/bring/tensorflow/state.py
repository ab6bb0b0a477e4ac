"""Variables, and the value of each that an operation reads.

An operation sees the assignments among its predecessors, by inputs and control inputs, and reads the last one. A
`tf.function` orders all assignments. In TensorFlow 1 two of one variable may be unordered; they are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xbackend.api.tracing.state import shared, update
from xbackend.api.tracing.tracer import current
from xbackend.errors import GraphError
from xbackend.program.shared import SharedVariable


@dataclass(eq=False)
class Variable:
    """A variable of TensorFlow. ``initial`` computes its initial value when the program needs it."""

    name: str
    initial: Callable[[], np.ndarray]
    device: str | None = None
    storage: SharedVariable | None = None

    def shared(self) -> SharedVariable:
        """The program's shared variable. Raises `GraphError`."""
        if self.storage is None:
            self.storage = shared(self.initial(), self.name, self.device)
        return self.storage


@dataclass(eq=False)
class Write:
    """An assignment: the new value, and the previous assignment."""

    value: Any
    before: Write | None

    def earlier(self) -> Iterator[Write]:
        one: Write | None = self
        while one is not None:
            yield one
            one = one.before


Seen = Mapping[Variable, Write]


def merged(each: Sequence[Seen]) -> Seen:
    """The assignments that an operation sees, of those that its predecessors see. Raises `GraphError`."""
    first, *others = {id(one): one for one in each if one}.values() or [{}]
    if not others:
        return first
    result = dict(first)
    for other in others:
        for variable, write in other.items():
            result[variable] = _later(variable, result.get(variable), write)
    return result


def _later(variable: Variable, one: Write | None, other: Write) -> Write:
    if one is None or any(one is w for w in other.earlier()):
        return other
    if any(other is w for w in one.earlier()):
        return one
    raise GraphError(
        f"the variable {variable.name} is assigned twice, and nothing says which is first: put one behind the other "
        "with tf.control_dependencies"
    )


def written(seen: Seen, variable: Variable, value: Any) -> Seen:
    """The assignments seen after one more."""
    return {**seen, variable: Write(value, seen.get(variable))}


def value_of(variable: Variable, seen: Seen) -> Any:
    """The value of a variable: of the last assignment seen, else of the shared variable."""
    return seen[variable].value if variable in seen else current().shared(variable.shared())


def put_updates(seen: Seen) -> None:
    """The update of each assigned variable is its last value."""
    for variable, write in seen.items():
        update(variable.shared(), write.value)
