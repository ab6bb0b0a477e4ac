"""Rows that read and write at indices: `gather`, `scatter` and its like, `dynamic_slice`, `dynamic_update_slice`.

The indexed axes are flattened to one axis, and the indices become positions along it: `xb.take` reads them, `xb.at`
writes them.
"""

from __future__ import annotations

from functools import reduce
from math import prod
from operator import add
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.tracing.array import Array
from xbackend.bring import dtypes
from xbackend.bring.jax.arrays import ints, shaped, turned
from xbackend.bring.jax.walk import JaxprWalk, dtype_of, row
from xbackend.errors import GraphError
from xbackend.program.dtypes import DType

# What happens to an index out of bounds, as `jax.lax.GatherScatterMode` names it.
MODES = CLIP, FILL_OR_DROP, PROMISE_IN_BOUNDS = "CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS"


class Positions:
    """The indices of an equation as positions along one axis, to which the indexed axes of the array are flattened.

    A part is the block of the array that one index vector reads or writes. ``shape`` is the array's shape, ``lengths``
    is a part's.

    Attributes:
        batched: batching axes of the array, each paired with an axis of the indices.
        beside: the axes of the indices that they are paired with.
        indexed: batched axes, and axes along which a part is shorter than the array.
        windows: indexed axes along which the length of a part is not 1.
        batch: the shape of the indices without their last axis, that of the index vectors.
        columns: by axis of the array, the starts of the parts along it: an array of the shape ``batch``.
        where: the positions: an array of the shape ``batch``, then the windows' lengths.
        outside: whether a part leaves the array: bools of the shape ``batch``. `None` where none does, and for CLIP.
    """

    def __init__(self, walk: JaxprWalk, equation: Any, shape: tuple[int, ...], lengths: tuple[int, ...]) -> None:
        numbers, gathers = equation.params["dimension_numbers"], equation.primitive.name == "gather"
        starts = ints(numbers.start_index_map if gathers else numbers.scatter_dims_to_operand_dims)
        beside = numbers.start_indices_batching_dims if gathers else numbers.scatter_indices_batching_dims
        self.batched, self.beside = ints(numbers.operand_batching_dims), ints(beside)
        mode = getattr(equation.params["mode"], "name", str(equation.params["mode"]))
        if mode not in MODES:
            raise GraphError(f"the mode {equation.params['mode']} of indices has no row: {', '.join(MODES)}")
        if mode == PROMISE_IN_BOUNDS:  # an index beyond: XLA reads the nearest element, and writes nothing
            mode = CLIP if gathers else FILL_OR_DROP
        self.shape, self.lengths = shape, lengths
        self.indexed = [a for a, n in enumerate(shape) if a in self.batched or lengths[a] != n]
        self.windows = [a for a in self.indexed if lengths[a] != 1]
        known = walk.known(equation.invars[1])
        indices: Any = xb.asarray(walk.value(equation.invars[1])) if known is None else known
        indices = _signed(indices, prod(shape))
        self.batch = tuple(indices.shape[:-1])
        self.outside: Any = None
        self.columns = {axis: indices[..., number] for number, axis in enumerate(starts)}
        for axis in starts:
            out = self._bound(axis)
            if out is not None and mode == FILL_OR_DROP:
                self.outside = out if self.outside is None else self.outside | out
        steps = [prod(shape[a] for a in self.indexed if a > axis) for axis in self.indexed]
        along = [self._along(axis) for axis in self.indexed]
        each = [own if step == 1 else own * step for own, step in zip(along, steps, strict=True)]
        full = (*self.batch, *(lengths[a] for a in self.windows))
        self.where = xb.broadcast_to(reduce(add, each) if each else self._line(1, 0), full)

    def _bound(self, axis: int) -> Any:
        """Clip the starts along an axis. Returns which parts were not inside of the array; `None` where none was."""
        column, last = self.columns[axis], self.shape[axis] - self.lengths[axis]
        if not isinstance(column, Array):
            out = (column < 0) | (column > last)
            self.columns[axis] = np.asarray(np.clip(column.astype(np.int64), 0, max(last, 0)))
            return out if out.any() else None
        if axis not in self.indexed:
            return xb.not_equal(column, 0)
        self.columns[axis] = xb.clip(column, 0, last)
        return xb.logical_or(xb.less(column, 0), xb.greater(column, last))

    def _along(self, axis: int) -> Any:
        """The positions along one axis of the array."""
        if axis in self.batched:
            return self._line(self.shape[axis], self.beside[self.batched.index(axis)])
        inside = self._line(1, 0)
        if axis in self.windows:
            inside = self._line(self.lengths[axis], len(self.batch) + self.windows.index(axis))
        if axis not in self.columns:
            return inside
        begins = self.with_axes(self.columns[axis], len(self.windows))
        return begins + inside if axis in self.windows else begins

    def _line(self, length: int, axis: int) -> np.ndarray:
        """The numbers from 0 to ``length`` - 1 along one axis of the positions."""
        shape = [1] * (len(self.batch) + len(self.windows))
        shape[axis : axis + 1] = [length] * len(shape[axis : axis + 1])
        return np.arange(length).reshape(shape)

    def with_axes(self, array: Any, count: int) -> Any:
        """An array of the shape ``batch`` with ``count`` axes of length 1 behind."""
        return array[(..., *(None,) * count)]


