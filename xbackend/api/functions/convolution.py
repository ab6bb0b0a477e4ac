"""Convolution of images."""

from __future__ import annotations

from typing import Any

from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import emitted, integer, operands, sequence
from xbackend.errors import ArgumentError


def conv2d(x: Any, kernel: Any, /, *, strides: Any = 1, padding: Any = "VALID") -> Array:
    """The convolution of neural networks: the cross-correlation of images (n, height, width, channels) with a kernel
    (height, width, channels, results), which is not flipped. Floating point.

    ``strides``: one number, or two for rows and columns. ``padding``: the zeros around the image, one number or pairs
    ``((above, below), (left, right))``. ``"VALID"`` is none. ``"SAME"`` pads to ceil(length / stride) pixels of the
    result; an odd zero goes below or to the right. Raises `ShapeError`, `ArgumentError`.

    >>> image, kernel = xp.ones((1, 3, 3, 1)), xp.ones((2, 2, 1, 1))
    >>> xp.conv2d(image, kernel)[0, :, :, 0]
    array([[4., 4.],
           [4., 4.]], dtype=float64, device=cpu:0)
    >>> xp.conv2d(image, kernel, strides=2, padding="SAME").shape
    (1, 2, 2, 1)
    """
    images, weights = operands("conv2d", x, kernel)
    steps = sequence(strides, "strides")
    steps = steps * 2 if len(steps) == 1 else steps
    if len(steps) != 2 or min(steps) < 1:
        raise ArgumentError(f"conv2d with the strides {strides!r:.40}: one number or two, from 1 up")
    zeros = zeros_around(padding, images.shape[1:3], weights.shape[:2], steps)
    return emitted("conv2d", images, weights, strides=steps, padding=zeros)


def zeros_around(
    padding: Any, lengths: tuple[int, ...], kernel: tuple[int, ...], steps: tuple[int, ...]
) -> tuple[int, ...]:
    """Rows of zeros above and below, columns left and right."""
    if padding == "VALID":
        return (0, 0, 0, 0)
    if padding == "SAME":
        found: list[int] = []
        for n, k, step in zip(lengths, kernel, steps, strict=False):  # the op refuses other ranks
            total = max((-(-n // step) - 1) * step + k - n, 0)
            found += [total // 2, total - total // 2]
        return tuple(found)
    number = integer(padding)
    if number is not None and number >= 0:
        return (number,) * 4
    if isinstance(padding, tuple | list) and len(padding) == 2:
        each = [n for pair in padding for n in sequence(pair, "padding")]
        if len(each) == 4 and min(each) >= 0:
            return tuple(each)
    raise ArgumentError(
        f"conv2d with the padding {padding!r:.60}: 'VALID', 'SAME', a number, or ((above, below), (left, right))"
    )
