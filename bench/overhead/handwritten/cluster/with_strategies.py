"""TensorFlow's own strategies over several processes, as their guides have them
(https://www.tensorflow.org/tutorials/distribute/multi_worker_with_ctl and
https://www.tensorflow.org/tutorials/distribute/parameter_server_training): ``mirrored`` by
`MultiWorkerMirroredStrategy`, ``served`` by `ParameterServerStrategy` with its coordinator, a process of its own.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import numpy as np
import tensorflow as tf
from told import MOMENTUM, RATE, Told, told


def model(own: Told) -> tuple[dict[str, Any], Any]:
    variables = {name: tf.Variable(value, name=name) for name, value in own.zeros().items()}
    optimizer = tf.keras.optimizers.SGD(RATE, momentum=MOMENTUM)
    optimizer.build(list(variables.values()))
    return variables, optimizer


def losses_of(variables: dict[str, Any], x: Any, labels: Any) -> Any:
    scores = x @ variables["w"] + variables["b"]
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)


def mirrored(own: Told) -> None:
    ring = tf.distribute.experimental.CommunicationImplementation.RING
    options = tf.distribute.experimental.CommunicationOptions(implementation=ring, timeout_seconds=own.limit)
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    with strategy.scope():
        variables, optimizer = model(own)

    def part(x: Any, labels: Any, rows: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(losses_of(variables, x, labels)) / tf.cast(rows, x.dtype)
        slopes = tape.gradient(loss, list(variables.values()))
        optimizer.apply_gradients(zip(slopes, variables.values(), strict=True))
        return loss

    @tf.function(reduce_retracing=True)
    def run(x: Any, labels: Any, rows: Any) -> Any:
        return strategy.reduce("SUM", strategy.run(part, args=(x, labels, rows)), axis=None)

    def step(x: np.ndarray, labels: np.ndarray, rows: int) -> float:
        return float(run(tf.constant(x), tf.constant(labels), tf.constant(rows)))

    own.measure(step, lambda: {name: value.numpy() for name, value in variables.items()})
    own.await_others()


def served(own: Told) -> None:
    """The coordinator: every worker has as many steps, of which none waits for another; the time is that of an epoch
    over its steps of one worker."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        variables = {name: tf.Variable(value, name=name) for name, value in own.zeros().items()}
        velocities = {name: tf.Variable(value, name=f"{name}_v") for name, value in own.zeros().items()}

    x, labels, _ = own.rows(0)
    given = tf.TensorSpec([None, x.shape[1]], x.dtype), tf.TensorSpec([None], labels.dtype)

    # Traced once, for any number of rows: a trace while steps are under way can wait for ever.
    @tf.function(input_signature=given)
    def run(x: Any, labels: Any) -> Any:
        """Without Keras's optimisers, which take no variables of this strategy from Keras 3 on."""
        with tf.GradientTape() as tape:
            values = {name: tf.identity(variable) for name, variable in variables.items()}
            tape.watch(values)
            loss = tf.reduce_mean(losses_of(values, x, labels))
            part = loss / own.workers
        slopes = tape.gradient(part, values)
        for name, variable in variables.items():
            moved = velocities[name].assign(MOMENTUM * velocities[name] + slopes[name], read_value=True)
            variable.assign_sub(RATE * moved)
        return loss

    epoch = -(-len(own._all()[0]) // own.batch)
    batches = [[own.rows(number, index)[:2] for index in range(own.workers)] for number in range(epoch)]
    seconds, first = [], time.time()
    loss: Any = None
    for _ in range(-(-own.steps // epoch)):
        begin = time.perf_counter()
        for each in batches:
            for x, labels in each:
                loss = coordinator.schedule(run, args=(tf.constant(x), tf.constant(labels)))
        coordinator.join()
        seconds.append((time.perf_counter() - begin) / epoch)
    values = {name: value.numpy() for name, value in variables.items()}
    own.write(seconds, lambda: values, loss.fetch(), first)


if __name__ == "__main__":
    asked = told()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(8)
    os.environ["TF_CONFIG"] = json.dumps({"cluster": asked.jobs, "task": {"type": asked.job, "index": asked.index}})
    if asked.program == "mirrored":
        mirrored(asked)
    elif asked.job == "chief":
        served(asked)
    else:
        known = tf.distribute.cluster_resolver.TFConfigClusterResolver()
        tf.distribute.Server(known.cluster_spec(), asked.job, asked.index, protocol="grpc").join()
    os._exit(0)  # servers have no end of their own
