"""What is read of GPUs during rounds, from a library in the place of NVIDIA's that answers what a test plants."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xbackend.measure import nvml
from xbackend.measure.nvml import NVML, GPUWatch, reasons

QUESTIONS = (
    "init",
    "count",
    "uuid",
    "mig",
    "clock",
    "most",
    "temperature",
    "power",
    "limit",
    "reasons",
    "older",
    "time",
    "peers",
    "whole",  # whether only whole UUIDs are known
)
SOURCE = """
static struct { unsigned long long value; int code; } told[16];
static unsigned long long spent[16];
static unsigned pids[300], listed;
static int pids_code;
struct process { unsigned pid; unsigned long long memory; unsigned gpu, compute; };
void plant(int what, unsigned long long value, int code) { told[what].value = value; told[what].code = code; }
void spend(int policy, unsigned long long time) { spent[policy] = time; }
void run(int n, const unsigned *which, int code) {
    listed = n;
    pids_code = code;
    for (int i = 0; i < n; i++) pids[i] = which[i];
}
#define TELL(number) { *answer = told[number].value; return told[number].code; }
int nvmlInit_v2(void) { return told[0].code; }
int nvmlDeviceGetCount_v2(unsigned *answer) TELL(1)
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **handle) {
    if (i >= told[1].value) return 2;
    *handle = (void *)(long)(i + 1);
    return 0;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    const char *whole = "GPU-b8ea00";
    *handle = (void *)9;
    for (int i = 0; whole[i] && told[13].value; i++) if (uuid[i] != whole[i]) return 6;
    return told[2].code;
}
int nvmlDeviceGetUUID(void *device, char *uuid, unsigned length) {
    const char *whole = (long)device == 1 ? "GPU-b8ea00" : "GPU-b81100";
    for (int i = 0; i < 11; i++) uuid[i] = whole[i];
    return 0;
}
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *part, void **handle) {
    *handle = (void *)1;
    return told[3].code;
}
int nvmlDeviceGetClockInfo(void *device, int which, unsigned *answer) TELL(4)
int nvmlDeviceGetMaxClockInfo(void *device, int which, unsigned *answer) TELL(5)
int nvmlDeviceGetTemperature(void *device, int which, unsigned *answer) TELL(6)
int nvmlDeviceGetPowerUsage(void *device, unsigned *answer) TELL(7)
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *answer) TELL(8)
int nvmlDeviceGetCurrentClocksEventReasons(void *device, unsigned long long *answer) TELL(9)
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *answer) TELL(10)
int nvmlDeviceGetViolationStatus(void *device, int policy, unsigned long long *answer) {
    answer[0] = 1;
    answer[1] = spent[policy];
    return told[11].code;
}
int nvmlDeviceGetP2PStatus(void *one, void *other, int of, int *answer) TELL(12)
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, struct process *found) {
    if (listed > *count) return 7;
    *count = listed;
    for (unsigned i = 0; i < listed; i++) found[i].pid = pids[i];
    return pids_code;
}
"""
# The forms in which GPUs answer: each question's number and code.
H200 = {
    **{"count": (1, 0), "clock": (1650, 0), "most": (1980, 0), "temperature": (54, 0), "power": (699_700, 0)},
    **{"limit": (700_000, 0), "reasons": (0x4, 0)},
}
FORMS = {
    "Hopper at its power limit": (H200, "GPU 0: 1650 to 1650 MHz of 1980, up to 54 degrees, up to 700 W of 700"),
    "a driver before 535": (
        H200 | {"reasons": (0, 13), "older": (0x4, 0)},
        "GPU 0: 1650 to 1650 MHz of 1980, up to 54 degrees, up to 700 W of 700",
    ),
    "a card for desktops, without counters": (
        H200 | {"power": (0, 3), "limit": (0, 3), "time": (0, 3)},
        "GPU 0: 1650 to 1650 MHz of 1980, up to 54 degrees, no power (not supported), no limit (not supported), "
        "no counters (not supported)",
    ),
    "no permission": (
        H200 | {"clock": (0, 4)},
        "GPU 0: up to 54 degrees, up to 700 W of 700, no clock (no permission)",
    ),
}


class Library:
    """The planted library."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self.tell({})

    def tell(self, form: dict[str, tuple[int, int]]) -> None:
        """Plant the answers; questions without one have the answer 0."""
        for number, question in enumerate(QUESTIONS):
            value, code = form.get(question, (0, 0))
            self._library.plant(number, ctypes.c_ulonglong(value), code)
        for policy in range(16):
            self.spend(policy, 0)
        self.run([])

    def spend(self, policy: int, nanoseconds: int) -> None:
        self._library.spend(policy, ctypes.c_ulonglong(nanoseconds))

    def run(self, pids: list[int], code: int = 0) -> None:
        self._library.run(len(pids), (ctypes.c_uint * max(1, len(pids)))(*pids), code)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", path], input=SOURCE, text=True, check=True)
    return path


