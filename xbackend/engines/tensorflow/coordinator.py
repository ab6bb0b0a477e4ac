"""TensorFlow's `ParameterServerStrategy` with its `ClusterCoordinator`
(https://www.tensorflow.org/tutorials/distribute/parameter_server_training).

Workers and parameter servers are TensorFlow servers that compute on request. The coordinator, an extra task, has each
worker's program as a function that reads the servers' variables, computes, and updates the servers. It schedules one
step of each worker at a time. TensorFlow gives the step to any free worker, gives it to another one if that is lost,
and waits for lost workers to come back.

So each step runs at least once. A server's record makes it exactly once: an update and its entry appear together, and
an applied update is not applied again (`updates.applied`).
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from xbackend.backends.tensorflow.graph import Lowering, numbered
from xbackend.backends.tensorflow.settings import configure
from xbackend.devices import Device
from xbackend.engines.contract import Engine
from xbackend.engines.record import Applied
from xbackend.engines.spec import CHIEF, SERVER, WORKER, ClusterSpec, local, split
from xbackend.engines.tensorflow.meeting import EXPOSED, await_task, cluster, failed, served, why_not_there
from xbackend.engines.tensorflow.updates import Unhosted, Update, applied, as_bytes, numbers, place, unpacked
from xbackend.errors import ClusterError
from xbackend.program.serialization import from_json
from xbackend.wording import join

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend
    from xbackend.backends.tensorflow.adapter import TensorFlow
    from xbackend.program.program import Node, Program

_AGAIN = 0.05  # seconds until a step is scheduled again
_LOOK = 1.0  # seconds between looks for lost workers while a step waits


class Coordinator(Engine):
    """The coordinator, or one of its servers."""

    name, summary = "coordinator", "ParameterServerStrategy with its ClusterCoordinator"
    coordinated = rejoins = True
    exposed = EXPOSED
    alone = "xbackend.engines.tensorflow.updates:Repeating"

    @classmethod
    def check(cls, spec: ClusterSpec, *, asynchronous: bool) -> None:
        super().check(spec, asynchronous=asynchronous)
        if not asynchronous:
            raise ClusterError(
                f"{cls.summary} has tasks that do not wait for each other: any worker that is free takes the next "
                "step of any task; add --asynchronous, or take --engine tensorflow for tasks in step"
            )

    @classmethod
    def completed(cls, spec: ClusterSpec) -> ClusterSpec:
        """The cluster with a coordinator: its own, or one on the first task's host, at a free port (loopback) or at the
        port after the last of that host."""
        if CHIEF in spec.jobs:
            return spec
        first = spec.address(spec.tasks[0])
        host, _ = split(first)
        taken = {address for own in spec.jobs.values() for address in own}
        if not host.startswith("127."):
            port = 1 + max(port for there, port in map(split, taken) if there == host)
            return ClusterSpec({**spec.jobs, CHIEF: (f"{first.rpartition(':')[0]}:{port}",)})
        while (address := local(1, 0, host).jobs[WORKER][0]) in taken:
            pass
        return ClusterSpec({**spec.jobs, CHIEF: (address,)})

    def join(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
        os.environ["GRPC_FAIL_FAST"] = "use_caller"  # TensorFlow's guide: a loss is seen at once
        import tensorflow as tf

        self.tf = tf
        configure(tf, self.settings, "of this task")
        if self.task.job != CHIEF:
            self.server = served(self, tf, self._config())
            return
        for other in self.spec.tasks:
            if other != self.task:
                await_task(self, other)
        errors, places = tf.errors, tf.distribute.cluster_resolver
        resolver = places.SimpleClusterResolver(cluster(tf, self.spec), task_type=CHIEF, task_id=0, rpc_layer="grpc")
        try:
            self.strategy = tf.distribute.ParameterServerStrategy(resolver)
        except errors.OpError as error:
            raise failed(self.task, "join the other tasks", error) from error
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(self.strategy)
        # Errors of a step that lost a worker or server; any other is the step's own.
        self.gone = (errors.UnavailableError, errors.AbortedError, errors.CancelledError, errors.DeadlineExceededError)
        self._lock = threading.Lock()
        self._waiting = ThreadPoolExecutor(len(self.spec.jobs[WORKER]), "xbackend-closures")

    def _config(self) -> Any:
        config = self.tf.compat.v1.ConfigProto()
        config.device_count["CPU"] = self.settings.virtual_devices
        # TensorFlow's guide: a thread for each worker that may call.
        least = len(self.spec.jobs[WORKER]) + 1
        config.inter_op_parallelism_threads = max(self.settings.threads or os.cpu_count() or 1, least)
        if self.settings.threads:
            config.intra_op_parallelism_threads = self.settings.threads
        return config

    # --- parameter servers -----------------------------------------------------------------------------------------

    def open(self, records: Sequence[np.ndarray]) -> None:
        if self.task.job != CHIEF:
            return
        with self.strategy.scope():  # places variables on the servers by turns, beginning with the first
            self.records = [
                self.tf.Variable(self.tf.constant(record), trainable=False, name=f"xbackend_record_{k}")
                for k, record in enumerate(records)
            ]
        for one, variable in zip(self.layouts, self.records, strict=True):
            if variable.handle.device != place(one.server):
                raise ClusterError(
                    f"ParameterServerStrategy put the record of server {one.server} on {variable.handle.device}: "
                    "please report this"
                )

    def record(self, server: int) -> np.ndarray:
        try:
            found: np.ndarray = self.records[server].read_value().numpy()
        except self.tf.errors.OpError as error:
            raise failed(self.task, f"read the record of server {server}", error) from error
        self.count({"pulled": found.nbytes})
        return found

    def count(self, moved: Mapping[str, int]) -> None:
        """Add to the bytes that were moved."""
        with self._lock:
            for what, count in moved.items():
                self.moved[what] += count

    # --- steps -----------------------------------------------------------------------------------------------------

    def scheduled(self, backend: Backend, wiring: Mapping[str, Any]) -> ScheduledProgram:
        return ScheduledProgram(self, cast("TensorFlow", backend), wiring)

    def fetched(self, closure: Any, limit: float, whose: str) -> np.ndarray:
        """The result of a closure. Raises `ClusterError` after the limit; time with a lost worker does not count."""
        waiting, begin = self._waiting.submit(closure.fetch), time.monotonic()
        while not wait([waiting], timeout=min(_LOOK, limit)).done:
            if self.lost(WORKER):
                begin = time.monotonic()
            elif time.monotonic() - begin > limit:
                raise ClusterError(f"{self.task} waited {limit:g} s (--limit) for {whose}")
        (data,) = waiting.result()
        return np.asarray(data)

    def lost(self, job: str) -> bool:
        """Whether a task of a job is unreachable."""
        return any(why_not_there(self.spec, task) for task in self.spec.tasks if task.job == job)


class ScheduledProgram:
    """A worker's program for the coordinator. Its arguments are a step's number, arrays, and the worker's own
    variables, which asynchronous workers only read. It returns one array of bytes, fetched in one transfer: the results
    of the worker's own program, then for each update its entry and its results for the user."""

    def __init__(self, engine: Coordinator, backend: TensorFlow, wiring: Mapping[str, Any]) -> None:
        self.engine, self.backend, self.wiring, self.tf, self.done = engine, backend, wiring, engine.tf, 0
        program = self.program = from_json(wiring["program"])
        used = {Device.parse(node.device or "") for node in program.values}
        if used - {backend.default_device}:
            raise ClusterError(
                f"/job:{WORKER}/task:{wiring['worker']} uses {join(sorted(map(str, used)))}: by {engine.summary} a "
                f"step is computed by the worker that is free, on its {backend.default_device} alone; take --engine "
                "tensorflow, or that device"
            )
        self.lowering, self.results = WorkerLowering(self.tf, program), list[tuple[np.dtype[Any], tuple[int, ...]]]()
        worker, layouts, applies = wiring["worker"], engine.layouts, wiring["applies"]
        self.updates = [Update.of(one, worker, apply) for one, apply in zip(layouts, applies, strict=True)]
        self.given = len(program.inputs) - len(wiring["pulled"])
        self.function = backend.traced(self.lowering, self._function)
        self.values = [backend.get_value(variable) for variable in program.shared.values()]
        pulled = sum(program.values[i].aval.nbytes for i in program.inputs[self.given :])
        pushed = [program.values[program.outputs[k]].aval.nbytes for apply in applies for k in apply["pushed"]]
        self.moved = {"pulled": pulled + 8 * len(layouts), "pushed": sum(pushed)}  # bytes

    def _function(self, specs: list[Any]) -> Any:
        tf, lowering, nodes = self.tf, self.lowering, self.program.values
        own = [tf.TensorSpec(nodes[i].shape, nodes[i].dtype.value, name=lowering.name(i)) for i in self.program.shared]
        # As in the adapter: a `tf.function` would end in an Identity for each result on the first device.
        return tf.compat.v1.wrap_function(self._body, [tf.TensorSpec([], tf.int64), *specs[: self.given], *own])

    def _body(self, step: Any, *given: Any) -> list[Any]:
        tf, engine, wiring, lowering, count = self.tf, self.engine, self.wiring, self.lowering, self.given
        lowering.own = dict(zip(self.program.shared, given[count:], strict=True))
        held, read = [], []
        for one, variable in zip(engine.layouts, engine.records, strict=True):
            with tf.device(place(one.server)):
                record = tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=tf.uint8)
                read.append(numbers(tf, record[:8])[0])
                held.append(unpacked(tf, one, record)[1])
        pulled = [
            tf.identity(held[server][name], name=lowering.name(i))
            for i, (server, name) in zip(self.program.inputs[count:], wiring["pulled"], strict=True)
        ]
        own = lowering.whole([*given[:count], *pulled])[0]
        pushed = [[own[k] for k in apply["pushed"]] for apply in wiring["applies"]]
        handles = [variable.handle for variable in engine.records]
        marks = [update.marks(tf, step, tf.stack(read)) for update in self.updates]
        brought = list(zip(self.updates, handles, marks, pushed, strict=True))
        results = [*own, *chain(*applied(tf, brought, after=own))]
        self.results[:] = [(np.dtype(one.dtype.as_numpy_dtype), tuple(one.shape)) for one in results]
        return [tf.concat([as_bytes(tf, one) for one in results], 0)]

    def run(self, number: int, arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], list[Applied]]:
        """Let a worker take step ``number``, and wait until it is applied."""
        worker, count = self.wiring["worker"], len(self.program.outputs)
        results = self._read(self._computed(number, f"step {number} of /job:{WORKER}/task:{worker}", arrays))
        self.done += 1
        self.engine.count(self.moved)
        own, rest = results[:count], results[count:]
        written, returned = list[Applied](), list[list[np.ndarray]]()
        for update in self.updates:
            (entry, *back), rest = rest[: 1 + update.returned], rest[1 + update.returned :]
            version, *read = (int(n) for n in entry)
            written.append(Applied(update.layout.server, worker, number, version, tuple(read)))
            returned.append(back)
        return [own[k] if server is None else returned[server][k] for server, k in self.wiring["outputs"]], written

    def _read(self, data: np.ndarray) -> list[np.ndarray]:
        """The results, read from their bytes."""
        found, begin = [], 0
        for dtype, shape in self.results:
            end = begin + dtype.itemsize * math.prod(shape)
            found.append(np.frombuffer(data[begin:end].tobytes(), dtype).reshape(shape))
            begin = end
        return found

    def _computed(self, number: int, whose: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """The results of a step, as bytes. If a worker is lost, or another task's step cancels this one, it is
        scheduled again: the servers do not apply an update twice."""
        engine, tf, begin = self.engine, self.tf, time.monotonic()
        with tf.device("/device:CPU:0"):
            given = tf.constant(number, tf.int64), *map(tf.constant, [*arrays, *self.values])
        while True:
            try:
                closure = engine.coordinator.schedule(self.function, args=given)
                # A worker compiles a function at its first call.
                new = self.done < len(engine.spec.jobs[WORKER])
                return engine.fetched(closure, engine.options["start_limit"] if new else engine.limit, whose)
            except engine.gone as error:
                if engine.lost(SERVER) or time.monotonic() - begin > engine.limit:
                    raise failed(engine.task, f"have {whose} computed", error) from error
                time.sleep(_AGAIN)
            except tf.errors.OpError as error:
                raise self.backend.failed(error) from error


class WorkerLowering(Lowering):
    """Lowers a task's own program to a function for any worker. A node without a device runs on the worker that has the
    step. The task's ``own`` variables, which asynchronous tasks only read, are arguments.

    Names are the backend's: TensorFlow's optimiser depends on them, and a replay must be equal to the bit.
    """

    def __init__(self, tf: Any, program: Program) -> None:
        super().__init__(Unhosted(tf, {Device.parse(node.device or ""): "" for node in program.values}), program)
        self.own: Mapping[int, Any] = {}

    def name(self, i: int) -> str:
        """The name of an argument."""
        return numbered(f"{self.prefix}a", i)

    def results(self, node: Node, inputs: Sequence[Any]) -> Sequence[Any]:
        if node.op not in ("shared", "all_reduce"):
            return super().results(node, inputs)
        (i,) = node.outputs
        with self.place(i):  # an all-reduce of this task alone: across tasks it would keep them in step
            tensor = self.tf.identity(self.own[i] if node.op == "shared" else inputs[0])
        self.values[i] = [tensor.name]
        return [tensor]
