"""A graph of ONNX as plain data. It does not need the package `onnx`, by which `file.py` writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np

from xbackend.bring.source.names import numbered
from xbackend.program.aval import Aval
from xbackend.program.ops import GENERATORS
from xbackend.program.program import Node, Program, generate

# The operator set of a file. It is no newer than its operators need, as runtimes are behind the standard. `Cast` and
# others have newer versions, for dtypes that no program has.
OPSET = 22
NEWER = {"CumProd": 26}
FRONT = -(2**63)  # the stop of a slice with a negative step that includes the first element


@dataclass(frozen=True, slots=True)
class Operation:
    """A node of ONNX. An attribute is an int, a string, ints, a `DType` or a `OnnxGraph`."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]


@dataclass
class OnnxModel:
    """Shared by the graphs of a file: the names, which are unique in it, and the constants."""

    taken: set[str] = field(default_factory=set)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    contents: dict[tuple[Any, ...], str] = field(default_factory=dict)  # the names of constants, by content
    opset: int = OPSET

    def name(self, wanted: str) -> str:
        """The name, with a number if it is taken."""
        found = numbered(wanted, self.taken)
        self.taken.add(found)
        return found


@dataclass
class OnnxGraph:
    """A graph that is being written: that of the file, or the body of a loop or a choice, which also reads values of
    its outer graphs. ``defaults`` are default values of inputs."""

    model: OnnxModel
    inputs: list[tuple[str, Aval]] = field(default_factory=list)
    outputs: list[tuple[str, Aval]] = field(default_factory=list)
    nodes: list[Operation] = field(default_factory=list)
    defaults: dict[str, np.ndarray] = field(default_factory=dict)

    def input(self, wanted: str, aval: Aval) -> str:
        name = self.model.name(wanted)
        self.inputs.append((name, aval))
        return name

    def add(self, op: str, inputs: Sequence[str], results: int = 1, **attributes: Any) -> list[str]:
        """A node; returns the names of its results."""
        self.model.opset = max(self.model.opset, NEWER.get(op, 0))
        outputs = [self.model.name(op.lower()) for _ in range(results)]
        self.nodes.append(Operation(op, tuple(inputs), tuple(outputs), attributes))
        return outputs

    def constant(self, value: np.ndarray) -> str:
        """The name of a constant. Equal constants are stored once."""
        content = (value.dtype, value.shape, sha256(value.tobytes()).digest())
        if content not in self.model.contents:
            name = self.model.contents[content] = self.model.name("constant")
            self.model.constants[name] = value
        return self.model.contents[content]

    def called(self, name: str, new: str) -> str:
        """Rename a result of the last node that no node reads. The new name is claimed already. Returns it."""
        last = self.nodes[-1]
        self.nodes[-1] = replace(last, outputs=tuple(new if one == name else one for one in last.outputs))
        self.model.taken.discard(name)
        return new

    def output(self, name: str, aval: Aval, wanted: str = "") -> None:
        """Make a value a result, under the wanted name, which is claimed already. A value with another name, from
        another graph, or that is a result already is copied."""
        own = {one for node in self.nodes for one in node.outputs} - {one for one, _ in self.outputs}
        if name not in own or name != (wanted or name):
            (name,) = self.add("Identity", [name])
            name = self.called(name, wanted) if wanted else name
        self.outputs.append((name, aval))


@dataclass(frozen=True)
class OnnxUse:
    """A node of a program, as its row gets it: with the names of its operands in the graph."""

    graph: OnnxGraph
    program: Program
    node: Node
    inputs: Sequence[str]

    def __call__(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator with one result; returns the result's name."""
        return self.graph.add(op, inputs, **attributes)[0]

    @property
    def params(self) -> Mapping[str, Any]:
        return self.node.params

    @property
    def x(self) -> Aval:
        """Shape and dtype of the first operand."""
        return self.aval(0)

    def aval(self, place: int) -> Aval:
        return self.program.values[self.node.inputs[place]].aval

    @property
    def is_floating(self) -> bool:
        return self.x.dtype.is_floating

    def number(self, value: Any, dtype: str = "") -> str:
        """A constant number; without a ``dtype`` it has the first operand's."""
        return self.graph.constant(np.asarray(value, dtype or self.x.dtype.value))

    def ints(self, *values: int) -> str:
        """A vector of int64, as lengths and axes are."""
        return self.graph.constant(np.asarray(values, np.int64))

    def filled(self, value: Any) -> str:
        """The result as a constant, with this value as each element."""
        return self.graph.constant(np.full(self.node.shape, value, self.node.dtype.value))

    def known(self, place: int) -> np.ndarray | None:
        """The elements of a constant operand, as before its broadcasts and reshapes; `None` for another operand."""
        node = self.program.values[self.node.inputs[place]].node
        while node.op in ("broadcast_to", "reshape"):
            node = self.program.values[node.inputs[0]].node
        return generate(node) if node.op in GENERATORS else None
