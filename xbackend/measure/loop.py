"""The measuring loop: runs inside the worker, beside the hosted backend. Plain data in, plain data out.

Imports the standard library, NumPy and what xbackend brings without a framework. The order is fixed: right before fast.
Compile, first call, comparison with the float64 oracle, placement; only then the clock is started.

A *call* is an execution on device-resident values, waited for on the device. An *iteration* is one call, a *round* so
many iterations one after the other that the clock's own error does not matter.
"""

from __future__ import annotations

import gc
import hashlib
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from xbackend.backends.executed_graph import executed
from xbackend.drawing.graph import LARGEST
from xbackend.errors import PlacementError, TimingError
from xbackend.measure import profiles
from xbackend.measure.checks import ATTEMPTS, SHORT, check_twice, check_waiting, seconds_of
from xbackend.measure.measured import Measured, Timed
from xbackend.measure.memory import Watch
from xbackend.program.serialization import from_json
from xbackend.program.structure import flatten
from xbackend.wording import counted
from xbackend.workloads.agreement import STATUSES, Agreement, ulps, verified, without_number

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend, Executable, Value

SHORTEST_ROUND = 1e-3  # seconds: below, the clock and the loop are part of the figure
OUTLIER = 2.0  # of the median round: above, a round is named


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: rounds of at least ``round_seconds``, ``rounds`` of them, or fewer (not below ``at_least``)
    once ``seconds`` are used up.
    """

    rounds: int
    at_least: int
    round_seconds: float
    seconds: float


def measure(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Measure one program on the hosted backend.

    Args:
        backend: the hosted backend.
        job: ``program``, the traced program as JSON; ``bindings``, the device of each logical device name;
            ``inputs`` and ``expected``, the .npy files of the arguments and of what it has to return, as a flat list;
            ``tolerance``, the largest relative error that passes, ``undetermined`` and ``allow_nan`` as `verified`
            has them; ``cold`` and ``kept`` as `_cached` has them, or no ``kept``; ``effort``, an `Effort` as plain
            data; ``label``, what it is called.

    Returns:
        A `Measured` as plain data.

    Raises:
        XBackendError: it cannot be compiled or executed.
    """
    watch = Watch(backend.memory_peaks)
    inputs = _loaded(job["inputs"])
    kept = Path(job["kept"]) if "kept" in job else None
    found = "" if kept is None else _cached(backend, kept, job["cold"])
    before = backend.rewriting()
    executable = backend.compile(from_json(job["program"]), devices=job["bindings"])
    measured = Measured(inputs=hash_of(inputs), tolerance=job["tolerance"])
    try:
        result = watch.during("first_call", lambda: executable(*inputs))
        measured.cache = found if kept is not None and _keep_compiled(backend, kept) else ""
        rules: dict[str, Any] = {name: job[name] for name in ("undetermined", "allow_nan") if name in job}
        expected = _loaded(job["expected"])
        measured.wrong, missing = _compare(executable, result, expected, measured, rules), without_number(expected)
        del expected
        del result  # or it would be resident while a call is watched
        if not measured.wrong:
            measured.timed = _time(backend, executable, inputs, job, watch)
    except (PlacementError, TimingError) as error:
        measured.wrong = str(error)
    measured.lower, measured.first_call = executable.ledger.lower, executable.ledger.first_call
    after = backend.rewriting()
    if before is not None and after is not None:
        measured.rewriting = after[0] - before[0], after[1] - before[1]
    measured.placement = _placement(executable)
    if measured.timed is not None:
        measured.timed.warnings = _warnings(measured.timed, measured.placement)
        if missing:
            measured.timed.warnings.append(f"NaN is said to be right, in {counted(missing, 'element')} of its result")
    return asdict(measured)


