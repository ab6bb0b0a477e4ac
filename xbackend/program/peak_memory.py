"""The peak memory of a placed program on each device, by its liveness: nothing is executed.

It counts arguments and shared variables throughout, each result from its computation to its last use, and the residuals
of a gradient: the results between its targets and its loss, which a framework keeps. Frameworks also allocate buffers
and copies, fuse ops and recompute results. The model leaves that out: it is the same for every backend.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from xbackend.errors import DeviceMemoryError
from xbackend.program.analyses import between, constant, steps
from xbackend.program.host import check_whole
from xbackend.program.ops import SOURCES
from xbackend.program.program import Program


@dataclass(frozen=True, slots=True)
class Peak:
    """The most bytes that a device holds at once, the permanent ones among them, and the value computed then."""

    bytes: int
    lasting: int
    node: int | None


def peaks(program: Program) -> dict[str, Peak]:
    """The peak of each device of a placed program that runs in the order of its nodes."""
    size = [value.aval.nbytes for value in program.values]
    where = [str(node.device) for node in program.values]
    folded = constant(program)
    alive = {i for i, node in enumerate(program.values) if node.op in SOURCES}
    lasting = _by_device(alive - folded, size, where)
    found = {name: Peak(count, count, None) for name, count in lasting.items()}
    alive -= folded
    for step in steps(program):
        first, through = program.values[step.makes[0]], set[int]()
        if first.op == "grad":
            loss, *wrt = first.inputs
            through.update(between(program, loss, wrt)[0])
        alive.update(i for i in step.makes if i not in folded)
        for name, count in _by_device(alive | (through - folded), size, where).items():
            before = found.get(name, Peak(0, 0, None))
            if count > before.bytes:
                found[name] = Peak(count, before.lasting, step.makes[0])
        alive.difference_update(i for i in step.last if program.values[i].op not in SOURCES)
    return found


def check(program: Program, limit: int) -> None:
    """Raises `ArgumentError` for an invalid limit (bytes), `DeviceMemoryError` where a device's peak exceeds it."""
    check_whole(limit, f"device_memory={limit!r:.40} (bytes)")
    for name, peak in peaks(program).items():
        if peak.bytes <= limit:
            continue
        when = "" if peak.node is None else f", while {program.values[peak.node].op} is computed"
        raise DeviceMemoryError(
            f"{program.name} has {peak.bytes:,} bytes on {name} at once{when}, {peak.lasting:,} of them arguments and "
            f"shared variables, and device_memory allows {limit:,}: spread it over more devices, or smaller batches"
        )


def _by_device(nodes: set[int], size: list[int], where: list[str]) -> Mapping[str, int]:
    found = Counter[str]()
    for i in nodes:
        found[where[i]] += size[i]
    return found
