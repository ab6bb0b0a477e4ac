"""Functions as users of TensorFlow write them. The defaults are the example arguments.

`test_bring_tensorflow` runs this script in an environment of TensorFlow. It writes the program, inputs, results and
gradients of each function, or the error.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")

import numpy as np
import tensorflow as tf
from bring_helpers import Brought, weights_of, write
from tensorflow_files import write_all

from xbackend.bring.tensorflow.found import brought
from xbackend.bring.tensorflow.given import from_graph_def, from_tensorflow
from xbackend.errors import GraphError

tf1 = tf.compat.v1
R = np.random.default_rng(7)
V = R.normal(size=5)
W = R.normal(size=5)
A = R.normal(size=(3, 4))
B = R.normal(size=(4, 2))
S = R.normal(size=(4, 4)) + 4.0 * np.eye(4)
T = R.normal(size=(2, 3, 4))
P = R.uniform(0.2, 0.9, size=5)
ROWS = np.array([2, 0, 1])
K = np.array([5, -7, 3, 12, -1])
M = np.array([3, 2, -2, 5, 4])
SMALL, BITS = np.array([5, 7, 3, 12, 1]), np.array([3, 2, 2, 5, 4])
ZEROS, OTHERS = np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.5, 0.0])
PARTS, ONE, TWO, START = np.array([1, -1, 1]), np.int32(1), np.int32(2), np.float64(1.5)
LEAST, DIVISORS, PLACES = np.array([-(2**63), 5, -(2**63)]), np.array([3, -(2**63), -5]), np.array([[0, 2], [1, 1]])
BIAS, LABELS = np.array([0.3, -0.2]), np.array([1, 0, 1], np.int32)
KERNEL, FIRST = R.normal(size=(3, 2, 3, 4)), R.normal(size=(2, 2, 3, 1))
TEXT = R.normal(size=(2, 6, 5)).astype(np.float32)
PICTURE = R.normal(size=(2, 6, 5, 3))
IMAGE = PICTURE.astype(np.float32)


STATISTICS = R.uniform(0.2, 0.9, size=(4, 3)).astype(np.float32)
ROW, PAIR = R.normal(size=5), R.normal(size=2)


def arithmetic(x=V, y=W):
    return (x + y) * x - y / (2.0 + x**2) + tf.pow(tf.abs(x) + 0.1, y) - tf.math.squared_difference(x, y)


def of_one(x=V, p=P):
    each = [tf.exp, tf.math.expm1, tf.sin, tf.cos, tf.tan, tf.sinh, tf.cosh, tf.tanh, tf.math.asinh, tf.math.atan]
    each += [tf.math.erf, tf.math.erfc, tf.sigmoid, tf.nn.softplus, tf.nn.softsign, tf.nn.elu, tf.nn.selu]
    each += [tf.nn.relu, tf.nn.relu6, tf.nn.leaky_relu, tf.square, tf.abs, tf.negative]
    of_p = [tf.math.log, tf.math.log1p, tf.sqrt, tf.math.rsqrt, tf.math.reciprocal, tf.math.asin, tf.math.acos]
    of_p += [tf.math.atanh, tf.math.erfinv, tf.math.lgamma, tf.math.digamma]
    return [f(x) for f in each], [f(p) for f in of_p] + [tf.math.acosh(1.0 + p)]


def rounding(x=V * 3.0, k=K, m=M):
    of_x = [tf.floor(x), tf.math.ceil(x), tf.round(x), tf.math.rint(x), tf.sign(x), tf.truncatemod(x, W)]
    return of_x, [k // m, k % m, tf.truncatediv(k, m), tf.truncatemod(k, m), tf.abs(k), tf.sign(k), k * m - k]


def least_numbers(k=LEAST, m=DIVISORS):
    return tf.truncatediv(k, m), tf.truncatemod(k, m)


def stopped(x=V):
    return tf.stop_gradient(x) * x


def bands(x=S):
    part, d = tf.linalg.band_part, tf.linalg
    each = [part(x, 1, 0), part(x, -1, 1), part(x, 0, -1), d.diag(x[0], k=-1), d.set_diag(x, x[0, :3], k=1)]
    return each, d.diag(x[0], k=1, padding_value=7.0), d.diag(x[0] > 0.0), d.diag(1.0 / (x[0] - x[0]))


def from_variable(k=PLACES):
    gathered, one = (
        tf.raw_ops.ResourceGather(resource=TABLES.handle, indices=each, dtype=tf.float64, batch_dims=1)
        for each in (k, k[0])
    )
    return gathered + TABLES[0, 0, 0], one


def large(x=V):
    return x[0] + tf.reduce_sum(tf.constant(0.5, tf.float64, [400, 400]))


def remainders(x=V * 3.0, y=W):
    return tf.math.floordiv(x, y), tf.math.floormod(x, y)


def compared(x=V, y=W, k=K):
    return x < y, x >= y, tf.logical_and(x > 0.0, k > 0), tf.equal(k, 3), ~(x <= y), tf.math.is_nan(x), k != 5


def bits(k=SMALL, m=BITS):
    b = tf.bitwise
    return (
        b.bitwise_and(k, m),
        b.bitwise_or(k, m),
        b.bitwise_xor(k, m),
        b.invert(k),
        b.left_shift(k, m),
        b.right_shift(k, m),
    )


def safe(x=ZEROS, y=OTHERS):
    return (
        tf.math.divide_no_nan(x, y),
        tf.math.multiply_no_nan(x, y),
        tf.math.xlogy(x, y + 1.0),
        tf.math.xdivy(x, y + 1.0),
    )


def chosen(x=V, y=W):
    return tf.where(x > 0.0, x, y), tf.maximum(x, y), tf.minimum(x, 0.1), tf.clip_by_value(x, -0.5, 0.5)


def casts(x=V, k=K):
    c = tf.cast
    return c(x, tf.float32), c(x * 9.0, tf.int32), c(k, tf.float64), c(k > 0, tf.float32), c(k, tf.bool), c(k, tf.uint8)


def reduced(x=T):
    each = [tf.reduce_sum(x, 1), tf.reduce_mean(x), tf.reduce_max(x, [0, 2]), tf.reduce_min(x, -1, keepdims=True)]
    each += [
        tf.reduce_prod(x, 2),
        tf.reduce_logsumexp(x, 1),
        tf.math.reduce_variance(x, 0),
        tf.norm(x),
        *tf.nn.moments(x, [0, 2]),
        tf.nn.l2_loss(x),
    ]
    of_bools = tf.argmax(x > 0.0, 1), tf.argmin(x > 0.0, 2)
    return each, tf.reduce_any(x > 0.0, 1), tf.reduce_all(x < 9.0), tf.argmax(x, 1), tf.argmin(x, 2, tf.int32), of_bools


def running(x=A):
    a = tf.cumsum(x, 1), tf.cumsum(x, 0, exclusive=True), tf.cumsum(x, 1, reverse=True), tf.math.cumprod(x, 1)
    return a, tf.cumsum(x, 1, exclusive=True, reverse=True)


def ordered(x=A):
    top = tf.math.top_k(x, 2)
    return tf.sort(x, 1), tf.argsort(x, 0), top.values, top.indices, tf.searchsorted(tf.sort(x[0]), x[1])


def segments(x=A, i=PARTS):
    return tf.math.unsorted_segment_sum(x, i, 3), tf.math.segment_sum(x, [0, 0, 1])


def shapes(x=T):
    n = tf.shape(x)
    flat = tf.reshape(x, [n[0] * n[1], -1])
    each = [flat, tf.transpose(x, [2, 0, 1]), tf.expand_dims(x, 1), tf.squeeze(x[:1], 0), tf.tile(x, [1, 2, 1])]
    each += [
        tf.broadcast_to(x[:, :1], tf.shape(x)),
        tf.stack([x, 2.0 * x], 1),
        tf.concat([x, -x], -1),
        tf.reverse(x, [1]),
    ]
    each += [*tf.split(x, 3, axis=1), *tf.split(x, [1, -1], axis=2), *tf.unstack(x), tf.roll(x, [1, -1], [0, 2])]
    return each, tf.fill(n[:2], 2.0), tf.zeros_like(x), tf.range(n[2]), tf.linspace(0.0, 1.0, 4), tf.size(x), tf.rank(x)


def padded(x=A):
    return (
        tf.pad(x, [[1, 0], [2, 1]]),
        tf.pad(x, [[0, 1], [1, 1]], constant_values=3.0),
        tf.pad(x, [[1, 1], [0, 2]], "REFLECT"),
    )


def slices(x=T):
    return x[0], x[..., 1], x[:, 1:, ::2], x[:, tf.newaxis, -1], x[::-1, 2:0:-1], tf.slice(x, [0, 1, 1], [2, 1, -1])


def slices_of_values(x=T, i=ONE):
    return x[:, i], x[0, i, 1:3], tf.slice(x, [0, i, 1], [2, 2, 2]), tf.gather(x, i, axis=2)


def gathered(x=T, i=ROWS):
    where = np.array([[0, 1], [1, 2], [1, 0]])
    a = tf.gather(x, i % 2), tf.gather(x, i, axis=1), tf.gather(x, [[0, 1], [2, 2]], axis=1, batch_dims=1)
    return (
        a,
        tf.gather_nd(x, where),
        tf.gather(x, [[0], [3]], axis=2, batch_dims=1),
        tf.one_hot(i, 4, 2.0, -1.0, axis=0),
        tf.one_hot(tf.cast(i * 100, tf.uint8), 300),
        tf.gather(x, [1, 3], axis=2, batch_dims=1),
        tf.gather(x, [[0, 2, 1], [3, 0, 0]], axis=2, batch_dims=2),
        tf.gather(x, [[0, 2, 1], [3, 0, 0]], axis=2, batch_dims=-1),
    )


def scattered(x=A, y=B):
    where = np.array([[0], [2]])
    new = tf.transpose(y)
    a = (
        tf.tensor_scatter_nd_update(x, where, new),
        tf.tensor_scatter_nd_add(x, where, new),
        tf.tensor_scatter_nd_sub(x, where, new),
    )
    return a, tf.scatter_nd(np.array([[0, 1], [2, 2], [0, 1]]), x[:, 0], [3, 4])


def products(a=A, b=B, t=T):
    each = [a @ b, tf.matmul(a, a, transpose_b=True), tf.matmul(t, t, transpose_a=True), tf.matmul(t, b[None])]
    each += [
        tf.einsum("ij,bkj->bik", a, t),
        tf.einsum("bij->bj", t),
        tf.tensordot(t, b, 1),
        tf.linalg.matvec(a, b[:, 0]),
    ]
    return each, tf.linalg.cross(a[:, :3], a[:, 1:])


def matrices(s=S, b=B):
    spd = tf.matmul(s, s, transpose_b=True)
    root = tf.linalg.cholesky(spd)
    each = [
        root,
        tf.linalg.solve(s, b),
        tf.linalg.inv(s),
        tf.linalg.det(s),
        tf.linalg.slogdet(s)[1],
        tf.linalg.logdet(spd),
    ]
    each += [tf.linalg.triangular_solve(root, b), tf.linalg.triangular_solve(root, b, adjoint=True), tf.linalg.trace(s)]
    return each, tf.linalg.cholesky_solve(root, b), tf.linalg.solve(s, b, adjoint=True)


def spectra(s=S):
    values, vectors = tf.linalg.eigh(s)
    q, r = tf.linalg.qr(s)
    sizes, left, right = tf.linalg.svd(s[:, :3])
    back = tf.matmul(left * sizes, right, transpose_b=True)
    return (
        values,
        tf.linalg.eigvalsh(s),
        tf.abs(vectors),
        tf.abs(q),
        tf.abs(r),
        sizes,
        back,
        tf.linalg.svd(s, compute_uv=False),
    )


def diagonals(s=S, v=V[:4]):
    each = [tf.linalg.diag_part(s), tf.linalg.diag(v), tf.linalg.set_diag(s, v), tf.linalg.band_part(s, 1, 0)]
    return each, tf.linalg.diag_part(s, k=1), tf.linalg.diag(v, k=-1), tf.linalg.set_diag(s, v[:3], k=1)


def network(x=A, w=B, b=BIAS, labels=LABELS):
    logits = tf.nn.bias_add(tf.nn.relu(x) @ w, b)
    sparse = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    dense = tf.nn.softmax_cross_entropy_with_logits(tf.one_hot(labels, 2, dtype=tf.float64), logits)
    return tf.nn.softmax(logits), tf.nn.log_softmax(logits), sparse, dense


def pictures(x=PICTURE, k=KERNEL):
    each = [tf.nn.conv2d(x, k, 1, "VALID"), tf.nn.conv2d(x, k, [1, 2, 1, 1], "SAME")]
    each += [tf.nn.conv2d(x, k, 2, [[0, 0], [1, 0], [2, 1], [0, 0]])]
    return (
        each,
        tf.nn.max_pool2d(x, 2, 2, "SAME"),
        tf.nn.avg_pool2d(x, [3, 2], [1, 2], "SAME"),
        tf.nn.avg_pool2d(x, 2, 1, "VALID"),
    )


def gradient_inside(x=A, w=B):
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        loss = tf.reduce_sum(tf.tanh(tf.nn.relu(x + x[0]) @ w) * tf.sigmoid(x @ w)) + tf.reduce_mean(x[:, 1:])
    return loss, tape.gradient(loss, [x, w])


def gradient_of_pictures(x=PICTURE, k=KERNEL):
    with tf.GradientTape() as tape:
        tape.watch([x, k])
        y = tf.nn.avg_pool2d(tf.nn.conv2d(x, k, 2, "SAME"), 2, 1, "SAME")
        loss = tf.reduce_sum(tf.sin(y))
    return loss, tape.gradient(loss, [x, k]), tf.nn.conv2d_transpose(y, k, [2, 6, 5, 3], 2)


def checked(x=A):
    tf.debugging.assert_equal(tf.shape(x)[0], 3)
    tf.debugging.assert_rank(x, 2)
    return x * 2.0


def choice(x=V, k=ONE):
    if tf.reduce_sum(x) > 0.0:  # noqa: SIM108
        y = x * 2.0
    else:
        y = -x
    z = tf.switch_case(tf.cast(k, tf.int32), [lambda: x, lambda: tf.sin(x), lambda: x * x])
    return y, z


def counted(x=V):
    total = tf.zeros([], tf.float64)
    for i in tf.range(4):
        total = total + tf.cast(i, tf.float64) * tf.reduce_sum(tf.sin(x) ** 2)
    return total


def until(x=START):
    n = 0
    while x < 50.0:
        x = x * x
        n = n + 1
    return x, n


def scanned(x=A):
    ends = tf.scan(lambda carry, row: tf.tanh(carry) + row, x)
    return ends, tf.map_fn(lambda row: tf.sin(row) * row[0], x), tf.foldl(lambda a, b: a * 0.5 + b, x)


def array_of_tensors(x=V):
    out = tf.TensorArray(tf.float64, 5)
    for i in tf.range(5):
        out = out.write(i, x[i] * tf.cast(i, tf.float64))
    grown = tf.TensorArray(tf.float64, 0, dynamic_size=True)
    for i in range(3):
        grown = grown.write(i, x * i)
    return out.stack(), grown.stack()


@tf.function
def inner(x):
    return tf.sin(x) * 2.0


def called(x=V):
    return inner(x) + inner(x * 2.0)


def nested(x=V):
    return {"b": x + 1.0, "a": (x, [x * 2.0])}


SCALE = tf.Variable(np.array([1.0, 2.0]), name="scale")


def with_variable(x=B):
    return x * SCALE + SCALE


def placed(x=A, b=B):
    with tf.device("/gpu:0"):
        y = x @ b
    with tf.device("/device:GPU:1"):
        z = tf.sin(x)
    with tf.device("/cpu:0"):
        return tf.reduce_sum(y) + tf.reduce_sum(z)


tf.keras.utils.set_random_seed(3)
LAYERS = tf.keras.layers
IMAGES = tf.keras.Sequential(
    [
        *(LAYERS.Input([6, 5, 3]), LAYERS.Conv2D(4, 3, activation="relu"), LAYERS.DepthwiseConv2D(2, padding="same")),
        *(LAYERS.MaxPool2D(), LAYERS.Flatten(), LAYERS.Dense(3, activation="gelu"), LAYERS.LayerNormalization()),
        LAYERS.Dense(2, activation="softmax"),
    ]
)
SEQUENCES = tf.keras.Sequential([LAYERS.Input([6, 5]), LAYERS.LSTM(4), LAYERS.Dense(2)])
ATTENTION = LAYERS.MultiHeadAttention(2, 4)
WORDS = LAYERS.Embedding(5, 3)
WORDS.build([3])
ATTENTION.build([2, 6, 5], [2, 6, 5])
TOTAL = tf.Variable(np.zeros(5), name="total")
TABLES = tf.Variable(T, name="tables")


def keras_images(x=IMAGE):
    return IMAGES(x)


def keras_sequences(x=TEXT):
    return SEQUENCES(x)


def keras_attention(x=TEXT):
    return ATTENTION(x, x)


def keras_words(k=ROWS):
    return WORDS(k)


def halved(x=V, n=TWO):
    i = 0
    while i < n:
        x = x * 0.5
        TOTAL.assign_add(x)
        i += 1
    return x, TOTAL.read_value() - TOTAL


def normalised(x=IMAGE, s=STATISTICS):
    both = []
    for training in (True, False):
        both += tf1.nn.fused_batch_norm(x, s[0], s[1], s[2], s[3], is_training=training, exponential_avg_factor=0.25)
    return both[0], both[1], both[2], both[3]


def older_normalised(x=IMAGE, s=STATISTICS):
    rows = {"x": x, "scale": s[0], "offset": s[1], "mean": s[2], "variance": s[3], "exponential_avg_factor": 0.25}
    return [*tf.raw_ops.FusedBatchNorm(**rows)[:3], *tf.raw_ops.FusedBatchNormV2(**rows)[:3]]


def adam(x=ROW):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((POINT - x) ** 2)
    ADAM.apply_gradients([(tape.gradient(loss, POINT), POINT)])
    return loss, POINT.read_value()


POINT, ADAM = tf.Variable(np.ones(5), name="point"), tf.keras.optimizers.Adam(0.1)
ADAM.build([POINT])


class Saved(tf.Module):
    def __init__(self):
        self.w = tf.Variable(B, name="w")

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float64, name="x")])
    def __call__(self, x):
        count = tf.cast(tf.shape(x)[0], tf.float64)
        return {"z": tf.cond(tf.reduce_sum(x) > 0.0, lambda: x * 2.0, lambda: x - 1.0), "y": x @ self.w + count}


FUNCTIONS = [
    *(
        arithmetic,
        of_one,
        rounding,
        remainders,
        compared,
        bits,
        safe,
        chosen,
        casts,
        reduced,
        running,
        ordered,
        segments,
    ),
    *(shapes, padded, slices, slices_of_values, gathered, scattered, products, matrices, spectra, diagonals, network),
    *(
        pictures,
        gradient_inside,
        choice,
        counted,
        until,
        scanned,
        array_of_tensors,
        called,
        nested,
        with_variable,
        placed,
    ),
    *(least_numbers, stopped, bands, from_variable, large),
    *(keras_images, keras_sequences, keras_attention, keras_words, halved, checked, gradient_of_pictures),
]

NO_GRADIENT = (
    least_numbers,
    bands,
    from_variable,
    gradient_of_pictures,
    halved,
    keras_words,
    rounding,
    bits,
    until,
    gradient_inside,
    compared,
    ordered,
)


def graph_of(function: Callable[..., Any]) -> Brought:
    """The program of a function, and TensorFlow's results and gradients."""
    inputs = [np.asarray(one.default) for one in inspect.signature(function).parameters.values()]
    traced = tf.function(function)
    program = from_tensorflow(traced, *inputs).to_json()
    constants = [tf.constant(one) for one in inputs]
    if function in NO_GRADIENT:
        results = [one.numpy() for one in tf.nest.flatten(traced(*constants))]
        return Brought(program, inputs, results, weights_of(results), [], [])
    with tf.GradientTape() as tape:
        tape.watch([one for one in constants if one.dtype.is_floating])
        results = tf.nest.flatten(traced(*constants))
        weights = weights_of([one.numpy() for one in results])
        pairs = zip(results, weights, strict=True)
        loss = sum(tf.reduce_sum(tf.cast(one * w, tf.float64)) for one, w in pairs if w is not None)
    found = tape.gradient(loss, constants)
    of = [i for i, one in enumerate(found) if one is not None]
    gradients = [tf.convert_to_tensor(found[i]).numpy() for i in of]
    return Brought(program, inputs, [one.numpy() for one in results], weights, gradients, of)