def _cached(backend: Backend, kept: Path, cold: bool) -> Literal["cold", "warm"]:
    """Empty the backend's cache of compiled code. Where it is not to compile ``cold``, put in what an earlier process
    ``kept`` of this program. Returns which of the two the cache is now."""
    warm = not cold and kept.exists()
    if backend.cache is not None:
        backend.cache.begin(kept if warm else None)
    return "warm" if warm else "cold"


def _keep_compiled(backend: Backend, kept: Path) -> bool:
    """Keep what was compiled for later processes, unless an earlier one did; whether anything is kept."""
    if backend.cache is not None and not kept.exists():
        backend.cache.keep(kept)
    return kept.exists()


def _loaded(files: Sequence[str]) -> list[np.ndarray]:
    return [np.load(file, allow_pickle=False) for file in files]


def _placement(executable: Executable) -> dict[str, Any]:
    """The placement as plain data, with its drawing as data if it is small enough to be read as one."""
    placement = executable.placement
    data = placement.to_dict()
    if len(executable.program.nodes) <= LARGEST:
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
    executable: Executable, result: Any, expected: Sequence[np.ndarray], measured: Measured, rules: dict[str, Any]
) -> str:
    """Why the result does not pass, empty if it does; its errors are noted."""
    leaves, _ = flatten(result, np.asarray)
    said = verified(leaves, expected, measured.tolerance, **rules)
    measured.relative_error = said.error
    measured.ulps = ulps(leaves, expected)
    declared = [executable.program.nodes[i].dtype.value for i in executable.program.outputs]
    if [leaf.dtype.name for leaf in leaves] != declared:
        got = ", ".join(leaf.dtype.name for leaf in leaves)
        return f"the outputs are {got}, the program says {', '.join(declared)}"
    if said.agreement is not Agreement.AGREES:
        measured.status = STATUSES[said.agreement]
    return said.reason


def _time(
    backend: Backend, executable: Executable, inputs: list[np.ndarray], job: dict[str, Any], watch: Watch
) -> Timed:
    """Empties ``inputs``, which would be resident while a call is watched."""
    effort = Effort(**job["effort"])
    values, host_to_device = _put(backend, executable, inputs)
    inputs.clear()
    execute, synchronize = executable.execute, backend.synchronize

    def call() -> Sequence[Value]:
        results = execute(*values)
        synchronize(results)
        return results

    def fetch(results: Sequence[Value]) -> list[np.ndarray]:
        return [backend.get(value) for value in results]

    # First of all one call: launches that nobody waits for would pile up in the rounds.
    checks = check_waiting(call, fetch, 1, seconds_of(call, 1))
    iterations = calibrate(call, effort.round_seconds)
    with quiet(), foreign_load() as foreign, _load(time.process_time) as own:
        rounds, compiled = _rounds(call, iterations, effort, backend.compilations)
    if iterations > 1:
        checks = check_waiting(call, fetch, iterations, statistics.median(rounds) * iterations)
    checks |= check_twice(call, iterations, [seconds * iterations for seconds in rounds])
    profile, unprofiled = profiles.take(executable, values, effort.seconds)
    watch.during("call", call)
    memory, memory_unknown = watch.result()
    return Timed(
        iterations=iterations,
        rounds=rounds,
        host_to_device=host_to_device,
        device_to_host=checks["device_to_host"],
        compiled=compiled,
        foreign_cores=foreign[0],
        own_cores=own[0],
        affinity=affinity(),
        checks=checks,
        profile=profile,
        unprofiled=unprofiled,
        memory=memory,
        memory_unknown=memory_unknown,
    )


def affinity() -> list[int] | None:
    """The cores that the threads of this process may use, all together; `None` where the system does not tell."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores = set(os.sched_getaffinity(0))
    try:
        threads = [int(entry) for entry in os.listdir("/proc/self/task")]
    except OSError:  # not Linux
        threads = []
    for thread in threads:
        with suppress(ProcessLookupError):  # it has ended meanwhile
            cores |= os.sched_getaffinity(thread)
    return sorted(cores)


def _put(backend: Backend, executable: Executable, inputs: Sequence[np.ndarray]) -> tuple[tuple[Value, ...], float]:
    """The values of the inputs on their devices, and the median seconds of copying them there."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        values = executable.put(*inputs)
        backend.synchronize(values)
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


