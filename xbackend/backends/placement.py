"""Placement as data: of each op, those of backward passes too, what was asked and what was executed; of each transfer
its bytes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from xbackend.devices import Device
from xbackend.drawing.graph import bytes_text
from xbackend.errors import PlacementError
from xbackend.program import analyses
from xbackend.program.binding import Placed
from xbackend.program.program import Program
from xbackend.wording import counted, few

# How the evidence of what depends neither on an argument nor on a shared variable begins.
CONSTANT = "it depends on constants only: "
LOOKED_THROUGH = "the ops that take it take what it was made of"
_FINE = ("as asked", "fused", "folded")
NOTHING_TO_READ = "nothing to read"
UNREAD = ("not read", NOTHING_TO_READ)  # the statuses of what nothing says the device of
_UNTOLD = "nothing was executed yet, or the framework does not tell"
_SHOWN = 5  # of what ran elsewhere


@dataclass(frozen=True, slots=True)
class Executed:
    """What a framework says about one op, after it ran.

    ``device`` is where it executed (`None` if it does not tell), ``framework_op`` the framework's own name of it,
    ``evidence`` how that is known, ``status`` is ``fused`` or ``folded`` where an optimiser interfered,
    `NOTHING_TO_READ` where ``evidence`` says why a device is not known, else empty.
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
class ProfiledCall:
    """One execution, slower than usual: what each device did when, and the ``seconds`` that the caller waited for all
    of it, by his own clock. The spans begin to count where the call does."""

    spans: Sequence[Span]
    seconds: float


