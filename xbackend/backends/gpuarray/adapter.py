"""The original Theano on its own contexts: one function, and graph, over several devices of CUDA, or of OpenCL through
PoCL, with values of pygpu and shared variables of Theano with a ``target``. Theano's ``x.transfer(context)`` is
canonicalised away while x is an op of the CPU in the graph, and both sides end on one context. So a transfer is the op
`FoldedTransfer` of our own, until it is lifted to `GpuToGpu` together with its input."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, ClassVar

import numpy as np

from xbackend.backends.contract import Built, Value
from xbackend.backends.description import IN_TURN, Description
from xbackend.backends.gpuarray import contexts, opencl
from xbackend.backends.gpuarray.records import Reader, follower, mark
from xbackend.backends.lineage.control_flow import UNROLLED
from xbackend.backends.lineage.host_modes import CMode, call_of
from xbackend.backends.lineage.indices import clipped
from xbackend.backends.lineage.ops import BYTES, joined, written_as
from xbackend.backends.lineage.rewrites import attaching
from xbackend.backends.lineage.shapes import lengths
from xbackend.backends.lineage.theano import Theano, ones
from xbackend.backends.rows import LoweringRow
from xbackend.backends.staged.assembly import FrameworkGraph
from xbackend.backends.staged.graph import cut
from xbackend.backends.threads import Pool
from xbackend.devices import Device, choose_visible
from xbackend.program import analyses
from xbackend.program.dtypes import DType
from xbackend.program.host import native
from xbackend.program.program import Node, generate
from xbackend.program.shared import SharedVariable
from xbackend.program.stages import Variable

# lib/CL/devices/pthread/pthread_scheduler.c has one `scheduler` for all devices, and no setting for threads by device.
_ONE_POOL = f"{IN_TURN}PoCL's devices have one pool of threads"


_ROWS: Mapping[str, LoweringRow] = {
    **Theano.rows,
    # Theano's code for writing rows lacks uint8 (GpuAdvancedIncSubtensor1_dev20, theano/gpuarray/subtensor.py).
    **{n: partial(written_as, n, carried={**BYTES, DType.uint8: "int32"}) for n in ("take_set", "take_add")},
    "stack": lambda T, node, inputs: joined(T, inputs, node.params["axis"]),
}


class TheanoGpuArray(CMode, Theano):
    """Theano on its contexts: the virtual machine in C runs their ops. Values are pygpu's arrays."""

    mode_added: ClassVar[tuple[str, ...]] = (
        *CMode.mode_added,
        "ops that Theano has for CUDA only, made of others for OpenCL",
        f"loops unrolled, up to {UNROLLED} steps, and choices of results that are both computed",
    )
    overlap = "one function for all devices, whose ops are queued one after the other"
    digamma_dtypes = ("float64",)  # PoCL ends by SIGSEGV while it compiles it in float32
    rows: ClassVar[Mapping[str, LoweringRow]] = opencl.rows(_ROWS)
    # GraphToGPU (theano/gpuarray/opt.py) needs a default context for generators. Gemv begins with uninitialised memory
    # times 0, which may be NaN in CLBlast. The third one computes a maximum on the host. PoCL ends by SIGSEGV while it
    # compiles what the fourth one makes.
    left_out: ClassVar[tuple[str, ...]] = (
        *Theano.left_out,
        *("gpuarray_graph_optimization", "local_gemm_to_gemv", "local_log_sum_exp", "local_log_add"),
    )
    unrolled = True  # a loop is for CUDA: "This is for CUDA arrays" (pygpu), from theano/gpuarray/type.py
    # Traces are used by `records`: they map ops of the optimised graph to nodes of the program.
    configuration: ClassVar[Mapping[str, Any]] = {"traceback.limit": 0, "traceback.compile_limit": 0}
    compiles = "theano-contexts"  # it compiles for minutes under a lock, for which the C linker's backend would wait

    def start(self) -> Iterable[Device]:
        contexts.prepare(self.name, self.settings.virtual_devices, self.settings.threads)
        return super().start()

    def _configure(self) -> None:
        super()._configure()
        if self.cache is not None:  # also for the kernels that PoCL compiles
            os.environ["POCL_CACHE_DIR"] = str(self.cache.folder / "pocl")

    def start_mode(self) -> Iterable[Device]:
        virtual_devices, folder = self.settings.virtual_devices, self.compiled_folder()
        self._contexts = contexts.start(self.name, self.module("gpuarray"), virtual_devices, folder)
        self._device = {id(context): device for device, context in self._contexts.items()}
        self._array = self.module("gpuarray.type").gpuarray.array
        feature = follower(self.module("gof.toolbox").Feature)
        follow = attaching(self.module("gof").Optimizer, "xbackend_follow", feature)
        self.compile_mode = self.make_mode().register((follow, 0))
        return choose_visible(self._contexts, self.settings.visible)

    def prepare(self) -> None:
        """Lift a transfer of the program to Theano's own when its input is on a context."""
        super().prepare()
        ops, database = self.module("gpuarray.basic_ops"), self.module("gpuarray.opt").gpu_optimizer
        local = self.module("gof").local_optimizer

        def lift(node: Any) -> list[Variable]:
            # GpuToGpu.c_code takes strided memory for a transposed matrix (GA_F_ORDER).
            here = ops.gpu_contiguous(ops.as_gpuarray_variable(node.inputs[0], str(node.op.source)))
            return [ops.GpuToGpu(str(node.op.target))(here).transfer("cpu")]

        lift.__name__ = "xbackend_transfer"
        database.register(lift.__name__, local([self.Transfer])(lift), "fast_run", "fast_compile", "gpuarray")

    def put(self, array: np.ndarray, device: Device) -> Value:
        return self._array(np.array(native(array), order="C"), context=self._contexts[device])

    def device_of(self, value: Value) -> Device:
        return self._device[id(value.context)]

    def synchronize(self, values: Iterable[Value]) -> None:
        for value in values:
            value.sync()

    def products(self) -> Pool:
        names = {"gpu": "cuBLAS", "cpu": "CLBlast"}
        libraries = ", ".join(sorted({names[device.kind] for device in self._contexts}))
        return Pool(f"{libraries} as libgpuarray loads it")

    def transfer(self, op: type, apply: type) -> type:
        class FoldedTransfer(super().transfer(op, apply)):  # type: ignore[misc]
            """It also folds transfers of constants, which are on no device."""

            def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
                output_storage[0][0] = np.array(inputs[0])

        return FoldedTransfer

    def variable(self, node: Node, name: str) -> Variable:
        kind = self.module("gpuarray.type").GpuArrayType
        return kind(node.dtype.value, ones(node), context_name=node.device)(name=name)

    def if_else(self, condition: Variable, then: Variable, otherwise: Variable) -> Variable:
        # Theano leaves an ifelse on the host if one of its sides began there.
        return self.T.switch(condition, then, otherwise)

    def in_range(self, indices: Variable, length: int) -> Variable:
        inside = clipped(self.T, indices, length)  # a check would be made on the host
        inside.tag.lengths = lengths(indices)
        return inside

    def new_storage(self, variable: SharedVariable, array: np.ndarray, device: Device) -> Any:
        return self.framework.shared(np.array(array, order="C"), target=str(device), broadcastable=ones(variable))

    def read_storage(self, storage: Any) -> np.ndarray:
        return np.array(storage.get_value(borrow=False))

    def write_storage(self, storage: Any, array: np.ndarray) -> None:
        storage.set_value(np.array(array, order="C"), borrow=False)

    def describe(self) -> Description:
        of_mode = super().describe()
        pygpu = {"pygpu": self.module("gpuarray").pygpu.__version__}
        notes = {str(device): str(context.devname) for device, context in self._contexts.items()}  # the driver's
        if not any(device.is_accelerator for device in self._contexts):
            notes["stages"] = _ONE_POOL
        return replace(of_mode, versions=of_mode.versions | pygpu, notes=of_mode.notes | notes)

    def _lower_node(self, graph: FrameworkGraph, node: Node, inputs: Sequence[Variable]) -> Variable:
        if node.op == "shared":
            (i,) = node.outputs
            graph.shared[i] = self.storage(graph.program.shared[i])
            return graph.shared[i].transfer("cpu")
        variable = super()._lower_node(graph, node, inputs)
        # Ops are lowered as CPU ops; Theano lifts them to the context of their inputs.
        return variable.transfer("cpu") if variable in graph.sources else variable

    def _compile(self, graph: FrameworkGraph) -> Built:
        program = graph.program
        sources = {**graph.sources, **{variable: graph.device(i) for i, variable in graph.shared.items()}}
        plan = cut(sources, graph.results(), self.Transfer)  # for the device of each op only: nothing runs in stages
        marks = mark(graph, {v: stage.device for v, stage in plan.stage_of.items()})

        def at_home(i: int) -> Variable:
            return graph.variables[i].transfer(str(graph.device(i)))

        inputs = [*graph.arguments, *graph.resident.values()]
        outputs = [at_home(i) for i in program.outputs]
        updates = [(graph.shared[i], at_home(new)) for i, new in program.updates.items()]
        late = updates if analyses.may_refuse(program) else []  # by us: Theano may overwrite a variable and then fail
        results, changed = [*outputs, *(new for _, new in late)], [] if late else updates
        try:
            function = self.framework.function(inputs, results, self.compile_mode, changed, on_unused_input="ignore")
        except Exception as error:
            raise self.unsupported(program.name, None, error) from error
        constants = [self.put(np.array(generate(program.values[i])), graph.device(i)) for i in graph.resident]
        given = [container.storage for container in function.input_storage[: len(inputs)]]
        # The output of an update to another shared variable's value shares that variable's storage, which stays.
        kept = {id(container.storage) for container in function.input_storage}
        made = [c.storage for c in function.output_storage if id(c.storage) not in kept]
        machine = call_of(function.fn, given, made, self.lock)  # contexts are shared by all functions

        def call(*values: Value) -> Sequence[Value]:
            computed = machine(*values, *constants)
            for (variable, _), value in zip(late, computed[len(outputs) :], strict=False):
                variable.container.storage[0] = value
            return computed[: len(outputs)]

        execute = call if constants or program.updates else machine
        return Built(execute, cache(Reader(graph, marks, function.maker.fgraph).execution))
