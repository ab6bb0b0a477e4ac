"""Rows of ops that move and write elements, and of products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from xbackend.bring.onnx.elementwise import OnnxRow, operator
from xbackend.bring.onnx.graph import FRONT, OnnxUse
from xbackend.program.dtypes import DType


def _reshaped(use: OnnxUse, x: str, shape: Sequence[int]) -> str:
    return use("Reshape", x, use.ints(*shape), allowzero=1)


def _transposed(use: OnnxUse, x: str, axes: Sequence[int]) -> str:
    return use("Transpose", x, perm=tuple(axes)) if list(axes) != sorted(axes) else x


def _part(use: OnnxUse, x: str, shape: Sequence[int]) -> str:
    """The part that a slice op reads, with all axes."""
    params = use.params
    each = zip(shape, params["starts"], params["stops"], params["steps"], strict=True)
    cut = {axis: one[1:] for axis, one in enumerate(each) if one[1:] != (0, one[0], 1)}
    if not cut:
        return x
    starts, stops, steps = zip(*cut.values(), strict=True)
    stops = tuple(FRONT if stop is None else stop for stop in stops)
    return use("Slice", x, use.ints(*starts), use.ints(*stops), use.ints(*cut), use.ints(*steps))


def _slice(use: OnnxUse) -> str:
    part, drop = _part(use, use.inputs[0], use.x.shape), use.params["drop"]
    return use("Squeeze", part, use.ints(*drop)) if drop else part


def _written(use: OnnxUse) -> str:
    """`slice_set` and `slice_add`, by `ScatterND`. Its indices are for the axes up to the last that is cut."""
    (x, value), shape, params = use.inputs, use.x.shape, use.params
    if not use.aval(1).size:
        return x
    if use.node.op == "slice_add":
        value = use("Add", _part(use, x, shape), value)
    each = [
        range(start, -1 if stop is None else stop, step)
        for start, stop, step in zip(params["starts"], params["stops"], params["steps"], strict=True)
    ]
    cut = [axis for axis, (places, n) in enumerate(zip(each, shape, strict=True)) if places != range(n)]
    if not cut:
        return value
    front, rest = shape[: cut[-1] + 1], shape[cut[-1] + 1 :]
    places = ""
    for axis in range(len(front)):
        steps = np.asarray(each[axis]) * int(np.prod(front[axis + 1 :], dtype=np.int64))
        own = use.graph.constant(steps.astype(np.int64).reshape(-1, *(1 for _ in front[axis + 1 :])))
        places = use("Add", places, own) if places else own
    count = int(np.prod([len(one) for one in each[: len(front)]]))
    flat = _reshaped(use, x, (int(np.prod(front)), *rest))
    flat = use("ScatterND", flat, _reshaped(use, places, (count, 1)), _reshaped(use, value, (count, *rest)))
    return _reshaped(use, flat, shape)


def _scattered(use: OnnxUse) -> str:
    """`take_set` and `take_add`, by `ScatterND`. It writes along the first axis: another one is moved there."""
    x, indices, value = use.inputs
    axis, rank, own = use.params["axis"], len(use.x.shape), len(use.aval(1).shape)
    if not use.aval(2).size:
        return x
    x = _transposed(use, x, (axis, *range(axis), *range(axis + 1, rank)))
    behind = range(axis + own, rank + own - 1)
    value = _transposed(use, value, (*range(axis, axis + own), *range(axis), *behind))
    known, length = use.known(1), use.x.shape[axis]
    if use.node.op == "take_set" and known is not None and known.size in (1, use.aval(1).size):
        places = np.broadcast_to(known.astype(np.int64).ravel() % length, use.aval(1).size)
        indices, value = _last_of_each(use, places, value)
    else:
        indices = use("Cast", indices, to=DType.int64) if use.aval(1).dtype is not DType.int64 else indices
        indices = use("Unsqueeze", indices, use.ints(-1))
    x = use("ScatterND", x, indices, value, reduction="add" if use.node.op == "take_add" else "none")
    return _transposed(use, x, (*range(1, axis + 1), 0, *range(axis + 1, rank)))


def _last_of_each(use: OnnxUse, places: np.ndarray, value: str) -> tuple[str, str]:
    """Indices and rows of values that write each place once, with its last value: a runtime may write in any order."""
    _, back = np.unique(places[::-1], return_index=True)
    kept = np.sort(len(places) - 1 - back)
    shape, axis, own = use.aval(2).shape, use.params["axis"], len(use.aval(1).shape)
    rows = _reshaped(use, value, (len(places), *shape[:axis], *shape[axis + own :]))
    rows = use("Gather", rows, use.ints(*kept.tolist()), axis=0) if len(kept) < len(places) else rows
    return use.graph.constant(places[kept].reshape(-1, 1)), rows


def _diagonal(use: OnnxUse) -> str:
    """A `Gather` from the flat matrix."""
    *before, rows, columns = use.x.shape
    offset, length = use.params["offset"], use.node.shape[-1]
    first = offset if offset >= 0 else -offset * columns
    flat = _reshaped(use, use.inputs[0], (*before, rows * columns))
    return use("Gather", flat, use.ints(*(first + k * (columns + 1) for k in range(length))), axis=len(before))


def _stack(use: OnnxUse) -> str:
    axis = use.params["axis"]
    return use("Concat", *(use("Unsqueeze", x, use.ints(axis)) for x in use.inputs), axis=axis)


def _conv2d(use: OnnxUse) -> str:
    """ONNX has channels before height and width, and the results of the kernel first."""
    if not (use.x.size and use.aval(1).size):
        return use.filled(0)
    images, kernel = use.inputs
    above, below, left, right = use.params["padding"]
    found = use(
        "Conv",
        _transposed(use, images, (0, 3, 1, 2)),
        _transposed(use, kernel, (3, 2, 0, 1)),
        strides=tuple(use.params["strides"]),
        pads=(above, left, below, right),
    )
    return _transposed(use, found, (0, 2, 3, 1))


ROWS: Mapping[str, OnnxRow] = {
    "reshape": lambda use: _reshaped(use, use.inputs[0], use.node.shape),
    "permute_dims": lambda use: _transposed(use, use.inputs[0], use.params["axes"]),
    "broadcast_to": lambda use: use("Expand", *use.inputs, use.ints(*use.node.shape)),
    "diagonal": _diagonal,
    "slice": _slice,
    **dict.fromkeys(("slice_set", "slice_add"), _written),
    "take": lambda use: use("Gather", *use.inputs, axis=use.params["axis"]),
    "take_along_axis": lambda use: use("GatherElements", *use.inputs, axis=use.params["axis"]),
    **dict.fromkeys(("take_set", "take_add"), _scattered),
    "concat": lambda use: use("Concat", *use.inputs, axis=use.params["axis"]),
    "stack": _stack,
    "astype": lambda use: use("Cast", *use.inputs, to=use.node.dtype),
    "matmul": operator("MatMul"),
    "det": operator("Det"),
    "conv2d": _conv2d,
}
