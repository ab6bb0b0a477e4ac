"""The results of a comparison: plain data with a schema, read and written by msgspec.

All times are seconds. A failed measurement is a row like any other, with its reason. A file carries the SHA-256 of its
content, so that a flipped digit is damage and not another number; white space is not part of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, geometric_mean, median, median_low
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec

from xbackend.backends.description import Description
from xbackend.backends.placement import OpRecord, Placement, TransferRecord, adds_up
from xbackend.cores import FOREIGN
from xbackend.devices import Device, is_device
from xbackend.drawing.graph import Graph
from xbackend.errors import DamagedStore, DeviceSpellingError, StoreError, StoreVersionError
from xbackend.files import read_file, refused
from xbackend.results.packing import unpacked

# Possible values: numbers of a damaged file are often far beyond. JSON knows neither NaN nor infinities.
Seconds = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Round = Annotated[float, msgspec.Meta(gt=1e-12, le=1e9)]
Moment = Annotated[float, msgspec.Meta(ge=0, le=1e11)]  # seconds since 1970
Amount = Annotated[float, msgspec.Meta(ge=0)]
Cores = Annotated[float, msgspec.Meta(ge=0, le=1e6)]  # that are kept busy
MOST = 10**18
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Operations = Annotated[int, msgspec.Meta(ge=0)]  # that of a program nobody could execute may be beyond 64 bits
MOST_OPERATIONS = 10**300  # a float holds them
Positive = Annotated[int, msgspec.Meta(ge=1, le=MOST)]
Status = Annotated[str, msgspec.Meta(pattern=r"^(ok|missing|failed|wrong|not verified|not determined)\Z")]
UNPROVEN = ("wrong", "not verified", "not determined")  # a result that is not shown to be right has no time
Key = tuple[str, str, str, int, str]
Told = TypeVar("Told", bound="StoredFile")


def key_of(parameters: Mapping[str, Any]) -> str:
    """Text that is the same for the same parameters."""
    return json.dumps(parameters, sort_keys=True, default=str)


class Phases(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of each phase of one process; `None` where a phase did not happen."""

    process_start: Seconds | None = None
    framework_import: Seconds | None = None
    trace: Seconds | None = None
    lower: Seconds | None = None
    first_call: Seconds | None = None
    host_to_device: Seconds | None = None
    call: Seconds | None = None
    device_to_host: Seconds | None = None


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The activity of the devices in one profiled execution: of ``taken``, the one of median length. In seconds."""

    wall: Round  #: from its start to the end of the last span
    busy: dict[str, float]  #: of each device: it computed, in one span or in several at once
    transfers: float  #: at least one was under way
    ways: dict[str, Seconds] = {}  #: of each way that accelerators or processes are at an end of, as `placement.way`
    exposed: float  #: one was, and no device computed
    together: float  #: at least two devices computed
    call: Round  #: how long the caller waited: to 5 % the sum of launch, compute, exposed and wait
    launch: Seconds  #: before the first span and after the last
    compute: Seconds  #: at least one device computed
    wait: Seconds  #: between spans
    taken: Count = 1
    count: Count = 0  #: of spans, of which the first are kept, and of the `typical` profile only
    spans: list[tuple[str, Seconds, Seconds, str, str]] = []  #: device, start, end, "compute" or "transfer", and what

    def __post_init__(self) -> None:
        parts = [self.transfers, self.exposed, self.together, *self.busy.values()]
        if not all(-1e-9 <= part <= self.wall * 1.001 for part in parts):
            raise ValueError("a profile has a part that is longer than the whole of it")
        if not adds_up(self.parts.values(), 1.0):
            raise ValueError("a profile has parts that are not the whole of its call")
        if any(start > end for _, start, end, _, _ in self.spans):
            raise ValueError("a profile has a span that ends before it begins")

    @property
    def parts(self) -> dict[str, float]:
        """The shares of the call, from 0 to 1, which add up to all of it; ``transfer`` is one without computation."""
        seconds = {"compute": self.compute, "transfer": self.exposed, "wait": self.wait, "launch": self.launch}
        return {part: s / self.call for part, s in seconds.items()}

    @property
    def at_once(self) -> float:
        """The part of the time, from 0 to 1, in which at least two devices computed."""
        return self.share(self.together)

    def share(self, seconds: float) -> float:
        """Seconds as a part of ``wall``, from 0 to 1."""
        return min(1.0, max(0.0, seconds / self.wall))


def typical(profiles: Sequence[Profile]) -> Profile | None:
    """The profile whose share of `at_once` is nearest to the median; the first of several, `None` of none."""
    middle = median_low([profile.at_once for profile in profiles]) if profiles else 0.0
    return min(profiles, key=lambda profile: abs(profile.at_once - middle), default=None)


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """In bytes."""

    before: Count  #: the resident set before the inputs were there
    first_call: Count  #: its peak above that in the first call, with its compilation
    call: Count  #: and in one call after the timed rounds
    devices: dict[str, Count] = {}  #: the peak of use of each device, where the framework tells


class Visit(msgspec.Struct, frozen=True, array_like=True):
    """A few rounds of a process, one after the other, while the other processes of the session stood still."""

    rounds: Annotated[list[Round], msgspec.Meta(min_length=1)]  #: seconds per iteration
    at: Seconds = 0.0  #: when the first began, after the start of the process
    foreign_cores: Cores | None = None  #: that other processes kept busy meanwhile; `None`: the system does not tell
    own_cores: Cores | None = None  #: that it kept busy itself

    @property
    def disturbed(self) -> bool:
        """Whether other processes used the cores meanwhile; its own seconds say nothing about it."""
        return (self.foreign_cores or 0.0) > FOREIGN


class Process(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """One fresh process: its place in the order, its start, and its visits.

    The first process of a candidate has the ``checks`` of the timing itself: ``second_wait``, the part of a round that
    another wait would add, and ``twice``, the time of twice the work over that of the work. That process, and each one
    with several devices, has ``profile`` and ``memory``. `None` is what the system does not tell.
    """

    order: Count
    generation: Count | None = None  #: the processes of one took turns; `None` where none did
    started: Moment
    iterations: Positive  #: calls, made one after the other, whose mean is a round of a visit
    visits: Annotated[list[Visit], msgspec.Meta(min_length=1)]
    phases: Phases
    profile: Profile | None = None
    affinity: list[Count] | None = None  #: the cores that it could use
    load: Amount | None = None  #: the machine's load average of a minute when it started
    accelerator_processes: list[str] | None = None  #: those of others on the GPUs, in words
    gpus: list[str] | None = None  #: the clocks, temperature and power of those it used, during its rounds, in words
    checks: dict[str, float] | None = None
    compiled: list[str] | None = None  #: compilers watched in the timed rounds, which did nothing; `None`: unfinished
    memory: Memory | None = None
    cache: Literal["", "cold", "warm"] = ""  #: "cold": no code on disk; "warm": a cold process's; "": no code is kept
    rewriting: Seconds | None = None  #: of ``lower``, in which the framework rewrote its graph, where that is a step
    rewrites: Count | None = None  #: the number of replaced variables

    @property
    def rounds(self) -> list[float]:
        """Seconds per iteration of all rounds, in their order."""
        return [seconds for visit in self.visits for seconds in visit.rounds]

    @property
    def foreign_cores(self) -> float | None:
        """How many cores other processes kept busy during its visits: the mean of what is known."""
        return _mean(visit.foreign_cores for visit in self.visits)

    @property
    def own_cores(self) -> float | None:
        """As `foreign_cores`, of this process itself."""
        return _mean(visit.own_cores for visit in self.visits)

    @cached_property
    def time(self) -> float:
        """Seconds: the one figure of this process, `figure` of its visits."""
        return figure(self.visits)

    @property
    def disturbed(self) -> bool:
        """Whether other processes used the cores during all of its visits; these count all the same."""
        return all(visit.disturbed for visit in self.visits)


def _mean(cores: Iterable[float | None]) -> float | None:
    known = [number for number in cores if number is not None]
    return fmean(known) if known else None


def figure(visits: Sequence[Visit]) -> float:
    """Seconds: the geometric mean of the visits' median rounds, without a tenth of these at either end.

    Visits that others disturbed do not count, unless they disturbed all.
    """
    medians = sorted(median(v.rounds) for v in [v for v in visits if not v.disturbed] or visits)
    out = len(medians) // 10
    return geometric_mean(medians[out : len(medians) - out])


class Parity(msgspec.Struct, frozen=True, kw_only=True):
    """The error against the float64 oracle. ``ulps`` is the largest of an element, in units in the last place of the
    output's dtype at the oracle's value; `None` where no output is floating-point or it was not taken."""

    relative_error: Amount
    tolerance: Amount  #: the largest that passes
    inputs: str  #: their hash
    ulps: Amount | None = None
    derived: str = ""  #: how the tolerance was derived


@dataclass(frozen=True)
class Evidence(Placement):
    """The placement of an executable as results hold it; ``graph`` is what was executed."""

    ops: tuple[OpRecord, ...] = ()
    transfers: tuple[TransferRecord, ...] = ()
    graph: Graph | None = None

    def __post_init__(self) -> None:
        if not all(0 <= n <= MOST for n in (*(t.bytes for t in self.transfers), *(b.count for b in self.backward))):
            raise ValueError("a placement has a number of bytes or ops that cannot be")
        if self.graph is not None and not self.graph.sound:
            raise ValueError("the drawing of a placement has a box, an edge or a mark that cannot be")


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate: a workload with parameters on a backend with devices.

    ``status``: ``ok``, ``missing`` (cannot run here), ``failed`` (error, crash, hang), ``wrong`` (parity or placement),
    ``not verified`` (NaN in the oracle's result, too), ``not determined`` (in the precision of the program).
    """

    workload: str
    parameters: dict[str, Any]
    backend: str
    devices: Count
    bindings: dict[str, str]  #: what each logical device was bound to
    status: Status
    reason: str = ""  #: why it is not ok
    operations: Operations = 0  #: of one execution
    operations_by_op: dict[str, Operations] = {}
    parity: Parity | None = None  #: `None` where the result was not finite or did not come
    processes: list[Process] = []
    placement: dict[str, Any] = {}  #: of the executable
    description: Description = msgspec.field(default_factory=Description)  #: of the backend
    warnings: list[str] = []  #: what makes the seconds doubtful, and what to do
    unprofiled: str = ""  #: why no process has a profile
    memory_unknown: str = ""  #: why none has its memory
    environment: str = ""  #: the requirement that it was made for, such as ``pytensor==2.38.3``; empty: the locked one
    versions: dict[str, str] = {}  #: of its packages
    program: str = ""  #: the traced program's fingerprint
    reused: str = ""  #: the run of another session that measured it; empty: this one

    def __post_init__(self) -> None:
        if max(self.operations, *self.operations_by_op.values(), 0) > MOST_OPERATIONS:
            raise ValueError(f"more operations than {MOST_OPERATIONS:.0e}")
        _ = self.evidence
        for device in self.bindings.values():
            try:
                Device.parse(device)
            except DeviceSpellingError as error:
                raise ValueError(str(error)) from error

    @property
    def evidence(self) -> Evidence:
        """The placement, typed."""
        return msgspec.convert(self.placement, Evidence)

    @property
    def kinds(self) -> set[str]:
        """The kinds of the devices that it was bound to; none where it did not come so far."""
        bound = self.bindings.values() or (op.bound for op in self.evidence.ops)
        return {Device.parse(device).kind for device in bound if is_device(device)}

    @property
    def times(self) -> list[float]:
        """Seconds: one for each process."""
        return [process.time for process in self.processes]


