"""The original Theano on its own contexts: one graph over several devices of CUDA, or of OpenCL through PoCL.

A program is one Theano function. A value is a `pygpu.gpuarray.GpuArray`, a shared variable one of Theano's with a
``target``, a transfer becomes Theano's own `GpuToGpu`.

Theano's ``x.transfer(context)`` does not keep what is before it on its context: while x is still an op of the CPU in
the graph, moving it is a copy to a device and back, which the canonicalisation drops, and both sides end up on one
context. So a transfer of the program is the op of `placed`, which no optimisation knows, until it is lifted to
`GpuToGpu` together with what it moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from xbackend.backends.assembly import Lowered
from xbackend.backends.contract import Built, Value
from xbackend.backends.description import Description
from xbackend.backends.gpuarray import contexts, opencl
from xbackend.backends.gpuarray.records import Reader, follower, mark
from xbackend.backends.lineage.adapter import Variable
from xbackend.backends.lineage.host_modes import CMode
from xbackend.backends.lineage.ops import Row
from xbackend.backends.lineage.theano import Theano, ones
from xbackend.backends.modes import Compiled
from xbackend.backends.placed import cut
from xbackend.backends.threads import Pool
from xbackend.devices import Device, choose_visible
from xbackend.program.host import native
from xbackend.program.program import Node, Program, generate

if TYPE_CHECKING:
    from xbackend.program.shared import SharedVariable


class GpuArrayMode(CMode):
    """Theano's virtual machine in C over ops for its contexts. Values are pygpu's arrays."""

    backend: Theano
    name = "gpuarray"
    added: tuple[str, ...] = (*CMode.added, "ops that Theano has for CUDA only, made of others for OpenCL")
    stages = "one function for all devices, whose ops are queued one after the other"
    packages = ()
    evidence = "context of the op in the optimised graph"

    def start(self) -> Iterable[Device]:
        backend = self.backend
        gpuarray = backend.module("gpuarray")
        self._contexts = contexts.start(backend.name, gpuarray, backend.settings.virtual_devices)
        self._device = {id(context): device for device, context in self._contexts.items()}
        self._array = backend.module("gpuarray.type").gpuarray.array
        self._lift_transfers()
        follow = follower(backend.module("gof").Optimizer, backend.module("gof.toolbox").Feature)
        # Lifting a graph as a whole fails where an array is made of nothing: it asks for a default context, and there
        # is none (theano/gpuarray/opt.py, GraphToGPU). Theano then lifts op by op. And its products of a matrix and a
        # vector start from memory that holds anything, times 0, which is NaN where CLBlast finds NaN there.
        wrong = ("gpuarray_graph_optimization", "local_gemm_to_gemv")
        self.compile_mode = self.make().register((follow, 0)).excluding(*wrong)
        return choose_visible(self._contexts, backend.settings.visible)

    def _lift_transfers(self) -> None:
        """A transfer of the program to Theano's own, when what it moves is on a context."""
        backend, ops = self.backend, self.backend.module("gpuarray.basic_ops")
        database, local = backend.module("gpuarray.opt").gpu_optimizer, backend.module("gof").local_optimizer

        def lift(node: Any) -> list[Variable]:
            # Theano's own takes strided memory for that of a transposed matrix (GpuToGpu.c_code: GA_F_ORDER).
            here = ops.gpu_contiguous(ops.as_gpuarray_variable(node.inputs[0], str(node.op.source)))
            return [ops.GpuToGpu(str(node.op.target))(here).transfer("cpu")]

        lift.__name__ = "xbackend_transfer"
        database.register(lift.__name__, local([backend.Transfer])(lift), "fast_run", "fast_compile", "gpuarray")

    @property
    def plain(self) -> bool:
        return True  # a program is one function, however many devices it has

    def put(self, array: np.ndarray, device: Device) -> Value:
        return self._array(np.array(native(array), order="C"), context=self._contexts[device])

    def device_of(self, value: Value) -> Device:
        return self._device[id(value.context)]

    def synchronize(self, values: Iterable[Value]) -> None:
        for value in values:
            value.sync()

    def innermost(self, function: Any, inputs: Sequence[Any], device: Device) -> Compiled:
        return Compiled(self.whole(function, len(inputs), (), len(function.maker.fgraph.outputs)), device)

    def whole(self, function: Any, inputs: int, constants: Sequence[Value], outputs: int) -> Callable[..., Any]:
        """Theano's innermost callable for ``inputs`` inputs, the last of them constant."""
        machine = function.fn
        given = [container.storage for container in function.input_storage[:inputs]]
        # An update to another shared variable's value has the storage of that for its own: it stays.
        kept = {id(container.storage) for container in function.input_storage}
        results = [c.storage for c in function.output_storage if id(c.storage) not in kept]

        alone = self.backend.lock  # a call's inputs and outputs are in the function's storage, and contexts are shared

        def call(*values: Value) -> Sequence[Value]:
            with alone:
                for storage, value in zip(given, (*values, *constants), strict=True):
                    storage[0] = value
                outcome: list[Value] = machine()
                # What is left in a storage is used again by the next call: an output would be overwritten.
                for storage in results:
                    storage[0] = None
                for storage in given:
                    storage[0] = None
                return outcome[:outputs]

        return call

    def contexts(self) -> dict[str, str]:
        """What each device is, as its driver says."""
        return {str(device): str(context.devname) for device, context in self._contexts.items()}

    def blas(self) -> Pool:
        names = {"gpu": "cuBLAS", "cpu": "CLBlast"}
        libraries = ", ".join(sorted({names[device.kind] for device in self._contexts}))
        return Pool(f"{libraries} as libgpuarray loads it")


