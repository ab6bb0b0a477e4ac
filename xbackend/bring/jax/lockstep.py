"""`shard_map`: each equation of its body is walked at all positions of the mesh, at each on the device there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.tracing.scopes import device as scope
from xbackend.bring.jax.meshes import Mesh, Split, mesh_of, split_of
from xbackend.bring.jax.walk import ROWS, JaxprWalk, inner_jaxprs, opened, row, together


class Lockstep(JaxprWalk):
    """The walks of one jaxpr at all positions of a mesh. A value is a tuple, with an array for each position."""

    def __init__(self, mesh: Mesh, walks: Sequence[JaxprWalk]) -> None:
        super().__init__()
        self.mesh, self.walks = mesh, walks

    def each(self, function: Callable[..., Any], *values: Any) -> Any:
        """The results of a function of the values at each position, computed on the device there."""
        found = []
        for device, own in zip(self.mesh.devices, zip(*values, strict=True), strict=True):
            with scope(device):
                found.append(function(*own))
        return tuple(found)

    def begin(self, closed: Any, arguments: Sequence[Any]) -> None:
        for position, walk in enumerate(self.walks):
            walk.begin(closed, [one[position] for one in arguments])

    def walked(self, equation: Any) -> None:
        if together(equation):
            super().walked(equation)
        else:
            self.each(lambda walk: walk.walked(equation), self.walks)

    def put(self, equation: Any, found: Sequence[Any]) -> None:
        for position, walk in enumerate(self.walks):
            walk.put(equation, [one[position] for one in found])

    def within(self, closed: Any, atoms: Sequence[Any]) -> JaxprWalk:
        return Lockstep(self.mesh, [walk.within(closed, atoms) for walk in self.walks])

    def value(self, atom: Any) -> Any:
        return self.each(lambda walk: walk.value(atom), self.walks)

    def is_constant(self, atom: Any) -> bool:
        return all(walk.is_constant(atom) for walk in self.walks)

    def known(self, atom: Any) -> np.ndarray | None:
        """The value where it is known and equal at all positions, else `None`."""
        first, *others = (walk.known(atom) for walk in self.walks)
        same = first is not None and all(one is not None and np.array_equal(one, first) for one in others)
        return first if same else None


def _lacks(equation: Any) -> str:
    params = equation.params
    if any(getattr(one, "unreduced", None) for one in (*params["in_specs"], *params["out_specs"])):
        return "an argument or a result of unreduced parts has no row: write psum in the body"
    if _has(opened(params["jaxpr"])[0], equation.primitive.name):
        return "one inside of another has no row: write one over the axes of both"
    return ""


def _has(jaxpr: Any, name: str) -> bool:
    """Whether a primitive is in a jaxpr, or in one inside of it."""
    each = [one for one in jaxpr.eqns if one.primitive.name in ROWS]
    return any(one.primitive.name == name or any(_has(inner, name) for inner in inner_jaxprs(one)) for one in each)


_SHARD_MAP = ("mesh", "in_specs", "out_specs", "check_vma", "newly_manual_axes", "manual_axes")


@row("shard_map", attributes=_SHARD_MAP, inner=("jaxpr",), together=True, lacks=_lacks)
def shard_map(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    """Arguments are split, and results joined, on the device outside. A result that another `shard_map` takes in the
    same shards stays on its devices."""
    params, closed = equation.params, equation.params["jaxpr"]
    mesh = mesh_of(params["mesh"], params.get("newly_manual_axes", params.get("manual_axes")))
    given, atoms = [], []
    for atom, value, spec in zip(equation.invars, values, params["in_specs"], strict=True):
        split = split_of(spec)
        constant = walk.is_constant(atom) and not split
        atoms.append(atom if constant else None)
        given.append((value,) * len(mesh.devices) if constant else _shards(walk, mesh, value, split))
    inner = Lockstep(mesh, [walk.within(closed, atoms) for _ in mesh.devices])
    for position, own in enumerate(inner.walks):
        own.position = (mesh, position)
    made = []
    for shards, spec in zip(inner.results(closed, given), params["out_specs"], strict=True):
        split = split_of(spec)
        whole = xb.asarray(mesh.whole(shards, split))
        walk.shards[id(whole)] = (whole, mesh, split, shards)
        made.append(whole)
    return made


def _shards(walk: JaxprWalk, mesh: Mesh, value: Any, split: Split) -> tuple[Any, ...]:
    """The shard of an argument at each position, on the device there."""
    _, *kept = walk.shards.get(id(value), (None,))
    if kept[:2] == [mesh, split]:
        return tuple(kept[2])
    return tuple(xb.to_device(one, to) for one, to in zip(mesh.shards(value, split), mesh.devices, strict=True))
