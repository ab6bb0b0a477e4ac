"""TensorFlow as three backends: graphs, graphs compiled by XLA, and op by op.

All three build one graph with TensorFlow's own ops and gradients, and differ in what executes it. A graph is executed
through the innermost call of TensorFlow's Python layer, with values that are on their devices; `tf.function` binds its
arguments to a signature, looks for a trace and packs its results around the same call.

Graphs are made by `tf.compat.v1.wrap_function`: a `tf.function` would end in an Identity per output on the first device,
which is a transfer that nobody asked for. Soft placement and TensorFloat-32 are switched off in the process.
"""

from __future__ import annotations

import abc
import itertools
import os
import platform
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xbackend.backends.base import Backend, Built, Value
from xbackend.backends.placement import Executed
from xbackend.backends.tensorflow_graph import Lowering, read_partitions, records
from xbackend.devices import Device, choose_visible
from xbackend.errors import BackendError, BackendUnavailable, UnsupportedOperation
from xbackend.program.program import Program

if TYPE_CHECKING:
    from xbackend.program.shared import SharedVariable

_numbers = itertools.count()


class Runtime:
    """The parts of TensorFlow's Python layer that are not public, in one place.

    Raises `BackendUnavailable` where this TensorFlow does not have one of them.
    """

    def __init__(self, tf: Any) -> None:
        try:
            from tensorflow.python import pywrap_tfe
            from tensorflow.python.eager import context, core

            self.context = context.context()
            self.context.ensure_initialized()
            self.handle = self.context._handle
            self.run: Callable[..., list[Any]] = pywrap_tfe.TFE_Py_Execute
            self.failure: type[Exception] = core._NotOkStatusException
            self.options: Mapping[str, Any] = self.context.function_call_options.as_attrs()
            for name in ("enable_graph_collection", "export_run_metadata", "disable_graph_collection"):
                getattr(self.context, name)
        except (ImportError, AttributeError) as error:
            raise BackendUnavailable(
                f"TensorFlow {tf.__version__} has no longer what xbackend calls graphs with ({error}); "
                "pip install tensorflow==2.21.0"
            ) from error
        self.collecting = threading.Lock()

    def collected(self, call: Callable[[], Any]) -> tuple[Any, list[Any]]:
        """The result of a call, and the nodes of all graphs as partitioned for the functions first run in it.

        Collection has to be on before a function's first call: later calls find it already optimised.
        """
        with self.collecting:
            self.context.enable_graph_collection()
            try:
                result = call()
            finally:
                metadata = self.context.export_run_metadata()
                self.context.disable_graph_collection()
        graphs = metadata.function_graphs if metadata is not None else ()
        return result, [node for graph in graphs for part in graph.partition_graphs for node in part.node]


