"""The measuring loop: runs inside the worker, beside the hosted backend. Plain data in, plain data out.

Imports the standard library, NumPy and what xbackend brings without a framework. The order is fixed: right before fast.
`prepare` compiles, calls once, compares with the float64 oracle and reads the placement. `visit` measures a few rounds,
as often as the session comes by. `finish` lets go of the program. A candidate's first process also checks the clock
before its first round. It, and each one with several devices, takes a profile and a call's memory after the last.

A *call* is an execution on device-resident values, waited for on the device. An *iteration* is one call. A *round* is
enough successive iterations that the clock's own error does not matter. A *visit* is a few rounds while all other
workers stand still.
"""

from __future__ import annotations

import gc
import hashlib
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xbackend.backends.executed_graph import executed
from xbackend.drawing.graph import LARGEST
from xbackend.errors import PlacementError, TimingError
from xbackend.measure import profiles
from xbackend.measure.checks import ATTEMPTS, SHORT, SLOW, check_twice, check_waiting, seconds_of
from xbackend.measure.load import foreign_load, kept_busy
from xbackend.measure.measured import Finished, Measured
from xbackend.measure.memory_watch import MemoryWatch
from xbackend.measure.nvml import GPUWatch
from xbackend.program.serialization import from_json
from xbackend.program.structure import flatten
from xbackend.wording import REST, counted
from xbackend.workloads.agreement import Agreement, ulps, verified, without_number

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend, Built, Executable, Value

SHORTEST_ROUND = 1e-3  # seconds: below, the clock and the loop are part of the figure
OUTLIER = 2.0  # of the median round: above, a round is named
WARM = 0.03  # seconds of calls before the rounds of a visit: the first ones took up to five times as long
VISIT = 0.05  # seconds that the rounds of a visit fill at most: visits are short
LONG = 0.1  # seconds: longer rounds need no calls before them
LOOKS, LOOKED = 7, 0.02  # rounds of a look, seconds of each


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure in one process: so many ``visits``, or fewer (not below ``at_least``) once their rounds took
    ``seconds``; a candidate that is far behind gets fewer still (`Live.known`). A visit has so many ``rounds`` of at
    least ``round_seconds`` each, fewer of longer ones.
    """

    visits: int
    at_least: int
    seconds: float
    rounds: int = 5
    round_seconds: float = 0.01


@dataclass
class ReadyProgram:
    """A verified program between its visits: its call, on device-resident values."""

    executable: Executable
    values: tuple[Value, ...]
    call: Callable[[], Sequence[Value]]
    effort: Effort
    iterations: int
    usual: float  # seconds of a round, before the first visit
    watch: MemoryWatch
    profiled: bool
    gpus: GPUWatch
    rounds: list[float] = field(default_factory=list)
    compiled: set[str] = field(default_factory=set)


_HELD: dict[int, ReadyProgram] = {}  # by the id of its backend, which the executable keeps alive


def prepare(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Compile one program on the hosted backend, and hold it for `visit` if it is right.

    Args:
        backend: the hosted backend.
        job: ``program``, the traced program as JSON; ``bindings``, the device of each logical device name; ``inputs``
            and ``expected``, the .npy files of the arguments and the expected results, as flat lists; ``tolerance``,
            the largest relative error that passes, ``undetermined`` and ``allow_nan`` as `verified` has them; ``kept``,
            the folder of the code that an earlier process compiled, which is found unless ``cold``; ``effort``, an
            `Effort` as plain data; ``first``, whether the clock is checked; ``profiled``, whether a profile and the
            memory of a call are taken after the last round; ``label``, its name.

    Returns:
        A `Measured` as plain data.

    Raises:
        XBackendError: it cannot be compiled or executed.
    """
    if _HELD.pop(id(backend), None) is not None:  # an unfinished one would keep its memory
        gc.unfreeze()
        gc.collect()
    watch = MemoryWatch(backend.memory_peaks)
    inputs = _loaded(job["inputs"])
    kept = Path(job["kept"])
    warm = not job["cold"] and kept.exists()
    if backend.cache is not None:
        backend.cache.begin(kept if warm else None)
    before = backend.rewriting()
    executable = backend.compile(from_json(job["program"]), devices=job["bindings"])
    measured = Measured(inputs=hash_of(inputs), tolerance=job["tolerance"])
    try:
        result = watch.during("first_call", lambda: executable(*inputs))
        if backend.cache is not None and not kept.exists():
            backend.cache.keep(kept)  # for later processes
        measured.cache = "warm" if warm else "cold" if kept.exists() else ""
        expected = _loaded(job["expected"])
        measured.wrong, missing = _compare(executable, result, expected, measured, job), without_number(expected)
        del expected
        del result  # or it would be resident while a call is watched
        if not measured.wrong:
            _hold(executable, inputs, job, watch, measured)
            if missing:
                said = f"NaN is said to be right, in {counted(missing, 'element')} of its result"
                measured.warnings.append(said)
    except (PlacementError, TimingError) as error:
        measured.wrong = str(error)
    measured.phases |= {"lower": executable.ledger.lower, "first_call": executable.ledger.first_call}
    after = backend.rewriting()
    if before is not None and after is not None:
        measured.rewriting = after[0] - before[0], after[1] - before[1]
    measured.placement = _placement(executable)
    measured.warnings += _unread(measured.placement)
    return asdict(measured)


