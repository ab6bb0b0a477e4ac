"""JAX's devices and arrays. JAX computes asynchronously."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from xbackend.backends.contract import Value
from xbackend.backends.jax.absent import lowered
from xbackend.backends.staged.backend import CompiledStage, StagedBackend
from xbackend.backends.threads import Pool
from xbackend.devices import Device, choose_visible
from xbackend.errors import BackendUnavailable, DeviceUnavailable, UnsupportedOperation
from xbackend.program.host import native


@cache
def _compiled(jax: Any) -> Counter[str]:
    """A count of XLA's compilations from now on."""
    counted = Counter(jax=0)

    def listen(event: str, seconds: float, **_: Any) -> None:
        # Traces and lowerings, which JAX repeats without a compilation, are events below ``compile``, too.
        counted["jax"] += event.endswith("/backend_compile_duration")

    jax.monitoring.register_event_duration_secs_listener(listen)
    return counted


_before: dict[str, Any] = {}  # what the open backends have changed in JAX's configuration, which an interpreter has
_holders = Counter[str]()  # by name: the number of these backends


def _hold(config: Any, wanted: Mapping[str, Any]) -> None:
    """Change the configuration until `_release`."""
    for name, value in wanted.items():
        _before.setdefault(name, getattr(config, name))
        _holders[name] += 1
        config.update(name, value)


def _release(config: Any, names: Iterable[str]) -> None:
    """End one `_hold`; the last one of a name restores it."""
    for name in names:
        _holders[name] -= 1
        if not _holders[name]:
            config.update(name, _before.pop(name))


