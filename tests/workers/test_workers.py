"""Workers: the same contract as in this interpreter, in another process."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from workers_common import MODULES, PACKAGE, fault, held

import xbackend as xb
from xbackend.backends.contract import Settings
from xbackend.errors import (
    BackendClosed,
    WorkerError,
)
from xbackend.workers import opening
from xbackend.workers.remote import RemoteBackend

pytestmark = pytest.mark.tier("standard")

# --- the same contract --------------------------------------------------------------------------------------------


def test_a_program_runs_there_as_it_does_here(open_worker):
    def function(a, b, n=3):
        with xb.device("dev1"):
            powered = xb.linalg.matrix_power(a, n)
        xb.update(count, count + 1)
        with xb.device("cpu:0"):
            return {"sum": powered + b, "loss": [xb.sum(a), xb.grad(xb.sum(a * a), [a])[0]]}

    count = xb.shared(np.array([5.0, 7.0]), name="count", device="dev1")
    a, b = np.arange(9.0).reshape(3, 3), np.ones((3, 3))
    devices = {"dev1": "cpu:1"}
    there = open_worker(settings=Settings(virtual_devices=2))
    here = xb.open("numpy", virtual_devices=2)
    results = []
    for backend in (there, here):
        run = backend.compile(function, a, b, devices=devices)
        results.append((run(a, b), run(a, b), run.placement, backend.get_value(count), backend.devices))
        backend.set_value(count, np.array([1.0, 2.0]))
        run(a, b)
        np.testing.assert_array_equal(backend.get_value(count), [2.0, 3.0])
    np.testing.assert_equal(results[0], results[1])
    assert {op.bound for op in results[0][2].ops} == {"cpu:0", "cpu:1"}
    assert there.describe().versions.keys() == here.describe().versions.keys()


def test_values_stay_there_and_are_freed(worker):
    device = worker.devices[0]
    values = [worker.put(np.full(3, i), device) for i in range(20)]
    assert worker.device_of(values[0]) == device
    worker.synchronize(values)
    np.testing.assert_array_equal(worker.get(values[19]), [19, 19, 19])
    assert len(held(worker)) == 20
    del values[5:]
    gc.collect()
    assert len(held(worker)) == 5


def test_an_executable_can_be_given_to_a_function_there(worker):
    run = worker.compile(lambda x: x + 1, np.zeros(3))
    value = worker.put(np.zeros(3), worker.devices[0])
    assert fault(worker, "echo", 1) == (1,)
    (kept,) = worker.call("worker_faults:execute", run, value)
    np.testing.assert_array_equal(worker.get(kept), np.ones(3))


def test_a_value_of_another_worker_is_refused(worker, open_worker):
    other = open_worker()
    value = other.put(np.zeros(3), other.devices[0])
    with pytest.raises(WorkerError, match="cannot be used on backend 'numpy'"):
        worker.get(value)
    assert worker.devices == other.devices
    np.testing.assert_array_equal(other.get(value), np.zeros(3))


def test_a_closed_backend_says_so(worker):
    worker.close()
    with pytest.raises(BackendClosed, match=r"xb\.open\('numpy'\)"):
        worker.compile(lambda x: x, np.zeros(3))
    with pytest.raises(BackendClosed, match="was closed"):
        worker.put(np.zeros(3), worker.devices[0])
    worker.close()


# --- what goes over -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool", ">f4", "complex128", "uint8"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 3)])
def test_arrays_come_back_as_they_were(steady, dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    (back,) = fault(steady, "echo", array)
    assert (back.dtype, back.shape, back.flags.writeable) == (array.dtype, array.shape, True)
    np.testing.assert_array_equal(back, array)


def test_arrays_in_any_order_of_memory(steady):
    array = np.arange(24.0).reshape(2, 3, 4)
    for view in (array.T, array[::-1, :, ::2], np.asfortranarray(array), np.broadcast_to(array[0], (5, 3, 4))):
        np.testing.assert_array_equal(fault(steady, "echo", view)[0], view)


def test_plain_data_comes_back_as_it_was(steady):
    data = (
        [1, (2, [3, ()]), {"a": None, 4: True}, "ü\0|\n\ud800", -(2**100), -0.0, 5e-324, float("inf")],
        {"array": [1], "reference": 2},
        np.float32(0.1),
        np.int64(-5),
        np.bool_(True),
    )
    back = fault(steady, "echo", *data)
    assert back == data
    assert [type(item) for item in back] == [type(item) for item in data]
    assert np.isnan(fault(steady, "echo", float("nan"))[0])


def test_what_is_not_plain_is_refused_and_the_worker_goes_on(steady):
    for item in (object(), {1, 2}, np.array([None]), np.array(["text"])):
        with pytest.raises(TypeError, match="cannot be sent to"):
            fault(steady, "echo", item)
    with pytest.raises(WorkerError, match="TypeError in its worker"):
        fault(steady, "not_plain")
    assert fault(steady, "echo", 1) == (1,)


def test_a_value_of_another_backend_is_refused_and_the_worker_keeps_its_state(steady, open_worker):
    w = xb.shared(np.float64(2.0), "w")
    run = steady.compile(lambda x: (xb.update(w, w + x), x * w)[1], np.float64(3.0))
    run(3.0)
    theirs = open_worker()
    other, deep = theirs.put(np.float64(1.0), theirs.devices[0]), []
    for _ in range(100_000):
        deep = [deep]
    for given, kind, said in (
        (other, WorkerError, "cannot be used on backend 'numpy'.*get it to the host and put it there"),
        (object(), TypeError, "cannot be sent to or from a worker"),
        (deep, RecursionError, None),
    ):
        with pytest.raises(kind, match=said):
            run.execute(given)
    assert run(1.0) == 5.0 and steady.get_value(w) == 6.0


def test_a_worker_tells_what_its_backend_tells(steady, monkeypatch):
    assert steady.memory_peaks() == {}
    steady.call("worker_faults:says_peaks")
    assert steady.memory_peaks() == {"cpu:0": 7}


@pytest.mark.tier("standard")
def test_300_megabytes_there_and_back(worker):
    array = np.random.default_rng(0).integers(0, 255, 300_000_000, np.uint8)
    back = worker.get(worker.put(array, worker.devices[0]))
    assert back.nbytes == 300_000_000
    assert np.array_equal(back, array)


# --- what the worker is ---------------------------------------------------------------------------------------------


def test_it_has_its_own_session_and_settings(open_worker):
    worker = open_worker(settings=Settings(threads=1), environment={"XBACKEND_TEST": "here", "HOME": None})
    pid, session, group = fault(worker, "pid")
    assert pid == session == group == worker.worker.pids["worker"] != os.getsid(0)
    assert fault(worker, "variable", "OPENBLAS_NUM_THREADS") == "1"
    assert fault(worker, "variable", "XBACKEND_TEST") == "here"
    assert fault(worker, "variable", "HOME") is None
    assert {pool.threads for pool in worker.describe().blas} == {1}


def test_it_imports_what_its_environment_has_and_xbackend(steady):
    extra = set(fault(steady, "modules")) & {"psutil", "filelock", "platformdirs", "uv", "msgspec", "rich", "pytest"}
    assert extra == set()


def test_nothing_beside_xbackend_comes_along(tmp_path, numpy_environment):
    """xbackend in a user's site-packages, beside another autograd and a package of the user's."""
    shutil.copytree(PACKAGE, tmp_path / "xbackend", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("autograd", "intruder"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    code = (
        "import json, sys\n"
        "from xbackend.workers.remote import RemoteBackend\n"
        f"backend = RemoteBackend('numpy', modules={MODULES!r})\n"
        "names = ('xbackend', 'autograd', 'numpy', 'intruder')\n"
        "print(json.dumps([backend.call('worker_faults:path_of', name) for name in names]))\n"
        "backend.close()\n"
    )
    variables = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    package, autograd, numpy, intruder = json.loads(done.stdout)
    assert Path(package).parent == tmp_path / "xbackend"
    assert autograd.startswith(str(numpy_environment.path))
    assert numpy.startswith(str(numpy_environment.path))
    assert intruder is None


# --- xbackend.open --------------------------------------------------------------------------------------------------


def test_open_uses_this_interpreter_or_a_worker(monkeypatch):
    with xb.open("numpy", virtual_devices=2) as here, xb.open("numpy", isolated=True, virtual_devices=2) as there:
        assert type(here).__name__ == "NumPyBackend"
        assert type(there) is RemoteBackend
        assert here.devices == there.devices
    find, absent = opening.find_spec, ("numpy", "autograd")
    monkeypatch.setattr(opening, "find_spec", lambda package: None if package in absent else find(package))
    with xb.open("numpy") as backend:
        assert type(backend) is RemoteBackend


def test_open_makes_a_missing_environment_with_progress(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XBACKEND_HOME", str(tmp_path))
    with xb.open("numpy", isolated=True) as backend:
        assert backend.devices
    assert "xbackend: environment numpy: ready" in capsys.readouterr().err


def test_one_framework_has_the_interpreter_for_itself(monkeypatch):
    from xbackend.backends import registry

    monkeypatch.setattr(opening, "find_spec", lambda package: object())
    monkeypatch.setattr(opening, "_here", {})
    first, second = registry.get("tensorflow"), registry.get("pytensor")
    settings, others = Settings(), Settings(virtual_devices=2)
    assert not opening._why_not_here(first, settings)
    opening._here[first.environment] = settings
    assert not opening._why_not_here(registry.get("tensorflow-xla"), settings)
    assert opening._why_not_here(first, others)
    assert opening._why_not_here(second, settings)
    assert not opening._why_not_here(registry.get("numpy"), others)
