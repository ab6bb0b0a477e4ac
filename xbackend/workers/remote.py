"""A backend in another process, under the same contract: an adapter whose framework is a worker."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np

from xbackend import cores, environments
from xbackend.backends import registry, threads
from xbackend.backends.contract import Backend, Built, Executable, Settings, Value
from xbackend.backends.description import Description
from xbackend.devices import Device
from xbackend.environments import accelerators
from xbackend.errors import BackendUnavailable, EnvironmentFailed, WorkerError
from xbackend.program.serialization import to_json
from xbackend.workers.process import OWN_LIMIT, Launch, Reference, Start, WorkerProcess
from xbackend.workers.protocol import LIMIT

if TYPE_CHECKING:
    from xbackend.program.program import Program
    from xbackend.program.shared import SharedVariable


T = TypeVar("T")


class RemoteBackend(Backend):
    """A backend in its own worker process.

    ``process_start`` is the seconds until its process answered, ``framework_import`` those from then until its
    framework had started. ``cores`` are the cores that its process is pinned to, `None` for all.

    Functions are traced and bound here, where the user's lines are known. The placed program is sent as data. Values
    stay in the worker: here they are references, and a dropped reference frees its value.

    Args:
        name: a registered backend, with options or without.
        settings: devices and threads.
        requirement: the environment to use in place of the backend's own, such as ``pytensor==2.38.3``.
        python: the interpreter to use; that of the environment if not given.
        limit: seconds that one request may take, `None` for no limit.
        memory: limit of the worker's address space in bytes, `None` for none.
        environment: more environment variables for the worker; `None` removes one.
        modules: more top-level modules that the worker can import: name to file or package directory.
        label: added to its name in messages.
        start: starts its guard; by default as a child of this process.
        leaves: files on its machine that are removed when it has ended.
        turn: its number among processes side by side, from 0: if devices have cores, each process takes the next.

    Raises:
        BackendUnavailable: its environment is missing, or its framework cannot run here.
        EnvironmentFailed: the requirement names no environment for this backend.
        WorkerError: the process could not be started or ended early.
    """

    lowers = True  # its worker refuses

    def __init__(
        self,
        name: str,
        settings: Settings | None = None,
        *,
        requirement: str = "",
        python: str | Path | None = None,
        limit: float | None = LIMIT,
        memory: int | None = None,
        environment: Mapping[str, str | None] | None = None,
        modules: Mapping[str, str] | None = None,
        label: str = "",
        start: Start | None = None,
        leaves: Sequence[Path] = (),
        turn: int = 0,
    ) -> None:
        wanted = settings or Settings()
        each = wanted.cores_per_device
        self.cores = None if each is None else cores.pinned(wanted.virtual_devices, each, turn)
        said = ", ".join(filter(None, (label, requirement)))
        self._launch = Launch(
            f"backend {name!r} ({said})" if said else f"backend {name!r}",
            Path(python) if python is not None else _python(name, requirement),
            {**threads.environment(wanted.threads), **(environment or {})},
            {**(environment_of(name, requirement).modules if requirement else {}), **(modules or {})},
            memory,
            limit,
            self.cores,
            start,
            leaves,
        )
        entry = registry.get(name)
        super().__init__(entry.name, entry.settings(wanted))

    def start(self) -> Iterable[Device]:
        begun = time.perf_counter()
        self.worker = WorkerProcess(self._launch)
        answered = time.perf_counter()
        # For a backend that is dropped without a close.
        self._finalizer = weakref.finalize(self, self.worker.end)
        try:
            devices = self.begin()
        except BaseException:
            self.worker.end()
            raise
        self.process_start, self.framework_import = answered - begun, time.perf_counter() - answered
        return devices

    def begin(self) -> Iterable[Device]:
        """Start the framework in the worker."""
        devices: list[Device] = self.worker.request("start", self.name, self.settings)
        return devices

    def put(self, array: np.ndarray, device: Device) -> Value:
        return self.worker.request("put", array, device)

    def get(self, value: Value) -> np.ndarray:
        array: np.ndarray = self.worker.request("get", value)
        return array

    def put_all(self, arrays: Sequence[np.ndarray], devices: Sequence[Device]) -> list[Value]:
        return list(self.worker.request("put_all", list(arrays), list(devices)))

    def get_all(self, values: Iterable[Value]) -> list[np.ndarray]:
        return list(self.worker.request("get_all", list(values)))

    def device_of(self, value: Value) -> Device:
        device: Device = self.worker.request("device_of", value)
        return device

    def synchronize(self, values: Iterable[Value]) -> None:
        self.worker.request("synchronize", list(values))

    def build(self, program: Program) -> Built:
        built: Reference = self.worker.request("build", to_json(program, values=False))
        return Built(*(partial(_ask, built, of) for of in ("execute", "executed", "profile", "lowered")))

    def new_storage(self, variable: SharedVariable, array: np.ndarray, device: Device) -> Any:
        return self.worker.request("new_storage", variable.uid, variable.name, array, device)

    def read_storage(self, storage: Any) -> np.ndarray:
        array: np.ndarray = self.worker.request("get_value", storage)
        return array

    def write_storage(self, storage: Any, array: np.ndarray) -> None:
        self.worker.request("set_value", storage, array)

    def describe(self) -> Description:
        said: Description = typed(self.worker.request("describe"), Description)
        wheels = accelerators.of_interpreter(self._launch.python)
        return replace(said, notes={**said.notes, "wheels": wheels}) if wheels else said

    def compilations(self) -> dict[str, int]:
        return typed(self.worker.request("compilations"), dict[str, int])

    def memory_peaks(self) -> dict[str, int]:
        return typed(self.worker.request("memory_peaks"), dict[str, int])

    def shut(self) -> None:
        self.worker.close()

    def call(self, function: str, *arguments: object, limit: float | None = OWN_LIMIT) -> Any:
        """Run a function in the worker and return its result.

        Args:
            function: `module:name`, importable there: of xbackend, of its environment, or of `modules`. Its first
                argument is the hosted backend.
            arguments: plain data (text, numbers, `None`, lists, tuples, dictionaries, NumPy arrays), values of this
                backend, and its executables (there: `Built`). The result is plain data too. An object wrapped in
                `xbackend.workers.serving.Held` stays in the worker, and is returned as a value.
            limit: seconds, `None` for none; the backend's own if not given.

        Raises:
            XBackendError: the function's error; `WorkerError` if that is none of xbackend's.
        """
        self.check_open()
        return self.worker.request("call", function, [_argument(a) for a in arguments], limit=limit)


def typed(answer: Any, kind: type[T]) -> T:
    """A worker's plain answer, converted to ``kind``. Raises `WorkerError` if it does not fit."""
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise WorkerError(f"a worker answered what is no {kind.__name__}: {error}") from error


