"""TensorFlow servers and plain sessions: TensorFlow 1's between-graph replication.

Every task has a server (`tf.compat.v1.train.Server`). A parameter server's record is a variable there. A worker's
session reads it, and runs the graph of an update there, under a mutex. All-reduces are TensorFlow's collective ops.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from xbackend.engines.contract import Brought, Engine
from xbackend.engines.record import Applied, Layout
from xbackend.engines.spec import SERVER, WORKER
from xbackend.engines.tensorflow.meeting import EXPOSED, await_task, failed, served
from xbackend.engines.tensorflow.updates import Update, applied, numbers, place
from xbackend.errors import ComputationError
from xbackend.wording import join

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xbackend.backends.contract import Backend
    from xbackend.backends.tensorflow.adapter import TensorFlow

_RECORD = "xbackend_record"


class TensorFlowServers(Engine):
    """A server in this process, and a session with the other servers."""

    name, summary = "tensorflow", "TensorFlow's servers and plain sessions"
    rejoins = True
    exposed = EXPOSED
    alone = "xbackend.engines.tensorflow.repeating:Repeating"

    def join(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
        import tensorflow as tf

        self.tf = tf
        self.server = served(self, tf, self._config())
        self._sums: dict[Any, Callable[..., Any]] = {}
        self._instances = 0
        self._reading: dict[int, tuple[Callable[[], np.ndarray], Callable[[], Any]]] = {}
        # TensorFlow's first call would wait for a missing server without a limit.
        for other in self.spec.tasks:
            if other.job == SERVER or not self.asynchronous:
                await_task(self, other)

    def started(self, backend: Backend) -> None:
        self.backend = cast("TensorFlow", backend)

    def _config(self) -> Any:
        config = self.tf.compat.v1.ConfigProto()
        config.allow_soft_placement = False
        own = str(self.task)
        # The session does not wait for a task that it does not need.
        needed = [f"/job:{SERVER}", own if self.asynchronous else f"/job:{WORKER}"]
        config.device_filters.extend([own] if self.task.job == SERVER else needed)
        if self.settings.threads:
            config.intra_op_parallelism_threads = config.inter_op_parallelism_threads = self.settings.threads
        config.operation_timeout_in_ms = int(self.limit * 1000)
        config.experimental.collective_group_leader = f"/job:{WORKER}/replica:0/task:0"
        return config

    @cached_property
    def session(self) -> Any:
        """The session with the servers."""
        return self.tf.compat.v1.Session(self.server.target, self.tf.Graph(), config=self._config())

    @contextmanager
    def _graph(self) -> Iterator[Any]:
        """Nodes made in the block are added to the session's graph."""
        with self.session.graph.as_default():
            yield self.tf

    def _run(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except self.tf.errors.OpError as error:
            if isinstance(ours := self.backend.failed(error), ComputationError):  # is no loss of a task
                raise ours from error
            raise failed(self.task, what, error) from error

    # --- sums over workers -----------------------------------------------------------------------------------------

    def summed(self, messages: Sequence[np.ndarray]) -> list[np.ndarray]:
        key = tuple((message.size, message.dtype.str) for message in messages)
        if key not in self._sums:
            self._sums[key] = self._summing(messages)
        return list(self._run("reduce with the other workers", self._sums[key], *messages))

    def _summing(self, messages: Sequence[np.ndarray]) -> Callable[..., Any]:
        with self._graph() as tf, tf.device(f"/job:{WORKER}/replica:0/task:{self.task.index}/device:CPU:0"):
            given = [tf.compat.v1.placeholder(message.dtype, message.shape) for message in messages]
            sums = list[Any]()
            for one in given:
                self._instances += 1
                with tf.control_dependencies(sums):  # in the same order everywhere
                    total = tf.raw_ops.CollectiveReduceV2(
                        input=one,
                        group_size=self.task.count,
                        group_key=1,
                        instance_key=self._instances,
                        ordering_token=[],
                        merge_op="Add",
                        final_op="Id",
                        communication_hint="ring",
                        timeout_seconds=self.limit,
                    )
                sums.append(total)
            return self.session.make_callable(sums, given)  # type: ignore[no-any-return]

    # --- parameter servers -----------------------------------------------------------------------------------------

    def open(self, records: Sequence[np.ndarray]) -> None:
        if not records:
            return
        (record,) = records
        with self._graph() as tf, tf.device(place(self.task.index)):
            handle = self._handle(self.layouts[self.task.index])
            given = tf.compat.v1.placeholder(tf.uint8, record.shape)
            assign = tf.raw_ops.AssignVariableOp(resource=handle, value=given)
            begin = self.session.make_callable(assign, [given])
        self._run("begin", begin, record)

    def _handle(self, layout: Layout) -> Any:
        return self.tf.raw_ops.VarHandleOp(
            dtype=self.tf.uint8, shape=[layout.nbytes], shared_name=_RECORD, container=""
        )

    def _readers(self, layout: Layout) -> tuple[Callable[[], np.ndarray], Callable[[], Any]]:
        """A call that reads a server's record, and one that reads only its version."""
        if layout.server not in self._reading:
            with self._graph() as tf, tf.device(place(layout.server)):
                value = tf.raw_ops.ReadVariableOp(resource=self._handle(layout), dtype=tf.uint8)
                version = numbers(tf, value[:8])[0]
                make = self.session.make_callable
                self._reading[layout.server] = make(value), make(version)
        return self._reading[layout.server]

    def pull(self, layout: Layout) -> np.ndarray:
        whole, _ = self._readers(layout)
        found: np.ndarray = self._run(f"read /job:{SERVER}/task:{layout.server}", whole)
        self.moved["pulled"] += found.nbytes
        return found

    def version(self, layout: Layout) -> int:
        _, version = self._readers(layout)
        self.moved["pulled"] += 8
        return int(self._run(f"read /job:{SERVER}/task:{layout.server}", version))

    def updates(self, backend: Backend, applies: Sequence[Mapping[str, Any]]) -> Any:
        """A call that runs the graph of a step's updates on the servers."""
        if not applies:
            return None
        updates = list[tuple[Update, Any, list[Any]]]()
        with self._graph() as tf:
            for layout, apply in zip(self.layouts, applies, strict=True):
                update = Update.of(layout, self.task.index, apply)
                # Placeholders on the server: arrays travel with the request, and results with the response.
                with tf.device(place(layout.server)):
                    given = [tf.compat.v1.placeholder(dtype, shape) for dtype, shape in update.given]
                    updates.append((update, self._handle(layout), given))
            with tf.device(place(self.layouts[0].server)):
                step = tf.compat.v1.placeholder(tf.int64, [])
                read = tf.compat.v1.placeholder(tf.int64, [len(self.layouts)])
            # An asynchronous task goes on from the record that its update left, without reading it again.
            out = applied(tf, updates, step, read, whole=self.asynchronous)
            return self.session.make_callable(out, [step, read, *chain(*(given for _, _, given in updates))])

    def push(self, updates: Any, brought: Brought) -> list[tuple[Applied, list[np.ndarray]]]:
        arrays = list(chain(*brought.arrays))
        what = f"update {join(f'/job:{SERVER}/task:{one.server}' for one in self.layouts)}"
        answers = self._run(what, updates, brought.step, np.asarray(brought.read, np.int64), *arrays)
        self.moved["pushed"] += sum(array.nbytes for array in arrays)
        self.moved["pulled"] += sum(array.nbytes for answer in answers for array in answer)
        done = []
        for layout, (entry, *returned) in zip(self.layouts, answers, strict=True):
            if self.asynchronous:
                left, *returned = returned
                self.keep(layout, left)
            version, *read = (int(n) for n in entry)
            done.append((Applied(layout.server, self.task.index, brought.step, version, tuple(read)), returned))
        return done
