"""What a command prints with ``--json``: one schema for all of them, told apart by ``command``.

``python -m xbackend.cli.output`` prints it as JSON Schema, which docs/output.schema.json holds. Fields are added and
never change or go without another ``version``. Times are seconds; null is what was not measured or cannot be said.
"""

from __future__ import annotations

import json
import operator
from functools import reduce
from statistics import median
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from xbackend.analysis.outcomes import ClusterRow, TrainedRow, finite
from xbackend.analysis.rows import Figures
from xbackend.results.schema import Results
from xbackend.results.shrunk import Shrunk
from xbackend.version import VERSION

if TYPE_CHECKING:
    from xbackend.analysis.gate import Judged
    from xbackend.analysis.history import Line, Point, Series
    from xbackend.analysis.statistics import Ratio
    from xbackend.measure.bisect import Found
    from xbackend.workloads.agreement import Verified

_OF: Any = {"tag_field": "command", "kw_only": True}


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """A ratio with its 95 % interval; ``verdict`` in the words of the tables."""

    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    verdict: str = ""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """A function on a backend. ``result`` is agrees, differs, not determined, not verified, or failed."""

    backend: str
    result: str
    reason: str = ""
    relative_error: float | None = None
    tolerance: float | None = None
    seconds: float | None = None  # the median of the rounds of one process
    seconds_least: float | None = None
    seconds_most: float | None = None
    placement: str = ""


class ClusterTask(msgspec.Struct, frozen=True, kw_only=True):
    """A process of a running cluster."""

    started: str
    job: str
    backend: str
    task: str
    process: str
    doing: str


class Devices(msgspec.Struct, frozen=True, kw_only=True):
    """The devices of a backend."""

    backend: str
    devices: list[str] = []
    default: str | None = None
    reason: str = ""


