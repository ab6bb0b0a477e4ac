"""Jobs on a cluster without faults: where they go on, their data, and refusals."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import socket
import threading
import time
import tracemalloc
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import cluster_examples as examples
import numpy as np
import pytest

import xbackend as xb
from xbackend.backends.contract import Settings
from xbackend.cli import DONE, WRONG, main
from xbackend.cluster import attempt, replaying, running, starting
from xbackend.cluster.job import Job
from xbackend.cluster.job_results import STEPS_KEPT, JobResults, UpdateLog, words
from xbackend.cluster.jobspec import JobSpec
from xbackend.cluster.programs import Programs
from xbackend.cluster.starting import joined
from xbackend.engines.alone import Alone
from xbackend.engines.contract import NOTHING, Brought
from xbackend.engines.mpi import MPI
from xbackend.engines.pmi import Meeting
from xbackend.engines.record import Applied, Layout, ServerVariable
from xbackend.engines.registry import checked, of
from xbackend.engines.spec import SERVER, WORKER, ClusterSpec, Task, local
from xbackend.errors import CheckpointError, ClusterError, ComputationError, UsageError
from xbackend.measure import clusters
from xbackend.results.clustered import Clustered
from xbackend.training import checkpoints
from xbackend.training.checkpoints import Checkpoint

pytestmark = pytest.mark.tier("standard")
HEAVY = pytest.mark.tier("exhaustive")
ROWS = (4, 4, 3)  # in the batches of an epoch
LIMITS = {"limit": 10.0, "asynchronous": True}


def summing(task: Any, x: Any) -> Any:
    """Keep the sum of all rows of all tasks."""
    total = xb.shared(np.zeros(1), "total")
    (own,) = xb.all_reduce([xb.sum(x, axis=0)], "sum", across=task)
    xb.update(total, total + own)
    return own


def adding(task: Any) -> Any:
    total = xb.shared(np.float64(0.0), "total", device="/job:ps/task:0")
    xb.update(total, total + 1.0)
    return total


def job(function: Any, asked_for: list[int] | None = None) -> Job:
    made = Job(function)
    if function is not adding:

        def data(task: Task, number: int) -> list[np.ndarray]:
            if asked_for is not None:
                asked_for.append(number)
            return [np.ones((ROWS[number % len(ROWS)], 1))]

        made.data(data)
    return made


def asked(function: Any = summing, steps: int = 6, servers: int = 0, **more: Any) -> JobSpec:
    return examples.asked(job(function, more.pop("asked_for", None)), "numpy", 2, servers, steps, **more)


def total(ran: Any, place: str = "/job:worker/task:0") -> float:
    return float(ran.variables[f"{place}/total"].item())


def test_a_job_goes_on_from_its_checkpoint_whatever_the_shapes_of_its_batches(tmp_path: Path) -> None:
    lines: list[str] = []
    first = running.run(asked(every=3, folder=tmp_path))
    assert total(first) == 2 * sum(ROWS) * 2
    ran = running.run(asked(steps=9, every=3, folder=tmp_path, on_line=lines.append))
    assert any("goes on from step 6" in line for line in lines), lines
    assert total(ran) == 2 * sum(ROWS) * 3


@pytest.mark.tier("exhaustive")
def test_a_task_that_compiles_longer_than_a_step_may_take_keeps_nobody_waiting_in_one() -> None:
    def slow(task: Any, x: Any) -> Any:
        if task.index and x.shape[0] == ROWS[2]:
            time.sleep(3.0)  # as a compiler may take for a new shape
        return summing(task, x)

    ran = running.run(asked(slow, limit=1.0))
    assert not ran.faults
    assert total(ran) == 2 * sum(ROWS) * 2


def test_what_tasks_reduce_may_have_another_shape_at_another_step() -> None:
    def rows(task: Any, x: Any) -> Any:
        (all_rows,) = xb.all_reduce([x], "sum", across=task)
        return xb.sum(all_rows)

    ran = running.run(asked(rows))
    assert [float(ran.outputs[0][k]) for k in range(6)] == [2.0 * rows for rows in ROWS * 2]


def test_tasks_that_reduce_other_arrays_at_a_step_are_refused() -> None:
    def uneven(task: Any, x: Any) -> Any:
        own = x if x.shape[0] == ROWS[0] or not task.index else xb.concat([x, x])
        (all_rows,) = xb.all_reduce([own], "sum", across=task)
        return xb.sum(all_rows)

    with pytest.raises(ClusterError, match=r"reduce other arrays with each other at step 2: .*3,1.* and .*6,1"):
        running.run(asked(uneven))


@pytest.mark.parametrize("step", [0, pytest.param(3, marks=HEAVY)])
def test_data_that_never_come_are_an_error_and_end_the_job(step: int) -> None:
    forever = threading.Event()
    begin = time.monotonic()
    made = Job(summing)

    @made.data
    def data(task: Task, number: int) -> list[np.ndarray]:
        if task.index and number == step:
            forever.wait()
        return [np.ones((2, 1))]

    said = (
        "own functions (for /job:worker/task:1 did not return|did not return for step 3 of /job:worker/task:1) within 5"
    )
    with pytest.raises(ClusterError, match=said):
        running.run(examples.asked(made, "numpy", 2, 0, 6, start_limit=5.0))
    assert time.monotonic() - begin < 60.0
    forever.set()


@pytest.mark.tier("exhaustive")
def test_a_server_that_dies_while_nobody_asks_it_is_seen() -> None:
    """In step, and no worker calls the server's process: MPI's window is memory that they share."""

    def slow(task: Any, x: Any) -> Any:
        total = xb.shared(np.zeros(1), "total", device="/job:ps/task:0")
        for _ in range(20):
            x = x @ x / 1500.0
        xb.update(total, total + xb.sum(x, axis=None, keepdims=True)[0])
        return total

    made, lines, killed = Job(slow), list[str](), list[float]()
    made.data(lambda task, number: [np.ones((1500, 1500))])

    def on_line(line: str) -> None:
        lines.append(line)
        if "  step 1  " in line and not killed:
            os.kill(examples.process_of("/job:ps/task:0"), signal.SIGKILL)
            killed.append(time.monotonic())

    with pytest.raises(ClusterError, match=r"^/job:ps/task:0 was lost .* ended by SIGKILL while it did nothing"):
        running.run(examples.asked(made, "numpy", 2, 1, 1000, every=1000, restarts=0, on_line=on_line))
    assert time.monotonic() - killed[0] < 10.0


@pytest.mark.tier("exhaustive")
@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_a_task_that_never_ends_its_step_is_named_and_not_who_waits_for_it(backend: str) -> None:
    def counting(task: Any, most: Any) -> Any:
        end = xb.while_loop(lambda i: i < most, lambda i: i + 1, xb.zeros((), dtype=xb.int64))
        return xb.all_reduce([xb.astype(end, xb.float64)], "sum", across=task)[0]

    made = Job(counting)
    made.data(lambda task, number: [np.array(2**60 if (task.index, number) == (1, 3) else 5)])
    with pytest.raises(ClusterError, match=r"^/job:worker/task:1 was lost at step [0-3]"):
        running.run(examples.asked(made, backend, 2, 0, 6, limit=4.0, restarts=0))


def test_a_start_that_fails_after_all_met_is_a_loss_and_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a lost process still held its port."""

    def none() -> Any:
        raise OSError("not permitted")

    monkeypatch.setattr(starting, "held", none)  # in its own network namespace every port is free
    specs, killed = list[ClusterSpec](), list[int]()

    def on_line(line: str) -> None:
        if "  step 1  " in line and not killed:
            killed.append(examples.process_of("/job:worker/task:1"))
            os.kill(killed[0], signal.SIGKILL)

    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        own.listen()

        def spec() -> ClusterSpec:
            specs.append(local(2, 0))
            if len(specs) != 2:
                return specs[-1]
            _, second = specs[-1].jobs[WORKER]
            return ClusterSpec({WORKER: (f"127.0.0.1:{own.getsockname()[1]}", second)})

        # So many steps that the task still runs when its first line is read.
        ran = running.run(JobSpec(job(summing), "jax", spec, 400, every=200, on_line=on_line))
    assert len(specs) == 3 and len(ran.faults) == 2
    assert "cannot listen" in ran.faults[1].why
    assert total(ran) == 2 * sum(ROWS[k % len(ROWS)] for k in range(400))


