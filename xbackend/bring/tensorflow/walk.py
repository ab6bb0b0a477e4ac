"""The walk through a graph of TensorFlow: the row of each operation adds ops to the program.

A value that depends on constants and shapes only is *known*: a NumPy array, computed while walking. Shapes, axes and
bounds of slices have to be known. Other values are arrays of the program, variables (`state`) and lists (`lists`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.scopes import device as scope
from xbackend.api.tracing.tracer import current
from xbackend.bring import dtypes
from xbackend.bring.lines import is_users
from xbackend.bring.tensorflow import folding
from xbackend.bring.tensorflow.functions import MOST, Functions, too_many
from xbackend.bring.tensorflow.state import Seen, Variable, merged, value_of
from xbackend.devices import canonical
from xbackend.errors import DeviceSpellingError, GraphError, XBackendError
from xbackend.program.dtypes import DType

_LOCAL = re.compile(r"^/job:localhost(/replica:\d+)?(/task:\d+)?", re.IGNORECASE)
Function = Callable[["TensorFlowWalk", Any, list[Any]], Any]
Key = tuple[str, int]  # a tensor in its graph: the name of its operation, and the number of the output


@dataclass(frozen=True, slots=True)
class OperationRow:
    """The row of a type of operations.

    Attributes:
        function: gets the walk, the operation and the values of its inputs; returns the value of its output, or a list.
        attributes: those that may have any value. Others are dtypes or lengths of lists, or have their default.
        variables: whether the function gets TensorFlow 1's references as `Variable`, not as values.
        folds: whether the operation is computed while walking if all its inputs are known.
    """

    function: Function
    attributes: frozenset[str]
    variables: bool = False
    folds: bool = True


ANYWHERE = ("Const", "NoOp", "Placeholder")  # whose device does not say where a loop or a choice is
ROWS: dict[str, OperationRow] = {}  # by the type of the operation


def row(*names: str, attributes: str = "", variables: bool = False, folds: bool = True) -> Callable[[Function], Any]:
    """Make a function the row of the operations of these types."""

    def put(function: Function) -> Function:
        made = OperationRow(function, frozenset(attributes.split()), variables, folds)
        ROWS.update(dict.fromkeys(names, made))
        return function

    return put


@dataclass(eq=False)
class SharedState:
    """The state that all walks of one program share.

    Attributes:
        function: finds the graph of a function, by the calling graph and the function's name.
        gradients: whether a gradient of the program may be asked for. Then custom gradients are refused.
        lines: the user's lines by the ids of operations, with the operations, so that no id is used again.
        left: the number of operations that may still be walked, a bound for functions that call others many times.
        assigned: the numbers of the inputs that a function assigns, by the id of its graph.
    """

    function: Functions
    gradients: bool = True
    lines: dict[int, tuple[Any, str]] = field(default_factory=dict)
    left: int = MOST
    assigned: dict[int, set[int]] = field(default_factory=dict)


@dataclass(eq=False)
class TensorFlowWalk:
    """A walk through one graph.

    Attributes:
        shared: the state that it shares with other walks.
        values: the values of the tensors, those of the inputs from the start.
        start: the assignments before the graph.
        within: the device of the loop or the choice whose body the graph is (`None` for the default device), as a
            tuple; `None` outside of bodies.
        limit: the most elements of a result that is computed while walking, unless its operands have more.
        seen: the assignments behind each walked operation, by its name.
    """

    shared: SharedState
    values: dict[Key, Any]
    start: Seen = field(default_factory=dict)
    within: tuple[str | None] | None = None
    limit: int = folding.FOLDED
    seen: dict[str, Seen] = field(default_factory=dict)

    def results(self, outputs: Sequence[Any], controls: Sequence[Any] = (), data_only: bool = False) -> list[Any]:
        """The values of ``outputs``. The operations ``controls`` are walked, too. Raises `GraphError`."""
        for operation in operations(outputs, controls, self.values, data_only):
            self._operation(operation)
        return [self.read(one, self.seen.get(one.op.name, self.start)) for one in outputs]

    def final(self) -> Seen:
        """The assignments at the end."""
        return merged([self.start, *self.seen.values()])

    def read(self, tensor: Any, seen: Seen) -> Any:
        """The value of a tensor whose operation was walked; for a reference of TensorFlow 1 that of the variable."""
        value = self.values[key(tensor)]
        return value_of(value, seen) if isinstance(value, Variable) and not is_handle(tensor) else value

    def _operation(self, operation: Any) -> None:
        self.shared.left -= 1
        if self.shared.left < 0:
            raise too_many()
        before = [self.seen.get(one.op.name, self.start) for one in operation.inputs]
        before += [self.seen.get(one.name, self.start) for one in operation.control_inputs]
        seen = self.seen[operation.name] = merged(before or [self.start])
        found = ROWS.get(operation.type) or ROWS["PartitionedCall"]  # its type may be the name of a function
        values = [self.values[key(one)] if found.variables else self.read(one, seen) for one in operation.inputs]
        line = self.line(operation)
        calling, current().source = current().source, line
        try:
            made: Any = folding.computed(operation, values, self.limit) if found.folds else None
            if made is None:
                self._check_gradient(operation, values)
                with self._scope(operation, found):
                    made = found.function(self, operation, values)
            each = made if isinstance(made, list | tuple) else [made]
            for one, tensor in zip(each, operation.outputs, strict=False):
                if isinstance(one, Array):
                    dtypes.check(one, lengths_of(tensor), tensor.dtype.base_dtype.name)
        except XBackendError as error:
            where = f" (at {line})" if line and line not in str(error) else ""
            raise GraphError(f"{operation.type} {operation.name}{where}: {error}") from error
        finally:
            current().source = calling  # the ops behind an inner walk are those of the call
        for i, one in enumerate(each):
            self.values.setdefault((operation.name, i), one)  # a result that is fed keeps its value

    def _check_gradient(self, operation: Any, values: Sequence[Any]) -> None:
        """Raises `GraphError` for an operation with a custom gradient, and for a call of a function with one. The
        attribute of other calls says a gradient that TensorFlow itself made."""
        if not self.shared.gradients:
            return
        is_call = operation.type in ("PartitionedCall", "StatefulPartitionedCall")
        named = operation.get_attr("f").name if is_call else operation.type
        if named in self.shared.function.derived:
            other_gradient(values, "the function has a gradient of its own (Defun with grad_func or python_grad_func)")
        if is_call:
            return
        try:
            operation.get_attr("_gradient_op_type")
        except ValueError:  # there is no such attribute
            return
        other_gradient(values, "it has a gradient of its own (tf.custom_gradient, gradient_override_map)")

    def _scope(self, operation: Any, found: OperationRow) -> Any:
        asked = spelled(operation.device)
        if self.within is None:
            return on(asked)
        if asked not in (None, self.within[0]) and not found.variables and operation.type not in ANYWHERE:
            raise GraphError(
                f"it is on {asked}, in a loop or a choice on {self.within[0] or 'the default device'}: a program has "
                "one on one device, so move arrays before or behind it"
            )
        return on(None)

    def line(self, operation: Any) -> str:
        lines = self.shared.lines
        if id(operation) not in lines:
            lines[id(operation)] = operation, line_of(operation)
        return lines[id(operation)][1]

    def inner(self, values: dict[Key, Any], start: Seen, within: tuple[str | None] | None = None) -> TensorFlowWalk:
        """A walk through the graph of a function that this one calls."""
        return TensorFlowWalk(self.shared, values, start, within or self.within, self.limit)


def other_gradient(values: Sequence[Any], why: str) -> None:
    """Raises `GraphError` where a program would have another gradient than TensorFlow: for floating-point arrays."""
    if any(isinstance(one, Array) and one.dtype.is_floating for one in values):
        raise GraphError(
            f"{why}, and a program has that of its ops: bring it with gradients=False where none is asked for, or take "
            "it out"
        )


def lengths_of(tensor: Any) -> list[int | None] | None:
    """The shape of a tensor, with `None` for an unknown length; `None` for an unknown rank."""
    return None if tensor.shape.rank is None else list(tensor.shape.as_list())


def key(tensor: Any) -> Key:
    return tensor.op.name, tensor.value_index


def is_handle(tensor: Any) -> bool:
    """Whether a tensor is the handle of a resource, or a variant; a reference of TensorFlow 1 is neither."""
    return bool(tensor.dtype.base_dtype.name in ("resource", "variant"))


def operations(
    outputs: Sequence[Any], controls: Sequence[Any], given: Mapping[Key, Any], data_only: bool = False
) -> list[Any]:
    """The operations of outputs, ``controls``, and their predecessors up to given tensors, in topological order.

    Control inputs are predecessors, too, unless ``data_only``.
    """
    found: list[Any] = []
    entered, left = set[str](), set[str]()
    stack = [*reversed([*(one.op for one in outputs if key(one) not in given), *controls])]
    while stack:
        operation = stack[-1]
        if operation.name in left or _is_given(operation, given):
            stack.pop()
        elif operation.name in entered:
            left.add(operation.name)
            found.append(stack.pop())
        else:
            entered.add(operation.name)
            if not data_only:
                stack += [one for one in reversed(operation.control_inputs) if one.name not in entered]
            needed = (one.op for one in reversed(operation.inputs) if key(one) not in given)
            stack += [one for one in needed if one.name not in left]
    return found


def _is_given(operation: Any, given: Mapping[Key, Any]) -> bool:
    """Whether all results of an operation are given."""
    return (operation.name, 0) in given and all((operation.name, i) in given for i in range(len(operation.outputs)))


def on(device: str | None) -> AbstractContextManager[Any]:
    """The scope of a device; no scope for `None`."""
    return scope(device) if device else nullcontext()


def spelled(text: str) -> str | None:
    """TensorFlow's name of a device as a program spells it, without the job localhost; `None` for no device. Raises
    `GraphError`."""
    rest = _LOCAL.sub("", text or "")
    if not rest:
        return None
    try:
        return canonical(rest)
    except DeviceSpellingError as error:
        raise GraphError(f"tf.device({text!r}) names no device of a program: {error}") from None


def line_of(operation: Any) -> str:
    """``file:line`` of the user's code that made an operation; empty where TensorFlow did not record it."""
    trace = operation.traceback
    frames = reversed(trace.get_user_frames()) if trace is not None else ()
    return next((f"{one.filename}:{one.lineno}" for one in frames if is_users(one.filename)), "")


