"""Sessions: the number of processes, their order, their resources, and the records kept."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, fields, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import msgspec
import numpy as np
import pytest

from xbackend import cores, limits, workloads
from xbackend.analysis import statistics
from xbackend.analysis.comparison import comparisons
from xbackend.backends.contract import Settings
from xbackend.backends.numpy.adapter import NumPyBackend
from xbackend.errors import ArgumentError, BackendUnavailable, StoreError, WorkerDied
from xbackend.measure import candidates, loop, machine, plan, runner, schedule, session, variables
from xbackend.measure.candidates import Candidate, Case
from xbackend.measure.candidates import case as traced_case
from xbackend.measure.measured import Finished, Measured
from xbackend.measure.plan import PRESETS, Extent
from xbackend.measure.runner import Session
from xbackend.measure.schedule import Schedule
from xbackend.measure.worker import Worker, open_worker
from xbackend.report.said import circumstances
from xbackend.report.said.doubts import doubts
from xbackend.results.runs import RunRecorder, Store
from xbackend.results.schema import Measurement, Process, Results
from xbackend.workers.remote import RemoteBackend

pytestmark = pytest.mark.tier("standard")  # sessions of real processes, and what they keep

ROOT = Path(__file__).resolve().parents[1]
SMALL = loop.Effort(visits=2, at_least=1, seconds=1.0, rounds=2, round_seconds=0.002)
CASE = traced_case("matpow", size=8)
TINY = [CASE]


class Here:
    """An opener whose workers are this process. Answers are planned by backend. ``before`` is called with each
    request."""

    def __init__(
        self, before: Callable[..., None] = lambda *_: None, **planned: Callable[[dict[str, Any]], Answer] | Exception
    ) -> None:
        self.before, self.planned = before, planned
        self.opened: list[str] = []

    def __call__(self, name: str, *, virtual_devices: int = 1, **_: Any) -> Worker:
        self.opened.append(name)
        plan = self.planned.get(name.replace("-", "_"))
        if isinstance(plan, BackendUnavailable):
            raise plan
        backend = NumPyBackend(name, Settings(virtual_devices))
        says = None if plan is None or isinstance(plan, Exception) else saying(plan)

        def call(function: str, job: dict[str, Any]) -> Any:
            self.before(function, job)
            if isinstance(plan, Exception):
                raise plan
            if says is not None:
                return says(function, job)
            module, _, attribute = function.partition(":")
            return getattr(import_module(module), attribute)(backend, job)

        return Worker(backend, call)


def saying(plan: Callable[[dict[str, Any]], Answer]) -> Callable[[str, dict[str, Any]], Any]:
    """A worker's answers for candidates. Each is planned when it is prepared."""
    said = Answer({}, [], {})

    def call(function: str, job: dict[str, Any]) -> Any:
        nonlocal said
        if function.endswith(":prepare"):
            said = plan(job)
            return said.measured
        if function.endswith(":visit"):
            return said.visits.pop(0) if len(said.visits) > 1 else said.visits[0]
        return said.finished

    return call


class Answer(NamedTuple):
    """A worker's answer for a candidate: before the visits, at each (the last one repeats), and after."""

    measured: dict[str, Any]
    visits: list[dict[str, Any]]
    finished: dict[str, Any]


def answer(seconds: float = 0.01, foreign: Sequence[float] = (0.0,), **changed: Any) -> Answer:
    """An answer of ``seconds``, with so many ``foreign`` cores busy at each visit."""
    names = ("lower", "first_call", "host_to_device", "device_to_host")
    phases = {name: changed.pop(name, 0.1) for name in names}
    of_it: dict[str, Any] = {"relative_error": 1e-7, "ulps": 1.0, "phases": phases, "iterations": 1}
    of_it |= {field.name: changed.pop(field.name) for field in fields(Measured) if field.name in changed}
    measured = Measured(inputs="0" * 64, tolerance=1e-5, **of_it)
    visits = [{"rounds": [seconds] * 3, "foreign_cores": used, "own_cores": 1.0} for used in foreign]
    finished = Finished(unprofiled="no", **{"affinity": cores.affinity(), **changed})
    return Answer(asdict(measured), visits, asdict(finished))