def key(row: Measurement) -> Key:
    """The key of a measurement across runs: workload, parameters, backend, devices, environment."""
    return row.workload, key_of(row.parameters), row.backend, row.devices, row.environment


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Where it was measured. ``fingerprint`` is a hash of the stable fields only."""

    processor: str
    cores: Count
    memory_bytes: Count
    system: str
    python: str
    accelerators: list[str]
    fingerprint: str


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How it was measured: what was asked for, and the course of it. Unknown fields have their defaults."""

    quick: bool | None = None
    thorough: bool | None = None
    minutes: Amount | None = None
    devices: list[Count] = []
    kinds: list[str] = []  #: of the devices, where asked for, accelerators first
    processes: Count | None = None  #: of each candidate, made or planned
    threads: Count | None = None  #: of every process or, with ``cores_per_device``, of every device
    cores_per_device: Count | None = None
    seed: int | None = None
    effort: dict[str, int | float] = {}  #: of one process
    blocks: str = ""  #: what a block was, in words
    seconds: Seconds | None = None  #: the length of the session
    stopped: str = ""  #: why it ended
    width: Amount | None = None  #: the widest interval of a time, over that time
    allow_nan: bool = False  #: NaN in a result was right where the oracle had it, too
    adaptive: bool = False  #: candidates got no more processes once something was shown
    wait: Amount | None = None  #: seconds allowed for waiting until other processes leave the cores alone
    waited: Seconds | None = None  #: those of ``seconds`` spent on it
    variables: dict[str, str] = {}  #: environment variables that choose a framework's or a library's code
    visible: str | None = None  #: CUDA_VISIBLE_DEVICES; `None` where it is not set
    warnings: list[str] | None = None  #: of all of the run; `None` where nobody looked
    configured: dict[str, str] = {}  #: options of the command that pyproject.toml set


