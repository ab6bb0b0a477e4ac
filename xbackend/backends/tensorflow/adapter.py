"""TensorFlow as three backends: graphs, graphs compiled by XLA, and op by op. A program becomes one graph, with
TensorFlow's own ops and gradients, executed through the innermost call of its Python layer.
`tf.compat.v1.wrap_function` makes the graph: a `tf.function` would end in an Identity per output on the first device.
Soft placement and TensorFloat-32 are off."""

from __future__ import annotations

import itertools
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from xbackend.backends.contract import Backend, Built, Value
from xbackend.backends.description import Description, versions
from xbackend.backends.placement import ProfiledCall
from xbackend.backends.special_numbers import QUOTIENTS, ROOTS
from xbackend.backends.tensorflow import absent
from xbackend.backends.tensorflow.gradient_rules import MENDED
from xbackend.backends.tensorflow.graph import Lowering, numbered
from xbackend.backends.tensorflow.profile import events_during, spans
from xbackend.backends.tensorflow.reading import Observed, read_partitions, records
from xbackend.backends.tensorflow.settings import configure, pools
from xbackend.backends.threads import Pool
from xbackend.devices import Device, choose_visible
from xbackend.errors import BackendError, BackendUnavailable, UnsupportedOperation
from xbackend.program.host import native
from xbackend.program.program import Program
from xbackend.program.shared import SharedVariable

# From the devices of the results and the `RunMetadata` of collected calls to the record of an execution.
PlacementReader = Callable[[Sequence[Device], Sequence[Any]], Observed]


class Runtime:
    """The private parts of TensorFlow's Python layer that xbackend uses. Raises `BackendUnavailable` if one lacks."""

    # Several backends of an interpreter share the context, the registered gradients and what `of_spectra` changes.
    collecting, tracing = threading.Lock(), threading.RLock()

    def __init__(self, tf: Any) -> None:
        try:
            from tensorflow.python import pywrap_tfe
            from tensorflow.python.eager import context
            from tensorflow.python.framework import ops

            self.context = context.context()
            self.context.ensure_initialized()
            self.handle = self.context._handle
            self.run: Callable[..., list[Any]] = pywrap_tfe.TFE_Py_Execute
            # The last call of `tf.constant`, for an array without another owner: array, device, dtype.
            self.tensor: Callable[[np.ndarray, str, None], Any] = ops.EagerTensor
            self.failure: type[Exception] = tf.errors.OpError
            self.options: Mapping[str, Any] = self.context.function_call_options.as_attrs()
            for name in ("enable_graph_collection", "export_run_metadata", "disable_graph_collection"):
                getattr(self.context, name)
            self.process: str = self.context.host_address_space()  # "/job:localhost/replica:0/task:0", mostly
            _functions(self.context)
        except (ImportError, AttributeError) as error:
            raise BackendUnavailable(
                f"TensorFlow {tf.__version__} has no longer what xbackend calls graphs with ({error}); "
                "pip install tensorflow==2.21.0"
            ) from error

    @contextmanager
    def collected(self) -> Iterator[list[Any]]:
        """A list that gets `RunMetadata` at the end: the partitioned graphs of functions first called inside."""
        found = list[Any]()
        with self.collecting:
            self.context.enable_graph_collection()
            try:
                yield found
            finally:
                found.append(self.context.export_run_metadata())
                self.context.disable_graph_collection()


def _is_in(device: Any, process: str) -> bool:
    """Whether a logical device belongs to a process, by TensorFlow's names: strategies also see other processes'."""
    return str(device.name).startswith((f"{process}/", "/device:"))


@cache
def _functions(context: Any) -> Counter[str]:
    """A count of functions added to the runtime from now on, to be optimised, or compiled by XLA, at the first call."""
    counted = Counter(tensorflow=0)

    def watched(right: Callable[[Any], None], function: Any) -> None:
        counted["tensorflow"] += 1
        right(function)

    for name in ("add_c_function", "add_function_def"):
        setattr(context, name, partial(watched, getattr(context, name)))
    return counted


# Messages of TensorFlow's linear algebra kernels for matrices without a result (core/kernels/linalg).
_NO_RESULT = ("not invertible", "decomposition was not successful", "Eigen decomposition", "did not converge")
# In `Backend.added`.
CARRIED = "int32 of further CPUs as uint32, the same bits, and uint32 as uint64, from and to programs"


