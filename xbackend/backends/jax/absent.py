"""JAX's programs for devices that this machine lacks. A CPU device of JAX stands in for each of them while JAX traces,
and the program is lowered for the platform of the absent device: https://docs.jax.dev/en/latest/aot.html"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from xbackend.backends.lowered import LoweredOnly, Part
from xbackend.devices import Device

_PLATFORMS = {"gpu": "cuda"}  # JAX's names of our kinds, where they differ
_DIALECTS = ("stablehlo", "chlo", "mhlo")  # the dialects of computations; others have functions and shardings


def lowered(call: Any, specs: Sequence[Any], devices: Sequence[Device]) -> LoweredOnly:
    """A jitted function, lowered for the platform of these devices, which are of one kind."""
    (kind,) = {device.kind for device in devices}
    platform = _PLATFORMS.get(kind, kind)
    made = call.trace(*specs).lower(lowering_platforms=(platform,))
    ops = Counter(name for name in map(_name, _inside(made.compiler_ir().operation)) if name)
    return LoweredOnly(Part("", tuple(devices), platform, dict(ops), made.as_text()))


def _inside(op: Any) -> Iterator[Any]:
    """The ops in the regions of an op of MLIR, at any depth."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from _inside(inner.operation)


def _name(op: Any) -> str:
    """An op's name, with the target of a call to code outside of XLA; empty for an op that computes nothing."""
    if op.name.partition(".")[0] not in _DIALECTS or op.name.endswith(".return"):
        return ""
    target = op.attributes["call_target_name"].value if "call_target_name" in op.attributes else ""
    return f"{op.name} {target}".strip()
