"""Whether anything was compiled: counters of the compilers that are loaded in this process.

Runs in a worker. Nothing is imported here: a compiler that nobody loaded has compiled nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

# How often a compiler has begun to compile since it was first looked at, by its name.
_counts: dict[str, int] = {}


def counts() -> dict[str, int]:
    """What each loaded compiler has compiled so far; a number that grew means that it was at work in between.

    ``jax``: tracings, lowerings and compilations; ``numba``: functions; ``tensorflow``: functions known to the runtime;
    ``child processes``: page faults of children that ended, which a C compiler makes.
    """
    for name, watch in (("jax", _watch_jax), ("numba", _watch_numba)):
        if name in sys.modules and name not in _counts:
            _counts[name] = 0
            watch(_counter(name))
    found = dict(_counts)
    tensorflow = sys.modules.get("tensorflow.python.eager.context")
    if tensorflow is not None:
        found["tensorflow"] = len(tensorflow.context().list_function_names())
    found.update(_children())
    return found


def _counter(name: str) -> Callable[[], None]:
    def add() -> None:
        _counts[name] += 1

    return add


def _watch_jax(add: Callable[[], None]) -> None:
    """JAX times every tracing, lowering and compilation and tells who wants to know."""

    def listen(event: str, seconds: float, **_: Any) -> None:
        if "compile" in event:
            add()

    sys.modules["jax"].monitoring.register_event_duration_secs_listener(listen)


def _watch_numba(add: Callable[[], None]) -> None:
    from importlib import import_module

    event = import_module("numba.core.event")

    class Listener(event.Listener):  # type: ignore[name-defined, misc]
        def on_start(self, _: Any) -> None:
            add()

        def on_end(self, _: Any) -> None: ...

    event.register("numba:compile", Listener())


def _children() -> dict[str, int]:
    try:
        import resource
    except ImportError:  # not on Windows
        return {}
    return {"child processes": resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt}
