"""The modes of the Theano lineage: what a value is, and what the innermost callable of a compiled function is.

`CMode` and `NumbaMode` compute with NumPy arrays on the host, `JAXMode` with JAX arrays on JAX's devices.
"""

from __future__ import annotations

import abc
import inspect
import os
import shutil
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from xbackend.backends.base import Value
from xbackend.devices import Device, choose_visible
from xbackend.errors import BackendUnavailable, DeviceUnavailable, UnsupportedOperation

if TYPE_CHECKING:
    from xbackend.backends.lineage import LineageBackend

Call = Callable[..., Sequence[Value]]


class Compiled(NamedTuple):
    """A compiled stage: its innermost callable, and the device that the framework says its outputs are on."""

    call: Call
    device: Device


class Mode(abc.ABC):
    """One way to compile graphs of the framework. ``start`` is called before anything else."""

    name: ClassVar[str]
    linker_name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]] = ()
    mutates: ClassVar[bool]  # whether a compiled function may overwrite an input that it is allowed to
    evidence: ClassVar[str]  # how the device of a stage is known
    compile_mode: Any  # what the framework calls a mode

    def __init__(self, backend: LineageBackend) -> None:
        self.backend = backend

    @property
    def plain(self) -> bool:
        """Whether a program of one stage can be its innermost callable, with nothing around it."""
        return True

    @abc.abstractmethod
    def start(self) -> Iterable[Device]:
        """Make ``self.compile_mode``; return the visible devices."""

    @abc.abstractmethod
    def put(self, array: np.ndarray, device: Device) -> Value:
        """A copy of the array on the device."""

    @abc.abstractmethod
    def move(self, value: Value, device: Device) -> Value:
        """A copy of the value on another device, possibly before it is made."""

    @abc.abstractmethod
    def device_of(self, value: Value) -> Device:
        """Where the value is."""

    @abc.abstractmethod
    def innermost(self, function: Any, inputs: Sequence[Any], device: Device) -> Compiled:
        """What a compiled function of the framework calls in the end, for inputs of the given types."""

    def on_device(self, compiled: Compiled) -> Call:
        """The callable of a stage in a program of several."""
        return compiled.call

    def synchronize(self, values: Iterable[Value]) -> None:
        """Return when the values are computed."""

    def threads(self) -> dict[str, int | None]:
        """Threads of pools that threadpoolctl does not know."""
        return {}

    def describe_blas(self) -> dict[str, Any]:
        """The BLAS that products of matrices are computed with."""
        blas = self.backend.blas
        return blas.describe() if blas is not None else {"name": "the framework's own choice"}


class _Residence:
    """Which pretend device each array is on: a NumPy array cannot say so itself."""

    def __init__(self) -> None:
        self._where: dict[int, tuple[weakref.ref[Any], Device]] = {}

    def remember(self, array: np.ndarray, device: Device) -> None:
        key = id(array)
        self._where[key] = (weakref.ref(array, lambda _: self._where.pop(key, None)), device)

    def find(self, array: np.ndarray) -> Device | None:
        found = self._where.get(id(array))
        return found[1] if found is not None and found[0]() is array else None


class HostMode(Mode):
    """Values are NumPy arrays. Several devices are pretended: their stages run one after the other."""

    mutates = True
    evidence = "run by this process for its device"

    def start(self) -> Iterable[Device]:
        self.compile_mode = self.make()
        settings = self.backend.settings
        every = [Device("cpu", i) for i in range(settings.virtual_devices)]
        self._devices = choose_visible(every, settings.visible)
        if not self._devices:
            raise DeviceUnavailable(f"backend {self.backend.name} has CPU devices only, and none is visible")
        self._residence = _Residence()
        return self._devices

    @abc.abstractmethod
    def make(self) -> Any:
        """The framework's mode. Raises `BackendUnavailable`."""

    @property
    def plain(self) -> bool:
        return len(self._devices) == 1

    def put(self, array: np.ndarray, device: Device) -> Value:
        value = np.array(array, order="C")
        if not self.plain:
            self._residence.remember(value, device)
        return value

    def move(self, value: Value, device: Device) -> Value:
        return self.put(value, device)

    def device_of(self, value: Value) -> Device:
        if self.plain:
            return self._devices[0]
        device = self._residence.find(value)
        if device is None:
            raise DeviceUnavailable(f"this array was not made by backend {self.backend.name}: it is on no device of it")
        return device

    def on_device(self, compiled: Compiled) -> Call:
        call, device = compiled
        if self.plain:
            return call

        def run(*values: Value) -> Sequence[Value]:
            results = call(*values)
            for value in results:
                self._residence.remember(value, device)
            return results

        return run


