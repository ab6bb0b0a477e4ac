"""Gradients of a program on NumPy: autograd computes the loss again, then runs its backward pass."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from xbackend.backends.numpy.ops import function, results
from xbackend.backends.placement import NOTHING_TO_READ, Backward, Transferred
from xbackend.devices import Device
from xbackend.program import analyses
from xbackend.program.evaluation import evaluate, nodes_of
from xbackend.program.ops import GENERATORS, OPS
from xbackend.program.program import Node, Program, generate

Values = Mapping[int, Any]  # by number
UNTOLD = "NumPy has no devices"  # the evidence of executed ops


class Between(NamedTuple):
    """The values between the targets of a gradient and its loss."""

    again: set[int]  # the values to compute again
    dependent: set[int]  # the targets that depend on other targets
    nodes: list[Node]  # the nodes that compute ``again``


class Gradients:
    """The backward passes of a program, with autograd's records of the last one of each loss."""

    def __init__(self, program: Program, devices: Sequence[Device], xp: Any) -> None:
        self.program, self.devices, self.xp = program, devices, xp
        self.backward: dict[int, list[Backward]] = {}  # by the first gradient
        self.transfers: dict[int, list[Transferred]] = {}
        self.alone = threading.Lock()  # one pass at a time writes records
        self.going_back: list[Transferred] | None = None  # during a backward pass: its transfers
        self.handed_on = self._primitive() if any(n.op == "transfer" for n in program.values) else None
        self.bodies: dict[Program, Callable[..., Sequence[Any]]] = {}
        self.functions: dict[int, Callable[..., Any]] = {}
        self.ways: dict[tuple[int, ...], Between] = {}

    def __call__(self, node: Node, values: Values) -> list[np.ndarray]:
        """The gradients of a node, in one backward pass, from the values of `analyses.replayed`."""
        from autograd import make_vjp

        (loss, *each), first = node.inputs, node.outputs[0]
        wrt = list(dict.fromkeys(each))
        dependent = self._between(loss, wrt).dependent
        leaves = tuple(np.zeros_like(values[i]) if i in dependent else values[i] for i in wrt)
        with self.alone:
            pullback, value = make_vjp(lambda leaves: self._replay(loss, wrt, leaves, values))(leaves)
            made = list[Transferred]()
            self.going_back = made
            try:
                cotangents = dict(zip(wrt, pullback(np.ones_like(value)), strict=True))
            finally:
                self.going_back = None
            self.transfers[first] = made
            if first not in self.backward:
                self.backward[first] = [self._went_back(i, first) for i in self._way_back(loss, wrt)]
        return [np.asarray(cotangents[i], dtype=dtype.value) for i, (_, dtype) in zip(each, node.results, strict=True)]

    def body(self, program: Program) -> Callable[..., Sequence[Any]]:
        if program not in self.bodies:
            self.bodies[program] = Gradients(program, self.devices, self.xp).evaluated()
        return self.bodies[program]

    def evaluated(self) -> Callable[..., Sequence[Any]]:
        nodes = self.program.values
        constants = {i: generate(node) for i, node in enumerate(nodes) if node.op in GENERATORS}

        def evaluated(*inputs: Any) -> list[Any]:
            env = {**constants, **dict(zip(self.program.inputs, inputs, strict=True))}
            evaluate(self.program.nodes, env, self._results, self._inner_gradients)
            return [env[i] for i in self.program.outputs]

        return evaluated

    def _results(self, node: Node, inputs: Sequence[Any]) -> Sequence[Any]:
        several, first = OPS[node.op].several, node.outputs[0]
        if node.op == "transfer" and self.handed_on is not None:
            return [self.handed_on(inputs[0], i=first, back=False)]
        if first not in self.functions:
            self.functions[first] = results(self.xp, node, self.body) if several else function(self.xp, node)
        made = self.functions[first](*inputs)
        return made if several else [made]

    def _between(self, loss: int, wrt: Sequence[int]) -> Between:
        key = (loss, *wrt)
        if key not in self.ways:
            between, dependent = analyses.between(self.program, loss, wrt)
            again = {i for i in between if i not in wrt or i in dependent}
            self.ways[key] = Between(again, dependent, nodes_of(self.program, again))
        return self.ways[key]

    def _primitive(self) -> Callable[..., Any]:
        """Autograd's primitive for transfers: ``f(x, i, back)`` passes a value through node i, or its gradient back."""
        from autograd.extend import defvjp, primitive

        mine = weakref.proxy(self)  # autograd keeps every function with a gradient alive

        @primitive  # type: ignore[untyped-decorator]
        def handed_on(x: np.ndarray, i: int, back: bool) -> np.ndarray:
            if mine.going_back is not None:
                ends = (mine.devices[mine.program.values[i].inputs[0]], mine.devices[i])
                source, target = ends[::-1] if back else ends
                evidence = f"autograd went through node {i}"
                made = Transferred(source, target, x.nbytes, None, True, "autograd.make_vjp", evidence)
                mine.going_back.append(made)
            return x

        defvjp(handed_on, lambda result, x, i, back: lambda g: handed_on(g, i, not back), argnums=(0,))
        return handed_on  # type: ignore[no-any-return]

    def _way_back(self, loss: int, wrt: Sequence[int]) -> list[int]:
        """The values of autograd's backward pass, from the loss on: floating-point ones only."""
        nodes = self.program.values
        inside = {i for i in self._between(loss, wrt).again if nodes[i].dtype.is_floating}
        passed, todo = set[int](), [loss]
        while todo:
            i = todo.pop()
            if i in inside and i not in passed:
                passed.add(i)
                todo.extend(nodes[i].inputs)
        return sorted(passed, reverse=True)

    def _went_back(self, i: int, gradient: int) -> Backward:
        return Backward(gradient, i, None, None, f"autograd of {self.program.values[i].op}", UNTOLD, NOTHING_TO_READ)

    def _replay(self, loss: int, wrt: Sequence[int], leaves: Sequence[Any], env: Values) -> Any:
        """The loss as a function of the targets. A target that depends on others is computed, plus its leaf, a zero."""
        again, dependent, nodes = self._between(loss, wrt)
        given = dict(zip(wrt, leaves, strict=True))
        values = {i: value for i, value in env.items() if i not in again}
        values |= {i: leaf for i, leaf in given.items() if i not in dependent}

        def made(i: int, value: Any) -> Any:
            return value + given[i] if i in dependent else value

        evaluate(nodes, values, self._results, self._inner_gradients, made)
        return values[loss]

    def _inner_gradients(self, node: Node, values: Values) -> list[Any]:
        from autograd import make_vjp

        def gradient(i: int) -> Any:
            pullback, value = make_vjp(lambda leaf: self._replay(loss, [i], [leaf], values))(values[i])
            return pullback(self.xp.ones_like(value))

        loss, *each = node.inputs
        found = {i: gradient(i) for i in dict.fromkeys(each)}
        return [found[i] for i in each]
