"""The execution of a program, read back from TensorFlow by the names of a lowering's ops. The partitioner makes a pair
of ``_Send`` and ``_Recv`` for each transfer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from xbackend.backends.placement import Backward, Executed, Execution, Transferred
from xbackend.backends.tensorflow.graph import Lowering
from xbackend.devices import Device
from xbackend.errors import BackendError
from xbackend.program import analyses
from xbackend.program.ops import GENERATORS


@dataclass(frozen=True, slots=True)
class Received:
    """A received value: the name of its tensor, source, target, bytes, and the ops that use it on the target. ``op`` is
    the type of TensorFlow's op that received it, ``name`` its name, ``sender`` the name of the sending op."""

    tensor: str
    source: Device
    target: Device
    bytes: int
    users: tuple[str, ...]
    op: str
    name: str = ""
    sender: str = ""

    def __str__(self) -> str:
        return f"{self.op} of {self.tensor}"


@dataclass
class Observed:
    """The executed ``ops`` by TensorFlow's names; the names of calls that XLA ``compiled``; ``composed``, the number of
    ops that the optimiser fused into one; and the devices of the ``returned`` outputs, by position."""

    evidence: str
    ops: dict[str, tuple[str, Device]] = field(default_factory=dict)
    compiled: set[str] = field(default_factory=set)
    composed: dict[str, int] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    returned: dict[int, Device] = field(default_factory=dict)


def read_partitions(
    lowering: Lowering, traced: Any, collected: Iterable[Any], devices: Mapping[str, Device]
) -> Observed:
    """The execution of a program, from its partitioned graphs. Raises `BackendError` if a transfer's size is
    unknown."""
    observed = Observed("partitioned graph")
    for graph in (graph for metadata in collected for graph in metadata.function_graphs):
        nodes = [node for part in graph.partition_graphs for node in part.node]
        if any(node.name.startswith(lowering.prefix) for node in nodes):  # not another function's
            _read_ops(observed, nodes, devices)
            sizes = Sizes(lowering.tf, traced, graph.post_optimization_graph)
            _read_transfers(observed, nodes, devices, sizes)
    return observed


def _read_ops(observed: Observed, nodes: Iterable[Any], devices: Mapping[str, Device]) -> None:
    for node in nodes:
        device = devices.get(node.device)
        if device is None or node.op in _EXCHANGES:
            continue
        if node.op == "_Retval":
            observed.returned[node.attr["index"].i] = device
            continue
        observed.ops[node.name] = (node.op, device)
        if "_XlaMustCompile" in node.attr and node.attr["_XlaMustCompile"].b:
            observed.compiled.add(node.name)
        if node.op == "_UnaryOpsComposition":
            observed.composed[node.name] = len(node.attr["op_names"].list.s)


_MERGED = Executed(None, "", "not among the executed ops: merged with others", "fused")
_HOST = Device("cpu", 0)
_EXCHANGES = ("_Send", "_Recv", "_HostSend", "_HostRecv")


def _read_transfers(observed: Observed, nodes: Sequence[Any], devices: Mapping[str, Device], sizes: Sizes) -> None:
    by_name = {node.name: node for node in nodes}
    senders = {(node.attr["tensor_name"].s, node.attr["recv_device"].s): node for node in nodes if "Send" in node.op}
    users: dict[str, list[tuple[str, int]]] = {}
    for node in nodes:
        for k, name in enumerate(node.input):
            users.setdefault(name.removeprefix("^").partition(":")[0], []).append((node.name, k))
    for node in nodes:
        if node.op not in ("_Recv", "_HostRecv"):
            continue
        sender = senders[node.attr["tensor_name"].s, node.attr["recv_device"].s]
        tensor = sender.input[0] if ":" in sender.input[0] else f"{sender.input[0]}:0"
        made_by = by_name[op_of(tensor)]
        if _is_signal(made_by):
            continue
        if made_by.op == "_Arg":  # the runtime may have renamed it
            tensor = sizes.traced.inputs[made_by.attr["index"].i].name
        source, target = (devices[node.attr[end].s.decode()] for end in ("send_device", "recv_device"))
        if source == target:  # between the memory of a GPU and the host's, where TensorFlow has axes and conditions
            source, target = (_HOST, target) if sender.op == "_HostSend" else (source, _HOST)
        uses = users.get(node.name, [])
        one = any(by_name[user].op == "LoopCond" for user, _ in uses)  # a condition: a boolean, of unknown shape
        size = 1 if one else sizes.of(tensor, node.attr["tensor_type"].type, uses)
        by = tuple(user for user, _ in uses)
        observed.received.append(Received(tensor, source, target, size, by, node.op, node.name, sender.name))


