"""Replicas: copies of one program on several devices of a placed program, alike but for the device.

The *root* is the device where all-reduces are summed. Each node of another device is paired with a node of the root, in
their order: a pair has the same op, parameters, shapes and dtypes, and its inputs are pairs. Values that no replica
computes (arguments, shared variables, constants, what the root sends) are paired where they are first used.

The root may have two more things: sums over all devices, of terms that are pairs, each times the same share; and slices
of its arguments, which it sends to the replicas. A program with anything else has no replicas.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xbackend.devices import Device
from xbackend.program import analyses
from xbackend.program.aval import Aval
from xbackend.program.binding import on_device
from xbackend.program.ops import GENERATORS, SOURCES
from xbackend.program.program import Node, Nodes, Program, generate


class Unlike(Exception):
    """Why a program does not consist of replicas."""


class NoSum(Unlike):
    """A program has no sum over all devices on this root."""


@dataclass(frozen=True)
class DeviceSum:
    """A sum over devices: a term of each device, their common factor ``share`` (or `None`), and the values between
    the terms and the sum."""

    terms: Mapping[str, int]
    share: Any
    made: frozenset[int]


@dataclass(frozen=True)
class Replicas:
    """A program of replicas.

    ``one`` is the program of each replica, written for the root, the first of ``devices``. Its all-reduces are sums
    over the devices. ``place`` maps a value of the whole program to a value of ``one`` and the number of a device; the
    terms and partial sums of a sum over devices have the place of its result. ``given`` maps each argument and shared
    variable of ``one`` to its values in the whole program, one for each device.

    ``before`` is the program of the root's own slices, and ``prior`` maps values of the whole program to its values.
    """

    devices: tuple[Device, ...]
    one: Program
    place: Mapping[int, tuple[int, int]]
    given: Mapping[int, tuple[int, ...]]
    before: Program
    prior: Mapping[int, int]


def found(program: Program) -> Replicas:
    """The replicas of a placed program. Raises `Unlike`."""
    homes = list(dict.fromkeys(value.device or "" for value in program.values))
    ways = [{program.values[n.inputs[0]].device, n.device} for n in program.nodes if n.op == "transfer"]
    roots = [home for home in homes if all(home in way for way in ways)]
    reason: Unlike = NoSum("there is one device, or values go between more than one and the others")
    for root in roots if ways else ():
        try:
            return _Search(program, (root, *(home for home in homes if home != root))).replicas()
        except Unlike as unlike:
            reason = unlike if isinstance(reason, NoSum) else reason
    raise reason


class _Search:
    """The search for replicas on these devices; the first one is the root."""

    def __init__(self, program: Program, homes: Sequence[str]) -> None:
        self.program, self.values, self.homes, self.root = program, program.values, homes, homes[0]
        adds = (n.outputs[0] for n in program.nodes if n.op == "add")
        self.sums = {i: total for i in adds if (total := _sum(program, i, homes)) is not None}
        if not any(n.op == "transfer" and n.inputs[0] in self.sums for n in program.nodes):
            raise NoSum("no sum over all devices comes back to them")
        self.parts = {i for total in self.sums.values() for i in total.made}
        # A result of an all-reduce on the root is a reshape of the sum to its own shape.
        self.results = {
            n.outputs[0]: n.inputs[0]
            for n in program.nodes
            if n.op == "reshape" and n.inputs[0] in self.sums and n.shape == self.values[n.inputs[0]].shape
        }
        self.pairs: dict[str, dict[int, int]] = {home: {} for home in homes[1:]}  # from a device to the root
        self.sent: dict[int, dict[str, int]] = {}  # by a value on the root, the value sent to each device

    def replicas(self) -> Replicas:
        kept = {*self.parts, *self.sums, *self.results}
        here = [n for n in self.computed(self.root) if n.outputs[0] not in kept]
        for home in self.homes[1:]:
            self.pair(home, here)
        self.join()
        before = self.before()
        for node in here:
            if not {*node.outputs} <= {*self.alike, *before}:
                raise Unlike(f"{node.op} at {node.source} is on {self.root} only")
        self.check_sums()
        self.check_gradients()
        return self.made(self.places(), before)

    def computed(self, home: str) -> list[Node]:
        """The nodes that a device computes."""
        left_out = {*SOURCES, "transfer"}
        return [n for n in self.program.nodes if n.op not in left_out and self.values[n.outputs[0]].device == home]

    def pair(self, home: str, here: Sequence[Node]) -> None:
        """Pair each node of a device with the first free node of the root that agrees."""
        free: dict[str, list[Node]] = defaultdict(list)
        for node in here:
            free[self.signature(node)].append(node)
        pairs = self.pairs[home]
        for node in self.computed(home):
            for other in (alike := free[self.signature(node)]):
                new = self.agree(node, other, pairs)
                if new is not None:
                    break
            else:
                raise Unlike(f"{node.op} at {node.source} on {home} has no counterpart on {self.root}")
            alike.remove(other)
            pairs |= new
            pairs |= zip(node.outputs, other.outputs, strict=True)

    def signature(self, node: Node) -> str:
        """The op, parameters, shapes and dtypes that a node shares with its counterparts."""
        params = on_device(node.params, None)
        own = {k: v.fingerprint if isinstance(v, Program) else v for k, v in sorted(params.items())}
        return repr((node.op, own, [self.values[i].aval for i in node.inputs], node.results))

    def agree(self, node: Node, other: Node, pairs: Mapping[int, int]) -> dict[int, int] | None:
        """The new pairs of inputs if two nodes are a pair; `None` if they cannot be one."""
        new: dict[int, int] = {}
        for i, j in zip(node.inputs, other.inputs, strict=True):
            j, value = self.results.get(j, j), self.values[i]
            known = pairs.get(i, new.get(i))
            if known is None and value.op == "transfer" and value.inputs[0] in self.sums:
                known = value.inputs[0]
            elif known is None and (value.op == "transfer" or self.same_source(i, j)):
                known = j
            if known != j:
                return None
            new[i] = j
        return new

    def same_source(self, i: int, j: int) -> bool:
        """Whether two sources may be a pair: equal constants, or an argument or a variable of each replica."""
        one, other = self.values[i], self.values[j]
        if one.op != other.op or one.op not in SOURCES or one.aval != other.aval:
            return False
        return one.op not in GENERATORS or generate(one).tobytes() == generate(other).tobytes()

    def join(self) -> None:
        """Join the pairs of all devices: ``alike`` has the counterparts of a value on the root, by device."""
        self.alike: dict[int, dict[str, int]] = {}
        for home, pairs in self.pairs.items():
            for i, j in pairs.items():
                value = self.values[i]
                moved = value.op == "transfer"
                if moved and value.inputs[0] in self.sums:
                    continue
                group, one = (self.sent, value.inputs[0]) if moved else (self.alike, i)
                if group.setdefault(j, {self.root: j}).setdefault(home, one) != one and value.op not in GENERATORS:
                    raise Unlike(f"two values of {home} have one counterpart on {self.root}")
        for j, counterparts in (*self.alike.items(), *self.sent.items()):
            if len(counterparts) != len(self.homes) or (j in self.alike and j in self.sent):
                raise Unlike(f"{self.values[j].op} at {self.values[j].source} has no counterpart on each device")
        bound = {i for pairs in self.pairs.values() for i in pairs}
        for node in self.program.nodes:
            used = node.op != "transfer" or node.outputs[0] in bound or node.outputs[0] in self.parts
            if not used and node.inputs[0] not in self.sums:
                raise Unlike(f"a value goes to {node.device} and no replica uses it")

    def before(self) -> set[int]:
        """The values that the root sends to the replicas, and their predecessors. Raises `Unlike` unless all are slices
        of arguments."""
        sent = (i for each in self.sent.values() for i in each.values())
        needed = analyses.predecessors(self.program, sent)
        for i in needed:
            if self.values[i].op not in ("input", "slice") or self.values[i].device != self.root or i in self.alike:
                raise Unlike(
                    f"{self.values[i].op} at {self.values[i].source} is made by one replica and sent to others"
                )
        return needed

    def check_sums(self) -> None:
        """Raises `Unlike` for a sum of values that are no counterparts."""
        for i, total in self.sums.items():
            if self.alike.get(total.terms[self.root]) != total.terms:
                raise Unlike(f"the sum at {self.values[i].source} is of values that are no counterparts")

    def check_gradients(self) -> None:
        """Raises `Unlike` for a gradient that leaves its replica."""
        for node in self.program.nodes:
            if node.op == "grad":
                loss, *wrt = node.inputs
                through = {*analyses.between(self.program, loss, set(wrt))[0], *node.outputs}
                if len({self.values[i].device for i in through}) > 1 or through & {*self.sums, *self.results}:
                    raise Unlike(f"the gradient at {node.source} goes through several devices")

    def places(self) -> dict[int, tuple[int, int]]:
        """By value, its counterpart on the root and the number of its device."""
        number = {home: k for k, home in enumerate(self.homes)}
        place = {i: (j, number[home]) for j, each in self.alike.items() for home, i in each.items()}
        for i, total in self.sums.items():
            place |= dict.fromkeys((i, *total.made), (i, 0))
        place |= {i: (total, 0) for i, total in self.results.items()}
        for node in self.program.nodes:
            if node.op == "transfer" and node.inputs[0] in self.sums:
                place[node.outputs[0]] = node.inputs[0], number[node.device or ""]
        return place

    def made(self, place: Mapping[int, tuple[int, int]], before: set[int]) -> Replicas:
        program, new = self.program, dict[int, int]()
        nodes = self.one(new)
        updates = {new[i]: new[j] for i, j in self.updates(place).items()}
        outputs = [new[j] for j in dict.fromkeys(self.counterpart(i, place)[0] for i in program.outputs)]
        own = [i for i in program.inputs if i in self.alike]
        shared = {new[i]: variable for i, variable in program.shared.items() if i in self.alike}
        inputs = [new[i] for i in (*own, *self.sent)]
        one = nodes.program(program.name, inputs, outputs, "*", shared, updates)
        given = {new[i]: self.alike[i] for i in (*own, *program.shared) if i in self.alike}
        given |= {new[i]: each for i, each in self.sent.items()}
        first, prior = Nodes(), dict[int, int]()
        for node in program.nodes:
            if not before.isdisjoint(node.outputs):
                inputs = [prior[i] for i in node.inputs]
                (made,) = first.add(node.op, inputs, node.params, node.results, device=self.root, source=node.source)
                prior[node.outputs[0]] = made
        sent = [prior[each[home]] for each in self.sent.values() for home in self.homes]
        inputs = [prior[i] for i in program.inputs if i in prior]
        return Replicas(
            tuple(map(Device.parse, self.homes)),
            one,
            {i: (new[j], k) for i, (j, k) in place.items()},
            {i: tuple(each[home] for home in self.homes) for i, each in given.items()},
            first.program(program.name, inputs, list(dict.fromkeys(sent)), "*"),
            prior,
        )

    def one(self, new: dict[int, int]) -> Nodes:
        """The nodes of one replica. Adds to ``new`` the numbers of their values, by those on the root."""
        nodes, values, device = Nodes(), self.values, self.root

        def add(op: str, inputs: Sequence[int], params: Mapping[str, Any], results: Sequence[Aval]) -> tuple[int, ...]:
            return nodes.add(op, inputs, params, results, device=device, source=node.source)

        for node in self.program.nodes:
            first, made = node.outputs[0], tuple[int, ...]()
            if first in self.sent:
                shape, dtype = values[first].aval
                made = add("input", (), {"name": f"part {first}", "shape": shape, "dtype": dtype.value}, node.results)
            elif first in self.sums:
                total = self.sums[first]
                term: tuple[int, ...] = (new[total.terms[device]],)
                if total.share is not None:
                    factor = {"value": np.asarray(total.share, node.dtype.value)}
                    term = add(
                        "multiply",
                        (*term, *add("constant", (), factor, (node.aval._replace(shape=()),))),
                        {},
                        node.results,
                    )
                made = add("all_reduce", term, {"shares": (), "tasks": len(self.homes)}, node.results)
            elif first in self.alike:
                made = add(node.op, [new[self.results.get(i, i)] for i in node.inputs], node.params, node.results)
            new.update(zip(node.outputs, made, strict=False))
        return nodes

    def counterpart(self, i: int, place: Mapping[int, tuple[int, int]]) -> tuple[int, int]:
        """The place of an output. Raises `Unlike` where no replica has it."""
        if i not in place or i in self.parts:
            raise Unlike(f"{self.values[i].op} at {self.values[i].source} is returned, and is no value of a replica")
        return place[i]

    def updates(self, place: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """The updates of the root's variables. Raises `Unlike` where copies are updated differently."""
        updates: dict[int, dict[int, int]] = defaultdict(dict)
        for target, value in self.program.updates.items():
            (variable, k), (new, home) = self.counterpart(target, place), self.counterpart(value, place)
            if k != home:
                raise Unlike(f"{self.program.shared[target]!r} gets a value of another device")
            updates[variable][k] = new
        for each in updates.values():
            if len(each) != len(self.homes) or len({*each.values()}) > 1:
                raise Unlike("copies of a variable are updated differently")
        return {variable: each[0] for variable, each in updates.items()}


