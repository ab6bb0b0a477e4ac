"""Workers: real processes that die, hang, run out of memory and talk nonsense."""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import worker_faults

import xbackend as xb
from xbackend import environments, errors
from xbackend.errors import BackendClosed, BackendUnavailable, DeviceUnavailable, WorkerDied, WorkerError, WorkerTimeout
from xbackend.workers import opening
from xbackend.workers.remote import RemoteBackend

MODULES = {"worker_faults": worker_faults.__file__}
PACKAGE = Path(errors.__file__).parent


@pytest.fixture(scope="module", autouse=True)
def numpy_environment():
    return environments.sync("numpy")


@pytest.fixture
def open_worker():
    """Opens workers that can misbehave; they are closed at the end, and must be gone then."""
    opened: list[RemoteBackend] = []

    def open_one(**options) -> RemoteBackend:
        options.setdefault("limit", 30.0)
        opened.append(RemoteBackend("numpy", options.pop("settings", None), modules=MODULES, **options))
        return opened[-1]

    yield open_one
    for backend in opened:
        pids = backend.worker.pids
        backend.close()
        assert not [pid for pid in pids.values() if alive(pid)]
        assert not backend.worker._directory.exists()


@pytest.fixture
def worker(open_worker):
    return open_worker()


@pytest.fixture(scope="module")
def steady(numpy_environment):
    """One worker for the tests that leave it as it was."""
    with RemoteBackend("numpy", modules=MODULES) as backend:
        yield backend


def fault(backend: RemoteBackend, name: str, *arguments: object, **options):
    return backend.call(f"worker_faults:{name}", *arguments, **options)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(*pids: int, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(map(alive, pids))


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
    there = open_worker(settings=xb_settings(virtual_devices=2))
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
    assert there.describe()["versions"].keys() == here.describe()["versions"].keys()


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
    with pytest.raises(WorkerError, match="was closed"):
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


def test_300_megabytes_there_and_back(worker):
    array = np.random.default_rng(0).integers(0, 255, 300_000_000, np.uint8)
    back = worker.get(worker.put(array, worker.devices[0]))
    assert back.nbytes == 300_000_000
    assert np.array_equal(back, array)


# --- what the worker is ---------------------------------------------------------------------------------------------


def test_it_has_its_own_session_and_settings(open_worker):
    worker = open_worker(settings=xb_settings(threads=1), environment={"XBACKEND_TEST": "here", "HOME": None})
    pid, session, group = fault(worker, "pid")
    assert pid == session == group == worker.worker.pids["worker"] != os.getsid(0)
    assert fault(worker, "variable", "OPENBLAS_NUM_THREADS") == "1"
    assert fault(worker, "variable", "XBACKEND_TEST") == "here"
    assert fault(worker, "variable", "HOME") is None
    assert {pool["threads"] for pool in worker.describe()["blas"]} == {1}


def test_it_imports_what_its_environment_has_and_xbackend(steady):
    extra = set(fault(steady, "modules")) & {"execnet", "filelock", "platformdirs", "uv", "msgspec", "rich", "pytest"}
    assert extra == set()


def test_nothing_beside_xbackend_comes_along(tmp_path, numpy_environment):
    """xbackend installed in a user's site-packages, next to another autograd and next to a package of the user's."""
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


# --- what can go wrong ----------------------------------------------------------------------------------------------


def test_an_error_of_xbackend_comes_back_as_it_was(steady):
    with pytest.raises(DeviceUnavailable) as caught:
        fault(steady, "unavailable")
    assert type(caught.value) is DeviceUnavailable
    assert str(caught.value) == "there is no device gpu:7; there is cpu:0"
    assert "worker_faults.py" in caught.value.__notes__[0]
    assert fault(steady, "echo", 1) == (1,)


def test_another_error_names_the_backend(steady):
    with pytest.raises(WorkerError, match=r"backend 'numpy': ValueError in its worker .*not mine: ü \| \n second line"):
        fault(steady, "value_error")
    with pytest.raises(WorkerError, match="SystemExit in its worker"):
        fault(steady, "exits")
    with pytest.raises(WorkerError, match="ModuleNotFoundError"):
        steady.call("no_such_module:function")
    assert fault(steady, "echo", 1) == (1,)


def test_a_segfault(worker, open_worker):
    other = open_worker()
    with pytest.raises(WorkerDied) as caught:
        fault(worker, "segfault")
    text = str(caught.value)
    assert "backend 'numpy'" in text
    assert "was ended by SIGSEGV while it did 'call'" in text
    assert "in segfault" in text, "the stack that faulthandler wrote"
    assert "Open the backend again" in text
    assert fault(other, "echo", 1) == (1,)
    with pytest.raises(WorkerDied, match=r"(?s)SIGSEGV.*That was earlier"):
        fault(worker, "echo", 1)


def test_killed_from_outside(worker):
    threading.Timer(0.3, os.kill, (worker.worker.pids["worker"], signal.SIGKILL)).start()
    with pytest.raises(WorkerDied, match=r"by SIGKILL .*out-of-memory killer .*did not strike.*kill -9.*GiB"):
        fault(worker, "hang")


def test_killed_between_two_requests(worker):
    os.kill(worker.worker.pids["worker"], signal.SIGKILL)
    time.sleep(0.2)
    with pytest.raises(WorkerDied, match="SIGKILL"):
        worker.put(np.zeros(1000_000), worker.devices[0])


def test_killed_with_its_guard(worker):
    pids = worker.worker.pids
    child, daemon = fault(worker, "children")
    os.kill(pids["guard"], signal.SIGKILL)
    with pytest.raises(WorkerDied, match="ended from outside"):
        fault(worker, "hang")
    assert gone(*pids.values(), child)
    os.kill(daemon, signal.SIGKILL)  # what left the group is beyond reach without the guard


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGABRT, signal.SIGBUS, signal.SIGXCPU])
def test_other_signals(worker, number):
    with pytest.raises(WorkerDied, match=signal.Signals(number).name):
        fault(worker, "by_signal", int(number))