def session(make: Callable[[], tuple[list[str], dict[str, np.ndarray]]]) -> Brought:
    """The program of a graph of TensorFlow 1, and a session's results."""
    with tf1.Graph().as_default() as graph:
        fetches, feeds = make()
        with tf1.Session(graph=graph, config=tf1.ConfigProto(allow_soft_placement=True)) as running:
            running.run(tf1.global_variables_initializer())
            definition = graph.as_graph_def()
            results = running.run(fetches, {f"{name}:0": one for name, one in feeds.items()})
    program = from_graph_def(definition.SerializeToString(), fetches, feeds).to_json()
    kept = [np.asarray(one) for one in results if one is not None]
    return Brought(program, list(feeds.values()), kept, weights_of(kept), [], [])


def towers():
    """In-graph replication, as in tutorials of TensorFlow 1."""
    x = tf1.placeholder(tf.float64, [6, 4], "x")
    w = tf1.get_variable("w", initializer=B, use_resource=False)
    losses, gradients = [], []
    for number, part in enumerate(tf.split(x, 2)):
        with tf.device(f"/gpu:{number}"), tf1.name_scope(f"tower_{number}"):
            losses.append(tf.reduce_mean(tf.square(tf.matmul(part, w))))
            gradients += tf1.gradients(losses[-1], [w])
    with tf.device("/cpu:0"):
        mean = tf.identity(tf.add_n(gradients) / 2.0, name="mean")
        tf.identity(tf.add_n(losses), name="loss")
        tf1.train.GradientDescentOptimizer(0.1).apply_gradients([(mean, w)], name="train")
    return ["loss:0", "mean:0"], {"x": np.tile(A, (2, 1))}


