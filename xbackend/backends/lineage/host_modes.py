"""The modes of the Theano lineage that compute with NumPy arrays on the host: C and Numba."""

from __future__ import annotations

import abc
import inspect
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial, reduce
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from xbackend.backends.contract import Built, Value
from xbackend.backends.description import IN_TURN
from xbackend.backends.lineage.adapter import LineageBackend
from xbackend.backends.lineage.alike import computation
from xbackend.backends.lineage.blas import redirect_numba
from xbackend.backends.lineage.compiled_code import CACHED, share_cache
from xbackend.backends.lineage.indices import INDEXED, checked_by_numba
from xbackend.backends.staged.assembly import FrameworkGraph
from xbackend.backends.staged.backend import CompiledStage, StageCall
from xbackend.backends.staged.device_threads import DeviceThreads, Resident
from xbackend.devices import Device, choose_visible
from xbackend.errors import BackendUnavailable, DeviceUnavailable, UnsupportedOperation
from xbackend.program.analyses import computes_integers
from xbackend.program.host import native
from xbackend.program.stages import Stage, Variable


class HostMode(LineageBackend):
    """The content of a value is a NumPy array: the value itself with one device, else a `Resident`. Several devices are
    virtual, each with a thread that runs its stages; ``settings.threads`` is the number of threads of one of its BLAS
    calls, so that devices overlap on one machine only with 1, or cores divided by devices."""

    mutates = True
    evidence = "ran in the thread of its device"  # the thread records it

    def start_mode(self) -> Iterable[Device]:
        every = [Device("cpu", i) for i in range(self.settings.virtual_devices)]
        self.devices = tuple(choose_visible(every, self.settings.visible))
        if not self.devices:
            raise DeviceUnavailable(f"backend {self.name} has CPU devices only, and none is visible")
        self.compile_mode = self.make_mode()
        self.plain = len(self.devices) == 1
        if self.plain:
            self.unread = "there is one device, which the framework does not name"
        else:
            self._threads = DeviceThreads(self.devices)
            self.confirm = self.synchronize
        return self.devices

    @abc.abstractmethod
    def make_mode(self) -> Any:
        """The framework's mode. Raises `BackendUnavailable`."""

    def put(self, array: np.ndarray, device: Device) -> Value:
        return self.value(np.array(native(array), order="C"), device)

    def mover(self, device: Device) -> Callable[[Value], Value]:
        submit, copy = self._threads.submit, self.copier(device)

        def copied(content: Any) -> Sequence[Any]:
            return (copy(content),)

        return lambda value: submit(device, copied, (value,), 1)[0]

    def copied(self, variable: Variable) -> Variable:
        return self.module("compile.ops").deep_copy_op(variable)

    def copier(self, device: Device) -> Callable[[Any], Any]:
        return partial(np.array, order="C")

    def device_of(self, value: Value) -> Device:
        if self.plain:
            return self.devices[0]
        self.content(value)
        return value.device  # type: ignore[no-any-return]

    def content(self, value: Value) -> Any:
        if self.plain:
            return value
        if not isinstance(value, Resident):
            raise DeviceUnavailable(f"this array was not made by backend {self.name}: it is on no device of it")
        return value.wait()

    def value(self, content: Any, device: Device) -> Value:
        return content if self.plain else self._threads.hold(content, device)

    def synchronize(self, values: Iterable[Value]) -> None:
        for value in values:
            self.content(value)

    def on_device(self, compiled: CompiledStage, count: int) -> StageCall:
        call, device = compiled
        submit = self._threads.submit
        return lambda *values: submit(device, call, values, count)

    def shut(self) -> None:
        super().shut()
        if not self.plain:
            self._threads.close()


