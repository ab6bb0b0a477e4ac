"""The record of a parameter server: its layout in NumPy and in TensorFlow's graphs."""

from __future__ import annotations

from dataclasses import astuple
from itertools import pairwise
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from strategies import DTYPES, shapes, values
from tiers import share

from xbackend.engines.record import KEPT, Applied, Layout, ServerVariable

SHAPES = shapes() | st.sampled_from([(), (0,), (2, 0, 3), (17,)])
NAMES = st.lists(st.text(min_size=1, max_size=3), max_size=5, unique=True)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    servers = draw(st.integers(1, 4))
    stored = [ServerVariable(n, draw(SHAPES), draw(st.sampled_from(DTYPES)).value) for n in draw(NAMES)]
    return Layout(draw(st.integers(0, servers - 1)), servers, draw(st.integers(1, 5)), tuple(stored))


def numbers(one: Layout, seed: int = 0) -> dict[str, np.ndarray]:
    """A value of every variable."""
    rng = np.random.default_rng(seed)
    dtypes = {d.value: d for d in DTYPES}
    return {v.name: values(rng, v.shape, dtypes[v.dtype]) for v in one.variables}


@settings(max_examples=share(1000))
@given(layouts())
def test_variables_lie_apart_and_come_back_to_the_bit(one: Layout) -> None:
    given_ = numbers(one)
    record = one.new(given_)
    assert record.shape == (one.nbytes,) and record.dtype == np.uint8
    spans = sorted((one.begins[v.name], one.begins[v.name] + v.nbytes) for v in one.variables)
    assert all(end <= begin for (_, end), (begin, _) in pairwise([(0, one.numbers * 8), *spans, (one.nbytes, 0)]))
    assert all(begin % 8 == 0 for begin, _ in spans)
    assert one.version(record) == 0 and one.steps(record) == [0] * one.workers
    held = one.arrays(record)
    assert list(held) == [v.name for v in one.variables]
    for v in one.variables:
        assert held[v.name].shape == v.shape and held[v.name].dtype == np.dtype(v.dtype)
        assert held[v.name].tobytes() == given_[v.name].tobytes()
        assert np.shares_memory(held[v.name], record) or not held[v.name].size


@settings(max_examples=share(300))
@given(layouts(), st.data())
def test_a_variable_is_written_without_touching_what_lies_beside_it(one: Layout, data: st.DataObject) -> None:
    record = one.new(numbers(one))
    one.add(record, one.workers - 1, 3, [7] * one.servers)
    if not one.variables:
        return
    chosen = data.draw(st.sampled_from(one.variables)).name
    before = {name: array.copy() for name, array in one.arrays(record).items()}
    one.arrays(record)[chosen][...] = numbers(one, 1)[chosen]
    after = one.arrays(record)
    assert after[chosen].tobytes() == numbers(one, 1)[chosen].tobytes()
    assert all(after[name].tobytes() == old.tobytes() for name, old in before.items() if name != chosen)
    assert one.version(record) == 1 and one.steps(record)[-1] == 4
    assert one.applied(record, one.workers - 1, 3) == Applied(one.server, one.workers - 1, 3, 1, (7,) * one.servers)


@settings(max_examples=share(300))
@given(layouts(), st.lists(st.integers(0, 4), max_size=3 * KEPT), st.integers(0, 3))
def test_the_last_steps_of_every_worker_are_known(one: Layout, order: list[int], ahead: int) -> None:
    """The last `KEPT` of each worker, in any order of workers. The variables are untouched."""
    record = one.new(numbers(one))
    done = [0] * one.workers
    expected: dict[tuple[int, int], Applied] = {}
    for k, worker in enumerate(w % one.workers for w in order):
        read = [k + ahead + server for server in range(one.servers)]
        expected[worker, done[worker]] = Applied(one.server, worker, done[worker], k + 1, tuple(read))
        assert one.add(record, worker, done[worker], read) == expected[worker, done[worker]]
        done[worker] += 1
    assert one.version(record) == len(order) and one.steps(record) == done
    for worker, steps in enumerate(done):
        for step in range(max(0, steps - KEPT), steps):
            assert one.applied(record, worker, step) == expected[worker, step]
    for name, array in one.arrays(record).items():
        assert array.tobytes() == numbers(one)[name].tobytes()


def test_an_older_step_has_left_its_place_to_a_newer_one() -> None:
    one = Layout(0, 1, 1, ())
    record = one.new({})
    for step in range(KEPT + 1):
        one.add(record, 0, step, [step])
    assert one.applied(record, 0, 0) == Applied(0, 0, 0, KEPT + 1, (KEPT,))
    assert one.applied(record, 0, 1) == Applied(0, 0, 1, 2, (1,))


@settings(max_examples=share(300))
@given(layouts())
def test_a_layout_arrives_at_a_task_as_it_was(one: Layout) -> None:
    found = Layout.of(astuple(one))
    assert found == one and found.begins == one.begins and found.nbytes == one.nbytes


# TensorFlow's graph in its worker: unpack the record, log an update, and both together.
IN_TENSORFLOW = """
import numpy as np

def tables(backend, plain, records):
    import tensorflow as tf
    from xbackend.engines.record import Layout
    from xbackend.engines.tensorflow.updates import packed, unpacked
    found = []
    for one, record in zip(map(Layout.of, plain), records, strict=True):
        with tf.Graph().as_default(), tf.device("/device:CPU:0"):
            given = tf.compat.v1.placeholder(tf.uint8, record.shape)
            counts, held = unpacked(tf, one, given)
            whole = packed(tf, one, counts, held)
            with tf.compat.v1.Session() as session:
                found.append(session.run([counts, whole, *held.values()], {given: record}))
    return found
"""


@pytest.mark.tier("standard")
def test_tensorflow_has_everything_in_the_same_place(tmp_path: Any) -> None:
    from xbackend.workers.remote import RemoteBackend

    (tmp_path / "packing.py").write_text(IN_TENSORFLOW)
    every = [
        Layout(0, 1, 1, ()),
        Layout(0, 2, 3, tuple(ServerVariable(d.value, (2, 3), d.value) for d in DTYPES)),
        Layout(1, 2, 1, tuple(ServerVariable(d.value, (), d.value) for d in reversed(DTYPES))),
        Layout(1, 2, 2, tuple(ServerVariable(d.value, (0, 2), d.value) for d in DTYPES)),
        Layout(
            0,
            1,
            2,
            tuple(ServerVariable(f"{d.value}{k}", (n,), d.value) for k, n in enumerate((1, 5, 17)) for d in DTYPES),
        ),
    ]
    records = [one.new(numbers(one)) for one in every]
    for one, record in zip(every, records, strict=True):
        one.add(record, one.workers - 1, 5, [9] * one.servers)
    with RemoteBackend("tensorflow", modules={"packing": str(tmp_path / "packing.py")}) as backend:
        found = backend.call("packing:tables", [astuple(one) for one in every], records)
    for one, record, (counts, whole, *held) in zip(every, records, found, strict=True):
        np.testing.assert_array_equal(counts, one.counts(record))
        assert whole.tobytes() == record.tobytes(), one
        for (name, array), own in zip(one.arrays(record).items(), held, strict=True):
            assert own.dtype == array.dtype and own.shape == array.shape and own.tobytes() == array.tobytes(), name