def powers():
    """A^n + B^n on two devices, and their sum on the host: the first example of many a tutorial."""
    for number, name in enumerate("ab"):
        with tf.device(f"/gpu:{number}"):
            a = tf1.placeholder(tf.float64, [None, 4], name)
            power = a
            for _ in range(3):
                power = tf.matmul(power, a)
            tf.identity(power, name=f"power_{name}")
    graph = tf1.get_default_graph()
    with tf.device("/cpu:0"):
        tf.add_n([graph.get_tensor_by_name(f"power_{name}:0") for name in "ab"], name="sum")
    return ["sum:0"], {"a": S, "b": S.T}


def momentum():
    """A step with momentum, and a loss with a `tf.cond`, whose branches are in the GraphDef's library."""
    tf1.enable_control_flow_v2()
    x = tf1.placeholder(tf.float64, [None], "x")
    v = tf1.get_variable("v", initializer=V, use_resource=True)
    error = tf.reduce_sum(tf.square(v - x))
    tf.identity(tf.cond(error > 1.0, lambda: error * 0.5, lambda: error), name="loss")
    tf1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True).minimize(error, name="train")
    return ["loss:0"], {"x": W}


def optimised(optimizer: Any) -> Callable[[], tuple[list[str], dict[str, np.ndarray]]]:
    """A step of an optimiser, as `momentum`."""

    def make() -> tuple[list[str], dict[str, np.ndarray]]:
        x = tf1.placeholder(tf.float64, [None], "x")
        v = tf1.get_variable("v", initializer=V, use_resource=False)
        error = tf.reduce_sum(tf.square(v - x), name="loss")
        optimizer(0.1).minimize(error, name="train")
        return ["loss:0"], {"x": W}

    return make