class _TensorFlow(Backend):
    """What the three modes share."""

    def start(self) -> Iterable[Device]:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # which instructions it was compiled for, and the like
        try:
            import tensorflow as tf
        except Exception as error:  # a broken installation fails in many ways
            raise BackendUnavailable(
                f"backend {self.name} cannot import TensorFlow: {type(error).__name__}: {error}; pip install tensorflow"
            ) from error
        self.tf = tf
        self._configure()
        self.names: dict[Device, str] = {}
        for number, found in enumerate(tf.config.list_logical_devices("CPU")[: self.settings.virtual_devices]):
            self._add("cpu", number, found)
        for number, found in enumerate(tf.config.list_logical_devices("GPU")):
            self._add("gpu", number, found)
        self.runtime = Runtime(tf)
        self.by_name = {name: device for device, name in self.names.items()}
        return choose_visible(self.names, self.settings.visible)

    def _add(self, kind: str, number: int, found: Any) -> None:
        # The runtime names a device in full where it says what ran on it.
        self.names[Device(kind, number)] = f"/job:localhost/replica:0/task:0{found.name}"

    def _configure(self) -> None:
        tf, wanted = self.tf, self.settings
        tf.config.set_soft_device_placement(False)
        tf.config.experimental.enable_tensor_float_32_execution(False)
        for count, setter in (
            (wanted.threads, tf.config.threading.set_intra_op_parallelism_threads),
            (wanted.threads, tf.config.threading.set_inter_op_parallelism_threads),
        ):
            if count is not None:
                self._before_start(f"threads={count}", setter, count)
        cpus = tf.config.list_physical_devices("CPU")
        if wanted.virtual_devices > 1 and cpus:
            pretend = [tf.config.LogicalDeviceConfiguration()] * wanted.virtual_devices
            self._before_start(
                f"virtual_devices={wanted.virtual_devices}",
                tf.config.set_logical_device_configuration,
                cpus[0],
                pretend,
                met=lambda: len(tf.config.list_logical_devices("CPU")) >= wanted.virtual_devices,
            )
        gpus = tf.config.list_physical_devices("GPU")
        hidden = wanted.visible is not None and all(Device.parse(v).kind != "gpu" for v in wanted.visible)
        if gpus and hidden:
            self._before_start("visible", tf.config.set_visible_devices, [], "GPU", met=lambda: True)
        for gpu in () if hidden else gpus:
            # It would take all memory of the GPU at once otherwise.
            self._before_start("memory growth", tf.config.experimental.set_memory_growth, gpu, True, met=lambda: True)

    def _before_start(
        self, what: str, setter: Callable[..., None], *arguments: Any, met: Callable[[], bool] = lambda: False
    ) -> None:
        """Apply a setting that TensorFlow takes only before its first use in a process.

        Raises `BackendUnavailable` when it is too late and the setting is not ``met`` anyway.
        """
        try:
            setter(*arguments)
        except RuntimeError as error:
            if not met():
                raise BackendUnavailable(
                    f"backend {self.name} cannot have {what} in this process: TensorFlow was already in use with "
                    f"another setting ({error}); open it with isolated=True, or before anything uses TensorFlow"
                ) from error

    def put(self, array: np.ndarray, device: Device) -> Value:
        with self.tf.device(self.names[device]):
            return self.tf.constant(array)

    def get(self, value: Value) -> np.ndarray:
        return np.asarray(value.numpy())  # a copy already; a scalar comes as a NumPy scalar

    def device_of(self, value: Value) -> Device:
        # `device` is where the op that made it was called, cpu:0 for functions over several devices.
        return self.by_name[value.backing_device]

    def synchronize(self, values: Iterable[Value]) -> None:
        """On the CPU TensorFlow has computed before it returns; GPU streams are waited for."""
        if any(device.is_accelerator for device in self.names):
            self.tf.test.experimental.sync_devices()

    def new_storage(self, variable: SharedVariable, array: np.ndarray, device: Device) -> Any:
        with self.tf.device(self.names[device]):
            return self.tf.Variable(self.tf.constant(array), trainable=False)

    def read_storage(self, storage: Any) -> np.ndarray:
        return np.asarray(storage.numpy())

    def write_storage(self, storage: Any, array: np.ndarray) -> None:
        with self.tf.device(storage.device):
            storage.assign(self.tf.constant(array))

    def shut(self) -> None:
        """TensorFlow keeps its threads and devices until the process ends; graphs and values go with their owners."""

    @abc.abstractmethod
    def build(self, program: Program) -> Built: ...

    def lowering(self, program: Program, xla: bool = False) -> Lowering:
        """A fresh lowering; the prefix of its names is its own, so that collected graphs can be told apart."""
        storages = {i: self.storage(v) for i, v in program.shared.items()}
        return Lowering(self.tf, program, f"xb{next(_numbers)}", self.names, storages, self.put, xla)

    def graph(self, lowering: Lowering) -> Any:
        """The program as one concrete function without automatic control dependencies."""

        def body(*arguments: Any) -> list[Any]:
            outputs, updates = lowering.whole(arguments)
            # Nothing else would keep the assignments: they are no outputs.
            self.tf.compat.v1.get_default_graph().control_outputs.extend(updates)
            return outputs

        try:
            return self.tf.compat.v1.wrap_function(body, self.specs(lowering))
        except (NotImplementedError, LookupError, TypeError, ValueError) as error:
            raise UnsupportedOperation(f"backend {self.name} cannot lower {lowering.program!r}: {error}") from error

    def specs(self, lowering: Lowering) -> list[Any]:
        found = [(i, lowering.program.nodes[i]) for i in lowering.program.inputs]
        return [self.tf.TensorSpec(n.shape, n.dtype.value, name=f"{lowering.prefix}a{i}") for i, n in found]

    def failed(self, error: Any) -> BackendError:
        """The error of xbackend for a failure that TensorFlow's runtime reports."""
        first = str(error.message).strip().splitlines()[0] if str(error.message).strip() else "no message"
        codes = self.tf.errors
        # `node` and `where` in TensorFlow's text are the program's own names: n7 is node 7.
        if error.code in (codes.UNIMPLEMENTED, codes.NOT_FOUND, codes.INVALID_ARGUMENT):
            return UnsupportedOperation(f"backend {self.name}: TensorFlow cannot execute this program: {first}")
        return BackendError(f"backend {self.name}: TensorFlow failed while executing: {first}")

    def launch(
        self, function: Any, device: str | None, read: Callable[[Sequence[Value], Sequence[Any]], Mapping[int, Executed]]
    ) -> Built:
        """A concrete function as `Built`; ``read`` makes the records of its first results and collected nodes."""
        runtime, run, handle, failure = self.runtime, self.runtime.run, self.runtime.handle, self.runtime.failure
        name = function.inference_fn.name.decode()
        captured = tuple(function.captured_inputs)
        count = len(function.function_def.signature.output_arg)
        attributes = tuple(itertools.chain.from_iterable(runtime.options.items()))
        done: dict[int, Executed] = {}
        fresh = True

        def execute(*values: Value) -> Sequence[Value]:
            nonlocal fresh
            try:
                if fresh:
                    results, nodes = runtime.collected(
                        lambda: run(handle, device, name, [*values, *captured], attributes, count)
                    )
                    fresh = False
                    done.update(read(results, nodes))
                    return results
                return run(handle, device, name, [*values, *captured], attributes, count)
            except failure as error:
                raise self.failed(error) from error

        # TensorFlow forgets a function whose last reference goes.
        execute.function = function  # type: ignore[attr-defined]
        return Built(execute, lambda: dict(done))

    def describe(self) -> dict[str, Any]:
        tf = self.tf
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        # 0 is TensorFlow's word for 'as many as there are cores'.
        threads = {
            "inter_op": tf.config.threading.get_inter_op_parallelism_threads() or cores,
            "intra_op": tf.config.threading.get_intra_op_parallelism_threads() or cores,
        }
        return {
            "blas": [
                {
                    "api": "blas",
                    "file": _library(tf),
                    "layer": "TensorFlow's own threads",
                    "library": "oneDNN" if _onednn() else "Eigen",
                    "threads": threads["intra_op"],
                    "version": None,  # it is linked in, and does not tell
                }
            ],
            "devices": [str(d) for d in self.devices],
            "soft_placement": tf.config.get_soft_device_placement(),
            "tensor_float_32": tf.config.experimental.tensor_float_32_execution_enabled(),
            "threads": threads,
            "versions": {"numpy": np.__version__, "python": platform.python_version(), "tensorflow": tf.__version__},
        }


