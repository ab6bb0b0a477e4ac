"""Cutting a graph over several devices into stages, each computed by one device.

The graph is a placed program (nodes and numbers of values) or a framework's graph of one (apply nodes and variables),
which alone has the gradients that the framework derives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from xbackend.devices import Device
from xbackend.errors import PlacementError

Variable = Any  # an input or output of a node
StageKey = tuple[int, bool, Device]  # the depth of a stage, whether no other device waits for it, its device


class ApplyNode(Protocol):
    """A node of the graph."""

    @property
    def inputs(self) -> Sequence[Variable]: ...
    @property
    def outputs(self) -> Sequence[Variable]: ...


@dataclass(eq=False, slots=True)
class Stage:
    """Consecutive work of one device.

    Its predecessors have a smaller depth, except perhaps one on its own device: the stage of the same depth for which
    other devices wait.
    """

    depth: int
    device: Device
    inputs: list[Variable]
    outputs: list[Variable]


@dataclass(frozen=True)
class Plan:
    """Stages, the nodes between them, both in topological order, and the stage of each variable that has one."""

    stages: tuple[Stage, ...]
    between: tuple[Any, ...]
    order: tuple[Any, ...]  # stages and nodes between, in topological order
    stage_of: Mapping[Variable, Stage]


@dataclass(eq=False)
class _StageCut:
    """The place of each variable: its depth and device. Variables that depend only on constants have none, unless a
    stage ends after them: every stage that uses them computes them."""

    nodes: Sequence[ApplyNode]
    sources: Collection[Variable]
    outputs: Collection[Variable]
    devices: Mapping[Variable, Device]
    transfers: Collection[int]
    others: Collection[int]
    ends: Collection[Variable]

    def __post_init__(self) -> None:
        devices, self.between = self.devices, {*self.transfers, *self.others}
        self.owner = {v: k for k, node in enumerate(self.nodes) for v in node.outputs}
        self.entries = set(self.sources)  # variables that no stage computes
        self.place = {v: (0, devices[v]) for v in self.sources}
        for k, node in enumerate(self.nodes):
            if k in self.between:
                self.place.update({v: (0, devices[v]) for v in node.inputs if v not in self.place})
                depth = max(self.place[v][0] + (v not in self.entries) for v in node.inputs)
                self.place.update({v: (depth, devices[v]) for v in node.outputs})
                self.entries.update(node.outputs)
            else:
                self._inherit(node)
        self.place.update({v: (0, devices[v]) for v in self.outputs if v not in self.place})
        self.awaited = self._awaited()

    def _inherit(self, node: ApplyNode) -> None:
        """Place a node where its inputs are. Raises `PlacementError` for inputs on several devices."""
        places = [(self.place[v], v in self.ends and v not in self.entries) for v in node.inputs if v in self.place]
        if not places:
            if any(v in self.ends for v in node.outputs):
                self.place.update({v: (0, self.devices[v]) for v in node.outputs})
            return
        devices = {device for (_, device), _ in places}
        if len(devices) > 1:
            raise PlacementError(f"{node} has inputs on {', '.join(map(str, devices))}: a transfer is missing")
        depth = max(depth + after for (depth, _), after in places)
        self.place.update(dict.fromkeys(node.outputs, (depth, *devices)))

    def _awaited(self) -> set[int]:
        """The nodes for which another device waits: within their stage, the predecessors of its transfers."""
        awaited: set[int] = set()
        for k in reversed(range(len(self.nodes))):
            if k in self.transfers or (k in awaited and k not in self.between):
                node = self.nodes[k]
                # Of a node that depends on constants only, perhaps only the transferred output has a place.
                ends = node.inputs[:1] if k in self.transfers else node.outputs
                here = next(self.place[v] for v in ends if v in self.place)
                own = [v for v in node.inputs if self.place.get(v) == here]
                awaited.update(self.owner[v] for v in own if v not in self.entries and v in self.owner)
        return awaited

    def part(self, variable: Variable) -> StageKey:
        """The stage that computes a variable; if none does, the first one that can use it."""
        depth, device = self.place[variable]
        computed = variable not in self.entries and variable in self.owner
        return depth, computed and self.owner[variable] not in self.awaited, device

    def plan(self) -> Plan:
        needed: dict[StageKey, dict[Variable, None]] = defaultdict(dict)  # inputs of a stage
        given: dict[StageKey, dict[Variable, None]] = defaultdict(dict)  # and its outputs

        def give(variables: Collection[Variable]) -> None:
            for v in variables:
                if v not in self.entries:
                    given[self.part(v)][v] = None

        for k, node in enumerate(self.nodes):
            if k in self.between:
                give(node.inputs)
            elif node.outputs[0] in self.place:
                here = self.part(node.outputs[0])
                read = [v for v in node.inputs if v in self.place and (v in self.entries or self.part(v) != here)]
                needed[here].update(dict.fromkeys(read))
                give(read)
        give(self.outputs)
        keys = sorted({*map(self.part, self.place)}, key=lambda key: (*key[:2], str(key[2])))
        stages = {key: Stage(key[0], key[2], list(needed[key]), list(given[key])) for key in keys}
        giving = tuple(stage for stage in stages.values() if stage.outputs)
        between = [self.nodes[k] for k in sorted(self.between)]
        before = [(self.place[node.outputs[0]][0], node) for node in between]
        order = sorted([*before, *((stage.depth, stage) for stage in giving)], key=lambda item: item[0])
        stage_of = {v: stages[self.part(v)] for v in self.place}
        return Plan(giving, tuple(between), tuple(item for _, item in order), stage_of)


def cut(
    nodes: Sequence[ApplyNode],
    sources: Collection[Variable],
    outputs: Collection[Variable],
    *,
    devices: Mapping[Variable, Device],
    transfers: Collection[int],
    others: Collection[int] = (),
    ends: Collection[Variable] = (),
) -> Plan:
    """Cut a graph into stages.

    Args:
        nodes: in topological order.
        sources: variables with values from outside.
        outputs: variables to compute.
        devices: of the sources, the outputs, and the inputs and outputs of nodes between stages. It alone places
            variables that depend on no source.
        transfers: positions in ``nodes`` of the nodes that move a value.
        others: positions of further nodes between stages.
        ends: a stage ends after each of these variables, which is one of its outputs.

    The nodes for which another device waits are a stage of their own: that device does not wait for the rest. Raises
    `PlacementError` where a node of a stage has inputs on two devices.
    """
    return _StageCut(nodes, sources, outputs, devices, transfers, others, ends).plan()
