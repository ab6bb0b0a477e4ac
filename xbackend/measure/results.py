"""What a comparison leaves behind: plain data with a schema, read and written by msgspec.

All times are seconds. A measurement that could not be made is a row like any other, with its reason.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from xbackend.errors import StoreError

# 2: a process has `own_cores` and `profile`, a measurement `unprofiled`, a placement `graph` in place of `drawing`.
# Files of version 1 are read; they lack these.
VERSION = 2


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of each phase of one process; `None` where a phase did not happen."""

    process_start: float | None = None
    framework_import: float | None = None
    trace: float | None = None
    lower: float | None = None
    first_call: float | None = None
    host_to_device: float | None = None
    call: float | None = None
    device_to_host: float | None = None


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What the devices did in one profiled execution: the one of median length among ``taken``.

    Seconds: ``wall`` from its start to the end of the last span, ``busy`` of each device (it computed, in one span or
    in several at once), ``transfers`` (at least one was under way), ``exposed`` (one was, and no device computed),
    ``together`` (at least two devices computed).
    ``spans`` are device, start, end, ``compute`` or ``transfer``, and what; of ``count`` there were, the first are
    kept, of the first process only.
    """

    wall: float
    busy: dict[str, float]
    transfers: float
    exposed: float
    together: float
    taken: int = 1
    count: int = 0
    spans: list[tuple[str, float, float, str, str]] = []


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """One fresh process: where it stood in the order, when it started, its rounds.

    ``rounds`` are seconds per iteration, each the mean of ``iterations`` calls made one after the other.
    ``foreign_cores`` is how many cores other processes kept busy meanwhile, ``own_cores`` how many it did itself.
    """

    order: int
    started: float
    iterations: int
    rounds: list[float]
    phases: Phases
    foreign_cores: float | None = None
    own_cores: float | None = None
    profile: Profile | None = None

    @property
    def median(self) -> float:
        """The median round: the one figure of this process."""
        return median(self.rounds)


class Parity(msgspec.Struct, frozen=True, kw_only=True):
    """The relative error against the float64 oracle, the largest that passes, and the hash of the inputs."""

    relative_error: float
    tolerance: float
    inputs: str

    @property
    def passed(self) -> bool:
        return self.relative_error <= self.tolerance


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate: a workload with parameters on a backend with devices.

    ``status``: ``ok``, ``missing`` (cannot run here), ``failed`` (error, crash, hang), ``wrong`` (parity or placement);
    ``reason`` says why it is not ok. ``operations`` is the count of one execution, ``bindings`` what each logical
    device was bound to. ``placement`` and ``description`` are those of the executable and the backend. ``warnings`` say
    what makes the seconds doubtful, and what to do. ``parity`` is `None` where the result was not finite or did not
    come. ``unprofiled`` says why no process has a profile.
    """

    workload: str
    parameters: dict[str, Any]
    backend: str
    devices: int
    bindings: dict[str, str]
    status: str
    reason: str = ""
    operations: int = 0
    operations_by_op: dict[str, int] = {}
    parity: Parity | None = None
    processes: list[Process] = []
    placement: dict[str, Any] = {}
    description: dict[str, Any] = {}
    warnings: list[str] = []
    unprofiled: str = ""

    @property
    def median(self) -> float | None:
        """The median over the processes' medians, in seconds; `None` without a process."""
        return median([p.median for p in self.processes]) if self.processes else None

    @property
    def rate(self) -> float | None:
        """Operations per second at the median; `None` without one."""
        middle = self.median
        return self.operations / middle if middle else None


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One figure that the project sets itself, as measured: a ratio, a duration or a rate.

    ``group`` names the section (``framework tax``, ``blas``, ``tracing``, ...), ``subject`` the backend or what
    else was
    measured, ``limit`` the figure to reach, ``relation`` ``at most`` or ``at least``; ``detail`` holds the numbers
    behind it.
    """

    group: str
    name: str
    subject: str
    value: float | None
    unit: str
    limit: float | None = None
    relation: str = "at most"
    reason: str = ""
    detail: dict[str, Any] = {}

    @property
    def reached(self) -> bool | None:
        """Whether the figure is reached; `None` if it was not measured or has no limit."""
        if self.value is None or self.limit is None:
            return None
        return self.value <= self.limit if self.relation == "at most" else self.value >= self.limit


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured. ``fingerprint`` is a hash of the stable fields only."""

    processor: str
    cores: int
    memory_bytes: int
    system: str
    python: str
    accelerators: list[str]
    fingerprint: str


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """One run: everything that was measured, in the order of the table, and where and how."""

    name: str
    created: str
    xbackend: str
    machine: Machine
    settings: dict[str, Any]
    order: list[str]
    measurements: list[Measurement]
    figures: list[Figure] = []
    version: int = VERSION
    format: str = "xbackend.results"


def save(results: Results, path: Path) -> None:
    """Write the results whole or not at all: to a temporary file beside ``path``, then renamed.

    Raises `StoreError` where that is not possible.
    """
    text = msgspec.json.format(msgspec.json.encode(results), indent=1)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(text + b"\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # the folder may be a file, or the disk gone
            temporary.unlink(missing_ok=True)
        raise StoreError(f"results cannot be written to {path}: {error.strerror or error}") from error


def load(path: Path) -> Results:
    """Read results. Raises `StoreError`, which names the file, where they are missing, damaged or newer."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"results cannot be read from {path}: {error.strerror or error}") from error
    try:
        head = msgspec.json.decode(data, type=dict[str, Any])
        if head.get("format") != "xbackend.results":
            raise StoreError(f"{path} holds no results of xbackend compare")
        version = head.get("version")
        if isinstance(version, int) and version > VERSION:
            raise StoreError(f"{path} has version {version}, this xbackend reads up to {VERSION}: upgrade xbackend")
        return msgspec.convert(head, Results)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StoreError(f"{path} is damaged: {error}; restore it or measure again") from error
