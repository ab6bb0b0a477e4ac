"""The graphs of the functions that a graph calls, by their names."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any


class Functions:
    """Finds a function where it was traced, with its user's lines, or makes its graph from a library."""

    def __init__(self, graph: Any = None, library: Iterable[Any] = ()) -> None:
        self.graph = graph
        self.library = {one.signature.name: one for one in library}
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
