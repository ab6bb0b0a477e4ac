"""A traced program as plain data: nodes, shared variables, updates, outputs; its fingerprint and operation count."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from xbackend.devices import is_device
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType
from xbackend.program.ops import BODIES, OPS
from xbackend.program.shared import SharedVariable


@dataclass(slots=True)  # not frozen: it would take four times as long to make
class Node:
    """One call of an op, with all its results.

    ``inputs`` and ``outputs`` are numbers of values. Outputs are consecutive and larger than the inputs. ``results``
    has shape and dtype of each output. ``device`` is the one that the program asks for: a device, a logical name, or
    `None`. ``source`` is the user's ``file:line``; it is no part of the fingerprint.
    """

    op: str
    inputs: tuple[int, ...]
    params: Mapping[str, Any]
    results: tuple[Aval, ...]
    outputs: tuple[int, ...]
    device: str | None = None
    source: str = ""

    @property
    def aval(self) -> Aval:
        """Shape and dtype of the only result."""
        (aval,) = self.results
        return aval

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the only result."""
        return self.aval.shape

    @property
    def dtype(self) -> DType:
        """The dtype of the only result."""
        return self.aval.dtype

    @property
    def bodies(self) -> dict[str, Program]:
        """The bodies of a loop or a choice, by parameter name."""
        return {name: self.params[name] for name in BODIES if name in self.params}


@dataclass(slots=True)
class Value:
    """Result ``index`` of a node, with the node's attributes. ``device`` is the node's; of a gradient, its
    array's."""

    node: Node
    index: int
    shape: tuple[int, ...]
    dtype: DType
    device: str | None

    @property
    def aval(self) -> Aval:
        return self.node.results[self.index]

    @property
    def op(self) -> str:
        return self.node.op

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.node.inputs

    @property
    def params(self) -> Mapping[str, Any]:
        return self.node.params

    @property
    def source(self) -> str:
        return self.node.source

    @property
    def wrt(self) -> int:
        """The target of a gradient: the value that it is taken with respect to."""
        return self.node.inputs[1 + self.index]

    @property
    def bodies(self) -> dict[str, Program]:
        return self.node.bodies


class Nodes:
    """A list of nodes to append to, with their values."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        self.nodes: list[Node] = []
        self.values: list[Value] = []
        for node in nodes:
            self.append(node)

    def add(
        self,
        op: str,
        inputs: Sequence[int],
        params: Mapping[str, Any],
        results: Sequence[Aval],
        *,
        device: str | None = None,
        source: str = "",
    ) -> tuple[int, ...]:
        """Add a node; returns the numbers of its values."""
        first = len(self.values)
        outputs = (first,) if len(results) == 1 else tuple(range(first, first + len(results)))
        self.append(Node(op, tuple(inputs), params, tuple(results), outputs, device, source))
        return outputs

    def program(self, name: str, inputs: Sequence[int], outputs: Sequence[int], *rest: Any) -> Program:
        """The program of these nodes. ``rest`` are the other arguments of `Program`."""
        made = Program(name, tuple(self.nodes), tuple(inputs), tuple(outputs), *rest)
        vars(made)["values"] = tuple(self.values)  # else `Program.values` would make them again
        return made

    def append(self, node: Node) -> None:
        """Add a node whose ``outputs`` are the next numbers."""
        self.nodes.append(node)
        if node.op == "grad":
            devices = [self.values[i].device for i in node.inputs[1:]]
            self.values += [Value(node, k, *r, d) for k, (r, d) in enumerate(zip(node.results, devices, strict=True))]
        elif len(node.results) == 1:
            self.values.append(Value(node, 0, *node.results[0], node.device))
        else:
            self.values += [Value(node, k, *aval, node.device) for k, aval in enumerate(node.results)]


@dataclass(frozen=True, slots=True)
class OperationCount:
    """Arithmetic operations of one execution: ``total``, by op, and the ops without a count."""

    total: int
    by_op: Mapping[str, int]
    uncounted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """An array program without a framework: plain data that every backend lowers.

    Values are numbered in the order of the nodes that make them. ``inputs`` are the values of the arguments,
    ``outputs`` the returned ones, in the order of ``structure`` (`xbackend.program.structure`). ``shared`` maps values
    to shared variables, ``updates`` maps these values to their new ones, stored after the outputs are computed.
    Programs are equal if their fingerprints are.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    structure: Any = field(default="*")
    shared: Mapping[int, SharedVariable] = field(default_factory=dict)
    updates: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """All values, by number."""
        return tuple(Nodes(self.nodes).values)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hexadecimal) of what the program computes and where, without its name, source lines and the values
        of shared variables."""
        digest = hashlib.sha256()
        for node in self.nodes:
            params = {k: v for k, v in node.params.items() if k != "value"}
            row = [node.op, node.inputs, params, node.results, node.device]
            digest.update(_ENCODER.encode(row).encode())
            if "value" in node.params:
                digest.update(node.params["value"].tobytes())
        shared = {str(i): v.name for i, v in self.shared.items()}
        updates = sorted(self.updates.items())
        rest = [self.inputs, self.outputs, self.structure, shared, updates]
        digest.update(json.dumps(rest, sort_keys=True).encode())
        return digest.hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Program) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{self.values[i].params['name']}: {self.values[i].aval}" for i in self.inputs)
        results = ", ".join(str(self.values[i].aval) for i in self.outputs)
        return f"<program {self.name}({arguments}) -> ({results}), {len(self.nodes)} nodes, {self.fingerprint[:12]}>"

    @cached_property
    def logical_devices(self) -> tuple[str, ...]:
        """Logical device names, in the order of their first use."""
        names = [n.device for n in self.nodes if n.device is not None and not is_device(n.device)]
        return tuple(dict.fromkeys(names))

    @cached_property
    def operations(self) -> OperationCount:
        """Arithmetic operations of one execution: a sum or a product of two numbers is one, as is one `exp`.

        A matmul of (m, k) by (k, n) is 2*m*k*n. Gradients and loops without a length are listed as uncounted.
        """
        counted: Counter[str] = Counter()
        uncounted = set[str]()
        for node in self.nodes:
            for body in node.bodies.values():
                uncounted.update(body.operations.uncounted)
            count = OPS[node.op].count
            if count is None:
                uncounted.add(node.op)
            else:
                counted[node.op] += count([self.values[i].aval for i in node.inputs], node.results[0], node.params)
        by_op = {op: n for op, n in sorted(counted.items()) if n}
        return OperationCount(sum(by_op.values()), by_op, tuple(sorted(uncounted)))


def _plain(value: Any) -> Any:
    """The content of a parameter for the fingerprint, as JSON."""
    return value.fingerprint if isinstance(value, Program) else list(value)


_ENCODER = json.JSONEncoder(sort_keys=True, default=_plain)  # json.dumps makes a new encoder for each text


def generate(node: Node | Value) -> np.ndarray:
    """The value of a generator: `constant`, `full`, `arange`, `eye`."""
    params, dtype = node.params, np.dtype(node.dtype.value)
    if node.op == "constant":
        value: np.ndarray = params["value"]
        return value
    if node.op == "full":
        return np.full(node.shape, params["fill_value"], dtype)
    if node.op == "arange":
        # start + i * step, as the standard says for floating point; no rounding is accumulated.
        steps = np.arange(node.shape[0])
        return np.asarray(params["start"] + steps * params["step"]).astype(dtype)
    rows, columns = node.shape
    return np.eye(rows, columns, params["k"], dtype)
