"""Layers and losses: functions of arrays with their rows along axis 0, and of weights."""

from __future__ import annotations

import math
from typing import Any

from xbackend.api import functions as xp
from xbackend.api.tracing.array import Array
from xbackend.api.tracing.tracer import current
from xbackend.errors import ArgumentError, DTypeError, ShapeError
from xbackend.program.dtypes import DType
from xbackend.strategies.strategy import EVALUATES
from xbackend.workloads.workload import plain


def dense(x: Any, w: Any, b: Any = None) -> Array:
    """x @ w + b: [n, i], [i, o] and [o] give [n, o].

    >>> arrays = np.ones((2, 3)), np.ones((3, 1)), np.ones(1)
    >>> backend.compile(xb.training.layers.dense, *arrays)(*arrays)
    array([[4.],
           [4.]])
    """
    made = xp.matmul(current("dense").array(x), w)
    return made if b is None else xp.add(made, b)


def convolution(x: Any, w: Any, b: Any = None, *, strides: Any = 1, padding: Any = "VALID") -> Array:
    """`xbackend.conv2d` of images [n, h, w, channels], plus ``b`` [channels of the result].

    >>> arrays = np.ones((1, 4, 4, 3)), np.ones((2, 2, 3, 5)), np.ones(5)
    >>> backend.compile(xb.training.layers.convolution, *arrays)(*arrays).shape
    (1, 3, 3, 5)
    """
    made = xp.conv2d(x, w, strides=strides, padding=padding)
    return made if b is None else xp.add(made, b)


def _chosen(name: str, logits: Any, labels: Any) -> tuple[Array, Array]:
    tracer = current(name)
    scores, of = tracer.array(logits), tracer.array(labels)
    if scores.ndim != 2 or of.shape != scores.shape[:1]:
        raise ShapeError(f"{name} takes scores [rows, classes] and labels [rows], not {scores!r} and {of!r}")
    if not of.dtype.is_integer:
        raise DTypeError(f"{name} takes labels that are integers, not {of!r}; convert with xb.astype")
    return scores, xp.astype(of, DType.int64)


def cross_entropy(logits: Any, labels: Any) -> Array:
    """The mean over rows of -log softmax(logits)[label], of floating-point [rows, classes] and integers [rows].

    Computed as logsumexp(logits) - logits[label], which never overflows. A label that is no class gives NaN on every
    backend, and NaN stops a training.

    >>> arrays = np.zeros((3, 4)), np.asarray([0, 1, 2])
    >>> round(float(backend.compile(xb.training.layers.cross_entropy, *arrays)(*arrays)), 4)
    1.3863
    """
    scores, of = _chosen("cross_entropy", logits, labels)
    own = xp.expand_dims(of, axis=1) == xp.arange(scores.shape[1], dtype=of.dtype)
    known = xp.logical_and(of >= 0, of < scores.shape[1])
    picked = xp.sum(xp.where(own, scores, xp.zeros_like(scores)), axis=1)
    return xp.mean(xp.where(known, xp.logsumexp(scores, axis=1) - picked, float("nan")))


def accuracy(logits: Any, labels: Any) -> Array:
    """The share of rows whose label has the largest score, a scalar of the scores' dtype.

    >>> arrays = np.asarray([[0.1, 0.9], [0.8, 0.2]]), np.asarray([1, 1])
    >>> float(backend.compile(xb.training.layers.accuracy, *arrays)(*arrays))
    0.5
    """
    scores, of = _chosen("accuracy", logits, labels)
    found = xp.argmax(scores, axis=1) == of
    return xp.mean(xp.astype(found, scores.dtype))


def dropout(x: Any, rate: float, seeds: Any, *, layer: int = 0) -> Array:
    """Floating-point rows with each element zero with the probability ``rate``, and the others divided by 1 - rate. In
    an evaluation (`Training.evaluate`) the rows are unchanged.

    ``seeds`` has one uint32 for each row (`Batches` makes them with ``seeds=``); each ``layer`` of a model has its own
    number. An element is dropped by its row's seed, the layer and its place in the row: the same on every backend, for
    any distribution of rows over devices. The bits are those of a mixing function of 32 bits (C. Wellons, lowbias32,
    https://nullprogram.com/blog/2018/07/31/).

    >>> arrays = np.ones((2, 4)), np.asarray([7, 8], np.uint32)
    >>> dropped = backend.compile(lambda x, seeds: xb.training.layers.dropout(x, 0.5, seeds), *arrays)(*arrays)
    >>> sorted({float(one) for one in dropped.ravel()})
    [0.0, 2.0]
    """
    tracer, rate, layer = current("dropout"), plain(rate), plain(layer)
    rows, own = tracer.array(x), tracer.array(seeds)
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < 1:
        raise ArgumentError(f"dropout: rate={rate!r:.40} is no number from 0 to below 1")
    if not rows.dtype.is_floating or not rows.ndim:
        raise DTypeError(f"dropout takes rows of floating-point numbers, not {rows!r}")
    if own.dtype is not DType.uint32 or own.shape != rows.shape[:1]:
        raise ShapeError(f"dropout takes one uint32 for each of {rows.shape[0]} rows as seeds, not {own!r}")
    if EVALUATES.get():
        return rows
    numbers = xp.arange(math.prod(rows.shape[1:]), dtype=DType.uint32) + (layer * 0x9E3779B9) % (1 << 32)
    bits = _mixed(xp.expand_dims(own, axis=1) ^ _mixed(numbers))
    keep = bits >= min(round(rate * (1 << 32)), (1 << 32) - 1)
    return xp.where(xp.reshape(keep, rows.shape), rows / (1.0 - rate), xp.zeros_like(rows))


def _mixed(x: Array) -> Array:
    for shift, factor in ((16, 0x21F0AAAD), (15, 0x735A2D97)):
        x = xp.multiply(xp.bitwise_xor(x, xp.bitwise_right_shift(x, shift)), factor)
    return xp.bitwise_xor(x, xp.bitwise_right_shift(x, 15))
