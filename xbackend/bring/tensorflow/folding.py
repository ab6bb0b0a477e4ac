"""Constant folding: an operation on known values is executed while walking, by TensorFlow, on the CPU.

Only operations whose row folds are executed: they have no side effect. Results of more than `FOLDED` elements, and of
more than their operands have, are left to the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from math import prod
from typing import Any

import numpy as np

from xbackend.errors import GraphError

FOLDED = 1 << 16
# No shape depends on products. In a script of constants only they are the work to be measured.
_LEFT = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")

# For integers and bools, as of counters and shapes, NumPy gives TensorFlow's numbers in a tenth of the time.
_NUMPY: dict[str, Callable[..., Any]] = {
    **{"AddV2": np.add, "Add": np.add, "Sub": np.subtract, "Mul": np.multiply},
    **{"Less": np.less, "LessEqual": np.less_equal, "Greater": np.greater, "GreaterEqual": np.greater_equal},
    **{"LogicalAnd": np.logical_and, "Maximum": np.maximum, "Minimum": np.minimum},
}


def computed(operation: Any, values: Sequence[Any], limit: int = FOLDED) -> list[Any] | None:
    """The values of an operation's outputs; `None` unless all inputs are known and the outputs small enough. Raises
    `GraphError`."""
    if not values or not all(isinstance(one, np.ndarray) for one in values) or not operation.outputs:
        return None
    kind = operation.type
    if kind in _LEFT and limit == FOLDED:
        return None
    if kind in _NUMPY and all(one.dtype.kind in "ib" for one in values) and values[0].dtype == values[-1].dtype:
        try:
            size = prod(np.broadcast_shapes(*(one.shape for one in values)))
        except ValueError as error:
            raise GraphError(str(error)) from None
        return [np.asarray(_NUMPY[kind](*values))] if size <= limit else None
    if kind == "Identity":
        return [values[0]]
    if _size(operation, values) > max(limit, sum(one.size for one in values)):
        return None
    return _executed(operation, values)


def _size(operation: Any, values: Sequence[np.ndarray]) -> int:
    """The number of elements of all results; an estimate where TensorFlow does not know the shapes of the values."""
    shapes = [one.shape for one in operation.outputs]
    if not all(shape.is_fully_defined() for shape in shapes):
        shapes = _inferred(operation, values)
    if all(shape.is_fully_defined() for shape in shapes):
        return sum(int(shape.num_elements()) for shape in shapes)
    if operation.type in ("SegmentSum", "SparseSegmentSum"):  # the last segment says how many there are
        return (int(values[-1].max(initial=-1)) + 1) * prod(values[0].shape[1:])
    return prod(max(one.size, 1) for one in values)


def _inferred(operation: Any, values: Sequence[np.ndarray]) -> list[Any]:
    """The shapes of the results, which TensorFlow infers of these values. Raises `GraphError`."""
    tensorflow = import_module("tensorflow")
    attributes = {name: one for name, one in operation.node_def.attr.items() if not name.startswith("_")}
    with tensorflow.Graph().as_default() as graph:
        inputs = []
        for one, tensor in zip(values, operation.inputs, strict=True):
            # No shape depends on the numbers of large arrays.
            make = tensorflow.constant if one.size <= FOLDED else _shaped
            inputs.append(make(one, tensor.dtype.base_dtype))
        try:
            made = graph.create_op(
                operation.type, inputs, [one.dtype.base_dtype for one in operation.outputs], attrs=attributes
            )
        except (tensorflow.errors.OpError, ValueError) as error:
            raise GraphError(f"TensorFlow refuses it: {str(error).splitlines()[0]:.200}") from None
    return [one.shape for one in made.outputs]


def _shaped(value: np.ndarray, dtype: Any) -> Any:
    return import_module("tensorflow").compat.v1.placeholder(dtype, value.shape)


def _executed(operation: Any, values: Sequence[np.ndarray]) -> list[Any]:
    """The results of one operation, executed eagerly, in TensorFlow 1's mode, too. Raises `GraphError`."""
    tensorflow = import_module("tensorflow")
    context = import_module("tensorflow.python.eager.context")
    execute = import_module("tensorflow.python.eager.execute")
    attributes = [part for one in operation.op_def.attr for part in (one.name, _plain(operation.get_attr(one.name)))]
    with context.eager_mode(), tensorflow.device("/cpu:0"):
        pairs = zip(values, operation.inputs, strict=True)
        inputs = [tensorflow.constant(one, tensor.dtype.base_dtype) for one, tensor in pairs]
        count, own = len(operation.outputs), context.context()
        try:
            made = execute.execute(operation.type, count, inputs=inputs, attrs=tuple(attributes), ctx=own)
        except (tensorflow.errors.OpError, ValueError) as error:
            raise GraphError(f"TensorFlow refuses it: {str(error).splitlines()[0]:.200}") from None
        return [np.asarray(one.numpy()) for one in made]


def _plain(value: Any) -> Any:
    """An attribute as eager execution takes it: a dtype is a number."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return getattr(value, "as_datatype_enum", value)
