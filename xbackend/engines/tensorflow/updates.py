"""The record of a parameter server in TensorFlow's graphs: unpacked, and replaced by an update that is applied once.

Sessions and a coordinator's closures run the same graph on the server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xbackend.backends.tensorflow.graph import Lowering
from xbackend.devices import Device
from xbackend.engines.alone import Alone
from xbackend.engines.contract import NOTHING, HostUpdate
from xbackend.engines.record import ALIGNED, KEPT, Layout
from xbackend.engines.spec import SERVER
from xbackend.program.program import Program, generate
from xbackend.program.serialization import from_json
from xbackend.program.shared import SharedVariable

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend

# The whole numbers that a step writes into a record: their places (int64, a column) and their values. The value of a
# version is 1, to which the server adds the version before.
Marks = tuple[Any, Any]
ArrayType = tuple[str, tuple[int, ...]]  # dtype and shape
_OUTER, _INNER = "xbackend_outer", "xbackend_inner"


def place(server: int) -> str:
    """The device of a server that holds its record."""
    return f"/job:{SERVER}/replica:0/task:{server}/device:CPU:0"


@dataclass
class Unhosted:
    """The backend that lowering needs, for a graph that no backend runs."""

    tf: Any
    names: Mapping[Device, str]

    def carrier(self, dtype: str, device: Device) -> str:
        return dtype

    def storage(self, variable: SharedVariable) -> None:
        """There is no storage."""

    def put(self, array: np.ndarray, device: Device) -> Any:
        """A constant of the graph."""
        with self.tf.device("/device:CPU:0"):
            return self.tf.constant(array)


class UpdateLowering(Lowering):
    """Lowers a program to a graph that no backend runs, with devices of these names."""

    def __init__(self, tf: Any, program: Any, names: Mapping[Device, str]) -> None:
        super().__init__(Unhosted(tf, names), program)

    def _generate(self, i: int) -> Any:
        node = self.program.values[i]
        return self.tf.constant(generate(node), node.dtype.value)


@dataclass(frozen=True)
class Update:
    """An update of a server by a worker. The arguments of ``program`` are the pushed arrays, then the variables in
    ``reads``; its results the new values of those in ``writes``, then results for the user."""

    layout: Layout
    worker: int
    program: Program
    pushed: int
    reads: Sequence[str]
    writes: Sequence[str]

    @classmethod
    def of(cls, layout: Layout, worker: int, apply: Mapping[str, Any]) -> Update:
        """The update from the launcher's plain data."""
        return cls(layout, worker, from_json(apply["program"]), len(apply["pushed"]), apply["reads"], apply["writes"])

    @property
    def given(self) -> list[ArrayType]:
        """The dtypes and shapes of the pushed arrays."""
        nodes = [self.program.values[i] for i in self.program.inputs[: self.pushed]]
        return [(node.dtype.value, node.shape) for node in nodes]

    @property
    def returned(self) -> int:
        """The number of results for the user."""
        return len(self.program.outputs) - len(self.writes)

    def lowered(self, tf: Any, device: str, given: Sequence[Any]) -> list[Any]:
        """Add the program to the graph under construction. Returns its results."""
        return UpdateLowering(tf, self.program, {Device("cpu", 0): device}).whole(given)[0]

    def message(self, step: int, read: Sequence[int], pushed: Sequence[np.ndarray]) -> np.ndarray:
        """The message of a task for a step, as bytes: its marks, then the pushed arrays. Each argument of a session's
        call costs as much as several ops."""
        layout = self.layout
        begin = layout.entry_at(self.worker, step)
        places = range(begin, begin + layout.entry)
        marks = np.array([1, step + 1, 1, *read, 0, layout.steps_at(self.worker), *places], np.int64)
        return np.frombuffer(b"".join([marks.tobytes(), *(array.tobytes() for array in pushed)]), np.uint8)

    def received(self, tf: Any, message: Any) -> tuple[Marks, list[Any]]:
        """The marks and the pushed arrays of a message."""
        marks = [("int64", (self._marked,)), ("int64", (self._marked, 1))]
        values, places, *pushed = typed(tf, message, [*marks, *self.given])
        return (places, values), pushed

    @property
    def nbytes(self) -> int:
        """The bytes of a message."""
        return 2 * 8 * self._marked + sum(map(_nbytes, self.given))

    def marks(self, tf: Any, step: Any, read: Any) -> Marks:
        """The marks of a step, of tensors."""
        begin = self.layout.entry_at(self.worker, 0) + step % KEPT * self.layout.entry
        entry = begin + tf.range(self.layout.entry, dtype=tf.int64)
        places = tf.concat([[0, self.layout.steps_at(self.worker)], entry], 0)
        return places[:, None], tf.concat([[1, step + 1, 1], read], 0)

    def computed(self, tf: Any, now: Any, marks: Marks, given: Sequence[Any]) -> tuple[Any, Any, list[Any]]:
        """The record that replaces ``now``; equal to ``now`` if the step was applied before. Also the step's entry
        (int64: the version made, the versions read), and the results for the user."""
        layout, (places, values) = self.layout, marks
        counts, held = unpacked(tf, layout, now)
        results = self.lowered(tf, place(layout.server), [*given, *(held[name] for name in self.reads)])
        new = {**held, **dict(zip(self.writes, results, strict=False))}
        at = layout.steps_at(self.worker)
        fresh = counts[at] < values[1]
        made = tf.tensor_scatter_nd_update(counts, places, values + counts[:1] * self._versions)
        changed = tf.where(fresh, packed(tf, layout, made, new), now)
        entry = tf.gather(tf.where(fresh, made, counts), places[2:, 0])
        return changed, entry, list(results[len(self.writes) :])

    @property
    def _marked(self) -> int:
        """How many whole numbers of the record a step writes."""
        return 2 + self.layout.entry

    @property
    def _versions(self) -> np.ndarray:
        """One for each of the values of `Marks` that is a version, else zero."""
        return np.array([1, 0, 1, *[0] * self.layout.servers], np.int64)