def adds_up(parts: Iterable[float], seconds: float) -> bool:
    """Whether these parts of a call are all of its ``seconds``, to 5 %."""
    return abs(math.fsum(parts) - seconds) <= 0.05 * seconds


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One op of the program: its node (the number of its first value), what the program asked for, the device bound to
    that, what was executed.

    ``status`` is ``as asked`` where it ran where it was asked to, ``moved`` where it ran elsewhere, ``fused`` where it
    is part of another op, ``folded`` where it was computed while compiling or needed no execution, ``not read`` where
    the framework does not tell (yet), and ``nothing to read`` where it has nothing to tell, as ``evidence`` says: of
    both ``executed`` is `None`. ``source`` is the user's ``file:line``.
    """

    node: int
    op: str
    asked: str | None
    bound: str
    executed: str | None
    framework_op: str
    evidence: str
    status: str
    source: str = ""

    @property
    def what(self) -> str:
        """Which it is, in words."""
        return f"{self.op} (node {self.node}{', ' if self.source else ''}{self.source})"


@dataclass(frozen=True, slots=True)
class TransferRecord:
    """One transfer of an execution: from where to where, how many bytes, why, and how that is known.

    ``node`` is that of the program, `None` where the framework made the transfer of itself. ``cause`` is ``program``
    where the program asks for it (`to_device`), ``crossing`` where an op uses a value of another device, ``all-reduce``
    where values of several devices are made one, ``gradient`` where a backward pass went back the way of another
    transfer, ``framework`` where nobody asked for it.
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
    where the values are that they are computed from; `None` where nothing says where they are to run. ``source`` is
    the user's ``file:line`` of that node, or of the gradient.
    """

    gradient: int
    forward: int | None
    bound: str | None
    executed: str | None
    framework_op: str
    evidence: str
    status: str
    count: int = 1
    source: str = ""

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
        """Raises `PlacementError` if an op is known to have run elsewhere than asked. What was not read back passes
        without a proof, and `summary` says so."""
        moved = self._moved()
        if moved:
            more = f", and {len(moved) - _SHOWN} more" if len(moved) > _SHOWN else ""
            raise PlacementError(f"{'; '.join(moved[:_SHOWN])}{more}; compile with placement='soft' to allow it")

    def _moved(self) -> list[str]:
        """What ran elsewhere, and where."""
        moved = [
            f"{r.what} asked for {r.asked or 'the default'} = {r.bound}, ran on {r.executed}"
            for r in self.ops
            if r.status == "moved"
        ]
        return moved + [
            f"{r.what} ({r.framework_op}{', ' if r.source else ''}{r.source}) bound to {r.bound}, ran on {r.executed}"
            for r in self.backward
            if r.status == "moved"
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain data; of what is as asked without the user's lines, which are paths of one machine."""

        def plain(record: OpRecord | BackwardRecord) -> dict[str, Any]:
            return {k: v for k, v in asdict(record).items() if k != "source" or record.status not in _FINE}

        return {
            "ops": [plain(r) for r in self.ops],
            "transfers": [asdict(r) for r in self.transfers],
            "backward": [plain(r) for r in self.backward],
        }

    def summary(self) -> str:
        """Whether all ops ran where they were asked to, and what was transferred: ``all 26 ops as asked (9 of them
        fused into others), backward ops included, 3 transfers (12 MiB)``; or that nothing was read back, and why.

        Transfers are no ops here, but for those that ran elsewhere. What is fused or folded has no place of its own to
        be wrong.
        """
        counts = Counter(r.status for r in self.ops if r.op != "transfer" or r.status == "moved")
        back: Counter[str] = Counter()
        for r in self.backward:
            back[r.status] += r.count
        counts += back
        total = counts.total()
        right = sum(counts[status] for status in _FINE)
        if right == counts["folded"] < total and not counts["moved"]:
            of_ops = [r.evidence or _UNTOLD for r in self.ops if r.status in UNREAD]
            why = dict.fromkeys(of_ops + [r.evidence or _UNTOLD for r in self.backward if r.status in UNREAD])
            said = [f"of {counted(total, 'op')} none is read back: {'; '.join(why)}"]
        else:
            inside = {"fused": "fused into others", "folded": "folded away while compiling"}
            known = [f"{counts[status]} of them {words}" for status, words in inside.items() if counts[status]]
            besides = f" ({', '.join(known)})" if known else ""
            said = [f"{'all' if right == total else f'{right} of'} {counted(total, 'op')} as asked{besides}"]
        if counts["moved"]:
            said.append(f"{counts['moved']} MOVED")
        elif right == total and back.total() > back["folded"]:
            said.append("backward ops included")
        if self.transfers:
            said.append(_counted(self.transfers))
        return ", ".join(said)

    @property
    def as_asked(self) -> bool:
        """Whether something was seen to run, and all of it where the program asks, with no transfer besides."""
        seen = {r.status for r in self.ops if r.op != "transfer"} | {r.status for r in self.backward}
        return bool(seen - {"folded"}) and seen <= set(_FINE) and not self.differences()

    def differences(self) -> list[str]:
        """What is not as the program asks, with the user's file and line: what ran elsewhere, what was not read back,
        and transfers that the framework made of itself."""
        said = self._moved()
        if len(said) > _SHOWN:
            said[_SHOWN:] = [f"and {len(said) - _SHOWN} more that ran elsewhere"]
        unread = [r.what for r in self.ops if r.status == "not read"]
        unread += [r.what for r in self.backward if r.status == "not read"]
        if unread and any(r.executed or r.status == "fused" for r in self.ops):
            said.append(f"not read back: {few(unread, _SHOWN)}")
        own: dict[str, list[TransferRecord]] = {}
        for t in self.transfers:
            if t.cause == "framework":
                own.setdefault(f"{t.source} -> {t.target}", []).append(t)
        return said + [f"of the framework's own: {_counted(made)} {way}" for way, made in own.items()]

    def __str__(self) -> str:
        return "\n".join([self.summary(), *self.differences()])

    def listing(self) -> str:
        """Every op, the backward ops and the transfers, a line each."""
        lines = [
            f"{r.what}: asked {r.asked or 'nothing'} = {r.bound}, executed {r.executed or '?'}, {r.status}"
            for r in self.ops
        ]
        lines += [
            f"{r.what} ({r.framework_op or '?'}{f', {r.count} times' if r.count > 1 else ''}): "
            f"bound to {r.bound or 'no device'}, executed {r.executed or '?'}, {r.status}"
            for r in self.backward
        ]
        lines += [f"transfer {t.source} -> {t.target}: {t.bytes} bytes ({t.cause})" for t in self.transfers]
        return "\n".join(lines)


