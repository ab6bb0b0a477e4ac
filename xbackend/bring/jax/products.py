"""Rows of `dot_general` and `conv_general_dilated`."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.bring.arrays import parts
from xbackend.bring.jax.arrays import ints, padded, shaped, turned
from xbackend.bring.jax.scalars import as_result
from xbackend.bring.jax.walk import JaxprWalk, row
from xbackend.errors import GraphError


@row("dot_general", attributes=("dimension_numbers", "precision", "preferred_element_type"), wraps=True)
def dot_general(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    """As `xb.matmul`, with free axes flattened to rows or columns; without a summed axis as `xb.multiply`."""
    (over_a, over_b), (batch_a, batch_b) = (map(ints, pair) for pair in equation.params["dimension_numbers"])
    a, b = map(xb.asarray, as_result(equation, values))
    rows = [i for i in range(a.ndim) if i not in (*over_a, *batch_a)]
    columns = [i for i in range(b.ndim) if i not in (*over_b, *batch_b)]
    batch, down, across = [a.shape[i] for i in batch_a], [a.shape[i] for i in rows], [b.shape[i] for i in columns]
    left, right = turned(a, (*batch_a, *rows, *over_a)), turned(b, (*batch_b, *over_b, *columns))
    if not over_a:
        left = shaped(left, (*batch, *down, *[1] * len(across)))
        return xb.multiply(left, shaped(right, (*batch, *[1] * len(down), *across)))
    inner = prod(a.shape[i] for i in over_a)
    product = xb.matmul(shaped(left, (*batch, prod(down), inner)), shaped(right, (*batch, inner, prod(across))))
    return shaped(product, (*batch, *down, *across))


_CONVOLUTION = (
    *("window_strides", "padding", "lhs_dilation", "rhs_dilation", "dimension_numbers", "feature_group_count"),
    *("batch_group_count", "precision", "preferred_element_type"),
)


@row("conv_general_dilated", attributes=_CONVOLUTION)
def convolution(walk: JaxprWalk, equation: Any, values: list[Any]) -> Any:
    """`xb.conv2d`, with zeros between elements where an array is dilated. Along one axis, a second one has length 1."""
    params, numbers = equation.params, equation.params["dimension_numbers"]
    axes = len(numbers.lhs_spec) - 2
    if axes not in (1, 2):
        raise GraphError(f"a convolution along {axes} axes has no row: there are those along one and two")
    if params["batch_group_count"] != 1:
        raise GraphError("a convolution with batch_group_count has no row: convolve each group of images")
    images, kernel = map(xb.asarray, as_result(equation, values))
    batch, channels, *places = numbers.lhs_spec
    images = turned(images, (batch, *places, channels))
    results, features, *places = numbers.rhs_spec
    kernel = turned(kernel, (*places, features, results))
    images = _spread(images, [(0, 0), *params["padding"], (0, 0)], [1, *params["lhs_dilation"], 1])
    kernel = _spread(kernel, [(0, 0)] * kernel.ndim, [*params["rhs_dilation"], 1, 1])
    strides = ints(params["window_strides"])
    if axes == 1:
        images, kernel, strides = xb.expand_dims(images, axis=1), xb.expand_dims(kernel, axis=0), (1, *strides)
    groups = int(params["feature_group_count"])
    pairs = zip(*(parts(one, -1, [one.shape[-1] // groups] * groups) for one in (images, kernel)), strict=True)
    each = [xb.conv2d(*pair, strides=strides) for pair in pairs]
    made = each[0] if groups == 1 else xb.concat(each, axis=-1)
    made = xb.squeeze(made, axis=1) if axes == 1 else made
    batch, features, *places = numbers.out_spec
    return turned(made, np.argsort([batch, *places, features]).tolist())


def _spread(array: Any, around: Any, dilation: Any) -> Any:
    """The array with zeros around it and between its elements."""
    config = [(*pair, n - 1) for pair, n in zip(around, dilation, strict=True)]
    return padded(array, xb.zeros((), dtype=array.dtype), config) if any(map(any, config)) else array
