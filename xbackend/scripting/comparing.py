"""``xb.compare`` and ``xb.load_results``: the session of the command ``xbackend compare``, in scripts and notebooks."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from xbackend import extras, workloads
from xbackend.devices import DeviceMap
from xbackend.errors import UsageError
from xbackend.habits import keywords
from xbackend.measure import candidates, matrix, session
from xbackend.measure.candidates import Case, of_file, seen_from
from xbackend.report.kinds import KINDS
from xbackend.results import FOLDER, kinds
from xbackend.results.runs import FILE, Store
from xbackend.results.schema import Outcomes, Results
from xbackend.scripting.compared import Compared
from xbackend.scripting.concluded import Concluded
from xbackend.scripting.progress import Beating, of_scripts
from xbackend.training.model import Model
from xbackend.training.workload import step_of
from xbackend.wording import listed
from xbackend.workloads.workload import Workload


def measured(
    cases: Sequence[Case],
    *,
    backends: Iterable[str] | None,
    environments: Sequence[str],
    baseline: str | None,
    on_progress: Callable[[str], None],
    **how: Any,
) -> Compared:
    """Make the environments, and measure the cases in a session; ``how`` are the other arguments of `session.compare`.

    Raises as `session.compare`.
    """
    unready = matrix.ready(matrix.runs(backends, environments), on_progress)
    results = session.compare(
        cases, backends=backends, environments=environments, baseline=baseline, unready=unready,
        on_progress=on_progress, **how,
    )  # fmt: skip
    return Compared(results, baseline)


@keywords
def compare(
    function: Callable[..., Any] | str,
    /,
    *arrays: Any,
    backends: Iterable[str] | str | None = None,
    environments: Iterable[str] | str = (),
    devices: Iterable[int | str] | int | str = (1,),
    devices_map: Mapping[str, Any] | str | None = None,
    quick: bool = False,
    thorough: bool = False,
    processes: int | None = None,
    minutes: float | None = None,
    limit: float = 600.0,
    wait: float | None = None,
    threads: int | None = None,
    cores_per_device: int | None = None,
    shared_cores: bool = False,
    seed: int = 0,
    baseline: str | None = None,
    allow_nan: bool = False,
    settings: Mapping[str, Any] | None = None,
    gradient: bool | None = None,
    reuse: bool = False,
    name: str | None = None,
    store: str | Path | None = FOLDER,
    on_progress: Callable[[str], None] | None = None,
) -> Compared:
    """Measure a function on backends, in fresh processes that take turns, as the command ``xbackend compare`` does.

    Args:
        function: a function of arrays, a workload or a model, or the name of a workload of xbackend.
        arrays: its arguments, of any shape, bool, uint8, uint32, int32, int64, float32 or float64; without any, a
            workload makes its own.
        backends, environments: names, or one text with commas; all backends if neither is given.
        devices: how many devices to spread over, one number or several, and of which kinds: ``(1, 2)``, ``"cpu,1,2"``.
        devices_map: what the devices of the program are bound to, ``{"dev0": "cpu:0"}``.
        quick, thorough, processes, minutes: how much is measured; see docs/measurement.md.
        limit: seconds that a process may take for one request. wait: seconds in all until others leave the cores alone.
        settings: keyword arguments of the function; for a workload without arrays each may have several values.
        gradient: `True`: the value with its gradient, `False`: the value, `None`: both.
        reuse: take rows from the store that an earlier session measured; they say so (docs/measurement.md).
        name: what the run is called, the function's name if not given.
        store: the folder that keeps the run; `None` keeps it nowhere.
        on_progress: gets a line of text whenever something begins that may last; else progress is shown.

    The other arguments are the command's options. Raises `UsageError`, `ArgumentError` and what tracing raises before
    anything is measured, `StoreError` where the run cannot be kept. After Ctrl-C the store has what was measured.

    >>> fast = {"quick": True, "processes": 1, "wait": 0.0}
    >>> found = xb.compare(lambda x: xb.sum(x * x), np.ones(8), backends="numpy", store=None, **fast)
    >>> [(row["backend"], row["status"]) for row in found.rows()]
    [('numpy', 'ok')]
    """
    runs = _names(backends), _names(environments) or []
    matrix.check_baseline(baseline, matrix.runs(*runs))
    with of_scripts(processes, on_progress) as (say, watch), Beating(say) as shown:
        cases = _cases(function, arrays, dict(settings or {}), quick=quick, seed=seed, gradient=gradient, say=shown)
        return measured(
            cases, backends=runs[0], environments=runs[1], devices=_devices(devices),
            devices_map=DeviceMap.parse(devices_map), quick=quick, thorough=thorough, processes=processes,
            minutes=minutes, limit=limit, wait=wait, threads=threads, cores_per_device=cores_per_device,
            shared_cores=shared_cores, seed=seed, baseline=baseline, allow_nan=allow_nan,
            name=name or cases[0].workload, store=None if store is None else Store(Path(store)), reuse=reuse,
            on_progress=shown, watch=shown.watched(watch),
        )  # fmt: skip


def load_results(
    path: str | Path = "latest", *, store: str | Path = FOLDER, baseline: str | None = None
) -> Compared | Concluded:
    """The stored results of a session, of a training or of a job on a cluster.

    ``path`` is the folder of a report or the file in it (``results.json.gz``, ``training.json.gz``,
    ``cluster.json.gz``), a folder of runs, of which the newest is read, or a run of ``store`` as the commands name it:
    its name or the beginning of it, ``latest``, ``latest~1``, or what ``name=`` called it. Of a folder with several
    files the first of these is read. Raises `StoreError` where there is none or it is damaged, `UsageError` for a
    baseline that was not measured, and for that of a training or a job.

    >>> found = xb.load_results("reports/matpow-devices")
    >>> sorted({row["devices"] for row in found.rows()})
    [1, 2]
    >>> xb.load_results("reports/digits").rows()[0]["strategy"]
    'one'
    """
    extras.need("xb.load_results")
    if not isinstance(path, str | os.PathLike):
        raise UsageError(f"xb.load_results takes a folder, a file or the name of a run, not {path!r:.60}")
    if (Path(path) / FILE).is_file():
        path, store = "latest", path
    there = [file for kind in KINDS if (file := Path(path) / kind.file).is_file()]
    if not there and not Path(path).is_file():
        return Compared(Store(Path(store)).load(str(path)), baseline)
    found = kinds.read(there[0] if there else Path(path))
    if isinstance(found, Results):
        return Compared(found, baseline)
    if baseline is not None:
        raise UsageError(f"baseline={baseline!r:.40}: {path} compares no times; leave it out")
    assert isinstance(found, Outcomes)  # there is no third kind
    return Concluded(found)


def _names(given: Iterable[str] | str | None) -> list[str] | None:
    return None if given is None else listed(given) if isinstance(given, str) else list(given)


def _devices(given: Iterable[int | str] | int | str) -> Sequence[int | str]:
    if isinstance(given, str):
        return [int(word) if word.isdecimal() else word for word in listed(given)]
    return [given] if isinstance(given, int) else list(given)


def _cases(
    function: Callable[..., Any] | str,
    arrays: Sequence[Any],
    settings: dict[str, Any],
    *,
    quick: bool,
    seed: int,
    gradient: bool | None,
    say: Callable[[str], None],
) -> list[Case]:
    """The cases that the command has of the same target. Raises `UsageError`, and what `candidates.given` raises."""
    extras.need("xb.compare")
    found = workloads.get(function) if isinstance(function, str) else function
    found = step_of(found) if isinstance(found, Model) else found
    if not callable(found):
        raise UsageError(f"xb.compare measures a function, or a workload by its name, not {found!r:.60}")
    own = isinstance(found, Workload)
    workload = found if isinstance(found, Workload) else Workload(found, name=_called(found))
    if gradient and not workload.gradient:
        raise UsageError(f"{workload.name} has no gradient: write @xb.workload(gradient=...) above it")
    if arrays or not own or workload.made_by is None:
        derived = candidates.derivatives(workload, gradient)
        made = [candidates.given(workload, arrays, settings, gradient=one) for one in derived]
    else:
        asked = {key: list(v) if isinstance(v, list | tuple) else [v] for key, v in settings.items()}
        each = [(workload, workload.combinations(asked, quick))]
        made = session.cases_of(each, seed=seed, gradient=gradient, on_progress=say)
    file = "" if isinstance(function, str) else _file(workload.function)
    return [of_file(one, file) for one in made] if file else made


def _called(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", "")
    return name if name.isidentifier() else "function"


def _file(function: Callable[..., Any]) -> str:
    """The file of a function as the command names it; empty for one of a prompt or a notebook."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    path = Path(code.co_filename) if code is not None else Path()
    return seen_from(Path(), path) if path.is_file() else ""
