"""A job on several backends in turn: its outcome on each, and the differences of their variables."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import msgspec
import numpy as np

from xbackend.cluster import replaying, running
from xbackend.cluster.job_results import JobResults
from xbackend.cluster.jobspec import JobSpec
from xbackend.engines.contract import Engine
from xbackend.engines.spec import SERVER, WORKER
from xbackend.errors import UsageError, XBackendError
from xbackend.measure import matrix
from xbackend.measure.machine import machine
from xbackend.program.structure import flatten
from xbackend.results.clustered import Clustered, Fault, Jobs
from xbackend.wording import grouped
from xbackend.workloads.agreement import INFINITE, apart, no_number, not_finite

TellResults = Callable[[JobResults], None]


def jobs(
    asked: JobSpec,
    pairs: Sequence[tuple[str, type[Engine]]],
    *,
    replay: bool,
    on_end: TellResults,
    allow_nan: bool = False,
) -> Jobs:
    """Run the job on each backend with its engine. A failure is a row with its reason, unless it is the only run. Each
    of several runs has its own folder of checkpoints. One with NaN or infinities is not verified, unless ``allow_nan``.

    Raises `UsageError` for errors of the user's functions, and for a ``replay`` without a record.
    """
    if replay and not asked.asynchronous:
        raise UsageError(
            "--replay repeats the recorded updates of --asynchronous tasks; those in step have no other order"
        )
    spec, found = asked.cluster(), list[Clustered]()
    clusters = itertools.chain([spec], iter(asked.cluster, None))
    asked = replace(asked, cluster=partial(next, clusters))
    first: dict[str, np.ndarray] | None = None
    failures = matrix.ready([(name, "") for name, _ in pairs], asked.on_line)
    for name, engine in pairs:
        several = [one for one, _ in pairs].count(name) > 1
        label = f"{name}-{engine.name}" if several else name
        folder = asked.folder / label if asked.folder is not None and len(pairs) > 1 else asked.folder
        own = replace(asked, backend=name, engine=engine.name, folder=folder, recorded=replay)
        try:
            if (name, "") in failures:
                raise UsageError(failures[name, ""])
            ran = running.run(own)
        except XBackendError as error:
            if len(pairs) == 1:
                raise
            reason = str(error).splitlines()[0]
            found.append(Clustered(backend=name, engine=engine.summary, by=engine.name, status="failed", reason=reason))
            continue
        on_end(ran)
        last = [steps[max(steps)] for steps in ran.outputs.values() if steps]
        missing = 0 if allow_nan else not_finite([*ran.variables.values(), *flatten(last, np.asarray)[0]])
        became = _became(own, ran, None if missing else first)
        if missing:
            became = msgspec.structs.replace(became, status="not verified", reason=no_number(missing, INFINITE))
        elif first is None:
            first = ran.variables
        found.append(became)
    return Jobs(
        job=asked.job.name,
        summary=asked.job.summary,
        workers=len(spec.jobs[WORKER]),
        servers=len(spec.jobs.get(SERVER, ())),
        steps=asked.steps,
        asynchronous=asked.asynchronous,
        hosts=spec.hosts(),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        machine=machine(),
        runs=tuple(found),
    )


def _replayed(asked: JobSpec, ran: JobResults) -> tuple[bool | None, str]:
    """Whether the recorded updates give the same variables again (`None`: no record, or it failed), and the failure."""
    if not asked.recorded:
        return None, ""
    try:
        again = replaying.replay(asked, ran)
    except XBackendError as error:
        reason = f"not repeated: {str(error).splitlines()[0]}"
        asked.on_line(f"{asked.backend}: {reason}")
        return None, reason
    return not replaying.differing(ran, again), ""


def _became(asked: JobSpec, ran: JobResults, first: dict[str, np.ndarray] | None) -> Clustered:
    replayed, reason = _replayed(asked, ran)
    difference = None
    if first is not None and not asked.asynchronous:
        difference = apart((array, first[name]) for name, array in ran.variables.items())
    return Clustered(
        backend=ran.backend,
        engine=ran.engine,
        by=asked.engine,
        reason=reason,
        versions=matrix.own_versions(ran.backend, ""),
        start=ran.start,
        seconds=tuple(tuple(ran.seconds[k]) for k in sorted(ran.seconds)),
        updates=ran.updates,
        taken=ran.taken,
        pulled=ran.moved.get("pulled", 0),
        pushed=ran.moved.get("pushed", 0),
        faults=msgspec.convert(ran.faults, tuple[Fault, ...], from_attributes=True),
        listens={task: tuple(addresses) for task, addresses in ran.listens.items()},
        copies=_copies(ran),
        replayed=replayed,
        difference=difference,
    )


def _copies(ran: JobResults) -> bool | None:
    """Whether the variables of one name are equal to the bit on all workers; `None` without any."""
    places = [(place.split("/", 3), array) for place, array in ran.variables.items()]
    found = grouped((name, array) for (_, job, _, name), array in places if job == f"job:{WORKER}")
    pairs = ((first, one) for first, *others in found.values() for one in others)
    return all(first.tobytes() == one.tobytes() for first, one in pairs) if found else None
