"""Variables, and which of their values an operation sees.

An operation sees the last assignment among those that it depends on, by its inputs or by its control inputs. A
`tf.function` orders them all; of TensorFlow 1 two that no dependency orders are refused.
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
    """A variable of TensorFlow. ``initial`` gives its first value, when the program needs it."""

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
    """An assignment: the new value, and the assignment that it saw itself."""

    value: Any
    before: Write | None

    def earlier(self) -> Iterator[Write]:
        one: Write | None = self
        while one is not None:
            yield one
            one = one.before


Seen = Mapping[Variable, Write]


def merged(each: Sequence[Seen]) -> Seen:
    """What an operation sees that depends on others which see these. Raises `GraphError`."""
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
    """What is seen behind an assignment."""
    return {**seen, variable: Write(value, seen.get(variable))}


def value_of(variable: Variable, seen: Seen) -> Any:
    """The value of a variable for an operation that sees these assignments."""
    return seen[variable].value if variable in seen else current().shared(variable.shared())


def put_updates(seen: Seen) -> None:
    """Make the last value of each variable that was assigned its update."""
    for variable, write in seen.items():
        update(variable.shared(), write.value)
