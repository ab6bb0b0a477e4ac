"""What the generations of the Theano lineage share: one adapter for PyTensor and Aesara, in all their modes.

A program becomes one graph of the framework, gradients by the framework's own ``grad`` on that graph; `placed` cuts it
into stages; the mode compiles each stage and gives its innermost callable. A generation (`pytensor.py`, `aesara.py`)
says what its modules are called and where it differs; a mode (`host_modes.py`) what a value is and how a stage is
compiled.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, ClassVar

import numpy as np

from xbackend.backends.assembly import Assembly, Lowered
from xbackend.backends.contract import Built
from xbackend.backends.lineage import rewrites
from xbackend.backends.lineage.generation import Generation
from xbackend.backends.lineage.host_modes import LineageMode
from xbackend.backends.lineage.ops import TABLE, Row, is_filled, shape_of
from xbackend.backends.modes import Compiled
from xbackend.backends.placed import Stage, cut, fold_lengths, transfer_op
from xbackend.backends.special_numbers import QUOTIENTS, ROOTS
from xbackend.devices import Device
from xbackend.program.ops import GENERATORS
from xbackend.program.program import Node, Program

Variable = Any  # of the framework

# Constants of more elements are inputs that stay on their device. Numba would write them into the machine code, and all
# three modes would spend their time on folding them.
LARGE = 64


class LineageBackend(Generation):
    """A generation in a mode. Subclasses set ``package``, ``computes`` (the mode) and what differs."""

    configuration: ClassVar[Mapping[str, Any]] = {}  # of the generation, more of it while a program is compiled
    rows: ClassVar[Mapping[str, Row]] = {}  # ops that this generation and mode lowers in its own way
    left_out: ClassVar[tuple[str, ...]] = ()  # rewrites of the generation that are wrong
    folds_lengths: ClassVar[bool] = True  # whether a graph may hold the lengths that are known as constants
    computes: ClassVar[type[LineageMode]]
    mode: LineageMode
    added: tuple[str, ...] = (
        QUOTIENTS,
        ROOTS,
        "constants 0.0 and -0.0 told apart",
        "products of integer constants in integers",
    )

    def start(self) -> Iterable[Device]:
        self.import_framework()
        graph = self.module("graph.basic")
        self.Transfer = self.transfer(self.module("graph.op").Op, graph.Apply)
        self.mode = self.computes(self)
        devices = tuple(self.mode.start())
        rewrites.multiply_integers_exactly(self.module("tensor.rewriting.math"))
        of_tensors, of_scalars = self.T.constant(0.0), self.module("scalar.basic").constant(0.0)
        rewrites.tell_zeros_apart(*{type(c.signature()) for c in (of_tensors, of_scalars)} - {tuple})
        mode = rewrites.chosen(self.mode.compile_mode, self.settings.options)
        self.mode.compile_mode = mode.excluding(*self.left_out)
        self.added = (*self.added, *(f"without the rewrite {name}" for name in self.left_out))
        self.folds = self.mode.folds or rewrites.fold_constants(mode)
        if self.settings.threads is not None and self.blas is not None:
            from threadpoolctl import threadpool_limits

            threadpool_limits(self.settings.threads, user_api="blas")
        return devices

    def build(self, program: Program) -> Built:
        # With floatX at float32, Python numbers inside of the framework's gradients would be cut to float32.
        with self._deep(len(program.nodes)), self.changed_flags(floatX="float64", **self.configuration):
            graph = self._lower(program)
            order = [*program.outputs, *program.updates.values()]
            outputs = [(graph.variables[i], graph.device(i)) for i in order]
            if self.folds_lengths:
                fold_lengths([variable for variable, _ in outputs], self._lengths())
            plan = cut(graph.sources, outputs, self.Transfer)
            return Assembly(self, graph, plan).built()

    def transfer(self, op: type, apply: type) -> type:
        """The op that moves a value, made of the framework's classes."""
        return transfer_op(op, apply)

    def changed_flags(self, **flags: Any) -> contextlib.AbstractContextManager[Any]:
        """The framework's configuration, changed for a while."""
        changed: contextlib.AbstractContextManager[Any] = self.framework.config.change_flags(**flags)
        return changed

    def variable(self, node: Node, name: str) -> Variable:
        """A variable of the framework that gets its values from outside."""
        return self.T.TensorType(node.dtype.value, shape=node.shape)(name=name)

    @contextlib.contextmanager
    def _deep(self, nodes: int) -> Iterator[None]:
        """The lineage's gradient and its rewrites recurse along the graph."""
        before = sys.getrecursionlimit()
        sys.setrecursionlimit(max(before, 1000 + 50 * nodes))
        try:
            yield
        finally:
            sys.setrecursionlimit(before)

    def _lower(self, program: Program) -> Lowered:
        graph = Lowered(program)
        targets = {n.inputs[1] for n in program.nodes if n.op == "grad"}
        known: set[Variable] = set()
        gradients: dict[int, Variable] = {}
        for i, node in enumerate(program.nodes):
            if node.op == "grad":
                if i not in gradients:
                    gradients.update(self._gradients(graph, i))
                variable = gradients[i]
            else:
                variable = self._lower_node(graph, i, node)
            variable = self._exact(variable, node)
            if i in targets and variable in known:
                # An op that changes nothing returned its input; the gradient is that of this node only.
                variable = self._exact(self.T.tensor_copy(variable), node)
            known.add(variable)
            graph.variables.append(variable)
        return graph

    def _lower_node(self, graph: Lowered, i: int, node: Node) -> Variable:
        inputs = [graph.variables[j] for j in node.inputs]
        if node.op in ("input", "shared") or (node.op in GENERATORS and node.aval.size > LARGE and not is_filled(node)):
            variable = self.variable(node, f"{node.op}_{i}")
            graph.sources[variable] = graph.device(i)
            if node.op == "input":
                graph.arguments.append(variable)
            else:
                (graph.shared if node.op == "shared" else graph.resident)[i] = variable
            return variable
        if node.op == "transfer":
            return self.Transfer(graph.device(node.inputs[0]), graph.device(i))(*inputs)
        row = self.rows.get(node.op) or TABLE[node.op]
        try:
            return row(self.T, node, inputs)
        except Exception as error:
            raise self.unsupported(f"{node.op} of {', '.join(str(v.type) for v in inputs)}", node, error) from error

    def _exact(self, variable: Variable, node: Node) -> Variable:
        """The variable with the dtype and the static shape of its node, where the framework lost one of them."""
        if variable.dtype != node.dtype.value:
            variable = self.T.cast(variable, node.dtype.value)
        if tuple(variable.type.shape) != node.shape:
            variable = self.T.specify_shape(variable, node.shape)
        return variable

    def _gradients(self, graph: Lowered, first: int) -> dict[int, Variable]:
        """All gradients of one loss, as far as what they belong to is lowered, in one backward pass."""
        nodes = graph.program.nodes
        loss = nodes[first].inputs[0]
        group = [
            i
            for i in range(first, len(nodes))
            if nodes[i].op == "grad" and nodes[i].inputs[0] == loss and nodes[i].inputs[1] < first
        ]
        wrt = list(dict.fromkeys(nodes[i].inputs[1] for i in group))
        try:
            gradients = self.framework.grad(
                graph.variables[loss], [graph.variables[j] for j in wrt], disconnected_inputs="ignore"
            )
        except Exception as error:
            raise self.unsupported("the gradient", nodes[first], error) from error
        by_target = dict(zip(wrt, gradients, strict=True))
        return {i: by_target[nodes[i].inputs[1]] for i in group}

    def _lengths(self) -> Callable[[Any], Variable | None]:
        """What `fold_lengths` asks: the constant in place of a node that computes a shape, where that is known."""
        asks = self.module("tensor.shape").Shape

        def constant(node: Any) -> Variable | None:
            known = shape_of(node.inputs[0]) if isinstance(node.op, asks) else None
            return None if known is None else self.T.constant(np.array(known, "int64"))

        return constant

    def compile_stage(self, label: str, stage: Stage, mutable: Collection[Variable] = ()) -> Compiled:
        wrapped = [self.framework.In(v, mutable=v in mutable) for v in stage.inputs]
        try:
            function = self.framework.function(
                wrapped, stage.outputs, mode=self.mode.compile_mode, on_unused_input="ignore"
            )
            return self.mode.innermost(function, [v.type for v in stage.inputs], stage.device)
        except Exception as error:
            raise self.unsupported(label, None, error) from error
