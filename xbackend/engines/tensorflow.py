"""TensorFlow's own servers, and plain sessions: between-graph replication as TensorFlow 1 has it.

Every task has a server (`tf.compat.v1.train.Server`). The record of a parameter server is a variable there; a worker's
session reads it, and runs the graph of its update there, under a mutex. All-reduces are TensorFlow's collective ops.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xbackend.backends.tensorflow.graph import Lowering
from xbackend.devices import Device
from xbackend.engines.alone import Alone
from xbackend.engines.contract import Brought, Engine, HostUpdate
from xbackend.engines.record import KEPT, Applied, Layout
from xbackend.engines.spec import SERVER, WORKER, Task, split
from xbackend.errors import ClusterError
from xbackend.program.program import generate
from xbackend.program.serialization import from_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xbackend.backends.contract import Backend, Value

_RECORD, _OUTER, _INNER = "xbackend_record", "xbackend_outer", "xbackend_inner"


class TensorFlowServers(Engine):
    """A server in this process, and sessions with those of the others."""

    def join(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
        import tensorflow as tf

        self.tf = tf
        jobs = {name: list(addresses) for name, addresses in self.spec.jobs.items()}
        try:
            self.server = tf.compat.v1.train.Server(
                tf.train.ClusterSpec(jobs), self.task.job, self.task.index, config=self._config()
            )
        except tf.errors.OpError as error:
            raise ClusterError(
                f"{self.task} cannot listen on {self.spec.address(self.task)}, another process may have that port: "
                f"{error.message}"
            ) from error
        self._sums: dict[Any, Callable[..., Any]] = {}
        self._instances = 0
        self._reading: dict[int, tuple[Callable[[], np.ndarray], Callable[[], Any]]] = {}
        # Without a limit of its own a first call waits for a server that never comes.
        for other in self._needed():
            self._reach(other)
        self.session: Any = None

    def _needed(self) -> list[Task]:
        """The tasks that this one waits for."""
        if self.asynchronous:
            return [other for other in self.spec.tasks if other.job == SERVER]
        return list(self.spec.tasks)

    def _config(self) -> Any:
        config = self.tf.compat.v1.ConfigProto()
        config.allow_soft_placement = False
        own = f"/job:{self.task.job}/task:{self.task.index}"
        # A task that nobody needs is not waited for.
        config.device_filters.extend([f"/job:{SERVER}", own if self.asynchronous else f"/job:{WORKER}"])
        if self.task.job == SERVER:
            del config.device_filters[:]
            config.device_filters.append(own)
        threads = self.options.get("threads")
        if threads:
            config.intra_op_parallelism_threads = config.inter_op_parallelism_threads = int(threads)
        config.operation_timeout_in_ms = int(self.limit * 1000)
        config.experimental.collective_group_leader = f"/job:{WORKER}/replica:0/task:0"
        return config

    def _reach(self, other: Task) -> None:
        host, port = split(self.spec.address(other))
        why = ""

        def there() -> bool:
            nonlocal why
            try:
                socket.create_connection((host, port), timeout=1.0).close()
            except OSError as error:
                why = str(error)
                return False
            return True

        self.until(there, lambda: f"for {other}, which is not at {host}:{port}: {why}", longest=0.05)

    def _target(self) -> Any:
        """The session with the servers."""
        if self.session is None:
            graph = self.tf.Graph()
            self.session = self.tf.compat.v1.Session(self.server.target, graph, config=self._config())
        return self.session

    @contextmanager
    def _graph(self) -> Iterator[Any]:
        """The graph of the session, to be added to."""
        with self._target().graph.as_default():
            yield self.tf

    def _run(self, what: str, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except self.tf.errors.OpError as error:
            raise ClusterError(
                f"{self.task} could not {what}: {type(error).__name__}: {error.message[:500]}"
            ) from error

    # --- sums over workers -----------------------------------------------------------------------------------------

    def all_reduce(self, backend: Backend, values: Sequence[Value]) -> list[Value]:
        arrays = backend.get_all(values)
        key = tuple((array.shape, array.dtype.str) for array in arrays)
        if key not in self._sums:
            self._sums[key] = self._summing(arrays)
        sums = self._run("reduce with the other workers", self._sums[key], *arrays)
        return backend.put_all(list(sums), [backend.device_of(value) for value in values])

    def _summing(self, arrays: Sequence[np.ndarray]) -> Callable[..., Any]:
        place = f"/job:{WORKER}/replica:0/task:{self.task.index}/device:CPU:0"
        with self._graph() as tf, tf.device(place):
            given = [tf.compat.v1.placeholder(array.dtype, array.shape) for array in arrays]
            sums, before = list[Any](given), list[Any]()
            for dtype in dict.fromkeys(array.dtype for array in arrays):  # those of one dtype in one message
                own = [k for k, array in enumerate(arrays) if array.dtype == dtype]
                self._instances += 1
                with tf.control_dependencies(before):  # in the same order everywhere
                    total = tf.raw_ops.CollectiveReduceV2(
                        input=tf.concat([tf.reshape(given[k], [-1]) for k in own], 0),
                        group_size=self.task.count,
                        group_key=1,
                        instance_key=self._instances,
                        ordering_token=[],
                        merge_op="Add",
                        final_op="Id",
                        communication_hint="ring",
                        timeout_seconds=self.limit,
                    )
                before, parts = [total], tf.split(total, [arrays[k].size for k in own])
                for k, one in zip(own, parts, strict=True):
                    sums[k] = tf.reshape(one, arrays[k].shape)
            return self._target().make_callable(sums, given)  # type: ignore[no-any-return]

    # --- parameter servers -----------------------------------------------------------------------------------------

    def open(self, layouts: Sequence[Layout], record: np.ndarray | None) -> None:
        self.layouts = list(layouts)
        if record is None:
            return
        place = self._place(self.task.index)
        with self._graph() as tf, tf.device(place):
            handle = self._handle(self.layouts[self.task.index])
            given = tf.compat.v1.placeholder(tf.uint8, record.shape)
            assign = tf.raw_ops.AssignVariableOp(resource=handle, value=given)
            begin = self._target().make_callable(assign, [given])
        self._run("begin", begin, record)

    def _place(self, server: int) -> str:
        return f"/job:{SERVER}/replica:0/task:{server}/device:CPU:0"

    def _handle(self, layout: Layout) -> Any:
        return self.tf.raw_ops.VarHandleOp(
            dtype=self.tf.uint8, shape=[layout.nbytes], shared_name=_RECORD, container=""
        )

    def _readers(self, layout: Layout) -> tuple[Callable[[], np.ndarray], Callable[[], Any]]:
        """What reads a server's record, and what reads its version only."""
        if layout.server not in self._reading:
            with self._graph() as tf, tf.device(self._place(layout.server)):
                value = tf.raw_ops.ReadVariableOp(resource=self._handle(layout), dtype=tf.uint8)
                version = _numbers(tf, value[:8])[0]
                session = self._target()
                self._reading[layout.server] = session.make_callable(value), session.make_callable(version)
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

    def record(self) -> np.ndarray:
        return self.pull(self.layouts[self.task.index])

    def update(self, layout: Layout, apply: Mapping[str, Any]) -> Any:
        """The graph of an update: under the mutex, the record is read, and replaced by what it becomes."""
        program = from_json(apply["program"]) if apply["program"] else None
        nodes = [program.nodes[i] for i in program.inputs] if program else []
        pushed = nodes[: len(apply["pushed"])]
        with self._graph() as tf:
            raw = tf.raw_ops
            # What is fed there goes with the question, and what is fetched with its answer.
            with tf.device(self._place(layout.server)):
                given = [tf.compat.v1.placeholder(node.dtype.value, node.shape) for node in pushed]
                step = tf.compat.v1.placeholder(tf.int64, [])
                read = tf.compat.v1.placeholder(tf.int64, [layout.servers])
                handle = self._handle(layout)
                # All that comes from the worker is there before the mutex is taken.
                there = [tf.identity(one) for one in (step, read, *given)]
                outer = _locked(tf, _OUTER, there)
                inner = _locked(tf, _INNER, [outer])
                with tf.control_dependencies([inner]):
                    now = raw.ReadVariableOp(resource=handle, dtype=tf.uint8)
                counts, held = _unpacked(tf, layout, now)
                results: list[Any] = []
                if program is not None:
                    lowering = _Update(self.tf, program, self._place(layout.server))
                    results, _ = lowering.whole([*there[2:], *(held[name] for name in apply["reads"])])
                new = {**held, **dict(zip(apply["writes"], results, strict=False))}
                returned = results[len(apply["writes"]) :]
                at, row = layout.steps_at(self.task.index), layout.entry
                fresh = counts[at] <= there[0]
                begin = layout.entry_at(self.task.index, 0) + there[0] % KEPT * row
                places = tf.concat([[0, at], begin + tf.range(row, dtype=tf.int64)], 0)
                values = tf.concat([[counts[0] + 1, there[0] + 1, counts[0] + 1], there[1]], 0)
                said = tf.tensor_scatter_nd_update(counts, places[:, None], values)
                changed = tf.where(fresh, _packed(tf, layout, said, new), now)
                entry = tf.where(fresh, values[2:], tf.slice(counts, [begin], [row]))
                # Tasks that do not wait for each other go on from what they left, and need not read it again.
                left = [changed] if self.asynchronous else []
                with tf.control_dependencies([entry, *returned]):
                    assign = raw.AssignVariableOp(resource=handle, value=changed)
                out = _released(tf, assign, [inner, outer], [entry, *left, *returned])
            return self._target().make_callable(out, [step, read, *given])

    def push(self, layout: Layout, update: Any, brought: Brought) -> tuple[Applied, list[np.ndarray]]:
        what = f"update /job:{SERVER}/task:{layout.server}"
        answer = self._run(what, update, brought.step, np.asarray(brought.read, np.int64), *brought.arrays)
        self.moved["pushed"] += sum(array.nbytes for array in brought.arrays)
        self.moved["pulled"] += sum(array.nbytes for array in answer)
        entry, *returned = answer
        if self.asynchronous:
            left, *returned = returned
            self.keep(layout, left)
        version, *read_then = (int(n) for n in entry)
        return Applied(layout.server, self.task.index, brought.step, version, tuple(read_then)), returned


