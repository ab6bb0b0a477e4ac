"""Sums over workers by TensorFlow's collective ops, and a worker's step as one function with its sums inside.

They run in the eager runtime, whose server is this task's: `tf.distribute.MultiWorkerMirroredStrategy` starts it in the
same way. A function with a collective op costs one call; a session with one cost as much again.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xbackend.backends.tensorflow.graph import Lowering, numbered
from xbackend.backends.tensorflow.reading import Observed
from xbackend.backends.tensorflow.settings import configure
from xbackend.engines.contract import Engine, StepParts
from xbackend.engines.spec import WORKER
from xbackend.engines.tensorflow.meeting import REDUCE, cluster, failed, summed
from xbackend.errors import BackendError, ClusterError, ComputationError, UnsupportedOperation

if TYPE_CHECKING:
    from xbackend.backends.contract import Value
    from xbackend.backends.tensorflow.adapter import TensorFlow

_OWN = ComputationError, UnsupportedOperation  # errors of the program itself: no other worker is missed


class Collectives:
    """The eager runtime of a worker's task, joined with the other workers'. Raises `ClusterError` if the task's address
    is not free."""

    def __init__(self, engine: Engine, tf: Any) -> None:
        from tensorflow.core.protobuf import tensorflow_server_pb2
        from tensorflow.python.eager import context

        self.engine, self.tf, own = engine, tf, context.context()
        self.place = f"/job:{WORKER}/replica:0/task:{engine.task.index}/device:CPU:0"
        configure(tf, engine.settings, "of this task")
        own.configure_collective_ops(f"/job:{WORKER}/replica:0/task:0", device_filters=(str(engine.task),))
        server = tensorflow_server_pb2.ServerDef(
            cluster=cluster(tf, engine.spec).as_cluster_def(),
            job_name=engine.task.job,
            task_index=engine.task.index,
            default_session_config=own.config,
            protocol="grpc",
        )
        own.enable_collective_ops(server)
        try:
            own.ensure_initialized()
        except (tf.errors.OpError, RuntimeError) as error:
            raise ClusterError(
                f"{engine.task} cannot listen on {engine.spec.address(engine.task)}, another process may have that "
                f"port: {str(error)[:500]}"
            ) from error
        self._sums: dict[Any, Callable[..., Any]] = {}

    def summed(self, messages: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The sums of messages over all workers."""
        tf = self.tf
        kinds = tuple((message.size, message.dtype.name) for message in messages)
        if kinds not in self._sums:
            specs = [tf.TensorSpec([size], dtype) for size, dtype in kinds]
            self._sums[kinds] = tf.compat.v1.wrap_function(lambda *given: self.added(given), specs)
        return summed(self.engine, tf, self._sums[kinds], messages)

    def added(self, messages: Sequence[Any], after: Sequence[Any] = ()) -> list[Any]:
        """The sums of messages, added to the graph under construction, one after the other and ``after`` others."""
        tf, sums = self.tf, list[Any]()
        for k, message in enumerate(messages):
            # All workers have the same key, whatever else they have compiled. Sums of one key follow each other.
            key = zlib.crc32(repr((k, message.shape.as_list(), message.dtype.name)).encode()) >> 1
            with tf.control_dependencies([*after, *sums]), tf.device(self.place):
                total = tf.raw_ops.CollectiveReduceV2(
                    input=message,
                    group_size=self.engine.task.count,
                    group_key=1,
                    instance_key=key,
                    ordering_token=[],
                    merge_op="Add",
                    final_op="Id",
                    communication_hint="ring",
                    timeout_seconds=self.engine.limit,
                )
            sums.append(total)
        return sums

    def whole(self, backend: TensorFlow, parts: StepParts) -> Callable[..., Sequence[Value]] | None:
        """All segments of a worker's program, and the sums between them, as one function. `None` for a backend that
        executes no graph, and for a program on several devices."""
        devices = {node.device for program, _, _ in parts.segments for node in program.values}
        if not (backend.whole_graphs and parts.reduced and devices == {str(backend.default_device)}):
            return None
        execute = _Step(self, backend, parts).built()

        def run(*values: Value) -> Sequence[Value]:
            try:
                return execute(*values)
            except BackendError as error:
                if isinstance(error, _OWN) or backend.is_out_of_memory(error):
                    raise
                raise failed(self.engine.task, REDUCE, error.__cause__) from error

        return run


