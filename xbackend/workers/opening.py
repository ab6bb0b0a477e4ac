"""`xbackend.open`: a backend by its name, in this interpreter or in a worker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec

from xbackend.backends import registry
from xbackend.backends.contract import Backend, Settings
from xbackend.backends.registry import Entry
from xbackend.devices import Device
from xbackend.errors import ArgumentError, BackendUnavailable
from xbackend.habits import keywords
from xbackend.workers.protocol import LIMIT

# Packages that starting a worker needs beside NumPy.
_FOR_WORKERS = ("filelock", "packaging", "platformdirs")
# The first exclusive framework opened in this interpreter excludes others.
_here: dict[str, Settings] = {}  # environment -> the settings of its framework in this process


@keywords
def open(
    name: str,
    *,
    virtual_devices: int = 1,
    visible: str | Device | Iterable[str | Device] | None = None,
    threads: int | None = None,
    cores_per_device: int | None = None,
    isolated: bool = False,
    lower_for: str | Device | Iterable[str | Device] | None = None,
    environment: str | None = None,
    limit: float | None = LIMIT,
    memory: int | None = None,
    on_progress: Callable[[str], None] | None = None,
) -> Backend:
    """Open a backend; use it in a `with` statement or close it.

    It runs in this interpreter if its packages can be imported here, unless another framework, or the same one with
    other settings, was opened here before. Otherwise it runs in a worker process with its own environment, which is
    made first if it is missing (minutes, once).

    Args:
        name: one of `xbackend.backends.registry.names()`, some with options: ``pytensor-jax[rewrites=merge]``.
        virtual_devices: how many CPU devices to make of the physical one.
        visible: the devices to use, in any spelling: one, several with commas between, or a list; all if not given.
        threads: how many threads to compute with; the framework's own choice if not given.
        cores_per_device: how many processor cores a CPU device has. It computes with so many threads, in a worker
            pinned to so many cores for each of the ``virtual_devices``. If not given, devices share the cores. With one
            pool of threads for all devices, some use those of waiting ones: note ``cores`` of ``backend.describe()``.
        isolated: always use a worker.
        lower_for: devices that this machine lacks, as ``gpu:0``: programs are only lowered for them (docs/gpus.md).
        environment: run with another version of the framework, such as ``pytensor==2.38.3``, in a worker.
        limit: seconds that the worker may take for one request, `None` for no limit.
        memory: limit of the worker's address space in bytes; asks for a worker.
        on_progress: called with lines of text while an environment is made; written to the error output if not given.

    Raises:
        UnknownBackend, BackendUnavailable, DeviceUnavailable, ArgumentError, EnvironmentFailed, WorkerError.

    >>> with xb.open("numpy", virtual_devices=2) as opened:
    ...     run = opened.compile(lambda x: x + 1.0, np.ones(2))
    ...     print(run(np.ones(2)), [str(device) for device in opened.devices])
    [2. 2.] ['cpu:0', 'cpu:1']
    """
    entry = registry.get(name)
    seen, absent = _devices("visible", visible), _devices("lower_for", lower_for) or ()
    settings = Settings(virtual_devices, seen, threads, cores_per_device=cores_per_device, lower_for=absent)
    asked_for = isolated or any(asked is not None for asked in (environment, memory, cores_per_device))
    why_not_here = "a worker was asked for" if asked_for else _why_not_here(entry, settings)
    if not why_not_here:
        backend = entry.load(settings)
        if entry.exclusive:
            _here[entry.environment] = settings
        return backend
    lacking = [package for package in _FOR_WORKERS if find_spec(package) is None]
    if lacking:
        raise BackendUnavailable(
            f"backend {name!r} cannot be opened here: {why_not_here}, and a worker of its own takes "
            f"{', '.join(lacking)}, which {sys.executable} lacks (xbackend's own environments hold a framework only): "
            "run this with the Python that xbackend was installed in"
        )
    from xbackend.workers.remote import RemoteBackend, ready_environment

    used = ready_environment(name, environment, on_progress or _say)
    requirement = "" if used.name == entry.environment else used.name
    return RemoteBackend(name, settings, requirement=requirement, limit=limit, memory=memory)


def _devices(option: str, given: str | Device | Iterable[str | Device] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    named = given.split(",") if isinstance(given, str) else [given] if isinstance(given, Device) else given
    if not isinstance(named, Iterable) or not (devices := tuple(str(Device.parse(device)) for device in named)):
        raise ArgumentError(f"{option}={given!r} names no device: give 'cpu:0', or a list of devices, or leave it out")
    return devices


def _why_not_here(entry: Entry, settings: Settings) -> str:
    """Why a backend cannot run in this interpreter; empty if it can."""
    missing = [package for package in entry.packages if find_spec(package) is None]
    if missing:
        return f"{', '.join(missing)} cannot be imported"
    if entry.exclusive and _here and _here != {entry.environment: settings}:
        return f"{next(iter(_here))} was opened in this interpreter before"
    return ""


def _say(message: str) -> None:
    print(f"xbackend: {message}", file=sys.stderr, flush=True)
