"""Placement as data: for each op and for those of backward passes what was asked and what was executed, for each
transfer its bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from xbackend.devices import Device
from xbackend.errors import PlacementError
from xbackend.program import analyses
from xbackend.program.binding import Placed
from xbackend.program.program import Program

# What became of an op. `as asked`: it ran where it was asked to. `moved`: elsewhere. `fused`: it is part of another op.
# `folded`: it was computed while compiling, or needed no execution. `not read`: the framework does not tell (yet).
STATUSES = ("as asked", "moved", "fused", "folded", "not read")

# Why there is a transfer. `program`: it asks for it (`to_device`). `crossing`: an op of the program uses a value of
# another device. `gradient`: a backward pass went the way of another transfer back. `framework`: nobody asked for it.
CAUSES = ("program", "crossing", "gradient", "framework")

# How the evidence of what depends neither on an argument nor on a shared variable begins.
CONSTANT = "it depends on constants only: "


@dataclass(frozen=True, slots=True)
class Executed:
    """What a framework says about one op, after it ran.

    ``device`` is where it executed (`None` if it does not tell), ``framework_op`` the framework's own name of it,
    ``evidence`` how that is known, ``status`` is ``fused`` or ``folded`` where an optimiser interfered, else empty.
    """

    device: Device | None
    framework_op: str = ""
    evidence: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True)
class Transferred:
    """What a framework says about one transfer that it made: from where to where, the bytes of the value.

    ``node`` is the transfer of the program that it is, `None` where the framework made it of itself: ``gradient`` says
    whether that was for a backward pass.
    """

    source: Device
    target: Device
    bytes: int
    node: int | None = None
    gradient: bool = False
    framework_op: str = ""
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Backward:
    """What a framework says about an op of a backward pass.

    ``gradient`` is the gradient node that it belongs to, the first of those that share it; ``forward`` the node whose
    backward op it is, `None` if the framework does not tell; ``bound`` the device that it is to run on, `None` for the
    one that follows from ``forward``, where that is known. The others are as in `Executed`.
    """

    gradient: int
    forward: int | None
    bound: Device | None
    device: Device | None
    framework_op: str = ""
    evidence: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True)
class Execution:
    """What a framework says about an execution: what became of the ops, by node, the transfers that were made, and the
    ops of backward passes."""

    ops: Mapping[int, Executed]
    transfers: tuple[Transferred, ...] = ()
    backward: tuple[Backward, ...] = ()


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of an execution, in seconds after its start: a device computed, or received a value."""

    device: Device
    start: float
    end: float
    kind: str  # `compute` or `transfer`
    what: str


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One op of the program: its node, what the program asked for, the device bound to that, what was executed."""

    node: int
    op: str
    asked: str | None
    bound: str
    executed: str | None
    framework_op: str
    evidence: str
    status: str


@dataclass(frozen=True, slots=True)
class TransferRecord:
    """One transfer of an execution: from where to where, how many bytes, why (one of `CAUSES`), and how that is known.

    ``node`` is that of the program, `None` where the framework made the transfer of itself.
    """

    node: int | None
    source: str
    target: str
    bytes: int
    cause: str
    framework_op: str
    evidence: str


@dataclass(frozen=True, slots=True)
class BackwardRecord:
    """So many (``count``) ops of a backward pass that are alike.

    ``gradient`` is the gradient node that they belong to, the first of those that share them; ``forward`` the node
    whose backward ops they are, `None` where the framework does not tell. ``bound`` is the device of that node, or
    where the values are that they are computed from; `None` where nothing says where they are to run.
    """

    gradient: int
    forward: int | None
    bound: str | None
    executed: str | None
    framework_op: str
    evidence: str
    status: str
    count: int = 1

    @property
    def what(self) -> str:
        """What they are, in words."""
        of = "" if self.forward is None else f" of node {self.forward}"
        return f"backward op{of} for the gradient at node {self.gradient}"


@dataclass(frozen=True)
class Placement:
    """Where a program was asked to run and where it did."""

    ops: tuple[OpRecord, ...]
    transfers: tuple[TransferRecord, ...]
    backward: tuple[BackwardRecord, ...] = ()

    def check(self) -> None:
        """Raises `PlacementError` if an op is known to have run elsewhere than asked."""
        moved = [
            f"{r.op} (node {r.node}) asked for {r.asked or 'the default'} = {r.bound}, ran on {r.executed}"
            for r in self.ops
            if r.status == "moved"
        ]
        moved += [
            f"{r.what} ({r.framework_op}) bound to {r.bound}, ran on {r.executed}"
            for r in self.backward
            if r.status == "moved"
        ]
        if moved:
            more = f", and {len(moved) - 5} more" if len(moved) > 5 else ""
            raise PlacementError(f"{'; '.join(moved[:5])}{more}; compile with placement='soft' to allow it")

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "ops": [asdict(r) for r in self.ops],
            "transfers": [asdict(r) for r in self.transfers],
            "backward": [asdict(r) for r in self.backward],
        }

    def summary(self) -> str:
        """Where ops ran, how many transfers there were and how many ops ran elsewhere than asked, in a line."""
        ran: Counter[str] = Counter(record.executed or record.status for record in self.ops)
        back: Counter[str] = Counter()
        for record in self.backward:
            back[record.executed or record.status] += record.count
        moved = sum(r.status == "moved" for r in self.ops)
        moved += sum(r.count for r in self.backward if r.status == "moved")
        parts = [f"{where}: {n} ops" for where, n in sorted(ran.items())]
        parts += [f"{n} backward ops on {where}" for where, n in sorted(back.items())]
        parts += [f"{len(self.transfers)} transfers"] if self.transfers else []
        return ", ".join([*parts, f"{moved} MOVED"] if moved else parts)

    def __str__(self) -> str:
        lines = [
            f"{r.op} (node {r.node}): asked {r.asked or 'nothing'} = {r.bound}, executed {r.executed or '?'}, "
            f"{r.status}"
            for r in self.ops
        ]
        lines += [
            f"{r.what} ({r.framework_op or '?'}{f', {r.count} times' if r.count > 1 else ''}): "
            f"bound to {r.bound or 'no device'}, executed {r.executed or '?'}, {r.status}"
            for r in self.backward
        ]
        lines += [f"transfer {t.source} -> {t.target}: {t.bytes} bytes ({t.cause})" for t in self.transfers]
        return "\n".join(lines)


def merge(placed: Placed, execution: Execution) -> Placement:
    """The records of a placed program from what its adapter read."""
    ops, executed = [], execution.ops
    constant, needed = analyses.constant(placed.program), analyses.needed(placed.program)
    for i, (node, device) in enumerate(zip(placed.program.nodes, placed.devices, strict=True)):
        if node.op in ("input", "shared"):
            continue
        found = executed.get(i, Executed(None))
        if found.device is None and not found.status and i not in needed:
            found = Executed(None, "", "its value is not used", "folded")
        elif found.device is None and not found.status and i in constant:
            found = Executed(None, "", f"{CONSTANT}made while compiling, or a part of what uses it", "folded")
        status = _status(found.status, found.device, device)
        asked = placed.asked[i] if placed.origin[i] is not None else "(inserted)"
        ran = str(found.device) if found.device is not None else None
        ops.append(OpRecord(i, node.op, asked, str(device), ran, found.framework_op, found.evidence, status))
    transfers = tuple(_transfer(placed, t) for t in execution.transfers)
    return Placement(tuple(ops), transfers, _backward(placed, execution.backward))


def _status(said: str, ran: Device | None, bound: Device | None) -> str:
    if ran is None:
        return said or "not read"
    return said or "as asked" if bound in (None, ran) else "moved"


def with_folded(program: Program, found: Iterable[Backward]) -> tuple[Backward, ...]:
    """What an adapter read of the backward ops, with a word about backward passes of which none is executed.

    Without a word they count as not read.
    """
    result = list(found)
    seen = {b.gradient for b in result}
    for group in analyses.gradients(program).values():
        if seen.isdisjoint(group):
            evidence = "it has no ops to execute: they are not used, or were computed while compiling"
            result.append(Backward(group[0], None, None, None, "", evidence, "folded"))
    return tuple(result)


def _backward(placed: Placed, found: Iterable[Backward]) -> tuple[BackwardRecord, ...]:
    """The records of backward ops, those alike as one; for a backward pass without any that it was not read."""
    alike: Counter[BackwardRecord] = Counter()
    for b in found:
        bound = b.bound or (None if b.forward is None else _bound(placed, b.forward))
        alike[
            BackwardRecord(
                b.gradient,
                b.forward,
                None if bound is None else str(bound),
                None if b.device is None else str(b.device),
                b.framework_op,
                b.evidence,
                _status(b.status, b.device, bound),
            )
        ] += 1
    records = [replace(record, count=count) for record, count in alike.items()]
    seen = {record.gradient for record in records}
    for group in analyses.gradients(placed.program).values():
        if seen.isdisjoint(group):
            evidence = "the framework has not told about its ops: nothing was executed yet, or it does not tell"
            records.append(BackwardRecord(group[0], None, None, None, "", evidence, "not read"))
    return tuple(records)


def _bound(placed: Placed, forward: int) -> Device:
    """Where the backward op of a node is to run: that of a transfer goes back."""
    node = placed.program.nodes[forward]
    return placed.devices[node.inputs[0] if node.op == "transfer" else forward]


def _transfer(placed: Placed, made: Transferred) -> TransferRecord:
    if made.node is None:
        cause = "gradient" if made.gradient else "framework"
    else:
        cause = "program" if placed.origin[made.node] is not None else "crossing"
    source, target = str(made.source), str(made.target)
    return TransferRecord(made.node, source, target, made.bytes, cause, made.framework_op, made.evidence)