class StoredFile(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a file: it has a ``format`` and a ``version``, and files of other versions are not read."""

    MADE_BY: ClassVar[tuple[str, str]]  #: the command that writes such files, and the words for making one again

    @classmethod
    def own(cls, name: str) -> Any:
        """What files of this kind have as their ``format``, or their ``version``."""
        return next(field.default for field in msgspec.structs.fields(cls) if field.name == name)


class Results(StoredFile, frozen=True, kw_only=True):
    """One run: everything that was measured, in the order of the table, and where and how."""

    MADE_BY = "xbackend compare", "measure"
    name: str
    created: str
    xbackend: str
    machine: Machine
    settings: SessionSettings
    order: list[str]
    measurements: list[Measurement]
    run: str = ""  #: its name in the store, unique
    complete: bool = True  #: all that was planned was measured or has its reason
    version: Positive = 9
    format: str = "xbackend.results"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a training or of a job on a backend, or the ``reason`` why it did not end.

    ``difference`` is the largest difference of a weight or variable from that of the first that ended, over the largest
    element of its array; `None` of the first itself.
    """

    backend: str
    status: Status = "ok"
    reason: str = ""
    versions: Mapping[str, str] = {}
    difference: Amount | None = None


class Outcomes(StoredFile, frozen=True, kw_only=True):
    """Several outcomes; ``summary`` says in words of what."""

    summary: str
    created: str
    machine: Machine
    runs: tuple[Outcome, ...]
    configured: dict[str, str] = {}  # options of the command that pyproject.toml set


def plain(told: msgspec.Struct, refused: str) -> dict[str, Any]:
    """A struct as decoded JSON. Raises `StoreError`, ``refused`` and why, where it could not be read back."""
    content: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(told))
    try:
        msgspec.convert(content, type(told))
    except msgspec.ValidationError as error:
        raise StoreError(f"{refused}: {error}") from error
    return content


