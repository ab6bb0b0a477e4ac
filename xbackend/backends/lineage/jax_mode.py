"""The JAX mode of the Theano lineage: a graph of the framework becomes a function that JAX compiles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from xbackend.backends.jax.devices import JAXDevices
from xbackend.backends.lineage.adapter import LineageBackend
from xbackend.backends.lineage.indices import clipped
from xbackend.backends.staged.backend import CompiledStage
from xbackend.devices import Device
from xbackend.program.stages import Variable


class JAXMode(JAXDevices, LineageBackend):
    """One function compiled by JAX for a device of JAX."""

    linker_name = "jax"
    finds_lengths = True
    mode_added: ClassVar[tuple[str, ...]] = (
        "sums and constants in the dtypes of the graph",
        "shapes checked while tracing only",
    )
    folds = True  # XLA does

    def start_mode(self) -> Iterable[Device]:
        self.needed("jax")
        self.module("link.jax.dispatch")  # sets jax_enable_x64 from floatX, when it is imported first
        devices = super().start_mode()
        jax = self.jax

        class ExactLinker(self.module("link.jax").JAXLinker):  # type: ignore[misc]
            def jit_compile(self, function: Any) -> Any:
                dtypes = [v.type.dtype for v in self.fgraph.outputs]

                def exact(*values: Any) -> Any:
                    results = function(*values)
                    return tuple(jax.numpy.asarray(r, dtype=d) for r, d in zip(results, dtypes, strict=True))

                return jax.jit(exact)

        modes = self.module("compile.mode")
        self.compile_mode = modes.Mode(linker=ExactLinker(), optimizer=modes.get_mode("JAX").provided_optimizer)
        return devices

    def prepare(self) -> None:
        """Replace functions whose results in JAX would not have the graph's dtypes, and functions that fail there."""
        jnp, module = self.jax.numpy, self.module
        basic = module("link.jax.dispatch.basic")

        register, theirs = basic.jax_funcify.register, basic.jax_funcify.dispatch
        reduction, loop = module("tensor.elemwise").CAReduce, module("scan.op").Scan
        constant = module("graph.basic").Constant
        their_reduction, their_loop = theirs(reduction), theirs(loop)

        def reduce(op: Any, node: Any = None, **options: Any) -> Any:
            function, dtype = their_reduction(op, node=node, **options), node.outputs[0].dtype
            return lambda x: function(x).astype(dtype)

        def scan(op: Any, node: Any = None, **options: Any) -> Any:
            function, inputs = their_loop(op, node=node, **options), node.inputs
            lengths = [0, *op.outer_nitsot(range(len(inputs)))]
            known = {k: int(inputs[k].data) for k in lengths if isinstance(inputs[k], constant)}
            return lambda *given: function(*[known.get(k, value) for k, value in enumerate(given)])

        def product(op: Any, node: Any = None, **_: Any) -> Any:
            axis, dtype = None if op.axis is None else tuple(op.axis), node.outputs[0].dtype
            return lambda x: jnp.prod(jnp.where(x == 0, 1, x), axis=axis).astype(dtype)

        # Else constants of rank 0 become Python numbers, int64 or float64 unless the op decides otherwise.
        basic.jax_typify.register(np.ndarray)(lambda data, dtype=None, **_: jnp.array(data, dtype=dtype or data.dtype))
        register(reduction)(reduce)  # else sums of float32 have the accumulator's dtype, float64
        register(loop)(scan)  # it needs Python numbers for its lengths, which are constants of rank 0
        register(module("tensor.math").ProdWithoutZeros)(product)  # of the gradient of a product; JAX has none
        # The framework's compares the shape with traced values. The shapes of a program are static and were checked.
        register(module("tensor.shape").SpecifyShape)(lambda op, **_: lambda x, *shape: x)

    def in_range(self, indices: Variable, length: int) -> Variable:
        return clipped(self.T, indices, length)

    def innermost(self, function: Any, inputs: Sequence[Any], device: Device) -> CompiledStage:
        return self.compiled(function.vm.jit_fn.__wrapped__, inputs, device)
