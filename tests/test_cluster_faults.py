"""Faults of a cluster's processes while a job runs, and the job's results after them. Real processes.

``XBACKEND_FAULTS=200`` adds as many random faults, drawn with the seed ``XBACKEND_FAULTS_SEED``. It prints their
outcomes, and writes them into the folder ``XBACKEND_FAULTS_REPORT``, if given.
"""

from __future__ import annotations

import datetime
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import cluster_examples as examples
import fault_report
import numpy as np
import pytest
import tiers
from fault_helpers import MARK, end_all, marked, mine, new_mark, slowness

import xbackend as xb
from xbackend.cluster import attempt, replaying, running, starting, status
from xbackend.cluster.job import Job
from xbackend.cluster.job_results import JobResults
from xbackend.cluster.jobspec import JobSpec
from xbackend.cluster.programs import Programs
from xbackend.engines.mpi import MPI
from xbackend.engines.pmi import Meeting
from xbackend.engines.registry import of
from xbackend.engines.spec import ClusterSpec, Task, local
from xbackend.errors import ClusterError, XBackendError
from xbackend.training import checkpoints
from xbackend.training.checkpoints import Checkpoint

pytestmark = pytest.mark.tier("standard")

COUNT = int(os.environ.get("XBACKEND_FAULTS", "0"))
REPORT = os.environ.get("XBACKEND_FAULTS_REPORT", "")
SEED = int(os.environ.get("XBACKEND_FAULTS_SEED", "0"))
WORKERS = 2
SEEN = 5.0  # seconds until a death is an error, and until all processes are gone
HANGS = 600.0  # seconds after which a job counts as hung
FIRST, SECOND, PS, CHIEF = "/job:worker/task:0", "/job:worker/task:1", "/job:ps/task:0", "/job:chief/task:0"
KILL, STOP = "SIGKILL", "SIGSTOP"


@dataclass(frozen=True)
class Strike:
    """A signal for a task of a job while it takes steps, or (``early``) while tasks meet."""

    backend: str
    job: str
    victim: str
    signal: str
    asynchronous: bool = False
    early: bool = False
    seed: int = 0
    engine: str = ""

    def __str__(self) -> str:
        words = [self.engine or self.backend, self.job, "out-of-step" if self.asynchronous else "in-step", self.signal]
        return "-".join([*words, self.victim.replace("/", "-"), *(["early"] if self.early else []), str(self.seed)])

    @property
    def servers(self) -> int:
        return {"mirrored": 0, "both_servers": 2}.get(self.job, 1)

    @property
    def steps(self) -> int:
        """Enough steps for several checkpoints."""
        return 60 if of(self.backend, self.engine).name != "mpi" else 480


TABLE = [
    Strike("numpy", "mirrored", SECOND, KILL),
    Strike("numpy", "served", PS, KILL),
    Strike("numpy", "served", FIRST, STOP),
    Strike("numpy", "add_rank", SECOND, KILL, asynchronous=True),
    Strike("numpy", "served", PS, KILL, early=True, seed=1),
    Strike("tensorflow", "mirrored", FIRST, KILL),
    Strike("tensorflow", "mirrored", SECOND, KILL, engine="multi-worker-mirrored"),
    Strike("tensorflow", "add_rank", FIRST, KILL, asynchronous=True, engine="coordinator"),
]
FURTHER = [  # in the exhaustive tier, with random ones
    Strike("numpy", "both_servers", PS, KILL, asynchronous=True),
    Strike("tensorflow", "add_rank", SECOND, KILL, asynchronous=True),
    Strike("jax", "mirrored", FIRST, KILL),
    Strike("numpy", "mirrored", FIRST, KILL),
    Strike("numpy", "mirrored", SECOND, STOP),
    Strike("numpy", "add_rank", PS, KILL, asynchronous=True),
    Strike("numpy", "served", SECOND, STOP, asynchronous=True),
    Strike("numpy", "mirrored", SECOND, KILL, early=True),
    Strike("numpy", "mirrored", SECOND, STOP, early=True, seed=1),
]
OTHERS = (
    *(("numpy", ""), ("numpy", ""), ("numpy", ""), ("tensorflow", ""), ("tensorflow", ""), ("jax", "")),
    *(("pytensor-c", ""), ("pytensor-jax", "")),
    *(("tensorflow", "multi-worker-mirrored"), ("tensorflow", "coordinator"), ("tensorflow", "coordinator")),
)


