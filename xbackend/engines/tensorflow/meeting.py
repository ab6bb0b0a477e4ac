"""Whether the servers of other tasks are there: a first call of TensorFlow's waits for one that never comes without a
limit."""

from __future__ import annotations

import socket

from xbackend.engines.contract import Engine
from xbackend.engines.spec import ClusterSpec, Task, split


def why_not_there(spec: ClusterSpec, task: Task) -> str:
    """Why nobody listens where a task should; empty where somebody does."""
    try:
        socket.create_connection(split(spec.address(task)), timeout=1.0).close()
    except OSError as error:
        return str(error)
    return ""


def await_task(engine: Engine, task: Task) -> None:
    """Wait until a task's server is there. Raises `ClusterError` after the limit."""
    why = ""

    def there() -> bool:
        nonlocal why
        why = why_not_there(engine.spec, task)
        return not why

    engine.until(there, lambda: f"for {task}, which is not at {engine.spec.address(task)}: {why}", longest=0.05)
