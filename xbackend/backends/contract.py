"""The contract between a backend's users (`Backend`, `Executable`) and adapters, subclasses of `Backend`. A *value* is
the framework's own array, resident on a device; only `put` and `get` cross to and from the host."""

from __future__ import annotations

import abc
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self
from weakref import WeakSet

import numpy as np

from xbackend.api.tracing.trace import trace
from xbackend.backends.description import Description
from xbackend.backends.lowered import Lowered, LoweringReport
from xbackend.backends.own_cache import OwnCache
from xbackend.backends.placement import Execution, Placement, ProfiledCall, merge
from xbackend.backends.storages import Cell, Storages, alone
from xbackend.devices import Device, DeviceMap, default_device
from xbackend.errors import (
    ArgumentError,
    BackendClosed,
    BackendUnavailable,
    ComputationError,
    SharedVariableError,
    UnsupportedOperation,
    XBackendError,
)
from xbackend.program import peak_memory
from xbackend.program.binding import Placed, bind
from xbackend.program.host import check_plain, native
from xbackend.program.program import Program
from xbackend.program.shared import SharedVariable
from xbackend.program.structure import unflatten

if TYPE_CHECKING:
    from xbackend.eager.namespace import Namespace

Value = Any


def _host(array: Any, what: str) -> np.ndarray:
    check_plain(array, what)
    try:
        return native(np.asarray(array))
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"{what} was given {array!r:.60}, which is no array: {error}") from None