def saved(folder: Path) -> Brought:
    """A signature of a SavedModel, for one of its shapes."""
    tf.saved_model.save(Saved(), str(folder))
    loaded = tf.saved_model.load(str(folder))
    signature = loaded.signatures["serving_default"]
    results = [one.numpy() for one in tf.nest.flatten(signature(tf.constant(A)))]
    return Brought(from_tensorflow(signature, A).to_json(), [A], results, weights_of(results), [], [])


COUNT = tf.Variable(np.zeros(2), name="count")
STEPS = tf.Variable(0, dtype=tf.int64, name="steps")


def updates(x=PAIR):
    COUNT.assign_add(x)
    STEPS.assign_add(1)
    if tf.reduce_sum(COUNT) > 1.0:
        COUNT.assign(COUNT * 0.5)
    for _ in tf.range(2):
        COUNT.assign_sub(x * 0.25)
    return COUNT * 2.0, tf.gather(COUNT, 1), STEPS + 0


def twice_called(function: Callable[..., Any], **options: bool) -> Brought:
    """The results of two calls that assign variables."""
    inputs = [np.asarray(one.default) for one in inspect.signature(function).parameters.values()]
    traced = tf.function(function)
    program = from_tensorflow(traced, *inputs, **options).to_json()
    results = [one.numpy() for _ in range(2) for one in traced(*map(tf.constant, inputs))]
    return Brought(program, inputs, results, weights_of(results), [], [])


