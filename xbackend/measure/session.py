"""A session: candidates measured in generations of fresh processes, and their results.

from xbackend.measure import candidates, session

cases = [candidates.case("matpow", size=512)]
results = session.compare(cases, backends=["numpy", "pytensor"], devices=(1, 2))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from types import MappingProxyType
from typing import Any

from xbackend import cores
from xbackend.devices import DeviceMap, numbers_and_kinds
from xbackend.errors import UsageError, XBackendError
from xbackend.measure import candidates, machine, matrix
from xbackend.measure.candidates import Candidate, Case, said
from xbackend.measure.matrix import BackendChoice
from xbackend.measure.plan import PRESETS
from xbackend.measure.reuse import reused
from xbackend.measure.runner import Session
from xbackend.results import naming
from xbackend.results.naming import GRADIENT
from xbackend.results.runs import Store
from xbackend.results.schema import Results
from xbackend.wording import counted, placed
from xbackend.workloads.workload import Workload

GuardFor = Callable[[str], AbstractContextManager[None]]  # around the user's own code, named by what it is


def compare(
    cases: Sequence[Case],
    *,
    backends: Iterable[str] | None = None,
    environments: Sequence[str] = (),
    devices: Sequence[int | str] = (1,),
    devices_map: DeviceMap | None = None,
    quick: bool = True,
    thorough: bool = False,
    processes: int | None = None,
    minutes: float | None = None,
    baseline: str | None = None,
    threads: int | None = None,
    cores_per_device: int | None = None,
    shared_cores: bool = False,
    seed: int = 0,
    unready: Mapping[BackendChoice, str] = MappingProxyType({}),
    name: str = "compare",
    store: Store | None = None,
    partial: bool = False,
    reuse: bool = False,
    **of_session: Any,
) -> Results:
    """Measure cases.

    Args:
        backends: names of backends, `None` for all.
        environments: of several versions of a framework, such as ``pytensor==2.38.3``; see `matrix.runs`.
        devices: for each number, a process with so many devices, of the kinds named among them, else accelerators
            where a backend has some; ``devices_map``: the bindings of device names.
        quick: fewer visits of each process, in less time; compiled code stays for later quick sessions. With or without
            it a candidate has up to 10 processes.
        thorough: 10 processes, and more until times are known to 2 % or ``minutes`` are used up; ``quick`` is ignored.
        processes: so many of each; with ``thorough`` the fewest.
        minutes: after which no more processes are begun; 60 if ``thorough``, 1.5 if ``quick``, else 5.
        threads, cores_per_device, shared_cores: see `cores_each`; as many threads as cores if nothing is given.
        baseline: the backend or environment that ratios are taken to; numpy if not given.
        unready: reasons of runs whose environment cannot be used (`matrix.ready`): rows without a process.
        name, store, partial: what the results are called, and where they are kept; see `kept`.
        reuse: rows of the same program, arrays, versions, machine and options are taken from the store, not measured.
        of_session: ``limit``, ``wait``, ``allow_nan``, ``on_progress``... as `Session` has them.

    Raises:
        UnknownBackend, EnvironmentFailed, WorkloadError, ArgumentError, UsageError: before anything is measured.
        StoreError: what was measured cannot be kept.
    """
    matrix.check_baseline(baseline, runs := matrix.runs(backends, environments))
    mode = PRESETS["thorough" if thorough else "quick" if (quick := quick and not thorough) else "default"]
    cases = [one.bound(devices_map) for one in cases] if devices_map else cases
    numbers, kinds = numbers_and_kinds(devices)
    each = cores_each(max(numbers), threads, cores_per_device, shared_cores, kinds)
    session = Session(
        _candidates(cases, numbers, runs, unready), threads=each or threads or cores.count(), cores_per_device=each,
        extent=mode.extent(processes, minutes, sum(not one.refused for one in cases)), seed=seed, effort=mode.effort,
        baseline=baseline, kinds=kinds, **of_session,
    )  # fmt: skip
    if reuse and store is not None:
        session.take(reused(session, store))
    asked = {"quick": quick, "thorough": thorough, "minutes": minutes, "devices": numbers}
    return kept(session, name, asked, store, partial)


def cores_each(
    devices: int, threads: int | None, asked: int | None, shared: bool, kinds: Sequence[str] = ()
) -> int | None:
    """The number of cores of a CPU device, to which its process is pinned; `None` where devices share all cores.

    It is ``asked``, if given. Else, with several devices and no accelerator, or of the ``kinds`` CPU alone, it is all
    cores over the largest number of devices, unless they are ``shared``. Each device has as many ``threads``. Raises
    `UsageError`, `DeviceUnavailable`.
    """
    if shared and asked is not None:
        raise UsageError("--shared-cores and --cores-per-device ask for opposite things: give one of them")
    accelerated = kinds != ["cpu"] if kinds else bool(machine.accelerators())
    if asked is None and (shared or devices == 1 or accelerated):
        return None
    each = max(1, cores.count() // devices) if asked is None else asked
    cores.pinned(devices, each)  # before anything is measured
    if threads not in (None, each):
        raise UsageError(
            f"--threads {threads} does not go with devices of {counted(each, 'core')}: a device computes with as many "
            "threads as it has cores; leave --threads out, or give --shared-cores for devices that share all cores"
        )
    return each


def kept(session: Session, name: str, asked: Mapping[str, Any], store: Store | None, partial: bool = False) -> Results:
    """Run a session and give its results.

    Ctrl-C ends it, and the results so far are kept. With ``partial``, and a time in them, they are returned, not
    ``complete``; else it is raised again.

    ``asked`` are the settings that the session does not know itself. The results are kept in ``store``, if there is
    one, from the first round on. Raises `StoreError`.
    """
    with ExitStack() as stack:
        if store is not None:
            session.store = store.create(session.results(name, **asked))
            stack.callback(session.store.close)
        session.run()
        results = session.results(name, **asked)
        if session.store is not None:
            session.store.finish(results)
    if session.interrupted and not (partial and any(row.processes for row in results.measurements)):
        raise KeyboardInterrupt
    return results


def _candidates(
    cases: Sequence[Case], devices: Sequence[int], runs: Sequence[BackendChoice], unready: Mapping[BackendChoice, str]
) -> list[Candidate]:
    every = [(one, b, d, e) for one in cases for d in devices for b, e in runs]
    found = [Candidate(one, b, d, environment=e, warnings=matrix.unlocked(b, e)) for one, b, d, e in every]
    for candidate in found:
        why = unready.get((candidate.backend, candidate.environment))
        if why is not None and candidate.status == "ok":
            candidate.fail("missing", why)
    return found


def cases_of(
    chosen: Iterable[tuple[Workload, Iterable[Mapping[str, Any]]]],
    *,
    seed: int = 0,
    gradient: bool | None = None,
    guard: GuardFor = lambda _: nullcontext(),
    on_progress: Callable[[str], None] = lambda _: None,
) -> list[Case]:
    """The cases of workloads, each with its parameters: the value and, if the workload has a gradient, the value with
    it; ``gradient`` selects one of the two.

    A case that cannot be measured is refused with its reason. Raises `XBackendError` where all of them are; ``guard``
    turns the errors of the user's own code into one.
    """
    made, errors = list[Case](), list[XBackendError]()
    for (workload, parameters), place in placed((one, each) for one, combinations in chosen for each in combinations):
        for derived in candidates.derivatives(workload, gradient):
            name = workload.name + (GRADIENT if derived else "")
            on_progress(f"inputs and oracle of {naming.described(name, parameters)}{place}")
            try:
                with guard(f"workload {naming.described(name, parameters)}"):
                    made.append(candidates.made(workload, parameters, gradient=derived, seed=seed))
            except XBackendError as error:
                errors.append(error)
                known = said({**workload.known, **parameters})
                made.append(Case(workload=name, parameters=known, refused=str(error)))
    if errors and len(errors) == len(made):
        raise errors[0]
    return made