class JAXDevices(StagedBackend):
    """Values are JAX arrays, each on a device of JAX; a stage is a function that JAX compiles for its device."""

    packages: tuple[str, ...] = ("jax", "jaxlib")
    refuses = False
    lowers = True
    common_pool = "XLA"
    evidence = "device of the stage's outputs, as JAX says"
    overlap = "those on different devices overlap: JAX computes them while Python goes on"

    def start_mode(self) -> Iterable[Device]:
        self.jax = jax = self.needed("jax")
        _compiled(jax)
        settings = self.settings
        # Else it takes most of a GPU's memory at once: https://docs.jax.dev/en/latest/gpu_memory_allocation.html
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        forced = "xla_force_host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
        absent = tuple(map(Device.parse, settings.lower_for))
        number = settings.virtual_devices + len(absent)
        if number > 1 and not forced:
            # JAX refuses once it has computed in this process; its devices may be enough.
            with contextlib.suppress(RuntimeError):
                jax.config.update("jax_num_cpu_devices", number)
        try:
            host = jax.local_devices(backend="cpu")  # not of other processes of a cluster
        except (RuntimeError, AssertionError) as error:  # JAX asserts that it has a device
            raise BackendUnavailable(
                f"backend {self.name} needs JAX's CPU device, also beside a GPU: {error or 'it has no device'}; unset "
                "JAX_PLATFORMS, or let it end with ,cpu"
            ) from error
        if len(host) < number:
            raise DeviceUnavailable(
                f"backend {self.name} was asked for {number} virtual devices, but JAX was started in "
                f"this process with cpu:0 to cpu:{len(host) - 1}; open it with isolated=True"
            )
        others = () if absent else [d for d in jax.local_devices() if d.platform != "cpu"]
        every = [*host[: settings.virtual_devices], *others]
        counts = Counter[str]()
        self.ours: dict[Any, Device] = {}
        for theirs in every:
            kind = "gpu" if theirs.platform in ("gpu", "cuda", "rocm") else theirs.platform
            self.ours[theirs] = Device(kind, counts[kind])
            counts[kind] += 1
        self.ours.update(zip(host[settings.virtual_devices :], absent, strict=False))
        self.theirs = {ours: theirs for theirs, ours in self.ours.items()}
        # Not from floatX or the environment, and not TF32, JAX's default on a GPU.
        alone = not any(device.is_accelerator for device in self.theirs)
        wanted = {"jax_default_matmul_precision": None if alone else "highest", "jax_enable_x64": True}
        if settings.own_cache:  # JAX's cache on disk may be configured
            wanted["jax_compilation_cache_dir"] = None
        _hold(jax.config, wanted)
        self._released = weakref.finalize(self, _release, jax.config, tuple(wanted))
        return choose_visible(self.ours.values(), settings.visible)

    def shut(self) -> None:
        super().shut()
        self._released()

    def put(self, array: np.ndarray, device: Device) -> Value:
        # JAX may use the memory of the array itself, so it gets a copy.
        return self.jax.device_put(np.array(native(array), order="C"), self.theirs[device])

    def mover(self, device: Device) -> Callable[[Value], Value]:
        return partial(self.jax.device_put, device=self.theirs[device])

    def device_of(self, value: Value) -> Device:
        (theirs,) = value.devices()
        return self.ours[theirs]

    def synchronize(self, values: Iterable[Value]) -> None:
        self.jax.block_until_ready(list(values))

    def finish(self, contents: Sequence[Any]) -> None:
        self.jax.block_until_ready(contents)

    def compiled(
        self, function: Callable[..., Any], inputs: Sequence[Any], device: Device, donated: Sequence[int] = ()
    ) -> CompiledStage:
        """The function jitted for a device, for inputs with shape and dtype. A call consumes the ``donated`` ones."""
        jax = self.jax
        sharding = jax.sharding.SingleDeviceSharding(self.theirs[device])
        # With the device named, a value on another device is an error and does not move the computation.
        call = jax.jit(function, out_shardings=sharding, donate_argnums=tuple(donated))
        unknown = any(None in t.shape for t in inputs)
        if unknown and not self.settings.lower_for:
            return CompiledStage(call, device)
        if unknown:
            raise UnsupportedOperation(
                f"backend {self.name} does not know the shapes of a stage on {device} in advance"
            )
        specs = [jax.ShapeDtypeStruct(t.shape, t.dtype, sharding=sharding) for t in inputs]
        if self.settings.lower_for:
            return CompiledStage(lowered(call, specs, [device]), device)
        # Compiled now; the first call finds it in JAX's cache.
        compiled = call.lower(*specs).compile()
        (theirs,) = set().union(*(s.device_set for s in compiled.output_shardings))
        return CompiledStage(call, self.ours[theirs])

    def compilations(self) -> dict[str, int]:
        return dict(_compiled(self.jax))

    def memory_peaks(self) -> dict[str, int]:
        """Of accelerators only: JAX does not count main memory."""
        told = {ours: theirs.memory_stats() or {} for theirs, ours in self.ours.items() if ours.is_accelerator}
        return {str(ours): stats["peak_bytes_in_use"] for ours, stats in told.items() if "peak_bytes_in_use" in stats}

    def is_out_of_memory(self, error: BaseException) -> bool:
        return super().is_out_of_memory(error) or "RESOURCE_EXHAUSTED" in str(error)[:500]

    def own_threads(self) -> dict[str, int | None]:
        """The size of XLA's pool, counted by thread names of this process (Linux)."""
        try:
            names = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
        except OSError:
            return {"XLA": None}
        # JAX before 0.10 did not name them.
        return {"XLA": sum(name.startswith("tf_XLAEigen") for name in names) or None}

    def products(self) -> Pool:
        own = "XLA's own"
        beside = any(device.is_accelerator for device in self.devices)
        return Pool(f"{own}, cuBLAS or the like on GPUs" if beside else own, threads=self.own_threads()["XLA"])

    def compiler_settings(self) -> dict[str, Any]:
        config = self.jax.config
        own = {"precision": config.jax_default_matmul_precision, "x64": config.jax_enable_x64}
        return super().compiler_settings() | own
