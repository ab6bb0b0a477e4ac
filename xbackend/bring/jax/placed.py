"""Where arrays are asked to be: a device is one of the program's, a sharding leaves them whole.

What JAX makes of a sharding is its compiler's choice, and the values are those of whole arrays.
"""

from __future__ import annotations

from typing import Any

import xbackend.api.functions as xb
from xbackend.bring.jax.arrays import same
from xbackend.bring.jax.devices import named
from xbackend.bring.jax.walk import Walk, row

row("sharding_constraint", "reshard", "relayout", "layout_constraint", attributes=None)(same)


@row("device_put", attributes=("devices", "srcs", "copy_semantics"))
def device_put(walk: Walk, equation: Any, values: list[Any]) -> Any:
    targets = [device_of(one) for one in equation.params["devices"]]
    pairs = zip(values, targets, strict=True)
    return [value if target is None else xb.to_device(value, target) for value, target in pairs]


def device_of(target: Any) -> str | None:
    """The device of the program that `jax.device_put` is given; `None` for a sharding over several, and for a kind of
    memory."""
    import jax

    if isinstance(target, jax.sharding.SingleDeviceSharding):
        (target,) = target.device_set
    return named(target) if isinstance(target, jax.Device) else None
