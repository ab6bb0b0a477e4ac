"""Layers of neural networks: biases, softmax, losses, convolution and pooling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from math import inf
from typing import Any

import numpy as np

import xbackend.api.functions as xb
from xbackend.api.functions.convolution import zeros_around
from xbackend.api.tracing.gradient import grad
from xbackend.bring.scalars import log_softmax, softmax
from xbackend.bring.tensorflow.arrays import padded
from xbackend.bring.tensorflow.elementwise import FUNCTIONS
from xbackend.bring.tensorflow.walk import TensorFlowWalk, array, lengths, other_gradient, row, within
from xbackend.errors import GraphError
from xbackend.program.dtypes import DType


@row("BiasAdd", "BiasAddV1", attributes="data_format")
def bias_add(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x, bias = map(array, values)
    return xb.add(x, xb.reshape(bias, (-1, *[1] * (x.ndim - 2))) if _channels_first(operation) else bias)


@row("BiasAddGrad", attributes="data_format")
def bias_add_grad(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    dy = array(values[0])
    kept = 1 if _channels_first(operation) else dy.ndim - 1
    return xb.sum(dy, axis=tuple(a for a in range(dy.ndim) if a != kept), dtype=dy.dtype)


def _channels_first(operation: Any) -> bool:
    form = operation.get_attr("data_format") if operation.type != "BiasAddV1" else b"NHWC"
    if form not in (b"NHWC", b"NCHW"):
        raise GraphError(f"images in the form {form.decode()} have no row: use NHWC")
    return bool(form == b"NCHW")


@row("SoftmaxCrossEntropyWithLogits")
def cross_entropy(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    """The loss, and softmax minus labels. A label of 0 adds nothing to the loss, whatever its logit is."""
    if walk.shared.gradients and isinstance(values[1], np.ndarray) and not np.allclose(values[1].sum(-1), 1.0, 1e-3):
        other_gradient(values, "labels do not sum to 1, and TensorFlow's gradient is then not that of the loss")
    logits, labels = xb.broadcast_arrays(*map(array, values))
    each = FUNCTIONS["MulNoNan"](log_softmax(logits), labels)
    return [xb.negative(xb.sum(each, axis=-1)), xb.subtract(softmax(logits), labels)]


@row("SparseSoftmaxCrossEntropyWithLogits")
def sparse_cross_entropy(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    logits = array(values[0])
    labels = array(within(values[1], logits.shape[-1], "the labels"))
    where = xb.expand_dims(xb.astype(labels, DType.int64), axis=-1)
    loss = xb.negative(xb.squeeze(xb.take_along_axis(log_softmax(logits), where), axis=-1))
    own = xb.equal(xb.arange(logits.shape[-1], dtype=DType.int64), where)
    return [loss, xb.subtract(softmax(logits), xb.astype(own, logits.dtype))]


_CONVOLUTION = "strides use_cudnn_on_gpu padding explicit_paddings data_format dilations"


row("Conv2D", attributes=_CONVOLUTION)(lambda walk, operation, values: _convolved(operation, *map(array, values)))


@row("Conv2DBackpropInput", attributes=_CONVOLUTION)
def conv2d_of_input(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    """The gradient of a convolution by its images, which `tf.nn.conv2d_transpose` is, too."""
    kernel, dy = map(array, values[1:])
    return _pulled_back(lambda x: _convolved(operation, x, kernel), values[0], dy)


@row("Conv2DBackpropFilter", attributes=_CONVOLUTION)
def conv2d_of_kernel(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    x = array(values[0])
    return _pulled_back(lambda kernel: _convolved(operation, x, kernel), values[1], array(values[2]))


def _pulled_back(of: Callable[[Any], Any], shape: Any, dy: Any) -> Any:
    """The gradient of the linear function ``of`` by its argument of this shape, for the result's gradient ``dy``."""
    x = xb.zeros(lengths(shape, "the shape of what is convolved or pooled"), dtype=dy.dtype)
    return grad(xb.sum(xb.multiply(of(x), dy)), x)


def _convolved(operation: Any, x: Any, kernel: Any) -> Any:
    first = _channels_first(operation)
    if any(n != 1 for n in operation.get_attr("dilations")):
        raise GraphError("a convolution with dilations has no row")
    padding: Any = operation.get_attr("padding").decode()
    if padding == "EXPLICIT":
        each = list(operation.get_attr("explicit_paddings"))
        begin = 4 if first else 2
        padding = ((each[begin], each[begin + 1]), (each[begin + 2], each[begin + 3]))
    x = xb.permute_dims(x, (0, 2, 3, 1)) if first else x
    if x.shape[3] != kernel.shape[2]:
        raise GraphError("a convolution of groups of channels has no row: split the channels, and concatenate after it")
    found = xb.conv2d(x, kernel, strides=_of_pixels(operation, "strides"), padding=padding)
    return xb.permute_dims(found, (0, 3, 1, 2)) if first else found


def _of_pixels(operation: Any, attribute: str) -> tuple[int, int]:
    """The attribute's numbers for rows and columns. Raises `GraphError` unless those for images and channels are 1."""
    each, begin = operation.get_attr(attribute), 2 if _channels_first(operation) else 1
    if any(n != 1 for a, n in enumerate(each) if a not in (begin, begin + 1)):
        raise GraphError(f"steps of {list(each)} through images or channels have no row")
    return int(each[begin]), int(each[begin + 1])


