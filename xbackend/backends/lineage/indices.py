"""Bounds checks of indices where the framework would read or write outside of the array: Numba compiles loops without
them (``boundscheck``), and with several indexed axes a position may be in another row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from xbackend.program.program import Node, Value

READ = frozenset({"take_along_axis"})  # by a position in the merged axes
INDEXED = READ | {"take", "take_set", "take_add"}


def said(length: int) -> str:
    clip = f"xb.clip(i, {-length}, {length - 1})"
    return f"an index is out of bounds for an axis with size {length}; if it may be, write {clip}"


def clipped(T: Any, indices: Any, length: int) -> Any:
    """The indices clipped to the range, for a mode that cannot raise."""
    least, most = (T.constant(n, dtype=indices.dtype) for n in (-length, length - 1))
    inside = T.switch(T.lt(indices, least), least, indices)
    return T.switch(T.gt(inside, most), most, inside)


def known_inside(node: Node | Value, length: int) -> bool:
    value = node.params.get("value")
    return value is not None and (not value.size or (-length <= value.min() and value.max() < length))


def in_range_op(op_class: type, apply_class: type) -> type:
    """An op that returns its indices, and raises `IndexError` for one out of range of an axis of ``length`` elements.
    It is made of the framework's `Op` and `Apply`."""

    class InRange(op_class):  # type: ignore[misc]
        __props__ = ("length",)
        view_map: ClassVar[dict[int, list[int]]] = {0: [0]}

        def __init__(self, length: int) -> None:
            self.length = length

        def __str__(self) -> str:
            return f"InRange_{self.length}"  # part of the compiled code

        def make_node(self, indices: Any) -> Any:
            return apply_class(self, [indices], [indices.type()])

        def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
            (indices,) = inputs
            if indices.size and not (-self.length <= indices.min() and indices.max() < self.length):
                raise IndexError(said(self.length))
            output_storage[0][0] = indices

        def infer_shape(self, *arguments: Any) -> Any:
            return arguments[-1]  # the shapes of the inputs; later generations pass the graph before them

    return InRange


def checked_by_numba(node: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The function for an apply node of `in_range_op`, for Numba to compile."""
    length, message = node.op.length, said(node.op.length)

    def in_range(indices: np.ndarray) -> np.ndarray:
        outside = False
        for index in np.asarray(indices).flat:  # in a loop of Aesara it is a number, of no rank
            outside |= index < -length or index >= length
        if outside:
            raise IndexError(message)
        return indices

    return in_range
