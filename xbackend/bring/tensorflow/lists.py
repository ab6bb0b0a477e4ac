"""Lists of tensors, on which `tf.TensorArray`, `tf.scan` and `tf.map_fn` are built: one array, an element a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.tracing.array import Array
from xbackend.bring.tensorflow.walk import TensorFlowWalk, array, held, known, row, whole
from xbackend.errors import GraphError
from xbackend.program.dtypes import DType


@dataclass(frozen=True, slots=True)
class TensorList:
    """Elements of one shape, stacked in ``items``, which is `None` until that shape is known."""

    items: Array | None
    length: int
    dtype: DType

    def filled(self, shape: tuple[int, ...]) -> Array:
        """The elements; zeros of this shape before one is written."""
        return xb.zeros((self.length, *shape), dtype=self.dtype) if self.items is None else self.items

    def grown(self, length: int) -> TensorList:
        """The list, extended with zeros to at least this length."""
        if length <= self.length or self.items is None:
            return TensorList(self.items, max(length, self.length), self.dtype)
        more = xb.zeros((length - self.length, *self.items.shape[1:]), dtype=self.dtype)
        return TensorList(xb.concat([self.items, more]), length, self.dtype)

    def there(self) -> Array:
        """The elements. Raises `GraphError` while their shape is unknown."""
        if self.items is None:
            raise GraphError(
                "the shape of the list's elements is not known before one is written: give tf.TensorArray an "
                "element_shape"
            )
        return self.items


def _shape(value: Any) -> tuple[int, ...] | None:
    """The shape of an element; `None` unless all lengths are given."""
    each = known(value, "the shape of a list's elements")
    return tuple(int(n) for n in each) if each.ndim and (each >= 0).all() else None


def _list(value: Any) -> TensorList:
    if not isinstance(value, TensorList):
        raise GraphError(f"{type(value).__name__} stands where a list of tensors has to")
    return value


@row("TensorListReserve", "EmptyTensorList", folds=False)
def reserve(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    dtype = held(operation.get_attr("element_dtype"))
    if operation.type == "EmptyTensorList":
        return TensorList(None, 0, dtype)
    shape, count = _shape(values[0]), whole(values[1], "the length of a list")
    return TensorList(None if shape is None else xb.zeros((count, *shape), dtype=dtype), count, dtype)


@row("TensorListFromTensor", folds=False)
def from_tensor(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    items = array(values[0])
    return TensorList(items, items.shape[0], items.dtype)


@row("TensorListSetItem", attributes="resize_if_index_out_of_bounds", folds=False)
def set_item(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    into, item = _list(values[0]), array(values[2])
    where = int(values[1]) if isinstance(values[1], np.ndarray) else values[1]
    if operation.get_attr("resize_if_index_out_of_bounds"):
        if not isinstance(where, int):
            raise GraphError("the list may grow, and a program's shapes are fixed: give tf.TensorArray its size")
        into = into.grown(where + 1)
    items = xb.at(into.filled(item.shape))[where].set(item)
    return TensorList(items, into.length, into.dtype)


@row("TensorListGetItem", folds=False)
def get_item(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return _list(values[0]).there()[int(values[1]) if isinstance(values[1], np.ndarray) else values[1]]


@row("TensorListPushBack", folds=False)
def push(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    before, item = _list(values[0]), array(values[1])
    own = xb.expand_dims(item, axis=0)
    items = xb.concat([before.there(), own]) if before.length else own
    return TensorList(items, before.length + 1, item.dtype)


@row("TensorListPopBack", folds=False)
def pop(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    before = _list(values[0])
    items = before.there()
    return [TensorList(items[:-1], before.length - 1, before.dtype), items[-1]]


@row("TensorListStack", attributes="num_elements", folds=False)
def stack(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    whole_list, shape = _list(values[0]), _shape(values[1])
    return whole_list.there() if shape is None else whole_list.filled(shape)


row("TensorListLength", folds=False)(lambda walk, operation, values: np.asarray(_list(values[0]).length, np.int32))


@row("TensorListGather", folds=False)
def gather(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return xb.take(_list(values[0]).there(), values[1], axis=0)


@row("TensorListElementShape", folds=False)
def element_shape(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    dtype = held(operation.get_attr("shape_type")).value
    return np.asarray(_list(values[0]).there().shape[1:], dtype)
