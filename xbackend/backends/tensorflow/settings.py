"""TensorFlow's settings before its first use in a process: devices, thread pools, and defaults switched off."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from xbackend import cores
from xbackend.devices import Device
from xbackend.errors import BackendUnavailable

if TYPE_CHECKING:
    from xbackend.backends.contract import Settings


def configure(tf: Any, wanted: Settings, name: str, *, overlap: bool = True) -> None:
    """Apply the settings of the backend ``name``; ``overlap``: its devices compute at the same time. Raises
    `BackendUnavailable` where TensorFlow is in use with other settings."""
    before = partial(_before_start, name)
    tf.config.set_soft_device_placement(False)
    tf.config.experimental.enable_tensor_float_32_execution(False)
    if wanted.threads is not None:
        # An op computes with the intra-op pool, or, if that has one thread, in its starting thread. The inter-op pool
        # starts ops: with a thread for each device, and one more that waits, several devices take no turns.
        computing = starting = wanted.threads
        if wanted.cores_per_device is not None:
            starting = wanted.virtual_devices + (wanted.virtual_devices > 1)
            if overlap and computing > 1:
                computing *= wanted.virtual_devices
        for pool, count in (("intra_op", computing), ("inter_op", starting)):
            setter = getattr(tf.config.threading, f"set_{pool}_parallelism_threads")
            before(f"threads={count}", setter, count, met=partial(lambda p, n: pools(tf)[p] == n, pool, count))
    cpus = tf.config.list_physical_devices("CPU")
    if wanted.virtual_devices > 1 and cpus:
        pretend = [tf.config.LogicalDeviceConfiguration()] * wanted.virtual_devices
        before(
            *(
                f"virtual_devices={wanted.virtual_devices}",
                tf.config.set_logical_device_configuration,
                cpus[0],
                pretend,
            ),
            met=lambda: len(tf.config.list_logical_devices("CPU")) >= wanted.virtual_devices,
        )
    gpus = tf.config.list_physical_devices("GPU")
    hidden = wanted.visible is not None and all(Device.parse(v).kind != "gpu" for v in wanted.visible)
    if gpus and hidden:
        before("visible", tf.config.set_visible_devices, [], "GPU", met=lambda: True)
    for gpu in () if hidden else gpus:
        # Else it takes all memory of the GPU at once.
        before("memory growth", tf.config.experimental.set_memory_growth, gpu, True, met=lambda: True)


def _before_start(name: str, what: str, setter: Callable[..., None], *arguments: Any, met: Callable[[], bool]) -> None:
    """Apply a setting that TensorFlow accepts before its first use. Raises `BackendUnavailable` if that is over."""
    try:
        setter(*arguments)
    except RuntimeError as error:
        if not met():
            raise BackendUnavailable(
                f"backend {name} cannot have {what} in this process: TensorFlow was already in use with "
                f"another setting ({error}); open it with isolated=True, or before anything uses TensorFlow"
            ) from error


def pools(tf: Any) -> dict[str, int]:
    sizes = {p: getattr(tf.config.threading, f"get_{p}_parallelism_threads")() for p in ("inter_op", "intra_op")}
    return {pool: size or cores.count() for pool, size in sizes.items()}  # 0 means the number of cores
