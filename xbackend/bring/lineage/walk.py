"""The walk through a graph of the lineage: for each node, the row of its op writes ops of the program.

Values that depend only on constants and shapes are computed by the framework's own ops during the walk: they are NumPy
arrays, and called known. Shapes, axes and bounds of slices have to be known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import prod
from typing import Any

import numpy as np

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.tracer import current
from xbackend.bring import dtypes
from xbackend.bring.lineage.endings import ONLY_LAST, without_length
from xbackend.bring.lines import is_users
from xbackend.bring.missing import Missing
from xbackend.errors import GraphError, XBackendError

LineageRow = Callable[["LineageWalk", Any, list[Any]], Any]
ROWS: dict[str, LineageRow] = {}  # by the name of the op's class
PROPS: dict[str, frozenset[str]] = {}  # by the same name: the props that do not matter, or that the row reads
SCALARS: set[str] = set()  # the elementwise ops that have a row
# Props without effect on results (memory, checks, algorithms), and those that types of variables or the walk cover.
_OF_ANY_OP = frozenset(
    (
        *("inplace", "inplace_pattern", "overwrite_a", "overwrite_A", "overwrite_b", "destructive", "view", "as_view"),
        *("destroyhandler_tolerate_aliased", "check_finite", "on_error", "msg", "exc_type", "exc", "kind", "driver"),
        *("hermitian", "no_zeros_in_input", "dtype", "upcast_discrete_output", "ndim", "input_ndim", "b_ndim"),
        *("input_broadcastable", "len_splits", "n_outs", "scalar_op", "core_op", "signature"),
    )
)
FOLDED = 1 << 16  # the most elements that an op makes of fewer during the walk


def row(*names: str, props: str = "") -> Callable[[LineageRow], LineageRow]:
    """Register a function as the row of the ops whose classes have these names.

    It is called with the walk, the node and the values of its inputs, and returns the value of the output, or a list
    of all outputs. ``props`` are those that it reads; any other is an error, unless it is `None` or in `_OF_ANY_OP`.
    """

    def put(function: LineageRow) -> LineageRow:
        ROWS.update(dict.fromkeys(names, function))
        PROPS.update(dict.fromkeys(names, _OF_ANY_OP.union(props.split())))
        return function

    return put


class LineageWalk:
    """The values of a graph's variables: arrays of the program, or known arrays of NumPy.

    ``context`` is Theano's context of the current node, or, in a loop or an inner graph, of the outer node.
    ``gradients`` says whether the program may be differentiated.
    """

    def __init__(self, values: Mapping[Any, Any], context: str | None = None, gradients: bool = True) -> None:
        self.values, self.context, self.gradients = dict(values), context, gradients
        self.given = frozenset(values)
        self.ranges: dict[Any, dtypes.Range] = {}  # of variables of small dtypes

    def inner(self, values: Mapping[Any, Any]) -> LineageWalk:
        """A walk through the graph inside of an op."""
        return LineageWalk(values, self.context, self.gradients)

    def results(self, outputs: Sequence[Any]) -> list[Any]:
        """The values of the outputs, whose nodes are walked. Raises `GraphError`."""
        for node in nodes(outputs, self.values):
            self._node(node)
        return [self.value(one) for one in outputs]

    def value(self, variable: Any) -> Any:
        """The value of a variable whose node was walked, or of a constant. Raises `GraphError` for any other."""
        if variable not in self.values:
            if not hasattr(variable, "data"):
                raise GraphError(
                    f"the graph depends on {variable}, which is none of the inputs: give it as one, with its shape or "
                    "an array"
                )
            self.values[variable] = np.asarray(variable.data) if has_context(variable) else variable.data
        return self.values[variable]

    def _node(self, node: Any) -> None:
        values = [self.value(one) for one in node.inputs]
        function, line = row_of(node.op), line_of(node.outputs[0])
        current().source = line or current().source
        try:
            known = not any(isinstance(value, Array) for value in values) and computed(node, values)
            if function is None and not known:
                raise GraphError("no program has this op")
            with self.scope(node):
                found = known or (function and function(self, node, values))
                each = found if isinstance(found, list | tuple) else [found]
                for one, variable in zip(each, node.outputs, strict=True):
                    if isinstance(one, Array):
                        # Scalars inside of an elementwise op are arrays of any shape here.
                        is_scalar = type(variable.type).__name__.startswith("Scalar")
                        dtypes.check(one, None if is_scalar else lengths_of(variable.type), variable.type.dtype)
        except XBackendError as error:
            raise GraphError(f"{node.op}{f' (at {line})' if line else ''}: {error}") from error
        self.values.update(zip(node.outputs, each, strict=True))

    def scope(self, node: Any) -> AbstractContextManager[None]:
        """The device scope of a node's ops. In a loop or an inner graph: that of the outer node."""
        return nullcontext()

    def moved(self, node: Any) -> Any:
        """The value of a transfer. Raises `GraphError` for one to another device in a loop or an inner graph."""
        target = context_of(node.outputs[0])
        if target not in (None, self.context):
            raise GraphError(
                f"it is in a loop or an inner graph on {self.context or 'the host'}, and all of one is on one device: "
                "move arrays before or behind it"
            )
        return self.value(node.inputs[0])

    def known(self, variable: Any, what: str) -> Any:
        """The known value of a variable. Raises `GraphError` where it depends on the inputs' values."""
        value = self.value(variable)
        if isinstance(value, Array):
            raise GraphError(f"{what} depends on the values of the inputs, and a program's shapes are fixed")
        return value

    def whole(self, variable: Any, what: str) -> int:
        """A known whole number."""
        return int(self.known(variable, what))

    def lengths(self, variable: Any, what: str) -> tuple[int, ...]:
        """Known whole numbers."""
        return tuple(int(n) for n in self.known(variable, what))

    def bound(self, one: Any) -> int | None:
        """A bound of a slice: a number, or a variable with a known one."""
        value = one if one is None or isinstance(one, int) else self.known(one, "a bound of a slice")
        return None if value is None else int(value)

    def cast(self, variable: Any, dtype: str) -> Any:
        """The value of a variable, cast to a dtype, as an operand of `xbackend.api`."""
        return dtypes.array(dtypes.cast(self.value(variable), variable.type.dtype, dtype))

    def array(self, variable: Any) -> Any:
        """The value of a variable as an operand of `xbackend.api`."""
        return dtypes.array(self.value(variable))


