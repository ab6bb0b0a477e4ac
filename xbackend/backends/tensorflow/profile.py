"""What TensorFlow's devices did when: the trace of one execution, from TensorFlow's own profiler.

``RunMetadata.step_stats``, which said this once, stays empty for functions. The profiler's trace of the host has an
event for every op of a graph, under the name that the op has in the partitioned graph, which says its device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xbackend.backends.placement import Span
from xbackend.backends.tensorflow.reading import Observed, Received
from xbackend.devices import Device
from xbackend.errors import BackendError, UnsupportedOperation

# All that TensorFlow says of the host, nothing of Python, nothing of accelerators.
OPTIONS = {"host_tracer_level": 2, "python_tracer_level": 0, "device_tracer_level": 0}


def events_during(tf: Any, call: Callable[[], Any]) -> list[Any]:
    """The events of TensorFlow's profiler during a call.

    Raises `UnsupportedOperation` where this TensorFlow has no such profiler, `BackendError` while it is in use.
    """
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
        call()
    finally:
        trace = session.stop()
    return list(trace_events_pb2.Trace.FromString(trace).trace_events)


def spans(observed: Observed, events: list[Any]) -> list[Span]:
    """The events of the ops of a program, in seconds after the start of the call, which is the first event."""
    started = min((event.timestamp_ps for event in events), default=0)
    return sorted(_Timeline(observed, started).read(events), key=lambda span: (span.start, str(span.device)))


class _Timeline:
    def __init__(self, observed: Observed, started: int) -> None:
        self.ops: Mapping[str, tuple[str, Device]] = observed.ops
        self.sent: Mapping[str, Received] = {r.sender: r for r in observed.received}
        self.received: Mapping[str, Received] = {r.name: r for r in observed.received}
        self.started = started
        self.open: dict[str, float] = {}  # what began in one event and ends in another

    def read(self, events: list[Any]) -> list[Span]:
        """A transfer lasts from the sender's op until the value is there. An op that does not block has an event where
        it begins and one where it is done."""
        found: list[Span] = []
        for event in sorted(events, key=lambda event: event.timestamp_ps):
            start = (event.timestamp_ps - self.started) * 1e-12
            end = start + event.duration_ps * 1e-12
            waiting = event.args.get("name", "")
            name = event.args.get("long_name", "").partition(":")[0]
            if event.name.endswith("ProcessAsync::Start") and waiting in self.ops:
                self.open[waiting] = start
            elif event.name.endswith("ProcessAsync::Done") and waiting in self.open:
                found.append(self._computed(waiting, self.open.pop(waiting), start))
            elif event.name.endswith("ProcessAsync::Done") and waiting in self.received:
                received = self.received[waiting]
                begun = self.open.pop(received.sender, start)
                found.append(Span(received.target, begun, start, "transfer", f"{received.source} to {received.target}"))
            elif name in self.sent:
                self.open[name] = start
            elif name in self.ops:
                found.append(self._computed(name, start, end))
        return found

    def _computed(self, name: str, start: float, end: float) -> Span:
        kind, device = self.ops[name]
        return Span(device, start, end, "compute", name if name.endswith(kind) else f"{kind} {name}")
