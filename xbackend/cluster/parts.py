"""A task's program cut where it leaves its process: the task's own program, the updates of parameter servers, and the
all-reduces between processes.

A task reads a variable of a server (``/job:ps/task:0``) before its step. Another task may change the variable during
the step. So the nodes that only the updates of a server's variables need are computed there, in one piece with the
update: no update is lost. The task computes everything else, gradients included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from xbackend.devices import Device, is_device
from xbackend.engines.spec import SERVER
from xbackend.errors import ClusterError
from xbackend.program.analyses import between, predecessors
from xbackend.program.binding import Placed
from xbackend.program.ops import GENERATORS, SOURCES
from xbackend.program.program import Nodes, Program, Value

# The nodes that become arguments of a part: each with its name, and the device that it asks for.
Given = Mapping[int, tuple[str, str | None]]


@dataclass(frozen=True)
class Apply:
    """The program of a server for each update.

    Its arguments are the ``pushed`` outputs of the task's own program (by index), then the variables in ``reads``. Its
    results are the new values of the variables in ``writes``, then results for the user.
    """

    program: Program
    pushed: tuple[int, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Parts:
    """A task's program in parts.

    The arguments of ``own`` are those of the function, then the ``pulled`` variables, each with its server. ``outputs``
    has for each output of the function its source, a server or `None` for the own program, and its index there.
    """

    own: Program
    pulled: tuple[tuple[int, str], ...]
    applies: tuple[Apply, ...]
    outputs: tuple[tuple[int | None, int], ...]


def server_of(device: str | None, source: str = "") -> int | None:
    """The number of the parameter server of a device; `None` for a device of the task itself.

    Raises `ClusterError`, with the line of its use, for a device of another task.
    """
    if device is None or not is_device(device):
        return None
    found = Device.parse(device)
    if found.job is None:
        return None
    if found.job != SERVER or found.kind != "cpu" or found.index:
        raise ClusterError(
            f"{found} is a device of another task: a program is computed on its task's own devices (cpu:0, dev0), and "
            f"keeps variables on parameter servers, /job:{SERVER}/task:0{f' (at {source})' if source else ''}"
        )
    return found.task or 0


class _ServerCut:
    """Where each node of a traced program is computed. ``at`` has for each its server, or `None` for the task."""

    def __init__(self, program: Program) -> None:
        self.program = program
        # Generated arrays (zeros, arange) are made where they are used, whatever their scope.
        nodes = [value.node for value in program.values]
        self.at = [None if node.op in GENERATORS else server_of(node.device, node.source) for node in nodes]
        own = [e for t, e in program.updates.items() if self.at[t] is None]
        for i, node in enumerate(nodes):
            if self.at[i] is not None and node.op in ("input", "grad", "all_reduce"):
                raise ClusterError(f"{node.op} on {node.device}: it is the task's own (at {node.source})")
            if node.op == "grad" or (node.op == "all_reduce" and node.params["tasks"] > 1):
                own += node.inputs
        self.own = predecessors(program, own)
        self.applied = predecessors(program, [e for t, e in program.updates.items() if self.at[t] is not None])
        for i in range(len(program.values)):
            self._locate(i)
        for target, expression in program.updates.items():
            if self.where(expression) not in (None, self.at[target]):
                raise _several(program.values[expression])

    def _locate(self, i: int) -> None:
        node, at = self.program.values[i], self.at
        if node.op in GENERATORS or node.op in ("input", "shared", "grad", "all_reduce"):
            return
        asked, there = at[i], {n for j in node.inputs if (n := at[j]) is not None}
        if i in self.own:
            if asked is not None:
                raise ClusterError(
                    f"{node.op} on {node.device} is needed by the task itself: a parameter server computes what "
                    f"updates its variables, and nothing else (at {node.source})"
                )
            return
        after = any(self.where(j) is not None for j in node.inputs)
        if asked is None and (after or (i in self.applied and there)):
            at[i] = asked = min(there)
        if asked is not None and there - {asked}:
            raise _several(node)

    def where(self, i: int) -> int | None:
        """The server that computes a node; `None` for the task. The task also reads variables of servers."""
        return None if self.program.values[i].op == "shared" else self.at[i]

    def returned(self, server: int | None) -> list[int]:
        """The outputs of the function that a server, or the task (`None`), computes."""
        return list(dict.fromkeys(o for o in self.program.outputs if self.where(o) == server))

    def pushed(self, server: int) -> list[int]:
        """The values that the task pushes to a server."""
        nodes, at = self.program.values, self.at
        used = [j for i, node in enumerate(nodes) if self.where(i) == server for j in node.inputs]
        found = [j for j in used if at[j] is None and nodes[j].op not in GENERATORS]
        # An update may be a value of the task's, or the plain value of a variable on another server.
        becomes = [e for t, e in self.program.updates.items() if at[t] == server]
        return list(dict.fromkeys([*found, *(e for e in becomes if self.where(e) is None and at[e] != server)]))

    def apply(self, server: int, pushed: Sequence[int], own_outputs: Sequence[int]) -> Apply:
        """The program of a server."""
        program, shared = self.program, self.program.shared
        written = [t for t in program.updates if self.at[t] == server]
        reads = [i for i in shared if self.at[i] == server]
        given: Given = {i: (f"pushed{k}", None) for k, i in enumerate(pushed)} | {
            i: (shared[i].name, None) for i in reads
        }
        outputs = [program.updates[t] for t in written] + self.returned(server)
        made = part(program, [*pushed, *reads], outputs, given, {}, everywhere=True)
        return Apply(
            replace(made, name=f"{program.name}_applied"),
            tuple(own_outputs.index(i) for i in pushed),
            tuple(shared[i].name for i in reads),
            tuple(shared[i].name for i in written),
        )


def no_more(servers: int) -> str:
    """How many parameter servers there are, in words."""
    return f"there are {servers}" if servers else "there is none"


def _several(node: Value) -> ClusterError:
    return ClusterError(
        f"{node.op} needs what is on several parameter servers: an update reads the variables of its own (at "
        f"{node.source})"
    )


def split(program: Program, servers: int) -> Parts:
    """Cut a traced program for so many servers. Each has a program, which is empty where it computes nothing.

    Raises `ClusterError` for a node that cannot be computed on its device.
    """
    cut = _ServerCut(program)
    at, shared = cut.at, program.shared
    for node, server in zip(program.values, at, strict=True):
        if server is not None and server >= servers:
            raise ClusterError(
                f"{node.op} on {node.device}: of parameter servers {no_more(servers)}: leave its device out, or ask "
                f"for more, --ps {server + 1} (at {node.source})"
            )
    pushed = {n: cut.pushed(n) for n in range(servers)}
    outputs: dict[int | None, list[int]] = {n: cut.returned(n) for n in pushed}
    outputs[None] = own = list(dict.fromkeys(chain(cut.returned(None), *pushed.values())))
    pulled = {i: at[i] or 0 for i in shared if at[i] is not None}
    given = {i: (shared[i].name, None) for i in pulled}
    updates = {t: e for t, e in program.updates.items() if at[t] is None}
    return Parts(
        part(program, [*program.inputs, *pulled], own, given, updates),
        tuple((server, shared[i].name) for i, server in pulled.items()),
        tuple(cut.apply(n, pushed[n], own) for n in pushed),
        tuple((cut.where(o), outputs[cut.where(o)].index(o)) for o in program.outputs),
    )


def part(
    program: Program,
    inputs: Sequence[int],
    outputs: Sequence[int],
    given: Given,
    updates: Mapping[int, int],
    *,
    everywhere: bool = False,
) -> Program:
    """The part of a program that computes ``outputs`` and ``updates`` from ``inputs``. Nodes in ``given`` become its
    arguments. ``everywhere``: devices that were asked for are dropped."""
    taken = dict.fromkeys(inputs)
    needed = predecessors(program, [*outputs, *updates, *updates.values()], taken)
    position: dict[int, int] = {}
    written = Nodes()
    for i in [*taken, *sorted(needed - taken.keys())]:
        value = program.values[i]
        if i in given:
            name, device = given[i]
            params = {"name": name, "shape": value.shape, "dtype": value.dtype}
            away = None if everywhere else device
            (position[i],) = written.add("input", (), params, (value.aval,), device=away, source=value.source)
        elif i not in position:
            node = value.node
            free = everywhere or (node.op in GENERATORS and server_of(node.device) is not None)
            arguments = [position[j] for j in node.inputs]
            device = None if free else node.device
            made = written.add(node.op, arguments, node.params, node.results, device=device, source=node.source)
            for k, number in zip(node.outputs, made, strict=True):
                position.setdefault(k, number)
    shared = {position[i]: v for i, v in program.shared.items() if i in position and i not in taken}
    return written.program(
        program.name,
        tuple(position[i] for i in taken),
        tuple(position[o] for o in outputs),
        {"tuple": ["*"] * len(outputs)},
        shared,
        {position[t]: position[e] for t, e in updates.items()},
    )


@dataclass(frozen=True)
class Segment:
    """The nodes computed on the task's devices before an all-reduce between processes, or before the end.

    ``takes`` and ``gives`` are its inputs and outputs, in their order, as nodes of the placed program.
    """

    program: Program
    takes: tuple[int, ...]
    gives: tuple[int, ...]


class _Levels:
    """The level of each node of a placed program: the number of all-reduces between tasks before its value."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.reductions = {i for i, node in enumerate(program.values) if node.op == "all_reduce"}
        self.of = list[int]()
        for i, node in enumerate(program.values):
            own = max((self.of[j] for j in node.inputs), default=0)
            if node.op == "grad":
                own = self.of[node.inputs[0]]
                if own != self.of[node.wrt] and self.reductions.intersection(self._between(node)):
                    raise ClusterError(
                        "a gradient through an all-reduce between tasks is not there: reduce the gradient instead (at "
                        f"{node.source})"
                    )
            self.of.append(own + (i in self.reductions))

    def _between(self, gradient: Value) -> list[int]:
        """The values that a gradient goes through."""
        return between(self.program, gradient.inputs[0], [gradient.wrt])[0]

    def _wanted(self, k: int) -> list[int]:
        """The nodes of level k that are outputs, updates, or inputs of later levels."""
        program, nodes = self.program, self.program.values
        reduced = {nodes[i].inputs[0] for i in self.reductions if self.of[i] == k + 1}
        used = [j for i, node in enumerate(nodes) if self.of[i] > k for j in node.inputs]
        used += [*program.outputs, *program.updates.values()]
        own = [i for i in dict.fromkeys(used) if self.of[i] == k and i not in self.reductions]
        return [i for i in own if i in reduced or nodes[i].op not in SOURCES]

    def segment(self, k: int, last: bool) -> Segment:
        """The nodes of a level. Nodes of earlier levels that its gradients go through are computed again."""
        program, nodes = self.program, self.program.values
        wanted, updates = (list(program.outputs), program.updates) if last else (self._wanted(k), {})
        gradients = [node for node in nodes if node.op == "grad" and self.of[node.inputs[0]] == k]
        again = {i for node in gradients if self.of[node.wrt] < k for i in self._between(node)}
        earlier = {i for i, at in enumerate(self.of) if at < k and i not in again and nodes[i].op not in SOURCES}
        given = earlier | self.reductions | {*program.inputs}
        targets = [*wanted, *updates.values()]
        own = predecessors(program, targets, given) - given
        takes = sorted(given.intersection(chain(targets, *(nodes[i].inputs for i in own))))
        made = part(program, takes, wanted, {i: (f"v{i}", nodes[i].device) for i in takes}, updates)
        return Segment(replace(made, name=f"{program.name}_{k}"), tuple(takes), tuple(wanted))


def segments(placed: Placed) -> tuple[list[Segment], list[list[int]]]:
    """The placed program of a task cut at its all-reduces, and these: list k has the all-reduce nodes between segments
    k and k + 1. Raises `ClusterError` for a gradient through an all-reduce."""
    levels = _Levels(placed.program)
    last = max(levels.of, default=0)
    reduced = [sorted(i for i in levels.reductions if levels.of[i] == k + 1) for k in range(last)]
    return [levels.segment(k, k == last) for k in range(last + 1)], reduced
