"""TensorFlow op by op: the ops of a graph, and the backward ops of TensorFlow's gradient registry, as a list of
prepared calls. `tf.matmul` spends most of its time on examining its arguments, which are known here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xbackend.backends.codegen import FunctionSource
from xbackend.backends.contract import Built, Value
from xbackend.backends.placement import Execution, ProfiledCall, Span
from xbackend.backends.tensorflow.adapter import TensorFlow
from xbackend.backends.tensorflow.graph import Lowering
from xbackend.backends.tensorflow.reading import Observed, Received, op_of, records
from xbackend.devices import Device
from xbackend.program.analyses import last_uses
from xbackend.program.program import Program

_OF_SHAPES = ("Shape", "ShapeN")  # ops that read shapes only
PART = 32  # steps in one function of the replay


class Replay:
    """The ops of a graph as prepared calls: name, attributes, device, and slots of the inputs. Constants of the
    backward ops (shapes, axes) are computed here, once."""

    def __init__(self, backend: TensorFlow, lowering: Lowering, function: Any) -> None:
        self.backend, self.tf, self.runtime, self.lowering = backend, backend.tf, backend.runtime, lowering
        self.devices: Mapping[str, Device] = backend.by_name
        self.slots: list[Any] = []
        self.steps: list[tuple[str, str, tuple[int, ...], tuple[Any, ...], int, int, tuple[int, ...]]] = []
        self.made: dict[int, str] = {}  # slot -> name of the tensor that fills it
        self.called: list[str] = []  # step -> name of its op
        graph = function.graph
        self.where: dict[Any, int] = {}  # a tensor's reference -> its slot
        arguments = len(lowering.program.inputs)
        for tensor in graph.inputs[:arguments]:
            self._slot(tensor)
        for outside, tensor in zip(function.captured_inputs, graph.inputs[arguments:], strict=True):
            self._slot(tensor, outside)
        self.constants = set(range(arguments, len(self.slots)))
        needed = {*_in_order([*(tensor.op for tensor in graph.outputs), *graph.control_outputs])}
        for op in _in_order(op for op in graph.get_operations() if op in needed):
            if op.type != "Placeholder":
                self._prepare(op)
        self.outputs = [self.where[tensor.ref()] for tensor in graph.outputs]
        used = [(*inputs, *range(first, first + count)) for _, _, inputs, _, count, first, _ in self.steps]
        last = last_uses(used, [*self.constants, *self.outputs])
        self.steps = [(*step[:-1], mine) for step, mine in zip(self.steps, last, strict=True)]

    def _slot(self, tensor: Any, value: Any = None) -> int:
        slot = self.where[tensor.ref()] = len(self.slots)
        self.made[slot] = tensor.name
        self.slots.append(value)
        return slot

    def _prepare(self, op: Any) -> None:
        tf, runtime = self.tf, self.runtime
        if op.type == "Const":
            value = self.backend.put(tf.make_ndarray(op.get_attr("value")), self.devices[op.device])
            self.constants.add(self._slot(op.outputs[0], value))
            return
        if op.type in _OF_SHAPES and all(tensor.shape.is_fully_defined() for tensor in op.inputs):
            for tensor, argument in zip(op.outputs, op.inputs, strict=True):
                lengths = np.array(argument.shape.as_list(), tensor.dtype.as_numpy_dtype)
                self.constants.add(self._slot(tensor, self.backend.put(lengths, self.devices[op.device])))
            return
        inputs = tuple(self.where[tensor.ref()] for tensor in op.inputs)
        attributes = _attributes(op)
        first = len(self.slots)
        for tensor in op.outputs:
            self._slot(tensor)
        prepared = op.type == "Identity" or self.lowering.is_backward(op.name)
        if inputs and prepared and self.constants.issuperset(inputs):
            given, count = [self.slots[j] for j in inputs], len(op.outputs)
            self.slots[first:] = runtime.run(runtime.handle, op.device, op.type, given, attributes, count)
            self.constants.update(range(first, first + count))
            return
        self.steps.append((op.device, op.type, inputs, attributes, len(op.outputs), first, ()))
        self.called.append(op.name)

    def built(self) -> Built:
        run, handle, failure = self.runtime.run, self.runtime.handle, self.runtime.failure
        replay = self._straight_line(run, handle)
        done = Execution({})
        fresh = True

        def observe(values: Sequence[Value]) -> tuple[list[Value], ProfiledCall]:
            nonlocal fresh, done
            observed = Observed("device of the result")
            try:
                results, call = self._step_by_step(values, observed)
            except failure as error:
                raise self.backend.failed(error) from error
            for slot in self.constants.intersection(self.made):  # folded values are on a device, too
                observed.ops[op_of(self.made[slot])] = ("Const", self._where(self.slots[slot]))
            done, fresh = records(self.lowering, observed), False
            return results, call

        def execute(*values: Value) -> Sequence[Value]:
            if fresh:
                return observe(values)[0]
            try:
                return replay(*values)
            except failure as error:
                raise self.backend.failed(error) from error

        return Built(execute, lambda: done, lambda *values: observe(values)[1])

    def _step_by_step(self, values: Sequence[Value], observed: Observed) -> tuple[list[Value], ProfiledCall]:
        """The results of one execution that waits for each op, and the spans. Records the ops in ``observed``."""
        run, handle = self.runtime.run, self.runtime.handle
        slots, spans = self.slots.copy(), list[Span]()
        slots[: len(values)] = values
        copies: dict[tuple[int, Device], Received] = {}
        self.backend.synchronize(values)
        start = time.perf_counter()
        for name, (device, kind, inputs, attributes, count, first, _) in zip(self.called, self.steps, strict=True):
            given = [slots[j] for j in inputs]
            fresh = self._copied(name, dict(zip(inputs, given, strict=True)), self.devices[device], copies)
            begun = time.perf_counter() - start
            slots[first : first + count] = results = run(handle, device, kind, given, attributes, count)
            self.backend.synchronize(results)
            end = time.perf_counter() - start
            where = self._where(results[0]) if results else self.devices[device]
            moved = ("transfer", f"{fresh[0]} to {where}") if fresh and kind == "Identity" else ("compute", name)
            spans.append(Span(where, begun, end, *moved))
            if results:
                observed.ops[name] = (kind, where)
        seconds = time.perf_counter() - start
        observed.received += copies.values()
        return [slots[j] for j in self.outputs], ProfiledCall(spans, seconds)

    def _where(self, value: Value) -> Device:
        """The device of an op's result. An accelerator keeps lengths and axes (int32) in the host's memory."""
        of_op, of_memory = self.devices[value.device], self.devices[value.backing_device]
        return of_op if of_op.is_accelerator and value.dtype == self.tf.int32 else of_memory

    def _copied(
        self, op: str, given: Mapping[int, Value], device: Device, copies: dict[tuple[int, Device], Received]
    ) -> list[Device]:
        """The devices of the inputs that the runtime will copy, silently, to an op's device; a second op there reuses
        the copy."""
        fresh = []
        for slot, value in given.items():
            home = self._where(value)
            if value.dtype == self.tf.resource or home == device:
                continue
            known = copies.get((slot, device))
            if known is None:
                size = value.shape.num_elements() * value.dtype.size
                copies[slot, device] = Received(self.made[slot], home, device, size, (op,), "silent copy")
                fresh.append(home)
            else:
                copies[slot, device] = replace(known, users=(*known.users, op))
        return fresh

    def _straight_line(self, run: Any, handle: Any) -> Callable[..., list[Value]]:
        """The steps as straight-line Python, `PART` in a function: TensorFlow asks Python for the current line at each
        call, which Python counts from the function's start. Slots of a single function are local variables; several
        functions share the list ``v``."""
        count, outputs, title = len(self.lowering.program.inputs), self.outputs, self.lowering.program.name
        objects: dict[str, Any] = {"run": run, "handle": handle}
        if len(self.steps) <= PART:
            objects |= {f"c{j}": self.slots[j] for j in self.constants}
            local = [f"c{j}" if j in self.constants else f"v{j}" for j in range(len(self.slots))]
            whole = FunctionSource(title, local[:count])
            self._write(whole, range(len(self.steps)), local, objects)
            whole.line(f"return [{', '.join(local[j] for j in outputs)}]")
            return whole.compile()
        held = [f"v[{j}]" for j in range(len(self.slots))]
        parts = []
        for begin in range(0, len(self.steps), PART):
            part = FunctionSource(f"{title}, from step {begin}", ["v"])
            self._write(part, range(begin, min(begin + PART, len(self.steps))), held, objects)
            parts.append(part.compile())
        slots = self.slots

        def replay(*values: Value) -> list[Value]:
            v = slots.copy()
            v[:count] = values
            for part in parts:
                part(v)
            return [v[j] for j in outputs]

        return replay

    def _write(
        self, source: FunctionSource, steps: Iterable[int], slots: Sequence[str], objects: Mapping[str, Any]
    ) -> None:
        """Write the source of some steps with these names of the slots; attributes are added to the objects."""
        source.objects |= objects
        for k in steps:
            device, kind, inputs, attributes, count, first, last = self.steps[k]
            source.objects[f"a{k}"] = attributes
            given = ", ".join(slots[j] for j in inputs)
            call = f"run(handle, {device!r}, {kind!r}, [{given}], a{k}, {count})"
            made = ", ".join(slots[first : first + count])
            source.step(f"[{made}]" if made else "", call, [slots[j] for j in last])


def _in_order(ops: Iterable[Any]) -> list[Any]:
    """The ops in topological order, else as created: the gradient of a loop adds residuals to an earlier op."""
    order: dict[Any, None] = {}
    todo = [*ops][::-1]
    while todo:
        op = todo.pop()
        if op in order:
            continue
        missing = [tensor.op for tensor in op.inputs if tensor.op not in order]
        if missing:
            todo += [op, *reversed(missing)]
        else:
            order[op] = None
    return [*order]


def _attributes(op: Any) -> tuple[Any, ...]:
    """The attributes that a call of the op needs, as name, value, name, value: each one costs time. The runtime infers
    types from the inputs, unless one is a list, and fills in defaults, except those of types."""
    arguments = op.op_def.input_arg
    listed = any(argument.number_attr or argument.type_list_attr for argument in arguments)
    read = set() if listed else {argument.type_attr for argument in arguments}
    result: list[Any] = []
    for attribute in op.op_def.attr:
        name = attribute.name
        default = attribute.HasField("default_value") and attribute.default_value == op.node_def.attr[name]
        # The shapes of a loop's results are for the graph only.
        if name not in read and attribute.type != "list(shape)" and not (default and attribute.type != "type"):
            value = op.get_attr(name)
            if attribute.type == "func":
                value = value.name
            elif attribute.type == "shape":
                value = None if value.unknown_rank else [dim.size for dim in value.dim]
            result += [name, value]
    return tuple(result)


class TensorFlowEager(TensorFlow):
    """Op by op: the ops of the graph, not optimised, each executed alone on its device."""

    added: tuple[str, ...] = (
        *TensorFlow.added,
        "ops prepared once, in the place of calls of TensorFlow's functions in Python",
        "loops and choices as one op each",
    )
    carried: Mapping[str, str] = {}  # single ops take int32 on its own device
    common_pool = ""  # one op computes at a time

    def build(self, program: Program) -> Built:
        lowering = Lowering(self, program)
        return Replay(self, lowering, self.graph(lowering)).built()
