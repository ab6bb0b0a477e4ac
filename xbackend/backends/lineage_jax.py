"""The JAX mode of the Theano lineage: values are JAX arrays, computed on JAX's devices while Python goes on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from xbackend.backends.base import Value
from xbackend.backends.lineage_modes import Compiled, Mode
from xbackend.devices import Device, choose_visible
from xbackend.errors import BackendUnavailable, DeviceUnavailable


class JAXMode(Mode):
    """One function compiled by JAX for a device of JAX."""

    name = "JAX"
    linker_name = "jax"
    packages = ("jax", "jaxlib")
    mutates = False
    evidence = "device of the stage's outputs, as JAX says"
    stages = "those on different devices overlap: JAX computes them while Python goes on"

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
        # Not the environment's, and not TF32, which is what JAX takes on a GPU where nothing is said.
        alone = all(theirs.platform == "cpu" for theirs in found)
        jax.config.update("jax_default_matmul_precision", None if alone else "highest")
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

        # Theirs compare the shape with traced values. The shapes of a program are known and were checked.
        @basic.jax_funcify.register(module("tensor.shape").SpecifyShape)  # type: ignore[untyped-decorator]
        def specify_shape(op: Any, **_: Any) -> Any:
            return lambda x, *shape: x

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

    def mover(self, device: Device) -> Callable[[Value], Value]:
        mover: Callable[[Value], Value] = partial(self._jax.device_put, device=self._theirs[device])
        return mover

    def device_of(self, value: Value) -> Device:
        (theirs,) = value.devices()
        return self._device[theirs]

    def synchronize(self, values: Iterable[Value]) -> None:
        self._jax.block_until_ready(list(values))

    def finish(self, contents: Sequence[Any]) -> None:
        self._jax.block_until_ready(contents)

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
        config = self._jax.config
        return {
            "name": "XLA's own",
            "version": None,
            "file": None,
            "threads": self.threads()["XLA"],
            "precision": config.jax_default_matmul_precision,
            "x64": config.jax_enable_x64,
        }
