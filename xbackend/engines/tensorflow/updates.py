"""The record of a parameter server in TensorFlow's graphs: unpacked, and replaced by an update that is applied once.

Sessions and a coordinator's closures run the same graph on the server.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xbackend.backends.tensorflow.graph import Lowering
from xbackend.devices import Device
from xbackend.engines.record import KEPT, Layout
from xbackend.engines.spec import SERVER
from xbackend.program.program import Program, generate
from xbackend.program.serialization import from_json
from xbackend.program.shared import SharedVariable

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
    ``reads``; its results the new values of those in ``writes``, then results for the user. `None` writes nothing."""

    layout: Layout
    worker: int
    program: Program | None
    pushed: int
    reads: Sequence[str]
    writes: Sequence[str]

    @classmethod
    def of(cls, layout: Layout, worker: int, apply: Mapping[str, Any]) -> Update:
        """The update from the launcher's plain data."""
        program = from_json(apply["program"]) if apply["program"] else None
        return cls(layout, worker, program, len(apply["pushed"]), apply["reads"], apply["writes"])

    @property
    def given(self) -> list[tuple[str, tuple[int, ...]]]:
        """The dtypes and shapes of the pushed arrays."""
        nodes = [self.program.values[i] for i in self.program.inputs] if self.program else []
        return [(node.dtype.value, node.shape) for node in nodes[: self.pushed]]

    @property
    def returned(self) -> int:
        """The number of results for the user."""
        return len(self.program.outputs) - len(self.writes) if self.program else 0

    def lowered(self, tf: Any, device: str, given: Sequence[Any]) -> list[Any]:
        """Add the program to the graph under construction. Returns its results."""
        if self.program is None:
            return []
        return UpdateLowering(tf, self.program, {Device("cpu", 0): device}).whole(given)[0]

    def computed(self, tf: Any, now: Any, step: Any, read: Any, given: Sequence[Any]) -> tuple[Any, list[Any]]:
        """The record that replaces ``now``; equal to ``now`` if the step was applied before. Also the step's entry
        (int64: the version made, the versions read), and the results for the user."""
        layout = self.layout
        counts, held = unpacked(tf, layout, now)
        results = self.lowered(tf, place(layout.server), [*given, *(held[name] for name in self.reads)])
        new = {**held, **dict(zip(self.writes, results, strict=False))}
        at, row = layout.steps_at(self.worker), layout.entry
        fresh = counts[at] <= step
        begin = layout.entry_at(self.worker, 0) + step % KEPT * row
        places = tf.concat([[0, at], begin + tf.range(row, dtype=tf.int64)], 0)
        values = tf.concat([[counts[0] + 1, step + 1, counts[0] + 1], read], 0)
        said = tf.tensor_scatter_nd_update(counts, places[:, None], values)
        changed = tf.where(fresh, packed(tf, layout, said, new), now)
        entry = tf.where(fresh, values[2:], tf.slice(counts, [begin], [row]))
        return changed, [entry, *results[len(self.writes) :]]


def applied(
    tf: Any,
    updates: Sequence[tuple[Update, Any, Sequence[Any]]],
    step: Any,
    read: Any,
    *,
    after: Sequence[Any] = (),
    whole: bool = False,
) -> list[list[Any]]:
    """The graph of a step's updates. Each comes with the handle of its server's record and its pushed arrays.

    It waits for ``after``, locks all servers, reads their records, computes all new ones, and then writes them. Returns
    for each update the entry of the step, the record if ``whole``, and results for the user. ``step`` and ``read`` are
    int64.
    """
    there, locks, made = list[list[Any]](), list[list[Any]](), list[tuple[Any, list[Any]]]()
    for update, _, pushed in updates:
        with tf.device(place(update.layout.server)):
            there.append([tf.identity(one) for one in (step, read, *pushed)])
    # Remote values arrive before a mutex is taken. All tasks take the mutexes in the same order.
    before = [*after, *(one for own in there for one in own)]
    for (update, handle, _), (number, versions, *pushed) in zip(updates, there, strict=True):
        with tf.device(place(update.layout.server)):
            outer = _locked(tf, _OUTER, before)
            inner = _locked(tf, _INNER, [outer])
            with tf.control_dependencies([inner]):
                now = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.uint8)
            made.append(update.computed(tf, now, number, versions, pushed))
        before = [inner]
        locks.append([inner, outer])
    ready, results = [one for changed, said in made for one in (changed, *said)], list[list[Any]]()
    for (update, handle, _), (changed, (entry, *returned)), own in zip(updates, made, locks, strict=True):
        with tf.device(place(update.layout.server)):
            with tf.control_dependencies(ready):
                assign = tf.raw_ops.AssignVariableOp(resource=handle, value=changed)
            left = [changed] if whole else []
            results.append(_released(tf, assign, own, [entry, *left, *returned]))
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
    held = {}
    for one in layout.variables:
        dtype = tf.as_dtype(one.dtype)
        data = record[layout.begins[one.name] : layout.begins[one.name] + one.nbytes]
        if dtype == tf.bool:
            data = tf.cast(data, tf.bool)
        elif dtype.size > 1:
            data = tf.bitcast(tf.reshape(data, [-1, dtype.size]), dtype)
        held[one.name] = tf.reshape(data, one.shape)
    return numbers(tf, record[: layout.numbers * 8]), held


def as_bytes(tf: Any, value: Any) -> Any:
    """The bytes of a value, in NumPy's order."""
    if value.dtype == tf.bool:
        value = tf.cast(value, tf.uint8)
    elif value.dtype.size > 1:
        value = tf.bitcast(value, tf.uint8)
    return tf.reshape(value, [-1])


def packed(tf: Any, layout: Layout, counts: Any, held: Mapping[str, Any]) -> Any:
    """A record with these whole numbers and variables."""
    parts, place = [as_bytes(tf, counts)], layout.numbers * 8
    for one in layout.variables:
        begin = layout.begins[one.name]
        parts.append(tf.zeros([begin - place], tf.uint8))
        parts.append(as_bytes(tf, held[one.name]))
        place = begin + one.nbytes
    parts.append(tf.zeros([layout.nbytes - place], tf.uint8))
    return tf.concat(parts, 0)
