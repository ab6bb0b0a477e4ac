"""TensorFlow op by op: the ops of a graph as a list of prepared calls.

A call of `tf.matmul` spends most of its time on finding out what it was given; here that is known. The backward ops are
those that TensorFlow's gradient registry put into the graph, the same that a `tf.GradientTape` would run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from xbackend.backends.base import Built, Value
from xbackend.backends.placement import Execution
from xbackend.backends.tensorflow_graph import Lowering, Observed, records
from xbackend.devices import Device

if TYPE_CHECKING:
    from xbackend.backends.tensorflow import Runtime


class Replay:
    """The ops of a graph as prepared calls: the op's name, its attributes, its device, where its inputs are found.

    What is constant in the backward ops (shapes, axes) is computed here, once.
    """

    def __init__(
        self, tf: Any, runtime: Runtime, lowering: Lowering, function: Any, devices: Mapping[str, Device]
    ) -> None:
        self.tf = tf
        self.runtime = runtime
        self.lowering = lowering
        self.devices = devices
        self.slots: list[Any] = []
        self.steps: list[tuple[str, str, tuple[int, ...], tuple[Any, ...], int, int, tuple[int, ...]]] = []
        self.made: dict[int, str] = {}  # slot -> name of the op that fills it
        graph = function.graph
        where: dict[Any, int] = {}
        for tensor in graph.inputs[: len(lowering.program.inputs)]:
            where[tensor.ref()] = self._slot(None)
        for outside, tensor in zip(function.captured_inputs, graph.inputs[len(lowering.program.inputs) :], strict=True):
            where[tensor.ref()] = self._slot(outside)
        self.constants = set(range(len(lowering.program.inputs), len(self.slots)))
        needed = self._needed(graph)
        for op in graph.get_operations():
            if op in needed and op.type != "Placeholder":
                self._prepare(op, where)
        self.outputs = [where[tensor.ref()] for tensor in graph.outputs]
        self._free_early()

    def _slot(self, value: Any) -> int:
        self.slots.append(value)
        return len(self.slots) - 1

    def _needed(self, graph: Any) -> set[Any]:
        """The ops that the outputs and the updates depend on."""
        found = {tensor.op for tensor in graph.outputs} | set(graph.control_outputs)
        todo = list(found)
        while todo:
            for tensor in todo.pop().inputs:
                if tensor.op not in found:
                    found.add(tensor.op)
                    todo.append(tensor.op)
        return found

    def _prepare(self, op: Any, where: dict[Any, int]) -> None:
        tf, runtime = self.tf, self.runtime
        if op.type == "Const":
            with tf.device(op.device):
                where[op.outputs[0].ref()] = slot = self._slot(tf.constant(tf.make_ndarray(op.get_attr("value"))))
            self.constants.add(slot)
            self.made[slot] = op.name
            return
        inputs = tuple(where[tensor.ref()] for tensor in op.inputs)
        attributes = _attributes(op)
        first = len(self.slots)
        for tensor in op.outputs:
            slot = where[tensor.ref()] = self._slot(None)
            self.made[slot] = op.name
        prepared = op.type == "Identity" or self.lowering.is_backward(op.name)
        if inputs and prepared and self.constants.issuperset(inputs):
            found = runtime.run(
                runtime.handle, op.device, op.type, [self.slots[j] for j in inputs], attributes, len(op.outputs)
            )
            self.slots[first : first + len(found)] = found
            self.constants.update(range(first, first + len(found)))
            return
        self.steps.append((op.device, op.type, inputs, attributes, len(op.outputs), first, ()))

    def _free_early(self) -> None:
        """Give every step the slots that nothing reads after it, so that memory is free as soon as in a user's code."""
        kept = self.constants | set(self.outputs)
        for k in range(len(self.steps) - 1, -1, -1):
            device, kind, inputs, attributes, count, first, _ = self.steps[k]
            mine = {*inputs, *range(first, first + count)}
            last = tuple(sorted(mine - kept))
            kept |= mine
            self.steps[k] = (device, kind, inputs, attributes, count, first, last)

    def built(self, failed: Callable[[Any], Exception]) -> Built:
        run, handle, failure = self.runtime.run, self.runtime.handle, self.runtime.failure
        replay = self._straight_line(run, handle)
        done = Execution({})
        fresh = True

        def execute(*values: Value) -> Sequence[Value]:
            nonlocal fresh, done
            try:
                if fresh:
                    results, done = self._observe(values)
                    fresh = False
                    return results
                return replay(*values)
            except failure as error:
                raise failed(error) from error

        return Built(execute, lambda: done)

    def _observe(self, values: Sequence[Value]) -> tuple[list[Value], Execution]:
        """The results of one execution, and what the runtime says about each op."""
        run, handle = self.runtime.run, self.runtime.handle
        observed = Observed("device of the result")
        slots = self.slots.copy()
        slots[: len(values)] = values
        for device, kind, inputs, attributes, count, first, _ in self.steps:
            found = run(handle, device, kind, [slots[j] for j in inputs], attributes, count)
            slots[first : first + count] = found
            if found:
                observed.ops[self.made[first]] = (kind, self.devices[found[0].backing_device])
        return [slots[j] for j in self.outputs], records(self.lowering, self._with_prepared(observed))

    def _straight_line(self, run: Any, handle: Any) -> Callable[..., list[Value]]:
        """The steps as one Python function without a loop: for small arrays the loop would cost as much as an op.

        A variable per slot; constants, names and attributes are the function's globals.
        """
        names: dict[str, Any] = {"run": run, "handle": handle}
        names.update((f"v{j}", self.slots[j]) for j in self.constants)
        arguments = ", ".join(f"v{j}" for j in range(len(self.lowering.program.inputs)))
        lines = [f"def replay({arguments}):"]
        for k, (device, kind, inputs, attributes, count, first, last) in enumerate(self.steps):
            names[f"a{k}"] = attributes
            call = f"run(handle, {device!r}, {kind!r}, [{', '.join(f'v{j}' for j in inputs)}], a{k}, {count})"
            made = ", ".join(f"v{j}" for j in range(first, first + count))
            lines.append(f"    [{made}] = {call}" if made else f"    {call}")
            if last:
                lines.append(f"    del {', '.join(f'v{j}' for j in last)}")
        lines.append(f"    return [{', '.join(f'v{j}' for j in self.outputs)}]")
        exec("\n".join(lines), names)
        replay: Callable[..., list[Value]] = names["replay"]
        return replay

    def _with_prepared(self, observed: Observed) -> Observed:
        """What was computed here is on a device too."""
        for slot, name in self.made.items():
            if slot in self.constants:
                observed.ops[name] = ("Const", self.devices[self.slots[slot].backing_device])
        return observed


def _attributes(op: Any) -> tuple[Any, ...]:
    """The attributes that a call of the op has to give, as name, value, name, value: each one costs time.

    The runtime reads types from the inputs, unless one is a list, and fills in defaults, but not those of types.
    """
    arguments = op.op_def.input_arg
    listed = any(argument.number_attr or argument.type_list_attr for argument in arguments)
    read = set() if listed else {argument.type_attr for argument in arguments}
    result: list[Any] = []
    for attribute in op.op_def.attr:
        name = attribute.name
        default = attribute.HasField("default_value") and attribute.default_value == op.node_def.attr[name]
        if name not in read and not (default and attribute.type != "type"):
            result += [name, op.get_attr(name)]
    return tuple(result)
