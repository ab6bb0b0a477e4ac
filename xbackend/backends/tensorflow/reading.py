"""What TensorFlow executed of a program, read back: where each op ran, what was sent to another device, and when.

The names that a lowering gave to its ops survive TensorFlow's optimiser and partitioner, so an executed op says which
node it belongs to. Values go from device to device as pairs of ``_Send`` and ``_Recv``, which the partitioner makes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from xbackend.backends.placement import Backward, Executed, Execution, Transferred, with_folded
from xbackend.backends.tensorflow.graph import Lowering
from xbackend.devices import Device
from xbackend.errors import BackendError
from xbackend.program import analyses
from xbackend.program.ops import GENERATORS


@dataclass(frozen=True, slots=True)
class Received:
    """A value that came to a device: its name as a tensor, from where to where, its bytes, the ops that use it there.

    ``op`` is TensorFlow's op that received it, ``name`` the name of that one, ``sender`` of the one that sent it.
    """

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
    """What executed, by TensorFlow's names.

    ``ops``: name to type and device. ``compiled``: those of them that XLA compiled. ``composed``: how many ops the
    optimiser put into one, by its name. ``returned``: the devices that the outputs were on, by their position.
    """

    evidence: str
    ops: dict[str, tuple[str, Device]] = field(default_factory=dict)
    compiled: set[str] = field(default_factory=set)
    composed: dict[str, int] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    returned: dict[int, Device] = field(default_factory=dict)


def read_partitions(
    lowering: Lowering, traced: Any, collected: Iterable[Any], devices: Mapping[str, Device]
) -> Observed:
    """What executed of a program, from its partitioned graphs (``RunMetadata`` of collected calls).

    ``traced`` is the graph that it was lowered to. Raises `BackendError` where a transfer's size is not to be found.
    """
    observed = Observed("partitioned graph")
    for graph in (graph for metadata in collected for graph in metadata.function_graphs):
        nodes = [node for part in graph.partition_graphs for node in part.node]
        if any(node.name.startswith(lowering.prefix) for node in nodes):  # else it is another function's
            _read_ops(observed, nodes, devices)
            sizes = _Sizes(lowering.tf, traced, graph.post_optimization_graph)
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
_EXCHANGES = ("_Send", "_Recv", "_HostSend", "_HostRecv")


def _read_transfers(observed: Observed, nodes: Sequence[Any], devices: Mapping[str, Device], sizes: _Sizes) -> None:
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
        uses = users.get(node.name, [])
        size = sizes.of(tensor, node.attr["tensor_type"].type, uses)
        by = tuple(user for user, _ in uses)
        observed.received.append(Received(tensor, source, target, size, by, node.op, node.name, sender.name))


def _is_signal(node: Any) -> bool:
    """Whether an op only says that another one is done: a control edge between devices sends an array of nothing."""
    return bool(node.op == "Const" and math.prod(d.size for d in node.attr["value"].tensor.tensor_shape.dim) == 0)


class _Sizes:
    """The bytes of tensors, from the traced graph; from the optimised one for what only the optimiser made; from what
    takes them in the traced graph for what was made after that, as the exits of a loop."""

    def __init__(self, tf: Any, traced: Any, optimised: Any) -> None:
        self.tf, self.traced, self.optimised = tf, traced, optimised

    def of(self, tensor: str, dtype: int, uses: Iterable[tuple[str, int]]) -> int:
        """Of a tensor, and of ops that take it there as the input with that number."""
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
    """The name of the op that makes a tensor."""
    return tensor.rpartition(":")[0]


def records(lowering: Lowering, observed: Observed) -> Execution:
    """What became of each node of the program, and the transfers that were made."""
    if not observed.ops and not observed.returned:
        return Execution({})  # nothing was read; that is not the same as 'merged with others'
    return _Records(lowering, observed).execution()


class _Records:
    """The records of one execution."""

    def __init__(self, lowering: Lowering, observed: Observed) -> None:
        self.lowering, self.program, self.observed = lowering, lowering.program, observed
        self.transfers: dict[int, Received] = {}  # node -> what it was executed as
        self.shared: dict[int, int] = {}  # node -> the transfer with which its value came
        self.claimed: dict[Received, int] = {}  # the transfers by what they were executed as
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
            # What no other node stands for went to another device than was asked; what nothing uses went nowhere.
            if i in self.live and i not in self.transfers and i not in self.shared:
                self._claim(i, [r for r in self._received(i) if r not in self.claimed][:1])

    def execution(self) -> Execution:
        made = (self._transferred(received, self.claimed.get(received)) for received in self.observed.received)
        return Execution(self._ops(), tuple(made), with_folded(self.program, self._backward()))

    def _transferred(self, value: Received, node: int | None) -> Transferred:
        backward, evidence = self.lowering.is_backward, self.observed.evidence
        gradient = backward(op_of(value.tensor)) or (bool(value.users) and all(map(backward, value.users)))
        of_itself = node is None and gradient
        return Transferred(value.source, value.target, value.bytes, node, of_itself, str(value), evidence)

    def _came(self, i: int) -> list[Received]:
        """What a transfer of the program may have been executed as, on the device that it asked for.

        Its own op takes the value that was received, or the optimiser left that op out and the value is received under
        the name of what it was made from.
        """
        taken = self.by_user.get(op_of(self._value(i)))
        return taken or [r for r in self._received(i) if r.target == self.lowering.devices[i]]

    def _received(self, i: int) -> list[Received]:
        """Where the value of a transfer came to that has no op of its own among the executed ones."""
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
        """The tensors that a node's value comes from, itself first, through nodes that only hand it on."""
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
                # A transfer of what was computed while compiling receives nothing: its value is there.
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
        """A loop or a choice, by the ops that its body became, where all of them are in one place."""
        if not self.program.values[i].bodies:
            return None
        first = self.program.values[i].node.outputs[0]  # whose name all results have
        ran = [op for name, op in self.observed.ops.items() if self.lowering.owner(name) == first]
        devices = {device for kind, device in ran if kind != "Const"}
        if len(devices) != 1:
            return None
        return Executed(devices.pop(), f"{len(ran)} ops of {self.program.values[i].op}", self.observed.evidence)

    def _composed(self) -> dict[int, Executed]:
        """The nodes that the optimiser put into one op, which is named after the last of them."""
        result: dict[int, Executed] = {}
        for name, count in self.observed.composed.items():
            node, (kind, device) = self.lowering.owner(name), self.observed.ops[name]
            while node is not None and count and self._merged(node) and not self.lowering.is_backward(name):
                result[node] = Executed(device, kind, self.observed.evidence, "fused")
                count -= self.program.values[node].op != "transfer"
                node = next(iter(self.program.values[node].inputs), None)
        return result

    def _merged(self, node: int) -> bool:
        """Whether an op that the optimiser put together may hold the node. A loop and a choice are not in it with what
        they take: the op is a part of a body, none of whose ops are nodes. What has an op of its own is not, either."""
        return not self.program.values[node].bodies and op_of(self._value(node)) not in self.observed.ops

    def _backward(self) -> Iterator[Backward]:
        """The executed ops that TensorFlow made for gradients. What it computed while compiling is none of them."""
        observed, lowering = self.observed, self.lowering
        for name, (kind, device) in observed.ops.items():
            gradient = lowering.owner(name)
            if gradient is not None and lowering.is_backward(name) and "/gradients" in name and kind != "Const":
                forward, bound = lowering.backward.get(name, (None, None))  # not there: made by the optimiser
                yield Backward(gradient, forward, bound, device, kind, observed.evidence)
        for group in (node.outputs for node in self.program.nodes if node.op == "grad"):
            call = lowering.stages.get(group[0])
            if call in observed.ops:  # the whole backward pass is inside of it
                whole = self._compiled(call)
                yield Backward(group[0], None, None, whole.device, whole.framework_op, whole.evidence, whole.status)

    def _compiled(self, call: str) -> Executed:
        """A node inside of a stage. The name of the call says which stage it is."""
        kind, device = self.observed.ops[call]
        by = "XLA computation" if call in self.observed.compiled else kind
        return Executed(device, f"{by} {call}", self.observed.evidence, "fused")

    def _handed_on(self, i: int) -> Executed:
        """A node that only hands a value on leaves no op of its own where sending and receiving do the work."""
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
