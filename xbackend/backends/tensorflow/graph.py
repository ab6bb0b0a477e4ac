"""Lowering of a placed program to TensorFlow's graph: each node on its device, in its own name scope (``xb3_n0000007/``
is node 7 of the process's fourth lowering), by which it is found in the executed graph."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from xbackend.backends.tensorflow import control_flow
from xbackend.backends.tensorflow.gradient_rules import mended, of_spectra
from xbackend.backends.tensorflow.kept import adds_same, kept
from xbackend.backends.tensorflow.ops import TABLE
from xbackend.devices import Device
from xbackend.errors import UnsupportedOperation
from xbackend.program.analyses import everywhere, has_gradients, predecessors
from xbackend.program.evaluation import Values, evaluate
from xbackend.program.host import check_fits
from xbackend.program.ops import GENERATORS, OPS
from xbackend.program.program import Node, Program, generate
from xbackend.program.stages import Stage, cut

_numbers = itertools.count()

# Constants with more elements are captured as values: a graph is a protocol buffer with a limit of 2 GiB.
LARGEST_CONSTANT = 1024

# TensorFlow names a backward op after the op that it is the gradient of.
_BACKWARD = re.compile(r"/gradients(?:_\d+)?/(.+)_grad/")
_CROSSING = "Xbackend from "  # prefix of the gradients of crossings


def numbered(kind: str, number: int) -> str:
    """A name for a node; names sort in the order of the numbers, as TensorFlow's optimiser sorts factors by name: else
    mirrored copies of a weight would differ by rounding (grappler/optimizers/constant_folding.cc: ConstantPushDown)."""
    return f"{kind}{number:07}"


class Lowering:
    """The lowering of one program to a graph. With ``staged`` the ops between two transfers become functions that XLA
    compiles. Raises `ArgumentError` for an array larger than the memory, on which TensorFlow fails after a minute."""

    def __init__(self, backend: Any, program: Program, *, xla: bool = False, staged: bool = False) -> None:
        for node in () if xla else program.values:
            check_fits(node.aval.nbytes, f"{node.op} {node.aval}" + (f" (at {node.source})" if node.source else ""))
        self.backend, self.tf, self.program, self.xla, self.staged = backend, backend.tf, program, xla, staged
        self.prefix = f"xb{next(_numbers)}_"
        self.storages = {i: backend.storage(v) for i, v in program.shared.items()}
        self.devices = [Device.parse(n.device or "") for n in program.values]
        self.values: dict[int, list[str]] = {}  # value -> names of its tensors, the last one first
        # With `Settings.lower_for`: the functions for XLA, with arguments and device, by the name of the call.
        self.functions: dict[str, Any] = {}
        self.stages: dict[int, str] = {}  # value -> name of the function call that computes it
        # Backward op -> its forward node and the device that it should run on, `None` where unknown.
        self.backward: dict[str, tuple[int | None, Device | None]] = {}

    def whole(self, arguments: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """Lower the program into the current graph. Returns its outputs and the updates of shared variables."""
        tensors: Values = {}
        for i, argument in zip(self.program.inputs, arguments, strict=True):
            tensors[i] = self._as(self.program.values[i].dtype.value, i, argument)
            self.values[i] = list(dict.fromkeys([tensors[i].name, argument.name]))
        if self.staged:
            self._stages(tensors)
        else:
            self.evaluate(self.program.nodes, tensors)
        outputs = [self._as(self.carried(i), i, tensors[i]) for i in self.program.outputs]
        return outputs, self._updates(tensors, outputs)

    def evaluate(self, nodes: Iterable[Node], tensors: Values) -> None:
        """Lower these nodes, whose inputs are in ``tensors``, except those that are there already."""
        with mended(self.tf, "Transpose"):  # here, as many rows make one
            evaluate(nodes, tensors, self.results, self._gradients)

    def carried(self, i: int) -> str:
        return str(self.backend.carrier(self.program.values[i].dtype.value, self.devices[i]))

    def _as(self, dtype: str, i: int, tensor: Any) -> Any:
        """A value cast to, or from, the dtype that carries it, on its device."""
        if tensor.dtype == dtype:
            return tensor
        with self.place(i, "c"):
            same = self.tf.as_dtype(dtype).size == tensor.dtype.size
            return self.tf.bitcast(tensor, dtype) if same else self.tf.cast(tensor, dtype)

    @contextmanager
    def place(self, i: int, kind: str = "n") -> Iterator[None]:
        name = numbered(f"{self.prefix}{kind}", i)
        with self.tf.device(self.backend.names[self.devices[i]]), self.tf.name_scope(name):
            yield

    def results(self, node: Node, inputs: Sequence[Any]) -> Sequence[Any]:
        if OPS[node.op].several:
            return self._several(node, inputs)
        tf, (i,) = self.tf, node.outputs
        with self.place(i):
            if node.op == "shared":
                result = tf.raw_ops.ReadVariableOp(resource=self.storages[i].handle, dtype=node.dtype.value)
            elif node.op in GENERATORS:
                result = self._generate(i)
            elif node.op == "transfer":
                result = _crossing(tf, inputs[0], self.backend.names[self.devices[node.inputs[0]]])
            else:
                result = TABLE[node.op](tf, node, inputs, self.xla)
                if any(result is tensor for tensor in inputs):
                    # Two values need two tensors: each has its own gradient.
                    result = tf.identity(result)
        self.values[i] = [result.name]
        return [result]

    def _several(self, node: Node, inputs: Sequence[Any]) -> Sequence[Any]:
        with self.place(node.outputs[0]):
            if node.bodies:
                results = control_flow.ROWS[node.op](self.tf, node, inputs, self._body)
            else:
                results = TABLE[node.op](self.tf, node, inputs, self.xla)
        return [self._named(i, result, "result") for i, result in zip(node.outputs, results, strict=True)]

    def _named(self, i: int, tensor: Any, name: str) -> Any:
        with self.place(i):
            own = self.tf.identity(tensor, name=name)
        self.values[i] = [own.name, tensor.name]
        return own

    def _body(self, program: Program, values: Sequence[Any]) -> list[Any]:
        inner = Lowering(self.backend, program, xla=self.xla)
        summed = not self.xla and adds_same(program)  # XLA has its own optimiser
        with self.tf.device(self.backend.names[inner.devices[0]]):
            # No input of a gradient may share its tensor.
            given = [kept(self.tf, value) for value in values] if summed or has_gradients(program) else values
            tensors: Values = dict(zip(program.inputs, given, strict=True))
            inner.evaluate(program.nodes, tensors)
            results = [tensors[i] for i in program.outputs]
            return [kept(self.tf, result) for result in results] if summed else results

    def _generate(self, i: int) -> Any:
        tf, node = self.tf, self.program.values[i]
        if node.aval.size <= LARGEST_CONSTANT:
            return tf.constant(generate(node), node.dtype.value)
        if node.op == "full":
            return tf.fill(node.shape, tf.constant(node.params["fill_value"], node.dtype.value))
        with tf.init_scope():
            value = self.backend.put(generate(node), self.devices[i])
        return tf.identity(self._as(node.dtype.value, i, value))

    def _gradients(self, node: Node, tensors: Values) -> Sequence[Any]:
        """The gradients of a node, which share TensorFlow's backward ops."""
        tf, (loss, *wrt), group = self.tf, node.inputs, node.outputs
        graph = tf.compat.v1.get_default_graph()
        before = len(graph.get_operations())
        with self.place(group[0]):
            try:
                with of_spectra(tf):
                    gradients = tf.compat.v1.gradients(
                        tensors[loss],
                        [tensors[i] for i in wrt],
                        colocate_gradients_with_ops=True,
                        unconnected_gradients=tf.UnconnectedGradients.ZERO,
                    )
            except (NotImplementedError, LookupError) as error:  # an op without a gradient, or not with such parameters
                told = f"{f' (at {node.source})' if node.source else ''}: {type(error).__name__}: {error}"
                raise UnsupportedOperation(f"TensorFlow cannot do the gradient{told}") from error
            # The gradient of a gather is sparse: rows and indices.
            gradients = [tf.convert_to_tensor(g) if isinstance(g, tf.IndexedSlices) else g for g in gradients]
            for gradient, result in zip(gradients, node.results, strict=True):
                gradient.set_shape(result.shape)
        made = graph.get_operations()[before:]
        for op in made:
            if not op.device:  # the ops that add repeated rows of a gather belong to no op
                op._set_device(self.backend.names[self.devices[group[0]]])
            self.backward[op.name] = self._asked(graph, op)
        # TensorFlow's optimiser merges no colocated ops: it computed the sum of a gather's rows again for each use.
        for op in made:  # the devices stay
            if "_class" in op.node_def.attr:
                op._clear_attr("_class")
        return [self._named(i, gradient, "gradient") for i, gradient in zip(group, gradients, strict=True)]

    def _asked(self, graph: Any, op: Any) -> tuple[int | None, Device | None]:
        """The forward node of a backward op, and the device that it should run on. A sum should run where it is
        colocated."""
        match = _BACKWARD.search(op.name)
        if match is None:
            groups = [group.decode().removeprefix("loc:@") for group in op.colocation_groups()]
            return None, next((self._bound(name) for name in groups if name != op.name), None)
        try:
            forward = graph.get_operation_by_name(match[1])
        except (KeyError, ValueError):
            return None, None
        if forward.node_def.attr["_gradient_op_type"].s.decode().startswith(_CROSSING):
            return self.owner(match[1]), self._bound(forward.inputs[0].op.name)
        return self.owner(match[1]), self._bound(match[1])

    def _bound(self, name: str) -> Device | None:
        if name in self.backward:
            return self.backward[name][1]
        match = re.search(rf"(?:^|/){self.prefix}[ans](\d+)(?:_\d+)?(?:/|$)", name)
        return self.devices[int(match[1])] if match else None

    def _updates(self, tensors: Values, outputs: Sequence[Any]) -> list[Any]:
        """The assignments, after all outputs, assigned values and reads: if one of these fails, none is made."""
        updates = self.program.updates
        if not updates:
            return []
        values = {target: tensors[expression] for target, expression in updates.items()}
        # A barrier: one op on each device, and one for all. Else each value would be signalled to each device.
        done = self.tf.group(*outputs, *values.values(), *(tensors[target] for target in updates))
        assigned = []
        for target, value in values.items():
            with self.place(target, "u"), self.tf.control_dependencies([done]):
                handle = self.storages[target].handle
                # It replaces the variable's buffer, so values that were read before stay.
                assigned.append(self.tf.raw_ops.AssignVariableOp(resource=handle, value=value))
        return assigned

    def _stages(self, tensors: Values) -> None:
        """Lower the program in stages, each a function for XLA on one device, and the nodes between them."""
        program, wanted = self.program, [*self.program.outputs, *self.program.updates.values()]
        # A gradient cannot refer to a target inside of a function.
        ends = {i for node in program.nodes if node.op == "grad" for i in node.inputs[1:]}
        outside = {*wanted, *(i for node in program.nodes if node.op in ("transfer", "grad") for i in node.inputs)}
        sources, nodes = list[Node](), list[Node]()
        for node in program.nodes:
            # Each stage makes the generators that it uses.
            given = node.op in ("input", "shared") or (node.op in GENERATORS and outside.intersection(node.outputs))
            (sources if given else nodes).append(node)
        plan = cut(
            *(nodes, [i for node in sources for i in node.outputs], wanted),
            devices=dict(enumerate(self.devices)),
            transfers=[k for k, node in enumerate(nodes) if node.op == "transfer"],
            others=[k for k, node in enumerate(nodes) if node.op == "grad"],
            ends=ends,
        )
        self.evaluate(sources, tensors)
        for item in plan.order:
            if isinstance(item, Stage):
                self._stage(item, tensors)
            else:
                self.evaluate([item], tensors)

    def _stage(self, stage: Stage, tensors: Values) -> None:
        tf, computed = self.tf, predecessors(self.program, stage.outputs, stage.inputs) - {*stage.inputs}
        nodes = [self.program.values[i].node for i in sorted(computed)]

        def function(*values: Any) -> list[Any]:
            # The gradient of a reshape is dense: a gather's sparse one left the function with unknown rows.
            local = {j: tf.reshape(v, v.shape) for j, v in zip(stage.inputs, values, strict=True)}
            self.evaluate(nodes, local)
            return [local[i] for i in stage.outputs]

        compiled = tf.function(function, autograph=False, jit_compile=True)
        with self.place(min(stage.outputs), "s"):
            given = [tensors[j] for j in stage.inputs]
            outputs = compiled(*given)
            # TensorFlow also differentiates a call whose result is the target (python/ops/gradients_util.py), and fails
            # if the call has no arguments.
            ends = outputs if given else [tf.stop_gradient(tensor) for tensor in outputs]
        tensors.update(zip(stage.outputs, ends, strict=True))
        for i, *of_value in zip(stage.outputs, ends, outputs, strict=True):
            self.values[i] = list(dict.fromkeys(tensor.name for tensor in of_value))
        if self.backend.settings.lower_for:
            specs = [tf.TensorSpec(t.shape, t.dtype) for t in given]
            self.functions[outputs[0].op.name] = compiled, specs, stage.device
        self.stages.update({i: outputs[0].op.name for node in nodes for i in node.outputs})

    def owner(self, name: str) -> int | None:
        """The node of an op of a graph, by its name."""
        match = re.search(rf"(?:^|/){self.prefix}n(\d+)(?:_\d+)?/", name)  # the optimiser may add a prefix
        return int(match[1]) if match else None

    def check_kept(self, graph: Any) -> None:
        """Raises `UnsupportedOperation` for a gradient with residuals that XLA does not keep: a loop's outside of XLA's
        functions or in a branch not taken, a branch's outside of XLA's functions."""
        if not has_gradients(self.program) or not any(node.bodies for node in everywhere(self.program)):
            return
        variant = self.tf.variant.as_datatype_enum
        for function in graph.as_graph_def().library.function:
            results = function.signature.output_arg if "_XlaMustCompile" in function.attr else ()
            leaves = any(result.type == variant for result in results)
            for node in function.node_def:
                lost = node.op == "FakeParam" and node.attr["dtype"].type == variant
                if lost or node.op == "OptionalFromValue" or (leaves and node.op in ("While", "StatelessWhile")):
                    i = self.owner(node.name)
                    own = None if i is None else self.program.values[i]
                    raise UnsupportedOperation(
                        f"backend {self.backend.name}: XLA does not keep what the gradient"
                        f"{f' of xb.{own.op} (at {own.source})' if own else ''} needs; take tensorflow or "
                        "tensorflow-eager"
                    )

    def is_backward(self, name: str) -> bool:
        """Whether TensorFlow made the op for a gradient."""
        node = self.owner(name)
        return node is not None and self.program.values[node].op == "grad"


def _crossing(tf: Any, value: Any, source: str) -> Any:
    """A value of the device ``source`` on the device of the scope, by an op that TensorFlow's optimiser keeps. Else it
    would merge the ops on both sides: its composition of unary ops ignores devices."""
    return kept(tf, value, _crossing_back(tf, source))


@cache
def _crossing_back(tf: Any, source: str) -> str:
    """The registered name of the gradient of a crossing from ``source``, which is a crossing back."""
    name = f"{_CROSSING}{source}"

    @tf.RegisterGradient(name)  # type: ignore[untyped-decorator]
    def gradient(op: Any, cotangent: Any) -> Any:
        with tf.compat.v1.colocate_with(None, ignore_existing=True), tf.device(source):
            return _crossing(tf, cotangent, op.device)

    return name