def test_an_exit_with_its_last_words(worker):
    with pytest.raises(WorkerDied, match=r"(?s)exited by itself with status 3 while it did 'call'.*    so long\n"):
        fault(worker, "leave", 3)


def test_only_the_last_lines_are_shown(worker):
    with pytest.raises(WorkerDied, match="SIGSEGV") as caught:
        fault(worker, "shouted")
    assert len(str(caught.value).splitlines()) < 30


@pytest.mark.parametrize("how", ["hang", "hang_holding_the_gil"])
def test_hung_it_is_ended_and_says_where_it_hung(worker, how):
    pids = worker.worker.pids
    start = time.monotonic()
    with pytest.raises(
        WorkerTimeout, match=rf"(?s)backend 'numpy'.*'call' within 0.5 s.*in {how}.*more time"
    ) as caught:
        fault(worker, how, limit=0.5)
    assert 0.5 <= time.monotonic() - start < 4
    assert gone(*pids.values())
    with pytest.raises(WorkerTimeout, match="That was earlier"):
        fault(worker, "echo", 1)
    assert caught.value.__cause__ is not None


def test_stopped_it_is_ended(worker):
    pids = worker.worker.pids
    with pytest.raises(WorkerTimeout):
        fault(worker, "stop", limit=0.5)
    assert gone(*pids.values())


def test_a_worker_that_does_not_read_does_not_hold_up_a_large_message(worker):
    os.kill(worker.worker.pids["worker"], signal.SIGSTOP)
    start = time.monotonic()
    with pytest.raises(WorkerTimeout, match="within 1 s"):
        fault(worker, "echo", np.zeros(10_000_000), limit=1.0)
    assert time.monotonic() - start < 5


