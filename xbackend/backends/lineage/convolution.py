"""Convolution lowered to the Theano lineage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xbackend.backends.lineage.shapes import lengths
from xbackend.program.program import Node


def _padded(T: Any, node: Node, images: Any) -> Any:
    count, height, width, channels = lengths(images)
    above, below, left, right = node.params["padding"]
    if not (above or below or left or right):
        return images
    shape = count, height + above + below, width + left + right, channels
    zeros = T.alloc(T.constant(0, dtype=node.dtype.value), *shape)
    return T.set_subtensor(zeros[:, above : above + height, left : left + width], images)


def _of_shape(T: Any, variable: Any, shape: tuple[int, ...]) -> Any:
    """The variable with its static shape, which Aesara loses in a sum of products, and JAX needs. Theano has none."""
    known = getattr(variable.type, "shape", shape)
    return variable if tuple(known) == shape else T.specify_shape(variable, shape)


def conv2d(T: Any, node: Node, inputs: Sequence[Any]) -> Any:
    """A sum of matrix products: of each element of the kernel with the pixels that it multiplies."""
    images, kernel = _padded(T, node, inputs[0]), inputs[1]
    (down, across), (count, rows, columns, _) = node.params["strides"], node.shape
    height, width, channels, _ = lengths(kernel)
    total = None
    for i in range(height):
        for j in range(width):
            met = images[:, i : i + (rows - 1) * down + 1 : down, j : j + (columns - 1) * across + 1 : across]
            product = T.dot(T.reshape(met, (count * rows * columns, channels), ndim=2), kernel[i, j])
            total = product if total is None else T.add(total, product)
    total = _of_shape(T, total, (count * rows * columns, node.shape[-1]))
    return T.reshape(total, node.shape, ndim=4)