_OF_AN_OPEN_ONE = (
    *("put", "get", "put_all", "get_all", "device_of", "synchronize"),
    *("describe", "compilations", "memory_peaks", "rewriting"),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings fixed when a framework starts; its process cannot change them later.

    ``virtual_devices``: the number of CPU devices made from the physical one. ``visible``: the devices to use, `None`
    for all. ``threads``: the number of threads of the framework and its BLAS, `None` for their own choice.
    ``cores_per_device``: the threads of each CPU device, and the cores for each device that the process is pinned to;
    `None` for devices that share the cores. A framework with one thread pool for all devices of a process cannot keep
    to it: the note ``cores`` of `Description` says so. ``options``: the options in brackets of the backend's name, as
    ``{"rewrites": "merge"}``. ``own_cache``: the only cache of compiled code on disk is the process's own,
    `Backend.cache`, which is empty at first. ``lower_for``: devices that this machine lacks, as ``gpu:0``. Programs are
    then lowered for them and for the CPU devices, and none is executed.
    """

    virtual_devices: int = 1
    visible: tuple[str, ...] | None = None
    threads: int | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    cores_per_device: int | None = None
    own_cache: bool = False
    lower_for: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("virtual_devices", "threads", "cores_per_device"):
            number = getattr(self, name)
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
                raise ArgumentError(f"{name}={number!r}: a whole number from 1 up is needed")
        if wrong := [name for name in self.lower_for if not Device.parse(name).is_accelerator]:
            raise ArgumentError(
                f"lower_for names {', '.join(wrong)}: name accelerators, virtual_devices makes CPU devices"
            )
        if len(set(map(Device.parse, self.lower_for))) < len(self.lower_for):
            raise ArgumentError(f"lower_for={', '.join(self.lower_for)} names a device twice")
        if self.cores_per_device is None:
            return
        if self.threads not in (None, self.cores_per_device):
            raise ArgumentError(
                f"threads={self.threads} and cores_per_device={self.cores_per_device}: a device computes with as many "
                "threads as it has cores; give one of them"
            )
        object.__setattr__(self, "threads", self.cores_per_device)


@dataclass(frozen=True, slots=True)
class Ledger:
    """Seconds of each phase of an executable; `None` for a phase that has not happened. ``lower``: binding, the
    framework's graph, and compilation before the first call. ``first_call``: the first execution, with compilation on
    demand."""

    trace: float | None = None
    lower: float | None = None
    first_call: float | None = None

    def __str__(self) -> str:
        phases = [f"{k} {v * 1e3:.1f} ms" for k, v in asdict(self).items() if v is not None]
        return ", ".join(phases) or "nothing yet"


def _unprofiled(*values: Value) -> ProfiledCall:
    raise UnsupportedOperation("this backend does not tell what its devices did when")


def _compiled() -> LoweringReport:
    raise UnsupportedOperation(
        "this program was compiled: open the backend with lower_for to read what it is lowered to"
    )


@dataclass(slots=True)
class Built:
    """A program compiled by an adapter.

    ``execute(*values)`` takes one value for each input of the program, each on the device of its input node. It returns
    the values of the outputs in their order, possibly before they are computed, and applies the updates. It is the
    framework's innermost callable and checks nothing. Later calls never overwrite an output, and no call changes an
    input. ``executed`` reads from the framework on which device each node of the placed program ran and which transfers
    were made; some frameworks know it only after an execution. ``profile`` executes once more, slower, and returns the
    timeline of each device. ``lowered`` reads the lowered program of a backend with `Settings.lower_for`, where
    ``execute`` and ``profile`` raise `DeviceUnavailable`.
    """

    execute: Callable[..., Sequence[Value]]
    executed: Callable[[], Execution]
    profile: Callable[..., ProfiledCall] = _unprofiled
    lowered: Callable[[], LoweringReport] = _compiled


class Backend(abc.ABC):
    """One framework in one mode, with its devices and their state. Made by `xbackend.open`; a context manager.

    >>> with xb.open("numpy", virtual_devices=2) as opened:
    ...     print(opened.name, [str(device) for device in opened.devices], opened.default_device)
    ...     weights = xb.shared(np.zeros(2), "weights")
    ...     run = opened.compile(lambda x: xb.update(weights, weights + x), np.ones(2))
    ...     _ = run(np.ones(2))
    ...     print(opened.get_value(weights))
    ...     opened.set_value(weights, np.asarray([5.0, 6.0]))
    ...     print(opened.namespace.sum(opened.namespace.ones(3)))
    ...     print("numpy" in opened.describe().versions)
    ...     opened.synchronize(run.execute(*run.put(np.ones(2))))
    numpy ['cpu:0', 'cpu:1'] cpu:0
    [1. 1.]
    array(3., dtype=float64, device=cpu:0)
    True
    >>> opened.close()  # the with statement did it; again is no error
    """

    # xbackend's additions to the framework and replacements in it: a note of `Description`, reported beside seconds.
    added: tuple[str, ...] = ()

    # With ``own_cache``: the cache of compiled code on disk; `None` where the framework has none.
    cache: OwnCache | None = None

    lowers: ClassVar[bool] = False  # whether `Settings.lower_for` is supported

    common_pool: str = ""  # the library with one thread pool for all CPU devices; empty if each keeps to its cores

    engine: Any = None  # joins its process with others: `xbackend.engines.contract`

    name: str
    devices: tuple[Device, ...]

    def __init__(self, name: str, settings: Settings | None = None) -> None:
        self.name = name
        self.settings = settings or Settings()
        if self.settings.lower_for and not self.lowers:
            raise BackendUnavailable(
                f"backend {name} lowers no program for devices that are not there: leave lower_for out, or take one "
                "that does (docs/gpus.md)"
            )
        self._closed = False
        self._storages = Storages()
        self._compiled = WeakSet[Executable]()
        self.lock = threading.RLock()  # docs/threads.md says which calls several threads may make
        self.devices = tuple(self.start())

    # The adapter's part.

    @abc.abstractmethod
    def start(self) -> Iterable[Device]:
        """Import the framework, apply ``self.settings``, return the visible devices. Raises `BackendUnavailable` if it
        cannot run here, `DeviceUnavailable` for missing devices."""

    @abc.abstractmethod
    def put(self, array: np.ndarray, device: Device) -> Value:
        """A copy of the array as a value on the device (never a view of the caller's memory), in any byte order."""

    @abc.abstractmethod
    def get(self, value: Value) -> np.ndarray:
        """A copy of the value on the host, waiting for it if need be."""

    def put_all(self, arrays: Sequence[np.ndarray], devices: Sequence[Device]) -> list[Value]:
        """`put` for several arrays."""
        return [self.put(array, device) for array, device in zip(arrays, devices, strict=True)]

    def get_all(self, values: Iterable[Value]) -> list[np.ndarray]:
        """`get` for several values."""
        return [self.get(value) for value in values]

    @abc.abstractmethod
    def device_of(self, value: Value) -> Device:
        """The device of the value, read from the framework."""

    @abc.abstractmethod
    def synchronize(self, values: Iterable[Value]) -> None:
        """Return when the values are computed, without copying them to the host."""

    @abc.abstractmethod
    def build(self, program: Program) -> Built:
        """Lower and compile a placed program, with ``self.storage(variable)`` for each shared variable, for
        ``self.devices``. Raises `UnsupportedOperation`."""

    @abc.abstractmethod
    def compilations(self) -> dict[str, int]:
        """The number of compilations in this process so far, by the compiler's name; empty if there is none."""

    def rewriting(self) -> tuple[float, int] | None:
        """The seconds of the framework's graph rewrites so far, and the number of variables replaced; `None`: not
        reported."""
        return None

    def memory_peaks(self) -> dict[str, int]:
        """The peak memory in bytes since this process began, by the device's name; empty where it is not reported."""
        return {}

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether an error of the framework means that memory is exhausted."""
        said = ("CUDA_ERROR_OUT_OF_MEMORY", "Status: out of memory")  # the driver's word, and the runtime's
        return isinstance(error, MemoryError) or any(word in str(error) for word in said)

    def is_of_driver(self, error: BaseException) -> bool:
        """Whether an error comes from a GPU's driver. After it this process may be unable to compute on GPUs:
        https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html"""
        return "CUDA_ERROR_" in str(error) and not self.is_out_of_memory(error)

    def refused(self, error: BaseException) -> BaseException:
        """The error to raise for the framework's error in an execution. NumPy, SciPy and Numba refuse numbers by
        `LinAlgError` and `ValueError`, which become `ComputationError`; others stay."""
        if isinstance(error, np.linalg.LinAlgError | ValueError) and not isinstance(error, XBackendError):
            return self.no_result(f"{type(error).__name__}: {error}")
        return error

    def no_result(self, said: str) -> ComputationError:
        """The error to raise where an op has no result for its operands."""
        return ComputationError(
            f"backend {self.name} has no result for these numbers: {said}; what each framework does with singular "
            "matrices and the like is in docs/linear_algebra.md"
        )

    # The storage of shared variables: a cell with a value, unless the framework has its own kind.

    def new_storage(self, variable: SharedVariable, array: np.ndarray, device: Device) -> Any:
        """The storage of a shared variable, holding a copy of the array, on the device."""
        return Cell(self.put(array, device), device)

    def read_storage(self, storage: Any) -> np.ndarray:
        """A copy of the content of a storage."""
        return self.get(storage.value)

    def write_storage(self, storage: Any, array: np.ndarray) -> None:
        """Replace the content of a storage by a copy of the array (same shape and dtype)."""
        storage.value = self.put(array, storage.device)

    @abc.abstractmethod
    def describe(self) -> Description:
        """The framework, its devices and settings, read back from it."""

    def shut(self) -> None:
        """Free the adapter's resources. Called once, by `close`."""

    # Common to all backends.

    def note_on_cores(self) -> dict[str, str]:
        """The note ``cores`` of a `Description`, for devices that do not keep to ``cores_per_device``."""
        said = (
            f"{self.common_pool} shares its threads among all CPU devices of a process: a device that computes alone "
            "may use the cores of the others"
        )
        return {"cores": said} if self.settings.cores_per_device and len(self.devices) > 1 and self.common_pool else {}

    def needed(self, module: str) -> ModuleType:
        """Import a module that the backend needs. Raises `BackendUnavailable`."""
        try:
            return import_module(module)
        except Exception as error:  # a broken installation fails in many ways
            package = module.partition(".")[0]
            raise BackendUnavailable(
                f"backend {self.name} needs {package}, which cannot be imported: {type(error).__name__}: {error}; "
                f"pip install {package}"
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        state = "closed" if self._closed else ", ".join(map(str, self.devices))
        return f"<backend {self.name}: {state}>"

    @property
    def default_device(self) -> Device:
        """The lowest-numbered accelerator, else cpu:0."""
        return default_device(self.devices)

    @cached_property
    def namespace(self) -> Namespace:
        """The Array API namespace of this backend, which executes eagerly (docs/namespace.md)."""
        from xbackend.eager.namespace import Namespace

        return Namespace(self)

    def close(self) -> None:
        """End the backend; its executables and values are no longer usable. May be called again."""
        if not self._closed:
            self._closed = True
            self._storages.clear()
            self.shut()
            # Not by a check in adapters and `Executable.execute`: it would cost every call.
            for name in _OF_AN_OPEN_ONE:
                setattr(self, name, self._was_closed)
            for run in self._compiled:
                run.execute = self._was_closed

    def _was_closed(self, *_: object) -> NoReturn:
        raise BackendClosed(f"backend {self.name} was closed; open it again with xb.open({self.name!r})")

    def check_open(self) -> None:
        """Raises `BackendClosed`."""
        if self._closed:
            self._was_closed()

    def compile(
        self,
        function: Callable[..., Any] | Program,
        *arguments: Any,
        devices: Mapping[str, Any] | str | DeviceMap | None = None,
        placement: str = "strict",
        device_memory: int | None = None,
        **static: Any,
    ) -> Executable:
        """Trace the function with the example arguments (or take a `Program`), bind its devices, compile it.

        ``devices`` binds the program's logical names, ``{"dev0": "cpu:0"}``. ``placement`` is ``strict`` or ``soft``.
        An op on another device than asked is shown if soft; if strict, it raises `PlacementError` as soon as that is
        known, at the latest after the first call. ``device_memory`` limits the bytes of the program's arrays on each
        device at once, by `xbackend.program.peak_memory`. Keyword arguments go to the function as they are. Raises what
        `xbackend.trace` raises, `DeviceUnavailable`, `UnboundDevice`, `DeviceMemoryError`, `UnsupportedOperation`,
        `BackendClosed`.
        """
        self.check_open()
        if placement not in ("strict", "soft"):
            raise ArgumentError(f"placement={placement!r}: it is 'strict' or 'soft'")
        tracing = None
        if isinstance(function, Program):
            if arguments or static:
                raise ArgumentError("a program is already traced: compile it without arguments")
            program = function
        else:
            start = time.perf_counter()
            program = trace(function, *arguments, **static)
            tracing = time.perf_counter() - start
        start = time.perf_counter()
        placed = bind(program, DeviceMap.parse(devices), self.devices, self.default_device)
        if device_memory is not None:
            peak_memory.check(placed.program, device_memory)
        with self.lock:
            for node, variable in placed.program.shared.items():
                self.ensure_storage(variable, placed.devices[node])
            built = self.build(placed.program)
        ledger = Ledger(tracing, time.perf_counter() - start)
        made = Executable(self, placed, built, ledger, strict=placement == "strict")
        self._compiled.add(made)
        return made

    def ensure_storage(self, variable: SharedVariable, device: Device) -> None:
        """Make the variable's storage on the device if there is none yet. Raises `SharedVariableError`."""
        self._storages.keep(variable)
        if variable.uid not in self._storages.made:
            value = self._storages.given.pop(variable.uid, variable.value)
            self._storages.made[variable.uid] = (self.new_storage(variable, value, device), device)
        _, home = self._storages.made[variable.uid]
        if home != device:
            raise SharedVariableError(
                f"{variable!r} lives on {home} of backend {self.name} and cannot also live on {device}; "
                "bind its device in the same way in every program"
            )

    def storage(self, variable: SharedVariable) -> Any:
        """The framework's storage of a shared variable of a compiled program."""
        return self._storages.made[variable.uid][0]

    def get_value(self, variable: SharedVariable) -> np.ndarray:
        """A copy of the variable's current value on this backend. Raises `BackendClosed`, `SharedVariableError`."""
        self._check_shared(variable)
        with self.lock:
            if variable.uid in self._storages.made:
                return self.read_storage(self.storage(variable))
            return np.array(self._storages.given.get(variable.uid, variable.value))

    def set_value(self, variable: SharedVariable, array: Any) -> None:
        """Give the variable a value on this backend: same shape and dtype. Raises `BackendClosed`,
        `SharedVariableError`."""
        self._check_shared(variable)
        new = _host(array, repr(variable))
        if new.shape != variable.shape or new.dtype != variable.dtype.value:
            raise SharedVariableError(f"{variable!r} cannot take {new.dtype}{list(new.shape)}")
        with self.lock:
            self._storages.keep(variable)
            if variable.uid in self._storages.made:
                self.write_storage(self.storage(variable), new)
            else:
                self._storages.given[variable.uid] = new.copy()

    def _check_shared(self, variable: Any) -> None:
        self.check_open()
        if not hasattr(variable, "uid"):
            raise SharedVariableError(f"{variable!r:.80} is not a shared variable; make one with xb.shared")


@dataclass(eq=False)
class Executable:
    """A program compiled for a backend. A call takes and returns NumPy arrays, with checks. ``execute`` is the
    framework's innermost callable: from device-resident values (of `put`) to the values of the outputs, unchecked and
    possibly before they are computed (``backend.synchronize``).

    >>> run = backend.compile(lambda x: 2.0 * x, np.ones(2))
    >>> run(np.ones(2))
    array([2., 2.])
    >>> [(op.op, op.bound) for op in run.placement.ops]
    [('constant', 'cpu:0'), ('multiply', 'cpu:0')]
    >>> values = run.execute(*run.put(np.ones(2)))
    >>> backend.synchronize(values)
    >>> [str(device) for device in run.input_devices + run.output_devices]
    ['cpu:0', 'cpu:0']
    >>> [node.op for node in run.program.nodes], run.draw("dot").partition(" ")[0]
    (['input', 'constant', 'multiply'], 'digraph')
    >>> run.memory["cpu:0"].bytes
    32
    >>> [span.kind for span in run.profile(*run.put(np.ones(2))).spans]
    ['compute']
    """

    backend: Backend
    placed: Placed
    built: Built
    ledger: Ledger
    strict: bool = True
    execute: Callable[..., Sequence[Value]] = field(init=False)

    def __post_init__(self) -> None:
        stateful = bool(self.program.shared)
        self.execute = alone(self.backend.lock, self.built.execute) if stateful else self.built.execute
        self._checked = False

    @property
    def program(self) -> Program:
        """The placed program: all devices and transfers are explicit."""
        return self.placed.program

    @property
    def input_devices(self) -> tuple[Device, ...]:
        """The device of each argument."""
        return tuple(self.placed.devices[i] for i in self.program.inputs)

    @property
    def output_devices(self) -> tuple[Device, ...]:
        """The device of each output."""
        return tuple(self.placed.devices[i] for i in self.program.outputs)

    @property
    def placement(self) -> Placement:
        """The device asked for and the executed device of each op, read from the framework."""
        self.backend.check_open()
        with self.backend.lock:
            return merge(self.placed, self.built.executed())

    @property
    def lowered(self) -> Lowered:
        """The framework's lowered program, on a backend opened with ``lower_for``. Raises `UnsupportedOperation` on
        others.

        >>> with xb.open("jax", lower_for="gpu:0") as backend:
        ...     lowered = backend.compile(lambda x: xb.sin(x) + 1.0, np.ones(3)).lowered
        >>> [(part.platform, [str(device) for device in part.devices]) for part in lowered.parts]
        [('cuda', ['gpu:0'])]
        """
        self.backend.check_open()
        with self.backend.lock:
            return Lowered.of(self.placed, self.built.lowered())

    @property
    def memory(self) -> dict[str, peak_memory.Peak]:
        """The peak bytes of the program's arrays on each device: see `xbackend.program.peak_memory`."""
        return peak_memory.peaks(self.program)

    def draw(self, form: str = "mermaid") -> str:
        """The executed placement, coloured by device, as ``mermaid``, ``dot`` or ``svg``. Raises `UsageError`."""
        from xbackend.backends.executed_graph import executed
        from xbackend.drawing.forms import written

        return written(executed(self.program, self.placement), form)

    def profile(self, *values: Value) -> ProfiledCall:
        """Execute once more, slower, with updates, and return the timeline of each device, in seconds from the start of
        the call. Raises `UnsupportedOperation` where the framework does not report it, `BackendClosed`,
        `ComputationError`."""
        self.backend.check_open()
        with self.backend.lock:
            try:
                return self.built.profile(*values)
            except Exception as error:
                self._raise(error)

    def put(self, *arrays: Any, **named: Any) -> tuple[Value, ...]:
        """Copy the arguments to their devices. Raises `ArgumentError` for a wrong number, shape or dtype."""
        self.backend.check_open()
        nodes = [self.program.values[i] for i in self.program.inputs]
        if named or len(arrays) != len(nodes):
            called = f"{self.program.name}({', '.join(n.params['name'] for n in nodes)})"
            if named:
                raise ArgumentError(f"{called} takes arrays by position, in this order, not {next(iter(named))}=...")
            raise ArgumentError(f"{called} takes {len(nodes)} arrays, {len(arrays)} were given")
        hosts = []
        for array, node in zip(arrays, nodes, strict=True):
            host = _host(array, f"argument {node.params['name']!r} of {self.program.name}")
            if host.shape != node.shape or host.dtype != node.dtype.value:
                raise ArgumentError(
                    f"argument {node.params['name']!r} of {self.program.name} is {node.aval}, "
                    f"was given {host.dtype}[{','.join(map(str, host.shape))}]; shapes and dtypes are fixed when a "
                    "program is compiled"
                )
            hosts.append(host)
        return tuple(self.backend.put_all(hosts, self.input_devices))

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Run with NumPy arrays, return NumPy arrays in the structure of the function's result. Updates take effect
        after all outputs are computed, and not at all if one of them fails. Raises `ArgumentError`, `BackendClosed`,
        `ComputationError`, and, after the updates, `PlacementError` for an op on another device than asked."""
        values = self.put(*arrays, **named)
        try:
            return self._run(values)
        except Exception as error:
            self._raise(error)

    def _raise(self, error: Exception) -> NoReturn:
        ours = self.backend.refused(error)
        if ours is error:
            raise error
        raise ours from error

    def _run(self, values: Sequence[Value]) -> Any:
        start = time.perf_counter()
        results = self.execute(*values)
        if not self._checked:
            self.backend.synchronize(results)
            if self.ledger.first_call is None:
                self.ledger = replace(self.ledger, first_call=time.perf_counter() - start)
            if self.strict:
                self.placement.check()
            self._checked = True  # only now: a wrong placement is refused at every call
        return unflatten(self.program.structure, self.backend.get_all(results))

    def _repr_html_(self) -> str:
        from xbackend.drawing.markup import SMALL, shown

        title = f"{self.program.name} on {self.backend.name}"
        facts = {"program": repr(self.program), "phases": self.ledger}
        try:
            placement = str(self.placement)
            drawn = self.draw("svg") if len(self.program.nodes) <= SMALL else ""
        except BackendClosed as error:
            placement, drawn = str(error), ""
        return shown(title, facts | {"placement": placement}, drawn, title)

    def __repr__(self) -> str:
        return f"<executable of {self.program!r} on {self.backend.name}>"