def drawn(count: int, seed: int) -> Iterator[Strike]:
    """Random strikes."""
    generator = random.Random(seed)
    for number in range(count):
        backend, engine = generator.choice(OTHERS)
        joined = of(backend, engine)
        jobs = ["mirrored"] if joined.no_servers else ["mirrored", "served", "add_rank", "both_servers"]
        job = generator.choice(jobs[1:] if joined.coordinated else jobs)
        victims = [FIRST, SECOND] if job == "mirrored" else [FIRST, SECOND, PS]
        victims += [CHIEF] if joined.coordinated else []
        yield Strike(
            backend,
            job,
            generator.choice(victims),
            generator.choice([KILL, KILL, STOP]),
            asynchronous=job != "mirrored" and (generator.random() < 0.5 or joined.coordinated),
            early=generator.random() < 0.1,
            seed=seed * 100_000 + number,
            engine=engine,
        )


if tiers.chosen == tiers.TIERS[-1]:
    TABLE += [*FURTHER, *drawn(tiers.share(13), SEED)]


# --- a job that something happens to ------------------------------------------------------------------------------


@dataclass
class Struck:
    """The outcome of a job. ``at`` and ``ended`` are the monotonic times of the signal and of the job's end. ``seen``
    and ``went_on`` are seconds from the signal until the loss was reported, and until a worker took a step again."""

    ran: JobResults | None = None
    asked: JobSpec | None = None
    error: BaseException | None = None
    at: float | None = None
    ended: float = 0.0
    seen: float | None = None
    went_on: float | None = None
    hung: bool = False
    orphans: list[str] = field(default_factory=list)
    meetings: list[Meeting] = field(default_factory=list)

    @property
    def memory(self) -> list[str]:
        """The remaining files of the processes' shared memory."""
        return [str(path) for one in self.meetings for path in one.memory if path.exists()]


@xb.job
def both_servers(task: Task) -> Any:
    """Each worker adds its rank on two servers. Their checkpoints are of two moments: one has more steps."""
    for number in range(2):
        total = xb.shared(np.float64(0.0), f"total_{number}", device=f"/job:ps/task:{number}")
        xb.update(total, total + (task.index + 1.0))
    return total


BOTH: Job = both_servers


class _Striking:
    """Sends the signal of a strike once: from a random step on; or early, when the process appears, or begins to meet
    the others."""

    def __init__(self, strike: Strike, steps: int, result: Struck) -> None:
        self.strike, self.result = strike, result
        generator = random.Random(strike.seed * 7919 + len(str(strike)))
        self.step = generator.randrange(1, int(0.7 * steps))
        # While the arrays of the next steps are made, or in one of the next steps.
        self.delay = generator.choice([0.0, generator.uniform(0.0, 0.02), generator.uniform(0.0, 0.02)])
        self._once = threading.Lock()

    def before(self, number: int) -> None:
        """A task is about to get the arrays of a step."""
        if number >= self.step and not self.strike.early and self._once.acquire(blocking=False):
            process = examples.process_of(self.strike.victim)
            if self.delay:
                threading.Timer(self.delay, self.send, [process]).start()
            else:
                self.send(process)

    @property
    def at_once(self) -> bool:
        """Whether an early strike comes before the process reports."""
        return self.strike.seed % 2 == 1

    def meeting(self, task: Task, process: int) -> None:
        """A task's process begins to meet the others."""
        if not self.at_once and str(task) == self.strike.victim and self._once.acquire(blocking=False):
            threading.Timer(random.Random(self.strike.seed).uniform(0.0, 0.5), self.send, [process]).start()

    def starting(self, task: Task, guard: int) -> None:
        """A task has a guard process."""
        if self.at_once and str(task) == self.strike.victim and self._once.acquire(blocking=False):
            children = Path(f"/proc/{guard}/task/{guard}/children")
            while not (own := children.read_text().split()):
                time.sleep(0.001)
            self.send(int(own[0]))

    def send(self, process: int) -> None:
        with suppress(ProcessLookupError):
            if process:
                now = time.monotonic()
                os.kill(process, signal.Signals[self.strike.signal])
                self.result.at = now

    def told(self, line: str) -> None:
        now, result = time.monotonic(), self.result
        if result.at is None:
            return
        if result.seen is None and "was lost at step" in line:
            result.seen = now - result.at
        elif result.seen is not None and result.went_on is None and "  step " in line:
            result.went_on = now - result.at


