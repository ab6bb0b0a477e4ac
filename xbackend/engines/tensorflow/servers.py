"""TensorFlow servers and plain sessions: TensorFlow 1's between-graph replication.

Every task has a server. A parameter server's record is a variable there. A worker's session reads it, and runs the
graph of an update there, under a mutex. All-reduces are TensorFlow's collective ops (`collectives.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from xbackend.engines.contract import Brought, Engine, StepParts
from xbackend.engines.record import Applied, Layout
from xbackend.engines.spec import SERVER, WORKER
from xbackend.engines.tensorflow.collectives import Collectives
from xbackend.engines.tensorflow.meeting import EXPOSED, await_task, failed, served
from xbackend.engines.tensorflow.updates import Marks, Update, applied, numbers, place
from xbackend.errors import ComputationError
from xbackend.wording import join

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xbackend.backends.contract import Backend, Value
    from xbackend.backends.tensorflow.adapter import TensorFlow

_RECORD = "xbackend_record"


class TensorFlowServers(Engine):
    """A server in this process, and a session with the other servers."""

    name, summary = "tensorflow", "TensorFlow's servers and plain sessions"
    rejoins = True
    exposed = EXPOSED
    alone = "xbackend.engines.tensorflow.updates:Repeating"

    def join(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
        import tensorflow as tf

        self.tf = tf
        together = self.task.job == WORKER and not self.asynchronous
        self.collectives = Collectives(self, tf) if together else None
        if not together:
            self.server = served(self, tf, self._config())
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
        config.device_filters.extend([own] if self.task.job == SERVER else [f"/job:{SERVER}", own])
        if self.settings.threads:
            config.intra_op_parallelism_threads = config.inter_op_parallelism_threads = self.settings.threads
        config.operation_timeout_in_ms = int(self.limit * 1000)
        return config

    @cached_property
    def session(self) -> Any:
        """The session with the servers."""
        own = f"grpc://{self.spec.address(self.task)}"  # the name of this process's server: no connection is made
        return self.tf.compat.v1.Session(own, self.tf.Graph(), config=self._config())

    @contextmanager
    def _graph(self) -> Iterator[Any]:
        """Nodes made in the block are added to the session's graph."""
        with self.session.graph.as_default():
            yield self.tf

    def _call(self, given: Sequence[Any], fetched: Sequence[Any], targets: Sequence[Any] = ()) -> Callable[..., Any]:
        """A call of the session: arrays in, the fetched arrays out. `Session.make_callable` would look at every
        argument and result anew in each call."""
        from tensorflow.core.protobuf import config_pb2

        options = config_pb2.CallableOptions(
            feed=[one.name for one in given],
            fetch=[one.name for one in fetched],
            target=[one.name for one in targets],
        )
        called: Callable[..., Any] = self.session._make_callable_from_options(options)
        return called

    def _run(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except self.tf.errors.OpError as error:
            if isinstance(ours := self.backend.failed(error), ComputationError):  # is no loss of a task
                raise ours from error
            raise failed(self.task, what, error) from error

    # --- sums over workers -----------------------------------------------------------------------------------------

    def whole(self, backend: Backend, parts: StepParts) -> Callable[..., Sequence[Value]] | None:
        return self.collectives.whole(cast("TensorFlow", backend), parts) if self.collectives else None

    def summed(self, messages: Sequence[np.ndarray]) -> Sequence[np.ndarray]:
        return self.collectives.summed(messages) if self.collectives else super().summed(messages)

    # --- parameter servers -----------------------------------------------------------------------------------------

    def open(self, records: Sequence[np.ndarray]) -> None:
        if not records:
            return
        (record,) = records
        with self._graph() as tf, tf.device(place(self.task.index)):
            handle = self._handle(self.layouts[self.task.index])
            given = tf.compat.v1.placeholder(tf.uint8, record.shape)
            assign = tf.raw_ops.AssignVariableOp(resource=handle, value=given)
            begin = self._call([given], [], [assign])
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
                self._reading[layout.server] = self._call([], [value]), self._call([], [version])
        return self._reading[layout.server]

    def pull(self, layout: Layout) -> np.ndarray:
        whole, _ = self._readers(layout)
        found: np.ndarray = self._run(f"read /job:{SERVER}/task:{layout.server}", whole)[0]
        self.moved["pulled"] += found.nbytes
        return found

    def version(self, layout: Layout) -> int:
        _, version = self._readers(layout)
        self.moved["pulled"] += 8
        return int(self._run(f"read /job:{SERVER}/task:{layout.server}", version)[0])

    def updates(self, backend: Backend, applies: Sequence[Mapping[str, Any]]) -> Any:
        """A call that runs the graph of a step's updates on the servers."""
        if not applies:
            return None
        updates, given = list[tuple[Update, Any, Marks, list[Any]]](), list[Any]()
        with self._graph() as tf:
            for layout, apply in zip(self.layouts, applies, strict=True):
                update = Update.of(layout, self.task.index, apply)
                # On the server: arrays travel with the request, and results with the response.
                with tf.device(place(layout.server)):
                    given.append(tf.compat.v1.placeholder(tf.uint8, [update.nbytes]))
                    updates.append((update, self._handle(layout), *update.received(tf, given[-1])))
            # An asynchronous task goes on from the record that its update left, without reading it again.
            out = applied(tf, updates, whole=self.asynchronous)
            return [update for update, _, _, _ in updates], self._call(given, [*chain(*out)])

    def push(self, updates: Any, brought: Brought) -> list[tuple[Applied, list[np.ndarray]]]:
        made, call = updates
        what = f"update {join(f'/job:{SERVER}/task:{one.server}' for one in self.layouts)}"
        self.moved["pushed"] += sum(array.nbytes for array in chain(*brought.arrays))
        pushes = zip(made, brought.arrays, strict=True)
        answers = iter(self._run(what, call, *(one.message(brought.step, brought.read, own) for one, own in pushes)))
        done = []
        for update, layout in zip(made, self.layouts, strict=True):
            told, returned = next(answers), [next(answers) for _ in range(update.returned)]
            self.moved["pulled"] += sum(array.nbytes for array in (told, *returned))
            if self.asynchronous:
                self.keep(layout, told)
                entry = layout.applied(told, self.task.index, brought.step)
            else:
                version, *read = told.tolist()
                entry = Applied(layout.server, self.task.index, brought.step, version, tuple(read))
            done.append((entry, returned))
        return done