class CMode(HostMode):
    """Compiled by the C++ compiler, op by op, run by the virtual machine in C (``cvm``)."""

    name = "C"
    linker_name = "cvm"

    def make(self) -> Any:
        config = self.backend.framework.config
        if not config.cxx or not shutil.which(str(config.cxx).split()[0]):
            raise BackendUnavailable(
                f"backend {self.backend.name} compiles with a C++ compiler, and there is none; "
                "install one (Debian, Ubuntu: apt-get install g++) or give its path in "
                f"{self.backend.flags}=cxx=PATH"
            )
        if self.backend.blas is not None:
            self.backend.blas.load()  # now, so that its threads can be set and read
        self._machine = self.backend.module("link.c.cvm").CVM
        return self.backend.module("compile.mode").Mode(linker="cvm", optimizer="fast_run")

    def innermost(self, function: Any, inputs: Sequence[Any], device: Device) -> Compiled:
        machine = function.vm
        if not isinstance(machine, self._machine):
            raise UnsupportedOperation(
                f"the function was not linked by the C linker but by {type(machine).__name__}: is the compiler broken?"
            )
        given = [container.storage for container in function.input_storage]
        results = [container.storage for container in function.output_storage]

        def call(*values: Value) -> Sequence[Value]:
            for storage, value in zip(given, values, strict=True):
                storage[0] = value
            outputs: list[Value] = machine()
            # What is left in a storage is used again by the next call: an output would be overwritten.
            for storage in results:
                storage[0] = None
            for storage in given:
                storage[0] = None
            return outputs

        return Compiled(call, device)


class NumbaMode(HostMode):
    """One function compiled by Numba."""

    name = "NUMBA"
    linker_name = "numba"
    packages = ("numba", "llvmlite", "scipy")

    def make(self) -> Any:
        try:
            import numba
        except ImportError as error:
            raise BackendUnavailable(
                f"backend {self.backend.name} needs numba, which cannot be imported: {error}; pip install numba"
            ) from error
        self._typeof = numba.typeof
        self._array, self._tuple = numba.types.Array, numba.types.Tuple
        if self.backend.settings.threads is not None:
            numba.set_num_threads(min(self.backend.settings.threads, numba.config.NUMBA_NUM_THREADS))
        if self.backend.blas is not None:
            from xbackend.backends.lineage_blas import redirect_numba

            redirect_numba(self.backend.blas)
        return self.backend.module("compile.mode").get_mode("NUMBA")

    def innermost(self, function: Any, inputs: Sequence[Any], device: Device) -> Compiled:
        call = function.vm.jit_fn
        if any(None in t.shape for t in inputs):
            return Compiled(self._arrays(call, function.maker.fgraph.outputs), device)
        # Compiled now, for the arrays that `put` makes, and not by the first call.
        types = tuple(self._typeof(np.empty(t.shape, t.dtype)) for t in inputs)
        signature = (self._tuple(types),) if call.py_func.__code__.co_flags & inspect.CO_VARARGS else types
        call.compile(signature)
        returned = call.overloads[signature].signature.return_type
        wanted = [str(v.type.dtype) for v in function.maker.fgraph.outputs]
        if all(isinstance(t, self._array) and str(t.dtype) == d for t, d in zip(returned, wanted, strict=True)):
            return Compiled(call, device)
        return Compiled(self._arrays(call, function.maker.fgraph.outputs), device)

    @staticmethod
    def _arrays(call: Call, outputs: Sequence[Any]) -> Call:
        """Aesara returns Python numbers for rank 0, and int64 for int32: Numba's dtypes, not those of its graph."""
        dtypes = [v.type.dtype for v in outputs]

        def arrays(*values: Value) -> Sequence[Value]:
            return [np.asarray(r, dtype) for r, dtype in zip(call(*values), dtypes, strict=True)]

        return arrays