def measured(opener: Callable[..., Worker], names: tuple[str, ...], size: Extent | int = 2, **options: Any) -> Session:
    found = Session(
        [Candidate(CASE, name, 1) for name in names], extent=Extent(size) if isinstance(size, int) else size,
        threads=options.pop("threads", 1), seed=options.pop("seed", 0), effort=SMALL, opener=opener, **options,
    )  # fmt: skip
    found.run()
    return found


# --- how many processes -----------------------------------------------------------------------------------------------


def ends(
    planned: Extent,
    generations: int,
    seconds: float,
    width: float | None = None,
    *,
    wanted: int = 1,
    cases: Sequence[Case] = (CASE,),
) -> str:
    """Why a session with so many candidates ends, if its next generation takes 60 s."""
    there = [Candidate(case, "numpy", 1) for case in cases]
    of_then = Schedule(there, planned, None, 0.0)
    of_then.generations = generations
    known: dict[str, Any] = {"seconds": seconds, "width": width}
    with (
        mock.patch.multiple(Schedule, _takes=lambda *_: 60.0, **known),
        mock.patch.multiple(
            schedule, nearest_first=list, spreading=lambda *_: [], unanswered=lambda *_: there * wanted
        ),
    ):
        return of_then.reached()[0]


@pytest.mark.parametrize(
    ("planned", "generations", "seconds", "width", "reason"),
    [
        (Extent(3), 2, 1.0, None, ""),
        (Extent(3), 3, 1.0, None, "3 processes each, as planned"),
        (Extent(10, 0.02), 9, 1.0, 0.001, ""),
        (Extent(10, 0.02), 10, 1.0, 0.021, ""),
        (Extent(10, 0.02), 10, 1.0, 0.02, "every time is known to 2% after 10 processes each"),
        (Extent(10, 0.02, 600.0), 12, 540.0, 0.03, ""),
        (
            Extent(10, 0.02, 600.0),
            12,
            541.0,
            0.03,
            "the time given, 10 minutes, was used up after 12 processes each; more with --minutes 20",
        ),
        (
            Extent(5, None, 90.0),
            2,
            31.0,
            None,
            "the time given, 1.5 minutes, was used up after 2 processes each; more with --minutes 3",
        ),
    ],
)
def test_a_session_ends_when_it_should(
    planned: Extent, generations: int, seconds: float, width: float | None, reason: str
) -> None:
    assert ends(planned, generations, seconds, width) == reason


def test_a_session_ends_where_nothing_is_open() -> None:
    planned, open_ = Extent(9, None, 90.0, fixed=False), "of what was still open"
    assert ends(planned, 3, 20.0, wanted=1) == ""
    assert ends(planned, 3, 20.0, wanted=0) == "every comparison is decided after 3 processes"
    assert ends(planned, 9, 20.0, wanted=0) == f"9 processes {open_}, as planned"
    used_up = f", was used up after 3 processes {open_}; more with --minutes 3"
    assert ends(planned, 3, 31.0, wanted=1) == f"the time given, 1.5 minutes{used_up}"
    two = (CASE, replace(CASE, parameters={**CASE.parameters, "size": 9}))
    assert (
        ends(planned, 3, 31.0, cases=two) == f"the time given, 1.5 minutes for 2 workloads or sizes together{used_up}"
    )


def test_the_modes_have_the_processes_that_they_promise() -> None:
    assert {name: mode.most.processes for name, mode in PRESETS.items()} == dict.fromkeys(PRESETS, 10)
    assert PRESETS["quick"].extent() == Extent(10, seconds=90.0, wait=30.0, fixed=False, lasting=True)
    assert PRESETS["quick"].extent(1) == Extent(1, wait=30.0)  # so many, for any duration
    assert PRESETS["default"].extent() == Extent(10, seconds=300.0, fixed=False, cold=10.0)
    assert PRESETS["default"].extent(workloads=6).seconds == 600.0
    assert PRESETS["thorough"].extent() == Extent(10, 0.02, 3600.0, cold=60.0)
    assert PRESETS["thorough"].extent(20, minutes=0.5) == Extent(20, 0.02, 30.0, cold=60.0)
    for wrong in ({"processes": 0}, {"processes": True}, {"minutes": 0.0}, {"minutes": float("nan")}):
        with pytest.raises(ArgumentError, match="is needed"):
            PRESETS["quick"].extent(**wrong)  # type: ignore[arg-type]


