"""A traced program as plain data: nodes, shared variables, updates, outputs; its fingerprint and operation count."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from xbackend.devices import is_device
from xbackend.program.dtypes import DType
from xbackend.program.ops import BODIES, OPS, Aval
from xbackend.program.shared import SharedVariable


@dataclass(frozen=True, slots=True)
class Node:
    """One op of a program and its one result.

    ``inputs`` are positions of earlier nodes. ``device`` is what the program asks for: a device, a logical name, or
    `None`. ``source`` is the user's ``file:line``; it is no part of the fingerprint.
    """

    op: str
    inputs: tuple[int, ...]
    params: Mapping[str, Any]
    shape: tuple[int, ...]
    dtype: DType
    device: str | None = None
    source: str = ""

    @property
    def aval(self) -> Aval:
        return Aval(self.shape, self.dtype)

    @property
    def call(self) -> tuple[Any, ...]:
        """What nodes have in common that are results of one call of an op with several (those with a ``part``)."""
        rest = sorted((k, v) for k, v in self.params.items() if k != "part")
        return self.op, self.inputs, self.device, *rest

    @property
    def bodies(self) -> dict[str, Program]:
        """The programs that a loop or a choice goes through, by their parameters."""
        return {name: self.params[name] for name in BODIES if name in self.params}


@dataclass(frozen=True, slots=True)
class OperationCount:
    """Arithmetic operations of one execution: ``total``, per op, and the ops that are not counted."""

    total: int
    by_op: Mapping[str, int]
    uncounted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Program:
    """An array program without a framework: plain data that every backend lowers.

    ``inputs`` are the nodes that take the arguments, ``outputs`` the nodes returned, in the order in which
    ``structure`` lists them (`xbackend.program.structure`); ``shared`` maps nodes to shared variables, ``updates``
    those nodes to the ones whose values they take after the outputs. Programs are equal if their fingerprints are.
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    structure: Any = field(default="*")
    shared: Mapping[int, SharedVariable] = field(default_factory=dict)
    updates: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hexadecimal) of all that decides what the program computes and where.

        Source lines and the values of shared variables are left out.
        """
        digest = hashlib.sha256()
        for node in self.nodes:
            params = {k: v for k, v in node.params.items() if k != "value"}
            row = [node.op, node.inputs, params, node.shape, node.dtype, node.device]
            digest.update(json.dumps(row, sort_keys=True, default=_plain).encode())
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
        arguments = ", ".join(f"{self.nodes[i].params['name']}: {self.nodes[i].aval}" for i in self.inputs)
        results = ", ".join(str(self.nodes[i].aval) for i in self.outputs)
        return f"<program {self.name}({arguments}) -> ({results}), {len(self.nodes)} nodes, {self.fingerprint[:12]}>"

    @cached_property
    def logical_devices(self) -> tuple[str, ...]:
        """Logical device names in the order in which the program first uses them."""
        names = [n.device for n in self.nodes if n.device is not None and not is_device(n.device)]
        return tuple(dict.fromkeys(names))

    @cached_property
    def operations(self) -> OperationCount:
        """Arithmetic operations of one execution: a sum or a product of two numbers is one, as is one `exp`.

        A matmul of (m, k) by (k, n) is 2*m*k*n. Gradients and loops without a length are listed as uncounted.
        """
        counted: Counter[str] = Counter()
        uncounted, called = set[str](), set[tuple[Any, ...]]()
        for node in self.nodes:
            if "part" in node.params:
                if node.call in called:
                    continue
                called.add(node.call)
            for body in node.bodies.values():
                uncounted.update(body.operations.uncounted)
            count = OPS[node.op].count
            if count is None:
                uncounted.add(node.op)
            else:
                counted[node.op] += count([self.nodes[i].aval for i in node.inputs], node.aval, node.params)
        by_op = {op: n for op, n in sorted(counted.items()) if n}
        return OperationCount(sum(by_op.values()), by_op, tuple(sorted(uncounted)))


def _plain(value: Any) -> Any:
    """What decides of a parameter, as JSON has it."""
    return value.fingerprint if isinstance(value, Program) else list(value)


def generate(node: Node) -> np.ndarray:
    """The value of a source op that needs none from outside: `constant`, `full`, `arange`, `eye`."""
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
