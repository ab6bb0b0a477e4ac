"""What NVIDIA's GPUs did during the rounds: clocks, power, temperature, what held a clock down, and who else computed.

It runs inside the worker and imports the standard library only. NVML is the driver's own library, which nvidia-smi asks
too, and a dozen of its functions are called by ctypes. No lock has the package nvidia-ml-py, nor do the wheels of JAX
and TensorFlow bring it; nvidia-smi would be a process beside the rounds, with its times to be matched to theirs.

NVML counts how long a clock was held down, so a reading before the rounds and one after them miss nothing between.
https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceQueries.html, group__nvmlClocksEventReasons.html
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
# The bits of nvmlDeviceGetCurrentClocksEventReasons, and whether one holds down a clock that a program could have had.
REASONS = {
    0x1: ("idle", False),
    0x2: ("clocks set by a user", False),
    0x4: ("power limit, by software", True),
    0x8: ("slowdown by hardware", True),
    0x10: ("sync boost", True),
    0x20: ("temperature, by software", True),
    0x40: ("temperature, by hardware", True),
    0x80: ("power brake, by hardware", True),
    0x100: ("clocks of the display", False),
}
# nvmlPerfPolicyType_t: counters of the time in which each held the clock down.
POLICIES = {0: "power", 1: "temperature", 2: "sync boost", 3: "board limit", 5: "reliability"}
_PEERS = {0: "copy as peers", 3: "are no peers: they are on different bridges", 4: "are no peers: it is switched off"}
SHORT = 0.01  # of the rounds: a clock that was held down for less says nothing
_MISSING = 13  # NVML_ERROR_FUNCTION_NOT_FOUND
_FAILURES = {
    3: "not supported",
    4: "no permission",
    9: "the driver is not loaded",
    _MISSING: "this driver does not tell",
    15: "the GPU is lost",
    18: "the driver was updated: restart the machine",
    999: "unknown error",
}
_SM, _GPU_SENSOR, _MOST, _UUID = 1, 0, 256, 96


class _Violation(ctypes.Structure):
    _fields_ = (("reference", ctypes.c_ulonglong), ("nanoseconds", ctypes.c_ulonglong))


class _ProcessInfo(ctypes.Structure):
    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


@dataclass(frozen=True)
class Reading:
    """The state of a GPU at a moment: MHz, degrees, mW, bits of `REASONS`, nanoseconds of each of `POLICIES`, process
    ids. What NVML does not tell is missing, or has its reason in ``untold``."""

    numbers: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    pids: tuple[int, ...] = ()
    untold: dict[str, str] = field(default_factory=dict)


def reasons(bits: int) -> list[str]:
    """The names of the bits that are set, those without a name as a number: ``0x400``."""
    return [REASONS[bit][0] if bit in REASONS else hex(bit) for bit in _bits(bits)]


def _bits(number: int) -> Iterator[int]:
    while number:
        yield number & -number
        number &= number - 1


class NVML:
    """The GPUs that CUDA sees in this process, in its order: with unequal ones that order is NVML's if
    ``CUDA_DEVICE_ORDER=PCI_BUS_ID`` is set. ``why`` says why there is none."""

    def __init__(self) -> None:
        self.why, self.handles = "", dict[int, ctypes.c_void_p]()
        try:
            self._library = ctypes.CDLL(LIBRARY)
        except OSError:
            self.why = f"{LIBRARY} cannot be loaded"
            return
        count = ctypes.c_uint()
        code = self._call("nvmlInit_v2") or self._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        if code:
            self.why = f"NVML: {_failure(code)}"
            return
        words = os.environ.get("CUDA_VISIBLE_DEVICES")
        for index, word in enumerate([*map(str, range(count.value))] if words is None else words.split(",")):
            if not word.strip() or (handle := self._handle(word.strip(), count.value)) is None:
                break  # CUDA's list ends at the first device that is not there
            self.handles[index] = handle

    def _call(self, name: str, *arguments: Any) -> int:
        """The code that a function returns, 0 for success."""
        function = getattr(self._library, name, None)
        return _MISSING if function is None else int(function(*arguments))

    def _handle(self, word: str, count: int) -> ctypes.c_void_p | None:
        handle, whole = ctypes.c_void_p(), ctypes.c_void_p()
        if word.isdecimal():
            code = self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(int(word)), ctypes.byref(handle))
        else:
            code = self._call("nvmlDeviceGetHandleByUUID", self._whole(word, count), ctypes.byref(handle))
        # A MIG instance has no clock of its own.
        if not code and word.startswith("MIG-"):
            code = self._call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle, ctypes.byref(whole))
            handle = whole
        return None if code else handle

    def _whole(self, word: str, count: int) -> bytes:
        """The UUID of the one GPU, of ``count``, whose UUID begins so, as CUDA takes it; else the word itself."""
        uuid, handle, found = ctypes.create_string_buffer(_UUID), ctypes.c_void_p(), [word.encode()]
        for index in map(ctypes.c_uint, range(count)):
            code = self._call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
            code = code or self._call("nvmlDeviceGetUUID", handle, uuid, ctypes.c_uint(_UUID))
            if not code and uuid.value.startswith(word.encode()):
                found.append(uuid.value)
        return found[-1] if len(found) == 2 else found[0]

    def read(self, index: int) -> Reading:
        """The state of a GPU now."""
        handle, numbers, untold = self.handles[index], dict[str, int](), dict[str, str]()

        def ask(what: str, kind: type[Any], *each: tuple[str, Sequence[Any]]) -> Any:
            """The answer of the first of these functions that this driver has."""
            answer, code = kind(), _MISSING
            for name, arguments in each:
                if (code := self._call(name, handle, *arguments, ctypes.byref(answer))) != _MISSING:
                    break
            if code:
                untold[what] = _failure(code)
            return None if code else answer

        word, wide, sm = ctypes.c_uint, ctypes.c_ulonglong, ctypes.c_uint(_SM)
        told = {
            "clock": ask("clock", word, ("nvmlDeviceGetClockInfo", [sm])),
            "most": ask("most", word, ("nvmlDeviceGetMaxClockInfo", [sm])),
            "temperature": ask("temperature", word, ("nvmlDeviceGetTemperature", [ctypes.c_uint(_GPU_SENSOR)])),
            "power": ask("power", word, ("nvmlDeviceGetPowerUsage", [])),
            "limit": ask("limit", word, ("nvmlDeviceGetEnforcedPowerLimit", [])),
            "reasons": ask(
                "reasons",
                wide,  # the second one is the name that drivers before 535 have
                ("nvmlDeviceGetCurrentClocksEventReasons", []),
                ("nvmlDeviceGetCurrentClocksThrottleReasons", []),
            ),
        }
        numbers = {what: answer.value for what, answer in told.items() if answer is not None}
        held = dict[str, int]()
        for policy, what in POLICIES.items():
            answer = ask("counters", _Violation, ("nvmlDeviceGetViolationStatus", [ctypes.c_uint(policy)]))
            if answer is not None:
                held[what] = answer.nanoseconds
        return Reading(numbers, held, self._pids(handle), untold)

    def peers(self, one: int, other: int) -> str:
        """Whether two GPUs read each other's memory, without the host's, in words; empty where NVML does not tell."""
        status = ctypes.c_int()
        if self._call("nvmlDeviceGetP2PStatus", self.handles[one], self.handles[other], 0, ctypes.byref(status)):
            return ""
        return _PEERS.get(status.value, "are no peers")

    def _pids(self, handle: ctypes.c_void_p) -> tuple[int, ...]:
        count, found = ctypes.c_uint(_MOST), (_ProcessInfo * _MOST)()
        if self._call("nvmlDeviceGetComputeRunningProcesses_v3", handle, ctypes.byref(count), found):
            return ()
        return tuple(found[i].pid for i in range(count.value))


def _failure(code: int) -> str:
    return _FAILURES.get(code, f"error {code}")


class GPUWatch:
    """The GPUs that a program uses, during its rounds."""

    def __init__(self, indices: Collection[int], nvml: Callable[[], NVML] = NVML) -> None:
        self._nvml = nvml() if indices else None
        known = self._nvml.handles if self._nvml else ()
        self._unknown = [index for index in indices if index not in known]
        self._taken: dict[int, list[tuple[Reading, Reading]]] = {index: [] for index in indices if index in known}
        self._others: dict[int, set[int]] = {index: set() for index in self._taken}
        self._seconds = 0.0

    @contextmanager
    def during(self, seconds: Callable[[], float], session: Collection[int]) -> Iterator[None]:
        """Read before and after the block. ``seconds`` is a clock; ``session`` are processes that are no others."""
        before, start = self._read(), seconds()
        yield
        self._seconds += seconds() - start
        for index, reading in self._read().items():
            self._taken[index].append((before[index], reading))
            # Else the ids are those outside of a container, and name nobody here.
            if os.getpid() in reading.pids:
                self._others[index] |= {*reading.pids} - {os.getpid(), *session}

    def _read(self) -> dict[int, Reading]:
        return {index: self._nvml.read(index) for index in self._taken if self._nvml is not None}

    def said(self) -> list[str]:
        """Each GPU in words: its clocks, temperature and power, and what held it down."""
        words = [f"GPU {index}: {self._state(index)}" for index in self._taken if self._taken[index]]
        for one, other in combinations(self._taken, 2):
            if self._nvml is not None and (told := self._nvml.peers(one, other)):
                words.append(f"GPU {one} and GPU {other} {told}")
        why = self._nvml.why if self._nvml is not None else ""
        return words + [f"GPU {index}: nothing is known, {why or 'NVML has no such GPU'}" for index in self._unknown]

    def doubts(self) -> list[str]:
        """What makes the seconds doubtful, and what to do."""
        found = list[str]()
        for index, taken in self._taken.items():
            if taken and (held := self._held(index)):
                found.append(
                    f"GPU {index} held its clock down during rounds ({', '.join(held)}): {self._state(index)}; let it "
                    f"cool, or fix a clock that it can keep, as root: nvidia-smi -lgc MHZ"
                )
            if others := self._others[index]:
                listed = ", ".join(map(str, sorted(others)))
                found.append(f"others had memory of GPU {index} during rounds (process {listed}): end them")
        return found

    def _held(self, index: int) -> list[str]:
        """The reasons that were seen to hold its clock down, and the counters that grew."""
        taken, found = self._taken[index], list[str]()
        for bit, (name, slows) in REASONS.items():
            seen = sum(any(r.numbers.get("reasons", 0) & bit for r in pair) for pair in taken)
            if slows and seen:
                found.append(f"{name}, {hex(bit)}, in {seen} of {len(taken)} visits")
        for what in POLICIES.values():
            spent = 1e-9 * sum(max(0, after.held.get(what, 0) - before.held.get(what, 0)) for before, after in taken)
            if spent > SHORT * self._seconds > 0:
                found.append(f"{what} for {min(1.0, spent / self._seconds):.0%} of the rounds")
        return found

    def _state(self, index: int) -> str:
        readings = [reading for pair in self._taken[index] for reading in pair]

        def every(what: str) -> list[int]:
            return sorted(r.numbers[what] for r in readings if what in r.numbers)

        clocks, most, warmest, power, limit = map(every, ("clock", "most", "temperature", "power", "limit"))
        said = [f"{clocks[0]} to {clocks[-1]} MHz" + (f" of {most[-1]}" if most else "")] if clocks else []
        said += [f"up to {warmest[-1]} degrees"] if warmest else []
        said += [f"up to {power[-1] / 1000:.0f} W" + (f" of {limit[-1] / 1000:.0f}" if limit else "")] if power else []
        untold = {what: why for reading in readings for what, why in reading.untold.items()}
        return ", ".join(said + [f"no {what} ({why})" for what, why in untold.items()])
