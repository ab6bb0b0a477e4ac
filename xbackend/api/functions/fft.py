"""``xbackend.fft``: the functions of the standard's extension that need no complex numbers; xbackend has none.

https://data-apis.org/array-api/2025.12/extensions/fourier_transform_functions.html
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xbackend.api.functions.creation import asarray
from xbackend.api.functions.rearrangement import roll
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.casting import given, integer, normalize_axes
from xbackend.errors import DTypeError, ShapeError
from xbackend.program.dtypes import as_dtype

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _frequencies(name: str, n: Any, d: float, dtype: Any, device: Any) -> Array:
    count, kind = integer(n), as_dtype(float if dtype is None else dtype)
    if count is None or count < 1:
        raise ShapeError(f"{name} of {n!r:.40} samples: it is an integer from 1 up")
    if not kind.is_floating:
        raise DTypeError(f"{name} gives floating-point numbers, not {kind}")
    return asarray(getattr(np.fft, name)(count, float(d)).astype(kind.value), device=device)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of a discrete Fourier transform of n samples with spacing d; negative ones are last.

    >>> backend.compile(lambda: xb.fft.fftfreq(4, d=0.5))()
    array([ 0. ,  0.5, -1. , -0.5])
    """
    return _frequencies("fftfreq", n, d, dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of a discrete Fourier transform of n real samples with spacing d; none is negative.

    >>> backend.compile(lambda: xb.fft.rfftfreq(4, d=0.5))()
    array([0. , 0.5, 1. ])
    """
    return _frequencies("rfftfreq", n, d, dtype, device)


def fftshift(x: Any, /, *, axes: Any = None) -> Array:
    """The array with the frequency zero in the middle of the axes (all if None).

    >>> backend.compile(xb.fft.fftshift, np.arange(4))(np.arange(4))
    array([2, 3, 0, 1])
    """
    return _shifted("fft.fftshift", x, axes, 1)


def ifftshift(x: Any, /, *, axes: Any = None) -> Array:
    """The inverse of `fftshift`.

    >>> backend.compile(xb.fft.ifftshift, np.arange(4))(np.arange(4))
    array([2, 3, 0, 1])
    """
    return _shifted("fft.ifftshift", x, axes, -1)


def _shifted(name: str, x: Any, axes: Any, sign: int) -> Array:
    array = given(name, x)
    over = normalize_axes(axes, array.ndim)
    return roll(array, tuple(sign * (array.shape[a] // 2) for a in over), axis=over)
