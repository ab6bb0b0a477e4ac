"""Basic slicing: integers, slices, ``...`` and ``None``, all known while tracing.

https://data-apis.org/array-api/2024.12/API_specification/indexing.html
"""

from __future__ import annotations

from typing import Any

from xbackend.api.array import Array
from xbackend.api.casting import copied, integer
from xbackend.api.tracer import current
from xbackend.errors import ShapeError, TraceError


def _integer(index: int, length: int, axis: int, shape: tuple[int, ...]) -> int:
    if not -length <= index < length:
        raise ShapeError(f"index {index} is out of range for axis {axis} of shape {shape}")
    return index % length


def _expanded(keys: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    """The keys with ``...`` and missing axes written out as full slices."""
    used = sum(1 for k in keys if k is not None and k is not Ellipsis)
    if used > rank:
        raise ShapeError(f"{used} indices for an array of rank {rank}")
    fill = (slice(None),) * (rank - used)
    ellipses = [i for i, k in enumerate(keys) if k is Ellipsis]
    if len(ellipses) > 1:
        raise ShapeError("an index has two ellipses")
    if not ellipses:
        return keys + fill
    return keys[: ellipses[0]] + fill + keys[ellipses[0] + 1 :]


def getitem(x: Any, key: Any) -> Array:
    """``x[key]``. Raises `ShapeError` for what is out of range and `TraceError` for indices that are arrays."""
    array = current("indexing").array(x)
    shape = array.shape
    starts: list[int] = []
    stops: list[int | None] = []
    steps: list[int] = []
    result: list[int] = []
    for item in _expanded(key if isinstance(key, tuple) else (key,), len(shape)):
        if item is None:
            result.append(1)
            continue
        axis = len(starts)
        if isinstance(item, slice):
            try:
                start, stop, step = item.indices(shape[axis])
            except (TypeError, ValueError) as error:
                raise ShapeError(f"slice {item} of axis {axis}: {error}") from None
            length = len(range(start, stop, step))
            result.append(length)
            if length == 0:
                start, stop, step = 0, 0, 1
        elif (number := integer(item)) is not None:
            start = _integer(number, shape[axis], axis, shape)
            stop, step = start + 1, 1
        else:
            raise TraceError(
                f"an array is indexed with integers, slices, ... and None, not with {item!r:.60}; use xb.where for "
                "masks"
            )
        starts.append(start)
        # Python's own -1 would be read as the last element by frameworks.
        stops.append(None if step < 0 and stop < 0 else stop)
        steps.append(step)
    whole = all(s == 0 and e == n and p == 1 for s, e, p, n in zip(starts, stops, steps, shape, strict=True))
    if whole and tuple(result) == shape:
        return copied(array)
    if not whole:
        params = {"starts": tuple(starts), "stops": tuple(stops), "steps": tuple(steps)}
        array = array._tracer.emit("slice", (array,), params)
    if tuple(result) != array.shape:
        array = array._tracer.emit("reshape", (array,), {"shape": tuple(result)})
    return array