@pytest.fixture
def library(compiled: Path, monkeypatch: pytest.MonkeyPatch) -> Library:
    monkeypatch.setattr(nvml, "LIBRARY", str(compiled))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return Library(compiled)


def watched(visits: int = 1, work: Callable[[], None] = lambda: None, session: tuple[int, ...] = ()) -> GPUWatch:
    """Visits of a second each, on GPU 0."""
    watch, clock = GPUWatch({0}), count()
    for _ in range(visits):
        with watch.during(lambda: float(next(clock)), session):
            work()
    return watch


@pytest.mark.parametrize("form", FORMS)
def test_a_gpu_at_its_power_limit_is_said_with_what_it_tells(library: Library, form: str) -> None:
    answers, said = FORMS[form]
    library.tell(answers)
    watch = watched(3)
    assert watch.said() == [said]
    (doubt,) = watch.doubts()
    assert doubt.startswith(
        "GPU 0 held its clock down during rounds (power limit, by software, 0x4, in 3 of 3 visits): "
    )
    assert said.removeprefix("GPU 0: ") in doubt and "nvidia-smi -lgc MHZ" in doubt


def test_a_clock_that_was_held_down_between_two_readings_is_found(library: Library) -> None:
    """Both readings see no reason; the counter went on."""
    library.tell(H200 | {"reasons": (0, 0)})
    spent = count(0, 250_000_000)
    assert not watched(4).doubts()
    (doubt,) = watched(4, lambda: library.spend(1, next(spent) + 250_000_000)).doubts()
    assert "(temperature for 25% of the rounds)" in doubt
    library.spend(0, 2_000_000_000)  # before the rounds
    assert not watched(4).doubts()
    assert not watched(4, lambda: library.spend(2, 1_000_000)).doubts()  # for a millisecond of four seconds


@pytest.mark.parametrize(
    ("bit", "name"),
    [
        (0x4, "power limit, by software"),
        (0x8, "slowdown by hardware"),
        (0x10, "sync boost"),
        (0x20, "temperature, by software"),
        (0x40, "temperature, by hardware"),
        (0x80, "power brake, by hardware"),
    ],
)
def test_each_reason_that_holds_a_clock_down_is_a_doubt(library: Library, bit: int, name: str) -> None:
    library.tell(H200 | {"reasons": (bit | 0x1, 0)})
    (doubt,) = watched(2).doubts()
    assert f"({name}, {hex(bit)}, in 2 of 2 visits)" in doubt


def test_what_holds_no_clock_down_is_no_doubt(library: Library) -> None:
    library.tell(H200 | {"reasons": (0x1 | 0x2 | 0x100, 0)})
    assert not watched().doubts()


def test_others_are_named_where_process_ids_are_those_of_here(library: Library) -> None:
    library.tell(H200 | {"reasons": (0, 0)})
    library.run([os.getpid(), 70, 71, 72])
    assert watched(2, session=(71,)).doubts() == ["others had memory of GPU 0 during rounds (process 70, 72): end them"]
    library.run([1, 2])  # ids outside of a container
    assert not watched().doubts()
    for pids, code in ((), 0), ((os.getpid(), 70), 4), (tuple(range(290)), 0):
        library.run([*pids], code)
        assert not watched().doubts()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((0, 0), ["GPU 0 and GPU 1 copy as peers"]),
        ((3, 0), ["GPU 0 and GPU 1 are no peers: they are on different bridges"]),
        ((6, 0), ["GPU 0 and GPU 1 are no peers"]),
        ((0, 3), []),
    ],
)
def test_gpus_that_copy_by_the_host_are_said(library: Library, answer: tuple[int, int], said: list[str]) -> None:
    library.tell(H200 | {"count": (2, 0), "peers": answer})
    assert [words for words in GPUWatch({0, 1}).said() if "GPU 1 " in words] == said