def job_of(strike: Strike, before: Callable[[int], None]) -> Job:
    """The job of an example, with a call before each step."""
    example = BOTH if strike.job == BOTH.name else examples.job(strike.job)
    job = Job(example.function, steps=example.steps)

    def data(task: Task, number: int) -> list[Any]:
        before(number)
        time.sleep(2e-4)  # so that the job is not over when struck
        return example.arrays(task, number)

    job.data(data)
    return job


def settled(mark: str, patience: float) -> list[str]:
    """The processes with a mark that do not end. They are ended here."""
    end = time.monotonic() + patience
    while (rest := [line for own, line in marked() if own == mark]) and time.monotonic() < end:
        time.sleep(0.05)
    end_all(rest)
    return rest


def struck(strike: Strike, restarts: int = 3, strikes: bool = True) -> Struck:
    """Run a job to its end with a strike. No process of it may remain."""
    result, steps = Struck(), strike.steps
    striking = _Striking(strike, steps, result)
    job = job_of(strike, striking.before if strikes else lambda number: None)
    patience = {"limit": 10.0 * slowness(), "start_limit": 60.0 * slowness()}
    how = {"asynchronous": strike.asynchronous, "restarts": restarts, "every": 20, "engine": strike.engine, **patience}
    asked = examples.asked(job, strike.backend, WORKERS, strike.servers, steps, on_line=striking.told, **how)
    mark, patch = new_mark(), pytest.MonkeyPatch()

    def go() -> None:
        try:
            result.ran, result.asked = running.run(asked), asked
        except BaseException as error:
            result.error = error
            if result.at is not None and result.seen is None:
                result.seen = time.monotonic() - result.at
        result.ended = time.monotonic()

    with patch.context() as own:
        own.setenv(MARK, mark)
        own.setattr(MPI, "meeting", lambda hosts: result.meetings.append(Meeting(hosts)) or result.meetings[-1])
        if strike.early and strikes:
            _tell_of_starts(own, striking)
        thread = threading.Thread(target=go, daemon=True)
        thread.start()
        thread.join(HANGS * slowness())
        result.hung = thread.is_alive()
    result.orphans = settled(mark, 0.0 if result.hung else SEEN * slowness())
    thread.join(60.0)
    return result


def _tell_of_starts(patch: pytest.MonkeyPatch, striking: _Striking) -> None:
    begin, start = starting.TaskBackend.begin, starting.Starting._start

    def beginning(self: Any) -> Any:
        striking.meeting(self.task, self.worker.pids["worker"])
        return begin(self)

    def started(self: Any, task: Task, command: list[str]) -> Any:
        process = start(self, task, command)
        striking.starting(task, process.pid)
        return process

    patch.setattr(starting.TaskBackend, "begin", beginning)
    patch.setattr(starting.Starting, "_start", started)


@cache
def undisturbed(backend: str, job: str, engine: str) -> dict[str, bytes]:
    """The bits of all variables of a job in step without a strike."""
    found = struck(Strike(backend, job, "", KILL, engine=engine), strikes=False)
    assert found.ran is not None, found.error
    assert not found.ran.faults and not found.orphans
    return bits(found.ran)