def test_a_thorough_session_goes_on_until_every_time_is_known() -> None:
    """One candidate spreads by 3 %: four processes are not enough, thirty are."""
    generator = np.random.default_rng(1)

    def noisy(_: Any) -> Answer:
        return answer(float(np.exp(generator.normal(0, 0.03))) * 0.01)

    done = measured(Here(pytensor=noisy, numpy=lambda _: answer()), ("numpy", "pytensor"), Extent(4, 0.02))
    assert 5 <= done.schedule.generations <= 30
    assert done.schedule.width <= 0.02
    assert done.stopped == f"every time is known to 2% after {done.schedule.generations} processes each"
    assert [len(c.processes) for c in done.candidates] == [done.schedule.generations] * 2
    before = [c.times[:-1] for c in done.candidates]
    assert max(map(statistics.half_width, before)) > 0.02


def test_the_time_given_ends_a_session_after_a_whole_generation() -> None:
    done = measured(Here(), ("numpy", "pytensor"), Extent(5, seconds=1e-9))
    assert [len(c.processes) for c in done.candidates] == [1] * 2
    assert "was used up after 1 process each" in done.stopped
    assert any("too few for a verdict: give more --minutes" in warning for warning in done.warnings)


def test_a_session_in_which_nothing_works_ends() -> None:
    done = measured(Here(numpy=BackendUnavailable("not here")), ("numpy",), Extent(3, 0.02))
    assert done.stopped == "no candidate is left" and done.schedule.generations == 1


# --- order and progress -----------------------------------------------------------------------------------------------


