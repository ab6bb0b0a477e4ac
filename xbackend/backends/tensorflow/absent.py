"""TensorFlow's graphs for devices that this machine lacks: read as they are traced, before TensorFlow optimises and
partitions them. XLA lowers its functions for the device's kind. The kernels of a GPU are those that TensorFlow's
library registers, also on machines without a GPU."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from xbackend.backends.contract import Built
from xbackend.backends.lowered import EVIDENCE, LoweringReport, Part, refuse
from xbackend.backends.placement import Execution
from xbackend.backends.tensorflow.graph import Lowering
from xbackend.backends.tensorflow.reading import Observed, Received, Sizes, op_of, records
from xbackend.devices import Device

_HLO = re.compile(r"^\s*(?:ROOT )?%?\S+ = .*?[\])}] ([a-z][\w-]*)\(", re.MULTILINE)
_TARGET = re.compile(r'custom_call_target="([^"]+)"')


def built(lowering: Lowering, function: Any, compiled: Mapping[str, Any]) -> Built:
    """A concrete function as `Built`, read and never executed. ``compiled`` has the functions for XLA, with arguments
    and device, by the name of the calling op."""
    return Built(refuse, lambda: Execution({}), refuse, lambda: _report(lowering, function, compiled))


def _report(lowering: Lowering, function: Any, compiled: Mapping[str, Any]) -> LoweringReport:
    name = function.name.decode()
    traced, devices = function.graph, {name: device for device, name in lowering.backend.names.items()}
    graph = traced.as_graph_def()
    nodes = [node for node in graph.node if node.op != "Placeholder"]
    observed = Observed(EVIDENCE, compiled={*compiled})
    observed.ops = {node.name: (node.op, devices[node.device]) for node in nodes if node.device in devices}
    for call, (_, _, device) in compiled.items():
        observed.ops[call] = ("XLA computation", device)
    observed.received = list(_received(lowering, traced, nodes, observed))
    for position, output in enumerate(traced.outputs):
        if output.op.name in observed.ops:
            observed.returned[position] = observed.ops[output.op.name][1]
    parts = [_of_xla(call, *each) for call, each in compiled.items()]
    if name not in compiled:
        rest = [node for node in nodes if node.name not in compiled]
        # Bodies of loops and choices; with XLA all functions are compiled by it.
        rest += [] if lowering.xla else [node for each in graph.library.function for node in each.node_def]
        parts += _by_device(lowering, name, rest, devices)
    return LoweringReport(tuple(parts), records(lowering, observed))


def _received(lowering: Lowering, traced: Any, nodes: Sequence[Any], observed: Observed) -> Iterator[Received]:
    """The edges of the graph between devices, along which the runtime will send."""
    of_argument = {lowering.values[i][-1]: lowering.devices[i] for i in lowering.program.inputs}
    uses: dict[tuple[str, Device], list[tuple[str, int]]] = {}
    for node in nodes:
        for k, name in enumerate(node.input):
            if node.name in observed.ops and not name.startswith("^"):
                tensor = name if ":" in name else f"{name}:0"
                uses.setdefault((tensor, observed.ops[node.name][1]), []).append((node.name, k))
    sizes = Sizes(lowering.tf, traced, None)
    for (tensor, target), users in uses.items():
        maker = observed.ops.get(op_of(tensor))
        source = maker[1] if maker else of_argument.get(tensor)
        if source not in (None, target):
            size = sizes.of(tensor, traced.get_tensor_by_name(tensor).dtype.as_datatype_enum, users)
            yield Received(tensor, source, target, size, tuple(user for user, _ in users), "edge")


def _by_device(lowering: Lowering, name: str, nodes: Sequence[Any], devices: Mapping[str, Device]) -> Iterator[Part]:
    """The ops of a graph on each device; of a GPU also those without a kernel, or with one in the host's memory."""
    values = {op_of(names[0]) for names in lowering.values.values()}
    for device in lowering.backend.names:
        here = [node for node in nodes if devices.get(node.device) == device]
        kind, lacking, hosted = device.kind.upper(), list[str](), list[str]()
        for node in here if device.is_accelerator else ():
            kernel = _kernel(node, kind)
            if kernel is None:
                lacking.append(f"{node.op} {node.name}")
            elif node.name in values and node.op != "Const" and _in_host_memory(lowering.tf, node.op, kernel):
                hosted.append(f"{node.op} {node.name}")
        text = "\n".join(f"{node.name} = {node.op}({', '.join(node.input)}) {node.device}" for node in here)
        if here:
            yield Part(name, (device,), kind, dict(Counter(n.op for n in here)), text, tuple(lacking), tuple(hosted))


def _of_xla(call: str, function: Any, arguments: Sequence[Any], device: Device) -> Part:
    kind = device.kind.upper()
    text = function.experimental_get_compiler_ir(*arguments)(stage="hlo", platform_name=kind)
    ops = Counter(name for name in _HLO.findall(text) if name not in ("parameter", "tuple", "get-tuple-element"))
    ops.update(f"custom-call {target}" for target in _TARGET.findall(text))
    return Part(call, (device,), f"XLA on {kind}", dict(ops), text)


@cache
def _kernels(op: str) -> Sequence[Any]:
    from tensorflow.python.framework import kernels

    return list(kernels.get_registered_kernels_for_op(op).kernel)


def _kernel(node: Any, kind: str) -> Any:
    """The kernel of an op for a kind of device, else one for any kind; `None` where there is none."""

    def allowed(attribute: Any, values: Any) -> bool:
        if values.type:
            return {*(attribute.list.type or [attribute.type])} <= {*values.type}
        return attribute.s in values.s

    def fits(kernel: Any) -> bool:
        return all(allowed(node.attr[each.name], each.allowed_values.list) for each in kernel.constraint)

    every = [kernel for kernel in _kernels(node.op) if not kernel.label and fits(kernel)]
    return next((k for wanted in (kind, "DEFAULT") for k in every if k.device_type == wanted), None)


def _in_host_memory(tf: Any, op: str, kernel: Any) -> bool:
    """Whether a kernel for a GPU makes all its results in the memory of the host, as kernels of int32 do."""
    from tensorflow.python.framework import op_def_registry

    made = {result.name for result in op_def_registry.get(op).output_arg}
    return bool(made) and made <= {*kernel.host_memory_arg}
