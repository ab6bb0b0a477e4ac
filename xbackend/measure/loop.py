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
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xbackend import workloads
from xbackend.backends.drawing import executed
from xbackend.errors import PlacementError, TimingError
from xbackend.measure import compilers, profiles
from xbackend.program.graph import LARGEST
from xbackend.program.program import Program
from xbackend.program.structure import flatten

if TYPE_CHECKING:
    from xbackend.backends.base import Backend, Executable, Value

SHORTEST_ROUND = 1e-3  # seconds: below, the clock and the loop are part of the figure
SECOND_WAIT = 0.05  # of a round: what waiting once more may add, before the first wait counts as none
NOISE = 2e-4  # seconds: what waiting once more may add on a busy machine whatever the round
TWICE = 1.5  # what twice the work has to take at least
FOREIGN = 0.25  # cores that other processes may use before it is worth a warning
ATTEMPTS = 3  # a busy machine may spoil a check; a timing that is wrong fails each time


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: rounds of at least ``round_seconds``, ``rounds`` of them, or fewer (not below ``at_least``)
    once ``seconds`` are used up.
    """

    rounds: int
    at_least: int
    round_seconds: float
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data, read back by ``Effort(**data)``."""
        return asdict(self)


def measure(backend: Backend, job: dict[str, Any]) -> dict[str, Any]:
    """Measure one program on the hosted backend.

    Args:
        backend: the hosted backend.
        job: ``program``, the traced program as JSON; ``bindings``, the device of each logical device name;
            ``workload``, ``parameters`` and ``seed``, what the inputs, the oracle and the tolerance are made from;
            ``effort``, an `Effort` as plain data.

    Returns:
        ``status`` ``ok`` or ``wrong`` with ``reason``; ``inputs`` (hash), ``relative_error`` (`None` where it is not
        finite), ``tolerance``, ``placement`` (with ``graph``, what was executed as a drawing, unless it is too large),
        seconds of ``lower`` and ``first_call``; only if ``ok``: ``iterations``, ``rounds`` (seconds per iteration),
        seconds of ``host_to_device``, ``call``, ``device_to_host``; ``compiled`` (the compilers that were watched),
        ``foreign_cores`` and ``own_cores`` (how many cores others and this process kept busy meanwhile), ``checks`` of
        the timing itself, ``profile`` or why there is none (``unprofiled``), ``warnings``.

    Raises:
        XBackendError: it cannot be compiled or executed.
    """
    source, parameters = workloads.get(job["workload"]), job["parameters"]
    inputs = source.inputs(seed=job["seed"], **parameters)
    executable = backend.compile(Program.from_json(job["program"]), devices=job["bindings"])
    found: dict[str, Any] = {"status": "ok", "reason": "", "inputs": hash_of(inputs), "warnings": []}
    try:
        result = executable(*inputs)
        oracle = source.oracle(tuple(inputs), **parameters)
        found.update(_compare(executable, result, oracle, source.tolerance(**parameters)))
        if found["status"] == "ok":
            found.update(_time(backend, executable, inputs, Effort(**job["effort"])))
    except (PlacementError, TimingError) as error:
        found.update(status="wrong", reason=str(error))
    found["lower"], found["first_call"] = executable.ledger.lower, executable.ledger.first_call
    found["placement"] = _placement(executable)
    if found["status"] == "ok":
        found["warnings"] = _warnings(found)
    return found


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


def _compare(executable: Executable, result: Any, oracle: Any, tolerance: float) -> dict[str, Any]:
    """Relative error and tolerance; a result that does not pass is ``wrong``."""
    error = workloads.relative_error(result, oracle)
    found: dict[str, Any] = {"relative_error": error if math.isfinite(error) else None, "tolerance": tolerance}
    leaves, _ = flatten(result, np.asarray)
    declared = [executable.program.nodes[i].dtype.value for i in executable.program.outputs]
    if [leaf.dtype.name for leaf in leaves] != declared:
        got = ", ".join(leaf.dtype.name for leaf in leaves)
        found.update(status="wrong", reason=f"the outputs are {got}, the program says {', '.join(declared)}")
    elif not error <= tolerance:
        found.update(
            status="wrong", reason=f"relative error {error:.2g} against the float64 oracle, {tolerance:.2g} is allowed"
        )
    return found