def _library(tf: Any) -> str:
    return next((p.name for p in sorted(Path(tf.sysconfig.get_lib()).glob("libtensorflow_cc*"))), "")


def _onednn() -> bool:
    """Whether TensorFlow's oneDNN kernels are on in this process."""
    try:
        from tensorflow.python.util import _pywrap_util_port
    except ImportError:
        return False
    return bool(_pywrap_util_port.IsMklEnabled())


class TensorFlowGraph(_TensorFlow):
    """A graph that TensorFlow optimises, partitions by device and executes."""

    def build(self, program: Program) -> Built:
        lowering = self.lowering(program)
        function = self.graph(lowering)
        return self.launch(function, None, lambda _, nodes: read_partitions(lowering, nodes, self.by_name))


class TensorFlowXLA(_TensorFlow):
    """XLA: one compiled function where the program is on one device, else one for each stage.

    XLA compiles for one device and passes over a `tf.device` inside, so a program on several is cut where values change
    their device, and a graph runs the pieces.
    """

    def build(self, program: Program) -> Built:
        lowering = self.lowering(program, xla=True)
        devices = {n.device for n in program.nodes}
        if len(devices) > 1:
            lowering.staged = True
            function = self.graph(lowering)
            return self.launch(function, None, lambda _, nodes: read_partitions(lowering, nodes, self.by_name))
        name = self.names[Device.parse(devices.pop() or "")]

        def body(*arguments: Any) -> list[Any]:
            return lowering.whole(arguments)[0]

        compiled = self.tf.function(body, input_signature=self.specs(lowering), autograph=False, jit_compile=True)
        function = compiled.get_concrete_function()
        return self.launch(function, name, lambda results, _: self._read(program, results))

    def _read(self, program: Program, results: Sequence[Value]) -> dict[int, Executed]:
        """One compiled function has one device, the one that its results are on."""
        found = {self.device_of(value) for value in results}
        if len(found) != 1:
            return {}
        record = Executed(found.pop(), "XLA computation", "device of the results of the compiled function", "fused")
        return {i: record for i, n in enumerate(program.nodes) if n.op not in ("input", "shared")}


class TensorFlowEager(_TensorFlow):
    """Op by op: the ops of the graph, not optimised, each executed by itself on its device."""

    def build(self, program: Program) -> Built:
        lowering = self.lowering(program)
        function = self.graph(lowering)
        return _Replay(self, lowering, function).built()


