"""The modes of the Theano lineage that compute on the host: C and Numba.

`CMode` and `NumbaMode` compute with NumPy arrays on the host; `jax_mode.JAXMode` with JAX arrays on JAX's devices.
"""

from __future__ import annotations

import abc
import functools
import inspect
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from xbackend.backends.contract import Built, Value
from xbackend.backends.description import IN_TURN
from xbackend.backends.lineage.adapter import LineageBackend, Lowered
from xbackend.backends.lineage.blas import redirect_numba
from xbackend.backends.lineage.compiled_code import CACHED, share_cache
from xbackend.backends.lineage.indices import INDEXED, checked_by_numba
from xbackend.backends.staged.backend import Call, CompiledStage
from xbackend.backends.staged.device_threads import DeviceThreads, Resident
from xbackend.devices import Device, choose_visible
from xbackend.errors import BackendUnavailable, DeviceUnavailable, UnsupportedOperation
from xbackend.program.analyses import computes_integers
from xbackend.program.host import native
from xbackend.program.stages import Variable


class HostMode(LineageBackend):
    """Content is a NumPy array. One device: values are arrays too. Several are pretended, each with a thread in which
    its stages run: values are `Resident`, and know the thread that computed them.

    ``settings.threads`` is how many threads one call of the BLAS uses, and each device makes its own calls: devices
    that are to compute side by side on the cores of one machine want ``threads=1`` (or cores divided by devices).
    """

    mutates = True
    evidence = "ran in the thread of its device"  # which notes that of what it computes

    def start_mode(self) -> Iterable[Device]:
        every = [Device("cpu", i) for i in range(self.settings.virtual_devices)]
        self.devices = tuple(choose_visible(every, self.settings.visible))
        if not self.devices:
            raise DeviceUnavailable(f"backend {self.name} has CPU devices only, and none is visible")
        self.compile_mode = self.make_mode()
        if not self.plain:
            self._threads = DeviceThreads(self.devices)
            self.confirm = self.synchronize
        return self.devices

    @abc.abstractmethod
    def make_mode(self) -> Any:
        """The framework's mode. Raises `BackendUnavailable`."""

    @property
    def plain(self) -> bool:
        return len(self.devices) == 1

    @property
    def unread(self) -> str:  # type: ignore[override]
        return "there is one device, which the framework does not name" if self.plain else ""

    def put(self, array: np.ndarray, device: Device) -> Value:
        return self.value(np.array(native(array), order="C"), device)

    def get(self, value: Value) -> np.ndarray:
        return np.array(self.content(value))

    def mover(self, device: Device) -> Callable[[Value], Value]:
        submit = self._threads.submit

        def copied(content: Any) -> Sequence[Any]:
            return (np.array(content, order="C"),)

        def move(value: Value) -> Value:
            return submit(device, copied, (value,), 1)[0]

        return move

    def copied(self, variable: Variable) -> Variable:
        return self.module("compile.ops").deep_copy_op(variable)

    def copy(self, content: Any, device: Device) -> Any:
        return np.array(content, order="C")

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

    def on_device(self, compiled: CompiledStage, count: int) -> Call:
        call, device = compiled
        submit = self._threads.submit

        def start(*values: Value) -> Sequence[Value]:
            return submit(device, call, values, count)

        return start

    def shut(self) -> None:
        if not self.plain:
            self._threads.close()


class CMode(HostMode):
    """Compiled by the C++ compiler, op by op, run by the virtual machine in C (``cvm``)."""

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
                f"backend {self.name} compiles with a C++ compiler, and there is none; "
                "install one (Debian, Ubuntu: apt-get install g++) or give its path in "
                f"{self.flags}=cxx=PATH"
            )
        share_cache(self.module("link.c.cmodule"))
        if self.blas is not None:
            self.blas.load()  # now, so that its threads can be set and read
        self._machine = self.module("link.c.cvm").CVM
        return self.module("compile.mode").Mode(linker="cvm", optimizer="fast_run")

    def _compile(self, graph: Lowered) -> Built:
        """Compile with the flags that this program needs.

        Copies of a variable are equal to the bit only without contraction: a product and a sum in one instruction are
        rounded once, in two twice. By default gcc assumes that signed integers do not overflow, and takes ``x + 1 > x``
        for true. ``-fwrapv`` ends that; loops over floats are slower with it, so programs of floats go without.
        """
        flags = ["-ffp-contract=off"] * copies(graph) + ["-fwrapv"] * computes_integers(graph.program)
        name = f"gcc{self.separator}cxxflags"
        present = functools.reduce(getattr, name.split("."), self.framework.config)
        with self.changed_flags(**{name: " ".join([present, *flags]).strip()}):
            return super()._compile(graph)

    def compilations(self) -> dict[str, int]:
        """The modules of C that were asked for; of these it finds some in its cache and has the others compiled."""
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


def copies(graph: Lowered) -> bool:
    """Whether variables on several devices are updated: copies of one are to be equal to the bit there. Which ops
    become one loop depends on what other devices wait for, and what a compiler makes of numbers on the loop."""
    return len({graph.program.values[target].device for target in graph.program.updates}) > 1


def call_of(machine: Any, given: Sequence[list[Any]], results: Sequence[list[Any]], alone: Any) -> Call:
    """A virtual machine as a callable of the contents of the storages that it reads, ``given``. A call's inputs and
    results are in the machine's storages, so that it runs under the lock ``alone``."""

    def call(*values: Value) -> Sequence[Value]:
        with alone:
            for storage, value in zip(given, values, strict=True):
                storage[0] = value
            outputs: list[Value] = machine()
            # What is left in a storage is used again by the next call: an output would be overwritten.
            for storage in results:
                storage[0] = None
            for storage in given:
                storage[0] = None
            return outputs

    return call


