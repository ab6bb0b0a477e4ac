"""A task's program cut where it leaves its process: what the task computes, what parameter servers apply, and the
all-reduces between processes.

A variable on a server (``/job:ps/task:0``) is read before a step, and its update is applied to what it is by then,
which another task may have changed. So what only updates of a server's variables need, and what reads them there, is
computed there, in one piece with the update: nobody's update is lost. Everything else, gradients with it, is the
task's own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from xbackend.devices import Device, is_device
from xbackend.engines.spec import SERVER
from xbackend.errors import ClusterError
from xbackend.program.binding import Placed
from xbackend.program.ops import GENERATORS
from xbackend.program.program import Node, Program
from xbackend.program.shared import SharedVariable


@dataclass(frozen=True)
class Apply:
    """What is computed on a server with each update.

    ``program`` takes what is pushed (``pushed`` are its places among the outputs of the task's own program), then the
    variables that it ``reads``, and gives those that it ``writes``, then what is returned to the user.
    """

    server: int
    program: Program
    pushed: tuple[int, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class Parts:
    """A task's program in parts.

    ``own`` takes the arguments and then the variables that are ``pulled``, each of a server. ``outputs`` say where each
    output of the function comes from: a server, or `None` for the own program, and its place there. ``variables`` are
    those of each server.
    """

    own: Program
    pulled: tuple[tuple[int, str], ...]
    applies: tuple[Apply, ...]
    outputs: tuple[tuple[int | None, int], ...]
    variables: Mapping[int, tuple[SharedVariable, ...]]


def server_of(device: str | None, source: str = "") -> int | None:
    """The number of the parameter server that a device is of; `None` for the task's own.

    Raises `ClusterError`, with the line of its use, for one of another task.
    """
    if device is None or not is_device(device):
        return None
    found = Device.parse(device)
    if found.job is None:
        return None
    if found.job != SERVER or found.kind != "cpu" or found.index:
        raise ClusterError(
            f"{found} is a device of another task: a program is computed on its task's own devices (cpu:0, dev0), and "
            f"keeps variables on parameter servers, /job:{SERVER}/task:0{_at(source)}"
        )
    return found.task or 0


def _at(source: str) -> str:
    return f" (at {source})" if source else ""


class _Cut:
    """Where each node of a traced program is computed."""

    def __init__(self, program: Program) -> None:
        self.program = program
        # Arrays made of nothing are made wherever they are used, whatever scope they stand in.
        self.at = [None if node.op in GENERATORS else server_of(node.device, node.source) for node in program.nodes]
        self._check()
        on_server = [t for t in program.updates if self.at[t] is not None]
        self.applied = self._before(program.updates[t] for t in on_server)
        own = [e for t, e in program.updates.items() if self.at[t] is None]
        for node in program.nodes:
            if node.op == "grad" or (node.op == "all_reduce" and node.params["tasks"] > 1):
                own += node.inputs
        self.own = self._before(own)
        for i in range(len(program.nodes)):
            self._locate(i)
        for target, expression in program.updates.items():
            if self.made_there(expression) and self.at[target] != self.at[expression]:
                raise _several(program.nodes[expression])

    def _check(self) -> None:
        for i, node in enumerate(self.program.nodes):
            if self.at[i] is not None and node.op in ("input", "grad", "all_reduce"):
                raise ClusterError(f"{node.op} on {node.device}: it is the task's own (at {node.source})")

    def _before(self, nodes: Any) -> set[int]:
        """These nodes and all that they need."""
        found, todo = set[int](), list(nodes)
        while todo:
            i = todo.pop()
            if i not in found:
                found.add(i)
                todo += self.program.nodes[i].inputs
        return found

    def _locate(self, i: int) -> None:
        node, at = self.program.nodes[i], self.at
        if node.op in GENERATORS or node.op in ("input", "shared", "grad", "all_reduce"):
            return
        asked, there = at[i], {at[j] for j in node.inputs} - {None}
        if i in self.own:
            if asked is not None:
                raise ClusterError(
                    f"{node.op} on {node.device} is needed by the task itself: a parameter server computes what "
                    f"updates its variables, and nothing else (at {node.source})"
                )
            return
        after = any(at[j] is not None and self.program.nodes[j].op != "shared" for j in node.inputs)
        if asked is None and (after or (i in self.applied and there)):
            at[i] = asked = min(n for n in there if n is not None)
        if asked is not None and there - {asked}:
            raise _several(node)

    def made_there(self, i: int) -> bool:
        return self.at[i] is not None and self.program.nodes[i].op != "shared"


def _several(node: Node) -> ClusterError:
    return ClusterError(
        f"{node.op} needs what is on several parameter servers: an update reads the variables of its own (at "
        f"{node.source})"
    )


def split(program: Program) -> Parts:
    """Cut a traced program. Raises `ClusterError` for what cannot be computed where it was asked for."""
    cut = _Cut(program)
    nodes, at = program.nodes, cut.at
    outputs = [("there" if cut.made_there(o) else "own", o) for o in program.outputs]
    servers = sorted({n for n in at if n is not None})
    pushed = {
        n: list(
            dict.fromkeys(
                j
                for i in range(len(nodes))
                if cut.made_there(i) and at[i] == n
                for j in nodes[i].inputs
                if at[j] is None and nodes[j].op not in GENERATORS
            )
        )
        for n in servers
    }
    for target, expression in program.updates.items():
        n = at[target]
        # It takes what the task computed, or what a variable is there.
        if n is not None and not cut.made_there(expression) and at[expression] != n and expression not in pushed[n]:
            pushed[n].append(expression)
    returned = [o for where, o in outputs if where == "own"]
    own_outputs = list(dict.fromkeys(chain(returned, *pushed.values())))
    updates = {t: e for t, e in program.updates.items() if at[t] is None}
    own, pulled = _own(program, at, own_outputs, updates)
    applies = tuple(_apply(cut, n, pushed[n], own_outputs) for n in servers)
    places: list[tuple[int | None, int]] = []
    for where, o in outputs:
        if where == "own":
            places.append((None, own_outputs.index(o)))
        else:
            n = at[o]
            assert n is not None
            places.append((n, _returned(cut, n).index(o)))
    variables = {n: tuple(v for i, v in sorted(program.shared.items()) if at[i] == n) for n in servers}
    return Parts(own, pulled, applies, tuple(places), variables)


def _written(program: Program, at: Sequence[int | None], server: int) -> list[int]:
    return [t for t in program.updates if at[t] == server]


def _returned(cut: _Cut, server: int) -> list[int]:
    return list(dict.fromkeys(o for o in cut.program.outputs if cut.made_there(o) and cut.at[o] == server))


def _own(
    program: Program, at: Sequence[int | None], outputs: Sequence[int], updates: Mapping[int, int]
) -> tuple[Program, tuple[tuple[int, str], ...]]:
    """The task's own program; variables of servers are arguments of it."""
    pulled = [i for i in program.shared if at[i] is not None]
    given = {i: _input(program.nodes[i], program.shared[i].name) for i in pulled}
    made = part(program, [*program.inputs, *pulled], outputs, given, updates)
    return made, tuple((at[i] or 0, program.shared[i].name) for i in pulled)


def _input(node: Node, name: str) -> Node:
    params = {"name": name, "shape": node.shape, "dtype": node.dtype}
    return Node("input", (), params, node.shape, node.dtype, None, node.source)


def _apply(cut: _Cut, server: int, pushed: Sequence[int], own_outputs: Sequence[int]) -> Apply:
    program = cut.program
    written = _written(program, cut.at, server)
    reads = [i for i in program.shared if cut.at[i] == server]
    given = {i: _input(program.nodes[i], f"pushed{k}") for k, i in enumerate(pushed)}
    given |= {i: _input(program.nodes[i], program.shared[i].name) for i in reads}
    outputs = [program.updates[t] for t in written] + _returned(cut, server)
    made = part(program, [*pushed, *reads], outputs, given, {}, everywhere=True)
    return Apply(
        server,
        replace(made, name=f"{program.name}_applied"),
        tuple(own_outputs.index(i) for i in pushed),
        tuple(program.shared[i].name for i in reads),
        tuple(program.shared[i].name for i in written),
    )


def part(
    program: Program,
    inputs: Sequence[int],
    outputs: Sequence[int],
    given: Mapping[int, Node],
    updates: Mapping[int, int],
    *,
    everywhere: bool = False,
) -> Program:
    """What of a program computes these outputs and updates from ``inputs``, for which nodes are ``given`` where they
    are computed otherwise. ``everywhere``: without the devices that were asked for."""
    taken = dict.fromkeys(inputs)
    needed, todo = set(taken), [*outputs, *updates, *updates.values()]
    while todo:
        i = todo.pop()
        if i not in needed:
            needed.add(i)
            todo += program.nodes[i].inputs
    position: dict[int, int] = {}
    nodes: list[Node] = []
    for i in [*taken, *sorted(needed - taken.keys())]:
        node = given.get(i, program.nodes[i])
        position[i] = len(nodes)
        moved = tuple(position[j] for j in node.inputs)
        away = everywhere or (node.op in GENERATORS and server_of(node.device) is not None)
        nodes.append(replace(node, inputs=moved, device=None if away else node.device))
    shared = {position[i]: v for i, v in program.shared.items() if i in position and i not in taken}
    return Program(
        program.name,
        tuple(nodes),
        tuple(position[i] for i in taken),
        tuple(position[o] for o in outputs),
        {"tuple": ["*"] * len(outputs)},
        shared,
        {position[t]: position[e] for t, e in updates.items()},
    )


@dataclass(frozen=True)
class Segment:
    """What is computed on the task's devices up to an all-reduce between processes, or up to the end.

    ``takes`` and ``gives`` are nodes of the placed program, in the order of its inputs and outputs.
    """

    program: Program
    takes: tuple[int, ...]
    gives: tuple[int, ...]


@dataclass(frozen=True)
class Segments:
    """A placed program cut at its all-reduces between processes: before segment k+1 the nodes ``reduced[k]`` are sums
    over all tasks of what their inputs hold."""

    segments: tuple[Segment, ...]
    reduced: tuple[tuple[int, ...], ...]


def segments(placed: Placed) -> Segments:
    """Cut the placed program of a task. Raises `ClusterError` for a gradient through an all-reduce."""
    program = placed.program
    between = {i for i, n in enumerate(program.nodes) if n.op == "all_reduce"}
    level: list[int] = []
    for i, node in enumerate(program.nodes):
        own = max((level[j] for j in node.inputs), default=0)
        if node.op == "grad":
            _check_gradient(program, node, level)
            own = level[node.inputs[0]]
        level.append(own + (i in between))
    last = max(level, default=0)
    made, reduced = list[Segment](), list[tuple[int, ...]]()
    for k in range(last + 1):
        after = [i for i in range(len(program.nodes)) if level[i] > k]
        wanted = _wanted(program, level, k, after, between)
        if k == last:
            wanted = list(program.outputs)
        made.append(_segment(program, level, k, wanted, between, updates=k == last))
        if k < last:
            reduced.append(tuple(sorted(i for i in between if level[i] == k + 1)))
    return Segments(tuple(made), tuple(reduced))


def _check_gradient(program: Program, node: Node, level: Sequence[int]) -> None:
    loss, wrt = node.inputs
    if level[loss] == level[wrt]:
        return
    if any(program.nodes[i].op == "all_reduce" for i in _way(program, loss, wrt)):
        raise ClusterError(
            f"a gradient through an all-reduce between tasks is not there: reduce the gradient instead (at "
            f"{node.source})"
        )


def _wanted(
    program: Program, level: Sequence[int], k: int, after: Collection[int], between: Collection[int]
) -> list[int]:
    """What of segment k the rest needs: outputs, what updates need, inputs of later nodes."""
    reduced = {program.nodes[i].inputs[0] for i in between if level[i] == k + 1}
    used = [j for i in after for j in program.nodes[i].inputs]
    used += [*program.outputs, *program.updates.values()]

    def own(i: int) -> bool:
        op = program.nodes[i].op
        return i in reduced or not (op in ("input", "shared") or op in GENERATORS)

    return [i for i in dict.fromkeys(used) if level[i] == k and i not in between and own(i)]


def _segment(
    program: Program, level: Sequence[int], k: int, wanted: Sequence[int], between: Collection[int], *, updates: bool
) -> Segment:
    """The nodes of a level, and those of earlier ones that its gradients go through, which it computes again."""
    taken: dict[int, None] = {}
    seen, todo = set[int](), [*wanted, *(program.updates.values() if updates else ())]
    again = _gradients(program, wanted, level, k)
    while todo:
        i = todo.pop()
        if i in seen:
            continue
        seen.add(i)
        node = program.nodes[i]
        earlier = level[i] < k and i not in again
        if (
            i in between
            or node.op == "input"
            or (earlier and node.op != "shared" and program.nodes[i].op not in GENERATORS)
        ):
            taken[i] = None
        else:
            todo += node.inputs
    takes = sorted(taken)
    given = {i: replace(_input(program.nodes[i], f"v{i}"), device=program.nodes[i].device) for i in takes}
    made = part(program, takes, wanted, given, program.updates if updates else {})
    return Segment(replace(made, name=f"{program.name}_{k}"), tuple(takes), tuple(wanted))


def _gradients(program: Program, wanted: Sequence[int], level: Sequence[int], k: int) -> set[int]:
    """The nodes between what is differentiated in this segment and what it is differentiated by."""
    found = set[int]()
    for node in program.nodes:
        if node.op == "grad" and level[node.inputs[0]] == k and level[node.inputs[1]] < k:
            loss, wrt = node.inputs
            found |= _way(program, loss, wrt)
    return found


def _way(program: Program, loss: int, wrt: int) -> set[int]:
    """The nodes by which a loss depends on what it is differentiated by, both of them included."""
    nodes, depends, needed = program.nodes, {wrt}, {loss}
    for i in range(wrt + 1, loss + 1):
        if depends.intersection(nodes[i].inputs):
            depends.add(i)
    for i in range(loss, wrt, -1):
        if i in needed:
            needed.update(nodes[i].inputs)
    return depends & needed
