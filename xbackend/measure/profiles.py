"""Timelines of the devices: executions profiled after the timed rounds, and their shares.

Imports the standard library only: it runs inside the worker.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from xbackend.backends.placement import ProfiledCall, Span, adds_up, way
from xbackend.errors import TimingError, XBackendError
from xbackend.wording import grouped

if TYPE_CHECKING:
    from xbackend.backends.contract import Executable, Value

TAKEN = 3  # profiles, of which the one of median length counts
_PARTS = ("launch", "compute", "exposed", "wait")  # of the call: each of its moments is in one part
KEPT = 500  # spans that are stored: more cannot be told apart in a picture

Stretch = tuple[float, float]


def take(executable: Executable, values: Sequence[Value], seconds: float) -> tuple[dict[str, Any] | None, str]:
    """Profile a few executions, fewer where they would take longer than ``seconds``; updates take effect as always.

    Returns a `Profile` as plain data, or `None` and why there is none.
    """
    try:
        start = time.perf_counter()
        executions = [_checked(executable.profile(*values))]
        if time.perf_counter() - start < seconds / TAKEN:
            # The first one may have had to prepare something.
            executions = [_checked(executable.profile(*values)) for _ in range(TAKEN)]
    except XBackendError as error:
        return None, str(error)
    executions.sort(key=wall)
    return {**summary(executions[len(executions) // 2]), "taken": len(executions)}, ""


def _checked(call: ProfiledCall) -> ProfiledCall:
    """The call, if it is plausible: a device computed, and the parts add up to the call. Raises `TimingError`."""
    spans = call.spans
    if not any(span.kind == "compute" and span.start != span.end for span in spans):
        raise TimingError("the profile has no span in which a device computed")
    for span in spans:
        if not (math.isfinite(span.start) and span.start <= span.end < math.inf):
            raise TimingError(
                f"the profile has a span from {span.start} to {span.end} s ({span.what} on {span.device})"
            )
    parts = {part: seconds for part, seconds in summary(call).items() if part in _PARTS}
    if not adds_up(parts.values(), call.seconds):
        each = ", ".join(f"{part} {seconds:.3g}" for part, seconds in parts.items())
        raise TimingError(f"the parts of the profile ({each} s) do not add up to its call, {call.seconds:.3g} s")
    return call


def summary(call: ProfiledCall) -> dict[str, Any]:
    """A profile as plain data: `xbackend.results.schema.Profile` without ``taken``."""
    spans = call.spans
    begin = min(0.0, *(span.start for span in spans))
    computing = grouped((str(span.device), (span.start, span.end)) for span in spans if span.kind == "compute")
    merged = {device: covered(stretches) for device, stretches in sorted(computing.items())}
    of_devices = [stretch for stretches in merged.values() for stretch in stretches]
    transfers = covered((span.start, span.end) for span in spans if span.kind == "transfer")
    ways = grouped((_way(span), (span.start, span.end)) for span in spans if span.kind == "transfer")
    computed = covered(of_devices)
    first, last = min(span.start for span in spans), max(span.end for span in spans)
    ordered = sorted(spans, key=lambda span: (span.start, span.end, str(span.device)))
    return {
        "wall": wall(call),
        "call": call.seconds,
        "launch": max(first, 0.0) + max(call.seconds - last, 0.0),
        "compute": length(computed),
        "busy": {device: length(stretches) for device, stretches in merged.items()},
        "transfers": length(transfers),
        "ways": {kind: length(covered(stretches)) for kind, stretches in ways.items() if kind},
        "exposed": length(transfers) - length(covered([*transfers, *computed], 2)),
        "wait": max(0.0, last - first - length(covered((span.start, span.end) for span in spans))),
        "together": length(covered(of_devices, 2)),
        "count": len(spans),
        "spans": [[str(s.device), s.start - begin, s.end - begin, s.kind, s.what] for s in ordered[:KEPT]],
    }


def _way(span: Span) -> str:
    source, to, target = span.what.partition(" to ")
    return way(source, target) if to else ""


def wall(call: ProfiledCall) -> float:
    """Seconds from the start of the execution (or of a span before it) to the end of the last span."""
    return max(span.end for span in call.spans) - min(0.0, *(span.start for span in call.spans))


def covered(stretches: Iterable[Stretch], least: int = 1) -> list[Stretch]:
    """Where so many of the stretches are at least, in order and without overlap."""
    # At one moment beginnings come before ends, so that stretches that touch are one.
    events = sorted((moment, -step) for start, end in stretches for moment, step in ((start, 1), (end, -1)))
    found, depth, since = list[Stretch](), 0, 0.0
    for moment, ends in events:
        depth -= ends
        if ends < 0 and depth == least:
            since = moment
        elif ends > 0 and depth == least - 1 and since < moment:
            found.append((since, moment))
    return found


def length(stretches: Iterable[Stretch]) -> float:
    """Seconds of stretches that do not overlap."""
    return math.fsum(end - start for start, end in stretches)