class _Step:
    """A worker's step as one function."""

    def __init__(self, collectives: Collectives, backend: TensorFlow, parts: StepParts) -> None:
        self.collectives, self.backend, self.parts, self.tf = collectives, backend, parts, collectives.tf
        self.lowerings = [_SegmentLowering(backend, program) for program, _, _ in parts.segments]
        self.graph = self.lowerings[0].prefix
        for k, lowering in enumerate(self.lowerings):
            # Names sort in the same order on all workers: see `numbered`.
            lowering.prefix = f"{numbered(f'{self.graph}p', k)}_"

    def built(self) -> Callable[..., Sequence[Value]]:
        tf, parts = self.tf, self.parts
        specs = dict[int, Any]()
        for lowering, (program, takes, _) in zip(self.lowerings, parts.segments, strict=True):
            for i, own in zip(takes, program.inputs, strict=True):
                if i in parts.inputs:
                    name = numbered(f"{self.graph}a", i)
                    specs[i] = tf.TensorSpec(program.values[own].shape, lowering.carried(own), name=name)
        taken = [i for i in parts.inputs if i in specs]
        places = [parts.inputs.index(i) for i in taken]

        def body(*arguments: Any) -> list[Any]:
            return self._body(dict(zip(taken, arguments, strict=True)))

        last = self.lowerings[-1]
        function = self.backend.traced(last, lambda _: tf.compat.v1.wrap_function(body, [specs[i] for i in taken]))
        execute = self.backend.launch(function, None, last, lambda *_: Observed("a step over several tasks")).execute
        if len(places) == len(parts.inputs):
            return execute
        return lambda *values: execute(*[values[k] for k in places])

    def _body(self, values: dict[int, Any]) -> list[Any]:
        parts, before, kept = self.parts, list[Any](), list[Any]()
        for k, (lowering, (_, takes, gives)) in enumerate(zip(self.lowerings, parts.segments, strict=True)):
            lowering.before = [*before]
            outputs, updates = lowering.whole([values[i] for i in takes])
            values.update(zip(gives, outputs, strict=True))
            before += outputs
            kept += updates  # operations
            if k < len(parts.reduced):
                sums = self._reduced(k, [values[source] for _, source in parts.reduced[k]], before)
                values.update(zip([node for node, _ in parts.reduced[k]], sums, strict=True))
                before += sums
                kept += [one.op for one in sums]  # others wait for a sum that is not used here
        self.tf.compat.v1.get_default_graph().control_outputs.extend(kept)
        return [values[i] for i in parts.results]

    def _reduced(self, level: int, values: Sequence[Any], after: Sequence[Any]) -> list[Any]:
        """The sums of values over all workers. Values of one dtype travel in one message."""
        tf, sums, place = self.tf, list(values), self.backend.names[self.backend.default_device]
        with tf.name_scope(numbered(f"{self.graph}r", level)), tf.device(place):
            dtypes = dict.fromkeys(value.dtype for value in values)
            groups = [[k for k, value in enumerate(values) if value.dtype == dtype] for dtype in dtypes]
            messages = [tf.concat([tf.reshape(values[k], [-1]) for k in own], 0) for own in groups]
            for own, total in zip(groups, self.collectives.added(messages, after), strict=True):
                sizes = [values[k].shape.num_elements() for k in own]
                for k, part in zip(own, tf.split(total, sizes), strict=True):
                    sums[k] = tf.reshape(part, values[k].shape)
        return sums


class _SegmentLowering(Lowering):
    """Lowers a segment of a step. Its assignments come after the values ``before`` it."""

    before: Sequence[Any] = ()

    def _updates(self, tensors: dict[int, Any], outputs: Sequence[Any]) -> list[Any]:
        return super()._updates(tensors, [*outputs, *self.before])
