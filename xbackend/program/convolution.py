"""Rules of the op table for convolution, as in `xbackend.program.shapes`."""

from __future__ import annotations

from xbackend.errors import ShapeError
from xbackend.program.aval import Aval
from xbackend.program.shapes import Avals, Params


def conv2d(name: str, avals: Avals, params: Params) -> Aval:
    """Images (n, height, width, channels), kernels (height, width, channels, results); ``padding`` counts the rows of
    zeros above and below and the columns left and right."""
    (images, kernel), strides, padding = (a.shape for a in avals), params["strides"], params["padding"]
    if len(images) != 4 or len(kernel) != 4 or images[3] != kernel[2]:
        raise ShapeError(
            f"conv2d of shapes {images} and {kernel}: they are (n, height, width, channels) and (height, width, "
            "channels, results)"
        )
    if len(strides) != 2 or min(strides) < 1 or len(padding) != 4 or min(padding) < 0:
        raise ShapeError(f"conv2d with the strides {strides} and the padding {padding}")
    padded = images[1] + padding[0] + padding[1], images[2] + padding[2] + padding[3]
    if any(k == 0 or k > n for n, k in zip(padded, kernel[:2], strict=True)):
        raise ShapeError(f"conv2d of shapes {images} and {kernel}: the kernel has to fit into the padded image")
    lengths = ((n - k) // s + 1 for n, k, s in zip(padded, kernel[:2], strides, strict=True))
    return Aval((images[0], *lengths, kernel[3]), avals[0].dtype)


def products(avals: Avals, out: Aval, params: Params) -> int:
    """A multiplication and an addition for each element of the kernel and of the result."""
    height, width, channels, _ = avals[1].shape
    return 2 * out.size * height * width * channels
