"""The graphs of the functions that a graph calls, by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from xbackend.errors import GraphError

DEEPEST = 64  # calls of functions in functions
_QUIET = re.compile(
    r"Var\w+|ReadVariableOp|IsVariableInitialized|ResourceGather\w*|Random\w+|\w*TruncatedNormal|Multinomial"
)
MOST = 1 << 21  # operations, when all functions are inlined


def check_calls(library: Sequence[Any]) -> None:
    """Raises `GraphError` for recursion, for calls more than `DEEPEST` deep, and for more than `MOST` operations after
    inlining. TensorFlow would run out of its stack, or not end."""
    calls = {one.signature.name: [name for node in one.node_def for name in _names(node)] for one in library}
    sizes: dict[str, int] = {}
    for _ in range(DEEPEST):
        known = [name for name, inner in calls.items() if all(one in sizes for one in inner if one in calls)]
        sizes = {name: len(calls[name]) + sum(sizes.get(one, 0) for one in calls[name]) for name in known}
        if len(sizes) == len(calls):
            break
    else:
        raise GraphError(f"its functions call themselves, or one another in a row of more than {DEEPEST}")
    if max(sizes.values(), default=0) > MOST:
        raise too_many()


def too_many() -> GraphError:
    return GraphError(f"its functions come to more than {MOST} operations when they are inlined")


def _names(node: Any) -> list[str]:
    """The type of an operation and its function attributes: names of functions that it may call."""
    each = [one for value in node.attr.values() for one in (value.func, *value.list.func)]
    return [node.op, *(one.name for one in each if one.name)]


def effects(graph: Any) -> list[Any]:
    """The operations of a function that TensorFlow runs whether or not a result depends on them: those that it names,
    and stateful ones, but for reads and draws, which change nothing (function.cc, PruneFunctionBody)."""
    named = list(graph.control_outputs)
    stateful = (one for one in graph.get_operations() if one.op_def.is_stateful and not _QUIET.fullmatch(one.type))
    return list({one.name: one for one in (*named, *stateful)}.values())


class Functions:
    """Finds the graph of a function: the traced one, which knows its user's lines, or one made from a library."""

    def __init__(self, graph: Any = None, library: Any = None) -> None:
        self.graph = graph
        self.library = {one.signature.name: one for one in library.function} if library else {}
        # The functions with a gradient of their own: one of the library, or one in Python, which only a `tf.Graph` has.
        self.derived = {one.function_name for one in library.gradient} if library else set[str]()
        own = getattr(graph, "_functions", {}).items()
        self.derived |= {name for name, one in own if getattr(one, "python_grad_func", None)}
        self.made: dict[str, Any] = {}

    def __call__(self, graph: Any, name: str) -> Any:
        """The graph of a function. Raises `LookupError`."""
        if name not in self.made:
            self.made[name] = self._found(graph, name)
        return self.made[name]

    def _found(self, graph: Any, name: str) -> Any:
        outer = graph
        while outer is not None:
            traced = outer._get_function(name)
            if hasattr(traced, "graph"):
                return traced.graph
            outer = getattr(outer, "outer_graph", None)
        if name not in self.library:
            raise LookupError(f"there is no function {name}")
        convert = import_module("tensorflow.python.framework.function_def_to_graph")
        with self.graph.as_default():
            return convert.function_def_to_graph(self.library[name])