def _hold(
    executable: Executable, inputs: list[np.ndarray], job: dict[str, Any], watch: MemoryWatch, measured: Measured
) -> None:
    """Put the inputs on their devices, calibrate, check the clock, and hold the program. Empties ``inputs``, which
    would be resident while a call is watched. Raises `TimingError`."""
    backend = executable.backend
    values, measured.phases["host_to_device"] = _put(executable, inputs)
    inputs.clear()
    execute, synchronize = executable.execute, backend.synchronize

    def call() -> Sequence[Value]:
        results = execute(*values)
        synchronize(results)
        return results

    def fetch(results: Sequence[Value]) -> list[np.ndarray]:
        return [backend.get(value) for value in results]

    effort, checks = Effort(**job["effort"]), dict[str, float]()
    if job["first"]:  # with one call: launches that nobody waits for would pile up in the rounds
        checks = check_waiting(call, fetch, 1, seconds_of(call, 1))
    iterations, usual = calibrate(call, effort.round_seconds)
    measured.iterations = iterations
    with quiet():
        if usual < SLOW:
            usual = seconds_of(call, iterations)
        if job["first"] and iterations > 1:
            checks = check_waiting(call, fetch, iterations, usual)
        if job["first"]:
            checks |= check_twice(call, iterations, [usual])
    gc.collect()
    gc.freeze()  # exempt from collection: each visit collects newer objects only
    gpus = GPUWatch({device.index for device in executable.placed.devices if device.kind == "gpu"})
    _HELD[id(backend)] = ReadyProgram(executable, values, call, effort, iterations, usual, watch, job["profiled"], gpus)
    measured.phases["device_to_host"], measured.checks = checks.pop("device_to_host", None), checks or None


