"""Placement as data: asked and executed device of each op, backward ops included, and the bytes of each transfer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from xbackend.devices import Device, is_device
from xbackend.drawing.graph import bytes_text
from xbackend.errors import PlacementError
from xbackend.program import analyses
from xbackend.program.binding import Placed
from xbackend.program.program import Program
from xbackend.wording import counted, few, grouped

# The beginning of the evidence for values that depend neither on an argument nor on a shared variable.
CONSTANT = "it depends on constants only: "
LOOKED_THROUGH = "the ops that take it take what it was made of"
_FINE = ("as asked", "fused", "folded")
NOTHING_TO_READ = "nothing to read"
UNREAD = ("not read", NOTHING_TO_READ)  # the statuses of an unknown device
_UNTOLD = "nothing was executed yet, or the framework does not tell"
OPS = ("asked", "bound to", "executed on", "status", "ops", "which")  # the columns of `op_rows`
TRANSFERS = ("from", "to", "why", "transfers", "bytes")  # the columns of `transfer_rows`
_SHOWN = 5  # the most moved ops in a message


@dataclass(frozen=True, slots=True)
class Executed:
    """A framework's report of one op: the ``device`` on which it ran (`None` if unknown), and the ``evidence`` for it.
    ``status`` is ``fused`` or ``folded`` by an optimiser, `NOTHING_TO_READ` if the device is unknown for the reason in
    ``evidence``, else empty."""

    device: Device | None
    framework_op: str = ""
    evidence: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True)
class Transferred:
    """A framework's report of one transfer. ``node`` is the program's transfer node, `None` for a transfer of the
    framework's own. ``gradient`` marks one of a backward pass."""

    source: Device
    target: Device
    bytes: int
    node: int | None = None
    gradient: bool = False
    framework_op: str = ""
    evidence: str = ""


@dataclass(frozen=True, slots=True)
class Backward:
    """A framework's report of an op of a backward pass. ``gradient`` is the first of the gradients that share the pass,
    ``forward`` the node of the forward op (`None` if unknown), ``bound`` the device that the op should run on (`None`:
    as ``forward``). The other fields are as in `Executed`."""

    gradient: int
    forward: int | None
    bound: Device | None
    device: Device | None
    framework_op: str = ""
    evidence: str = ""
    status: str = ""


@dataclass(frozen=True, slots=True)
class Execution:
    """A framework's report of an execution: the ops by node, the transfers, and the ops of backward passes."""

    ops: Mapping[int, Executed]
    transfers: tuple[Transferred, ...] = ()
    backward: tuple[Backward, ...] = ()
    separate: str = ""  # why each device has a program of its own; replicas that are alike share one


def way(source: str, target: str) -> str:
    """The memories at both ends of a transfer, if an end is an accelerator or another process: ``from the host``, ``to
    the host``, ``between GPUs``, ``within a GPU``, ``between processes``; else empty. Frameworks do not tell whether
    GPUs copy as peers."""
    if not (is_device(source) and is_device(target)):  # stored names may be any text
        return ""
    one, other = Device.parse(source), Device.parse(target)
    if (one.job, one.task) != (other.job, other.task):
        return "between processes"
    kinds = {device.kind.upper() for device in (one, other) if device.is_accelerator}
    if one == other:
        return f"within a {kinds.pop()}" if kinds else ""
    if one.is_accelerator and other.is_accelerator:
        return f"between {'s and '.join(sorted(kinds))}s"
    return "from the host" if other.is_accelerator else "to the host" if one.is_accelerator else ""


@dataclass(frozen=True, slots=True)
class Span:
    """An interval, in seconds after the start of an execution, in which a device computed or received a value. ``what``
    is the framework's op, or for a transfer ``gpu:0 to gpu:1``."""

    device: Device
    start: float
    end: float
    kind: str  # `compute` or `transfer`
    what: str


@dataclass(frozen=True, slots=True)
class ProfiledCall:
    """The timeline of one execution, slower than usual: its spans, counted from the start of the call, and the
    ``seconds`` of the whole call on the caller's clock."""

    spans: Sequence[Span]
    seconds: float


