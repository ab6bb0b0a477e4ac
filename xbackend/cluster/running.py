"""A job on a cluster from start to end. After a loss all tasks are started again from the newest checkpoint."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

from xbackend.api.tracing.repeated import noticing_kept
from xbackend.cluster import status
from xbackend.cluster.attempt import Attempt, short
from xbackend.cluster.job_results import JobResults, TaskLoss
from xbackend.cluster.jobspec import JobSpec
from xbackend.cluster.programs import Programs
from xbackend.cluster.supervisor import Lost, within
from xbackend.engines.registry import of
from xbackend.engines.spec import WORKER
from xbackend.errors import ClusterError
from xbackend.training import checkpoints
from xbackend.training.checkpoints import Checkpoint
from xbackend.workers.remote import ready_environment


def run(asked: JobSpec) -> JobResults:
    """Run a job to its end. The environment of its backend is made first if it is missing.

    Raises `ClusterError` naming the lost task once no restart is left, what the guard makes of errors in the job's own
    functions, and what backends raise for its program.
    """
    engine = of(asked.backend, asked.engine)
    ready_environment(asked.backend, on_progress=asked.on_line)
    spec = engine.completed(asked.cluster())
    programs = Programs(asked.job, spec, engine, asynchronous=asked.asynchronous, guard=asked.guard)
    with noticing_kept(asked.on_line):
        for task in spec.tasks:
            if task.job == WORKER:
                what = f"the job's own functions for {task}"
                within(asked.start_limit, what, lambda own=task: programs.of(own, programs.arrays(own, 0)))  # type: ignore[misc]
    if asked.asynchronous and not programs.servers:
        raise ClusterError("--asynchronous is for tasks that share variables on a parameter server: --ps 1")
    ran = JobResults(asked.backend, engine.summary, programs.workers, programs.servers, asked.steps)
    with nullcontext() if asked.folder is None else checkpoints.alone(asked.folder):
        newest = _newest(asked, programs.fingerprint)
        ran.begun = [newest.arrays.get(f"ps/{k}", record) for k, record in enumerate(programs.records())]
        ran.before = [one.version(record) for one, record in zip(programs.layouts, ran.begun, strict=True)]
        with status.told(asked.job.name, asked.backend) as tell:
            start = partial(Attempt, asked, programs=programs, ran=ran, tell=tell)
            attempt = start(spec=spec, newest=newest)
            while True:
                try:
                    attempt.run()
                    return ran
                except Lost as lost:
                    _lost(asked, ran, lost, attempt.newest.step)
                attempt = start(spec=engine.completed(asked.cluster()), newest=attempt.newest)


def _lost(asked: JobSpec, ran: JobResults, lost: Lost, step: int) -> None:
    """Record the loss of a task: all start again at ``step``. Raises `ClusterError` if no restart is left."""
    ran.faults.append(TaskLoss(str(lost.task), lost.step, short(lost.why), "all", lost.seen))
    if len(ran.faults) > asked.restarts:
        again = f"It was started again {asked.restarts} times."
        again = again if asked.restarts else "Let what is lost be started again: --restarts 3."
        raise ClusterError(f"{lost.task} was lost at step {lost.step}: {lost.why}\n{again}") from lost.why
    asked.on_line(f"{lost.task} was lost at step {lost.step} ({short(lost.why)}); all go on from step {step}")


def _newest(asked: JobSpec, fingerprint: str) -> Checkpoint:
    """The newest checkpoint in the job's folder, else one of step 0."""
    if asked.folder is not None:
        found, wrong = checkpoints.newest(asked.folder, fingerprint)
        for line in wrong:
            asked.on_line(line)
        if found is not None:
            if found.step > asked.steps:
                raise ClusterError(
                    f"{asked.folder} has a checkpoint of step {found.step}, and {asked.steps} steps were asked for: "
                    "ask for more, or take another folder"
                )
            asked.on_line(f"goes on from step {found.step} of {asked.folder}")
            return found
    return Checkpoint({}, fingerprint, 0, {})