class TensorFlow(Backend):
    common_pool = "TensorFlow"
    whole_graphs = False  # whether a graph of several programs executes as each program does

    added: tuple[str, ...] = (
        QUOTIENTS,
        ROOTS,
        "logical_not as a comparison with false",
        "erf of large numbers in float64",
        MENDED,
    )
    # TensorFlow copies int32 arguments and results of a graph, and no others, over the memory of cpu:0, whatever CPU
    # they are on ("working as intended": https://github.com/tensorflow/tensorflow/issues/16106). So int32 crosses as
    # uint32 with the same bits, and, to differ, uint32 as uint64, which no program has.
    carried: Mapping[str, str] = {"int32": "uint32", "uint32": "uint64"}

    def start(self) -> Iterable[Device]:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # it logs the instructions it was compiled for, and the like
        self.tf = tf = self.needed("tensorflow")
        configure(tf, self.settings, self.name, overlap=bool(self.common_pool))
        self.runtime = Runtime(tf)
        # The full names of this process's devices, as in the runtime's reports.
        here = self.runtime.process
        self.names = {
            Device(kind, number): f"{here}/device:{kind.upper()}:{number}"
            for kind in ("cpu", "gpu")
            for number, _ in enumerate(own for own in tf.config.list_logical_devices(kind.upper()) if _is_in(own, here))
        }
        lacking = [Device.parse(name) for name in self.settings.lower_for]
        if lacking:  # programs are lowered for these, whatever else is there
            cpus = {device: name for device, name in self.names.items() if not device.is_accelerator}
            self.names = cpus | {d: f"{here}/device:{d.kind.upper()}:{d.index}" for d in lacking}
        # Where eager values are kept.
        self.homes = {device: self.names[Device("cpu") if device in lacking else device] for device in self.names}
        # Eager values are on 'localhost' even if a strategy has given the process another name.
        self.by_name = {
            name: device
            for device, own in self.homes.items()
            if own == self.names[device]
            for name in (own, own.replace(here, "/job:localhost/replica:0/task:0"))
        }
        # Another backend of this process may have more virtual devices.
        own = [d for d in self.names if d.is_accelerator or d.index < self.settings.virtual_devices]
        return choose_visible(own, self.settings.visible)

    def put(self, array: np.ndarray, device: Device) -> Value:
        tf, name, array = self.tf, self.homes[device], native(array)
        if device.index:
            carrier = np.dtype(self.carrier(array.dtype.name, device))
            array = array.view(carrier) if carrier.itemsize == array.itemsize else array.astype(carrier)
        value = self.runtime.tensor(array.copy(), name, None)
        if not device.is_accelerator and self.device_of(value) != device:
            with tf.device(name):
                value = tf.raw_ops.Identity(input=value)  # TensorFlow makes int32 constants on cpu:0
        return value

    def get(self, value: Value) -> np.ndarray:
        array = np.asarray(value.numpy())  # a copy already; a scalar comes as a NumPy scalar
        device = self.device_of(value)
        if not device.index:
            return array
        dtype = next((d for d in self.carried if self.carrier(d, device) == array.dtype.name != d), array.dtype.name)
        return array.view(dtype) if np.dtype(dtype).itemsize == array.itemsize else array.astype(dtype)

    def carrier(self, dtype: str, device: Device) -> str:
        """The dtype in which arguments and results of a dtype cross to and from TensorFlow on a device."""
        return dtype if device.is_accelerator or device.index == 0 else self.carried.get(dtype, dtype)

    def device_of(self, value: Value) -> Device:
        # `device` is that of the op's call, cpu:0 for functions over several devices.
        return self.by_name[value.backing_device]

    def synchronize(self, values: Iterable[Value]) -> None:
        """Wait for GPU streams; on the CPU TensorFlow computes synchronously."""
        if any(device.is_accelerator for device in self.names):
            self.tf.test.experimental.sync_devices()

    def new_storage(self, variable: SharedVariable, array: np.ndarray, device: Device) -> Any:
        with self.tf.device(self.homes[device]):
            return self.tf.Variable(self.tf.constant(array), trainable=False)

    def read_storage(self, storage: Any) -> np.ndarray:
        return np.asarray(storage.numpy())

    def write_storage(self, storage: Any, array: np.ndarray) -> None:
        with self.tf.device(storage.device):
            storage.assign(self.tf.constant(array))

    def compilations(self) -> dict[str, int]:
        return dict(_functions(self.runtime.context))

    def memory_peaks(self) -> dict[str, int]:
        """Of accelerators only: TensorFlow does not count main memory."""
        info = self.tf.config.experimental.get_memory_info
        there = {device: name for device, name in self.homes.items() if device.is_accelerator}
        return {str(device): info(name)["peak"] for device, name in there.items() if name == self.names[device]}

    def is_out_of_memory(self, error: BaseException) -> bool:
        theirs = self.tf.errors.ResourceExhaustedError
        said = isinstance(error, theirs) or isinstance(error.__cause__, theirs)
        return said or super().is_out_of_memory(error) or "RESOURCE_EXHAUSTED" in str(error)[:500]

    def graph(self, lowering: Lowering) -> Any:
        """The program as one concrete function without automatic control dependencies."""

        def body(*arguments: Any) -> list[Any]:
            outputs, updates = lowering.whole(arguments)
            # Keep the assignments, which are no outputs.
            self.tf.compat.v1.get_default_graph().control_outputs.extend(updates)
            return outputs

        return self.traced(lowering, lambda specs: self.tf.compat.v1.wrap_function(body, specs))

    def traced(self, lowering: Lowering, trace: Callable[[list[Any]], Any]) -> Any:
        """A concrete function of the program's arguments. Raises `UnsupportedOperation` if TensorFlow refuses it."""
        program, spec, name = lowering.program, self.tf.TensorSpec, f"{lowering.prefix}a"
        try:
            with self.runtime.tracing:
                function = trace(
                    [spec(program.values[i].shape, lowering.carried(i), numbered(name, i)) for i in program.inputs]
                )
        except (NotImplementedError, LookupError, TypeError, ValueError) as error:
            raise UnsupportedOperation(f"backend {self.name} cannot lower {program!r}: {error}") from error
        if lowering.xla:
            lowering.check_kept(function.graph)
        return function

    def failed(self, error: Any) -> BackendError:
        kind, errors = type(error).__name__, self.tf.errors
        # A session's error begins with the traceback of the graph's construction.
        said = [line.strip() for line in error.message.splitlines() if any(word in line for word in _NO_RESULT)]
        if isinstance(error, errors.InvalidArgumentError) and said:
            return self.no_result(said[0])
        what, made = "failed while executing", BackendError
        if isinstance(error, errors.UnimplementedError | errors.NotFoundError | errors.InvalidArgumentError):
            what, made = "cannot execute this", UnsupportedOperation
        return made(f"backend {self.name}: TensorFlow {what} ({kind}): {error.message}")

    def launch(self, function: Any, device: str | None, lowering: Lowering, read: PlacementReader) -> Built:
        """A concrete function as `Built`. The input of ``read`` is collected at the first call, and read on demand."""
        runtime, run, handle, failure = self.runtime, self.runtime.run, self.runtime.handle, self.runtime.failure
        name = function.inference_fn.name.decode()
        captured = tuple(function.captured_inputs)
        count = len(function.function_def.signature.output_arg)
        attributes = tuple(itertools.chain.from_iterable(runtime.options.items()))
        called, beginning = False, threading.Lock()
        collected = list[Any]()  # of calls up to the first successful one
        unread: list[Device] | None = None  # devices of the results; once read it and ``collected`` are dropped
        seen = Observed("nothing was executed yet")

        def first(values: Sequence[Value]) -> list[Value]:
            nonlocal called, unread
            with beginning:
                if called:  # another thread was first; second calls are not collected
                    return run(handle, device, name, [*values, *captured], attributes, count)
                try:
                    with runtime.collected() as found:
                        results = run(handle, device, name, [*values, *captured], attributes, count)
                finally:
                    collected.extend(found)
                unread, called = [self.device_of(value) for value in results], True
                return results

        def observed() -> Observed:
            nonlocal unread, seen
            if unread is not None:
                seen, unread = read(unread, collected), None
                collected.clear()
            return seen

        def execute(*values: Value) -> Sequence[Value]:
            try:
                if called:
                    return run(handle, device, name, [*values, *captured], attributes, count)
                return first(values)
            except failure as error:
                raise self.failed(error) from error

        def profile(*values: Value) -> ProfiledCall:
            accelerators = sorted({str(device) for device in lowering.devices if device.is_accelerator})
            if accelerators:  # the host's trace has only the time of their launch
                raise UnsupportedOperation(
                    f"backend {self.name} does not tell what {', '.join(accelerators)} did when; profile on the CPU, "
                    "or with tensorflow-eager, which waits for each op"
                )
            self.synchronize(values)
            events, seconds = events_during(self.tf, lambda: self.synchronize(execute(*values)))
            return ProfiledCall(spans(observed(), events), seconds)

        # TensorFlow drops a function with its last reference.
        execute.function = function  # type: ignore[attr-defined]
        return Built(execute, lambda: records(lowering, observed()), profile)

    def launch_partitioned(self, lowering: Lowering) -> Built:
        function = self.graph(lowering)
        return self.launch(
            function, None, lowering, lambda _, found: read_partitions(lowering, function.graph, found, self.by_name)
        )

    def describe(self) -> Description:
        tf, threads = self.tf, pools(self.tf)
        file = next((p.name for p in sorted(Path(tf.sysconfig.get_lib()).glob("libtensorflow_cc*"))), None)
        products = Pool(_library_of_products(), None, threads["intra_op"], file, layer="TensorFlow's own threads")
        return Description(
            versions=versions() | {"tensorflow": tf.__version__},
            devices=[str(d) for d in self.devices],
            threads=dict(threads),
            blas=[products],
            settings={
                "soft_placement": tf.config.get_soft_device_placement(),
                "tensor_float_32": tf.config.experimental.tensor_float_32_execution_enabled(),
            },
            notes={"added": "; ".join(self.added), **self.note_on_cores()},
        )


