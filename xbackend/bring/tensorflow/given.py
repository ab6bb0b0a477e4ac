"""`from_tensorflow` and `from_graph_def`: programs of functions, and of graphs of TensorFlow 1."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from xbackend.api.tracing.trace import ArraySpec
from xbackend.api.tracing.traced_program import TracedProgram
from xbackend.bring.tensorflow import rows  # noqa: F401  # fills ROWS
from xbackend.bring.tensorflow.functions import Functions, check_calls
from xbackend.bring.tensorflow.refused import check_rows
from xbackend.bring.tensorflow.state import Variable, put_updates
from xbackend.bring.tensorflow.walk import Key, SharedState, TensorFlowWalk, array, held, key, spelled
from xbackend.bring.tracing import program_of
from xbackend.errors import GraphError
from xbackend.extras import need_framework
from xbackend.program.dtypes import DType
from xbackend.wording import join

Spec = tuple[str, tuple[int, ...], DType]
_LARGEST = 1 << 28  # elements of a variable's initial value


def from_tensorflow(function: Any, *examples: Any, name: str | None = None, gradients: bool = True) -> TracedProgram:
    """The program of a function of TensorFlow.

    Args:
        function: a `tf.function`, a ConcreteFunction (a signature of a SavedModel is one), or what `tf.function` takes.
        examples: the arguments, alone or nested. An array, a tensor, an `xbackend.ArraySpec` or a `tf.TensorSpec` gives
            shape and dtype; other arguments are passed as they are. A ConcreteFunction of fixed shapes needs none.
        name: the program's name; the function's own if it is left out.
        gradients: whether a gradient of the program may be asked for. Then an operation with a gradient of its own
            (`tf.custom_gradient`) is refused, and `tf.stop_gradient` has the gradient 0; else both are ignored.

    Variables are shared variables of the program, with their present values; assignments are its updates. Raises
    `GraphError`, which lists all operations without a row, or says which shape depends on values.

    >>> import tensorflow as tf
    >>> program = xb.from_tensorflow(lambda x: tf.reduce_sum(x * x), np.ones(3))
    >>> [node.op for node in program.nodes]
    ['input', 'multiply', 'sum']
    """
    need_framework("xb.from_tensorflow", "tensorflow")
    concrete = _concrete(function, examples)
    graph, count = concrete.graph, len(concrete.inputs) - len(concrete.captured_inputs)
    own, captured = concrete.inputs[:count], concrete.inputs[count:]
    called = name or _name(function, concrete)
    fed = list(zip(own, _specs(own, examples), strict=True))
    kept = _kept(concrete)
    values = {key(t): _captured(t, v, kept) for t, v in zip(captured, concrete.captured_inputs, strict=True)}

    def packed(found: list[Any]) -> Any:
        return _packed(concrete.structured_outputs, iter(found))

    shared, results = SharedState(Functions(), gradients), (graph.outputs, graph.control_outputs)
    return _program(called, shared, values, fed, results, packed=packed)


def _program(
    name: str,
    shared: SharedState,
    values: Mapping[Key, Any],
    fed: Sequence[tuple[Any, Spec]],
    results: tuple[Sequence[Any], Sequence[Any]],
    *,
    packed: Callable[[list[Any]], Any],
) -> TracedProgram:
    """The program of the ``results`` (tensors, and operations), whose inputs are ``fed``. Raises `GraphError`."""
    check_rows(name, *results, {**values, **{key(tensor): None for tensor, _ in fed}}, shared.function)

    def walk(*traced: Any) -> Any:
        inside = TensorFlowWalk(shared, {**values, **{key(t): x for (t, _), x in zip(fed, traced, strict=True)}})
        found = [array(one) for one in inside.results(*results)]
        put_updates(inside.final())
        return packed(found) if found else None

    return program_of(name, [spec for _, spec in fed], walk)


def _concrete(function: Any, examples: Sequence[Any]) -> Any:
    """The ConcreteFunction. Raises `GraphError`."""
    tensorflow = import_module("tensorflow")
    if hasattr(function, "captured_inputs") and hasattr(function, "graph"):
        return function
    if not callable(function):
        raise GraphError(f"{function!r:.60} is no function of TensorFlow; of a GraphDef use from_graph_def")
    traced = function if hasattr(function, "get_concrete_function") else tensorflow.function(function)
    specs = tensorflow.nest.map_structure(_tensor_spec, examples)
    try:
        return traced.get_concrete_function(*specs)
    except TypeError as error:
        if "Binding inputs" not in str(error):  # raised by the user's code
            raise
        raise GraphError(f"the examples are no arguments of the function: {str(error).splitlines()[0]:.200}") from None


def _is_array(value: Any) -> bool:
    is_theirs = type(value).__name__ in ("EagerTensor", "TensorSpec")
    return is_theirs or isinstance(value, ArraySpec | np.ndarray | np.generic)


def _tensor_spec(value: Any) -> Any:
    tensorflow = import_module("tensorflow")
    if not _is_array(value) or type(value).__name__ == "TensorSpec":
        return value
    return tensorflow.TensorSpec(tuple(value.shape), str(getattr(value.dtype, "name", value.dtype)).lower())


def _name(function: Any, concrete: Any) -> str:
    """The name of the function, or of the class whose object is called."""
    found = getattr(function, "__name__", "") or (type(function).__name__ if function is not concrete else "")
    if not found:
        found = re.sub(r"^__inference_|_\d+$", "", concrete.name.decode())
    return str(found) if str(found).isidentifier() else "function"


def _specs(inputs: Sequence[Any], examples: Sequence[Any]) -> list[Spec]:
    """Name, shape and dtype of each input. Raises `GraphError`."""
    leaves = [one for one in import_module("tensorflow").nest.flatten(examples) if _is_array(one)]
    if leaves and len(leaves) != len(inputs):
        raise GraphError(f"the function has {len(inputs)} arrays as arguments, and {len(leaves)} are given")
    return [_spec(one, leaves[i] if leaves else None) for i, one in enumerate(inputs)]


def _spec(tensor: Any, example: Any, label: str = "") -> Spec:
    label, dtype = label or tensor.op.name, held(tensor.dtype)
    if example is None:
        if not tensor.shape.is_fully_defined():
            raise GraphError(
                f"the input {label!r} has the shape {tensor.shape}, which is not fixed: give an array, or xb.ArraySpec"
            )
        return label, tuple(tensor.shape.as_list()), dtype
    if not isinstance(example, ArraySpec) and not hasattr(example, "dtype"):
        example = np.asarray(example, dtype.value)
    shape = tuple(int(n) for n in example.shape)
    own = str(getattr(example.dtype, "name", example.dtype)).lower()
    if not tensor.shape.is_compatible_with(shape):
        raise GraphError(f"the input {label!r} has the shape {tensor.shape}, was given {shape}")
    if own != dtype.value:
        raise GraphError(f"the input {label!r} has the dtype {dtype.value}, was given {own}")
    return label, shape, dtype


def _kept(concrete: Any) -> Sequence[Any]:
    """The variables of a function. Raises `GraphError` where one is deleted."""
    try:
        return tuple(concrete.variables)
    except AssertionError:
        raise GraphError(
            "variables of the function are deleted: keep what it was made of, such as the model that was loaded"
        ) from None


def _captured(tensor: Any, value: Any, variables: Sequence[Any]) -> Any:
    """The value of a captured tensor: a variable, or a constant. Raises `GraphError`."""
    for one in variables:
        if one.handle is value:
            own = one.name.partition(":")[0]
            return Variable(own, one.numpy, _chosen_device(one.device))
    if tensor.dtype.name in ("resource", "variant"):
        raise GraphError(
            f"{tensor.op.name} is a resource of TensorFlow that is no variable, such as a table or an iterator: give "
            "what is read from it as an input"
        )
    if not hasattr(value, "numpy"):
        raise GraphError(f"the function uses {tensor.op.name} of another function's graph: give it as an argument")
    return np.asarray(value.numpy())


def _chosen_device(text: str) -> str | None:
    """The device of a variable; `None` for TensorFlow's default device."""
    listed = import_module("tensorflow").config.list_logical_devices()
    default = next((one.name for one in listed if one.device_type == "GPU"), "/device:CPU:0")
    found = spelled(text)
    return None if found == spelled(default) else found