def _signed(indices: Any, count: int = 0) -> Any:
    """Indices in a signed dtype that has the positions of ``count`` elements: starts are compared with 0."""
    if not isinstance(indices, Array):
        return indices
    dtype = indices.dtype.wider if indices.dtype.is_unsigned else indices.dtype
    return xb.astype(indices, DType.int64 if count > dtype.most else dtype)


def _joined(array: Any, indexed: list[int], first: int) -> tuple[Any, list[int]]:
    """The array with its indexed axes flattened to one axis, number ``first``; and the order of the array's axes before
    that."""
    whole = [a for a in range(array.ndim) if a not in indexed]
    order = [*whole[:first], *indexed, *whole[first:]]
    shape = [array.shape[a] for a in order]
    shape[first : first + len(indexed)] = [prod(array.shape[a] for a in indexed)]
    return shaped(turned(array, order), tuple(shape)), order


_GATHER = ("dimension_numbers", "slice_sizes", "indices_are_sorted", "unique_indices", "mode", "fill_value")


@row("gather", attributes=_GATHER)
def gather(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    numbers, array = equation.params["dimension_numbers"], xb.asarray(values[0])
    offsets = ints(numbers.offset_dims)
    found = Positions(walk, equation, array.shape, ints(equation.params["slice_sizes"]))
    result = None if offsets else _along_axis(array, found)
    if result is None:
        result = _read(array, found, {*ints(numbers.collapsed_slice_dims), *found.batched})
    beside = [a for a in range(len(found.batch) + len(offsets)) if a not in offsets]
    result = turned(result, np.argsort([*beside, *offsets]).tolist())
    if found.outside is None:
        return result
    return xb.where(xb.expand_dims(found.outside, axis=offsets), _filling(equation), result)


def _read(array: Any, found: Positions, dropped: set[int]) -> Any:
    """The parts: an array of the axes of the indices, then the axes of the array without the dropped ones."""
    indexed = found.indexed
    first = indexed[0] if indexed and indexed[-1] - indexed[0] < len(indexed) else 0  # where they are adjacent
    flat, order = _joined(array, indexed, first)
    taken = xb.take(flat, found.where, axis=first)
    # The axes of `taken`: an axis of the array by its number, those of the indices as ~0, ~1 and so on.
    whole, batch = [a for a in order if a not in indexed], [~i for i in range(len(found.batch))]
    axes = [*whole[:first], *batch, *found.windows, *whole[first:]]
    lengths = dict(zip(axes, taken.shape, strict=True))
    kept = [a for a in range(array.ndim) if a not in dropped]
    wanted = [*batch, *(a for a in kept if a in lengths)]
    moved = turned(taken, [axes.index(a) for a in (*wanted, *(a for a in axes if a not in wanted))])
    return shaped(moved, (*found.batch, *(lengths.get(a, 1) for a in kept)))


def _along_axis(array: Any, found: Positions) -> Any:
    """The result of `xb.take_along_axis` where the gather is one, else `None`."""
    others = [a for a in range(array.ndim) if a not in found.batched]
    if array.ndim == 1 or len(found.batch) != array.ndim or found.batched != found.beside or len(others) != 1:
        return None
    (axis,) = others
    if list(found.columns) != others or found.lengths[axis] != 1:
        return None
    return xb.take_along_axis(array, found.columns[axis], axis=axis)


def _filling(equation: Any) -> Any:
    value, dtype = equation.params["fill_value"], np.dtype(dtype_of(equation.outvars[0]))
    if value is None and dtype.kind in "iu":
        value = np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
    return dtypes.array(np.asarray(np.nan if value is None else value).astype(dtype))  # a NaN is True, as of JAX


_SCATTER = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode", "update_consts")


@row("scatter", "scatter-add", "scatter-sub", attributes=(*_SCATTER, "update_jaxpr"), wraps=True)
def scatter(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    name, numbers = equation.primitive.name, equation.params["dimension_numbers"]
    if name == "scatter" and equation.params.get("update_jaxpr") is not None:
        raise GraphError("x.at[...].apply has no row: read the part, compute it, and set it")
    array, updates, windows = xb.asarray(values[0]), xb.asarray(values[2]), ints(numbers.update_window_dims)
    if 0 in array.shape:  # it has no place for an update
        return array
    dropped = (*ints(numbers.inserted_window_dims), *ints(numbers.operand_batching_dims))
    kept = [a for a in range(array.ndim) if a not in dropped]
    of_axis = dict(zip(kept, windows, strict=True))  # by axis of the array, the axis of the updates
    lengths = tuple(updates.shape[of_axis[a]] if a in of_axis else 1 for a in range(array.ndim))
    found = Positions(walk, equation, array.shape, lengths)
    # The axes of the indices, then the windows, then the axes that are not indexed.
    whole = [a for a in range(array.ndim) if a not in found.indexed]
    shown = [*found.windows, *(a for a in whole if a in of_axis)]
    order = [a for a in range(updates.ndim) if a not in windows]
    order += [of_axis[a] for a in (*shown, *(a for a in kept if a not in shown))]
    parts = shaped(turned(updates, order), (*found.where.shape, *(array.shape[a] for a in whole)))
    parts = xb.negative(parts) if name == "scatter-sub" else parts
    return _written(array, parts, found, add=name != "scatter")


def _written(array: Any, parts: Any, found: Positions, add: bool) -> Any:
    flat, order = _joined(array, found.indexed, 0)
    where, count = found.where, flat.shape[0]
    if found.outside is not None and add:
        outside = found.with_axes(found.outside, parts.ndim - len(found.batch))
        parts = xb.where(outside, xb.zeros((), dtype=parts.dtype), parts)
    elif found.outside is not None:  # dropped parts are written to one more row, which is cut off
        flat = xb.concat([flat, xb.zeros((1, *flat.shape[1:]), dtype=flat.dtype)])
        where = xb.where(found.with_axes(found.outside, len(found.windows)), count, where)
    place = xb.at(flat)[where]
    result = place.add(parts) if add else place.set(parts)
    result = result[:count] if result.shape[0] != count else result
    result = shaped(result, tuple(array.shape[a] for a in order))
    return turned(result, np.argsort(order).tolist())


# --- dynamic slices ---------------------------------------------------------------------------------------------------


def _begins(walk: JaxprWalk, shape: tuple[int, ...], lengths: tuple[int, ...], atoms: Any) -> list[Any]:
    """The starts of a slice, clipped such that it is inside of the array: integers where they are known."""
    found: list[Any] = []
    for n, length, atom in zip(shape, lengths, atoms, strict=True):
        known = np.asarray(0) if n == length else walk.known(atom)
        last = n - length
        found.append(xb.clip(_signed(walk.value(atom)), 0, last) if known is None else min(max(int(known), 0), last))
    return found


@row("dynamic_slice", attributes=("slice_sizes",))
def dynamic_slice(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    array, lengths = xb.asarray(values[0]), ints(equation.params["slice_sizes"])
    begins = _begins(walk, array.shape, lengths, equation.invars[1:])
    key = [slice(b, b + n) if isinstance(b, int) else slice(None) for b, n in zip(begins, lengths, strict=True)]
    result = array if all(isinstance(b, Array) for b in begins) else array[tuple(key)]
    for axis, (begin, n) in enumerate(zip(begins, lengths, strict=True)):
        if isinstance(begin, Array):
            result = xb.take(result, _run(begin, n), axis=axis)
    return result


def _run(begin: Any, length: int) -> Any:
    index = xb.reshape(begin, (1,))
    return index if length == 1 else xb.add(index, xb.arange(length, dtype=index.dtype))


@row("dynamic_update_slice")
def dynamic_update_slice(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    array, update = xb.asarray(values[0]), xb.asarray(values[1])
    return _put(array, update, _begins(walk, array.shape, update.shape, equation.invars[2:]))


def _put(array: Any, update: Any, begins: list[Any]) -> Any:
    """The array with an update. Of several unknown starts, the rows of the first are read, updated and written back."""
    axis = next((a for a, b in enumerate(begins) if not isinstance(b, int)), None)
    if axis is None:
        return xb.at(array)[tuple(slice(b, b + n) for b, n in zip(begins, update.shape, strict=True))].set(update)
    rows = _run(begins[axis], update.shape[axis])
    if update.shape != (*array.shape[:axis], update.shape[axis], *array.shape[axis + 1 :]):
        inside = [0 if a == axis else b for a, b in enumerate(begins)]
        update = _put(xb.take(array, rows, axis=axis), update, inside)
    return xb.at(array)[(*(slice(None),) * axis, rows)].set(update)