def _is_signal(node: Any) -> bool:
    """Whether an op only signals that another one is done: a control edge between devices sends an empty array."""
    return bool(node.op == "Const" and math.prod(d.size for d in node.attr["value"].tensor.tensor_shape.dim) == 0)


class Sizes:
    """The bytes of tensors: from the traced or the optimised graph, or, of exits of a loop, from the inputs of their
    users."""

    def __init__(self, tf: Any, traced: Any, optimised: Any) -> None:
        self.tf, self.traced, self.optimised = tf, traced, optimised

    def of(self, tensor: str, dtype: int, uses: Iterable[tuple[str, int]]) -> int:
        """The bytes of a tensor; ``uses`` are ops that read it, with the number of the input."""
        for count in self._counts(tensor, uses):
            if count is not None:
                return count * int(self.tf.as_dtype(dtype).size)
        raise BackendError(f"TensorFlow does not tell the shape of {tensor}, which it sent to another device")

    def _counts(self, tensor: str, uses: Iterable[tuple[str, int]]) -> Iterator[int | None]:
        for graph in ("traced", "imported"):
            with suppress(KeyError, ValueError):  # it has no such tensor
                yield getattr(self, graph).get_tensor_by_name(tensor).shape.num_elements()
        for op, number in uses:
            with suppress(KeyError, ValueError, IndexError):
                yield self.traced.get_operation_by_name(op).inputs[number].shape.num_elements()

    @cached_property
    def imported(self) -> Any:
        graph = self.tf.Graph()
        with graph.as_default():
            self.tf.graph_util.import_graph_def(self.optimised, name="")  # infers the shapes
        return graph


def op_of(tensor: str) -> str:
    return tensor.rpartition(":")[0]


def records(lowering: Lowering, observed: Observed) -> Execution:
    """The records of each node of the program, and of the transfers."""
    if not observed.ops and not observed.returned:
        return Execution({})  # nothing was read, which differs from 'merged with others'
    return _Records(lowering, observed).execution()


