"""The timeline of one execution, from TensorFlow's own profiler: its trace of the host has an event for every op of a
graph, under its name in the partitioned graph, which has its device."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from xbackend.backends.placement import Span
from xbackend.backends.tensorflow.reading import Observed
from xbackend.errors import BackendError, UnsupportedOperation

# Everything about the host, nothing about Python or accelerators.
OPTIONS = {"host_tracer_level": 2, "python_tracer_level": 0, "device_tracer_level": 0}


def events_during(tf: Any, call: Callable[[], Any]) -> tuple[list[Any], float]:
    """The events of TensorFlow's profiler during a call, and the seconds of the call. Raises `UnsupportedOperation` if
    this TensorFlow has no such profiler, `BackendError` while it is in use."""
    try:
        from tensorflow.python.profiler.internal import _pywrap_profiler
        from tensorflow.tsl.profiler.protobuf import trace_events_pb2
    except ImportError as error:
        raise UnsupportedOperation(
            f"TensorFlow {tf.__version__} has no profiler that xbackend can read ({error}); "
            "pip install tensorflow==2.21.0"
        ) from error
    session = _pywrap_profiler.ProfilerSession()
    try:
        session.start("", OPTIONS)
    except tf.errors.AlreadyExistsError as error:
        raise BackendError(
            f"TensorFlow's profiler is in use in this process ({error.message}); end that session first"
        ) from error
    try:
        start = time.perf_counter()
        call()
        seconds = time.perf_counter() - start
    finally:
        trace = session.stop()
    return list(trace_events_pb2.Trace.FromString(trace).trace_events), seconds


def spans(observed: Observed, events: list[Any]) -> list[Span]:
    """The spans of a program's ops, in seconds after the first event. A transfer lasts from the sender's op on; an
    asynchronous op has one event for its start and one for its end."""
    started = min((event.timestamp_ps for event in events), default=0)
    sent = {received.sender for received in observed.received}
    arriving = {received.name: received for received in observed.received}
    begun: dict[str, float] = {}  # starts of spans that end in another event
    result = list[Span]()

    def computed(name: str, start: float, end: float) -> None:
        kind, device = observed.ops[name]
        result.append(Span(device, start, end, "compute", name if name.endswith(kind) else f"{kind} {name}"))

    for event in sorted(events, key=lambda event: event.timestamp_ps):
        start = (event.timestamp_ps - started) * 1e-12
        waiting = event.args.get("name", "")
        name = event.args.get("long_name", "").partition(":")[0]
        done = event.name.endswith("ProcessAsync::Done")
        if event.name.endswith("ProcessAsync::Start") and waiting in observed.ops:
            begun[waiting] = start
        elif done and waiting in begun:
            computed(waiting, begun.pop(waiting), start)
        elif done and waiting in arriving:
            value = arriving[waiting]
            way = f"{value.source} to {value.target}"
            result.append(Span(value.target, begun.pop(value.sender, start), start, "transfer", way))
        elif name in sent:
            begun[name] = start
        elif name in observed.ops:
            computed(name, start, start + event.duration_ps * 1e-12)
    return sorted(result, key=lambda span: (span.start, str(span.device)))
