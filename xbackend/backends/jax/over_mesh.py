"""Arrays over a mesh of devices: an array of JAX that has one value on each of them. Values with axes are joined along
the first one; to JAX, values without axes are copies of one number, and each device keeps its own."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xbackend.backends.contract import Value
from xbackend.backends.jax.absent import lowered
from xbackend.devices import Device
from xbackend.errors import SharedVariableError

AXIS = "replicas"
Join = Callable[[list[Value]], Value]  # from values, one on each device in the mesh's order, to their array


class DeviceMesh:
    def __init__(self, jax: Any, theirs: Sequence[Any]) -> None:
        self.jax, self.theirs = jax, list(theirs)
        self._mesh = jax.sharding.Mesh(np.array(self.theirs), (AXIS,))

    def _spec(self, shape: Sequence[int]) -> Any:
        return self.jax.P(AXIS) if shape else self.jax.P()

    def aval(self, shape: Sequence[int], dtype: Any) -> Any:
        """The array whose part on each device has this shape."""
        sharding = self.jax.sharding.NamedSharding(self._mesh, self._spec(shape))
        whole = (len(self.theirs) * shape[0], *shape[1:]) if shape else ()
        return self.jax.ShapeDtypeStruct(whole, dtype, sharding=sharding)

    def joiner(self, shape: Sequence[int], dtype: Any) -> Join:
        """A function from values of this shape, one on each device, to their array, without a copy. Each value has to
        be on its device: JAX sorts values by device into the mesh's order, whatever their order was."""
        aval, make = self.aval(shape, dtype), self.jax.make_array_from_single_device_arrays
        whole = make(aval.shape, aval.sharding, [self.jax.device_put(np.zeros(shape, dtype), d) for d in self.theirs])
        kind, abstract, sharding = type(whole), whole.aval, aval.sharding

        def join(values: list[Value]) -> Value:
            return kind(abstract, sharding, values, committed=True)

        # The last call of `make`, without the 25 us before it.
        try:
            join(parts(whole))
        except TypeError:
            return lambda values: make(aval.shape, sharding, values)
        return join

    def copies(self, values: Sequence[Value]) -> list[Value]:
        put = self.jax.device_put
        return [put(value, device, may_alias=False) for value, device in zip(values, self.theirs, strict=True)]

    def compiled(
        self,
        function: Callable[..., Any],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        donated: Sequence[int],
        absent: Sequence[Device] = (),
    ) -> Callable[..., Sequence[Value]]:
        """A function of one device's parts, jitted for arrays over the mesh. A call consumes the ``donated`` ones. With
        ``absent``, the mesh's devices that this machine lacks, it is lowered only."""
        given, made = (tuple(self._spec(v.shape) for v in each) for each in (inputs, outputs))
        spread = self.jax.shard_map(function, mesh=self._mesh, in_specs=given, out_specs=made, check_vma=False)
        call: Callable[..., Sequence[Value]] = self.jax.jit(spread, donate_argnums=tuple(donated))
        specs = [self.aval(v.shape, v.dtype) for v in inputs]
        if absent:
            return lowered(call, specs, absent)
        # Compiled now; the first call finds it in JAX's cache.
        call.lower(*specs).compile()  # type: ignore[attr-defined]
        return call

    def places(self, value: Value) -> list[Any]:
        """The device of each part of an array, as JAX says."""
        shards = value.addressable_shards
        if value.ndim:
            shards = sorted(shards, key=lambda shard: shard.index[0].start or 0)
        return [shard.device for shard in shards]


def parts(array: Value) -> list[Value]:
    """The values of an array over a mesh, in the mesh's order."""
    return [shard.data for shard in array.addressable_shards]


class SharedCell:
    """The storage of a shared variable, as `Cell`. While replicas update it, its value is a part of an array over a
    mesh, which reading or writing takes apart."""

    __slots__ = ("__weakref__", "_value", "device", "whole")

    def __init__(self, value: Value, device: Device) -> None:
        self._value, self.device = value, device
        self.whole: MeshArray | None = None

    @property
    def value(self) -> Value:
        if self.whole is not None:
            self.whole.take_apart()
        if self._value is None:
            raise SharedVariableError(
                "a step ended by Ctrl-C or an error had consumed the value of a shared variable, and its new one was "
                "not kept: set all variables of the step again, or go on from a checkpoint"
            )
        return self._value

    @value.setter
    def value(self, value: Value) -> None:
        if self.whole is not None:
            self.whole.take_apart()
        self._value = value


class MeshArray:
    """The values of cells on several devices, as an ``array`` over a mesh. Nothing else has its memory, so that a call
    may consume it. It does not keep the cells: each is freed with its variable."""

    __slots__ = ("_cells", "array", "join", "mesh")

    def __init__(self, cells: Sequence[SharedCell], mesh: DeviceMesh, join: Join) -> None:
        self._cells, self.mesh, self.join = [weakref.ref(cell) for cell in cells], mesh, join
        self.array: Value = None

    def joined(self) -> Value:
        """The array, made of copies if the values are apart; all cells are there."""
        if self.array is not None and self.array.is_deleted():
            self.take_apart()
        if self.array is None:
            cells = [cell for ref in self._cells if (cell := ref()) is not None]
            array = self.join(self.mesh.copies([cell.value for cell in cells]))
            for cell in cells:
                cell._value, cell.whole = None, self
            self.array = array
        return self.array

    def take_apart(self) -> None:
        """Give each cell its value. It has none if a call consumed the array and did not return."""
        values = [None] * len(self._cells) if self.array.is_deleted() else parts(self.array)
        for ref, value in zip(self._cells, values, strict=True):
            if (cell := ref()) is not None:
                cell._value, cell.whole = value, None
        self.array = None