def test_the_remaining_time_is_learned_for_each_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy takes 10 s, aesara 100 s."""
    clock = 0.0

    def lasting(seconds: float) -> Callable[[Any], Answer]:
        def call(_: Any) -> Answer:
            nonlocal clock
            clock += seconds
            return answer()

        return call

    monkeypatch.setattr(machine, "load", lambda: 0.0)  # else it looks at the cores, over no time of this clock
    monkeypatch.setattr(runner.time, "perf_counter", lambda: clock)
    lines: list[str] = []
    measured(Here(numpy=lasting(10), aesara=lasting(100)), ("numpy", "aesara"), 3, on_progress=lines.append)
    begun = [line for line in lines if line.startswith("[")]
    assert [line.partition("]")[0] for line in begun] == [
        f"[process {i} each, {j}/2" for i in (1, 2, 3) for j in (1, 2)
    ]
    assert "left" not in begun[0] and all("left" in line for line in begun[1:])
    # From the second generation on nothing is guessed: the remaining time is that of the remaining processes.
    lengths = [100.0 if "aesara" in line else 10.0 for line in begun]
    for i in range(2, 6):
        left = sum(lengths[i:])
        assert begun[i].endswith(f", about {left:.0f} s left" if left < 100 else f", about {left / 60:.0f} min left")


def test_the_time_left_says_that_compiling_may_take_longer() -> None:
    lines: list[str] = []
    measured(Here(), ("numpy", "jax"), Extent(2, None, 90.0, fixed=False), on_progress=lines.append)
    begun = [line for line in lines if line.startswith("[")]
    assert re.search(r"left, unless it compiles for longer$", begun[1]) and "left" not in begun[0]
    assert all(re.search(r", at most about \d+ (s|min) left$", line) for line in begun[2:])


@pytest.mark.parametrize(("growth", "warned"), [(1.05, True), (1.0, False)])
def test_drift_is_warned_of(growth: float, warned: bool) -> None:
    """Each generation takes 5 % longer than its predecessor: after five the last takes 1.22 times as long."""
    made = dict.fromkeys(("numpy", "aesara"), 0)

    def slower(backend: str) -> Callable[[Any], Answer]:
        def measured_once(_: Any) -> Answer:
            made[backend] += 1
            return answer(0.01 * growth ** made[backend])

        return measured_once

    opener = Here(**{backend: slower(backend) for backend in made})
    found = session.compare(TINY, backends=[*made], processes=5, opener=opener)
    said = [doubt for doubt in doubts(comparisons(found)) if "at its slowest the machine" in doubt.cause]
    assert [doubt.concerned[0][1] for doubt in said] == ["all"] * warned
    assert not warned or "took 1.22 times as long as at its quickest" in said[0].cause


# --- the same resources -----------------------------------------------------------------------------------------------


@pytest.fixture
def one_core() -> Iterator[int]:
    """This process and its children may use one core only."""
    before = os.sched_getaffinity(0)
    core = max(before)
    os.sched_setaffinity(0, {core})
    yield core
    os.sched_setaffinity(0, before)


def test_the_cores_of_a_real_worker_are_read_back(one_core: int) -> None:
    done = measured(open_worker, ("numpy",), 1)
    assert [p.affinity for c in done.candidates for p in c.processes] == [[one_core]]
    assert not any("may use the cores" in warning for warning in done.candidates[0].warnings)


def test_other_cores_than_the_others_have_are_warned_of() -> None:
    done = measured(Here(numpy=lambda _: answer(affinity=[77])), ("numpy",))
    assert any("its threads may use the cores 77, the others' 0" in w for w in done.candidates[0].warnings)
    assert not [*candidates.affinity_warnings(None, [0]), *candidates.affinity_warnings([0], None)]


def test_threads_that_are_pinned_elsewhere_are_seen() -> None:
    """A framework may pin its own threads: look at all threads of a process."""
    code = (
        "import os, threading\n"
        "cores = sorted(os.sched_getaffinity(0)); os.sched_setaffinity(0, {cores[0]})\n"
        "import xbackend.measure.loop as loop\n"  # NumPy's BLAS starts its threads with the import
        "start = loop.affinity(); done = threading.Event()\n"
        "def work(): os.sched_setaffinity(0, {cores[-1]}); done.set(); done2.wait()\n"
        "done2 = threading.Event(); thread = threading.Thread(target=work); thread.start(); done.wait()\n"
        "print(start == cores[:1], loop.affinity() == sorted({cores[0], cores[-1]})); done2.set()\n"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said.split() == ["True", "True"]


@pytest.mark.tier("exhaustive")
def test_load_and_the_versions_of_a_process_are_noted() -> None:
    done = measured(Here(), ("numpy",))
    (row,) = done.results("noted").measurements
    assert row.versions["numpy"] == np.__version__
    assert all(p.load is not None and p.load >= 0 for p in row.processes)


def test_a_loaded_machine_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = 2 * cores.FOREIGN
    monkeypatch.setattr(machine, "foreign_load", lambda: nullcontext([busy]))
    monkeypatch.setattr(machine, "load", lambda: 1.6 * cores.count())
    assert "other programs were busy" in measured(Here(), ("numpy",)).warnings[0]
    busy = 0.0  # the load was this session's own
    assert machine.load_warnings() == []
    busy = 2 * cores.FOREIGN
    monkeypatch.setattr(machine, "load", lambda: 0.4 * cores.count())
    assert machine.load_warnings() == []
    monkeypatch.setattr(machine, "load", lambda: None)
    assert machine.load_warnings() == []


def test_the_limits_of_a_container_are_those_of_its_control_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    assert (limits.cores(tmp_path), limits.free_memory(tmp_path)) == (math.inf, math.inf), "without a limit"
    for file, said in {
        "cpu.max": "150000 100000\n",
        "memory.max": "4096\n",
        "memory.current": "3072\n",
        "memory.stat": "anon 1024\ninactive_file 2048\n",
    }.items():
        (group / file).write_text(said)
    assert (limits.cores(tmp_path), limits.free_memory(tmp_path)) == (1.5, 3072)
    for file in ("cpu.max", "memory.max"):
        (group / file).write_text("max 100000\n" if file == "cpu.max" else "max\n")
    assert (limits.cores(tmp_path), limits.free_memory(tmp_path)) == (math.inf, math.inf)
    monkeypatch.setattr(limits, "free_memory", lambda: 5.0)
    assert machine.available_memory() == 5


def test_more_threads_than_a_container_has_time_for_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "cores", lambda: 1.5)
    assert [text for text in measured(Here(), ("numpy",), threads=4).warnings if "held up" in text] == [
        "processes were held up: 4 threads shared the time of 1.5 cores (cpu.max of the control group): give "
        "--threads 2"
    ]
    assert machine.quota_warnings(2) == []
    monkeypatch.setattr(limits, "cores", lambda: math.inf)
    assert machine.quota_warnings(10**6) == []
    monkeypatch.setattr(limits, "cores", lambda: 2.0)
    assert machine.quota_warnings(2) == [] and machine.quota_warnings(3)
    monkeypatch.setattr(limits, "cores", lambda: 1.5)
    (said,) = machine.quota_warnings(4, devices=2)
    assert "8 threads" in said and said.endswith("--cores-per-device 1")


@pytest.mark.tier("exhaustive")
def test_variables_that_choose_code_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in variables.chosen():
        monkeypatch.delenv(name)
    for name in ("OMP_NUM_THREADS", "TF_CPP_MIN_LOG_LEVEL", "TF_CLI_CONFIG_FILE", "NUMBA_CACHE_DIR"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("XLA_FLAGS", "")
    done = measured(Here(), ("numpy",))
    assert not any("in the environment" in said for said in done.warnings)
    assert done.results("default").settings.variables == {}
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    done = measured(Here(), ("numpy",))
    assert any("OPENBLAS_CORETYPE=Haswell; unset it for the default" in said for said in done.warnings)
    assert done.results("chosen").settings.variables == {"OPENBLAS_CORETYPE": "Haswell"}


def planted_smi(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_others_on_the_gpu_are_noted_and_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted_smi(tmp_path, "echo '123, /usr/bin/somebody, 512 MiB'", monkeypatch)
    done = measured(Here(numpy=lambda _: answer()), ("numpy",), 1)
    (candidate,) = done.candidates
    assert candidate.processes[0].accelerator_processes == ["process 123, /usr/bin/somebody, 512 MiB"]
    assert any("others computed on the GPU" in w and "end them" in w for w in candidate.warnings)


def test_what_gpus_did_during_rounds_is_kept_and_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: what NVML tells of a GPU. Processes that differ in numbers are of one doubt."""
    session, visits = list[list[int]](), iter(range(3, 9))

    class Planted(loop.GPUWatch):
        @contextmanager
        def during(self, seconds: Callable[[], float], own: Collection[int]) -> Iterator[None]:
            session.append([*own])
            yield

        def said(self) -> list[str]:
            return ["GPU 0: 1650 to 1980 MHz"]

        def doubts(self) -> list[str]:
            return [f"GPU 0 held its clock down during rounds (power limit, 0x4, in {next(visits)} of 12 visits)"]

    monkeypatch.setattr(loop, "GPUWatch", Planted)
    done = measured(Here(), ("numpy",), 2)
    (candidate,) = done.candidates
    assert [process.gpus for process in candidate.processes] == [["GPU 0: 1650 to 1980 MHz"]] * 2
    results = done.results("test")
    assert "GPU 0: 1650 to 1980 MHz" in str(circumstances.order(results))
    assert "gpus" not in str(circumstances.order(measured(Here(numpy=lambda _: answer()), ("numpy",)).results("none")))
    said = [doubt.cause for doubt in doubts(comparisons(results)) if doubt.cause.startswith("GPU")]
    assert said == ["GPU 0 held its clock down during rounds (power limit, 0x4, in 3 to 4 of 12 visits)"]
    assert session and all(own == [] for own in session)  # workers of this opener have no process


