"""JAX's devices: their number in the importer's process, their names in a program, and the row of `jax.device_put`.

A device of JAX is a logical device of the program. A sharding is dropped, and its array stays whole: what each device
computes is the choice of JAX's compiler.
"""

from __future__ import annotations

import os
from typing import Any

import xbackend.api.functions as xb
from xbackend.bring.jax.arrays import same
from xbackend.bring.jax.walk import JaxprWalk, row

_FORCED = "--xla_force_host_platform_device_count"


def prepare() -> None:
    """Set environment variables such that JAX, imported next, has eight CPU devices: the user's meshes can be made on
    any machine. What the user has set stays."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    flags = os.environ.get("XLA_FLAGS", "")
    if _FORCED not in flags and "JAX_NUM_CPU_DEVICES" not in os.environ:
        os.environ["XLA_FLAGS"] = f"{flags} {_FORCED}=8".lstrip()


def named(device: Any) -> str:
    """The name of a device in a program: ``dev1`` on JAX's default platform, ``cpu:1`` on another one."""
    import jax

    return f"dev{device.id}" if device.platform == jax.default_backend() else f"{device.platform}:{device.id}"


row("sharding_constraint", "reshard", "relayout", "layout_constraint", attributes=None)(same)


@row("device_put", attributes=("devices", "srcs", "copy_semantics"))
def device_put(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    pairs = zip(values, map(device_of, equation.params["devices"]), strict=True)
    return [value if target is None else xb.to_device(value, target) for value, target in pairs]


def device_of(target: Any) -> str | None:
    """The name of the device to which `jax.device_put` moves; `None` for other shardings and for a kind of memory."""
    import jax

    if isinstance(target, jax.sharding.SingleDeviceSharding):
        (target,) = target.device_set
    return named(target) if isinstance(target, jax.Device) else None
