"""Theano's contexts as the logical devices of a program.

An op is on the context of its inputs if that is one, as Theano lifts it there. Any other op is on the host, as in
Theano; in a graph without contexts, and with a default context (``device=cuda0``), it is on the default device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import xbackend.api.functions as xb
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.scopes import on
from xbackend.api.tracing.state import shared
from xbackend.api.tracing.tracer import current
from xbackend.bring import dtypes
from xbackend.bring.lineage.walk import LineageWalk, context_of, has_context, line_of, nodes, row

HOST = "cpu:0"


@row("HostFromGpu", "GpuContiguous")
def same(walk: LineageWalk, node: Any, values: list[Any]) -> Any:
    """Theano puts these before each op with an operand on a context, and lifts that op: they do not place it."""
    return values[0]


row("GpuFromHost", "GpuToGpu", props="context_name")(lambda walk, node, values: walk.moved(node))


class Outermost(LineageWalk):
    """The walk through a whole graph. Theano's contexts place its ops; its shared variables become the program's."""

    def __init__(self, values: Mapping[Any, Any], outputs: Sequence[Any], gradients: bool) -> None:
        super().__init__(values, gradients=gradients)
        self.shared: dict[Any, Any] = {}
        self.on: dict[Any, str] = {}  # the contexts of results of lifted ops
        there = [*outputs, *(one for node in nodes(outputs, values) for one in node.inputs)]
        contexts = {context_of(one) for one in there if has_context(one)}
        self.host = HOST if contexts and None not in contexts else None

    def place(self, variable: Any) -> str | None:
        """The context of a variable; `None` for the host and for the default context."""
        return context_of(variable) if has_context(variable) else self.on.get(variable)

    def scope(self, node: Any) -> AbstractContextManager[None]:
        moving = [one for one in node.inputs if isinstance(self.value(one), Array)]  # known arrays have no device
        found = {self.place(one) for one in moving} - {None}
        self.context = found.pop() if len(found) == 1 else None
        if self.context is not None:
            self.on.update(dict.fromkeys(node.outputs, self.context))
        device = self.context or self.host
        return on(device)

    def moved(self, node: Any) -> Any:
        (variable,), target = node.inputs, context_of(node.outputs[0])
        if target is None or target == self.place(variable):
            return self.value(variable)
        return xb.to_device(self.array(variable), target)

    def result(self, variable: Any) -> Any:
        """An output of the graph, transferred to the host if the user's graph does so."""
        value = self.array(variable)
        to_host = type(getattr(variable.owner, "op", None)).__name__ == "HostFromGpu"
        return xb.to_device(value, self.host) if to_host and self.host else value

    def value(self, variable: Any) -> Any:
        if variable not in self.values and hasattr(variable, "get_value"):
            current().source = line_of(variable) or current().source
            self.values[variable] = xb.asarray(self.storage(variable))
        return super().value(variable)

    def storage(self, variable: Any) -> Any:
        """The program's shared variable for one of the framework's."""
        if variable not in self.shared:
            name = variable.name or f"shared{len(self.shared)}"
            home = context_of(variable) if has_context(variable) else self.host
            self.shared[variable] = shared(dtypes.array(variable.get_value()), name, home)
        return self.shared[variable]