@pytest.mark.parametrize(("script", "found"), [("exit 9", None), ("true", [])])
def test_without_others_on_the_gpu_there_is_no_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, found: list[str] | None
) -> None:
    planted_smi(tmp_path, script, monkeypatch)
    assert machine.accelerator_processes() == found
    assert not [*candidates.accelerator_warnings(found)]
    (tmp_path / "nvidia-smi").unlink()
    assert machine.accelerator_processes() is None


def test_processes_that_take_turns_are_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each holds the GPU while the next one starts. Planted: a list that does not know them."""
    own = list[set[int]]()

    def listed(ours: set[int]) -> list[str]:
        own.append({*ours})
        return []

    monkeypatch.setattr(machine, "accelerator_processes", listed)
    both = [Candidate(CASE, "numpy", devices) for devices in (1, 2)]
    done = Session(both, extent=Extent(1), threads=1, seed=0, effort=SMALL)
    done.run()
    assert [c.status for c in done.candidates] == ["ok", "ok"] and [len(ours) for ours in own] == [0, 1]


def test_as_many_processes_are_alive_as_the_memory_of_a_gpu_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    how: dict[str, Any] = {"extent": Extent(1), "threads": 1, "seed": 0, "effort": SMALL}
    done = Session([Candidate(CASE, "jax", 1)], **how)
    monkeypatch.setattr(machine, "available_memory", lambda: 1 << 40)
    for free, together in (([], 900), ([10 << 30], 9), ([70 << 30, 10 << 30], 9), ([1 << 20], 1)):
        monkeypatch.setattr(machine, "accelerator_memory", lambda free=free: free)
        assert done._together() >= together and (not free or done._together() <= together + 1)
    for of_cpu in (Session([Candidate(CASE, "numpy", 1)], **how), Session(done.candidates, **how, kinds=["cpu"])):
        assert of_cpu._together() >= 900  # whoever has the memory of the GPU


def test_processes_that_were_not_alive_together_are_of_other_generations(monkeypatch: pytest.MonkeyPatch) -> None:
    """They shared no seconds, so that what was slow for some was not for the others."""
    for together, generations in ((2, [[0, 0], [1, 1]]), (1, [[0, 1], [2, 3]])):
        monkeypatch.setattr(Session, "_together", lambda _, together=together: together)
        done = measured(Here(numpy=lambda _: answer(), jax=lambda _: answer()), ("numpy", "jax"))
        each = ([process.generation for process in candidate.processes] for candidate in done.candidates)
        assert [sorted(pair) for pair in zip(*each, strict=True)] == generations


LONG = loop.Effort(visits=30, at_least=30, seconds=60.0)  # 1.5 s and more


def test_the_parent_sleeps_while_a_worker_measures() -> None:
    """Its own processor seconds in more than a second of measuring, by the check that warns, with a real worker."""
    done = Session([Candidate(CASE, "numpy", 1)], extent=Extent(1), threads=1, seed=0, effort=LONG)
    done.run()
    (candidate,) = done.candidates
    assert candidate.status == "ok" and sum(candidate.processes[0].rounds) * candidate.processes[0].iterations > 1.0
    assert not any("the process that started it" in warning for warning in candidate.warnings), candidate.warnings


@pytest.mark.tier("exhaustive")
def test_a_parent_that_does_not_sleep_is_warned_of() -> None:
    """The planted fault: a thread of this process computes meanwhile."""
    ended = threading.Event()

    def compute() -> None:
        while not ended.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        done = Session([Candidate(CASE, "numpy", 1)], extent=Extent(1), threads=1, seed=0, effort=LONG)
        done.run()
    finally:
        ended.set()
        thread.join()
    assert any("the process that started the measurement used" in warning for warning in done.candidates[0].warnings)


# --- what is doubtful is said -----------------------------------------------------------------------------------------


def test_processes_far_from_the_others_are_named_and_count() -> None:
    times = iter([0.01, 0.0101, 0.0099, 0.02, 0.01, 0.01])
    done = measured(
        Here(tensorflow=lambda _: answer(next(times)), numpy=lambda _: answer()), ("tensorflow", "numpy"), 4
    )
    row = done.results("outlier").measurements[0]
    assert len(row.processes) == 4
    assert any("1 of 4 processes took 2 times as long as usual" in warning for warning in row.warnings)
    assert not [*candidates.outlier_warnings(done.candidates[1].processes)]


@pytest.mark.parametrize(
    ("rounds", "word"),
    [
        ([0.0005] * 9, "under 1 ms: measure a larger size"),
        ([0.01, 0.012, 0.014, 0.016, 0.018], "rounds differ by 14 % (up to 10 % is fine): "),
        ([0.01] * 9 + [0.03], "1 of 10 rounds took more than 2 times as long as usual"),
    ],
)
def test_what_makes_seconds_doubtful_is_a_warning(rounds: list[float], word: str) -> None:
    assert loop._warnings([0.01] * 9, 1) == []
    (warning,) = loop._warnings(rounds, 1)
    assert word in warning


def test_where_an_op_ran_that_was_not_read_back_is_a_warning() -> None:
    assert loop._unread({"ops": [{"op": "add", "status": "as asked"}]}) == []
    assert loop._unread({"ops": [{"op": "add", "status": "not read"}]}) == ["where add ran was not read back"]


# --- parity in units in the last place --------------------------------------------------------------------------------


def test_errors_are_also_given_in_units_in_the_last_place() -> None:
    oracle = np.array([1.0, 100.0, 0.0])
    exact = oracle.astype(np.float32)
    off = exact.copy()
    off[1] = np.nextafter(np.nextafter(off[1], np.float32(np.inf)), np.float32(np.inf))
    assert workloads.ulps(exact, oracle) == 0.0
    assert workloads.ulps(off, oracle) == 2.0
    assert workloads.ulps([exact, off], [oracle, oracle]) == 2.0
    assert workloads.ulps(np.array([1], np.int32), np.array([1.0])) is None
    assert workloads.ulps(np.array([np.nan], np.float32), np.array([1.0])) is None
    assert workloads.ulps(off[:2], oracle) is None
    infinite, one = np.array([np.inf], np.float32), np.array([1.0], np.float32)
    assert workloads.ulps([infinite, one], [[1.0], [1.0]]) is None
    assert workloads.ulps([infinite, one], [[np.inf], [1.0]]) == 0.0
    assert workloads.ulps([off[:2], exact], [oracle, oracle]) is None


def test_the_largest_error_over_the_processes_is_kept() -> None:
    for found, largest in (([3.0, 9.0, 1.0], 9.0), ([3.0, None, 1.0], None)):  # without one that is not finite
        ulps = iter(found)
        done = measured(Here(numpy=lambda _, ulps=ulps: answer(ulps=next(ulps))), ("numpy",), 3)
        assert largest in [c.parity.ulps for c in done.candidates if c.parity is not None]
    real = measured(Here(), ("numpy",), 1).candidates[0].parity
    assert real is not None and real.ulps is not None and 0 <= real.ulps < 100


# --- nothing is lost --------------------------------------------------------------------------------------------------


def test_a_session_is_in_the_store_as_it_was_measured(tmp_path: Path) -> None:
    """Measured by real workers."""
    both = [traced_case("matpow", size=size) for size in (16, 24)]
    found = session.compare(both, backends=["numpy"], processes=2, threads=1, store=Store(tmp_path))
    assert found.complete and list(Store(tmp_path).runs()) == [(found.run, found)]
    assert Store(tmp_path).load("latest") == found and all(p.rounds for m in found.measurements for p in m.processes)


class Ended(BaseException):
    """Stands for the end of this process."""


def test_a_session_that_was_cut_off_is_there_with_its_finished_processes(tmp_path: Path) -> None:
    """The end comes in the fifth of six processes."""
    count = 0

    def ends(_: Any) -> Answer:
        nonlocal count
        count += 1
        if count == 5:
            raise Ended
        return answer()

    with pytest.raises(Ended):
        session.compare(TINY, backends=["numpy", "aesara"], opener=Here(numpy=ends, aesara=ends), store=Store(tmp_path))
    found = Store(tmp_path).load("latest")
    assert not found.complete
    measured = [len(row.processes) for row in found.measurements]
    assert all(measured) and sum(measured) == sum(label != "" for label in found.order) == 4
    assert [row.status for row in found.measurements] == ["ok", "ok"]


@pytest.mark.tier("exhaustive")
def test_what_failed_is_kept_too(tmp_path: Path) -> None:
    opener = Here(aesara=WorkerDied("killed by SIGSEGV"), tensorflow=BackendUnavailable("not here"))
    found = session.compare(TINY, backends=["numpy", "aesara", "tensorflow"], opener=opener, store=Store(tmp_path))
    status = {"numpy": "ok", "aesara": "failed", "tensorflow": "missing"}
    assert {row.backend: row.status for row in found.measurements} == status, [r.reason for r in found.measurements]
    assert Store(tmp_path).load("latest") == found


def test_a_failure_is_in_the_store_before_the_session_ends(tmp_path: Path) -> None:
    ends = iter([answer()])

    def says(_: Any) -> Answer:
        for first in ends:
            return first
        raise Ended

    opener = Here(aesara=WorkerDied("killed by SIGSEGV"), tensorflow=BackendUnavailable("not here"), jax=says)
    names = ["aesara", "tensorflow", "jax"]
    with pytest.raises(Ended):
        session.compare(TINY, backends=names, opener=opener, store=Store(tmp_path))
    found = Store(tmp_path).load("latest")
    assert [row.status for row in found.measurements] == ["failed", "missing", "ok"]
    assert "SIGSEGV" in found.measurements[0].reason and found.measurements[1].reason == "not here"


def test_what_cannot_be_kept_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session ends there, as further measurements would be lost."""
    kept = RunRecorder.record

    def record(run: RunRecorder, measurement: Measurement, label: str) -> None:
        run.path.unlink()
        kept(run, measurement, label)

    monkeypatch.setattr(RunRecorder, "record", record)
    with pytest.raises(StoreError, match="cannot be written"):
        session.compare(TINY, backends=["numpy"], opener=Here(), store=Store(tmp_path))
    assert not list(Store(tmp_path).runs())