def _library_of_products() -> str:
    """The library for matrix products in this process, as far as TensorFlow tells."""
    try:
        from tensorflow.python.util import _pywrap_util_port
    except ImportError:
        return "oneDNN or Eigen"
    return "oneDNN" if _pywrap_util_port.IsMklEnabled() else "Eigen"


class TensorFlowGraph(TensorFlow):
    """A graph that TensorFlow optimises, partitions by device and executes."""

    whole_graphs = True
    lowers = True

    added: tuple[str, ...] = (*TensorFlow.added, CARRIED)

    def build(self, program: Program) -> Built:
        if self.settings.lower_for:
            lowering = Lowering(self, program)
            return absent.built(lowering, self.graph(lowering), {})
        return self.launch_partitioned(Lowering(self, program))


class TensorFlowXLA(TensorFlow):
    """XLA: one compiled function for a program on one device, else one for each stage: it ignores a `tf.device`
    inside."""

    lowers = True

    added: tuple[str, ...] = (
        *TensorFlow.added,
        "powers of integers by squaring",
        "integers that wrap",
        f"on several devices: {CARRIED}",
    )

    def build(self, program: Program) -> Built:
        devices = {n.device for n in program.values}
        # XLA shows its code of a function with variables for present devices only: so they are read outside of it.
        apart = bool(self.settings.lower_for and program.shared)
        lowering = Lowering(self, program, xla=True, staged=len(devices) > 1 or apart)
        if lowering.staged and self.settings.lower_for:
            function = self.graph(lowering)
            return absent.built(lowering, function, lowering.functions)
        if lowering.staged:
            return self.launch_partitioned(lowering)
        name = self.names[Device.parse(devices.pop() or "")]

        def body(*arguments: Any) -> list[Any]:
            return lowering.whole(arguments)[0]

        compiled = self.tf.function(body, autograph=False, jit_compile=True)
        function = self.traced(lowering, lambda specs: compiled.get_concrete_function(*specs))
        # The whole program is one stage; this is its name in the runtime.
        call = function.inference_fn.name.decode()
        lowering.stages = dict.fromkeys(range(len(program.values)), call)

        if self.settings.lower_for:
            lowering.functions[call] = compiled, function.structured_input_signature[0], lowering.devices[0]
            return absent.built(lowering, function, lowering.functions)

        def read(results: Sequence[Device], _: Any) -> Observed:
            # A compiled function has one device, that of its results.
            observed = Observed("device of the results of the compiled function", compiled={call})
            if len(set(results)) == 1:
                observed.ops[call] = ("XLA computation", results[0])
            return observed

        return self.launch(function, name, lowering, read)
