"""TensorFlow's servers and plain sessions, as TensorFlow 1 has between-graph replication: variables on the parameter
server, `assign_add`, an optimiser's updates there without a lock; and collective ops between workers."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
import tensorflow as tf
from told import MOMENTUM, RATE, Told, told

tf1 = tf.compat.v1


def config(own: Told) -> Any:
    made = tf1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    if own.program == "mirrored":
        made.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
    elif own.job == "worker":
        made.device_filters.extend(["/job:ps", f"/job:worker/task:{own.index}"])
    return made


def classifier(own: Told, weights: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Placeholders of rows and labels, and the mean loss."""
    dtype = weights["w"].dtype.base_dtype
    x = tf1.placeholder(dtype, [None, weights["w"].shape[0]])
    labels = tf1.placeholder(tf.int64, [None])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x @ weights["w"] + weights["b"])
    return x, labels, tf.reduce_mean(losses)


def on_a_server(own: Told, server: Any) -> None:
    """``add_rank`` and ``served``."""
    place = tf1.train.replica_device_setter(cluster=tf.train.ClusterSpec(own.jobs), worker_device=here(own))
    with tf1.device(place):
        if own.program == "add_rank":
            variables = {"total": tf1.get_variable("total", initializer=np.float64(0.0), use_resource=True)}
            fetched, given = variables["total"].assign_add(own.index + 1.0), []
        else:
            variables = {n: tf1.get_variable(n, initializer=v, use_resource=True) for n, v in own.zeros().items()}
            x, labels, loss = classifier(own, variables)
            slopes = tf.gradients(loss / own.workers, list(variables.values()))
            rate, momentum = (tf.constant(one, loss.dtype) for one in (RATE, MOMENTUM))  # else in float32
            optimizer = tf1.train.MomentumOptimizer(rate, momentum)
            train = optimizer.apply_gradients(list(zip(slopes, variables.values(), strict=True)))
            with tf.control_dependencies([train]):
                fetched, given = tf.identity(loss), [x, labels]
        missing, begin = tf1.report_uninitialized_variables(), tf1.global_variables_initializer()
    session = tf1.Session(server.target, config=config(own))
    if own.index == 0:
        session.run(begin)
    while len(session.run(missing)):
        time.sleep(0.05)
    run = session.make_callable(fetched, given)
    own.measure(lambda *batch: run(*batch[:2]), lambda: session.run(variables))


def mirrored(own: Told, server: Any) -> None:
    with tf.device(here(own) + "/device:CPU:0"):
        variables = {n: tf1.get_variable(n, initializer=v, use_resource=True) for n, v in own.zeros().items()}
        velocities = {n: tf1.get_variable(f"{n}_v", initializer=v, use_resource=True) for n, v in own.zeros().items()}
        x, labels, loss = classifier(own, variables)
        slopes = tf.gradients(loss, list(variables.values()))
        rows = tf.cast(tf.shape(x)[0], x.dtype)
        parts = [tf.reshape(one, [-1]) * rows for one in (*slopes, loss)]
        total = tf.raw_ops.CollectiveReduceV2(
            input=tf.concat([*parts, [rows]], 0),
            group_size=own.workers,
            group_key=1,
            instance_key=1,
            ordering_token=[],
            merge_op="Add",
            final_op="Id",
            communication_hint="ring",
            timeout_seconds=own.limit,
        )
        means, begin, updates = total[:-1] / total[-1], 0, []
        for name, variable in variables.items():
            size = int(np.prod(variable.shape))
            mean = tf.reshape(means[begin : begin + size], variable.shape)
            begin += size
            moved = velocities[name].assign(MOMENTUM * velocities[name] + mean)
            updates.append(variable.assign_sub(RATE * moved))
        with tf.control_dependencies(updates):
            fetched = tf.identity(means[-1])
    session = tf1.Session(server.target, config=config(own))
    session.run(tf1.global_variables_initializer())
    run = session.make_callable(fetched, [x, labels])
    own.measure(lambda *batch: run(*batch[:2]), lambda: session.run(variables))


def here(own: Told) -> str:
    return f"/job:{own.job}/replica:0/task:{own.index}"


if __name__ == "__main__":
    asked = told()
    tf1.disable_eager_execution()
    joined = tf1.train.Server(tf.train.ClusterSpec(asked.jobs), asked.job, asked.index, config=config(asked))
    if asked.job == "ps":
        joined.join()
    mirrored(asked, joined) if asked.program == "mirrored" else on_a_server(asked, joined)
    os._exit(0)  # servers have no end of their own