def lengths_of(kind: Any) -> Sequence[int | None]:
    """The shape in the type of an array; Aesara's and Theano's types may have the rank only."""
    known: Sequence[int | None] | None = getattr(kind, "shape", None)
    return known or (None,) * kind.ndim


def has_context(variable: Any) -> bool:
    """Whether a variable has Theano's type for contexts. Its type for the host, too, has ``context_name``."""
    return type(variable.type).__name__ == "GpuArrayType"


def context_of(variable: Any) -> str | None:
    """The context in the type of a variable; `None` if there is none, and for the default context."""
    name: str | None = variable.type.context_name if has_context(variable) else None
    return name


def row_of(op: Any) -> LineageRow | None:
    """The row of an op: that of its class, or else of its base `ScalarOp` or `OpFromGraph`; `None` without one."""
    names = (type(op).__name__, *(name for name in ("ScalarOp", "OpFromGraph") if is_a(op, name)))
    return next((ROWS[name] for name in names if name in ROWS), None)


def is_a(op: Any, name: str) -> bool:
    """Whether the class of an op, or a base of it, has that name."""
    return any(one.__name__ == name for one in type(op).__mro__)


def nodes(outputs: Sequence[Any], given: Mapping[Any, Any]) -> list[Any]:
    """The nodes that the outputs depend on, predecessors first, back to given variables."""
    found: dict[Any, None] = {}
    entered = set[Any]()

    def owners(variables: Sequence[Any]) -> list[Any]:
        return [one.owner for one in reversed(variables) if one.owner is not None and one not in given]

    stack = owners(outputs)
    while stack:
        if stack[-1] in entered:
            found.setdefault(stack.pop())
        else:
            entered.add(stack[-1])
            stack += owners(stack[-1].inputs)
    return list(found)


def check_rows(framework: str, name: str, outputs: Sequence[Any], given: Mapping[Any, Any]) -> None:
    """Raises `GraphError` that lists all ops without a row, also those of inner graphs."""
    missing = Missing(framework)
    graphs = [(outputs, given)]
    while graphs:
        results, inputs = graphs.pop()
        found = nodes(results, inputs)
        for node in without_length(results, found):
            missing.add("Scan with until", line_of(node.outputs[0]), ONLY_LAST)
        for node in found:
            line = line_of(node.outputs[0])
            if is_a(node.op, "RandomVariable"):
                missing.add(type(node.op).__name__, line, _DRAWS if results is outputs else _INNER_DRAWS)
                continue
            core = getattr(node.op, "core_op", node.op)  # of a `Blockwise` the op on matrices
            if row_of(core) is None:
                missing.add(type(core).__name__, line)
            scalar = getattr(core, "scalar_op", core)
            if is_a(scalar, "ScalarOp") and type(scalar).__name__ not in SCALARS:
                missing.add(type(scalar).__name__, line)
            for prop, value in _unread(core):
                missing.add(f"{type(core).__name__} with {prop}={value!r:.40}", line)
            inner = [node.op] if type(node.op).__name__ == "Scan" or type(node.op).__name__ not in ROWS else []
            inner += [getattr(node.op, name, None) for name in ("core_op", "scalar_op")]
            graphs += [(graph[1], dict.fromkeys(graph[0])) for graph in map(graph_of, inner) if graph]
    missing.check(name)