def known(value: Any, what: str) -> np.ndarray:
    """The value if it is known. Raises `GraphError` else, which names it ``what``."""
    if not isinstance(value, np.ndarray):
        raise GraphError(f"{what} depends on the values of the inputs, and a program's shapes are fixed")
    return value


def whole(value: Any, what: str) -> int:
    """A known integer. Raises `GraphError`."""
    return int(known(value, what))


def lengths(value: Any, what: str) -> tuple[int, ...]:
    """Known integers, flattened. Raises `GraphError`."""
    return tuple(int(n) for n in np.ravel(known(value, what)))


def within(where: Any, length: int, what: str) -> Any:
    """The indices. Raises `GraphError` where known ones are not from 0 to the length, which TensorFlow refuses."""
    if isinstance(where, np.ndarray) and where.size and not 0 <= where.min() <= where.max() < length:
        raise GraphError(f"{what} go from {where.min()} to {where.max()}, and TensorFlow takes 0 to {length - 1}")
    return where


def array(value: Any) -> Array:
    """A value as an array of the program. Raises `GraphError` for variables and lists."""
    if not isinstance(value, np.ndarray | Array):
        raise GraphError(f"{type(value).__name__} stands where a program has an array")
    return value if isinstance(value, Array) else xb.asarray(value)


def held(dtype: Any) -> DType:
    """The program's dtype for one of TensorFlow. Raises `GraphError`."""
    name = dtype.base_dtype.name
    if name in dtypes.SMALL:
        raise dtypes.no_place(name)
    return dtypes.held(name)