class _Records:
    def __init__(self, lowering: Lowering, observed: Observed) -> None:
        self.lowering, self.program, self.observed = lowering, lowering.program, observed
        self.transfers: dict[int, Received] = {}  # transfer node -> its received value
        self.shared: dict[int, int] = {}  # transfer node -> another one that received the same value
        self.claimed: dict[Received, int] = {}  # received value -> transfer node
        self.by_user: dict[str, list[Received]] = {}
        self.by_tensor: dict[str, list[Received]] = {}
        for received in observed.received:
            self.by_tensor.setdefault(received.tensor, []).append(received)
            for user in received.users:
                self.by_user.setdefault(user, []).append(received)
        self.live = analyses.needed(self.program)
        transfers = [i for i, node in enumerate(self.program.values) if node.op == "transfer"]
        for i in transfers:
            self._claim(i, self._came(i))
        for i in transfers:
            # An unclaimed live transfer went to another device than asked; a dead one went nowhere.
            if i in self.live and i not in self.transfers and i not in self.shared:
                self._claim(i, [r for r in self._received(i) if r not in self.claimed][:1])

    def execution(self) -> Execution:
        made = tuple(map(self._transferred, self.observed.received))
        return Execution(self._ops(), made, tuple(self._backward()))

    def _transferred(self, value: Received) -> Transferred:
        node, backward, evidence = self.claimed.get(value), self.lowering.is_backward, self.observed.evidence
        gradient = backward(op_of(value.tensor)) or (bool(value.users) and all(map(backward, value.users)))
        of_itself = node is None and gradient
        return Transferred(value.source, value.target, value.bytes, node, of_itself, str(value), evidence)

    def _came(self, i: int) -> list[Received]:
        """The values received for a transfer: used by its op, or, if that was not executed, with a predecessor's name
        and on the device asked for."""
        taken = self.by_user.get(op_of(self._value(i)))
        return taken or [r for r in self._received(i) if r.target == self.lowering.devices[i]]

    def _received(self, i: int) -> list[Received]:
        """The received values, on any device, of a transfer whose op was not executed."""
        if op_of(self._value(i)) in self.observed.ops:
            return []
        return [r for tensor in self._chain(i) for r in self.by_tensor.get(tensor, ())]

    def _claim(self, i: int, candidates: Sequence[Received]) -> None:
        for received in candidates:
            if self.claimed.setdefault(received, i) == i:
                self.transfers[i] = received
                return
            self.shared[i] = self.claimed[received]

    def _value(self, i: int) -> str:
        return self.lowering.values.get(i, [""])[0]

    def _chain(self, i: int) -> list[str]:
        """The tensors of a value, then of its predecessors through transfers."""
        names, nodes = [], self.program.values
        while True:
            names += self.lowering.values.get(i, [])
            if nodes[i].op != "transfer":
                return names
            (i,) = nodes[i].inputs

    def _ops(self) -> dict[int, Executed]:
        result: dict[int, Executed] = {}
        observed, program, constant = self.observed, self.program, analyses.constant(self.program)
        for i, node in enumerate(program.values):
            if node.op in ("input", "shared"):
                continue
            call, name = self.lowering.stages.get(i), op_of(self._value(i))
            if call in observed.ops:
                result[i] = self._compiled(call)
            elif i in self.transfers:
                result[i] = Executed(self.transfers[i].target, str(self.transfers[i]), observed.evidence)
            elif i in self.shared:
                evidence = f"its value came with the transfer of node {self.shared[i]}"
                result[i] = Executed(self.transfers[self.shared[i]].target, "", evidence, "fused")
            elif name in observed.ops:
                kind, device = observed.ops[name]
                # A transfer of a folded value receives nothing: the value is on its device.
                folded = (kind == "Const" and node.op not in GENERATORS) or (node.op == "transfer" and i in constant)
                result[i] = Executed(device, kind, observed.evidence, "folded" if folded else "")
            elif (executed := self._controlled(i)) is not None:
                result[i] = executed
            elif i in self.live and node.op in ("transfer", "grad"):
                result[i] = self._handed_on(i)
            elif i in self.live and i not in constant:
                result[i] = _MERGED
        return {**result, **self._composed()}

    def _controlled(self, i: int) -> Executed | None:
        """A loop or a choice, by the ops of its body, if all of them are on one device."""
        if not self.program.values[i].bodies:
            return None
        first = self.program.values[i].node.outputs[0]  # all results have its name
        ran = [op for name, op in self.observed.ops.items() if self.lowering.owner(name) == first]
        devices = {device for kind, device in ran if kind != "Const"}
        if len(devices) != 1:
            return None
        return Executed(devices.pop(), f"{len(ran)} ops of {self.program.values[i].op}", self.observed.evidence)

    def _composed(self) -> dict[int, Executed]:
        """The nodes that the optimiser fused into one op, which has the name of the last one."""
        result: dict[int, Executed] = {}
        for name, count in self.observed.composed.items():
            node, (kind, device) = self.lowering.owner(name), self.observed.ops[name]
            while node is not None and count and self._merged(node) and not self.lowering.is_backward(name):
                result[node] = Executed(device, kind, self.observed.evidence, "fused")
                count -= self.program.values[node].op != "transfer"
                node = next(iter(self.program.values[node].inputs), None)
        return result

    def _merged(self, node: int) -> bool:
        """Whether a fused op may contain the node: it has no op of its own, and is no loop, whose ops are no nodes."""
        return not self.program.values[node].bodies and op_of(self._value(node)) not in self.observed.ops

    def _backward(self) -> Iterator[Backward]:
        """The executed ops that TensorFlow made for gradients, without folded ones."""
        observed, lowering = self.observed, self.lowering
        for name, (kind, device) in observed.ops.items():
            gradient = lowering.owner(name)
            if gradient is not None and lowering.is_backward(name) and "/gradients" in name and kind != "Const":
                forward, bound = lowering.backward.get(name, (None, None))  # missing: made by the optimiser
                yield Backward(gradient, forward, bound, device, kind, observed.evidence)
        for group in (node.outputs for node in self.program.nodes if node.op == "grad"):
            call = lowering.stages.get(group[0])
            if call in observed.ops:  # it contains the whole backward pass
                whole = self._compiled(call)
                yield Backward(group[0], None, None, whole.device, whole.framework_op, whole.evidence, whole.status)

    def _compiled(self, call: str) -> Executed:
        kind, device = self.observed.ops[call]
        by = "XLA computation" if call in self.observed.compiled else kind
        return Executed(device, f"{by} {call}", self.observed.evidence, "fused")

    def _handed_on(self, i: int) -> Executed:
        """A node that only passes a value on, whose op was replaced by sending and receiving."""
        bound, observed = self.lowering.devices[i], self.observed
        for position, output in enumerate(self.program.outputs):
            if output == i and position in observed.returned:
                return Executed(observed.returned[position], "_Retval", observed.evidence)
        there: dict[Device, str] = {}
        for tensor in self._chain(i):
            there.update((r.target, r.op) for r in self.by_tensor.get(tensor, ()))
            if op_of(tensor) in observed.ops:
                kind, device = observed.ops[op_of(tensor)]
                there.setdefault(device, kind)
                break
        for device in sorted(there, key=lambda d: (d != bound, "Recv" not in there[d], str(d))):
            return Executed(device, there[device], observed.evidence)
        return _MERGED