class Repeating(Alone):
    """Updates repeated in this process, by graphs of plain sessions as on a server."""

    def update(self, layout: Layout, apply: Mapping[str, Any]) -> HostUpdate:
        import tensorflow as tf

        if not apply["program"]:
            return HostUpdate(None, (), ())
        program, place = from_json(apply["program"]), "/device:CPU:0"
        nodes = [program.nodes[i] for i in program.inputs]
        with tf.Graph().as_default() as graph, tf.device(place):
            given = [tf.compat.v1.placeholder(node.dtype.value, node.shape) for node in nodes]
            results, _ = _Update(tf, program, place).whole(given)
            config = tf.compat.v1.ConfigProto(allow_soft_placement=False)
            run = tf.compat.v1.Session(graph=graph, config=config).make_callable(list(results), given)
        return HostUpdate(lambda arrays: run(*arrays), apply["reads"], apply["writes"])


@dataclass
class _Graph:
    """What lowering asks of a backend, for a graph on a server."""

    tf: Any
    names: Mapping[Device, str]

    def carrier(self, dtype: str, device: Device) -> str:
        return dtype


class _Update(Lowering):
    """A program on its way into the graph of a session, all of it on one server."""

    def __init__(self, tf: Any, program: Any, place: str) -> None:
        super().__init__(_Graph(tf, {Device("cpu", 0): place}), program)

    def _generate(self, i: int) -> Any:
        node = self.program.nodes[i]
        return self.tf.constant(generate(node), node.dtype.value)


