"""The matrix of a comparison: which backends run in which environments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from xbackend import environments as rooms
from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.devices import visible_of
from xbackend.errors import ArgumentError, BackendUnavailable, EnvironmentFailed, XBackendError
from xbackend.results import naming
from xbackend.wording import grouped, join, placed
from xbackend.workers.remote import RemoteBackend

# A backend and what its environment is called: '' for the locked one, or 'pytensor==2.38.3'.
BackendChoice = tuple[str, str]


def runs(backends: Iterable[str] | None, environments: Sequence[str] = ()) -> list[BackendChoice]:
    """Every backend with every environment that it shall run in.

    Without environments each backend runs in its locked one. With some, only the backends of their frameworks run, in
    each of them. Named backends always run: in the environments of their framework, else in the locked one, so that
    another framework can be the baseline.

    Args:
        backends: names, `None` for all that there is an environment for.
        environments: names of environments, such as ``pytensor==2.38.3``, or ``pytensor`` for the locked one.

    Raises:
        UnknownBackend, EnvironmentFailed: there is no such backend or environment, or others can write to the folder of
            environments.
        ArgumentError: no backend is named, or an environment is for none of them.
    """
    rooms.directory()  # before anything is computed or waited for
    each = map(rooms.get, dict.fromkeys(environments))
    wanted = grouped((one.framework, "" if one.name == rooms.get(one.framework).name else one.name) for one in each)
    if backends is not None and not (backends := list(backends)):
        raise ArgumentError(f"no backend is named: there is {', '.join(registry.names())}; None is all of them")
    entries = [registry.get(b) for b in dict.fromkeys(registry.names() if backends is None else backends)]
    chosen: list[BackendChoice] = []
    for entry in entries:
        default = [] if backends is None and wanted else [""]
        chosen += [(entry.name, environment) for environment in dict.fromkeys(wanted.get(entry.environment, default))]
    idle = sorted(set(wanted) - {entry.environment for entry in entries})
    if idle:
        raise ArgumentError(
            f"none of the backends {', '.join(e.name for e in entries)} runs in an environment of {', '.join(idle)}: "
            "name one that does, or leave the environment out"
        )
    return chosen


def ready(runs: Iterable[BackendChoice], on_progress: Callable[[str], None]) -> dict[BackendChoice, str]:
    """Make the environments of the runs; returns the reasons of those that failed, by run.

    Raises `EnvironmentFailed` where others can write to their folder.
    """
    rooms.directory()
    names = {run: run[1] or registry.get(run[0]).environment for run in runs}
    failures = {}
    for name, place in placed(dict.fromkeys(names.values())):
        try:
            rooms.sync(name, on_progress=lambda text, place=place: on_progress(f"{text}{place}"))  # type: ignore[misc]
        except XBackendError as error:
            failures[name] = str(error)
    return {run: failures[name] for run, name in names.items() if name in failures}


def opened(
    run: BackendChoice, failures: Mapping[BackendChoice, str], devices: int = 1, kinds: Sequence[str] = ()
) -> RemoteBackend:
    """The backend of a run in a process of its own, with so many virtual devices, which are of these kinds, if any.

    Raises `BackendUnavailable` where its environment is one of the ``failures``, and what `RemoteBackend` raises.
    """
    if run in failures:
        raise BackendUnavailable(failures[run])
    settings = Settings(virtual_devices=devices, visible=visible_of(kinds, devices))
    return RemoteBackend(run[0], settings, requirement=run[1])


def check_baseline(name: str | None, chosen: Iterable[BackendChoice]) -> None:
    """Raises `ArgumentError`, which lists all that is measured, where the baseline is not among it."""
    there = list(dict.fromkeys(n for run in chosen for n in naming.names(*run)))
    if name is not None and name not in there:
        raise ArgumentError(f"the baseline {name!r} is not among what is measured; there is {', '.join(there)}")


def unlocked(backend: str, environment: str) -> list[str]:
    """A warning where an environment is the user's own interpreter with other versions than the locked ones."""
    installed = rooms.get(environment).installed if environment else None
    if installed is None or not installed.unlocked:
        return []
    own = tuple(f"{package} " for package in ("numpy", *registry.get(backend).packages))
    named = [version for version in installed.unlocked if version.startswith(own)] or installed.unlocked[:1]
    more = len(installed.unlocked) - len(named)
    beside = f", and {more} more of its packages" if more else ""
    return [f"it ran in an interpreter that has other versions than are locked: {join(named)}{beside}"]


def versions(backend: str, environment: str) -> dict[str, str]:
    """The packages of a backend's environment; none where that is missing."""
    try:
        return rooms.get(environment or registry.get(backend).environment).versions()
    except EnvironmentFailed:  # the row's status says so, with the reason
        return {}


def own_versions(backend: str, environment: str) -> dict[str, str]:
    """The versions of NumPy and of the framework itself."""
    own = {"numpy", *registry.get(backend).packages}
    return {package: version for package, version in versions(backend, environment).items() if package in own}
