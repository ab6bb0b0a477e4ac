"""Several threads on one backend, and the storages of dropped shared variables."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xbackend as xb
from xbackend.backends import registry
from xbackend.backends.contract import Backend, Settings
from xbackend.backends.threads import pools
from xbackend.workers.remote import RemoteBackend

THREADS, CALLS = 3, 20


@pytest.fixture
def numpy_backend() -> Iterator[Backend]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # switch threads as often as possible
    with registry.get("numpy").load(Settings(virtual_devices=2)) as backend:
        yield backend
    sys.setswitchinterval(before)


def at_once(work: Callable[[], object]) -> None:
    with ThreadPoolExecutor(THREADS) as threads:
        for future in [threads.submit(work) for _ in range(THREADS)]:
            future.result()


def test_no_update_of_a_common_variable_is_lost(numpy_backend: Backend) -> None:
    w = xb.shared(np.zeros(3))

    def step(x: Any) -> None:
        xb.update(w, w + x)

    def work() -> None:
        run = numpy_backend.compile(step, 1.0)
        for _ in range(CALLS):
            run(1.0)

    at_once(work)
    np.testing.assert_array_equal(numpy_backend.get_value(w), np.full(3, THREADS * CALLS))


def test_the_records_of_a_program_in_several_threads_are_those_of_one_call(numpy_backend: Backend) -> None:
    run = numpy_backend.compile(lambda x: xb.to_device(x * 2.0, "cpu:1") + 1.0, 1.0)

    def work() -> None:
        for k in range(CALLS):
            assert run(float(k)) == 2.0 * k + 1.0

    at_once(work)
    assert len(run.placement.transfers) == 1


def storages(backend: Backend) -> int:
    gc.collect()
    return len(backend._storages.made) + len(backend._storages.given)


def test_what_belongs_to_a_variable_goes_with_the_last_one_who_holds_it(numpy_backend: Backend) -> None:
    w, other = xb.shared(np.ones(1000)), xb.shared(np.ones(2))
    run = numpy_backend.compile(lambda w=w: w + 1.0)
    numpy_backend.set_value(w, np.full(1000, 5.0))
    numpy_backend.set_value(other, np.zeros(2))
    storage = weakref.ref(numpy_backend.storage(w).value.array)
    assert storages(numpy_backend) == 2
    del w, other
    assert storages(numpy_backend) == 1  # the program holds its variables
    np.testing.assert_array_equal(run(), np.full(1000, 6.0))
    del run
    assert storages(numpy_backend) == 0
    assert storage() is None


def test_a_program_that_was_read_back_keeps_the_state_of_the_one_it_was(numpy_backend: Backend) -> None:
    w = xb.shared(np.ones(2))
    program = xb.trace(lambda: xb.update(w, w * 2.0))
    numpy_backend.compile(program)()
    copy = xb.Program.from_json(program.to_json())
    (again,) = copy.shared.values()
    numpy_backend.compile(copy)()
    del copy, again
    gc.collect()
    np.testing.assert_array_equal(numpy_backend.get_value(w), [2.0, 2.0] if storages(numpy_backend) > 1 else [4.0, 4.0])


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_the_blas_has_its_own_number_of_threads_again_when_no_backend_limits_it(order: tuple[int, int]) -> None:
    def found() -> list[int | None]:
        return [pool.threads for pool in pools() if pool.api == "blas"]

    before, limits = found(), (3, 5)
    backends = [registry.get("numpy").load(Settings(threads=number)) for number in limits]
    assert set(found()) == {5}
    backends[order[0]].close()
    assert set(found()) == {limits[order[1]]}
    backends[order[1]].close()
    assert found() == before


@pytest.mark.tier("standard")
@pytest.mark.parametrize(
    ("name", "other", "inside"),
    [
        ("tensorflow", "tensorflow-xla", ("tensorflow.compat.v1", "gradients")),
        ("pytensor", "pytensor-c", ("pytensor", "grad")),
    ],
    ids=["tensorflow", "pytensor"],
)
def test_two_backends_of_an_interpreter_take_turns_with_rules_of_gradients(name: str, other: str, inside: Any) -> None:
    modules = {"called_in_threads": str(Path(__file__).parent / "called_in_threads.py")}
    with RemoteBackend(name, limit=60.0, modules=modules) as backend:
        assert backend.call("called_in_threads:most_inside", other, *inside, limit=60.0) == 1


def test_a_worker_frees_what_nobody_holds_any_more() -> None:
    with RemoteBackend(
        "numpy", modules={"held_storages": str(Path(__file__).with_name("held_storages.py"))}
    ) as backend:
        for _ in range(3):
            w = xb.shared(np.ones(5))
            run = backend.compile(lambda w=w: w + 1.0)
            np.testing.assert_array_equal(run(), 2 * np.ones(5))
            backend.set_value(w, np.zeros(5))
            np.testing.assert_array_equal(backend.get_value(w), np.zeros(5))
        del w, run
        gc.collect()
        backend.get(backend.put(np.ones(1), backend.default_device))  # freed values are sent with the next request
        assert backend.call("held_storages:count") == 0