def applied(
    tf: Any,
    updates: Sequence[tuple[Update, Any, Marks, Sequence[Any]]],
    *,
    after: Sequence[Any] = (),
    whole: bool = False,
) -> list[list[Any]]:
    """The graph of a step's updates. Each comes with the handle of its server's record, the marks of the step, and its
    pushed arrays.

    It waits for ``after``, locks all servers, reads their records, computes all new ones, and then writes them. Returns
    for each update the entry of the step (the record, which has it, if ``whole``), and results for the user.
    """
    there, locks, made = list[list[Any]](), list[list[Any]](), list[tuple[Any, Any, list[Any]]]()
    for update, _, marks, pushed in updates:
        with tf.device(place(update.layout.server)):
            there.append([tf.identity(one) for one in (*marks, *pushed)])
    # Remote values arrive before a mutex is taken. All tasks take the mutexes in the same order.
    before = [*after, *(one for own in there for one in own)]
    for (update, handle, _, _), (places, values, *pushed) in zip(updates, there, strict=True):
        with tf.device(place(update.layout.server)):
            outer = _locked(tf, _OUTER, before)
            inner = _locked(tf, _INNER, [outer])
            with tf.control_dependencies([inner]):
                now = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.uint8)
            made.append(update.computed(tf, now, (places, values), pushed))
        before = [inner]
        locks.append([inner, outer])
    ready, results = [one for changed, _, returned in made for one in (changed, *returned)], list[list[Any]]()
    for (update, handle, _, _), (changed, entry, returned), own in zip(updates, made, locks, strict=True):
        with tf.device(place(update.layout.server)):
            with tf.control_dependencies(ready):
                assign = tf.raw_ops.AssignVariableOp(resource=handle, value=changed)
            results.append(_released(tf, assign, own, [changed if whole else entry, *returned]))
    return results