class CMode(HostMode):
    """Ops compiled by the C++ compiler, run by the virtual machine in C (``cvm``)."""

    linker_name = "cvm"
    mode_added: ClassVar[tuple[str, ...]] = (
        "powers of integers by squaring",
        "quotients of the smallest integer",
        "integers that wrap (-fwrapv, where a program computes some)",
        "no fused multiply-adds where variables on several devices are updated",
        CACHED,
    )
    overlap = f"{IN_TURN}compiled C code keeps Python's interpreter lock"

    def make_mode(self) -> Any:
        config = self.framework.config
        if not config.cxx or not shutil.which(str(config.cxx).split()[0]):
            raise BackendUnavailable(
                f"backend {self.name} compiles with a C++ compiler, and there is none; install one (Debian, Ubuntu: "
                f"apt-get install g++) or give its path in {self.flags}=cxx=PATH"
            )
        share_cache(self.module("link.c.cmodule"))
        if self.blas is not None:
            self.blas.load()  # now, so that its threads can be set and read
        self._machine = self.module("link.c.cvm").CVM
        return self.module("compile.mode").Mode(linker="cvm", optimizer="fast_run")

    def _compile(self, graph: FrameworkGraph) -> Built:
        """Compile with this program's flags. Copies of a variable are equal to the bit only without contraction (fused
        multiply-adds round once). gcc takes ``x + 1 > x`` of signed integers for true unless ``-fwrapv``, which slows
        loops over floats."""
        flags = ["-ffp-contract=off"] * copies(graph) + ["-fwrapv"] * computes_integers(graph.program)
        name = f"gcc{self.separator}cxxflags"
        present = reduce(getattr, name.split("."), self.framework.config)
        with self.changed_flags(**{name: " ".join([present, *flags]).strip()}):
            return super()._compile(graph)

    def compilations(self) -> dict[str, int]:
        """The number of C modules requested, from the cache or compiled."""
        return {self.linker_name: sum(self.module("link.c.basic").get_module_cache().stats)}

    def innermost(self, function: Any, inputs: Sequence[Any], device: Device) -> CompiledStage:
        machine = getattr(function, self.machine)
        if not isinstance(machine, self._machine):
            raise UnsupportedOperation(
                f"the function was not linked by the C linker but by {type(machine).__name__}: is the compiler broken?"
            )
        given = [container.storage for container in function.input_storage]
        results = [container.storage for container in function.output_storage]
        return CompiledStage(call_of(machine, given, results, threading.Lock()), device)


def copies(graph: FrameworkGraph) -> bool:
    """Whether a program updates variables on several devices: copies must be equal to the bit, whatever is fused."""
    return len({graph.program.values[target].device for target in graph.program.updates}) > 1


def call_of(machine: Any, given: Sequence[list[Any]], results: Sequence[list[Any]], alone: Any) -> StageCall:
    """A virtual machine as a function of the contents of its input storages, ``given``, under the lock ``alone``."""

    def call(*values: Value) -> Sequence[Value]:
        with alone:
            for storage, value in zip(given, values, strict=True):
                storage[0] = value
            outputs: list[Value] = machine()
            # The next call would reuse, and so overwrite, an output left in its storage.
            for storage in results:
                storage[0] = None
            for storage in given:
                storage[0] = None
            return outputs

    return call


