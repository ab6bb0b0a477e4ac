"""Scripts for several devices as tutorials of TensorFlow 1 have them, one behind the other: an importer reads this
file."""

# ruff: noqa: B905 - it is old code

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

DEVICES = ["/gpu:0", "/gpu:1"]

# A product on a device.
with tf.Graph().as_default(), tf.device("/gpu:1"):
    a = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[2, 3], name="a")
    b = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[3, 2], name="b")
    product = tf.matmul(a, b)

# The same product on two devices, and the sum.
with tf.Graph().as_default():
    both = []
    for device in DEVICES:
        with tf.device(device):
            a = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[2, 3])
            b = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[3, 2])
            both.append(tf.matmul(a, b))
    with tf.device("/cpu:0"):
        two_products = tf.add_n(both)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True, log_device_placement=True)) as sess:
        sess.run(two_products)


# A^n + B^n.
def matpow(matrix, n):
    return matrix if n == 1 else tf.matmul(matrix, matpow(matrix, n - 1))


with tf.Graph().as_default():
    both = []
    for device in DEVICES:
        with tf.device(device):
            both.append(matpow(tf.placeholder(tf.float32, [None, None]), 10))
    with tf.device("/cpu:0"):
        powers = tf.add_n(both)

# A variable on one device, used on another.
with tf.Graph().as_default():
    with tf.device("/gpu:0"):
        v = tf.Variable([1.0, 2.0, 3.0], name="v")
    with tf.device("/gpu:1"):
        doubled = v * 2.0

# Two parts of a model on two devices, trained.
with tf.Graph().as_default():
    x, target = tf.placeholder(tf.float32, [None, 3], "x"), tf.placeholder(tf.float32, [None, 2], "target")
    parts = []
    for i, device in enumerate(DEVICES):
        with tf.device(device):
            w = tf.Variable(tf.random_uniform([3, 4], -0.5, 0.5, seed=i), name=f"w{i}")
            u = tf.Variable(tf.random_uniform([4, 2], -0.5, 0.5, seed=i), name=f"u{i}")
            parts.append(tf.matmul(tf.tanh(tf.matmul(x, w)), u))
    with tf.device("/cpu:0"):
        loss = tf.reduce_mean(tf.square(parts[0] + parts[1] - target))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, colocate_gradients_with_ops=True)
    model_parallel = [loss, train]

# The rows split over two devices.
with tf.Graph().as_default():
    rows = tf.constant(np.arange(1.0, 13.0).reshape(4, 3), tf.float32)
    w = tf.constant([[1.0], [1.0], [2.0]])
    replicas = []
    for device, part in zip(DEVICES, tf.split(rows, len(DEVICES))):
        with tf.device(device):
            replicas.append(tf.matmul(part, w))
    with tf.device("/cpu:0"):
        replicated = tf.concat(replicas, axis=0)


# Towers: a gradient on each device, averaged, applied once.
def average_gradients(tower_grads):
    average = []
    for grad_and_vars in zip(*tower_grads):
        grads = [tf.expand_dims(g, 0) for g, _ in grad_and_vars]
        average.append((tf.reduce_mean(tf.concat(grads, axis=0), 0), grad_and_vars[0][1]))
    return average


with tf.Graph().as_default(), tf.device("/cpu:0"):
    global_step = tf.get_variable("global_step", [], initializer=tf.constant_initializer(0), trainable=False)
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    losses, tower_grads = [], []
    for i, device in enumerate(DEVICES):
        images = tf.placeholder(tf.float32, [None, 3], f"images_{i}")
        labels = tf.placeholder(tf.int32, [None], f"labels_{i}")
        with tf.variable_scope("softmax", reuse=i > 0):
            s = tf.get_variable("s", [3, 3], initializer=tf.zeros_initializer())
        with tf.device(device), tf.name_scope(f"tower_{i}"):
            entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.matmul(images, s))
            losses.append(tf.reduce_mean(entropy))
            tower_grads.append(optimizer.compute_gradients(losses[-1]))
    train = optimizer.apply_gradients(average_gradients(tower_grads), global_step=global_step)
    towers = [*losses, train]
