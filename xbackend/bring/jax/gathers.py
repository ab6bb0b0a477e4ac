"""Reading and writing at indices: `gather`, the `scatter` primitives, `dynamic_slice`, `dynamic_update_slice`.

The axes that indices speak of become one axis, and the indices positions along it, so that `xb.take` reads them and
`xb.at` writes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from math import prod
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.tracing.array import Array
from xbackend.bring import dtypes
from xbackend.bring.jax.arrays import ints, turned
from xbackend.bring.jax.walk import Walk, dtype_of, row
from xbackend.errors import GraphError


class Mode(IntEnum):
    """What happens to an index out of bounds, as `jax.lax.GatherScatterMode` numbers it."""

    CLIP = 0
    FILL_OR_DROP = 1
    PROMISE_IN_BOUNDS = 2


@dataclass(frozen=True)
class Places:
    """Where parts of an array begin, and how long they are.

    Attributes:
        shape: of the array.
        lengths: of a part along each axis of the array.
        starts: the axis of the array that each number of an index is for.
        batched: axes of the array that go along with axes of the indices.
        beside: these axes of the indices.
    """

    shape: tuple[int, ...]
    lengths: tuple[int, ...]
    starts: tuple[int, ...]
    batched: tuple[int, ...]
    beside: tuple[int, ...]

    @property
    def indexed(self) -> list[int]:
        """Axes that are not taken whole."""
        return [a for a, n in enumerate(self.shape) if a in self.batched or self.lengths[a] != n]

    @property
    def windows(self) -> list[int]:
        """Indexed axes along which a part is longer than one element, or is none."""
        return [a for a in self.indexed if self.lengths[a] != 1]


def _mode(value: Any) -> Mode:
    name = getattr(value, "name", str(value))
    if name not in Mode.__members__:
        raise GraphError(f"the mode {value} of indices has no row: {', '.join(Mode.__members__)}")
    return Mode[name]


class Positions:
    """The indices of an equation as positions along one axis, which the indexed axes of the array are joined to.

    Attributes:
        where: positions, of the axes of the indices, then of the windows.
        outside: of the axes of the indices, whether a part is not all inside; `None` where all are.
    """

    def __init__(self, walk: Walk, places: Places, atom: Any, mode: Mode) -> None:
        self.places = places
        known = walk.known(atom)
        indices: Any = xb.asarray(walk.value(atom)) if known is None else np.asarray(known)
        if isinstance(indices, Array) and indices.dtype.is_unsigned:
            indices = xb.astype(indices, indices.dtype.wider)
        self.known = known is not None
        self.outside: Any = None
        self.batch = tuple(indices.shape[:-1])
        self.columns = {axis: indices[..., number] for number, axis in enumerate(places.starts)}
        self._bound(mode)
        self.where = self._where()

    def _bound(self, mode: Mode) -> None:
        """Keep the beginnings inside of the array, unless they are promised to be."""
        for axis, column in self.columns.items():
            last = self.places.shape[axis] - self.places.lengths[axis]
            if self.known:
                out = (column < 0) | (column > last)
                self.columns[axis] = np.clip(column.astype(np.int64), 0, max(last, 0))
                self._note(out, mode)
            elif mode is not Mode.PROMISE_IN_BOUNDS and axis in self.places.indexed:
                self._note(xb.logical_or(xb.less(column, 0), xb.greater(column, last)), mode)
                self.columns[axis] = xb.clip(column, 0, last)
            elif axis not in self.places.indexed and mode is Mode.FILL_OR_DROP:
                self._note(xb.not_equal(column, 0), mode)

    def _note(self, out: Any, mode: Mode) -> None:
        if mode is Mode.FILL_OR_DROP and not (self.known and not out.any()):
            self.outside = out if self.outside is None else self.outside | out

    def _where(self) -> Any:
        places, total = self.places, None
        rank = len(self.batch) + len(places.windows)
        for axis in places.indexed:
            step = prod(places.shape[a] for a in places.indexed if a > axis)
            own = self._along(axis, rank)
            own = own if step == 1 else own * step
            total = own if total is None else total + own
        if total is None:
            return np.zeros((1,) * rank, np.int64)
        return total

    def _along(self, axis: int, rank: int) -> Any:
        """The positions along one axis of the array."""
        places = self.places
        if axis in places.batched:
            along = places.beside[places.batched.index(axis)]
            return _line(places.shape[axis], along, rank)
        windows = places.windows
        inside = _line(places.lengths[axis], len(self.batch) + windows.index(axis), rank) if axis in windows else None
        column = self.columns.get(axis)
        if column is None:
            return np.zeros((1,) * rank, np.int64) if inside is None else inside
        shape = (*self.batch, *(1,) * len(windows))
        begins = column.reshape(shape) if isinstance(column, np.ndarray) else xb.reshape(column, shape)
        return begins if inside is None else begins + inside

    @property
    def full_shape(self) -> tuple[int, ...]:
        """Of positions, with all axes at their lengths."""
        return (*self.batch, *(self.places.lengths[a] for a in self.places.windows))


def _line(length: int, axis: int, rank: int) -> np.ndarray:
    shape = [1] * rank
    shape[axis] = length
    return np.arange(length).reshape(shape)


def _joined(array: Any, places: Places) -> tuple[Any, int, list[int]]:
    """The array with its indexed axes as one, the number of that axis, and the axes of the array in their new order."""
    indexed = places.indexed
    whole = [a for a in range(len(places.shape)) if a not in indexed]
    together = indexed == list(range(indexed[0], indexed[-1] + 1)) if indexed else False
    first = indexed[0] if together else 0
    order = [*whole[:first], *indexed, *whole[first:]]
    size = prod(places.shape[a] for a in indexed)
    shape = (
        *(places.shape[a] for a in whole[:first]),
        size,
        *(places.shape[a] for a in whole[first:]),
    )
    moved = turned(array, order)
    return moved if moved.shape == shape else xb.reshape(moved, shape), first, order


_GATHER = ("dimension_numbers", "slice_sizes", "indices_are_sorted", "unique_indices", "mode", "fill_value")


@row("gather", attributes=_GATHER)
def gather(walk: Walk, equation: Any, values: list[Any]) -> Any:
    numbers, array = equation.params["dimension_numbers"], xb.asarray(values[0])
    mode = _mode(equation.params["mode"])
    places = Places(
        array.shape,
        tuple(int(n) for n in equation.params["slice_sizes"]),
        ints(numbers.start_index_map),
        ints(numbers.operand_batching_dims),
        ints(numbers.start_indices_batching_dims),
    )
    found = Positions(walk, places, equation.invars[1], mode)
    dropped = {*ints(numbers.collapsed_slice_dims), *places.batched}
    result = _along_axis(array, places, found)
    if result is None:
        result = _read(array, places, found, dropped)
    offsets = ints(numbers.offset_dims)
    rank = len(found.batch) + len(offsets)
    beside = [a for a in range(rank) if a not in offsets]
    order = [0] * rank
    for own, there in enumerate((*beside, *offsets)):
        order[there] = own
    result = turned(result, order)
    if found.outside is None:
        return result
    shape = tuple(found.batch[beside.index(a)] if a in beside else 1 for a in range(rank))
    outside = xb.reshape(found.outside, shape)
    return xb.where(outside, _filling(equation), result)


def _read(array: Any, places: Places, found: Positions, dropped: set[int]) -> Any:
    """The parts: axes of the indices, then those of the array that are kept."""
    flat, first, order = _joined(array, places)
    where = found.where
    where = xb.broadcast_to(where, found.full_shape) if tuple(where.shape) != found.full_shape else where
    taken = xb.take(flat, where, axis=first)
    before = [a for a in order if a not in places.indexed][:first]
    behind = [a for a in order if a not in places.indexed][first:]
    # The axes of the array that the result has, in the order it has them, and those of the indices in between.
    count = len(found.batch)
    axes: list[Any] = [*before, *(("batch", i) for i in range(count)), *places.windows, *behind]
    lengths = dict(zip(axes, taken.shape, strict=True))
    kept = [a for a in range(len(places.shape)) if a not in dropped]
    wanted = [*(("batch", i) for i in range(count)), *(a for a in kept if a in lengths)]
    moved = turned(taken, [axes.index(a) for a in wanted] + [axes.index(a) for a in axes if a not in wanted])
    shape = (*found.batch, *(lengths.get(a, 1) for a in kept))
    return moved if moved.shape == shape else xb.reshape(moved, shape)


def _along_axis(array: Any, places: Places, found: Positions) -> Any:
    """`xb.take_along_axis`, where a gather is one; `None` where it is not."""
    rank = array.ndim
    others = [a for a in range(rank) if a not in places.batched]
    if len(others) != 1 or places.starts != tuple(others) or places.lengths[others[0]] != 1 or rank == 1:
        return None
    if len(found.batch) != rank or places.batched != places.beside:
        return None
    return xb.take_along_axis(array, found.columns[others[0]], axis=others[0])


def _filling(equation: Any) -> Any:
    value, dtype = equation.params["fill_value"], np.dtype(dtype_of(equation.outvars[0]))
    if value is None:
        if dtype.kind == "f":
            value = np.nan
        else:
            value = True if dtype.kind == "b" else np.iinfo(dtype).min if dtype.kind == "i" else np.iinfo(dtype).max
    return dtypes.array(np.asarray(value).astype(dtype))


_SCATTER = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode", "update_consts")


@row("scatter", "scatter-add", "scatter-sub", attributes=(*_SCATTER, "update_jaxpr"), wraps=True)
def scatter(walk: Walk, equation: Any, values: list[Any]) -> Any:
    name, numbers = equation.primitive.name, equation.params["dimension_numbers"]
    if name == "scatter" and equation.params.get("update_jaxpr") is not None:
        raise GraphError("x.at[...].apply has no row: read the part, compute it, and set it")
    array, updates = xb.asarray(values[0]), xb.asarray(values[2])
    windows = ints(numbers.update_window_dims)
    batched = ints(numbers.operand_batching_dims)
    inserted = ints(numbers.inserted_window_dims)
    lengths = iter([updates.shape[a] for a in windows])
    places = Places(
        array.shape,
        tuple(1 if a in inserted or a in batched else next(lengths) for a in range(array.ndim)),
        ints(numbers.scatter_dims_to_operand_dims),
        batched,
        ints(numbers.scatter_indices_batching_dims),
    )
    found = Positions(walk, places, equation.invars[1], _mode(equation.params["mode"]))
    parts = _updates(updates, places, found, windows, (*inserted, *batched))
    parts = xb.negative(parts) if name == "scatter-sub" else parts
    return _written(array, parts, places, found, add=name != "scatter")


def _updates(
    updates: Any, places: Places, found: Positions, windows: tuple[int, ...], inserted: tuple[int, ...]
) -> Any:
    """The parts with the axes of the indices in front, then the windows, then the axes that are taken whole."""
    beside = [a for a in range(updates.ndim) if a not in windows]
    kept = [a for a in range(len(places.shape)) if a not in inserted]
    of_axis = dict(zip(kept, windows, strict=True))
    whole = [a for a in range(len(places.shape)) if a not in places.indexed]
    ones = [of_axis[a] for a in kept if a in places.indexed and a not in places.windows]
    order = [*beside, *(of_axis[a] for a in places.windows), *(of_axis[a] for a in whole if a in of_axis), *ones]
    moved = turned(updates, order)
    shape = (*found.full_shape, *(places.shape[a] for a in whole))
    return moved if moved.shape == shape else xb.reshape(moved, shape)


def _written(array: Any, parts: Any, places: Places, found: Positions, add: bool) -> Any:
    flat, first, order = _joined(array, places)
    where, rank = found.where, len(found.full_shape)
    count = flat.shape[first]
    where = xb.broadcast_to(where, found.full_shape) if tuple(where.shape) != found.full_shape else where
    # The indexed axis in front, as the parts have it.
    to_front = [first, *(a for a in range(flat.ndim) if a != first)]
    flat = turned(flat, to_front)
    if found.outside is not None:
        outside = xb.reshape(found.outside, (*found.batch, *(1,) * (rank - len(found.batch))))
        if add:
            wide = xb.reshape(found.outside, (*found.batch, *(1,) * (parts.ndim - len(found.batch))))
            parts = xb.where(wide, xb.zeros((), dtype=parts.dtype), parts)
        else:  # what is dropped goes to one more row, which is taken away again
            flat = xb.concat([flat, xb.zeros((1, *flat.shape[1:]), dtype=flat.dtype)])
            where = xb.where(outside, count, where)
    place = xb.at(flat)[where]
    result = place.add(parts) if add else place.set(parts)
    result = result[:count] if result.shape[0] != count else result
    result = turned(result, np.argsort(to_front).tolist())
    shape = tuple(places.shape[a] for a in order)
    result = result if result.shape == shape else xb.reshape(result, shape)
    return turned(result, np.argsort(order).tolist())


# --- dynamic slices ---------------------------------------------------------------------------------------------------


def _begins(walk: Walk, shape: tuple[int, ...], lengths: tuple[int, ...], atoms: Any) -> list[Any]:
    """Where a slice begins along each axis, moved so that it is inside: a number where it is known."""
    found: list[Any] = []
    for n, length, atom in zip(shape, lengths, atoms, strict=True):
        known = walk.known(atom)
        if known is not None or n == length:
            found.append(min(max(int(known if known is not None else 0), 0), n - length))
        else:
            found.append(xb.clip(walk.value(atom), 0, n - length))
    return found


@row("dynamic_slice", attributes=("slice_sizes",))
def dynamic_slice(walk: Walk, equation: Any, values: list[Any]) -> Any:
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
def dynamic_update_slice(walk: Walk, equation: Any, values: list[Any]) -> Any:
    array, update = xb.asarray(values[0]), xb.asarray(values[1])
    return _put(array, update, _begins(walk, array.shape, update.shape, equation.invars[2:]))


def _put(array: Any, update: Any, begins: list[Any]) -> Any:
    """The array with an update. Of several unknown beginnings the first is read, updated and written back."""
    axis = next((a for a, b in enumerate(begins) if not isinstance(b, int)), None)
    if axis is None:
        return xb.at(array)[tuple(slice(b, b + n) for b, n in zip(begins, update.shape, strict=True))].set(update)
    rows = _run(begins[axis], update.shape[axis])
    inside = [0 if a == axis else b for a, b in enumerate(begins)]
    part_shape = tuple(update.shape[axis] if a == axis else n for a, n in enumerate(array.shape))
    whole = update.shape == part_shape
    part = update if whole else _put(xb.take(array, rows, axis=axis), update, inside)
    return xb.at(array)[(*(slice(None),) * axis, rows)].set(part)