def adds_up(parts: Iterable[float], seconds: float) -> bool:
    """Whether the sum of these parts of a call is within 5 % of its ``seconds``."""
    return abs(math.fsum(parts) - seconds) <= 0.05 * seconds


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One op of the program: ``node`` (the number of its first value), and the devices ``asked`` for, ``bound`` and
    ``executed``. ``status`` is ``as asked``; ``moved`` for another device than bound; ``fused`` into another op;
    ``folded``, as it was computed while compiling or needed no execution; ``not read``, as the framework does not tell
    (yet); or ``nothing to read``, for the reason in ``evidence``. For the last two ``executed`` is `None`. ``source``
    is the user's ``file:line``."""

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
        """The op in words."""
        return f"{self.op} (node {self.node}{', ' if self.source else ''}{self.source})"


@dataclass(frozen=True, slots=True)
class TransferRecord:
    """One transfer of an execution. ``node`` is the program's transfer node, `None` for one of the framework's own.
    ``cause`` is ``program`` (it calls `to_device`), ``crossing`` (an op uses a value of another device),
    ``all-reduce``, ``gradient`` (the reverse of another one in a backward pass), or ``framework`` (nobody asked for
    it)."""

    node: int | None
    source: str
    target: str
    bytes: int
    cause: str
    framework_op: str
    evidence: str

    @property
    def way(self) -> str:
        """As `way`."""
        return way(self.source, self.target)


@dataclass(frozen=True, slots=True)
class BackwardRecord:
    """``count`` equal ops of a backward pass. ``gradient`` is the first of the gradients that share the pass,
    ``forward`` the node of the forward op (`None` if unknown), ``bound`` the device that they should run on (`None` if
    unknown). ``source`` is the user's ``file:line`` of ``forward``, else of the gradient."""

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
        """The ops in words."""
        of = "" if self.forward is None else f" of node {self.forward}"
        return f"backward op{of} for the gradient at node {self.gradient}"


@dataclass(frozen=True)
class Placement:
    """The asked and executed placement of a program."""

    ops: tuple[OpRecord, ...]
    transfers: tuple[TransferRecord, ...]
    backward: tuple[BackwardRecord, ...] = ()
    separate: str = ""  # why replicas have a program each

    def check(self) -> None:
        """Raises `PlacementError` if an op is known to have run on another device than asked. Ops that were not read
        back pass."""
        moved = self._moved()
        if moved:
            more = f", and {len(moved) - _SHOWN} more" if len(moved) > _SHOWN else ""
            raise PlacementError(f"{'; '.join(moved[:_SHOWN])}{more}; compile with placement='soft' to allow it")

    def _moved(self) -> list[str]:
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
        """Plain data. Records that are as asked have no source lines, as these are paths of one machine."""

        def plain(record: OpRecord | BackwardRecord) -> dict[str, Any]:
            return {k: v for k, v in asdict(record).items() if k != "source" or record.status not in _FINE}

        return {
            "ops": [plain(r) for r in self.ops],
            "transfers": [asdict(r) for r in self.transfers],
            "backward": [plain(r) for r in self.backward],
            "separate": self.separate,
        }

    def summary(self) -> str:
        """Ops as asked or not, and transfers: ``all 26 ops as asked (9 of them fused into others), backward ops
        included, 3 transfers (12 MiB)``, with the ways of those from or to accelerators; or that nothing was read back,
        and why. Transfers count as ops only if they moved; fused and folded ops count as asked."""
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
        """Whether ops were seen to run, all of them as asked, without transfers of the framework's own."""
        seen = {r.status for r in self.ops if r.op != "transfer"} | {r.status for r in self.backward}
        return bool(seen - {"folded"}) and seen <= set(_FINE) and not self.differences()

    def differences(self) -> list[str]:
        """Differences from the program, with the user's file and line: moved ops, ops not read back, own transfers."""
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

    def notes(self) -> list[str]:
        """Why replicas have a program each, if they have."""
        return [f"each device has a program of its own: {self.separate}"] if self.separate else []

    def __str__(self) -> str:
        return "\n".join([self.summary(), *self.differences(), *self.notes()])

    def _repr_html_(self) -> str:
        from xbackend.drawing.markup import shown, table

        tables = table(OPS, op_rows(self)) + table(TRANSFERS, transfer_rows(self.transfers))
        return shown(self.summary(), {"": "; ".join([*self.differences(), *self.notes()])}) + tables

    def listing(self) -> str:
        """All ops, backward ops and transfers, one a line."""
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


