"""Convolution of NumPy, and of autograd's NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xbackend.program.program import Node


def conv2d(xp: Any, node: Node) -> Callable[[Any, Any], Any]:
    """A sum of matrix products: of each element of the kernel with the pixels that it multiplies."""
    strides, padding, (_, rows, columns, _) = node.params["strides"], node.params["padding"], node.shape

    def conv2d(images: Any, kernel: Any) -> Any:
        if any(padding):
            images = xp.pad(images, ((0, 0), tuple(padding[:2]), tuple(padding[2:]), (0, 0)), "constant")
        result = 0.0
        for i in range(kernel.shape[0]):
            for j in range(kernel.shape[1]):
                met = images[
                    :,
                    i : i + (rows - 1) * strides[0] + 1 : strides[0],
                    j : j + (columns - 1) * strides[1] + 1 : strides[1],
                ]
                result = result + xp.matmul(met, kernel[i, j])
        return result

    return conv2d