def product_of_integers(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The matrix product of integers of one dtype, exact, as Numba compiles it."""
    product = np.zeros((x.shape[0], y.shape[1]), x.dtype)
    for i in range(x.shape[0]):
        for k in range(x.shape[1]):
            factor = x[i, k]
            for j in range(y.shape[1]):
                product[i, j] += factor * y[k, j]
    return product


def multiplies_integers(node: Any) -> bool:
    """Whether a node of the framework is a product of two matrices of integers of one dtype."""
    types = [v.type for v in (*node.inputs, *node.outputs)]
    return {t.ndim for t in types} == {2} and len({t.dtype for t in types}) == 1 and types[0].dtype.startswith("int")


def power_of_integers(node: Any) -> Callable[[Any, Any], Any]:
    """The power of integers, exact, as Numba compiles it for a node of the framework; of negative exponents it is 1."""
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
    """Whether a node of the framework takes and gives integers only."""
    return all("int" in v.type.dtype for v in (*node.inputs, *node.outputs))


def wrapping(symbol: str) -> Callable[[Any], Callable[..., Any]]:
    """Sums, differences or products of integers as Numba compiles them for a node of the framework: computed without
    signs and cut off to its dtype. Numba's own are 64 bits wide and, with signs, do not overflow for LLVM (``nsw``), so
    that ``x + 1 > x`` is true (numba/cpython/numbers.py: _int_arith_flags)."""

    def function(node: Any) -> Callable[..., Any]:
        names = [f"x{i}" for i in range(len(node.inputs))]
        result = symbol.join(f"unsigned({name})" for name in names)
        source = f"def wrapped({', '.join(names)}):\n return kind({result})\n"
        found: dict[str, Any] = {}
        exec(source, {"kind": getattr(np, node.outputs[0].type.dtype), "unsigned": np.uint64}, found)
        made: Callable[..., Any] = found["wrapped"]
        return made

    return function


@cache
def _compiled_by_numba() -> Counter[str]:
    """How many functions Numba has begun to compile, from now on."""
    event, counted = import_module("numba.core.event"), Counter(numba=0)

    class Listener(event.Listener):  # type: ignore[name-defined, misc]
        def on_start(self, _: Any) -> None:
            counted["numba"] += 1

        def on_end(self, _: Any) -> None: ...

    event.register("numba:compile", Listener())
    return counted


class NumbaMode(HostMode):
    """One function compiled by Numba."""

    linker_name = "numba"
    finds_lengths = True
    mode_added: ClassVar[tuple[str, ...]] = (
        "products and powers of integers in integers",
        "integers that wrap",
        "on several devices: compiled without Python's lock",
        "indices checked",
    )
    packages = ("numba", "llvmlite", "scipy")
    unchecked = INDEXED
    overlap = "those on different devices overlap: each device has a thread, and compiled code gives up Python's lock"

    @property
    def common_pool(self) -> str:
        return "" if self.settings.cores_per_device == 1 else "the BLAS"

    def make_mode(self) -> Any:
        numba = self.needed("numba")
        _compiled_by_numba()
        self._typeof, self._jit = numba.typeof, numba.njit
        self._array, self._tuple = numba.types.Array, numba.types.Tuple
        if self.settings.threads is not None:
            numba.set_num_threads(min(self.settings.threads, numba.config.NUMBA_NUM_THREADS))
        if self.blas is not None:
            redirect_numba(self.blas)
        return self.module("compile.mode").get_mode("NUMBA")

    def prepare(self) -> None:
        # Numba's own take floating point only, so the frameworks compute with int32 in float32 and int64 in float64.
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
        """Let Numba compile ``function(node)`` for the nodes of an op that ``concerns`` is true of, and what it
        compiled until now for the others."""

    def innermost(self, function: Any, inputs: Sequence[Any], device: Device) -> CompiledStage:
        call = function.vm.jit_fn
        if not self.plain:
            # Compiled anew: the framework's own call keeps Python's lock, and Numba's cache does not tell them apart.
            options = {name: value for name, value in call.targetoptions.items() if name != "nopython"}
            call = self._jit(**options, nogil=True)(call.py_func)
        if any(None in t.shape for t in inputs):
            return CompiledStage(self._arrays(call, function.maker.fgraph.outputs), device)
        # Compiled now, for the arrays that `put` makes, and not by the first call.
        types = tuple(self._typeof(np.empty(t.shape, t.dtype)) for t in inputs)
        signature = (self._tuple(types),) if call.py_func.__code__.co_flags & inspect.CO_VARARGS else types
        call.compile(signature)
        returned = call.overloads[signature].signature.return_type
        wanted = [str(v.type.dtype) for v in function.maker.fgraph.outputs]
        if all(isinstance(t, self._array) and str(t.dtype) == d for t, d in zip(returned, wanted, strict=True)):
            return CompiledStage(call, device)
        return CompiledStage(self._arrays(call, function.maker.fgraph.outputs), device)

    @staticmethod
    def _arrays(call: Call, outputs: Sequence[Any]) -> Call:
        """Aesara returns Python numbers for rank 0, and int64 for int32: Numba's dtypes, not those of its graph."""
        dtypes = [v.type.dtype for v in outputs]

        def arrays(*values: Value) -> Sequence[Value]:
            return [np.asarray(r, dtype) for r, dtype in zip(call(*values), dtypes, strict=True)]

        return arrays