def visit(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Measure the ``rounds`` of one visit of the held program: seconds per iteration of each, and how many cores others
    (``foreign_cores``) and this process (``own_cores``) kept busy meanwhile. ``session`` of the job are the process
    ids of the session's other workers.

    Raises `TimingError` where something was compiled in each of `ATTEMPTS`.
    """
    held = _HELD[id(backend)]
    usual = held.rounds[-1] * held.iterations if held.rounds else held.usual
    rounds = min(held.effort.rounds, max(1, math.ceil(VISIT / usual)))
    with quiet():
        # A process that just woke up has cold caches, and threads that are not yet spread over the cores.
        end = time.perf_counter() + (0.0 if usual > LONG else WARM)
        while time.perf_counter() < end:
            held.call()
        on_gpus = held.gpus.during(time.perf_counter, job.get("session", ()))
        with on_gpus, foreign_load() as foreign, kept_busy(time.process_time) as own:
            seconds = _rounds(held, rounds, backend.compilations)
    held.rounds += seconds
    return {"rounds": seconds, "foreign_cores": foreign[0], "own_cores": own[0]}


def finish(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Let go of the held program: the findings after its last round, a `Finished` as plain data."""
    held = _HELD.pop(id(backend))
    gc.unfreeze()
    warnings = [*_warnings(held.rounds, held.iterations), *held.gpus.doubts()]
    found = Finished(compiled=sorted(held.compiled), affinity=affinity(), warnings=warnings, gpus=held.gpus.said())
    if held.profiled:
        found.profile, found.unprofiled = profiles.take(held.executable, held.values, held.effort.seconds)
        held.watch.during("call", held.call)
        found.memory, found.memory_unknown = held.watch.result()
    return asdict(found)


def _loaded(files: Sequence[str]) -> list[np.ndarray]:
    return [np.load(file, allow_pickle=False) for file in files]


def _placement(executable: Executable) -> dict[str, Any]:
    """The placement as plain data, with its drawing if that is small enough to read."""
    placement = executable.placement
    data = placement.to_dict()
    if len(executable.program.values) <= LARGEST:
        data["graph"] = executed(executable.program, placement).to_dict()
    return data


def hash_of(arrays: Sequence[np.ndarray]) -> str:
    """SHA-256 (hexadecimal) of arrays: dtypes, shapes and content."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str}{list(array.shape)}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _compare(
    executable: Executable, result: Any, expected: Sequence[np.ndarray], measured: Measured, job: dict[str, Any]
) -> str:
    """Why the result does not pass, empty if it does; its errors are noted."""
    leaves, _ = flatten(result, np.asarray)
    rules = {name: job[name] for name in ("tolerance", "undetermined", "allow_nan")}
    said = verified(leaves, expected, **rules)
    measured.relative_error, measured.ulps = said.error, ulps(leaves, expected)
    declared = [executable.program.values[i].dtype.value for i in executable.program.outputs]
    if [leaf.dtype.name for leaf in leaves] != declared:
        got = ", ".join(leaf.dtype.name for leaf in leaves)
        return f"the outputs are {got}, the program says {', '.join(declared)}"
    if said.agreement is not Agreement.AGREES:
        measured.status = "wrong" if said.agreement is Agreement.DIFFERS else str(said.agreement)
    return said.reason


def affinity() -> list[int] | None:
    """The cores that the threads of this process may use, all together; `None` where the system does not tell."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores = set(os.sched_getaffinity(0))
    for thread in Path("/proc/self/task").glob("*"):  # on Linux
        with suppress(ProcessLookupError):  # it has ended meanwhile
            cores |= os.sched_getaffinity(int(thread.name))
    return sorted(cores)


def _put(executable: Executable, inputs: Sequence[np.ndarray]) -> tuple[tuple[Value, ...], float]:
    """The values of the inputs on their devices, and the median seconds of copying them there."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        values = executable.put(*inputs)
        executable.backend.synchronize(values)
        times.append(time.perf_counter() - start)
    return values, statistics.median(times)


@contextmanager
def quiet() -> Iterator[None]:
    """Without Python's garbage collector, which would strike in some rounds and not in others."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def calibrate(call: Callable[[], Any], round_seconds: float) -> tuple[int, float]:
    """Warm up. Returns the iterations of a round of at least ``round_seconds``, and the seconds of such a round."""
    target = max(round_seconds, SHORTEST_ROUND)
    iterations, took = 1, seconds_of(call, 1)
    while took < target:
        # At most ten times as many: the first calls are slower than the later ones.
        iterations = max(iterations + 1, math.ceil(iterations * min(10.0, 1.1 * target / max(took, 1e-9))))
        took = seconds_of(call, iterations)
    if iterations == 1 and took < SHORT:
        took = seconds_of(call, 1)
    return iterations, took


def look(backend: Backend, built: Built, values: Sequence[Value]) -> dict[str, Any]:
    """A quick estimate of a call's time, not a verdict: its ``seconds`` in each of a few short rounds in this process,
    and the ``foreign_cores`` that others kept busy meanwhile."""

    def call() -> None:
        backend.synchronize(built.execute(*values))

    iterations, _ = calibrate(call, LOOKED)
    with quiet(), foreign_load() as foreign:
        seconds = [seconds_of(call, iterations) / iterations for _ in range(LOOKS)]
    return {"seconds": seconds, "foreign_cores": foreign[0]}


def _rounds(held: ReadyProgram, number: int, compilations: Callable[[], dict[str, int]]) -> list[float]:
    """Seconds per iteration of so many rounds without a compilation, else `TimingError`; notes the compilers."""
    for _ in range(ATTEMPTS):
        before = compilations()
        rounds = [seconds_of(held.call, held.iterations) / held.iterations for _ in range(number)]
        after = compilations()
        busy = [name for name, count in after.items() if before.get(name) != count]
        if not busy:
            held.compiled |= set(after)
            return rounds
    raise TimingError(f"something was compiled in timed rounds, {ATTEMPTS} times over ({', '.join(busy)})")


def _warnings(rounds: Sequence[float], iterations: int) -> list[str]:
    middle, warnings = statistics.median(rounds), list[str]()
    deviation = statistics.median([abs(r - middle) for r in rounds])
    if middle * iterations < SHORTEST_ROUND:
        warnings.append(f"rounds last {middle * iterations * 1e3:.2g} ms, under 1 ms: measure a larger size")
    if deviation > 0.1 * middle:
        warnings.append(f"rounds differ by {100 * deviation / middle:.0f} % (up to 10 % is fine): {REST}")
    outliers = sum(seconds > OUTLIER * middle for seconds in rounds)
    if outliers:
        warnings.append(f"{outliers} of {len(rounds)} rounds took more than {OUTLIER:g} times as long as usual: {REST}")
    return warnings


def _unread(placement: dict[str, Any]) -> list[str]:
    unread = [op["op"] for op in placement["ops"] if op["status"] == "not read"]
    unread += ["a backward pass" for op in placement.get("backward", ()) if op["status"] == "not read"]
    return [f"where {', '.join(sorted(set(unread)))} ran was not read back"] if unread else []