def sealed(told: dict[str, Any] | msgspec.Struct, indent: int = 1) -> bytes:
    """Decoded JSON, or a struct, as the content of a file, with its ``checksum``."""
    content = msgspec.json.decode(msgspec.json.encode(told)) if isinstance(told, msgspec.Struct) else told
    text = msgspec.json.format(msgspec.json.encode({**content, "checksum": checksum(content)}), indent=indent)
    return bytes(text + b"\n")


def checksum(content: dict[str, Any]) -> str:
    """SHA-256 (hexadecimal) of decoded JSON without its ``checksum``, whatever the order of its keys."""
    rest = {key: value for key, value in content.items() if key != "checksum"}
    return hashlib.sha256(msgspec.json.encode(rest, order="sorted")).hexdigest()


def opened(data: bytes) -> dict[str, Any]:
    """The decoded JSON that `sealed` was given. Raises `ValueError` and `RecursionError` where it is not that."""
    content = msgspec.json.decode(data)
    if not isinstance(content, dict) or content.pop("checksum", None) != checksum(content):
        raise ValueError("it is not what its checksum says")
    return content


def load(path: Path) -> Results:
    """Read results. Raises as `read`."""
    return read(path, Results)


def read(path: Path, kind: type[Told]) -> Told:
    """The content of a file. Raises `StoreError`, `DamagedStore`, and of another version `StoreVersionError`."""
    with refused(f"{kind.__name__.lower()} cannot be read from {path}"):
        data = read_file(path)
    return decode(data, path, kind)


def decode(data: bytes, path: Path | str, kind: type[Told]) -> Told:
    """The struct that a file's content holds; ``path``, or where it was, is for the messages. Raises as `read` does."""
    of, again = kind.MADE_BY
    try:
        content = msgspec.json.decode(unpacked(data, path))
        if not isinstance(content, dict) or content.get("format") != kind.own("format"):
            raise DamagedStore(f"{path} holds nothing of {of}")
        if content.get("checksum") != checksum(content):
            raise DamagedStore(f"{path} is damaged: it is not what its checksum says; restore it or {again} again")
        version, own = content.get("version"), kind.own("version")
        if type(version) is int and 0 < version != own:
            instead = "upgrade xbackend" if version > own else f"{of} makes a new one"
            raise StoreVersionError(f"{path} has version {version}, this xbackend reads {own}: {instead}")
        return msgspec.convert(content, kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedStore(f"{path} is damaged: {error}; restore it or {again} again") from error
