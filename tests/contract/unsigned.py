"""The checks of unsigned integers: ops of frameworks, and ops on wider integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from batches import Batch, Check
from strategies import DTYPES, UNSIGNED

import xbackend as xb
from xbackend.program.dtypes import DType, promote

# Both ends of a dtype, numbers beyond the signed half, and numbers whose sums overflow.
NUMBERS = {
    DType.uint8: (0, 1, 2, 7, 100, 127, 128, 200, 255),
    DType.uint32: (0, 1, 2, 7, 2**16 + 1, 2**31 - 1, 2**31, 2**31 + 12345, 2**32 - 1),
}
_PAIRS = (
    *("add", "subtract", "multiply", "maximum", "minimum", "equal", "not_equal", "less", "less_equal", "greater"),
    *("greater_equal", "bitwise_and", "bitwise_or", "bitwise_xor"),
)
_ONE = ("abs", "negative", "sign", "square", "bitwise_invert", "positive", "floor", "isfinite", "logical_not")


def _of_elements(dtype: DType) -> dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]]:
    x = np.array(NUMBERS[dtype], dtype.value)
    column, divisors, small = x[:, None], x[1:], np.arange(4, dtype=dtype.value)
    last = 8 * x.itemsize - 1
    places = np.array([0, 1, last - 1, last, last + 1], dtype.value)
    return {
        **{name: (getattr(xb, name), (column, x)) for name in _PAIRS},
        **{name: (getattr(xb, name), (x,)) for name in _ONE if name != "logical_not"},
        "floor_divide": (xb.floor_divide, (column, divisors)),
        "remainder": (xb.remainder, (column, divisors)),
        "pow": (xb.pow, (column, small)),
        "bitwise_left_shift": (xb.bitwise_left_shift, (column, places)),
        "bitwise_right_shift": (xb.bitwise_right_shift, (column, places)),
        "numbers": (lambda x: (x + 1) * 3 - 2, (x,)),
        "from_0": (lambda x: 0 - x, (x,)),
        # An overflow wraps before the next op, even in one compiled loop.
        "half_of_a_sum": (lambda x: (x + x) // 2, (x,)),
        "compared_with_a_product": (lambda x: x * x > 3, (x,)),
        "float_of_a_difference": (lambda x: xb.astype(x - 100, xb.float64), (x,)),
        "sum_of_a_sum": (lambda x: xb.sum(x + x), (x,)),
        "power_of_2": (lambda x: 2**x, (small,)),
        "clip": (lambda x: xb.clip(x, 2, 200), (x,)),
        "where": (lambda x: xb.where(x > 5, x, 0), (x,)),
    }


def _of_axes(dtype: DType) -> dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]]:
    x = np.array(NUMBERS[dtype], dtype.value).reshape(3, 3)[::-1]
    nothing = np.zeros((0, 3), dtype.value)
    return {
        "sum": (lambda x: xb.sum(x, axis=0), (x,)),
        "sum_in_its_own_dtype": (lambda x: xb.sum(x, axis=0, dtype=dtype), (x,)),
        "sum_of_nothing": (lambda x: xb.sum(x, axis=0), (nothing,)),
        "prod": (lambda x: xb.prod(x[1:, :2], axis=1), (x,)),
        "max": (lambda x: xb.max(x, axis=(0, -1), keepdims=True), (x,)),
        "min": (lambda x: xb.min(x, axis=1), (x,)),
        "any": (lambda x: xb.any(x, axis=0), (x,)),
        "argmax": (lambda x: xb.argmax(x, axis=1), (x,)),
        "argmin": (xb.argmin, (x,)),
        "cumulative_sum": (lambda x: xb.cumulative_sum(x, axis=1), (x,)),
        "cumulative_prod": (lambda x: xb.cumulative_prod(x, axis=0, dtype=dtype), (x,)),
        "matmul": (xb.matmul, (x, x.T)),
        "matrix_power_5": (lambda x: xb.linalg.matrix_power(x, 5), (x,)),
        "sort": (lambda x: xb.sort(x, axis=0, descending=True), (x,)),
        "argsort": (lambda x: xb.argsort(x, axis=0), (x,)),
        "searchsorted": (lambda x, v: xb.searchsorted(xb.sort(xb.reshape(x, (-1,))), v), (x, x[0])),
        "isin": (xb.isin, (x, x[1])),
        "reshape": (lambda x: xb.reshape(x, (1, -1)), (x,)),
        "permute_dims": (lambda x: xb.permute_dims(x, (1, 0)), (x,)),
        "broadcast_to": (lambda x: xb.broadcast_to(x[0], (2, 3)), (x,)),
        "concat": (lambda x: xb.concat([x, x[:, ::-1]], axis=1), (x,)),
        "stack": (lambda x: xb.stack([x, x[::-2][:1] + x]), (x,)),
        "diagonal": (xb.linalg.diagonal, (x,)),
        "identity": (lambda x: x, (x,)),
        "scalar": (lambda x: x[1, 2] + x[0, 0], (x,)),
        "take": (lambda x, i: xb.take(x, i, axis=1), (x, np.array([2, 0, -1]))),
        "slice_set": (lambda x: xb.at(x)[1:, ::2].set(x[:2, 1:]), (x,)),
        "slice_add": (lambda x: xb.at(x)[1:, ::2].add(x[:2, 1:]), (x,)),
        "take_set": (lambda x, i: xb.at(x)[i].set(x[1:]), (x, np.array([2, 0]))),
        "take_add": (lambda x, i: xb.at(x)[i].add(x[1:]), (x, np.array([1, 1]))),
        "as_an_index": (lambda x, i: x[i], (x, np.array([2, 0, 2], dtype.value))),
        "take_along_axis": (lambda x, i: xb.take_along_axis(x, i, axis=0), (x, np.array([[2, 0, 1]], dtype.value))),
        "scan": (lambda x: xb.scan(lambda c, row: (c + row, c), x[0], x)[1], (x,)),
    }


def _made(dtype: DType) -> dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]]:
    x, most = np.array([True, False]), np.iinfo(dtype.value).max
    return {
        "full": (lambda x: xb.full((2,), int(most), dtype=dtype), (x,)),
        "arange": (lambda x: xb.arange(250, 256, dtype=dtype), (x,)),
        "eye": (lambda x: xb.eye(2, 3, k=1, dtype=dtype), (x,)),
        "constant": (lambda x: xb.asarray(np.array(NUMBERS[dtype], dtype.value)), (x,)),
        "ones_like": (lambda x: xb.ones_like(x, dtype=dtype), (x,)),
    }


def _between(dtype: DType) -> dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]]:
    """Casts to and from every other dtype, and promotion with each."""
    x, found = np.array(NUMBERS[dtype], dtype.value), {}
    for other in DTYPES:
        if other is dtype:
            continue
        bounded = other.is_integer and np.iinfo(other.value).max < x.max()
        found[f"astype_{other}"] = (lambda x, other=other: xb.astype(x, other), (x[: 5 if bounded else None],))
        given = np.array([0, 1, 100], other.value)
        found[f"astype_from_{other}"] = (lambda y: xb.astype(y, dtype), (given,))
        if promote(dtype, other) is not None:
            found[f"add_{other}"] = (xb.add, (x[:3], given))
            found[f"equal_{other}"] = (xb.equal, (given, x[:3]))
    halves = np.array([0.0, 0.99, 200.7, 3e9 if dtype is DType.uint32 else 255.0])
    found["astype_cuts_off"] = (lambda y: xb.astype(y, dtype), (halves,))
    found["astype_wraps"] = (lambda y: xb.astype(y, dtype), (np.array([-1, -7, 2**40 + 3], np.int64),))
    return found


def batches() -> list[Batch]:
    """A batch for each dtype: few ops are compiled differently than for other integers."""
    return [
        Batch(
            f"unsigned-{dtype}",
            tuple(
                Check(f"{label}-{dtype}", function, arrays, "bits")
                for label, (function, arrays) in {
                    **_of_elements(dtype),
                    **_of_axes(dtype),
                    **_made(dtype),
                    **_between(dtype),
                }.items()
            ),
        )
        for dtype in UNSIGNED
    ]