def _locked(tf: Any, name: str, after: Sequence[Any]) -> Any:
    """The lock of a mutex. There are two, one in the other: where one that waits for a mutex is cancelled, TensorFlow
    unlocks it, whoever holds it (tensorflow/core/kernels/mutex_ops.cc)."""
    with tf.control_dependencies(list(after)):
        return tf.raw_ops.MutexLock(mutex=tf.raw_ops.MutexV2(shared_name=name, container=""))


def _released(tf: Any, after: Any, locks: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    for lock in locks:
        with tf.control_dependencies([after]):
            after = tf.raw_ops.ConsumeMutexLock(mutex_lock=lock)
    with tf.control_dependencies([after]):
        return [tf.identity(one) for one in results]


def _numbers(tf: Any, data: Any) -> Any:
    """Whole numbers of bytes."""
    return tf.bitcast(tf.reshape(data, [-1, 8]), tf.int64)


def _unpacked(tf: Any, layout: Layout, record: Any) -> tuple[Any, dict[str, Any]]:
    held = {}
    for one in layout.variables:
        dtype = tf.as_dtype(one.dtype)
        data = record[layout.begins[one.name] : layout.begins[one.name] + one.nbytes]
        if dtype == tf.bool:
            data = tf.cast(data, tf.bool)
        elif dtype.size > 1:
            data = tf.bitcast(tf.reshape(data, [-1, dtype.size]), dtype)
        held[one.name] = tf.reshape(data, one.shape)
    return _numbers(tf, record[: layout.numbers * 8]), held


def _packed(tf: Any, layout: Layout, counts: Any, held: Mapping[str, Any]) -> Any:
    parts, place = [tf.reshape(tf.bitcast(counts, tf.uint8), [-1])], layout.numbers * 8
    for one in layout.variables:
        begin, value = layout.begins[one.name], held[one.name]
        parts.append(tf.zeros([begin - place], tf.uint8))
        if value.dtype == tf.bool:
            value = tf.cast(value, tf.uint8)
        elif value.dtype.size > 1:
            value = tf.bitcast(value, tf.uint8)
        parts.append(tf.reshape(value, [-1]))
        place = begin + one.nbytes
    parts.append(tf.zeros([layout.nbytes - place], tf.uint8))
    return tf.concat(parts, 0)