def trained(make: Callable[[], tuple[list[str], dict[str, np.ndarray]]]) -> Brought:
    """The results of two training steps of a session."""
    with tf1.Graph().as_default() as graph:
        fetches, feeds = make()
        fetches = [fetches[0], "train", *fetches[1:]]
        program = from_graph_def(graph.as_graph_def(), fetches, feeds).to_json()
        with tf1.Session(graph=graph, config=tf1.ConfigProto(allow_soft_placement=True)) as running:
            running.run(tf1.global_variables_initializer())
            fed = {f"{name}:0": one for name, one in feeds.items()}
            results = [one for _ in range(2) for one in running.run(fetches, fed) if one is not None]
    kept = [np.asarray(one) for one in results]
    return Brought(program, list(feeds.values()), kept, weights_of(kept), [], [])


def of_values(x=V):
    return tf.boolean_mask(x, x > 0.0)


def draws_and_prints(x=V):
    tf.print(x)
    y = tf.numpy_function(np.sin, [x], tf.float64)
    return x + tf.random.normal([5], dtype=tf.float64) + y


def custom(x=V):
    @tf.custom_gradient
    def doubled(a):
        return a * 2.0, lambda upstream: upstream

    return doubled(x)


def dilated(x=PICTURE, k=FIRST):
    return tf.nn.conv2d(x, k, 1, "VALID", dilations=2)


