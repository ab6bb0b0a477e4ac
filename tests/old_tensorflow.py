"""Scripts for several devices as tutorials of TensorFlow 1 have them, one behind the other: an importer reads this
file."""

# ruff: noqa: B905 - it is old code

import datetime
import os
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

DEVICES = ["/gpu:0", "/gpu:1"]

# A product on a device.
with tf.Graph().as_default(), tf.device("/gpu:1"):
    a = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[2, 3], name="a")
    b = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[3, 2], name="b")
    product = tf.matmul(a, b)

# The product on the default device, and where it ran.
with tf.Graph().as_default():
    a = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[2, 3], name="a")
    b = tf.constant([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], shape=[3, 2], name="b")
    default_product = tf.matmul(a, b)
    sess = tf.Session(config=tf.ConfigProto(log_device_placement=True))
    print(sess.run(default_product))

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


# A^n + B^n on one device and on two, both timed, in sessions that demand the devices.
n, c1, c2 = 10, [], []
A = np.random.rand(4, 4).astype("float32") / 4.0
B = np.random.rand(4, 4).astype("float32") / 4.0

with tf.device("/gpu:0"):
    a = tf.placeholder(tf.float32, [4, 4])
    b = tf.placeholder(tf.float32, [4, 4])
    c1.append(matpow(a, n))
    c1.append(matpow(b, n))
with tf.device("/cpu:0"):
    single = tf.add_n(c1)
t1_1 = datetime.datetime.now()
with tf.Session(config=tf.ConfigProto(log_device_placement=True)) as sess:
    sess.run(single, {a: A, b: B})
t2_1 = datetime.datetime.now()

with tf.device("/gpu:0"):
    a = tf.placeholder(tf.float32, [4, 4])
    c2.append(matpow(a, n))
with tf.device("/gpu:1"):
    b = tf.placeholder(tf.float32, [4, 4])
    c2.append(matpow(b, n))
with tf.device("/cpu:0"):
    multi = tf.add_n(c2)
t1_2 = datetime.datetime.now()
with tf.Session(config=tf.ConfigProto(log_device_placement=True)) as sess:
    sess.run(multi, {a: A, b: B})
t2_2 = datetime.datetime.now()
print("Single GPU computation time: " + str(t2_1 - t1_1))
print("Multi GPU computation time: " + str(t2_2 - t1_2))


# Towers trained for epochs: train and test scopes, a batch for each tower, moving averages, a saver and summaries.
def inference(images):
    weights = tf.get_variable("weights", [3, 3], initializer=tf.zeros_initializer())
    tf.summary.histogram(weights.op.name, weights)
    return tf.matmul(images, weights, name="logits")


def tower_loss(scope, images, labels):
    entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=inference(images))
    tf.add_to_collection("losses", tf.reduce_mean(entropy, name="cross_entropy"))
    total_loss = tf.add_n(tf.get_collection("losses", scope), name="total_loss")
    tf.summary.scalar("total_loss", total_loss)
    return total_loss


log_dir = tempfile.mkdtemp()
with tf.Graph().as_default(), tf.device("/cpu:0"):
    global_step = tf.train.get_or_create_global_step()
    lr = tf.train.exponential_decay(0.5, global_step, 350, 0.1, staircase=True)
    opt = tf.train.GradientDescentOptimizer(lr)
    batches, losses, tower_grads = [], [], []
    with tf.name_scope("train"), tf.variable_scope("model") as model:
        for i, device in enumerate(DEVICES):
            images = tf.placeholder(tf.float32, [None, 3], f"images_{i}")
            labels = tf.placeholder(tf.int32, [None], f"labels_{i}")
            batches += [images, labels]
            with tf.device(device), tf.name_scope(f"tower_{i}") as scope:
                losses.append(tower_loss(scope, images, labels))
                model.reuse_variables()
                summaries = tf.get_collection(tf.GraphKeys.SUMMARIES, scope)
                tower_grads.append(opt.compute_gradients(losses[-1]))
    grads = average_gradients(tower_grads)
    summaries += [tf.summary.histogram(var.op.name + "/gradients", grad) for grad, var in grads]
    summaries.append(tf.summary.scalar("learning_rate", lr))
    apply_gradient_op = opt.apply_gradients(grads, global_step=global_step)
    with tf.control_dependencies([apply_gradient_op]):
        train_op = tf.train.ExponentialMovingAverage(0.99, global_step).apply(tf.trainable_variables())
    with tf.name_scope("test"), tf.variable_scope("model", reuse=True):
        images, labels = tf.placeholder(tf.float32, [None, 3], "images"), tf.placeholder(tf.int64, [None], "labels")
        correct = tf.equal(tf.argmax(inference(images), 1), labels)
        accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
    saver = tf.train.Saver(tf.global_variables())
    summary_op = tf.summary.merge(summaries)
    sess = tf.Session(config=tf.ConfigProto(allow_soft_placement=True))
    sess.run(tf.global_variables_initializer())
    writer = tf.summary.FileWriter(log_dir, sess.graph)
    fed = {one: np.zeros((5, 3) if "images" in one.op.name else 5) for one in batches}
    for epoch in range(2):
        loss_value, summary, _ = sess.run([losses[0], summary_op, train_op], fed)
        writer.add_summary(summary, epoch)
        saver.save(sess, os.path.join(log_dir, "model.ckpt"), global_step=epoch)
    writer.close()
    epochs = [*losses, train_op]
    with_summary = [summary_op, train_op]