@row("DepthwiseConv2dNative", attributes="strides padding explicit_paddings data_format dilations")
def depthwise(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    """Each channel is convolved with its own kernels: a sum of products over the positions in the window."""
    x, kernel = map(array, values)
    first, padding = _channels_first(operation), operation.get_attr("padding")
    if any(n != 1 for n in operation.get_attr("dilations")) or padding not in (b"SAME", b"VALID"):
        raise GraphError("a convolution of each channel with dilations or its own paddings has no row: use tf.pad")
    x, window = xb.permute_dims(x, (0, 2, 3, 1)) if first else x, kernel.shape[:2]
    weights = xb.reshape(kernel, (window[0] * window[1], *kernel.shape[2:]))
    places = enumerate(_seen(operation, x, window, 0.0))
    found = reduce(xb.add, [xb.multiply(xb.expand_dims(part, axis=-1), weights[i]) for i, part in places])
    found = xb.reshape(found, (*found.shape[:3], kernel.shape[2] * kernel.shape[3]))
    return xb.permute_dims(found, (0, 3, 1, 2)) if first else found


_NORM = "epsilon exponential_avg_factor data_format is_training"


@row("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", attributes=_NORM)
def batch_norm(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    """The normalised images, and the new running mean and variance. The other results, which only TensorFlow's gradient
    uses, have no value."""
    x, scale, offset, mean, variance = map(array, values)
    share, epsilon = (float(np.float32(operation.get_attr(n))) for n in ("exponential_avg_factor", "epsilon"))
    training = bool(operation.get_attr("is_training"))
    first = _channels_first(operation)
    _check_statistics(walk, operation, training, values[3:])
    x = xb.permute_dims(x, (0, 2, 3, 1)) if first else x
    kept: Any = mean, variance
    if training:
        count = x.shape[0] * x.shape[1] * x.shape[2]
        own = xb.mean(x, axis=(0, 1, 2)), xb.var(x, axis=(0, 1, 2))
        without_bias = own[0], xb.multiply(own[1], count / max(count - 1, 1))
        if share == 1.0:
            kept = without_bias
        else:
            pairs = zip((mean, variance), without_bias, strict=True)
            kept = tuple(xb.add(xb.multiply(a, 1.0 - share), xb.multiply(b, share)) for a, b in pairs)
        mean, variance = own
    factor = xb.multiply(scale, xb.divide(1.0, xb.sqrt(xb.add(variance, epsilon))))
    found = xb.add(xb.multiply(xb.subtract(x, mean), factor), offset)
    found = xb.permute_dims(found, (0, 3, 1, 2)) if first else found
    return [found, *kept, *[None] * (len(operation.outputs) - 3)]


def _check_statistics(walk: TensorFlowWalk, operation: Any, training: bool, given: list[Any]) -> None:
    """Raises `GraphError` for a gradient through mean and variance, as results or as inputs: TensorFlow has none
    (python/ops/nn_grad.py, _BaseFusedBatchNormGrad)."""
    if not walk.shared.gradients:
        return
    why = "TensorFlow has no gradient through the mean and the variance of its fused_batch_norm"
    if not training:
        other_gradient(given, why)
    elif any(one.consumers() for one in operation.outputs[1:3]):
        other_gradient([array(given[0])], why)


_POOL = "ksize strides padding explicit_paddings data_format"


@row("MaxPool", "AvgPool", attributes=_POOL)
def pool(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return _pooled(operation, array(values[0]), largest=operation.type == "MaxPool")


@row("AvgPoolGrad", attributes=_POOL)
def pool_gradient(walk: TensorFlowWalk, operation: Any, values: list[Any]) -> Any:
    return _pulled_back(lambda x: _pooled(operation, x, largest=False), values[0], array(values[1]))


def _pooled(operation: Any, x: Any, largest: bool) -> Any:
    """The maximum, or the mean, of each window."""
    first, padding = _channels_first(operation), operation.get_attr("padding")
    if padding not in (b"SAME", b"VALID"):
        raise GraphError("pooling with its own paddings has no row: use tf.pad before")
    x, window = xb.permute_dims(x, (0, 2, 3, 1)) if first else x, _of_pixels(operation, "ksize")
    if largest:
        found = reduce(xb.maximum, _seen(operation, x, window, -inf))
    else:
        count = sum(_seen(operation, np.ones((1, *x.shape[1:3], 1)), window, 0.0))
        found = xb.divide(reduce(xb.add, _seen(operation, x, window, 0.0)), np.asarray(count, x.dtype.value))
    return xb.permute_dims(found, (0, 3, 1, 2)) if first else found


def _seen(operation: Any, x: Any, window: tuple[int, ...], value: float) -> Iterator[Any]:
    """For each position in the window, the pixels of all windows there. Images are padded with ``value``."""
    steps, same = _of_pixels(operation, "strides"), operation.get_attr("padding") == b"SAME"
    zeros = zeros_around("SAME" if same else "VALID", x.shape[1:3], window, steps)
    around = [(0, 0), zeros[:2], zeros[2:], (0, 0)]
    if isinstance(x, np.ndarray):
        x = np.pad(x, around, constant_values=value)
    elif any(zeros):
        x = padded(x, around, value)
    rows, columns = ((n - k) // s + 1 for n, k, s in zip(x.shape[1:3], window, steps, strict=True))
    for i in range(window[0]):
        for j in range(window[1]):
            down = slice(i, i + (rows - 1) * steps[0] + 1, steps[0])
            yield x[:, down, j : j + (columns - 1) * steps[1] + 1 : steps[1]]