def op_rows(placement: Placement) -> list[list[str]]:
    """The ops that were asked for alike and ran alike, counted: a cell for each of `OPS`."""
    return [*_forward_rows(placement.ops), *_backward_rows(placement.backward)]


def _forward_rows(ops: Sequence[OpRecord]) -> list[list[str]]:
    each = grouped(((op.asked or "the default", op.bound, op.executed or "not told", op.status), op.op) for op in ops)
    counts = {key: [f"{op} {n}x" if n > 1 else op for op, n in Counter(names).items()] for key, names in each.items()}
    return [[*key, str(len(names)), ", ".join(counts[key])] for key, names in each.items()]


def _backward_rows(records: Sequence[BackwardRecord]) -> list[list[str]]:
    """The ops of the backward passes: nobody asks for their devices, which follow from those of the forward ops."""
    counts: Counter[tuple[str, ...]] = Counter()
    for r in records:
        counts[r.bound or "no device", r.executed or "not told", r.status] += r.count
    return [["by its forward op", *key, str(n), "in backward passes"] for key, n in counts.items()]


def transfer_rows(transfers: Sequence[TransferRecord]) -> list[list[str]]:
    """The transfers of each way and cause, counted: a cell for each of `TRANSFERS`."""
    routes = grouped(((t.source, t.target, t.cause), t.bytes) for t in transfers)
    return [[*route, str(len(moved)), bytes_text(sum(moved))] for route, moved in routes.items()]


def _counted(transfers: Sequence[TransferRecord]) -> str:
    ways = Counter(t.way for t in transfers if t.way)
    said = ": " + ", ".join(f"{number} {way}" for way, number in ways.items()) if ways else ""
    return f"{counted(len(transfers), 'transfer')} ({bytes_text(sum(t.bytes for t in transfers))}{said})"


def merge(placed: Placed, execution: Execution) -> Placement:
    """The records of a placed program from its adapter's report."""
    ops, executed = [], execution.ops
    constant, needed = analyses.constant(placed.program), analyses.needed(placed.program)
    for node in placed.program.nodes:
        if node.op in ("input", "shared"):
            continue
        # Each gradient has its own device; the results of other ops are all on the op's device.
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
    return Placement(tuple(ops), transfers, _backward(placed, execution), execution.separate if placed.reducing else "")


def _text(device: Device | None) -> str | None:
    return None if device is None else str(device)


def _status(said: str, ran: Device | None, bound: Device | None) -> str:
    if ran is None:
        return said or "not read"
    return (said or "as asked") if bound in (None, ran) else "moved"


def _known(op: Executed | Backward, status: str) -> str:
    return op.evidence or (_UNTOLD if status == "not read" else "")


def _completed(program: Program, execution: Execution) -> Iterator[Backward]:
    """The backward ops, and a record for each backward pass without ops: folded, or not read if nothing was."""
    yield from execution.backward
    seen = {op.gradient for op in execution.backward}
    evidence = "it has no ops to execute: they are not used, or were computed while compiling"
    for node in program.nodes:
        if node.op == "grad" and seen.isdisjoint(node.outputs):
            yield Backward(node.outputs[0], None, None, None, "", *((evidence, "folded") if execution.ops else ()))


def _backward(placed: Placed, execution: Execution) -> tuple[BackwardRecord, ...]:
    alike: Counter[BackwardRecord] = Counter()
    for op in _completed(placed.program, execution):
        bound = op.bound or (None if op.forward is None else _bound(placed, op.forward))
        status, of = _status(op.status, op.device, bound), op.gradient if op.forward is None else op.forward
        ran = (_text(bound), _text(op.device), op.framework_op, _known(op, status), status)
        alike[BackwardRecord(op.gradient, op.forward, *ran, source=placed.program.values[of].source)] += 1
    return tuple(replace(record, count=count) for record, count in alike.items())


def _bound(placed: Placed, forward: int) -> Device:
    """The device for the backward op of a node: for a transfer its source."""
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