def check_gradients(framework: str, name: str, outputs: Sequence[Any], given: Mapping[Any, Any]) -> None:
    """Raises `GraphError` that lists the ops by which a user changes gradients: no program has them, and the
    framework's rewrites would remove them."""
    missing = Missing(framework)
    graphs = [(outputs, given)]
    while graphs:
        for node in nodes(*graphs.pop()):
            if type(node.op).__name__ in _OF_GRADIENTS:
                missing.add(type(node.op).__name__, line_of(node.outputs[0]))
            graph = graph_of(node.op)
            graphs += [(graph[1], dict.fromkeys(graph[0]))] if graph else []
    missing.check(name)


_OF_GRADIENTS = ("ZeroGrad", "ConsiderConstant", "DisconnectedGrad", "UndefinedGrad", "GradClip", "GradScale")
_DRAWS = "it draws random numbers: give the draws as an input, or all draws of the graph with --draws"
_INNER_DRAWS = "it draws random numbers in a loop or an inner graph: draw before it, a row for each step"


def _unread(op: Any) -> list[tuple[str, Any]]:
    """The props of an op, with their values, that its row does not read."""
    each = ((name, getattr(op, name)) for name in getattr(op, "__props__", ()) if type(op).__name__ in PROPS)
    return [(name, value) for name, value in each if value is not None and name not in PROPS[type(op).__name__]]


def graph_of(op: Any) -> tuple[list[Any], list[Any]] | None:
    """Inputs and outputs of the graph inside of an op; `None` if there is none."""
    if hasattr(op, "local_outputs"):  # Theano's OpFromGraph
        return list(op.local_inputs), list(op.local_outputs)
    graph = getattr(op, "fgraph", op if type(op).__name__ == "Scan" else None)
    return None if graph is None else (list(graph.inputs), list(graph.outputs))


def line_of(variable: Any) -> str:
    """``file:line`` where the user made a variable; empty if the framework does not know."""
    traces = getattr(variable.tag, "trace", None) or [[]]
    for frame in reversed(traces[-1] if traces else []):
        file, line = (frame[0], frame[1]) if isinstance(frame, tuple) else (frame.filename, frame.lineno)
        if is_users(file):
            return f"{file}:{line}"
    return ""


def computed(node: Any, values: Sequence[Any]) -> list[Any] | None:
    """The values of a node's outputs, by the Python code of the framework's op (``perform``). `None` for an op without
    it, in `_NOT_FOLDED` or with an inner graph, and for an elementwise op, `Alloc`, `Eye` or `Tri` that makes more than
    `FOLDED` elements of fewer."""
    if not hasattr(node.op, "perform") or graph_of(node.op) is not None or type(node.op).__name__ in _NOT_FOLDED:
        return None
    lengths = {"Alloc": values[1:], "Eye": values[:2], "Tri": values[:2]}.get(type(node.op).__name__, ())
    if type(node.op).__name__ == "Elemwise":
        lengths = np.broadcast_shapes(*map(np.shape, values))
    if prod(map(int, lengths)) > max(FOLDED, *map(np.size, values)):
        return None
    if getattr(node.op, "destroy_map", None):  # it writes into its inputs, which other nodes may read
        values = [value.copy() if isinstance(value, np.ndarray) else value for value in values]
    storage = {one: [value] for one, value in zip(node.inputs, values, strict=True)}
    storage |= {one: [None] for one in node.outputs}
    done = {one: [True] for one in node.inputs} | {one: [False] for one in node.outputs}
    node.op.prepare_node(node, storage, done, "py")  # chooses the dtype in which integers are computed
    node.op.make_py_thunk(node, storage, done, [])()
    return [storage[one][0] for one in node.outputs]


# The memory of `AllocEmpty` holds arbitrary numbers. A transfer stays where the user wrote it.
_NOT_FOLDED = (
    *("AllocEmpty", "Scan", "IfElse", "CheckAndRaise", "Assert", "CheckParameterValue", "MakeSlice"),
    *("GpuFromHost", "GpuToGpu", "HostFromGpu"),
)


def leaves(outputs: Sequence[Any]) -> list[Any]:
    """The variables without an owner that outputs depend on, except constants and shared variables."""
    found = dict.fromkeys(one for node in nodes(outputs, {}) for one in node.inputs if one.owner is None)
    found |= dict.fromkeys(one for one in outputs if one.owner is None)
    return [one for one in found if not hasattr(one, "data") and not hasattr(one, "get_value")]
