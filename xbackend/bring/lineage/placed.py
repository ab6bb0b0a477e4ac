"""Theano's contexts as the devices of a program.

An op is on the context of its inputs, as Theano lifts it there, where that is one; otherwise on the host, as is in
Theano what has no context. In a graph without contexts, and where Theano has a default one (``device=cuda0``), it is on
the default device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import xbackend.api.functions as xb
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.scopes import device as scope
from xbackend.api.tracing.state import shared
from xbackend.api.tracing.tracer import current
from xbackend.bring import dtypes
from xbackend.bring.lineage.walk import Walk, context_of, has_context, line_of, nodes, row

HOST = "cpu:0"


@row("HostFromGpu", "GpuContiguous")
def same(walk: Walk, node: Any, values: list[Any]) -> Any:
    """Theano puts it before each op of a value on a context, and lifts the op: it says nothing of where the op is."""
    return values[0]


row("GpuFromHost", "GpuToGpu", props="context_name")(lambda walk, node, values: walk.moved(node))


class Outermost(Walk):
    """The walk of a whole graph, which places what Theano has on contexts. Its shared variables are the program's."""

    def __init__(self, values: Mapping[Any, Any], outputs: Sequence[Any], gradients: bool) -> None:
        super().__init__(values, gradients=gradients)
        self.shared: dict[Any, Any] = {}
        self.on: dict[Any, str] = {}  # the context of the result of an op that was lifted
        there = [*outputs, *(one for node in nodes(outputs, values) for one in node.inputs)]
        contexts = {context_of(one) for one in there if has_context(one)}
        self.host = HOST if contexts and None not in contexts else None

    def place(self, variable: Any) -> str | None:
        """The context that a variable is on; `None` for the host, or the one context that has no name."""
        return context_of(variable) if has_context(variable) else self.on.get(variable)

    def scope(self, node: Any) -> AbstractContextManager[None]:
        moving = [one for one in node.inputs if isinstance(self.value(one), Array)]  # known arrays are on no device
        found = {self.place(one) for one in moving} - {None}
        self.context = found.pop() if len(found) == 1 else None
        if self.context is not None:
            self.on.update(dict.fromkeys(node.outputs, self.context))
        device = self.context or self.host
        return nullcontext() if device is None else scope(device)

    def moved(self, node: Any) -> Any:
        (variable,), target = node.inputs, context_of(node.outputs[0])
        if target is None or target == self.place(variable):
            return self.value(variable)
        return xb.to_device(self.array(variable), target)

    def result(self, variable: Any) -> Any:
        """An output of the graph: on the host where the user moved it there."""
        value = self.array(variable)
        to_host = type(getattr(variable.owner, "op", None)).__name__ == "HostFromGpu"
        return xb.to_device(value, self.host) if to_host and self.host else value

    def value(self, variable: Any) -> Any:
        if variable not in self.values and hasattr(variable, "get_value"):
            current().source = line_of(variable) or current().source
            self.values[variable] = xb.asarray(self.storage(variable))
        return super().value(variable)

    def storage(self, variable: Any) -> Any:
        """The program's shared variable of one of the framework."""
        if variable not in self.shared:
            name = variable.name or f"shared{len(self.shared)}"
            home = context_of(variable) if has_context(variable) else self.host
            self.shared[variable] = shared(dtypes.array(variable.get_value()), name, home)
        return self.shared[variable]