def test_out_of_memory(open_worker):
    worker = open_worker(memory=4 << 30)
    pids = worker.worker.pids
    with pytest.raises(
        WorkerDied, match=r"backend 'numpy': .*out of memory.*Unable to allocate 8\.00 TiB[\s\S]*smaller"
    ):
        fault(worker, "exhaust")
    assert gone(*pids.values())


def test_the_limit_on_memory_is_real(open_worker):
    worker = open_worker(memory=4 << 30)
    with pytest.raises(WorkerDied, match="out of memory"):
        worker.call("worker_faults:allocate", 5 << 30)
    assert open_worker().call("worker_faults:allocate", 5 << 30) == 5 << 30


def test_garbage_on_its_outputs_does_no_harm(steady):
    assert fault(steady, "garbage") == "fine"
    assert fault(steady, "echo", 1) == (1,)


def test_garbage_printed_at_the_start_of_python_does_no_harm(tmp_path, open_worker, numpy_environment):
    """An environment whose site-packages print when Python starts."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    site = next(numpy_environment.path.glob("lib/python*/site-packages"))
    own = tmp_path / site.relative_to(numpy_environment.path)
    own.mkdir(parents=True)
    (own / "noise.pth").write_text(f"import sys; print('noise'); sys.path.append({str(site)!r})\n")
    (tmp_path / "pyvenv.cfg").write_text((numpy_environment.path / "pyvenv.cfg").read_text())
    python.symlink_to(os.readlink(numpy_environment.python))
    worker = open_worker(python=python)
    assert fault(worker, "echo", 1) == (1,)
    with pytest.raises(WorkerDied, match=r"(?s)    noise\n.*so long"):
        fault(worker, "leave", 3)


def test_its_children_go_with_it(worker, open_worker):
    dead = fault(worker, "children")
    closed = open_worker()
    left = fault(closed, "children")
    hung = open_worker()
    held_up = fault(hung, "children")
    assert all(map(alive, (*dead, *left, *held_up)))
    with pytest.raises(WorkerDied):
        fault(worker, "segfault")
    assert gone(*dead)
    closed.close()
    assert gone(*left)
    with pytest.raises(WorkerTimeout):
        fault(hung, "hang", limit=0.3)
    assert gone(*held_up)


PARENT = """
import sys, time
from xbackend.workers.remote import RemoteBackend
backend = RemoteBackend('numpy', modules={modules!r})
pids = [*backend.worker.pids.values(), *backend.call('worker_faults:children')]
print(*pids, backend.worker._directory, flush=True)
{then}
"""


@pytest.mark.parametrize(
    ("then", "number"),
    [
        ("backend.call('worker_faults:hang')", signal.SIGKILL),
        ("backend.call('worker_faults:hang_holding_the_gil')", signal.SIGKILL),
        ("import os; os.fork(); time.sleep(60)", signal.SIGKILL),
        ("backend.call('worker_faults:hang')", signal.SIGINT),
        ("backend.call('worker_faults:hang')", signal.SIGTERM),
        ("sys.exit(0)", None),
        ("raise ValueError", None),
        ("del backend; import gc; gc.collect(); time.sleep(60)", "wait"),
    ],
)
def test_when_xbackend_ends_everything_does(then, number):
    code = PARENT.format(modules=MODULES, then=then)
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    )
    *pids, directory = parent.stdout.readline().split()
    pids = [int(pid) for pid in pids]
    if number is None:
        parent.wait(timeout=10)
    elif number != "wait":
        time.sleep(0.5)
        parent.send_signal(number)
        parent.wait(timeout=10)
    assert gone(*pids)
    end = time.monotonic() + 2
    while Path(directory).exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(directory).exists()
    os.killpg(parent.pid, signal.SIGKILL) if number == "wait" or "fork" in then else None
    parent.wait(timeout=10)


def test_when_the_connection_ends_everything_does(worker):
    """As it is when an ssh connection breaks: both processes live, and the worker is deaf."""
    pids = (*worker.worker.pids.values(), *fault(worker, "children"))
    hung = threading.Thread(target=pytest.raises, args=(WorkerDied, fault, worker, "hang_holding_the_gil"))
    hung.start()
    time.sleep(0.3)
    (gateway,) = worker.worker._group
    gateway._io.close_write()
    assert gone(*pids, seconds=3)
    hung.join()


def test_a_forked_child_cannot_use_or_end_it(steady):
    child = os.fork()
    if child == 0:
        try:
            fault(steady, "echo", 1)
        except WorkerError as error:
            steady.close()
            os._exit(0 if "forked" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert fault(steady, "echo", 1) == (1,)


def test_interrupted_it_is_ended(worker):
    pids = worker.worker.pids
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        fault(worker, "hang")
    assert gone(*pids.values())
    with pytest.raises(WorkerDied, match="interrupted"):
        fault(worker, "echo", 1)


def test_several_threads_may_ask(steady):
    answers = [None] * 8
    arrays = [np.full(100_000, i) for i in range(8)]

    def ask(i: int) -> None:
        answers[i] = all(np.array_equal(fault(steady, "echo", arrays[i])[0], arrays[i]) for _ in range(10))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 8


def own_workers() -> list[int]:
    """Guards that are children of this process."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in children if b"guard.py" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_a_python_that_is_not_there():
    before = own_workers()
    with pytest.raises(WorkerError, match=r"(?s)did not start: FileNotFoundError.*xbackend env sync"):
        RemoteBackend("numpy", python="/no/such/python")
    assert own_workers() == before


