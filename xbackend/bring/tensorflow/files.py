"""TensorFlow's files: the folder of a SavedModel, a GraphDef, and a MetaGraphDef with its checkpoint.

Each is read as a graph of TensorFlow 1, with the values of its variables. TensorFlow's own loaders are not used: they
execute what the file says. Only operations with a row are executed, for TensorFlow's own results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from xbackend.bring.inputs import arrays_of
from xbackend.bring.kinds import KINDS
from xbackend.bring.origin import Origin
from xbackend.bring.tensorflow.calls import behind, called
from xbackend.bring.tensorflow.functions import Functions, effects
from xbackend.bring.tensorflow.given import fetched_by, graph_of, holds, of_graph
from xbackend.bring.tensorflow.refused import check_rows
from xbackend.bring.tensorflow.sessions import described, is_scalar, measured, placeholders, session
from xbackend.bring.tensorflow.walk import Key, is_handle, key, operations
from xbackend.errors import GraphError
from xbackend.wording import join

LARGEST, LARGEST_TEXT = 1 << 31, 1 << 26  # bytes of a file: protobuf reads no more, and text takes a second a megabyte
_SAVED = KINDS["tensorflow"].folders
_SERVE, _DEFAULT = "serve", "serving_default"
_INFOS = {"coo_sparse": "is sparse", "composite_tensor": "is ragged, or of several tensors"}


def brought(path: Path, given: Any, name: str, generator: np.random.Generator) -> Origin:
    """The program of a signature of a SavedModel, or of outputs of another file. Raises `GraphError`.

    ``name`` is the signature, or the outputs with commas between them. The inputs are the signature's, in the order of
    their names, or the placeholders. Several results are a dictionary for a signature, and a tuple for outputs.
    """
    definition, restore, checkpoint, signature = _read(path, name)
    graph, functions = graph_of(definition)
    values = _restored(graph, functions, restore, checkpoint) if restore else {}
    if signature is None:
        asked = name.split(",") if name else []
        fetched = [fetched_by(graph, one) for one in asked]
        if not fetched:
            raise GraphError(f"say what it computes, {path.name}:OUTPUT[,OUTPUT...]: {_ends(graph)}")
        fed = [("", one) for one in placeholders(graph, fetched)]
    else:
        asked = sorted(signature.outputs)
        fetched = [fetched_by(graph, _tensor_name(one, signature.outputs[one])) for one in asked]
        names = {one: _tensor_name(one, signature.inputs[one]) for one in sorted(signature.inputs)}
        fed = [(label, fetched_by(graph, one)) for label, one in names.items()]
        _check_signature(fed, asked)
    arrays = arrays_of([described(one, label) for label, one in fed], given, generator)

    def packed(found: list[Any]) -> Any:
        if len(asked) == 1:
            return found[0]
        return tuple(found) if signature is None else dict(zip(asked, found, strict=True))

    inputs = [(label, one, array) for (label, one), array in zip(fed, arrays, strict=True)]
    scalar, own = is_scalar(fetched), name if name.isidentifier() else path.stem
    options: Any = {"packed": packed, "variables": values, "name": own, "gradients": scalar}
    program = of_graph(graph, functions, fetched, inputs, **options)
    assigned = [graph.get_operation_by_name(one.name) for one in program.shared.values()]
    needed = [getattr(one, "op", one) for one in (*fetched, *(one for _, one in fed), *assigned)]
    check_rows(own, (), needed, {}, functions, executed=True)
    # TensorFlow has gradients of a call only in the process that traced the function.
    bodies = [definition.node, *(one.node_def for one in definition.library.function)]
    derived = scalar and not any("PartitionedCall" in one.op for body in bodies for one in body)
    with session(graph, own) as running:
        _assign(running, {one.name: one.value for one in program.shared.values()})
        fed_by_name = {one.name: array for _, one, array in inputs}
        return measured(running, program, fetched, fed_by_name, scalar=scalar, derived=derived)


def _check_signature(fed: Sequence[tuple[str, Any]], outputs: Sequence[str]) -> None:
    """Raises `GraphError` where a signature has no outputs, or an input that is no placeholder of its own."""
    if not outputs:
        raise GraphError("the signature has no outputs: save a function that returns arrays")
    labels: dict[str, str] = {}
    for label, one in fed:
        kind = getattr(one, "op", one).type
        if kind not in ("Placeholder", "PlaceholderWithDefault"):
            raise GraphError(f"the input {label} is the result of {kind}, and no placeholder: make it one")
        if one.name in labels:
            raise GraphError(f"the inputs {labels[one.name]} and {label} are one placeholder: save it as one input")
        labels[one.name] = label


def _read(path: Path, name: str) -> tuple[Any, str, Path, Any]:
    """The GraphDef, the name of the operation that restores variables (empty without one), their checkpoint, and the
    signature (`None` without a SavedModel). Raises `GraphError`."""
    import tensorflow as tf
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    if path.is_dir():
        files = [one for one in map(path.joinpath, _SAVED) if one.is_file()]
        if not files:
            raise GraphError(f"{path} is a folder without {' or '.join(_SAVED)}: name that of a SavedModel")
        meta = _meta_graph(_message(files[0], SavedModel))
        checkpoint, signature = path / "variables" / "variables", _signature(meta, name)
    elif path.name in _SAVED:
        raise GraphError(f"{path.name} is a part of a SavedModel: name the folder, {path.parent}:SIGNATURE")
    else:
        kinds = [tf.compat.v1.MetaGraphDef] if path.suffix == ".meta" else [tf.compat.v1.GraphDef]
        if path.suffix == ".pbtxt":
            kinds.append(tf.compat.v1.MetaGraphDef)
        meta = _message(path, *kinds)
        checkpoint, signature = path.with_suffix(""), None
    if not hasattr(meta, "graph_def"):
        return meta, "", checkpoint, None
    restore, index = meta.saver_def.restore_op_name, checkpoint.with_name(f"{checkpoint.name}.index")
    if restore and not index.is_file():
        raise GraphError(
            f"there is no {index}, which has the values of variables: copy it there, with {checkpoint.name}.data-*, or "
            "write the graph alone, tf.io.write_graph"
        )
    return meta.graph_def, restore, checkpoint, signature


def _message(path: Path, *kinds: Any) -> Any:
    """The protobuf message in a file, of the first kind that it parses as. Raises `GraphError`."""
    text = path.suffix == ".pbtxt"
    size, most = path.stat().st_size, LARGEST_TEXT if text else LARGEST
    if size > most:
        shorter = ": write it as .pb" if text else ""
        raise GraphError(f"{path.name} has {size} bytes, and {most} are read at most{shorter}")
    data, said = path.read_bytes(), ""
    for kind in kinds:
        message = kind()
        try:
            if text:
                import_module("google.protobuf.text_format").Parse(data.decode(), message)
            else:
                message.ParseFromString(data)
        except Exception as error:  # parsers have errors of their own
            said = said or f"{path.name} is no {kind.__name__}: {str(error).splitlines()[0]:.200}"
            continue
        return message
    raise GraphError(said)


def _meta_graph(model: Any) -> Any:
    """The graph with the tag for serving, or the only one. Raises `GraphError`."""
    tags = {" ".join(sorted(one.meta_info_def.tags)): one for one in model.meta_graphs}
    if _SERVE not in tags and len(tags) != 1:
        raise GraphError(
            f"the SavedModel has no graph with the tag {_SERVE}, but {join(sorted(tags)) or 'none'}: save one with it"
        )
    return tags[_SERVE] if _SERVE in tags else next(iter(tags.values()))


def _signature(meta: Any, name: str) -> Any:
    """The signature of that name; without a name the only one, else the default. Raises `GraphError`."""
    known = sorted(one for one in meta.signature_def if not one.startswith("__"))
    if not known:
        raise GraphError(
            "the SavedModel has no signature: save it with signatures=, a tf.function that has an input_signature"
        )
    name = name or (known[0] if len(known) == 1 else _DEFAULT)
    if name not in known:
        raise GraphError(f"the SavedModel has no signature {name}, but {join(known)}: name one, FOLDER:SIGNATURE")
    return meta.signature_def[name]


def _tensor_name(label: str, info: Any) -> str:
    """The name of the tensor behind a label of a signature. Raises `GraphError` for sparse and ragged ones."""
    kind = info.WhichOneof("encoding")
    if kind != "name":
        raise GraphError(f"{label} {_INFOS.get(kind, 'is no tensor')}: save a signature of dense tensors")
    return str(info.name)


def _restored(graph: Any, functions: Functions, restore: str, checkpoint: Path) -> dict[str, np.ndarray]:
    """The values in the checkpoint of the variables that the operation ``restore`` assigns, by the variables' names.
    Raises `GraphError`."""
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
        if not holds(graph.get_operation_by_name(name), value):
            raise GraphError(
                f"{checkpoint} has {value.dtype}{list(value.shape)} for the variable {name}: save both anew"
            )
    return values


def _keys(
    functions: Functions, outputs: Sequence[Any], controls: Sequence[Any], given: Mapping[Key, str]
) -> Iterator[tuple[str, str, bool]]:
    """The name of each restored variable, its key in the checkpoint, and whether its value is reshaped to it.

    ``given`` has the variables' names by the inputs of a function. Raises `GraphError`.
    """

    def variable(tensor: Any) -> str:
        one = behind(tensor)
        return given.get(key(one), one.op.name)

    for operation in operations(outputs, controls, {}):
        for inner, first in called(functions, operation):
            taken = zip(inner.inputs, operation.inputs[first:], strict=False)
            own = {key(one): variable(tensor) for one, tensor in taken}
            yield from _keys(functions, inner.outputs, effects(inner), own)
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
    """The strings of a constant. Raises `GraphError`."""
    if tensor.op.type != "Const":
        raise GraphError(f"{tensor.op.name} is no constant, and names what is read of a checkpoint")
    made = import_module("tensorflow").make_ndarray(tensor.op.get_attr("value"))
    return [one.decode(errors="replace") for one in made.ravel()]


def _ends(graph: Any) -> str:
    """For the error that asks for outputs: up to ten operations whose results nothing uses."""
    used = {one.op.name for operation in graph.get_operations() for one in operation.inputs}
    ends = [one.name for one in graph.get_operations() if one.outputs and one.name not in used]
    return f"nothing else uses {join(ends[:10])}" if ends else "it has no operation with a result"


def _assign(running: Any, values: Mapping[str, np.ndarray]) -> None:
    """Assign initial values to variables in a session."""
    import tensorflow as tf

    with running.graph.as_default():
        for name, value in values.items():
            variable, fed = running.graph.get_operation_by_name(name).outputs[0], tf.compat.v1.placeholder(value.dtype)
            if is_handle(variable):
                made = tf.raw_ops.AssignVariableOp(resource=variable, value=fed)
            else:
                made = tf.raw_ops.Assign(ref=variable, value=fed)
            running.run(made, {fed: value})
