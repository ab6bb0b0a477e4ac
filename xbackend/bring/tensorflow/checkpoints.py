"""Values of variables in a checkpoint, by what a graph's own restoring assigns. It is read, and not executed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from xbackend.bring.tensorflow.calls import behind, called
from xbackend.bring.tensorflow.functions import Functions
from xbackend.bring.tensorflow.walk import Key, key, operations
from xbackend.errors import GraphError


def restored(graph: Any, functions: Functions, restore: str, checkpoint: Path) -> dict[str, np.ndarray]:
    """The values of the variables that the operation named ``restore`` assigns, by name. Raises `GraphError`."""
    tensorflow, values = import_module("tensorflow"), dict[str, np.ndarray]()
    try:
        operation = graph.get_operation_by_name(restore.partition(":")[0])
        reader = tensorflow.train.load_checkpoint(str(checkpoint))
        for name, own, reshaped in _keys(functions, (), [operation], {}):
            values[name] = np.asarray(reader.get_tensor(own))
            shape = tensorflow.TensorShape(graph.get_operation_by_name(name).get_attr("shape"))
            if reshaped and shape.num_elements() == values[name].size:
                values[name] = values[name].reshape(shape.as_list())
    except (LookupError, ValueError, RuntimeError, tensorflow.errors.OpError) as error:
        raise GraphError(f"variables are not read from {checkpoint}: {str(error).splitlines()[0]:.200}") from None
    for name, value in values.items():
        variable = graph.get_operation_by_name(name)
        shape = tensorflow.TensorShape(variable.get_attr("shape"))
        if variable.get_attr("dtype") != value.dtype or not shape.is_compatible_with(value.shape):
            raise GraphError(
                f"{checkpoint} has {value.dtype}{list(value.shape)} for the variable {name}: save both anew"
            )
    return values


def _keys(
    functions: Functions, outputs: Sequence[Any], controls: Sequence[Any], given: Mapping[Key, str]
) -> Iterator[tuple[str, str, bool]]:
    """Each variable that is assigned from a checkpoint, with the name of its value there, and whether that gets the
    variable's shape. ``given`` are the variables that inputs of a function are. Raises `GraphError`."""

    def variable(tensor: Any) -> str:
        one = behind(tensor)
        return given.get(key(one), one.op.name)

    for operation in operations(outputs, controls, {}):
        for inner, first in called(functions, operation):
            taken = zip(inner.inputs, operation.inputs[first:], strict=False)
            own = {key(one): variable(tensor) for one, tensor in taken}
            yield from _keys(functions, inner.outputs, inner.control_outputs, own)
        if operation.type in ("Assign", "AssignVariableOp"):
            assigned, read = variable(operation.inputs[0]), behind(operation.inputs[1])
            reshaped = read.op.type == "Reshape"  # of Saver(reshape=True)
            if reshaped:
                read = behind(read.op.inputs[0])
            if read.op.type != "RestoreV2":
                raise GraphError(
                    f"the variable {assigned} is restored by {read.op.type}, and only RestoreV2 is read: save it anew, "
                    "with tf.train.Saver or tf.saved_model.save"
                )
            names, slices = (_text(read.op.inputs[number])[read.value_index] for number in (1, 2))
            if slices:
                raise GraphError(f"the variable {names} is stored in parts: store it as one")
            yield assigned, names, reshaped


def _text(tensor: Any) -> list[str]:
    """The text of a constant. Raises `GraphError`."""
    if tensor.op.type != "Const":
        raise GraphError(f"{tensor.op.name} is no constant, and names what is read of a checkpoint")
    made = import_module("tensorflow").make_ndarray(tensor.op.get_attr("value"))
    return [one.decode(errors="replace") for one in made.ravel()]