@pytest.mark.parametrize("backend", ["numpy", pytest.param("tensorflow", marks=pytest.mark.tier("exhaustive"))])
def test_a_server_that_is_frozen_where_nobody_sees_it_is_named(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On another host the launcher cannot see that a process is stopped."""
    monkeypatch.setattr(starting, "is_stopped", lambda backend: False)
    frozen, lines = list[float](), list[str]()

    def on_line(line: str) -> None:
        lines.append(line)
        # All have taken the compiling step, which may take as long as a start.
        if not frozen and len({one.partition("  step ")[0] for one in lines if "  step 1  " not in one}) == 2:
            os.kill(examples.process_of("/job:ps/task:0"), signal.SIGSTOP)
            frozen.append(time.monotonic())

    with pytest.raises(ClusterError, match=r"^/job:ps/task:0 was lost"):
        running.run(examples.asked(job(adding), backend, 2, 1, 5000, every=5, limit=4.0, restarts=0, on_line=on_line))
    assert time.monotonic() - frozen[0] < 60.0  # not the ten minutes of a start


def test_bytes_are_those_that_the_engine_moved() -> None:
    """A worker of MPI reads the record, reads it again under its lock, and writes it back whole."""
    ran = running.run(examples.asked(job(adding), "numpy", 1, 1, 50))
    (record,) = ran.begun
    assert ran.moved == {"pulled": 50 * 2 * record.nbytes, "pushed": 50 * record.nbytes}


def test_servers_of_an_engine_that_has_none_are_refused() -> None:
    with pytest.raises(ClusterError, match=r"no parameter servers here: .* take --backend tensorflow"):
        running.run(examples.asked(job(summing), "jax", 2, 1, 3))


def test_a_first_port_is_for_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    target = f"{examples.EXAMPLES / 'p10_distributed.py'}:mirrored"
    assert main(["cluster", "run", target, "--port", "29500"]) == WRONG
    assert "--port is for tasks on --hosts" in capsys.readouterr().err


def test_fewer_steps_than_an_asynchronous_task_has_taken_are_refused(tmp_path: Path) -> None:
    spec = local(2, 1)
    programs = Programs(job(adding), spec, of("numpy"), asynchronous=True, guard=lambda _: nullcontext())
    for task in spec.tasks[1:]:
        programs.of(task, [])
    (record,), (one,) = programs.records(), programs.layouts
    for worker, steps in enumerate((10, 8)):
        for step in range(steps):
            one.add(record, worker, step, [0])
    checkpoints.write(tmp_path, Checkpoint({"ps/0": record}, programs.fingerprint, 8, {}))
    with pytest.raises(ClusterError, match=r"task:0 has taken 10 steps before the checkpoint, and 9 were asked for"):
        running.run(asked(adding, servers=1, steps=9, asynchronous=True, folder=tmp_path))


def failing(on_server: bool) -> Job:
    """Adds to a first server. At step 3 a second server's update, or the result, is an inverse that does not exist."""

    def step(task: Task, x: Any) -> Any:
        first = xb.shared(np.float64(0.0), "first", device="/job:ps/task:0")
        second = xb.shared(np.eye(2), "second", device="/job:ps/task:1")
        xb.update(first, first + 1.0)
        xb.update(second, xb.linalg.inv(second * x) if on_server else second * x)
        return x if on_server else xb.linalg.inv(xb.eye(2) * x)

    made = Job(step)
    made.data(lambda task, number: [np.float64(number != 3)])
    return made


@pytest.mark.parametrize(
    ("backend", "engine", "asynchronous", "on_server"),
    [
        ("numpy", "", True, True),
        ("numpy", "", False, False),
        *(
            pytest.param("tensorflow", *how, marks=HEAVY)
            for how in (("", True, True), ("", False, True), ("coordinator", True, False), ("coordinator", True, True))
        ),
    ],
)
def test_a_step_that_fails_updates_no_server(
    backend: str, engine: str, asynchronous: bool, on_server: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, taking = dict[str, np.ndarray](), "_out_of_step" if asynchronous else "_in_step"
    take = getattr(attempt.Attempt, taking)

    def looked(self: attempt.Attempt) -> None:
        try:
            take(self)
        finally:
            for one, record in zip(self.layouts, self._records(), strict=True):
                left.update(one.arrays(record))

    monkeypatch.setattr(attempt.Attempt, taking, looked)
    lines = list[str]()
    with pytest.raises(ComputationError, match="has no result for these numbers"):
        running.run(
            examples.asked(
                failing(on_server), backend, 1, 2, asynchronous=asynchronous, engine=engine, on_line=lines.append
            )
        )
    assert not [line for line in lines if "was lost" in line]
    assert left["first"] == 3.0 and np.array_equal(left["second"], np.eye(2))


def test_a_replay_keeps_only_what_is_read_later() -> None:
    layout, kept = Layout(0, 1, 1, (ServerVariable("total", (), "float64"),)), list[int]()
    alone = Alone(joined("", ClusterSpec.of(["localhost:1"]), Task(WORKER, 0, 1), [layout], **LIMITS), Settings())
    alone.expect([(k,) for k in range(50)])
    alone.open([layout.new({"total": np.float64(0.0)})])
    for step in range(50):
        alone.set(0, 1, (step,))
        assert layout.version(alone.pull(layout)) == step
        alone.repeat(layout, NOTHING, Brought(step, (step,), [()]))
        kept.append(len(alone.held))
    assert max(kept) == 1 and kept[-1] == 0


def test_a_job_that_has_ended_asks_for_no_step_that_is_not_there(tmp_path: Path) -> None:
    numbers: list[int] = []
    running.run(asked(every=3, folder=tmp_path))
    ran = running.run(asked(every=3, folder=tmp_path, asked_for=numbers))
    assert total(ran) == 2 * sum(ROWS) * 2 and max(numbers) < 6


def test_fewer_steps_than_a_checkpoint_has_are_refused(tmp_path: Path) -> None:
    running.run(asked(every=3, folder=tmp_path))
    with pytest.raises(ClusterError, match=r"checkpoint of step 6, and 4 steps were asked for: ask for more"):
        running.run(asked(steps=4, every=3, folder=tmp_path))


def test_asynchronous_tasks_keep_their_end(tmp_path: Path) -> None:
    lines: list[str] = []
    running.run(asked(adding, servers=1, steps=30, asynchronous=True, folder=tmp_path))
    ran = running.run(asked(adding, servers=1, steps=40, asynchronous=True, folder=tmp_path, on_line=lines.append))
    assert any("goes on from step 30" in line for line in lines), lines
    assert total(ran, "/job:ps/task:0") == 2 * 40


@HEAVY
def test_backends_keep_their_checkpoints_apart(tmp_path: Path) -> None:
    both = asked(folder=tmp_path)
    done = clusters.jobs(both, checked(["numpy", "jax"], []), replay=False, on_end=lambda _: None)
    assert [len(run.seconds) for run in done.runs] == [2, 2]
    only = clusters.jobs(
        replace(both, folder=tmp_path / "one"), checked(["numpy"], []), replay=False, on_end=lambda _: None
    )
    assert len(only.runs[0].seconds) == 2 and list((tmp_path / "one").glob("*.safetensors"))


def test_variables_with_nan_have_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their row says that they are not verified, and the report lists them once."""
    numbers = iter([1.0, np.nan, 1.0])

    def ran(own: JobSpec) -> JobResults:
        return JobResults(own.backend, "MPI", 2, 0, 6, variables={"/job:worker/task:0/w": np.asarray(next(numbers))})

    monkeypatch.setattr(running, "run", ran)
    pairs = checked(["numpy", "numpy", "numpy"], [])
    done = clusters.jobs(asked(), pairs, replay=False, on_end=lambda _: None)
    assert [(run.status, run.difference) for run in done.runs] == [("ok", None), ("not verified", None), ("ok", 0.0)]


def test_a_variable_without_a_name_is_refused() -> None:
    def unnamed(task: Any, x: Any) -> None:
        own = xb.shared(np.float64(0.0))
        xb.update(own, own + xb.sum(x))

    with pytest.raises(ClusterError, match=r"know a variable by its name: give it one \(at .*test_cluster_runs"):
        running.run(asked(unnamed))


def test_parameter_servers_may_stand_last() -> None:
    def spec() -> ClusterSpec:
        made = local(2, 1)
        return ClusterSpec({WORKER: made.jobs[WORKER], SERVER: made.jobs[SERVER]})

    assert spec().tasks[0] == Task(SERVER, 0, 1)
    ran = running.run(replace(asked(adding, servers=1), cluster=spec))
    assert total(ran, "/job:ps/task:0") == 12


def test_jobs_of_other_names_are_refused() -> None:
    named = ClusterSpec({"trainer": ("127.0.0.1:29400",)})
    with pytest.raises(ClusterError, match="has the jobs trainer: tasks that compute are of the job worker"):
        running.run(replace(asked(), cluster=lambda: named))


def test_what_has_no_other_order_is_not_replayed() -> None:
    with pytest.raises(UsageError, match=r"--replay repeats the recorded updates of --asynchronous tasks"):
        clusters.jobs(asked(adding, servers=1), checked(["numpy"], []), replay=True, on_end=lambda _: None)


def test_the_first_ports_are_those_that_were_named() -> None:
    made, numbers = list[int](), itertools.count()

    def spec() -> ClusterSpec:
        made.append(next(numbers))
        return local(2, 0)

    clusters.jobs(replace(asked(), cluster=spec), checked(["numpy"], []), replay=False, on_end=lambda _: None)
    assert made == [0]


def test_a_cluster_that_is_given_says_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cluster.toml"
    file.write_text(examples.toml(local(2, 1)))
    target = f"{examples.EXAMPLES / 'p7_between_graph.py'}:add_rank"
    assert main(["cluster", "run", target, "--cluster", str(file), "--ps", "1", "--port", "29500"]) == WRONG
    assert "--cluster says which tasks there are and where: leave out --ps and --port" in capsys.readouterr().err
    own = ["--reports", str(tmp_path), "--steps", "4"]
    assert main(["cluster", "run", target, "--cluster", str(file), *own]) == DONE


def test_what_processes_share_has_no_name_any_more_once_they_have_met(monkeypatch: pytest.MonkeyPatch) -> None:
    """MPICH's memory stays in /dev/shm if a process ends without finalizing, as a killed one does. The launcher knows
    the name that it had."""
    found, meetings = list[str](), list[Meeting]()
    monkeypatch.setattr(MPI, "meeting", lambda hosts: meetings.append(Meeting(hosts)) or meetings[-1])

    def data(task: Task, number: int) -> list[np.ndarray]:
        if number:
            maps = Path(f"/proc/{examples.process_of(str(task))}/maps").read_text().splitlines()
            found.extend(line.partition("/dev/shm/")[2] for line in maps if "/dev/shm/mpich_" in line)
        return []

    made = Job(adding)
    made.data(data)
    running.run(examples.asked(made, "numpy", 2, 1, 2))
    assert found and all(name.endswith(" (deleted)") for name in found), found
    assert f"{meetings[0].memory[0].name} (deleted)" in found


@pytest.mark.parametrize("backend", ["numpy", pytest.param("tensorflow", marks=HEAVY), "jax"])
def test_a_task_without_rows_counts_for_nothing(backend: str) -> None:
    def mean(task: Any, x: Any) -> Any:
        (whole,) = xb.all_reduce([xb.mean(x)], weights=[x.shape[0]], across=task)
        return whole

    made = Job(mean)
    made.data(lambda task, number: [np.arange(5.0)[: 1 if number else 5][task.share(1 if number else 5).start :][:3]])
    ran = running.run(examples.asked(made, backend, 2, 0, 2))
    assert [float(ran.outputs[task][step]) for task in (0, 1) for step in (0, 1)] == [2.0, 0.0, 2.0, 0.0]


def test_asynchronous_tasks_keep_checkpoints_as_often_as_they_were_asked_to(tmp_path: Path) -> None:
    """Even if their data take longer than their steps."""
    known: list[bool] = []

    def data(task: Task, number: int) -> list[np.ndarray]:
        time.sleep(0.1)
        known.append(number < 16 or bool(checkpoints.files(tmp_path)))
        return []

    made = Job(adding)
    made.data(data)
    running.run(examples.asked(made, "numpy", 2, 1, 20, asynchronous=True, every=4, folder=tmp_path))
    assert all(known)


def test_what_was_done_before_a_checkpoint_is_not_done_again_and_not_counted(tmp_path: Path) -> None:
    def once(steps: int) -> Clustered:
        own = asked(adding, steps=steps, servers=1, folder=tmp_path)
        return clusters.jobs(own, checked(["numpy"], []), replay=False, on_end=lambda ran: None).runs[0]

    first, then = once(100), once(110)
    assert (first.updates, first.taken, then.updates, then.taken) == (200, 200, 20, 20)
    assert then.pulled / then.taken > 2000  # the record, read again by tasks that wait for their turn


def test_a_job_that_goes_on_is_repeated_from_where_it_went_on(tmp_path: Path) -> None:
    def run(steps: int) -> tuple[JobSpec, JobResults]:
        how = {"asynchronous": True, "folder": tmp_path}
        asked = examples.asked(examples.job("served"), "numpy", 2, 1, steps, **how)
        return asked, running.run(asked)

    run(10)
    asked, ran = run(90)
    assert ran.updates == 160 and not replaying.differing(ran, replaying.replay(asked, ran))


@HEAVY
def test_a_launcher_takes_no_more_memory_for_a_longer_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for outputs, seconds and logged updates: these took 529 bytes a step in a dictionary."""
    monkeypatch.setattr(attempt, "SECONDS_KEPT", 50)

    def held(steps: int) -> int:
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        ran = running.run(asked(adding, steps, servers=1, recorded=True))
        gc.collect()
        assert len(ran.outputs[0]) == STEPS_KEPT
        return tracemalloc.get_traced_memory()[0] - before

    tracemalloc.start()
    try:
        held(100)
        short, long = held(100), held(1100)
    finally:
        tracemalloc.stop()
    assert long - short < 1000 * 2 * 25, f"{(long - short) / 1000:.0f} bytes a step"


def test_what_servers_wrote_down_lies_on_disk() -> None:
    """`tracemalloc` does not see it: look at the memory of the process."""
    log, pages = UpdateLog(), Path("/proc/self/statm")
    before = int(pages.read_text().split()[1])
    for first in range(0, 200_000, 1000):
        log.note([Applied(0, 0, k, k + 1, (k,)) for k in range(first, first + 1000)])
    grown = (int(pages.read_text().split()[1]) - before) * os.sysconf("SC_PAGE_SIZE")
    assert grown < 200_000 * 60, f"{grown / 200_000:.0f} bytes an update"
    log.note([Applied(0, 1, 7, 5, (2,))])
    log.forget(0, 6)
    assert [one.worker for one in log.after(0, 2)] == [0, 0, 1, 0] and not list(log.after(1, 0))


def test_updates_are_repeated_after_what_they_read() -> None:
    first, second = Applied(0, 0, 0, 1, (0, 0)), Applied(1, 1, 0, 1, (1, 0))
    assert list(replaying.ordered([iter([first]), iter([second])], [0, 0])) == [first, second]
    with pytest.raises(ClusterError, match=r"the record of /job:ps/task:0 has gaps"):
        list(replaying.ordered([iter([Applied(0, 0, 1, 2, (1,))])], [0]))
    with pytest.raises(ClusterError, match="of no order"):
        list(replaying.ordered([iter([Applied(0, 0, 0, 1, (0, 1))]), iter([Applied(1, 1, 0, 1, (1, 0))])], [0, 0]))


def test_a_launcher_keeps_no_more_of_a_longer_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt, "SECONDS_KEPT", 50)
    ran = running.run(asked(servers=1, steps=200, function=adding, recorded=False))
    assert [len(own) for own in (*ran.seconds.values(), *ran.outputs.values())] == [50, 50, STEPS_KEPT, STEPS_KEPT]
    assert list(ran.outputs[0]) == list(range(200 - STEPS_KEPT, 200))
    assert ran.updates == 400 and not ran.applied


def test_a_folder_that_a_job_goes_on_in_is_refused(tmp_path: Path) -> None:
    with checkpoints.alone(tmp_path), pytest.raises(CheckpointError, match="another training or job goes on in"):
        running.run(asked(folder=tmp_path))


def test_a_number_is_shown_as_it_is() -> None:
    ran = JobResults("numpy", "MPI", 1, 0, 1)
    ran.variables = {"a": np.array(2**60 + 11), "b": np.array(True), "c": np.array(0.1, np.float32), "d": np.zeros(3)}
    assert words(ran)[1:] == ["a = 1152921504606846987", "b = True", "c = 0.1", "d: float64[3]"]
    assert words(ran)[0].startswith("numpy, 1 worker: 1 step each")


@pytest.mark.parametrize(
    ("variables", "equal"),
    [
        ({}, None),
        ({"ps/task:0/w": [1.0]}, None),
        ({"worker/task:0/w": [1.0], "worker/task:1/v": [2.0]}, True),
        ({"worker/task:0/w": [1.0], "worker/task:1/w": [1.0], "ps/task:0/w": [2.0]}, True),
        ({"worker/task:0/w": [0.0], "worker/task:1/w": [0.0], "worker/task:2/w": [-0.0]}, False),
    ],
)
def test_copies_are_compared_by_name_and_to_the_bit(variables: dict[str, list[float]], equal: bool | None) -> None:
    ran = JobResults("numpy", "MPI", 3, 1, 1)
    ran.variables = {f"/job:{place}": np.array(value) for place, value in variables.items()}
    assert clusters._copies(ran) is equal