def _sum(program: Program, last: int, homes: Sequence[str]) -> DeviceSum | None:
    """The sum over these devices, made on the first one, that the addition ``last`` completes; `None` if it completes
    none."""
    values, root = program.values, homes[0]
    added, made = [last], set[int]()
    for _ in homes[1:]:  # terms are added in turn
        first = values[added[0]]
        if first.op != "add" or first.device != root:
            return None
        made.add(added[0])
        added[:1] = first.inputs
    terms, shares, here = dict[str, int](), set[Any](), list[tuple[int, int, Any]]()
    for i in added:
        term, share = i, None
        if values[i].op == "multiply" and values[values[i].inputs[1]].op in GENERATORS:
            term, factor = values[i].inputs
            share = generate(values[factor])[()] if not values[factor].shape else np.nan
        if values[term].op != "transfer":
            here.append((i, term, share))
            continue
        made |= {i, term}
        (source,) = values[term].inputs
        terms[values[source].device or ""] = source
        shares.add(share)
    if len(shares) != 1 or len(here) != 1 or {*terms} != {*homes[1:]}:
        return None
    ((i, term, share),), (common,) = here, shares
    if common is not None:
        if share != common or not common:  # zeros have signs
            return None
        made.add(i)
    return DeviceSum({root: i if common is None else term, **terms}, common, frozenset(made - {last}))
