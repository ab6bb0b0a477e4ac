"""Hypothesis strategies for devices, arrays and indices."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis.extra import numpy as arrays

import xbackend as xb
from xbackend.errors import XBackendError
from xbackend.program.aval import Aval
from xbackend.program.dtypes import DType
from xbackend.program.ops import OPS

DTYPES = tuple(DType)
FLOATING = tuple(d for d in DTYPES if d.is_floating)
INTEGER = tuple(d for d in DTYPES if d.is_integer)
UNSIGNED = tuple(d for d in DTYPES if d.is_unsigned)
SIGNED = tuple(d for d in DTYPES if not d.is_unsigned)  # bool among them
REDUCTIONS = ("sum", "prod", "max", "min", "mean", "any", "all")
STRUCTURAL = frozenset(
    {*REDUCTIONS, "argmax", "argmin", "cumulative_sum", "matmul", "reshape", "permute_dims", "broadcast_to", "concat"}
    | {"stack", "all_reduce"}
    | {
        "take",
        "take_along_axis",
        "slice_set",
        "slice_add",
        "take_set",
        "take_add",
        "slice",
        "astype",
        "where",
        "transfer",
        "grad",
        "scan",
        "while_loop",
        "cond",
        "input",
        "shared",
        "constant",
        "full",
        "arange",
        "eye",
    }
    | {"cumulative_prod", "sort", "argsort", "searchsorted", "diagonal", "conv2d"}
    | {"cholesky", "inv", "det", "slogdet", "solve", "solve_triangular", "eigh", "eigvalsh", "qr", "svd", "svdvals"}
    | {"scan", "while_loop", "cond"}
)
ELEMENTWISE = tuple(op for op in OPS if op not in STRUCTURAL)
# The smallest shape of an op's argument, if it may not be a number.
_SMALLEST: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("argmax", "argmin", "cumulative_sum", "cumulative_prod", "sort", "argsort", "searchsorted"), (1,)),
    **dict.fromkeys(("cholesky", "inv", "det", "slogdet", "solve", "solve_triangular"), (1, 1)),
    **dict.fromkeys(("eigh", "eigvalsh", "qr", "svd", "svdvals"), (1, 1)),
    **dict.fromkeys(("matmul", "diagonal"), (1, 1)),
    "conv2d": (1, 1, 1, 1),
}
_PARAMS = {"lower": 1, "offset": 0, "right": 0, "full": 0, "strides": (1, 1), "padding": (0, 0, 0, 0)}


def dtypes_of(op: str) -> tuple[DType, ...]:
    """The dtypes of an op, by its own dtype rule."""
    arity = max(OPS[op].arity, 1)
    shapes = _SMALLEST.get(op, ())
    params = {**_PARAMS, "axis": 0 if shapes else ()}

    def takes(dtype: DType) -> bool:
        try:
            OPS[op].results([Aval(shapes, dtype)] * arity, params)
        except XBackendError:
            return False
        return True

    return tuple(d for d in DTYPES if takes(d))


TAKES = {op: dtypes_of(op) for op in (*ELEMENTWISE, *REDUCTIONS, *_SMALLEST)}


@st.composite
def devices(draw: st.DrawFn) -> xb.Device:
    """Any valid device."""
    job = draw(st.none() | st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True))
    number = st.integers(0, 10**9 - 1) | st.integers(0, 9)
    task = draw(st.none() | number) if job else None
    return xb.Device(draw(st.sampled_from(["cpu", "gpu", "tpu"])), draw(number), job, task)


def values(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Numbers of moderate size; floating-point ones are all different."""
    if dtype is DType.bool:
        return rng.random(shape) < 0.5
    if dtype.is_integer:
        return rng.integers(-9 * (not dtype.is_unsigned), 10, shape).astype(dtype.value)
    return rng.uniform(-1.0, 1.0, shape).astype(dtype.value)


def sample_of(dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """The same numbers each time for a shape."""
    return values(np.random.default_rng(0), shape, dtype)


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...], nonempty: bool = False) -> tuple[Any, ...]:
    """A basic index of an array of the shape."""
    key: list[Any] = []
    for length in shape[: draw(st.integers(0, len(shape)))]:
        if length and draw(st.booleans()):
            key.append(draw(st.integers(-length, length - 1)))
            continue
        bound = st.none() if nonempty else st.none() | st.integers(-length - 2, length + 2)
        step = draw(st.sampled_from([None, 1, 2, 3, -1, -2, -5]))
        key.append(slice(draw(bound), draw(bound), step))
        if draw(st.booleans()):
            key.append(None)
    if draw(st.booleans()):
        key.append(Ellipsis)
    return tuple(key)


@st.composite
def mixed_keys(draw: st.DrawFn, shape: tuple[int, int, int]) -> tuple[Any, ...]:
    """An index of an array of the shape, in NumPy's sense: integers, slices, new axes, ``...``, and up to two arrays of
    integers without a slice between them."""
    key: list[Any] = [draw(st.one_of(st.integers(-n, n - 1), st.slices(n))) for n in shape]
    places = draw(st.sampled_from([(), (0,), (1,), (2,), (0, 1), (1, 2), (0, 2)]))
    lengths = draw(st.sampled_from([(), (2,), (2, 3), (0,)]))
    for axis in places:
        n = shape[axis]
        key[axis] = draw(arrays.arrays(np.int64, lengths, elements=st.integers(-n, n - 1)))
    if places == (0, 2):
        key[1] = draw(st.integers(-shape[1], shape[1] - 1))
    if draw(st.booleans()):
        key = key[: draw(st.integers(1, 3))]
    whole = len(key) == len(shape)
    for item in draw(st.sampled_from([[], [None], [...], [None, ...], [None, None]])):
        held = [i for i, k in enumerate(key) if isinstance(k, np.ndarray)] or [0]
        apart = range(held[0] + 1, held[-1] + 1) if item is ... and not whole else ()  # there it would be a slice
        key.insert(draw(st.sampled_from([i for i in range(len(key) + 1) if i not in apart])), item)
    return tuple(key)


def shapes(least: int = 0) -> st.SearchStrategy[tuple[int, ...]]:
    return st.lists(st.integers(least, 3), max_size=3).map(tuple)