class _Replay:
    """The ops of a graph as prepared calls: the op's name, its attributes, its device, where its inputs are found.

    What is constant in the backward ops (shapes, axes) is computed here, once.
    """

    def __init__(self, backend: TensorFlowEager, lowering: Lowering, function: Any) -> None:
        self.backend = backend
        self.lowering = lowering
        self.slots: list[Any] = []
        self.steps: list[tuple[str, str, tuple[int, ...], tuple[Any, ...], int, int, tuple[int, ...]]] = []
        self.made: dict[int, str] = {}  # slot -> name of the op that fills it
        graph = function.graph
        where: dict[Any, int] = {}
        for tensor in graph.inputs[: len(lowering.program.inputs)]:
            where[tensor.ref()] = self._slot(None)
        for outside, tensor in zip(
            function.captured_inputs, graph.inputs[len(lowering.program.inputs) :], strict=True
        ):
            where[tensor.ref()] = self._slot(outside)
        self.constants = set(range(len(lowering.program.inputs), len(self.slots)))
        self.results = graph.outputs
        needed = self._needed(graph)
        for op in graph.get_operations():
            if op in needed and op.type != "Placeholder":
                self._prepare(op, where)
        self.outputs = [where[tensor.ref()] for tensor in graph.outputs]
        self._free_early()

    def _slot(self, value: Any) -> int:
        self.slots.append(value)
        return len(self.slots) - 1

    def _needed(self, graph: Any) -> set[Any]:
        """The ops that the outputs and the updates depend on."""
        found = {tensor.op for tensor in graph.outputs} | set(graph.control_outputs)
        todo = list(found)
        while todo:
            for tensor in todo.pop().inputs:
                if tensor.op not in found:
                    found.add(tensor.op)
                    todo.append(tensor.op)
        return found

    def _prepare(self, op: Any, where: dict[Any, int]) -> None:
        tf, runtime = self.backend.tf, self.backend.runtime
        if op.type == "Const":
            with tf.device(op.device):
                where[op.outputs[0].ref()] = slot = self._slot(tf.constant(tf.make_ndarray(op.get_attr("value"))))
            self.constants.add(slot)
            self.made[slot] = op.name
            return
        inputs = tuple(where[tensor.ref()] for tensor in op.inputs)
        # What begins with an underscore are notes for the graph's optimiser.
        attributes = tuple(
            itertools.chain.from_iterable((k, op.get_attr(k)) for k in op.node_def.attr if not k.startswith("_"))
        )
        first = len(self.slots)
        for tensor in op.outputs:
            slot = where[tensor.ref()] = self._slot(None)
            self.made[slot] = op.name
        prepared = op.type == "Identity" or self.lowering.is_backward(op.name)
        if inputs and prepared and self.constants.issuperset(inputs):
            found = runtime.run(
                runtime.handle, op.device, op.type, [self.slots[j] for j in inputs], attributes, len(op.outputs)
            )
            self.slots[first : first + len(found)] = found
            self.constants.update(range(first, first + len(found)))
            return
        self.steps.append((op.device, op.type, inputs, attributes, len(op.outputs), first, ()))

    def _free_early(self) -> None:
        """Give every step the slots that nothing reads after it, so that memory is free as soon as in a user's code."""
        kept = self.constants | set(self.outputs)
        for k in range(len(self.steps) - 1, -1, -1):
            device, kind, inputs, attributes, count, first, _ = self.steps[k]
            mine = {*inputs, *range(first, first + count)}
            last = tuple(sorted(mine - kept))
            kept |= mine
            self.steps[k] = (device, kind, inputs, attributes, count, first, last)

    def built(self) -> Built:
        run, handle, failure = self.backend.runtime.run, self.backend.runtime.handle, self.backend.runtime.failure
        template, steps, outputs = self.slots, self.steps, self.outputs
        devices, ran = self.backend.by_name, dict[str, tuple[str, Device]]()
        done: dict[int, Executed] = {}
        fresh = True

        def execute(*values: Value) -> Sequence[Value]:
            nonlocal fresh
            slots = template.copy()
            slots[: len(values)] = values
            try:
                for device, kind, inputs, attributes, count, first, last in steps:
                    slots[first : first + count] = found = run(
                        handle, device, kind, [slots[j] for j in inputs], attributes, count
                    )
                    if fresh and found:
                        ran[self.made[first]] = (kind, devices[found[0].backing_device])
                    for j in last:
                        slots[j] = None
            except failure as error:
                raise self.backend.failed(error) from error
            if fresh:
                fresh = False
                done.update(self._read(ran))
            return [slots[j] for j in outputs]

        return Built(execute, lambda: dict(done))

    def _read(self, ran: dict[str, tuple[str, Device]]) -> dict[int, Executed]:
        for slot, name in self.made.items():
            if slot in self.constants:
                ran[name] = ("Const", self.backend.by_name[self.slots[slot].backing_device])
        return records(self.lowering, ran, {}, "device of the result")
