"""Placement as data: for each op what was asked and what was executed, for each transfer its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from xbackend.devices import Device
from xbackend.errors import PlacementError
from xbackend.program.binding import Placed
from xbackend.program.ops import GENERATORS

# What became of an op. `as asked`: it ran where it was asked to. `moved`: elsewhere. `fused`: it is part of another op.
# `folded`: it was computed while compiling, or needed no execution. `not read`: the framework does not tell (yet).
STATUSES = ("as asked", "moved", "fused", "folded", "not read")

# Why there is a transfer. `program`: it asks for it (`to_device`). `crossing`: an op of the program uses a value of
# another device. `gradient`: a backward pass went the way of another transfer back. `framework`: nobody asked for it.
CAUSES = ("program", "crossing", "gradient", "framework")


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
class Execution:
    """What a framework says about an execution: what became of the ops, by node, and the transfers that were made."""

    ops: Mapping[int, Executed]
    transfers: tuple[Transferred, ...] = ()


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


@dataclass(frozen=True)
class Placement:
    """Where a program was asked to run and where it did."""

    ops: tuple[OpRecord, ...]
    transfers: tuple[TransferRecord, ...]

    def check(self) -> None:
        """Raises `PlacementError` if an op is known to have run elsewhere than asked."""
        moved = [r for r in self.ops if r.status == "moved"]
        if moved:
            rows = "; ".join(
                f"{r.op} (node {r.node}) asked for {r.asked or 'the default'} = {r.bound}, ran on {r.executed}"
                for r in moved[:5]
            )
            more = f", and {len(moved) - 5} more" if len(moved) > 5 else ""
            raise PlacementError(f"{rows}{more}; compile with placement='soft' to allow it")

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"ops": [asdict(r) for r in self.ops], "transfers": [asdict(r) for r in self.transfers]}

    def __str__(self) -> str:
        lines = [
            f"{r.op} (node {r.node}): asked {r.asked or 'nothing'} = {r.bound}, executed {r.executed or '?'}, "
            f"{r.status}"
            for r in self.ops
        ]
        lines += [f"transfer {t.source} -> {t.target}: {t.bytes} bytes ({t.cause})" for t in self.transfers]
        return "\n".join(lines)


def merge(placed: Placed, execution: Execution) -> Placement:
    """The records of a placed program from what its adapter read."""
    ops, executed = [], execution.ops
    for i, (node, device) in enumerate(zip(placed.program.nodes, placed.devices, strict=True)):
        if node.op in ("input", "shared"):
            continue
        found = executed.get(i, Executed(None))
        status = found.status
        if not status and found.device is None:
            # Arrays made of nothing are made while compiling, unless the adapter saw them execute.
            status = "folded" if node.op in GENERATORS else "not read"
        elif not status:
            status = "as asked" if found.device == device else "moved"
        elif found.device is not None and found.device != device:
            status = "moved"
        asked = placed.asked[i] if placed.origin[i] is not None else "(inserted)"
        ran = str(found.device) if found.device is not None else None
        ops.append(OpRecord(i, node.op, asked, str(device), ran, found.framework_op, found.evidence, status))
    return Placement(tuple(ops), tuple(_transfer(placed, t) for t in execution.transfers))


def _transfer(placed: Placed, made: Transferred) -> TransferRecord:
    if made.node is None:
        cause = "gradient" if made.gradient else "framework"
    else:
        cause = "program" if placed.origin[made.node] is not None else "crossing"
    source, target = str(made.source), str(made.target)
    return TransferRecord(made.node, source, target, made.bytes, cause, made.framework_op, made.evidence)
