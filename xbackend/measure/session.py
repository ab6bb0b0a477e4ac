"""A session: candidates measured in blocks of fresh processes, and what became of them as results.

from xbackend.measure import session
results = session.compare("matpow", parameters=[{"size": 512}], backends=["numpy", "pytensor"], devices=(1, 2))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from xbackend import workloads
from xbackend.analysis import statistics
from xbackend.errors import ArgumentError
from xbackend.measure import matrix
from xbackend.measure.candidates import Candidate, Task, task
from xbackend.measure.machine import cores
from xbackend.measure.plan import PRESETS
from xbackend.measure.runner import Opener, Progress, Session
from xbackend.measure.worker import open_worker
from xbackend.results.runs import Store
from xbackend.results.schema import Results

# 512 x 512: a call lasts some 20 ms on two cores, long against every framework's own cost and against the clock, and
# all backends are done in three minutes, most of which are their imports and compilers.
QUICK_SIZE = 512


def compare(
    workload: str = "matpow",
    *,
    parameters: Iterable[Mapping[str, Any]] = ({},),
    backends: Iterable[str] | None = None,
    environments: Sequence[str] = (),
    devices: Sequence[int] = (1,),
    quick: bool = True,
    thorough: bool = False,
    processes: int | None = None,
    minutes: float | None = None,
    baseline: str | None = None,
    threads: int | None = None,
    seed: int = 0,
    limit: float | None = 600.0,
    name: str = "compare",
    store: Store | None = None,
    on_progress: Progress = lambda _: None,
    opener: Opener = open_worker,
) -> Results:
    """Measure a workload on backends. ``threads``, ``seed``, ``limit`` and ``on_progress`` are those of `Session`.

    Args:
        workload: its name.
        parameters: for each of these a comparison; with ``quick`` a ``size`` that is not given is 512.
        backends: names of backends, `None` for all.
        environments: of several versions of a framework, such as ``pytensor==2.38.3``; see `matrix.runs`.
        devices: for each number, a process with so many (virtual) devices over which the logical ones are spread.
        quick: 3 processes of each backend and number of devices, with fewer and shorter rounds; else 5, or if
        thorough: 10, and more until every time is known to 2 % (half of its interval) or ``minutes`` are used up.
        processes: another number of processes; with ``thorough`` the fewest.
        minutes: after which no more processes are begun; 60 if ``thorough``, else `None` for no such bound.
        baseline: the backend or environment that is measured against itself, that of the ratios; numpy if not given.
        name: what the results are called.
        store: where the run is kept from its first round on, if anywhere.

    Raises:
        UnknownBackend, EnvironmentFailed, WorkloadError, ArgumentError, UsageError: before anything is measured.
        StoreError: what was measured cannot be kept.
    """
    runs = matrix.runs(backends, environments)
    matrix.check_baseline(baseline, runs)
    _check(devices)
    quick = quick and not thorough
    mode = PRESETS["thorough" if thorough else "quick" if quick else "default"]
    tasks = [_task(workload, given, quick) for given in parameters]
    candidates = [Candidate(t, b, d, environment=e) for t in tasks for d in devices for b, e in runs]
    shared: dict[str, Any] = {"threads": threads or cores(), "on_progress": on_progress, "opener": opener}
    how: dict[str, Any] = {"extent": mode.extent(processes, minutes), "effort": mode.effort, "seed": seed}
    session = Session(candidates, **how, **shared, limit=limit, baseline=baseline)
    asked = {"quick": quick, "thorough": thorough, "minutes": minutes, "devices": list(devices)}
    return kept(session, name, asked, store)


def kept(session: Session, name: str, asked: Mapping[str, Any], store: Store | None) -> Results:
    """Run a session and give its results, with the warnings that only all of them together show.

    ``asked`` are the settings that the session does not know itself. The results are kept in ``store``, if there is
    one, from the first round on. Raises `StoreError`.
    """
    if store is not None:
        session.store = store.create(session.results(name, **asked))
    try:
        session.run()
        results = session.results(name, **asked)
        settings = msgspec.structs.replace(results.settings, warnings=[*session.warnings, *_warnings(results)])
        results = msgspec.structs.replace(results, settings=settings)
        if session.store is not None:
            session.store.finish(results)
    finally:
        if session.store is not None:
            session.store.close()
    return results


def _warnings(results: Results) -> list[str]:
    drift = statistics.drift(results)
    warnings = [drift.warning] if drift is not None and drift.warning else []
    for pair in results.pairs:
        same = statistics.differs_from_itself(pair)
        if same is not None:
            warnings.append(
                f"{pair.workload} on {pair.backend} differs from itself by {abs(same.value - 1):.1%}, more than its "
                "processes spread: something else changed during the session; look for what it was and measure again"
            )
    return warnings


def _check(devices: Sequence[int]) -> None:
    if not devices or any(type(n) is not int or n < 1 for n in devices):
        raise ArgumentError(f"devices={devices!r}: whole numbers from 1 up are needed")


def _task(workload: str, given: Mapping[str, Any], quick: bool) -> Task:
    parameters = dict(given)
    if quick and "size" in workloads.get(workload).parameters:
        parameters.setdefault("size", QUICK_SIZE)
    return task(workload, **parameters)