def bits(ran: JobResults) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in ran.variables.items()}


def wrong(strike: Strike, found: Struck) -> str:
    """The error in the outcome of a job; empty if there is none."""
    if found.hung:
        return "it hangs"
    if found.orphans:
        return f"left running: {found.orphans}"
    if found.memory:
        return f"left in memory: {found.memory}"
    if found.at is None:
        return "nothing happened to it"
    if found.ran is None or found.asked is None:
        return f"{type(found.error).__name__}: {found.error}"
    if found.seen is not None and strike.victim not in {fault.task for fault in found.ran.faults}:
        return f"another task was named: {found.ran.faults}"
    if not strike.asynchronous:
        return "" if bits(found.ran) == undisturbed(strike.backend, strike.job, strike.engine) else "other weights"
    once = [(one.server, one.worker, one.step) for one in found.ran.applied]
    wanted = [(s, w, k) for s in range(strike.servers) for w in range(WORKERS) for k in range(strike.steps)]
    if sorted(once) != wanted:
        return f"{len(once)} updates, {len(set(once))} of them once"
    totals = [value for name, value in found.ran.variables.items() if "/total" in name]
    if any(total != strike.steps * sum(range(1, WORKERS + 1)) for total in totals):
        return f"the totals are {totals}"
    try:
        again = replaying.replay(found.asked, found.ran)
    except XBackendError as error:
        return f"it cannot be repeated: {error}"
    differ = replaying.differing(found.ran, again)
    return f"a replay gives other numbers in {differ}" if differ else ""


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    """End the processes that a failed test leaves."""
    yield
    end_all(mine())


@pytest.mark.tier(
    "exhaustive", "multi-worker-mirrored", "tensorflow-mirrored", "numpy-served-in-step-SIGKILL--job:ps-task:0-0"
)
@pytest.mark.parametrize("strike", TABLE, ids=str)
def test_a_job_comes_to_the_same_whatever_happens_to_a_task(strike: Strike) -> None:
    found = struck(strike)
    assert wrong(strike, found) == ""
    assert found.at is not None
    seen = found.ended - found.at if found.seen is None else found.seen  # its steps may have been over
    assert seen <= SEEN * slowness(), f"seen after {seen:.1f} s"
    assert all(row[4] != str(os.getpid()) for row in status.rows())


@pytest.mark.skipif(not COUNT, reason="XBACKEND_FAULTS=200 makes as many faults")
def test_as_many_faults_as_were_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = list[fault_report.Outcome]()
    for number, strike in enumerate(drawn(COUNT, SEED)):
        found = struck(strike)
        outcomes.append(
            fault_report.Outcome(
                fault=str(strike),
                engine=of(strike.backend, strike.engine).name,
                backend=strike.backend,
                signal=strike.signal,
                wrong=wrong(strike, found),
                hung=found.hung,
                left=len(found.orphans),
                seen=found.seen,
                went_on=found.went_on,
            )
        )
        if REPORT:  # the outcomes so far, in case it is ended
            created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            fault_report.write(Path(REPORT), outcomes, SEED, created)
        with capsys.disabled():
            print(f"\n{number + 1} of {COUNT}: {strike}: {outcomes[-1].wrong or 'as without it'}", end="", flush=True)
    with capsys.disabled():
        print(f"\n{fault_report.said(outcomes)}")
    bad = [f"{one.fault}: {one.wrong}" for one in outcomes if one.wrong]
    assert not bad, "\n".join(bad)