def complex_numbers(x=V):
    return tf.abs(tf.signal.fft(tf.cast(x, tf.complex128)))


def small(x=V):
    return tf.cast(x, tf.float16)


def two_devices_in_a_loop(x=V):
    for _ in tf.range(2):
        with tf.device("/gpu:0"):
            x = tf.sin(x)
        with tf.device("/gpu:1"):
            x = x * 2.0
    return x


def checked_values(x=V):
    tf.debugging.assert_positive(x)
    return x * 2.0


def looked_up(x=LABELS):
    return TABLE.lookup(x)


TABLE = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2], tf.int32), [5.0, 6.0]), 0.0)
REFUSED = [
    of_values,
    draws_and_prints,
    custom,
    dilated,
    complex_numbers,
    small,
    two_devices_in_a_loop,
    looked_up,
    checked_values,
]


def refusal(bring: Callable[[], Any]) -> Brought:
    """The error of a refused graph."""
    try:
        return Brought(bring().to_json(), [], [], [], [], [])
    except GraphError as error:
        return Brought("", [], [], [], [], [], str(error))


def old_loop() -> Any:
    """A loop of TensorFlow 1, of Switch, Merge and Enter."""
    with tf1.Graph().as_default() as graph:
        tf1.disable_control_flow_v2()
        x = tf1.placeholder(tf.float64, [], "x")
        tf.identity(tf1.while_loop(lambda a: a < 9.0, lambda a: a * 2.0, [x]), name="out")
        return from_graph_def(graph, "out", {"x": 1.0})