def _packed(form: Any, values: Iterator[Any]) -> Any:
    """The results in the function's own tuples, lists and dictionaries. Raises `GraphError` for other types."""
    if isinstance(form, Mapping):
        order = {name: _packed(form[name], values) for name in sorted(form)}  # in the order of tf.nest
        return {name: order[name] for name in form}
    if isinstance(form, tuple):
        return tuple(_packed(one, values) for one in form)
    if isinstance(form, list):
        return [_packed(one, values) for one in form]
    if type(form).__name__ not in ("Tensor", "SymbolicTensor", "TensorSpec", "EagerTensor"):
        raise GraphError(f"the function returns {type(form).__name__} in the place of an array")
    return next(values)


def from_graph_def(
    graph_def: Any,
    outputs: str | Sequence[str],
    inputs: Mapping[str, Any] | None = None,
    *,
    variables: Mapping[str, Any] | None = None,
    name: str = "graph",
    gradients: bool = True,
) -> TracedProgram:
    """The program of a graph of TensorFlow 1.

    Args:
        graph_def: a GraphDef, its bytes, or a `tf.Graph`, which knows its user's lines.
        outputs: names of tensors (``loss``, ``loss:0``), and of operations without a result (``train``, or ``^train``
            to leave the result out), whose assignments are updates. One name gives one array.
        inputs: arrays or `xbackend.ArraySpec` by the names of the tensors that a session would feed.
        variables: initial values, of the variables' dtypes, where initializers do not give them (random ones).
        name: the program's name.
        gradients: as for `from_tensorflow`.

    Raises `GraphError`.

    >>> import tensorflow as tf
    >>> with tf.Graph().as_default() as graph:
    ...     x = tf.compat.v1.placeholder(tf.float64, (3,), name="x")
    ...     loss = tf.reduce_sum(x * x, name="loss")
    >>> program = xb.from_graph_def(graph, "loss", {"x": np.ones(3)})
    >>> [node.op for node in program.nodes]
    ['input', 'multiply', 'sum']
    """
    need_framework("xb.from_graph_def", "tensorflow")
    graph, functions = graph_of(graph_def)
    fetched = [fetched_by(graph, one) for one in ([outputs] if isinstance(outputs, str) else outputs)]
    fed = [("", _tensor(graph, one), example) for one, example in (inputs or {}).items()]
    packed = (lambda found: found[0]) if isinstance(outputs, str) else tuple
    options: Any = {"packed": packed, "variables": variables or {}, "name": name, "gradients": gradients}
    return of_graph(graph, functions, fetched, fed, **options)


