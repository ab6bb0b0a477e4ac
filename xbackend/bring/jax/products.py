"""`dot_general` and `conv_general_dilated`."""

from __future__ import annotations

from math import prod
from typing import Any

import xbackend.api.functions as xb
from xbackend.bring import dtypes
from xbackend.bring.jax.arrays import padded, turned
from xbackend.bring.jax.walk import Walk, dtype_of, row
from xbackend.errors import GraphError


def _cast(equation: Any, values: list[Any]) -> list[Any]:
    """Both arrays in the dtype of the result."""
    dtype = dtype_of(equation.outvars[0])
    return [
        xb.asarray(dtypes.cast(value, dtype_of(one), dtype)) for value, one in zip(values, equation.invars, strict=True)
    ]


@row("dot_general", attributes=("dimension_numbers", "precision", "preferred_element_type"), wraps=True)
def dot_general(walk: Walk, equation: Any, values: list[Any]) -> Any:
    """As a product of matrices: batches in front, then the axes that stay, and those that are summed."""
    (over_a, over_b), (batch_a, batch_b) = (
        tuple(tuple(int(n) for n in one) for one in pair) for pair in equation.params["dimension_numbers"]
    )
    a, b = _cast(equation, values)
    rows = [i for i in range(a.ndim) if i not in (*over_a, *batch_a)]
    columns = [i for i in range(b.ndim) if i not in (*over_b, *batch_b)]
    batch = [a.shape[i] for i in batch_a]
    shape = (*batch, *(a.shape[i] for i in rows), *(b.shape[i] for i in columns))
    if not over_a:
        left = xb.reshape(turned(a, (*batch_a, *rows)), (*batch, *(a.shape[i] for i in rows), *(1,) * len(columns)))
        right = xb.reshape(turned(b, (*batch_b, *columns)), (*batch, *(1,) * len(rows), *(b.shape[i] for i in columns)))
        return xb.multiply(left, right)
    inner = prod(a.shape[i] for i in over_a)
    left = _shaped(turned(a, (*batch_a, *rows, *over_a)), (*batch, prod(a.shape[i] for i in rows), inner))
    right = _shaped(turned(b, (*batch_b, *over_b, *columns)), (*batch, inner, prod(b.shape[i] for i in columns)))
    return _shaped(xb.matmul(left, right), shape)


def _shaped(array: Any, shape: tuple[int, ...]) -> Any:
    return array if array.shape == shape else xb.reshape(array, shape)


_CONVOLUTION = (
    *("window_strides", "padding", "lhs_dilation", "rhs_dilation", "dimension_numbers", "feature_group_count"),
    *("batch_group_count", "precision", "preferred_element_type"),
)


@row("conv_general_dilated", attributes=_CONVOLUTION)
def convolution(walk: Walk, equation: Any, values: list[Any]) -> Any:
    """`xb.conv2d`, with zeros between elements where an array is dilated. One axis becomes two of which one is 1."""
    params, numbers = equation.params, equation.params["dimension_numbers"]
    axes = len(numbers.lhs_spec) - 2
    if axes not in (1, 2):
        raise GraphError(f"a convolution along {axes} axes has no row: there are those along one and two")
    if params["batch_group_count"] != 1:
        raise GraphError("a convolution with batch_group_count has no row: convolve each group of images")
    images, kernel = _cast(equation, values)
    batch, channels, *places = numbers.lhs_spec
    images = turned(images, (batch, *places, channels))
    results, features, *places = numbers.rhs_spec
    kernel = turned(kernel, (*places, features, results))
    images = _spread(images, (0, *(n - 1 for n in params["lhs_dilation"]), 0), params["padding"])
    kernel = _spread(kernel, (*(n - 1 for n in params["rhs_dilation"]), 0, 0), None)
    strides = tuple(int(n) for n in params["window_strides"])
    if axes == 1:
        images, kernel, strides = xb.expand_dims(images, axis=1), xb.expand_dims(kernel, axis=0), (1, *strides)
    made = _grouped(images, kernel, strides, int(params["feature_group_count"]))
    made = xb.squeeze(made, axis=1) if axes == 1 else made
    back = [0] * (axes + 2)
    for own, there in enumerate((numbers.out_spec[0], *numbers.out_spec[2:], numbers.out_spec[1])):
        back[there] = own
    return turned(made, back)


def _spread(array: Any, between: tuple[int, ...], padding: Any) -> Any:
    """Zeros between the elements and around them."""
    around = [(0, 0), *padding, (0, 0)] if padding is not None else [(0, 0)] * array.ndim
    config = [(int(a), int(b), int(n)) for (a, b), n in zip(around, between, strict=True)]
    return array if not any(any(one) for one in config) else padded(array, xb.zeros((), dtype=array.dtype), config)


def _grouped(images: Any, kernel: Any, strides: tuple[int, ...], groups: int) -> Any:
    if groups == 1:
        return xb.conv2d(images, kernel, strides=strides)
    channels, results = images.shape[-1] // groups, kernel.shape[-1] // groups
    each = [
        xb.conv2d(
            images[..., i * channels : (i + 1) * channels],
            kernel[..., i * results : (i + 1) * results],
            strides=strides,
        )
        for i in range(groups)
    ]
    return xb.concat(each, axis=-1)