def foreign_seconds() -> float:
    """Processor seconds that all other processes have used since the machine was started; 0 where it does not tell."""
    try:
        fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    except OSError:  # not Linux
        return 0.0
    user, nice, system, _idle, _waiting, *interrupts = fields
    busy = (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")
    own = os.times()
    return busy - own.user - own.system - own.children_user - own.children_system


@contextmanager
def _load(seconds: Callable[[], float]) -> Iterator[list[float]]:
    """How many cores are kept busy inside of the `with`: one number, there at its end. ``seconds`` gives the processor
    seconds used so far."""
    cores: list[float] = []
    before, start = seconds(), time.perf_counter()
    yield cores
    cores.append(max(0.0, (seconds() - before) / (time.perf_counter() - start)))


def foreign_load() -> AbstractContextManager[list[float]]:
    """How many cores other processes keep busy, as `_load`."""
    return _load(foreign_seconds)


def calibrate(call: Callable[[], Any], round_seconds: float) -> int:
    """Warm up, and find how many iterations a round needs to last at least ``round_seconds``."""
    target = max(round_seconds, SHORTEST_ROUND)
    iterations, took = 1, seconds_of(call, 1)
    while took < target:
        # At most ten times as many: the first calls are slower than the later ones.
        iterations = max(iterations + 1, math.ceil(iterations * min(10.0, 1.1 * target / max(took, 1e-9))))
        took = seconds_of(call, iterations)
    if iterations == 1 and took < SHORT:
        seconds_of(call, 1)
    return iterations


def _rounds(
    call: Callable[[], Any], iterations: int, effort: Effort, compilations: Callable[[], dict[str, int]]
) -> tuple[list[float], list[str]]:
    """Seconds per iteration of each round, and the compilers that were watched and did nothing meanwhile.

    Raises `TimingError` if they were at work each time.
    """
    for _ in range(ATTEMPTS):
        before = compilations()
        rounds: list[float] = []
        start = time.perf_counter()
        while len(rounds) < effort.rounds:
            if len(rounds) >= effort.at_least and time.perf_counter() - start > effort.seconds:
                break
            rounds.append(seconds_of(call, iterations) / iterations)
        after = compilations()
        busy = [name for name, count in after.items() if before.get(name) != count]
        if not busy:
            return rounds, sorted(after)
    raise TimingError(f"something was compiled in timed rounds, {ATTEMPTS} times over ({', '.join(busy)})")


def _warnings(timed: Timed, placement: dict[str, Any]) -> list[str]:
    rounds, warnings = timed.rounds, []
    middle = statistics.median(rounds)
    deviation = statistics.median([abs(r - middle) for r in rounds])
    if middle * timed.iterations < SHORTEST_ROUND:
        warnings.append(f"rounds last {middle * timed.iterations * 1e3:.2g} ms, under 1 ms: measure a larger size")
    if deviation > 0.1 * middle:
        warnings.append(
            f"rounds spread by {deviation / middle:.0%} (median absolute deviation, over 10 %): let the machine rest, "
            "measure more processes"
        )
    outliers = sum(seconds > OUTLIER * middle for seconds in rounds)
    if outliers:
        warnings.append(
            f"{outliers} of {len(rounds)} rounds took over {OUTLIER:g} times the median; they count: let the "
            "machine rest"
        )
    unread = [op["op"] for op in placement["ops"] if op["status"] == "not read"]
    unread += ["a backward pass" for op in placement.get("backward", ()) if op["status"] == "not read"]
    if unread:
        warnings.append(f"where {', '.join(sorted(set(unread)))} ran was not read back")
    return warnings