def _counted(transfers: Sequence[TransferRecord]) -> str:
    return f"{counted(len(transfers), 'transfer')} ({bytes_text(sum(t.bytes for t in transfers))})"


def merge(placed: Placed, execution: Execution) -> Placement:
    """The records of a placed program from what its adapter read."""
    ops, executed = [], execution.ops
    constant, needed = analyses.constant(placed.program), analyses.needed(placed.program)
    for node in placed.program.nodes:
        if node.op in ("input", "shared"):
            continue
        # Each gradient is on a device of its own; the results of another op are all where it ran.
        for values in zip(node.outputs) if node.op == "grad" else [node.outputs]:
            i, used = values[0], not needed.isdisjoint(values)
            said = [executed[k] for k in values if k in executed]
            op = next((each for each in said if each.device is not None), said[0] if said else Executed(None))
            if op.device is None and not op.status and (not used or i in constant):
                why = f"{CONSTANT}made while compiling, or a part of what uses it" if used else "its value is not used"
                op = Executed(None, "", why, "folded")
            bound, status = placed.devices[i], _status(op.status, op.device, placed.devices[i])
            asked = placed.asked[i] if placed.origin[i] is not None else "(inserted)"
            ran = (str(bound), _text(op.device), op.framework_op, _known(op, status), status)
            ops.append(OpRecord(i, node.op, asked, *ran, node.source))
    transfers = tuple(_transfer(placed, t) for t in execution.transfers)
    return Placement(tuple(ops), transfers, _backward(placed, execution.backward))


def _text(device: Device | None) -> str | None:
    return None if device is None else str(device)


def _status(said: str, ran: Device | None, bound: Device | None) -> str:
    if ran is None:
        return said or "not read"
    return said or "as asked" if bound in (None, ran) else "moved"


def _known(op: Executed | Backward, status: str) -> str:
    """How it is known where an op ran, or why it is not."""
    return op.evidence or (_UNTOLD if status == "not read" else "")


def with_folded(program: Program, backward: Iterable[Backward]) -> tuple[Backward, ...]:
    """What an adapter read of the backward ops, with a word about backward passes of which none is executed.

    Without a word they count as not read.
    """
    evidence = "it has no ops to execute: they are not used, or were computed while compiling"
    return _completed(program, backward, evidence, "folded")


def _completed(program: Program, backward: Iterable[Backward], evidence: str, status: str) -> tuple[Backward, ...]:
    """The backward ops, and one for each backward pass that none of them belongs to."""
    ops = tuple(backward)
    seen = {op.gradient for op in ops}
    unseen = [n.outputs[0] for n in program.nodes if n.op == "grad" and seen.isdisjoint(n.outputs)]
    return (*ops, *(Backward(first, None, None, None, "", evidence, status) for first in unseen))


def _backward(placed: Placed, backward: Iterable[Backward]) -> tuple[BackwardRecord, ...]:
    """The records of backward ops, those alike as one; for a backward pass without any that it was not read."""
    alike: Counter[BackwardRecord] = Counter()
    for op in _completed(placed.program, backward, "", ""):
        bound = op.bound or (None if op.forward is None else _bound(placed, op.forward))
        ran, status = _text(op.device), _status(op.status, op.device, bound)
        evidence = _known(op, status)
        record = BackwardRecord(op.gradient, op.forward, _text(bound), ran, op.framework_op, evidence, status)
        of = placed.program.values[op.gradient if op.forward is None else op.forward]
        record = replace(record, source=of.source)
        alike[record] += 1
    return tuple(replace(record, count=count) for record, count in alike.items())


def _bound(placed: Placed, forward: int) -> Device:
    """Where the backward op of a node is to run: that of a transfer goes back."""
    node = placed.program.values[forward]
    return placed.devices[node.inputs[0] if node.op == "transfer" else forward]


def _transfer(placed: Placed, made: Transferred) -> TransferRecord:
    if made.node is None:
        cause = "gradient" if made.gradient else "framework"
    else:
        cause = "program" if placed.origin[made.node] is not None else "crossing"
        cause = "all-reduce" if made.node in placed.reducing else cause
    source, target = str(made.source), str(made.target)
    return TransferRecord(made.node, source, target, made.bytes, cause, made.framework_op, made.evidence)