class TheanoGpuArray(Theano):
    """Theano on its contexts."""

    computes = GpuArrayMode
    mode: GpuArrayMode
    rows: ClassVar[Mapping[str, Row]] = opencl.rows(Theano.rows)
    compiles = "theano-contexts"  # it compiles for minutes, and the backend of the C linker would wait for it

    def start(self) -> Iterable[Device]:
        contexts.prepare(self.name, self.settings.virtual_devices, self.settings.threads)
        return super().start()

    def transfer(self, op: type, apply: type) -> type:
        class Transfer(super().transfer(op, apply)):  # type: ignore[misc]
            """What is constant is on no device, and is folded on its way."""

            def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
                output_storage[0][0] = np.array(inputs[0])

        return Transfer

    def variable(self, node: Node, name: str) -> Variable:
        kind = self.module("gpuarray.type").GpuArrayType
        return kind(node.dtype.value, ones(node), context_name=node.device)(name=name)

    def new_storage(self, variable: SharedVariable, array: np.ndarray, device: Device) -> Any:
        pattern = tuple(length == 1 for length in variable.shape)
        return self.framework.shared(np.array(array, order="C"), target=str(device), broadcastable=pattern)

    def read_storage(self, storage: Any) -> np.ndarray:
        return np.array(storage.get_value(borrow=False))

    def write_storage(self, storage: Any, array: np.ndarray) -> None:
        storage.set_value(np.array(array, order="C"), borrow=False)

    def describe(self) -> Description:
        described = super().describe()
        pygpu = {"pygpu": self.module("gpuarray").pygpu.__version__}
        return replace(described, versions=described.versions | pygpu, notes=described.notes | self.mode.contexts())

    def _lower_node(self, graph: Lowered, i: int, node: Node) -> Variable:
        if node.op == "shared":
            graph.shared[i] = self.storage(graph.program.shared[i])
            return graph.shared[i].transfer("cpu")
        variable = super()._lower_node(graph, i, node)
        # The ops of a program are those of the CPU; Theano lifts them to the context of their inputs.
        return variable.transfer("cpu") if variable in graph.sources else variable

    def build(self, program: Program) -> Built:
        # Traces are ours: they say which nodes of the program an op of the optimised graph comes from.
        flags = {"floatX": "float64", "traceback.limit": 0, "traceback.compile_limit": 0}
        with self._deep(len(program.nodes)), self.changed_flags(**flags):
            return self._compile(self._lower(program))

    def _compile(self, graph: Lowered) -> Built:
        program = graph.program
        sources = {**graph.sources, **{variable: graph.device(i) for i, variable in graph.shared.items()}}
        wanted = [(graph.variables[i], graph.device(i)) for i in (*program.outputs, *program.updates.values())]
        plan = cut(sources, wanted, self.Transfer)  # not run in stages, but it says which device each op belongs to
        marks = mark(graph, {v: stage.device for v, stage in plan.stage_of.items()})

        def at_home(i: int) -> Variable:
            return graph.variables[i].transfer(str(graph.device(i)))

        inputs = [*graph.arguments, *graph.resident.values()]
        outputs = [at_home(i) for i in program.outputs]
        updates = [(graph.shared[i], at_home(new)) for i, new in program.updates.items()]
        try:
            function = self.framework.function(
                inputs, outputs, updates=updates, mode=self.mode.compile_mode, on_unused_input="ignore"
            )
        except Exception as error:
            raise self.unsupported(program.name, None, error) from error
        constants = [self.put(np.array(generate(program.nodes[i])), graph.device(i)) for i in graph.resident]
        call = self.mode.whole(function, len(inputs), constants, len(outputs))
        return Built(call, Reader(graph, marks, function.maker.fgraph).execution)