class Diagnosed(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a backend works: ``state`` is available, missing or broken."""

    backend: str
    state: str
    versions_or_reason: str
    remedy: str  # what to type


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """An environment: ``state`` is ready, absent, stale, broken or failed."""

    environment: str
    state: str
    path: str = ""
    reason: str = ""


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the store: ``state`` is complete, being measured, cut off or damaged."""

    run: str
    state: str
    name: str = ""
    created: str = ""
    measurements: int = 0
    with_time: int = 0
    rounds: int = 0
    reason: str = ""


class Change(Told, frozen=True, kw_only=True):
    """A measurement in a run, over the one in the complete run before it."""

    comparison: str
    machine: str
    backend: str
    devices: int
    run: str
    seconds: float | None


class GateRow(Told, frozen=True, kw_only=True):
    """A measurement of BASE; ``gate`` is passed, regression, incomplete or no verdict."""

    workload: str
    parameters: dict[str, Any]
    backend: str
    environment: str
    devices: int
    base_seconds: float | None
    head_seconds: float | None
    gate: str
    reason: str


class Release(Told, frozen=True, kw_only=True):
    """A release of a framework beside the first one that works."""

    release: str
    seconds: float | None = None
    first_seconds: float | None = None
    difference: float | None = None  # of the numbers
    differs: bool | None = None
    reason: str = ""


class Output(msgspec.Struct, **_OF):
    """What every command prints. ``answer`` is the sentence that its text begins with, ``error`` why it ended with
    another code than 0, ``notes`` what stands below the table, ``files`` what was written."""

    TEXT: ClassVar[str] = ""  # the field that is the result itself
    exit_code: int
    answer: str = ""
    error: str = ""
    notes: list[str] = []
    files: list[str] = []
    configured: dict[str, str] = {}  # options that pyproject.toml set
    version: int = 1
    xbackend: str = VERSION


class Compare(Output, tag="compare", **_OF):
    run: str = ""
    complete: bool = True
    stopped: str = ""  # why the session ended
    rows: list[Figures] = []


class Run(Output, tag="run", **_OF):
    rows: list[Ran] = []
    shrunk: list[Shrunk] = []


class Train(Output, tag="train", **_OF):
    rows: list[TrainedRow] = []


class Cluster(Output, tag="cluster", **_OF):
    rows: list[ClusterRow] = []
    tasks: list[ClusterTask] = []  # of `cluster status`


class Draw(Output, tag="draw", **_OF):
    TEXT = "drawing"
    drawing: str = ""


class Translate(Output, tag="translate", **_OF):
    TEXT = "text"
    text: str = ""


class DevicesOf(Output, tag="devices", **_OF):
    rows: list[Devices] = []


class Doctor(Output, tag="doctor", **_OF):
    rows: list[Diagnosed] = []
    environments: list[Room] = []  # of `doctor --install`


class Env(Output, tag="env", **_OF):
    rows: list[Room] = []


class Report(Output, tag="report", **_OF):
    pass


class History(Output, tag="history", **_OF):
    rows: list[Change] = []


class Runs(Output, tag="runs", **_OF):
    rows: list[Stored] = []
    run: Compare | None = None  # of `runs RUN`


class Gate(Output, tag="gate", **_OF):
    outcome: str = ""
    rows: list[GateRow] = []


class Bisect(Output, tag="bisect", **_OF):
    first_changed: str = ""
    among: list[str] = []  # releases that may be it
    rows: list[Release] = []


KINDS: dict[str, type[Output]] = {str(kind.__struct_config__.tag): kind for kind in Output.__subclasses__()}


def written(told: Output) -> str:
    """The JSON text, in ASCII: no character of it steers a terminal. NaN is null."""
    return json.dumps(json.loads(msgspec.json.encode(told)), indent=1)


def short(told: Output) -> str:
    """What ``--quiet`` prints: the result itself, or the answer."""
    return str(getattr(told, told.TEXT)) if told.TEXT else told.answer or told.error


def schema() -> dict[str, Any]:
    """The JSON Schema of all outputs."""
    from xbackend.results import formats

    every = reduce(operator.or_, KINDS.values())
    (found,), components = formats.described([every])
    return formats.whole(found, components)


# --- rows from what commands have -------------------------------------------------------------------------------------


def told(ratio: Ratio | None) -> dict[str, Any]:
    """The fields of `Told`."""
    if ratio is None:
        return {}
    numbers = {"ratio": ratio.value, "ratio_low": ratio.low, "ratio_high": ratio.high}
    return {**{name: finite(number) for name, number in numbers.items()}, "verdict": ratio.words}


def compared(results: Results, rows: list[Figures], **fields: Any) -> Compare:
    """The output of a comparison."""
    ended = {"run": results.run, "complete": results.complete, "stopped": results.settings.stopped}
    return Compare(rows=rows, **{**ended, **fields})


def ran(name: str, verified: Verified, tolerance: float | None, seconds: list[float], placement: str) -> Ran:
    return Ran(
        backend=name, result=str(verified.agreement), reason=verified.reason, relative_error=verified.error,
        tolerance=tolerance, seconds=median(seconds), seconds_least=min(seconds), seconds_most=max(seconds),
        placement=placement,
    )  # fmt: skip


def change(series: Series, line: Line, point: Point) -> Change:
    from xbackend.analysis.history import name_of

    return Change(
        comparison=series.title, machine=series.place, backend=line.label, devices=line.devices,
        run=name_of(point.run), seconds=point.measured.time, **told(point.change),
    )  # fmt: skip


def judged(row: Judged) -> GateRow:
    from xbackend.analysis.gate import words

    m = row.measurement
    return GateRow(
        workload=m.workload, parameters=m.parameters, backend=m.backend, environment=m.environment, devices=m.devices,
        base_seconds=row.base, head_seconds=row.head, gate=words(row.outcome), reason=row.reason, **told(row.ratio),
    )  # fmt: skip


def release(name: str, found: Found, numbers: bool) -> Release:
    beside = found.beside.get(name)
    if beside is None:
        return Release(release=name, reason=found.reasons.get(name, ""))
    seconds, first = beside.seconds or (None, None)
    difference = finite(beside.difference) if numbers else None
    return Release(
        release=name, seconds=seconds, first_seconds=first, differs=beside.differs,
        reason=found.reasons.get(name, ""), difference=difference, **told(beside.ratio),
    )  # fmt: skip


if __name__ == "__main__":
    from xbackend.results import formats

    print(formats.printed(schema()))