def drawn_variable() -> Any:
    """A variable with random first values."""
    with tf1.Graph().as_default() as graph:
        tf.identity(tf1.get_variable("v", [2], use_resource=False) * 2.0, name="out")
        return from_graph_def(graph, "out")


def unordered() -> Any:
    """Two assignments, and nothing that says which is first."""
    with tf1.Graph().as_default() as graph:
        v = tf1.get_variable("v", initializer=1.0, use_resource=False)
        tf1.assign_add(v, 1.0, name="one"), tf1.assign(v, 3.0, name="other")
        return from_graph_def(graph, ["one", "other"])


def calls_itself() -> Any:
    """A GraphDef whose function calls itself, which TensorFlow does not survive."""
    definition = tf.function(called).get_concrete_function(V).graph.as_graph_def()
    call = next(node for node in definition.node if "PartitionedCall" in node.op)
    for function in definition.library.function:
        function.node_def.add().CopyFrom(call)
    return from_graph_def(definition, "Identity", {"x": V})


def too_many_calls() -> Any:
    """A GraphDef of 30 functions, each of which calls the next twice."""
    definition = tf1.GraphDef()
    for number in range(30):
        function = definition.library.function.add()
        function.signature.name = f"f{number}"
        for _ in range(2):
            function.node_def.add().op = f"f{number + 1}"
    return from_graph_def(definition, "x")


