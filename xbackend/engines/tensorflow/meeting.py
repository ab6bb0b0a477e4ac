"""How TensorFlow's processes meet: each starts a server and waits for those of the others.

TensorFlow's own first call would wait for a missing server without a limit.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xbackend.engines.contract import Engine
from xbackend.engines.spec import ClusterSpec, Task, split
from xbackend.errors import ClusterError

EXPOSED = "TensorFlow's servers listen on every interface, and run what anybody sends them"
REDUCE = "reduce with the other workers"


def cluster(tf: Any, spec: ClusterSpec) -> Any:
    """The cluster as a `tf.train.ClusterSpec`."""
    return tf.train.ClusterSpec({name: list(addresses) for name, addresses in spec.jobs.items()})


def served(engine: Engine, tf: Any, config: Any) -> Any:
    """A TensorFlow server for an engine's task. Raises `ClusterError` if its address is not free."""
    spec, task = engine.spec, engine.task
    try:
        return tf.distribute.Server(cluster(tf, spec), task.job, task.index, protocol="grpc", config=config)
    except tf.errors.OpError as error:
        raise ClusterError(
            f"{task} cannot listen on {spec.address(task)}, another process may have that port: {error.message[:500]}"
        ) from error


def failed(task: Task, what: str, error: Any) -> ClusterError:
    """The error of a task that TensorFlow kept from doing ``what``."""
    return ClusterError(f"{task} could not {what}: {type(error).__name__}: {error.message[:500]}")


def summed(engine: Engine, tf: Any, add: Callable[..., Sequence[Any]], messages: Sequence[np.ndarray]) -> list[Any]:
    """The sums of messages over all workers by a function of TensorFlow. Raises `ClusterError`."""
    with tf.device("/device:CPU:0"):
        given = [tf.constant(message) for message in messages]
    try:
        return [total.numpy() for total in add(*given)]
    except tf.errors.OpError as error:
        raise failed(engine.task, REDUCE, error) from error


def why_not_there(spec: ClusterSpec, task: Task) -> str:
    """Why a connection to a task's address fails; empty if it succeeds."""
    try:
        socket.create_connection(split(spec.address(task)), timeout=1.0).close()
    except OSError as error:
        return str(error)
    return ""


def await_task(engine: Engine, task: Task) -> None:
    """Wait until a task's server listens. Raises `ClusterError` after the limit."""
    why = ""  # the last time: it may be there when the wait is over

    def there() -> bool:
        nonlocal why
        why = why_not_there(engine.spec, task)
        return not why

    engine.until(there, lambda: f"for {task}, which is not at {engine.spec.address(task)}: {why}", longest=0.05)