def test_a_checkpoint_of_several_servers_is_of_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a server goes on from values computed from versions that another server has lost."""
    kept, keep = list[Any](), attempt.Attempt._kept
    monkeypatch.setattr(attempt, "SEVERAL", 0.0)
    monkeypatch.setattr(attempt.Attempt, "_kept", lambda own, *what: (kept.append(what[1]), keep(own, *what)))
    asked = examples.asked(BOTH, "numpy", WORKERS, 2, 3000, asynchronous=True, every=20)
    layouts = Programs(BOTH, asked.cluster(), of("numpy"), asynchronous=True, guard=lambda _: nullcontext()).layouts
    assert running.run(asked).variables
    for arrays in kept:
        records = [arrays[f"ps/{k}"] for k in range(2)]
        versions = [one.version(record) for one, record in zip(layouts, records, strict=True)]
        for one, record in zip(layouts, records, strict=True):
            for worker, steps in enumerate(one.steps(record)):
                read = one.applied(record, worker, steps - 1).read if steps else (0, 0)
                assert all(had <= version for had, version in zip(read, versions, strict=True)), (read, versions)
    assert len(kept) > 10


# --- where nothing is started again -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "strike",
    [
        Strike("numpy", "mirrored", SECOND, KILL, seed=1),
        Strike("numpy", "served", PS, KILL, seed=2),
        Strike("tensorflow", "add_rank", FIRST, KILL, asynchronous=True, seed=3),
        pytest.param(Strike("tensorflow", "served", PS, KILL, seed=4), marks=pytest.mark.tier("exhaustive")),
        pytest.param(Strike("jax", "mirrored", FIRST, KILL, seed=5), marks=pytest.mark.tier("exhaustive")),
        pytest.param(Strike("jax", "mirrored", SECOND, STOP, seed=6), marks=pytest.mark.tier("exhaustive")),
    ],
    ids=str,
)
def test_without_restarts_the_error_names_the_task_within_seconds(strike: Strike) -> None:
    found = struck(strike, restarts=0)
    assert isinstance(found.error, ClusterError), found.error
    words = str(found.error)
    assert words.startswith(f"{strike.victim} was lost at step ") and "--restarts 3" in words
    assert ("stopped (SIGSTOP)" if strike.signal == STOP else "ended by SIGKILL") in words
    assert found.seen is not None and found.seen <= SEEN * slowness(), f"seen after {found.seen:.1f} s"
    assert not found.orphans and not found.hung


@pytest.mark.tier("exhaustive", "tensorflow")
@pytest.mark.parametrize(("backend", "engine"), [("numpy", ""), ("tensorflow", ""), ("tensorflow", "coordinator")])
def test_what_a_server_has_already_is_not_applied_again(backend: str, engine: str, tmp_path: Path) -> None:
    """A checkpoint between a task's updates of two servers: one of them has more of its steps."""
    done, steps = {0: (5, 3), 1: (2, 2)}, 12  # of each server, by worker
    spec = local(WORKERS, 2)
    programs = Programs(BOTH, spec, of(backend, engine), asynchronous=True, guard=lambda _: nullcontext())
    for task in spec.tasks[2:]:
        programs.of(task, [])
    records = programs.records()
    for one, record in zip(programs.layouts, records, strict=True):
        for worker, number in enumerate(done[one.server]):
            for step in range(number):
                one.add(record, worker, step, [0, 0])
                one.arrays(record)[f"total_{one.server}"][...] += worker + 1.0
    arrays = {f"ps/{k}": record for k, record in enumerate(records)}
    checkpoints.write(tmp_path, Checkpoint(arrays, programs.fingerprint, 2, {}))
    how = {"asynchronous": True, "folder": tmp_path, "engine": engine}
    asked = examples.asked(BOTH, backend, WORKERS, 2, steps, **how)
    ran = running.run(asked)
    assert ran.variables == {f"/job:ps/task:{k}/total_{k}": steps * 3.0 for k in range(2)}
    assert len(ran.applied) == ran.updates == 2 * WORKERS * steps - sum(map(sum, done.values()))
    if backend == "numpy":  # one process more, and the same for every backend
        assert not replaying.differing(ran, replaying.replay(asked, ran))


