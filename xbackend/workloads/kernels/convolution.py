"""A small convolution, like the first layer of a network for images.

    y_nijk = sum_abc x_n(i+a)(j+b)c w_abck

Source: Goodfellow, Bengio and Courville, Deep Learning (2016), equation 9.7 (cross-correlation, no padding, stride 1):
8 images of 3 colours, 16 kernels of 3 x 3. Size 8 is dispatch, 224 arithmetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import xbackend as xb
from xbackend.workloads.workload import check_drawn

IMAGES, COLOURS, KERNELS, WIDTH = 8, 3, 16, 3


@xb.workload(sweep={"size": [8, 64, 224]}, quick={"size": [64]})
def convolution(images: Any, kernels: Any) -> Any:
    """An array of shape (8, size - 2, size - 2, 16), of images (8, size, size, 3) and kernels (3, 3, 3, 16)."""
    return xb.conv2d(images, kernels)


@convolution.inputs
def inputs(rng: np.random.Generator, *, size: int, dtype: str = "float32") -> list[np.ndarray]:
    """Images of numbers from 0 to 1, kernels of standard normal ones."""
    images = rng.random((IMAGES, size, size, COLOURS)).astype(dtype)
    return [images, rng.standard_normal((WIDTH, WIDTH, COLOURS, KERNELS)).astype(dtype)]


check_drawn(convolution, lambda n: IMAGES * (COLOURS + KERNELS) * n * n, size=(WIDTH, 10**9))
