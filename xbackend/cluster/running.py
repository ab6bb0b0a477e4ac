"""A job on a cluster, from its start to its end: tasks are started, take their steps, are watched, and started again
where one is lost."""

from __future__ import annotations

from contextlib import nullcontext

from xbackend.api.repeated import noticing_kept
from xbackend.cluster import status
from xbackend.cluster.asked import Asked
from xbackend.cluster.attempt import Attempt, Common, State, short
from xbackend.cluster.programs import Programs
from xbackend.cluster.ran import Fault, Ran
from xbackend.cluster.starting import coordinated
from xbackend.cluster.supervisor import Lost, within
from xbackend.engines.registry import Entry, of
from xbackend.engines.spec import WORKER, ClusterSpec
from xbackend.errors import ClusterError
from xbackend.training import checkpoints
from xbackend.workers.remote import ready_environment


def run(asked: Asked) -> Ran:
    """Run a job to its end. The environment of its backend is made first where it is missing.

    Raises `ClusterError` naming the task that was lost where it was not to be started again, what the job's own
    functions raise as the guard says, and what backends raise for its program.
    """
    engine = of(asked.backend, asked.engine)
    ready_environment(asked.backend, on_progress=asked.on_line)
    spec = _cluster(asked, engine)
    programs = Programs(asked.job, spec, engine, asynchronous=asked.asynchronous, guard=asked.guard)
    with noticing_kept(asked.on_line):
        for task in spec.tasks:
            if task.job == WORKER:
                what = f"the job's own functions for {task}"
                within(asked.start_limit, what, lambda own=task: programs.of(own, programs.arrays(own, 0)))  # type: ignore[misc]
    if asked.asynchronous and not programs.servers:
        raise ClusterError("--asynchronous is for tasks that share variables on a parameter server: --ps 1")
    ran = Ran(asked.backend, engine.summary, programs.workers, programs.servers, asked.steps)
    fingerprint = programs.fingerprint  # of what the first steps are, whatever shapes come later
    with nullcontext() if asked.folder is None else checkpoints.alone(asked.folder):
        state = _newest(asked, fingerprint)
        ran.begun = [state.arrays.get(f"ps/{k}", record) for k, record in enumerate(programs.records())]
        with status.told(asked.job.name, asked.backend) as told:
            return _attempts(Common(asked, engine, programs, fingerprint, ran, told), spec, state)


def _cluster(asked: Asked, engine: Entry) -> ClusterSpec:
    """A cluster for one start, with all tasks that the engine has."""
    spec = asked.cluster()
    return coordinated(spec) if engine.coordinated else spec


def _attempts(common: Common, spec: ClusterSpec, state: State) -> Ran:
    asked, ran = common.asked, common.ran
    lost_at: dict[int, float] = {}  # when the faults were seen after which nothing goes on yet, by their number
    while True:
        attempt = Attempt(common, spec, state, lost_at)
        try:
            attempt.run()
            return ran
        except Lost as lost:
            fault = Fault(str(lost.task), lost.step, short(lost.why), "all")
            lost_at[len(ran.faults)] = lost.seen
            ran.faults.append(fault)
            if len(ran.faults) > asked.restarts:
                raise ClusterError(
                    f"{lost.task} was lost at step {lost.step}: {lost.why}\n"
                    + ("Let what is lost be started again: --restarts 3." if not asked.restarts else "")
                    + (f"It was started again {asked.restarts} times." if asked.restarts else "")
                ) from lost.why
            state = attempt.state
            asked.on_line(f"{lost.task} was lost at step {lost.step} ({fault.why}); all go on from step {state.step}")
            spec = _cluster(asked, common.engine)


def _newest(asked: Asked, fingerprint: str) -> State:
    """Where a job begins: at the newest checkpoint of its folder, else at its beginning."""
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
            return State(found.step, dict(found.arrays))
    return State(0, {})
