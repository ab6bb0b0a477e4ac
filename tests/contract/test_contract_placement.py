"""Hard cases of placement: crossings, names, many devices, integers, state, and devices that are gone."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from batches import LIMIT_SECONDS

import xbackend as xb
from overhead import MODULES
from xbackend.backends import registry
from xbackend.backends.contract import Backend, Settings
from xbackend.errors import DeviceUnavailable, DTypeError, SharedVariableError, UnboundDevice, WorkerDied
from xbackend.workers.remote import RemoteBackend

pytestmark = pytest.mark.takes_turns

A = np.arange(6.0).reshape(2, 3)


@pytest.fixture(scope="session")
def last(request: pytest.FixtureRequest) -> int:
    """The number of the last of many devices: many more than needed, if there is time to make them."""
    return 63 if request.config.getoption("--tier") == "exhaustive" else 7


@pytest.fixture(scope="module")
def many(name: str, last: int) -> Iterator[Backend]:
    """The backend with many virtual devices."""
    with RemoteBackend(name, Settings(last + 1), limit=LIMIT_SECONDS, modules=MODULES) as backend:
        yield backend


def test_many_devices_are_devices(many: Any, last: int) -> None:
    assert [str(d) for d in many.devices if d.kind == "cpu"] == [f"cpu:{i}" for i in range(last + 1)]
    middle = last // 2

    def around(x: Any) -> Any:
        for index in (1, middle, last, 0):
            with xb.device(f"cpu:{index}"):
                x = x * 2.0 + index
        return x

    run = many.compile(around, A)
    np.testing.assert_allclose(run(A), (((A * 2 + 1) * 2 + middle) * 2 + last) * 2)
    assert run.placement.transfers and all(t.bytes == A.nbytes for t in run.placement.transfers)
    ways = [(t.source, t.target) for t in run.placement.transfers]
    assert ways == [("cpu:1", f"cpu:{middle}"), (f"cpu:{middle}", f"cpu:{last}"), (f"cpu:{last}", "cpu:0")]


def test_inputs_on_two_devices_make_a_transfer_that_is_recorded(many: Any) -> None:
    def function(x: Any, y: Any) -> Any:
        with xb.device("dev0"):
            u = x * 2.0
        with xb.device("dev1"):
            v = y * 3.0
        return u + v  # not asked for, inputs on two devices: on the default device

    run = many.compile(function, A, A, devices="dev0=cpu:1,dev1=cpu:2")
    np.testing.assert_allclose(run(A, A), 5 * A)
    found = sorted((t.source, t.target, t.bytes, t.cause) for t in run.placement.transfers)
    home = str(many.default_device)
    assert found == [("cpu:1", home, A.nbytes, "crossing"), ("cpu:2", home, A.nbytes, "crossing")]
    assert all(t.evidence for t in run.placement.transfers)
    (add,) = (r for r in run.placement.ops if r.op == "add")
    assert (add.executed, add.status) in ((home, "as asked"), (home, "fused"), (None, "nothing to read"))


def test_a_name_without_a_binding_is_named_with_its_line(many: Any) -> None:
    def function(x: Any) -> Any:
        with xb.device("dev0"):
            x = x * 2.0
        with xb.device("dev5"):
            return x + 1.0

    with pytest.raises(UnboundDevice, match=rf"'dev5' is not bound[\s\S]*{__name__.rpartition('.')[2]}\.py:\d+"):
        many.compile(function, A, devices="dev0=cpu:1")


def test_a_gradient_goes_through_a_transfer_beside_integers(many: Any) -> None:
    counts = np.array([[1, 2, 3], [4, 5, 6]])

    def weighted(w: Any, n: Any) -> Any:
        with xb.device("dev0"):
            doubled = n * 2
        with xb.device("dev1"):
            loss = xb.sum(w * w * xb.astype(xb.to_device(doubled, "dev1"), "float64"))
        return loss, xb.grad(loss, w)

    run = many.compile(weighted, A, counts, devices="dev0=cpu:1,dev1=cpu:2")
    loss, gradient = run(A, counts)
    np.testing.assert_allclose(loss, np.sum(A * A * counts * 2))
    np.testing.assert_allclose(gradient, 4 * A * counts)
    assert [(t.source, t.target) for t in run.placement.transfers] == [("cpu:1", "cpu:2")]

    def by_integers(w: Any, n: Any) -> Any:
        return xb.grad(xb.sum(w * xb.astype(xb.to_device(n, "dev1"), "float64")), n)

    with pytest.raises(DTypeError, match=r"int64\[2, 3\]>: only floating-point arrays have a gradient"):
        many.compile(by_integers, A, counts, devices="dev1=cpu:2")


def test_a_shared_variable_lives_on_one_device(many: Any) -> None:
    w = xb.shared(A, name="w", device="dev0")
    many.compile(lambda: w + 1.0, devices="dev0=cpu:3")
    with pytest.raises(SharedVariableError, match=r"shared w.* lives on cpu:3 .* cannot also live on cpu:4.*same way"):
        many.compile(lambda: w + 1.0, devices="dev0=cpu:4")
    # Used elsewhere, it is transferred and stays on its device.
    run = many.compile(lambda: xb.to_device(w, "cpu:4") + 1.0, devices="dev0=cpu:3")
    np.testing.assert_allclose(run(), A + 1)
    assert [(t.source, t.target) for t in run.placement.transfers] == [("cpu:3", "cpu:4")]


@pytest.mark.heavy
def test_training_on_two_devices_copies_nothing_over_the_host_and_a_look_is_counted(many: Any, name: str) -> None:
    train = "overhead.placements:host_copies_of_training"
    found = many.call(train, {"steps": 3})
    assert found["copies"] == {} and found["beyond"] == 0 and found["transfers"] > 0
    assert found["losses"][1] < found["losses"][0]
    looked = many.call(train, {"steps": 3, "look": True})["copies"]
    assert looked.pop("xbackend: get") == 3
    # Watch the framework's conversion beneath our own `get`: a conversion without `get` would be seen too.
    watched = {"jax", "tensorflow"} & set(registry.get(name).packages)
    assert {key.split(":")[0] for key, count in looked.items() if count >= 3} == watched


def test_a_device_that_was_there_is_named_where_there_are_fewer(many: Any, last: int, backend: Backend) -> None:
    def function(x: Any) -> Any:
        return xb.to_device(x, f"cpu:{last}")

    many.compile(function, A)
    with pytest.raises(DeviceUnavailable, match=rf"no device cpu:{last}.*cpu:0"):
        backend.compile(function, A)


@pytest.mark.parent_decides
def test_devices_that_vanish_after_compiling_end_the_run_with_their_name(name: str) -> None:
    """A virtual device goes with its process: no hang, and no other device replaces it."""
    backend = RemoteBackend(name, limit=LIMIT_SECONDS)
    try:
        run = backend.compile(lambda a: a + 1.0, A)
        values = run.put(A)
        os.kill(backend.worker.pids["worker"], signal.SIGKILL)
        for use in (lambda: run.execute(*values), lambda: run(A), lambda: run.placement):
            with pytest.raises(WorkerDied, match=name):
                use()
    finally:
        backend.close()