@pytest.mark.tier("exhaustive")
def test_a_session_is_stored_as_it_is(tmp_path: Path) -> None:
    found = session.compare(TINY, backends=["numpy", "aesara"], processes=3, opener=Here(), store=Store(tmp_path))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Results) == found
    assert found.settings.processes == 3 and found.settings.stopped == "3 processes each, as planned"
    processes: list[Process] = [p for row in found.measurements for p in row.processes]
    assert sorted(p.order for p in processes) == [i for i, label in enumerate(found.order) if "again" not in label]
    assert plan.WIDTH == 0.02


# --- the rules --------------------------------------------------------------------------------------------------------


def test_precision_is_set_and_not_inherited() -> None:
    inherited = {"JAX_DEFAULT_MATMUL_PRECISION": "bfloat16", "JAX_ENABLE_X64": "0"}
    with RemoteBackend("pytensor-jax", Settings(1, None, 1), environment=inherited) as backend:
        settings = backend.describe().settings
    assert settings["precision"] in (None, "highest") and settings["x64"] is True


def test_jax_leaves_the_memory_of_a_gpu_to_the_processes_that_take_turns() -> None:
    """Unless the user's environment says otherwise."""
    planted = {"planted_variables": str(ROOT / "tests" / "planted_variables.py")}
    for given, wanted in ({}, "false"), ({"XLA_PYTHON_CLIENT_PREALLOCATE": "true"}, "true"):
        with RemoteBackend("jax", Settings(1, None, 1), environment=given, modules=planted) as backend:
            assert backend.call("planted_variables:value", "XLA_PYTHON_CLIENT_PREALLOCATE") == wanted


def test_a_jax_without_its_cpu_device_says_what_to_set() -> None:
    with pytest.raises(
        BackendUnavailable, match=r"needs JAX's CPU device.*unset JAX_PLATFORMS, or let it end with ,cpu"
    ):
        RemoteBackend("jax", Settings(1, None, 1), environment={"JAX_PLATFORMS": "cuda"})


def rules() -> list[tuple[str, str, str]]:
    """The rows of the table of rules: rule, check, test."""
    text = (ROOT / "docs" / "measurement.md").read_text().partition("## The rules")[2]
    rows = [[cell.strip(" `") for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")]
    return [(rule, check, test) for rule, check, test in rows[1:]]


def test_every_rule_has_a_check_and_a_test_that_are_there() -> None:
    assert {int(rule.partition(".")[0]) for rule, _, _ in rules()} == set(range(1, 15))
    for _, check, test in rules():
        module, _, path = check.partition(":")
        found: Any = import_module(module)
        for name in path.split("."):
            found = getattr(found, name)
        assert callable(found) or isinstance(found, property | cached_property), check
        file, _, function = test.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text(), test