def of_graph(
    graph: Any,
    functions: Functions,
    fetched: Sequence[Any],
    fed: Sequence[tuple[str, Any, Any]],
    *,
    packed: Callable[[list[Any]], Any],
    variables: Mapping[str, Any],
    name: str,
    gradients: bool,
) -> TracedProgram:
    """`from_graph_def` of tensors and operations. ``fed`` has for each input a name (empty for the tensor's own), the
    tensor and an example; ``packed`` makes the structure of the results of their list."""
    shared = SharedState(functions, gradients)
    given = [(tensor, _spec(tensor, example, label)) for label, tensor, example in fed]
    values = _variables(graph, shared, dict(variables))
    return _program(name, shared, values, given, parted(fetched), packed=packed)


def parted(fetched: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The tensors among fetches, and the operations."""
    tensors = [one for one in fetched if hasattr(one, "value_index")]
    return tensors, [one for one in fetched if not hasattr(one, "value_index")]


def graph_of(given: Any) -> tuple[Any, Functions]:
    """The graph, and the functions of its library. Nothing is executed. Raises `GraphError`."""
    tensorflow = import_module("tensorflow")
    if isinstance(given, tensorflow.Graph):
        return given, Functions(given, given.as_graph_def().library)
    definition = given
    if isinstance(given, bytes):
        definition = tensorflow.compat.v1.GraphDef()
        try:
            definition.ParseFromString(given)
        except Exception as error:  # parsers have errors of their own
            raise GraphError(f"the bytes are no GraphDef: {error}") from None
    if type(definition).__name__ != "GraphDef":
        raise GraphError(f"{given!r:.60} is no GraphDef; of a function use from_tensorflow")
    wanted, own = definition.versions.min_consumer, tensorflow.version.GRAPH_DEF_VERSION
    if wanted > own:
        raise GraphError(
            f"the GraphDef is for TensorFlow from graph version {wanted} on, and TensorFlow {tensorflow.__version__} "
            f"has {own}: bring it by an interpreter with a later one, --from tensorflow=PATH"
        )
    check_calls(definition.library.function)
    graph = tensorflow.Graph()
    try:
        with graph.as_default():
            tensorflow.import_graph_def(definition, name="")
    except (ValueError, tensorflow.errors.OpError) as error:
        raise GraphError(f"TensorFlow does not take the GraphDef: {str(error).splitlines()[0]:.200}") from None
    return graph, Functions(graph, definition.library)


def _tensor(graph: Any, name: str) -> Any:
    found = fetched_by(graph, name)
    if not hasattr(found, "value_index"):
        raise GraphError(f"{name!r} is an operation without a result, and no input")
    return found


def fetched_by(graph: Any, name: str) -> Any:
    """The tensor of a name; the operation if it has no result, or the name begins with ``^``. Raises `GraphError`."""
    try:
        if ":" in name:
            return graph.get_tensor_by_name(name)
        operation = graph.get_operation_by_name(name.removeprefix("^"))
    except (KeyError, ValueError):
        close = [one.name for one in graph.get_operations() if name.partition(":")[0] in one.name][:5]
        known = f"; it has {', '.join(close)}" if close else ""
        raise GraphError(f"the graph has no {name!r}{known}") from None
    if name.startswith("^"):
        return operation
    if len(operation.outputs) > 1:
        raise GraphError(f"{name!r} has {len(operation.outputs)} results: write {name}:0 for the first")
    return operation.outputs[0] if operation.outputs else operation


def _variables(graph: Any, shared: SharedState, first: dict[str, Any]) -> dict[Key, Variable]:
    """The variables of a graph. Initial values are those given, or the initializers'. Raises `GraphError`."""
    found: dict[Key, Variable] = {}
    named: dict[tuple[Any, ...], list[Any]] = {}  # operations of one name in a container are one variable
    for operation in graph.get_operations():
        if operation.type in ("VariableV2", "Variable", "VarHandleOp"):
            container, own = (operation.get_attr(one).decode() for one in ("container", "shared_name"))
            named.setdefault((operation.type == "VarHandleOp", container, own or operation.name), []).append(operation)
    for each in named.values():
        given = [_given(one, first.pop(one.name)) for one in each if one.name in first]
        if any(one.tobytes() != given[0].tobytes() for one in given):
            raise GraphError(f"{join([one.name for one in each])} are one variable, and were given several values")
        initial = (lambda value=given[0]: value) if given else partial(_initial, graph, shared, each[0], found)
        one = Variable(each[0].name, initial, spelled(each[0].device))
        found.update({(operation.name, 0): one for operation in each})
    if first:
        raise GraphError(f"the graph has no variable {', '.join(map(repr, first))}")
    return found


def _given(operation: Any, value: Any) -> np.ndarray:
    """The value given for a variable. Raises `GraphError` where it has another dtype or shape."""
    dtype = operation.get_attr("dtype").as_numpy_dtype
    made = np.asarray(value, None if hasattr(value, "dtype") else dtype)
    if not holds(operation, made):
        shape = import_module("tensorflow").TensorShape(operation.get_attr("shape"))
        raise GraphError(
            f"the variable {operation.name!r} is {np.dtype(dtype)}{shape}, was given {made.dtype}{made.shape}"
        )
    return made


def holds(operation: Any, array: np.ndarray) -> bool:
    """Whether a variable has the dtype and the shape of an array."""
    shape = import_module("tensorflow").TensorShape(operation.get_attr("shape"))
    return bool(operation.get_attr("dtype") == array.dtype and shape.is_compatible_with(array.shape))


def _initial(graph: Any, shared: SharedState, operation: Any, found: Mapping[Key, Variable]) -> np.ndarray:
    own = operation.name
    refused = f"the first value of the variable {own!r} is not known: give variables={{{own!r}: array}}"
    try:
        assign = graph.get_operation_by_name(f"{own}/Assign")
    except KeyError:
        raise GraphError(refused) from None
    if assign.type not in ("Assign", "AssignVariableOp") or assign.inputs[0].op is not operation:
        raise GraphError(refused)
    try:
        check_rows(f"the first value of {own!r}", [assign.inputs[1]], (), found, shared.function)
        made = TensorFlowWalk(shared, dict(found), limit=_LARGEST).results([assign.inputs[1]])[0]
    except GraphError as error:
        raise GraphError(f"{refused} ({error})") from None
    if not isinstance(made, np.ndarray):
        raise GraphError(refused)
    return made
