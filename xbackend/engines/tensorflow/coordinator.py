"""TensorFlow's `ParameterServerStrategy` with its `ClusterCoordinator`
(https://www.tensorflow.org/tutorials/distribute/parameter_server_training).

Workers and parameter servers are TensorFlow's servers, and compute what they are asked for. The coordinator, a task of
its own, has the program of every worker's task as a function: with the variables it reads of the servers, what the task
computes, and the updates of the servers. It schedules one step of each task at a time; the coordinator gives it to a
worker that is free, again to another one where that is lost, and waits for lost workers to come back.

That promises each step at least once. The record of a server makes it once: an update is there with whose step it is,
or not at all, and one that is in already is not applied again (`updates.applied`).
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from xbackend.backends.tensorflow.graph import Lowering, numbered
from xbackend.backends.tensorflow.settings import configure
from xbackend.devices import Device
from xbackend.engines.contract import Coordinating
from xbackend.engines.record import Applied, Layout
from xbackend.engines.spec import CHIEF, SERVER, WORKER
from xbackend.engines.tensorflow.meeting import await_task, why_not_there
from xbackend.engines.tensorflow.updates import Unhosted, Update, applied, as_bytes, numbers, place, unpacked
from xbackend.errors import ClusterError

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend, Value
    from xbackend.backends.tensorflow.adapter import TensorFlow
    from xbackend.program.program import Program

_AGAIN = 0.05  # seconds until a step is brought again
_LOOK = 1.0  # seconds from one look at workers that a step may wait for to the next


@dataclass
class Scheduled:
    """A task's step: ``run`` of its number, arrays and the ``values`` of the task's own variables returns in bytes,
    which are fetched at once, what the task's own program gives, and then of each update what is written down and what
    it returns; ``results`` are their dtypes and shapes. ``runs`` counts those that are done."""

    run: Callable[..., Any]
    worker: int
    backend: TensorFlow
    values: Sequence[np.ndarray]
    own: int  # how many of the results are the own program's
    results: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]
    updates: Sequence[Update]
    outputs: Sequence[tuple[int | None, int]]
    moved: Mapping[str, int]  # bytes
    runs: int = 0

    def read(self, data: np.ndarray) -> list[np.ndarray]:
        """The results of their bytes."""
        found, begin = [], 0
        for dtype, shape in self.results:
            end = begin + dtype.itemsize * math.prod(shape)
            found.append(np.frombuffer(data[begin:end].tobytes(), dtype).reshape(shape))
            begin = end
        return found


class Coordinator(Coordinating):
    """The coordinator, or a server that it asks."""

    def join(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
        os.environ["GRPC_FAIL_FAST"] = "use_caller"  # as its guide has it: who is lost is seen at once
        import tensorflow as tf

        self.tf = tf
        cluster = tf.train.ClusterSpec({name: list(addresses) for name, addresses in self.spec.jobs.items()})
        configure(tf, self.settings, "of this task")
        self.start_limit = float(self.options["start_limit"])
        if self.task.job == CHIEF:
            self._coordinate(cluster)
            return
        try:
            self.server = tf.distribute.Server(
                cluster, self.task.job, self.task.index, protocol="grpc", config=self._config()
            )
        except tf.errors.OpError as error:
            raise ClusterError(
                f"{self.task} cannot listen on {self.spec.address(self.task)}, another process may have that port: "
                f"{error.message[:500]}"
            ) from error

    def _config(self) -> Any:
        config = self.tf.compat.v1.ConfigProto()
        config.device_count["CPU"] = self.settings.virtual_devices
        # A thread for each worker that may ask, as its guide has it.
        least = len(self.spec.jobs[WORKER]) + 1
        config.inter_op_parallelism_threads = max(self.settings.threads or os.cpu_count() or 1, least)
        if self.settings.threads:
            config.intra_op_parallelism_threads = self.settings.threads
        return config

    def _coordinate(self, cluster: Any) -> None:
        tf = self.tf
        for other in self.spec.tasks:
            if other != self.task:
                await_task(self, other)
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
            cluster, task_type=CHIEF, task_id=0, rpc_layer="grpc"
        )
        try:
            self.strategy = tf.distribute.ParameterServerStrategy(resolver)
        except tf.errors.OpError as error:
            raise self._failed("join the other tasks", error) from error
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(self.strategy)
        errors = tf.errors
        # What a step comes to whose server is gone; else it is the step that cannot be computed.
        self._gone = (errors.UnavailableError, errors.AbortedError, errors.CancelledError, errors.DeadlineExceededError)
        self._lock = threading.Lock()
        self._waiting = ThreadPoolExecutor(len(self.spec.jobs[WORKER]), "xbackend-closures")

    def all_reduce(self, backend: Backend, values: Sequence[Value]) -> list[Value]:
        raise ClusterError("an all-reduce is of tasks in step, and those of a coordinator are not")

    # --- parameter servers -----------------------------------------------------------------------------------------

    def open(self, layouts: Sequence[Layout], records: Sequence[np.ndarray]) -> None:
        self.layouts = list(layouts)
        if self.task.job != CHIEF:
            return
        with self.strategy.scope():  # it places variables on the servers by turns, from the first one on
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
            raise self._failed(f"read the record of server {server}", error) from error
        self._moved("pulled", found.nbytes)
        return found

    def _moved(self, what: str, count: int) -> None:
        with self._lock:
            self.moved[what] += count

    def _failed(self, what: str, error: Any) -> ClusterError:
        return ClusterError(f"{self.task} could not {what}: {type(error).__name__}: {error.message[:500]}")

    # --- steps -----------------------------------------------------------------------------------------------------

    def scheduled(self, backend: Backend, program: Program, wiring: Mapping[str, Any]) -> Scheduled:
        tf, tensorflow, lowering = self.tf, cast("TensorFlow", backend), _Step(self.tf, program)
        updates = [
            Update.of(one, wiring["worker"], apply) for one, apply in zip(self.layouts, wiring["applies"], strict=True)
        ]
        count = len(program.inputs) - len(wiring["pulled"])
        kinds = list[tuple[np.dtype[Any], tuple[int, ...]]]()

        def body(step: Any, *given: Any) -> list[Any]:
            arrays, lowering.own = given[:count], dict(zip(program.shared, given[count:], strict=True))
            held, read = [], []
            for one, variable in zip(self.layouts, self.records, strict=True):
                with tf.device(place(one.server)):
                    record = tf.raw_ops.ReadVariableOp(resource=variable.handle, dtype=tf.uint8)
                    read.append(numbers(tf, record[:8])[0])
                    held.append(unpacked(tf, one, record)[1])
            pulled = [
                tf.identity(held[server][name], name=lowering.name(i))
                for i, (server, name) in zip(program.inputs[count:], wiring["pulled"], strict=True)
            ]
            own = lowering.whole([*arrays, *pulled])[0]
            pushed = [[own[k] for k in apply["pushed"]] for apply in wiring["applies"]]
            brought = list(zip(updates, (variable.handle for variable in self.records), pushed, strict=True))
            results = [*own, *chain(*applied(tf, brought, step, tf.stack(read), after=own))]
            kinds[:] = [(np.dtype(one.dtype.as_numpy_dtype), tuple(one.shape)) for one in results]
            return [tf.concat([as_bytes(tf, one) for one in results], 0)]

        def function(specs: list[Any]) -> Any:
            nodes = [(i, program.nodes[i]) for i in program.shared]
            own = [tf.TensorSpec(node.shape, node.dtype.value, name=lowering.name(i)) for i, node in nodes]
            # As adapters have graphs: a `tf.function` would end in an Identity for each result on the first device.
            return tf.compat.v1.wrap_function(body, [tf.TensorSpec([], tf.int64), *specs[:count], *own])

        run = tensorflow.traced(lowering, function)
        pulled = [program.nodes[i].aval.nbytes for i in program.inputs[count:]]
        pushed = [program.nodes[program.outputs[k]].aval.nbytes for apply in wiring["applies"] for k in apply["pushed"]]
        moved = {"pulled": sum(pulled) + 8 * len(self.layouts), "pushed": sum(pushed)}
        values = [backend.get_value(variable) for variable in program.shared.values()]
        how = wiring["worker"], tensorflow, values, len(program.outputs), kinds, updates, wiring["outputs"], moved
        return Scheduled(run, *how)

    def step(
        self, scheduled: Scheduled, number: int, arrays: Sequence[np.ndarray]
    ) -> tuple[list[np.ndarray], list[Applied]]:
        data = self._computed(scheduled, number, [*arrays, *scheduled.values])
        scheduled.runs += 1
        results = scheduled.read(data)
        for what, count in scheduled.moved.items():
            self._moved(what, count)
        own, rest = results[: scheduled.own], results[scheduled.own :]
        applied, returned = list[Applied](), dict[int, list[np.ndarray]]()
        for update in scheduled.updates:
            (entry, *back), rest = rest[: 1 + update.returned], rest[1 + update.returned :]
            version, *read = (int(n) for n in entry)
            applied.append(Applied(update.layout.server, scheduled.worker, number, version, tuple(read)))
            returned[update.layout.server] = back
        outputs = [own[k] if server is None else returned[server][k] for server, k in scheduled.outputs]
        return outputs, applied

    def _computed(self, scheduled: Scheduled, number: int, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """What a step came to, in bytes; brought again as long as it is only a worker that was lost on the way, or
        another task's step that took this one with it: the servers know one that is in."""
        tf, begin = self.tf, time.monotonic()
        whose = f"step {number} of /job:{WORKER}/task:{scheduled.worker}"
        with tf.device("/device:CPU:0"):
            given = tf.constant(number, tf.int64), *map(tf.constant, arrays)
        while True:
            try:
                closure = self.coordinator.schedule(scheduled.run, args=given)
                # A worker's first call of a function makes it ready there.
                new = scheduled.runs < len(self.spec.jobs[WORKER])
                return self._fetched(closure, self.start_limit if new else self.limit, whose)
            except self._gone as error:
                if self._lost(SERVER) or time.monotonic() - begin > self.limit:
                    raise self._failed(f"have {whose} computed", error) from error
                time.sleep(_AGAIN)
            except tf.errors.OpError as error:
                raise scheduled.backend.failed(error) from error

    def _fetched(self, closure: Any, limit: float, whose: str) -> np.ndarray:
        """The result of a closure. Raises `ClusterError` where it takes longer than the limit while no worker is away
        that it may wait for."""
        waiting, begin = self._waiting.submit(closure.fetch), time.monotonic()
        while not wait([waiting], timeout=min(_LOOK, limit)).done:
            if self._lost(WORKER):
                begin = time.monotonic()
            elif time.monotonic() - begin > limit:
                raise ClusterError(f"{self.task} waited {limit:g} s (--limit) for {whose}")
        (data,) = waiting.result()
        return np.asarray(data)

    def _lost(self, job: str) -> bool:
        """Whether a task of a job is not there."""
        return any(why_not_there(self.spec, task) for task in self.spec.tasks if task.job == job)


class _Step(Lowering):
    """A task's own program on its way into a function that any worker may run: what has no device is computed by who
    runs it. Variables of the task's ``own``, which asynchronous tasks only read, are arguments.

    Names are those that a backend gives: TensorFlow's optimiser goes by them, and a replay has to be the same to the
    bit.
    """

    def __init__(self, tf: Any, program: Program) -> None:
        super().__init__(Unhosted(tf, {Device.parse(node.device or ""): "" for node in program.nodes}), program)
        self.own: Mapping[int, Any] = {}

    def name(self, i: int) -> str:
        """What an argument is called."""
        return numbered(f"{self.prefix}a", i)

    def node(self, i: int, tensors: dict[int, Any]) -> None:
        node = self.program.nodes[i]
        if i in tensors or node.op not in ("shared", "all_reduce"):
            super().node(i, tensors)
            return
        with self.place(i):  # an all-reduce is of this task alone: with others it would keep them in step
            tensors[i] = self.tf.identity(self.own[i] if node.op == "shared" else tensors[node.inputs[0]])
        self.values[i] = [tensors[i].name]
