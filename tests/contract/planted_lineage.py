"""Wrong placements planted in an adapter of the Theano lineage; runs inside the worker, beside the framework.

Each function breaks the adapter and returns whether this mode can be broken so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xbackend.devices import Device

ZERO, ONE = Device("cpu", 0), Device("cpu", 1)


def compiled_for_the_wrong_device(backend: Any) -> bool:
    """Ops asked for on cpu:1 are compiled for cpu:0."""
    right = backend.innermost
    backend.innermost = lambda function, inputs, device: right(function, inputs, ZERO)
    return True


def the_frameworks_own_call(backend: Any) -> bool:
    """Call the framework's function as its users do: in mode JAX it computes on cpu:0."""
    if backend.linker_name != "jax":
        return False
    right = backend.innermost

    def innermost(function: Any, inputs: Any, device: Device) -> Any:
        compiled = right(function, inputs, device)
        return compiled._replace(call=lambda *values: function(*[np.asarray(v) for v in values]))

    backend.innermost = innermost
    return True


def a_transfer_that_does_nothing(backend: Any) -> bool:
    """Transfers leave values where they are."""
    backend.mover = lambda device: lambda value: value
    return True


def nothing(backend: Any) -> bool:
    """Plant nothing."""
    return True


def threads_of_the_process(backend: Any) -> list[str]:
    """The names of this process's Python threads."""
    import threading

    return sorted(thread.name for thread in threading.enumerate())


def share_of_another_thread(backend: Any, built: Any, values: Any) -> float:
    """CPU seconds of a thread of Python code during the program, over those of the program."""
    import threading
    import time

    stop, seconds = threading.Event(), list[float]()

    def count() -> None:
        begun = time.thread_time()
        while not stop.is_set():
            pass
        seconds.append(time.thread_time() - begun)

    thread = threading.Thread(target=count)
    begun = time.process_time()
    thread.start()
    backend.synchronize(built.execute(*values))
    stop.set()
    thread.join()
    return seconds[0] / (time.process_time() - begun - seconds[0])


def a_failing_stage(backend: Any) -> bool:
    """Stages raise, after all of them were compiled and have run."""
    right = backend.on_device

    def on_device(compiled: Any, count: int) -> Any:
        def failing(*values: Any) -> Any:
            if backend.failing:
                raise ArithmeticError("planted in a stage")
            return compiled.call(*values)

        return right(compiled._replace(call=failing), count)

    backend.failing, backend.on_device = False, on_device
    return True


def fail(backend: Any, failing: bool) -> None:
    """Let stages raise, or no more."""
    backend.failing = failing


def mend(backend: Any) -> None:
    """Undo the plants: the adapter's own methods are found again."""
    for name in ("innermost", "mover", "on_device"):
        vars(backend).pop(name, None)


def closed(backend: Any) -> bool:
    """Whether closing leaves no thread of a device. No request to the worker can follow."""
    backend.close()
    return not [name for name in threads_of_the_process(backend) if name.startswith("xbackend cpu")]
