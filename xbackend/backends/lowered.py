"""A program lowered for devices that this machine lacks, as data: the framework's own programs, read back and never
executed. `xb.open(..., lower_for="gpu:0,gpu:1")` opens a backend that does this with every program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from xbackend.backends.placement import Execution, Placement, merge
from xbackend.devices import Device
from xbackend.errors import DeviceUnavailable
from xbackend.program.binding import Placed
from xbackend.wording import few

EVIDENCE = "lowered for it, never executed"


@dataclass(frozen=True, slots=True)
class Part:
    """One of the framework's programs: a stage, one program of several replicas, or the ops of a graph on one device.

    ``devices`` would execute it, in the order of a mesh; ``platform`` is the framework's name of their kind (``cuda``).
    ``ops`` counts its ops by the framework's names, ``text`` is the program. ``lacking`` are ops without a kernel for
    the device, ``hosted`` ops whose kernel computes in the memory of the host.
    """

    name: str
    devices: tuple[Device, ...]
    platform: str
    ops: Mapping[str, int]
    text: str
    lacking: tuple[str, ...] = ()
    hosted: tuple[str, ...] = ()

    def __str__(self) -> str:
        where = ", ".join(map(str, self.devices))
        each = ", ".join(f"{name} {count}x" if count > 1 else name for name, count in sorted(self.ops.items()))
        said = [f"{self.name} on {where} for {self.platform}: {each or 'no ops'}"]
        for ops, what in ((self.lacking, "without a kernel there"), (self.hosted, "in the memory of the host")):
            said += [f"{what}: {few(ops, 5)}"] if ops else []
        return "; ".join(said)


@dataclass(frozen=True, slots=True)
class LoweringReport:
    """An adapter's report: the parts, and the records of the program's nodes. A record has the device that a part is
    lowered for; nothing ran."""

    parts: tuple[Part, ...]
    execution: Execution


@dataclass(frozen=True)
class Lowered:
    """A lowered program. ``placement`` has the records of `Executable.placement`; their ``executed`` is the device that
    an op is lowered for. ``parts`` are the framework's own programs."""

    parts: tuple[Part, ...]
    placement: Placement

    @classmethod
    def of(cls, placed: Placed, report: LoweringReport) -> Lowered:
        return cls(report.parts, merge(placed, report.execution))

    def __str__(self) -> str:
        moved = [f"transfer {t.source} -> {t.target}: {t.bytes} bytes ({t.cause})" for t in self.placement.transfers]
        return "\n".join([f"lowered, never executed: {self.placement}", *map(str, self.parts), *moved])


class LoweredOnly:
    """A part in the place of its callable, which only a machine with the device can make."""

    __slots__ = ("part",)

    def __init__(self, part: Part) -> None:
        self.part = part

    def __call__(self, *_: Any) -> NoReturn:
        refuse()


def refuse(*_: Any) -> NoReturn:
    """Raises `DeviceUnavailable`: the callable of a program that is only lowered."""
    raise DeviceUnavailable(
        "this program is lowered for devices that are not there, and cannot be executed: read its `lowered`, or open "
        "the backend without lower_for"
    )