def _argument(argument: object) -> object:
    if isinstance(argument, Executable):
        return argument.built.execute.args[0]  # type: ignore[attr-defined]
    return argument


def _ask(built: Reference, operation: str, *values: Value) -> Any:
    return built.worker.request(operation, built, values)


def _python(name: str, requirement: str) -> Path:
    """The interpreter of the environment of a backend."""
    environment = environment_of(name, requirement or None)
    if environment.state != "ready":
        raise BackendUnavailable(
            f"backend {name!r} runs in environment {environment.name!r}, which is {environment.state}: "
            f"{environment.reason}"
        )
    return environment.python


def ready_environment(
    name: str, requirement: str | None = None, on_progress: Callable[[str], None] | None = None
) -> environments.Environment:
    """The environment of a backend (see `environment_of`), made first if it is missing. ``on_progress`` is called with
    lines of text meanwhile.

    Raises `EnvironmentFailed`.
    """
    found = environment_of(name, requirement)
    return found if found.state == "ready" else environments.sync(found.name, on_progress or (lambda _: None))


def environment_of(name: str, requirement: str | None = None) -> environments.Environment:
    """The environment of a backend: its own, or that of another version of its framework.

    Raises:
        EnvironmentFailed: there is no such environment, or it is of another framework.
    """
    own = registry.get(name).environment
    environment = environments.get(own if requirement is None else requirement)
    if environment.framework != own:
        raise EnvironmentFailed(
            f"backend {name!r} runs in environment {own!r} and versions of it, not in {environment.name!r}"
        )
    return environment