def fetched(make: Callable[[Any], Any]) -> Callable[[], Any]:
    """Brings an object that a session does not fetch, or not with the inputs that are drawn."""

    def bring() -> Any:
        with tf1.Graph().as_default():
            found = make(tf1.placeholder(tf.float64, [None], "x"))
            return brought(found, [], "found", np.random.default_rng(0)).program

    return bring


def of_two_graphs(x: Any) -> Any:
    with tf1.Graph().as_default():
        return [x, tf.constant(1.0)]


def label_out_of_range(x: Any) -> Any:
    labels = tf1.placeholder(tf.int64, [20])
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.ones([20, 2]))


FETCHED = {
    "of_two_graphs": of_two_graphs,
    "label_out_of_range": label_out_of_range,
    "no_fixed_placeholder": lambda x: x * 2.0,
    "a_session": lambda x: tf1.Session(),
    "a_dictionary": lambda x: {"x": x},
}


def main(folder: Path) -> None:
    for function in FUNCTIONS:
        write(folder, function.__name__, graph_of(function))
    for make in (towers, powers):
        write(folder, make.__name__, session(make))
    write(folder, "updates", twice_called(updates))
    write(folder, "normalised", twice_called(normalised, gradients=False))
    write(folder, "older_normalised", twice_called(older_normalised, gradients=False))
    write(folder, "adam", twice_called(adam, gradients=False))
    write(folder, "trained", trained(towers))
    write(folder, "momentum", trained(momentum))
    for optimizer in (tf1.train.AdamOptimizer, tf1.train.RMSPropOptimizer, tf1.train.AdagradOptimizer):
        write(folder, optimizer.__name__, trained(optimised(optimizer)))
    write(folder, "saved", saved(folder / "saved"))
    for function in REFUSED:
        examples = [np.asarray(one.default) for one in inspect.signature(function).parameters.values()]
        write(folder, function.__name__, refusal(lambda f=function, e=examples: from_tensorflow(f, *e)))
    write(folder, "statistics", refusal(lambda: from_tensorflow(normalised, IMAGE, STATISTICS)))
    write(folder, "unstopped", refusal(lambda: from_tensorflow(stopped, V, gradients=False)))
    for make in (old_loop, drawn_variable, unordered, calls_itself, too_many_calls):
        write(folder, make.__name__, refusal(make))
    for name, found in FETCHED.items():
        write(folder, name, refusal(fetched(found)))
    write_all(folder, folder / "files")
    write(folder, "too_few", refusal(lambda: from_tensorflow(arithmetic, V)))
    write(folder, "no_second", refusal(lambda: from_tensorflow(lambda x, y: x + y, V)))
    write(folder, "damaged", refusal(lambda: from_graph_def(b"no graph", "x")))
    write(folder, "no_shape", refusal(lambda: from_tensorflow(tf.function(tf.sin).get_concrete_function(ANY))))


ANY = tf.TensorSpec([None], tf.float64)

if __name__ == "__main__":
    main(Path(sys.argv[1]))