def test_gpus_are_those_that_cuda_sees(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.tell(H200 | {"count": (4, 0)})
    assert [*NVML().handles] == [0, 1, 2, 3]
    for visible, handles in {"2,0": [3, 1], "1,7,0": [2], "": [], "GPU-4f, 3": [9, 4], "MIG-77": [1]}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert [handle.value for handle in NVML().handles.values()] == handles, visible
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-77")
    library.tell(H200 | {"count": (4, 0), "mig": (0, 3)})
    assert GPUWatch({0}).said() == ["GPU 0: nothing is known, NVML has no such GPU"]


def test_the_beginning_of_a_uuid_is_a_gpu_where_one_begins_so(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As CUDA reads it. NVML knows whole UUIDs only."""
    library.tell(H200 | {"count": (2, 0), "whole": (1, 0)})
    for visible, seen in {"GPU-b8ea": 1, "GPU-b8": 0, "GPU-77": 0}.items():
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert len(NVML().handles) == seen, visible


def test_what_cannot_be_asked_is_said(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    for code, why in {
        9: "the driver is not loaded",
        18: "the driver was updated: restart the machine",
        77: "error 77",
    }.items():
        library.tell({"init": (0, code)})
        assert watched().said() == [f"GPU 0: nothing is known, NVML: {why}"]
        assert not watched().doubts()
    monkeypatch.setattr(nvml, "LIBRARY", "libthatisnothere.so.1")
    assert watched().said() == ["GPU 0: nothing is known, libthatisnothere.so.1 cannot be loaded"]
    assert not GPUWatch(()).said()  # programs on CPUs do not even load it


def test_a_gpu_that_is_lost_during_rounds_is_said(library: Library) -> None:
    library.tell(H200 | {"reasons": (0, 0)})
    watch = watched(1, lambda: library.tell(dict.fromkeys(QUESTIONS, (0, 15))))
    assert "no clock (the GPU is lost)" in watch.said()[0] and not watch.doubts()


@given(st.integers(0, 2**64 - 1))
def test_every_bit_of_reasons_has_one_name(bits: int) -> None:
    names = reasons(bits)
    assert len({*names}) == len(names) == bits.bit_count()
    known = {name: bit for bit, (name, _) in nvml.REASONS.items()}
    assert sum(known[name] if name in known else int(name, 16) for name in names) == bits


ANSWER = st.tuples(
    st.integers(0, 2**64 - 1), st.sampled_from([0, 0, 0, 3, 4, 13, 15, 999]) | st.integers(-(2**31), 2**31 - 1)
)


@settings(suppress_health_check=[*HealthCheck], max_examples=300)
@given(
    st.dictionaries(st.sampled_from(QUESTIONS[2:]), ANSWER),
    st.dictionaries(st.integers(0, 11), st.integers(0, 2**64 - 1)),
    st.lists(st.integers(0, 2**32 - 1), max_size=260),
)
def test_whatever_a_driver_answers_the_rounds_are_said(
    library: Library, form: dict[str, tuple[int, int]], spent: dict[int, int], pids: list[int]
) -> None:
    library.tell({"count": (1, 0), **form})
    library.run(pids)

    def work() -> None:
        for policy, nanoseconds in spent.items():
            library.spend(policy, nanoseconds)

    watch = watched(2, work)
    (said,) = watch.said()
    for what in ("clock", "temperature", "power"):
        code = form.get(what, (0, 0))[1]
        assert (f"no {what} (" in said) == bool(code)
    value, code = form.get("reasons", (0, 0))
    value, code = form.get("older", (0, 0)) if code == 13 else (value, code)
    held = not code and any(value & bit for bit, (_, slows) in nvml.REASONS.items() if slows)
    counted = not form.get("time", (0, 0))[1] and any(spent.get(p, 0) > 2e7 for p in nvml.POLICIES)
    doubts = [doubt for doubt in watch.doubts() if "held its clock down" in doubt]
    assert len(doubts) == (held or counted)