def _time(backend: Backend, executable: Executable, inputs: Sequence[np.ndarray], effort: Effort) -> dict[str, Any]:
    values, host_to_device = _put(backend, executable, inputs)
    call = _caller(backend, executable, values)

    def fetch(results: Sequence[Value]) -> list[np.ndarray]:
        return [backend.get(value) for value in results]

    # First of all one call: launches that nobody waits for would pile up in the rounds.
    checks = check_waiting(call, fetch, 1, seconds_of(call, 1))
    iterations = calibrate(call, effort.round_seconds)
    with quiet(), foreign_load() as foreign, own_load() as own:
        rounds, compiled = _rounds(call, iterations, effort)
    if iterations > 1:
        checks = check_waiting(call, fetch, iterations, statistics.median(rounds) * iterations)
    checks |= check_twice(call, iterations)
    return {
        "iterations": iterations,
        "rounds": rounds,
        "host_to_device": host_to_device,
        "call": statistics.median(rounds),
        "device_to_host": checks["device_to_host"],
        "compiled": compiled,
        "foreign_cores": foreign[0],
        "own_cores": own[0],
        "checks": checks,
        **profiles.take(executable, values, effort.seconds),
    }


def _put(backend: Backend, executable: Executable, inputs: Sequence[np.ndarray]) -> tuple[tuple[Value, ...], float]:
    """The values of the inputs on their devices, and the median seconds of copying them there."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        values = executable.put(*inputs)
        backend.synchronize(values)
        times.append(time.perf_counter() - start)
    return values, statistics.median(times)


def _caller(backend: Backend, executable: Executable, values: Sequence[Value]) -> Callable[[], Sequence[Value]]:
    execute, synchronize = executable.execute, backend.synchronize

    def call() -> Sequence[Value]:
        results = execute(*values)
        synchronize(results)
        return results

    return call


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
def foreign_load() -> Iterator[list[float]]:
    """How many cores other processes keep busy inside of the `with`: one number, there at its end."""
    cores: list[float] = []
    before, start = foreign_seconds(), time.perf_counter()
    yield cores
    cores.append(max(0.0, (foreign_seconds() - before) / (time.perf_counter() - start)))


@contextmanager
def own_load() -> Iterator[list[float]]:
    """How many cores this process keeps busy inside of the `with`: one number, there at its end."""
    cores: list[float] = []
    before, start = time.process_time(), time.perf_counter()
    yield cores
    cores.append((time.process_time() - before) / (time.perf_counter() - start))


def seconds_of(call: Callable[[], Any], iterations: int) -> float:
    """Seconds of so many calls, one after the other."""
    start = time.perf_counter()
    for _ in range(iterations):
        call()
    return time.perf_counter() - start


def calibrate(call: Callable[[], Any], round_seconds: float) -> int:
    """Warm up, and find how many iterations a round needs to last at least ``round_seconds``."""
    target = max(round_seconds, SHORTEST_ROUND)
    iterations, took = 1, seconds_of(call, 1)
    while took < target:
        # At most ten times as many: the first calls are slower than the later ones.
        iterations = max(iterations + 1, math.ceil(iterations * min(10.0, 1.1 * target / max(took, 1e-9))))
        took = seconds_of(call, iterations)
    if iterations == 1:
        seconds_of(call, 1)
    return iterations


def _rounds(call: Callable[[], Any], iterations: int, effort: Effort) -> tuple[list[float], list[str]]:
    """Seconds per iteration of each round, and the compilers that were watched and did nothing meanwhile.

    Raises `TimingError` if they were at work each time.
    """
    for _ in range(ATTEMPTS):
        before = compilers.counts()
        rounds: list[float] = []
        start = time.perf_counter()
        while len(rounds) < effort.rounds:
            if len(rounds) >= effort.at_least and time.perf_counter() - start > effort.seconds:
                break
            rounds.append(seconds_of(call, iterations) / iterations)
        after = compilers.counts()
        busy = [name for name, count in after.items() if before.get(name) != count]
        if not busy:
            return rounds, sorted(after)
    raise TimingError(f"something was compiled in timed rounds, {ATTEMPTS} times over ({', '.join(busy)})")


def check_waiting(
    call: Callable[[], Any], fetch: Callable[[Any], Any], iterations: int, expected: float
) -> dict[str, float]:
    """Whether the clock waits for the work: waiting once more after a round adds nothing.

    ``fetch`` copies results to the host, so it waits for them whatever ``call`` did. What it takes right after a round
    is compared with what it takes after a pause as long as the round (``expected`` seconds). The fastest of a few
    counts: other processes only ever add.

    Returns ``second_wait`` (part of a round) and ``device_to_host`` (seconds).
    Raises `TimingError`: what was timed are launches.
    """
    for _ in range(ATTEMPTS):
        waits: list[float] = []
        copies: list[float] = []
        rounds: list[float] = []
        for _ in range(3 if expected < 0.5 else 1):
            rounds.append(_round_and_fetch(call, fetch, iterations, 0.0, waits))
            _round_and_fetch(call, fetch, 1, min(max(expected, 0.002), 2.0), copies)
        copy = statistics.median(copies)
        extra = max(0.0, min(waits) - copy)
        if extra <= max(SECOND_WAIT * min(rounds), NOISE):
            return {"second_wait": extra / min(rounds), "device_to_host": copy}
    raise TimingError(
        f"the clock does not wait for the work: waiting a second time adds {extra / min(rounds):.0%} of a round "
        f"(at most {SECOND_WAIT:.0%} is right); its synchronize returns too early"
    )


def check_twice(call: Callable[[], Any], iterations: int) -> dict[str, float]:
    """Whether the work is done each time: a round of twice the iterations takes about twice as long.

    Returns ``twice`` (ratio). Raises `TimingError`.
    """
    ratios = []
    for _ in range(ATTEMPTS):
        single = min(seconds_of(call, iterations), seconds_of(call, iterations))
        ratios.append(seconds_of(call, 2 * iterations) / single)
        if ratios[-1] >= TWICE:
            return {"twice": ratios[-1]}
    raise TimingError(
        f"the work is not done each time: twice of it takes {max(ratios):.2f} times as long (at least {TWICE} is right)"
    )


def _round_and_fetch(
    call: Callable[[], Any], fetch: Callable[[Any], Any], iterations: int, pause: float, fetched: list[float]
) -> float:
    """Seconds of a round; the seconds of fetching its last result, after a pause, are appended."""
    start = time.perf_counter()
    for _ in range(iterations):
        results = call()
    took = time.perf_counter() - start
    if pause:
        time.sleep(pause)
    start = time.perf_counter()
    fetch(results)
    fetched.append(time.perf_counter() - start)
    return took


def _warnings(found: dict[str, Any]) -> list[str]:
    rounds, warnings = found["rounds"], []
    middle = statistics.median(rounds)
    deviation = statistics.median([abs(r - middle) for r in rounds])
    if middle * found["iterations"] < SHORTEST_ROUND:
        warnings.append(f"rounds last {middle * found['iterations'] * 1e3:.2g} ms, under 1 ms: measure a larger size")
    if deviation > 0.1 * middle:
        warnings.append(
            f"rounds spread by {deviation / middle:.0%} (median absolute deviation, over 10 %): let the machine rest, "
            "measure more processes"
        )
    if found["foreign_cores"] > FOREIGN:
        warnings.append(
            f"other processes kept {found['foreign_cores']:.1f} cores busy meanwhile: end them and measure again"
        )
    unread = [op["op"] for op in found["placement"]["ops"] if op["status"] == "not read"]
    if unread:
        warnings.append(f"where {', '.join(sorted(set(unread)))} ran was not read back")
    return warnings