def test_a_python_that_is_none(tmp_path):
    script = tmp_path / "a python"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(0o755)
    start = time.monotonic()
    with pytest.raises(WorkerError, match=r"(?s)did not start.*xbackend env sync"):
        RemoteBackend("numpy", python=script)
    assert time.monotonic() - start < 5


def test_a_python_that_never_comes_up(tmp_path):
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexec sleep 60\n")
    script.chmod(0o755)
    with pytest.raises(WorkerTimeout, match="'start' within 1 s"):
        RemoteBackend("numpy", python=script, limit=1.0)


def test_an_environment_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("XBACKEND_HOME", str(tmp_path))
    with pytest.raises(BackendUnavailable, match="xbackend env sync numpy"):
        RemoteBackend("numpy")


def test_a_backend_that_cannot_start_there(numpy_environment):
    before = own_workers()
    with pytest.raises(BackendUnavailable):
        RemoteBackend("tensorflow", python=numpy_environment.python)
    with pytest.raises(DeviceUnavailable, match="cpu:5"):
        RemoteBackend("numpy", xb_settings(visible=("cpu:5",)))
    assert own_workers() == before


# --- xbackend.open --------------------------------------------------------------------------------------------------


def test_open_uses_this_interpreter_or_a_worker(monkeypatch):
    with xb.open("numpy", virtual_devices=2) as here, xb.open("numpy", isolated=True, virtual_devices=2) as there:
        assert type(here).__name__ == "NumPyBackend"
        assert type(there) is RemoteBackend
        assert here.devices == there.devices
    monkeypatch.setattr(opening, "find_spec", lambda package: None)
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
    settings, others = xb_settings(), xb_settings(virtual_devices=2)
    assert opening._can_run_here(first, settings)
    opening._here[first.environment] = settings
    assert opening._can_run_here(registry.get("tensorflow-xla"), settings)
    assert not opening._can_run_here(first, others)
    assert not opening._can_run_here(second, settings)
    assert opening._can_run_here(registry.get("numpy"), others)


def xb_settings(**options):
    from xbackend.backends.base import Settings

    return Settings(**options)


def held(worker: RemoteBackend) -> list[int]:
    return fault(worker, "held")