def product_of_integers(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The exact matrix product of integers of one dtype, for Numba to compile."""
    product = np.zeros((x.shape[0], y.shape[1]), x.dtype)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            factor = x[i, k]
            for j in range(y.shape[1]):
                product[i, j] += factor * y[k, j]
    return product


def one_dtype(node: Any) -> str:
    """The dtype of all inputs and outputs of an apply node; empty if there are several."""
    dtypes = {v.type.dtype for v in (*node.inputs, *node.outputs)}
    return "" if len(dtypes) > 1 else str(*dtypes)


def multiplies_integers(node: Any) -> bool:
    """Whether an apply node is a product of two integer matrices of one dtype."""
    return one_dtype(node).startswith("int") and {v.type.ndim for v in (*node.inputs, *node.outputs)} == {2}


def power_of_integers(node: Any) -> Callable[[Any, Any], Any]:
    """The exact power of integers for an apply node, for Numba to compile; 1 for negative exponents."""
    kind = getattr(np, node.outputs[0].type.dtype)

    def power(x: Any, y: Any) -> Any:
        result, base, exponent = np.int64(1), np.int64(x), np.int64(y)
        while exponent > 0:
            if exponent & 1:
                result *= base
            base *= base
            exponent >>= 1
        return kind(result)

    return power


def is_of_integers(node: Any) -> bool:
    return all("int" in v.type.dtype for v in (*node.inputs, *node.outputs))


def wrapping(symbol: str) -> Callable[[Any], Callable[..., Any]]:
    """Sums, differences or products of integers for an apply node, for Numba to compile, in its dtype: LLVM assumes
    that signed ones do not overflow (numba/cpython/numbers.py: _int_arith_flags)."""

    def function(node: Any) -> Callable[..., Any]:
        names = [f"x{i}" for i in range(len(node.inputs))]
        result = symbol.join(f"unsigned({name})" for name in names)
        source = f"def wrapped({', '.join(names)}):\n return kind({result})\n"
        found: dict[str, Any] = {"kind": getattr(np, node.outputs[0].type.dtype), "unsigned": np.uint64}
        exec(source, found)
        return found["wrapped"]  # type: ignore[no-any-return]

    return function


@cache
def _compiled_by_numba() -> Counter[str]:
    """A count of Numba's compilations from now on."""
    event, counted = import_module("numba.core.event"), Counter(numba=0)

    class Listener(event.Listener):  # type: ignore[name-defined, misc]
        def on_start(self, _: Any) -> None:
            counted["numba"] += 1

        def on_end(self, _: Any) -> None: ...

    event.register("numba:compile", Listener())
    return counted


class NumbaMode(HostMode):
    linker_name = "numba"
    finds_lengths = True
    mode_added: ClassVar[tuple[str, ...]] = (
        "products and powers of integers in integers",
        "integers that wrap",
        "on several devices: compiled without Python's lock, once for all that compute alike",
        "indices checked",
    )
    packages = ("numba", "llvmlite", "scipy")
    unchecked = INDEXED
    overlap = "those on different devices overlap: each device has a thread, and compiled code gives up Python's lock"

    def make_mode(self) -> Any:
        numba = self.needed("numba")
        _compiled_by_numba()
        self._numba, self.common_pool = numba, "" if self.settings.cores_per_device == 1 else "the BLAS"
        if self.settings.threads is not None:
            numba.set_num_threads(min(self.settings.threads, numba.config.NUMBA_NUM_THREADS))
        if self.blas is not None:
            redirect_numba(self.blas)
        return self.module("compile.mode").get_mode("NUMBA")

    def prepare(self) -> None:
        # Numba's own are for floats only: the frameworks compute int32 in float32 and int64 in float64.
        self.replace(self.module("tensor.math").Dot, multiplies_integers, lambda node: product_of_integers)
        scalars = self.module("scalar.basic")
        self.replace(scalars.Pow, is_of_integers, power_of_integers)
        for name, symbol in (("Add", "+"), ("Sub", "-"), ("Mul", "*")):
            self.replace(getattr(scalars, name), is_of_integers, wrapping(symbol))
        self.replace(self.InRange, lambda node: True, checked_by_numba)

    def compilations(self) -> dict[str, int]:
        return dict(_compiled_by_numba())

    @abc.abstractmethod
    def replace(self, op: type, concerns: Callable[[Any], bool], function: Callable[[Any], Any]) -> None:
        """Let Numba compile ``function(node)`` for the apply nodes that satisfy ``concerns``, else the framework's."""

    def innermost(self, function: Any, inputs: Sequence[Any], device: Device) -> CompiledStage:
        call, outputs, exact = function.vm.jit_fn, function.maker.fgraph.outputs, False
        if not self.plain:
            # Compiled again: the framework's function keeps Python's lock, and Numba's cache confuses the two.
            options = {name: value for name, value in call.targetoptions.items() if name != "nopython"}
            call = self._numba.njit(**options, nogil=True)(call.py_func)
        if all(None not in t.shape for t in inputs):
            # Compiled now, not by the first call, for arrays as `put` makes them.
            types, kinds = tuple(self._numba.typeof(np.empty(t.shape, t.dtype)) for t in inputs), self._numba.types
            signature = (kinds.Tuple(types),) if call.py_func.__code__.co_flags & inspect.CO_VARARGS else types
            call.compile(signature)
            made = zip(call.overloads[signature].signature.return_type, outputs, strict=True)
            exact = all(isinstance(t, kinds.Array) and str(t.dtype) == str(v.type.dtype) for t, v in made)
        return CompiledStage(call if exact else self._arrays(call, outputs), device)

    def compile_stages(self, labels: Sequence[str], stages: Sequence[Stage]) -> list[CompiledStage]:
        """Stages that compute the same have one function: it holds no values, so each device's thread can call it."""
        made: dict[tuple[Any, ...], CompiledStage] = {}
        compiled = []
        for label, stage in zip(labels, stages, strict=True):
            key = computation(stage)
            if key in made:
                compiled.append(made[key]._replace(device=stage.device))
                continue
            compiled.append(self.compile_stage(label, stage))
            if compiled[-1].device == stage.device:  # else the placement is wrong, and will be said to be
                made[key] = compiled[-1]
        return compiled

    @staticmethod
    def _arrays(call: StageCall, outputs: Sequence[Any]) -> StageCall:
        """Results in the graph's dtypes: Aesara returns Numba's, Python numbers for rank 0 and int64 for int32."""
        dtypes = [v.type.dtype for v in outputs]
        return lambda *values: [np.asarray(r, dtype) for r, dtype in zip(call(*values), dtypes, strict=True)]