def _locked(tf: Any, name: str, after: Sequence[Any]) -> Any:
    """Lock a mutex. There are two, one within the other: if an op that waits for a mutex is cancelled, TensorFlow
    unlocks the mutex, even if another op holds it (tensorflow/core/kernels/mutex_ops.cc)."""
    with tf.control_dependencies(list(after)):
        return tf.raw_ops.MutexLock(mutex=tf.raw_ops.MutexV2(shared_name=name, container=""))


def _released(tf: Any, after: Any, locks: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    for lock in locks:
        with tf.control_dependencies([after]):
            after = tf.raw_ops.ConsumeMutexLock(mutex_lock=lock)
    with tf.control_dependencies([after]):
        return [tf.identity(one) for one in results]


def numbers(tf: Any, data: Any) -> Any:
    """Bytes as whole numbers (int64)."""
    return tf.bitcast(tf.reshape(data, [-1, 8]), tf.int64)


def unpacked(tf: Any, layout: Layout, record: Any) -> tuple[Any, dict[str, Any]]:
    """The whole numbers of a record, and its variables by name."""
    kinds: list[ArrayType] = [("int64", (layout.numbers,)), *((one.dtype, one.shape) for one in layout.variables)]
    found = typed(tf, record, [part for kind in kinds for part in (kind, ("uint8", (-_nbytes(kind) % ALIGNED,)))])
    return found[0], dict(zip([one.name for one in layout.variables], found[2::2], strict=True))


def _nbytes(kind: ArrayType) -> int:
    dtype, shape = kind
    return math.prod(shape) * np.dtype(dtype).itemsize


def typed(tf: Any, data: Any, kinds: Sequence[ArrayType]) -> list[Any]:
    """Bytes as arrays of these dtypes and shapes, which lie one after the other."""
    found = []
    for (name, shape), part in zip(kinds, tf.split(data, list(map(_nbytes, kinds))), strict=True):
        dtype = tf.as_dtype(name)
        part = tf.reshape(part, [*shape, dtype.size] if dtype.size > 1 else shape)
        found.append(tf.cast(part, tf.bool) if dtype == tf.bool else tf.bitcast(part, dtype))
    return found


def as_bytes(tf: Any, value: Any) -> Any:
    """The bytes of a value, in NumPy's order."""
    if value.dtype == tf.bool:
        value = tf.cast(value, tf.uint8)
    elif value.dtype.size > 1:
        value = tf.bitcast(value, tf.uint8)
    return tf.reshape(value, [-1])


def packed(tf: Any, layout: Layout, counts: Any, held: Mapping[str, Any]) -> Any:
    """A record with these whole numbers and variables."""
    parts = list[Any]()
    for value in (counts, *(held[one.name] for one in layout.variables)):
        parts.append(as_bytes(tf, value))
        if rest := -parts[-1].shape[0] % ALIGNED:
            parts.append(tf.zeros([rest], tf.uint8))
    return tf.concat(parts, 0)


class Repeating(Alone):
    """Repeats updates in this process, by the same graphs in plain sessions as on a server."""

    def updates(self, backend: Backend, applies: Sequence[Mapping[str, Any]]) -> list[HostUpdate]:
        return [_on_host(layout, apply) for layout, apply in zip(self.layouts, applies, strict=True)]


def _on_host(layout: Layout, apply: Mapping[str, Any]) -> HostUpdate:
    import tensorflow as tf

    update, device = Update.of(layout, 0, apply), "/device:CPU:0"
    if not update.program.outputs:
        return NOTHING
    nodes = [update.program.values[i] for i in update.program.inputs]
    with tf.Graph().as_default() as graph, tf.device(device):
        given = [tf.compat.v1.placeholder(node.dtype.value, node.shape) for node in nodes]
        results = update.lowered(tf, device, given)
        config = tf.compat.v1.ConfigProto(allow_soft_placement=False)
        run = tf.compat.v1.Session(graph=graph, config=config).make_callable(list(results), given)
    return HostUpdate(lambda arrays: run(*arrays), update.reads, update.writes)