class JAXMode(Mode):
    """One function compiled by JAX for a device of JAX."""

    name = "JAX"
    linker_name = "jax"
    packages = ("jax", "jaxlib")
    mutates = False
    evidence = "device of the stage's outputs, as JAX says"

    def start(self) -> Iterable[Device]:
        try:
            import jax
        except ImportError as error:
            raise BackendUnavailable(
                f"backend {self.backend.name} needs jax, which cannot be imported: {error}; pip install jax"
            ) from error
        self._jax = jax
        settings = self.backend.settings
        forced = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
        if settings.virtual_devices > 1 and not forced:
            try:
                jax.config.update("jax_num_cpu_devices", settings.virtual_devices)
            except RuntimeError as error:
                # JAX computes already in this process; its devices may be enough.
                if len(jax.devices("cpu")) < settings.virtual_devices:
                    raise DeviceUnavailable(self._too_few(len(jax.devices("cpu")))) from error
        host = jax.devices("cpu")
        if len(host) < settings.virtual_devices:
            raise DeviceUnavailable(self._too_few(len(host)))
        found = [*host[: settings.virtual_devices], *(d for d in jax.local_devices() if d.platform != "cpu")]
        counts: dict[str, int] = {}
        self._device: dict[Any, Device] = {}
        for theirs in found:
            kind = "gpu" if theirs.platform in ("gpu", "cuda", "rocm") else theirs.platform
            self._device[theirs] = Device(kind, counts.get(kind, 0))
            counts[kind] = counts.get(kind, 0) + 1
        self._theirs = {ours: theirs for theirs, ours in self._device.items()}
        self._prepare_dispatch()
        self.compile_mode = self._make()
        return choose_visible(self._device.values(), settings.visible)

    def _too_few(self, there: int) -> str:
        return (
            f"backend {self.backend.name} was asked for {self.backend.settings.virtual_devices} virtual devices, but "
            f"JAX was started in this process with cpu:0 to cpu:{there - 1}; open it with isolated=True"
        )

    def _prepare_dispatch(self) -> None:
        """Where JAX's result would not have the dtype of the graph."""
        jax, module = self._jax, self.backend.module
        jnp = jax.numpy
        basic = module("link.jax.dispatch.basic")
        module("link.jax.dispatch")
        # The import above sets this from floatX, which a user's script may have at float32.
        jax.config.update("jax_enable_x64", True)

        # Constants of rank 0 become Python numbers, which are int64 or float64 where nothing gives them another dtype.
        @basic.jax_typify.register(np.ndarray)  # type: ignore[untyped-decorator]
        def typify(data: np.ndarray, dtype: Any = None, **_: Any) -> Any:
            return jnp.array(data, dtype=dtype or data.dtype)

        # Sums of float32 keep the dtype of the accumulator, float64.
        reduction = module("tensor.elemwise").CAReduce
        theirs = basic.jax_funcify.dispatch(reduction)

        @basic.jax_funcify.register(reduction)  # type: ignore[untyped-decorator]
        def reduce(op: Any, node: Any = None, **options: Any) -> Any:
            function, dtype = theirs(op, node=node, **options), node.outputs[0].dtype
            return lambda x: function(x).astype(dtype)

        # Part of the gradient of a product; JAX has no such function to be found by name.
        @basic.jax_funcify.register(module("tensor.math").ProdWithoutZeros)  # type: ignore[untyped-decorator]
        def product(op: Any, node: Any = None, **_: Any) -> Any:
            axis, dtype = None if op.axis is None else tuple(op.axis), node.outputs[0].dtype
            return lambda x: jnp.prod(jnp.where(x == 0, 1, x), axis=axis).astype(dtype)

    def _make(self) -> Any:
        jax = self._jax
        jnp = jax.numpy

        class Linker(self.backend.module("link.jax").JAXLinker):  # type: ignore[misc]
            def jit_compile(self, function: Any) -> Any:
                dtypes = [v.type.dtype for v in self.fgraph.outputs]

                def exact(*values: Any) -> Any:
                    results = function(*values)
                    return tuple(jnp.asarray(r, dtype=d) for r, d in zip(results, dtypes, strict=True))

                return jax.jit(exact)

        modes = self.backend.module("compile.mode")
        return modes.Mode(linker=Linker(), optimizer=modes.get_mode("JAX").provided_optimizer)

    def put(self, array: np.ndarray, device: Device) -> Value:
        # JAX may use the memory of the array itself, so it gets a copy of its own.
        return self._jax.device_put(np.array(array, order="C"), self._theirs[device])

    def move(self, value: Value, device: Device) -> Value:
        return self._jax.device_put(value, self._theirs[device])

    def device_of(self, value: Value) -> Device:
        (theirs,) = value.devices()
        return self._device[theirs]

    def synchronize(self, values: Iterable[Value]) -> None:
        self._jax.block_until_ready(list(values))

    def innermost(self, function: Any, inputs: Sequence[Any], device: Device) -> Compiled:
        jax = self._jax
        sharding = jax.sharding.SingleDeviceSharding(self._theirs[device])
        # With the device named, a value that is elsewhere is an error instead of a computation that is elsewhere.
        call = jax.jit(function.vm.jit_fn.__wrapped__, out_shardings=sharding)
        if any(None in t.shape for t in inputs):
            return Compiled(call, device)
        # Compiled now and not by the first call, which finds it in JAX's cache.
        specs = [jax.ShapeDtypeStruct(t.shape, t.dtype, sharding=sharding) for t in inputs]
        compiled = call.lower(*specs).compile()
        (theirs,) = set().union(*(s.device_set for s in compiled.output_shardings))
        return Compiled(call, self._device[theirs])

    def threads(self) -> dict[str, int | None]:
        """XLA's own pool, counted by the names of this process's threads (Linux)."""
        try:
            names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
        except OSError:
            return {"XLA": None}
        # JAX before 0.10 gave them no names.
        return {"XLA": sum(name.startswith("tf_XLAEigen") for name in names) or None}

    def describe_blas(self) -> dict[str, Any]:
        return {"name": "XLA's own", "version": None, "file": None, "threads": self.threads()["XLA"]}
