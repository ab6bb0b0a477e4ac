"""JAX's devices: their number in the importer's process, and their names in a program."""

from __future__ import annotations

import os
from typing import Any

FLAGS, PLATFORMS, NUMBER = "XLA_FLAGS", "JAX_PLATFORMS", "JAX_NUM_CPU_DEVICES"
_FORCED = "--xla_force_host_platform_device_count"
CPUS = 8


def prepare() -> None:
    """Let the next import of JAX find eight CPU devices, so that the user's meshes can be made on any machine. His own
    variables count."""
    os.environ.setdefault(PLATFORMS, "cpu")
    flags = os.environ.get(FLAGS, "")
    if _FORCED not in flags and NUMBER not in os.environ:
        os.environ[FLAGS] = f"{flags} {_FORCED}={CPUS}".lstrip()


def named(device: Any) -> str:
    """A device of JAX's default platform as a logical device, one of another platform as itself."""
    import jax

    return f"dev{device.id}" if device.platform == jax.default_backend() else f"{device.platform}:{device.id}"
