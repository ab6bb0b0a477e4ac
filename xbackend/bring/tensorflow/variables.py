"""Reads and assignments of variables: of the handles of `tf.Variable`, and of the references of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.bring.tensorflow.indexing import gathered, places, put_at
from xbackend.bring.tensorflow.state import Variable, value_of, written
from xbackend.bring.tensorflow.walk import TensorFlowWalk, array, held, is_handle, row, within
from xbackend.errors import GraphError

_NAMES = "container shared_name shape dtype debug_name allowed_devices"
# The new value, from the old one and the operands.
_ASSIGNED: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("AssignVariableOp", "Assign"), lambda old, new: new),
    **dict.fromkeys(("AssignAddVariableOp", "AssignAdd"), xb.add),
    **dict.fromkeys(("AssignSubVariableOp", "AssignSub"), xb.subtract),
    **dict.fromkeys(
        ("ResourceApplyGradientDescent", "ApplyGradientDescent"),
        lambda old, rate, gradient: xb.subtract(old, xb.multiply(rate, gradient)),
    ),
}
_SCATTERED = {
    f"{kind}{how}": how
    for kind in ("ResourceScatter", "Scatter", "ResourceScatterNd")
    for how in ("Update", "Add", "Sub")
}
WRITES = dict.fromkeys((*_ASSIGNED, *_SCATTERED), 1)  # the number of variables, the first inputs, that each writes


@row("VarHandleOp", "VariableV2", "Variable", "TemporaryVariable", attributes=_NAMES, variables=True)
def variable(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    raise GraphError("it is a variable that is made in the graph: give the graph to from_graph_def")


def of(value: Any) -> Variable:
    """The variable that a handle or a reference stands for. Raises `GraphError`."""
    if not isinstance(value, Variable):
        raise GraphError("it is assigned to what is no variable")
    return value


def seen_by(walk: TensorFlowWalk, operation: Any, value: Any) -> Any:
    """The value of a variable that an operation reads."""
    return array(value_of(of(value), walk.seen[operation.name]))


def put(walk: TensorFlowWalk, operation: Any, value: Any, new: Any) -> Any:
    """Assign. The result is the operation's: none for a handle, the variable for a reference."""
    target = of(value)
    walk.seen[operation.name] = written(walk.seen[operation.name], target, array(new))
    return [] if is_handle(operation.inputs[0]) else target


@row("ReadVariableOp", variables=True)
def read(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return seen_by(walk, operation, values[0])


@row("VariableShape", variables=True)
def shape(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return np.asarray(seen_by(walk, operation, values[0]).shape, held(operation.get_attr("out_type")).value)


@row("VarIsInitializedOp", "IsVariableInitialized", variables=True)
def initialized(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return np.asarray(True)


def read_all(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> list[Any]:
    """The operands as arrays; of a variable the value that the operation reads."""
    seen = walk.seen[operation.name]
    return [array(value_of(v, seen) if isinstance(v, Variable) else v) for v in values]


@row(*_ASSIGNED, attributes="validate_shape use_locking", variables=True)
def assign(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    kind = operation.type
    old = None if kind in ("AssignVariableOp", "Assign") else seen_by(walk, operation, values[0])
    return put(walk, operation, values[0], _ASSIGNED[kind](old, *read_all(walk, operation, values[1:])))


@row(*_SCATTERED, attributes="use_locking", variables=True)
def scatter(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    where, new = values[1], read_all(walk, operation, values[2:3])[0]
    old = seen_by(walk, operation, values[0])
    one = () if "Nd" in operation.type else within(where, old.shape[0], "the indices of a scatter")
    place = xb.at(old)[places(where, old.shape) if "Nd" in operation.type else one]
    return put(walk, operation, values[0], put_at(place, _SCATTERED[operation.type], new))


@row("ResourceGather", attributes="batch_dims validate_indices", variables=True)
def resource_gather(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    batch = operation.get_attr("batch_dims")
    return gathered(seen_by(walk, operation, values[0]), values[1], batch, batch)


@row("ResourceGatherNd", variables=True)
def resource_gather_nd(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x = seen_by(walk, operation, values[0])
    return x[places(values[1], x.shape)]