def test_as_often_as_it_may_be_and_no_more() -> None:
    """A task that is lost again at each step that it comes to."""
    strike = Strike("numpy", "mirrored", SECOND, KILL)
    lost = []

    def again(number: int) -> None:
        process = examples.process_of(SECOND)
        if number > 5 and process and process not in lost:
            lost.append(process)
            os.kill(process, signal.SIGKILL)

    asked = examples.asked(job_of(strike, again), "numpy", WORKERS, 0, 100, restarts=2, every=20)
    with pytest.raises(ClusterError, match=rf"^{SECOND} was lost at step (?s:.*)It was started again 2 times"):
        running.run(asked)
    assert len(lost) == 3


def test_the_task_that_was_killed_is_named_where_another_one_aborts_before_its_end_is_seen() -> None:
    """As with JAX: a process that misses another one ends by SIGABRT."""
    struck_once = threading.Lock()

    def abort_the_other_first(number: int) -> None:
        if number > 5 and struck_once.acquire(blocking=False):
            killed, other = (examples.process_of(task) for task in (FIRST, SECOND))
            os.kill(other, signal.SIGABRT)
            threading.Timer(0.5, os.kill, [killed, signal.SIGKILL]).start()

    job = job_of(Strike("numpy", "mirrored", FIRST, KILL), abort_the_other_first)
    asked = examples.asked(job, "numpy", WORKERS, 0, 100, restarts=1)
    assert [(fault.task, "SIGKILL" in fault.why) for fault in running.run(asked).faults] == [(FIRST, True)]


# --- at the start -------------------------------------------------------------------------------------------------


def taken(number: int) -> tuple[socket.socket, Callable[[], ClusterSpec]]:
    """A cluster in which another process holds the port of a task, and that socket."""
    own = socket.socket()
    own.bind(("127.0.0.1", 0))
    own.listen()

    def spec() -> ClusterSpec:
        made = local(WORKERS, 0)
        addresses = list(made.jobs["worker"])
        addresses[number] = f"127.0.0.1:{own.getsockname()[1]}"
        return ClusterSpec({"worker": tuple(addresses)})

    return own, spec


@pytest.mark.parametrize(("backend", "number"), [("tensorflow", 1), ("jax", 0)])
def test_a_port_that_is_taken_is_said_with_the_task(backend: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    own, spec = taken(number)
    mark = new_mark()

    def none() -> Any:
        raise OSError("not permitted")

    monkeypatch.setattr(starting, "held", none)  # in its own network namespace every port is free
    monkeypatch.setenv(MARK, mark)
    begin = time.monotonic()
    with own, pytest.raises(ClusterError) as found:
        running.run(JobSpec(examples.job("mirrored"), backend, spec, 4, limit=20.0 * slowness()))
    assert f"/job:worker/task:{number} cannot listen on 127.0.0.1:" in str(found.value)
    assert time.monotonic() - begin < 60 * slowness()
    assert settled(mark, SEEN * slowness()) == []


@pytest.mark.parametrize("backend", ["numpy", "tensorflow", pytest.param("jax", marks=pytest.mark.tier("exhaustive"))])
def test_a_task_that_never_comes_is_an_error_within_the_limit(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is stopped before it meets the others, and again at each new start."""
    mark = new_mark()
    monkeypatch.setenv(MARK, mark)
    begin_ = starting.TaskBackend.begin

    def beginning(self: Any) -> Any:
        if str(self.task) == SECOND:
            os.kill(self.worker.pids["worker"], signal.SIGSTOP)
        return begin_(self)

    monkeypatch.setattr(starting.TaskBackend, "begin", beginning)
    limit = 10.0 * slowness()
    begin = time.monotonic()
    asked = examples.asked(examples.job("mirrored"), backend, 2, 0, 4, restarts=0, limit=limit, start_limit=2 * limit)
    with pytest.raises(XBackendError) as found:
        running.run(asked)
    assert isinstance(found.value, ClusterError) and SECOND in str(found.value), found.value
    assert time.monotonic() - begin < 3 * limit
    assert settled(mark, SEEN * slowness()) == []
