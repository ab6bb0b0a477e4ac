"""Workers that die, hang, run out of memory, talk nonsense or lose xbackend: real processes, ended whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from workers_common import MODULES, PACKAGE, alive, fault, gone

from xbackend.backends.contract import Settings
from xbackend.errors import (
    BackendUnavailable,
    DeviceUnavailable,
    WorkerDied,
    WorkerError,
    WorkerTimeout,
)
from xbackend.workers.endings import Ending
from xbackend.workers.process import Launch, WorkerProcess
from xbackend.workers.remote import RemoteBackend

pytestmark = pytest.mark.tier("standard")

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
    os.kill(daemon, signal.SIGKILL)  # without the guard, processes outside the group are out of reach


def test_what_it_leaves_is_taken_away(tmp_path, open_worker):
    left = [tmp_path / "left", tmp_path / "other"]
    left[0].write_bytes(b"")
    worker = open_worker(leaves=left)
    os.kill(worker.worker.pids["worker"], signal.SIGKILL)
    with pytest.raises(WorkerDied):
        fault(worker, "echo", 1)
    assert not left[0].exists()


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


GARBLED = {
    "no text": b"\xff\xfe",
    "no JSON": b"{",
    "a list": b"[]",
    "a number": b"3",
    "no content": b'{"arrays": []}',
    "a dtype of objects": b'{"arrays": [["O", [1]]], "content": 1}',
    "a large array": b'{"arrays": [["<f8", [1000000000000000]]], "content": 1}',
    "a wrong shape": b'{"arrays": [["<f8", [-1]]], "content": 1}',
    "nested": b'{"arrays": [], "content": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "a reference to no array": b'{"arrays": [], "content": {"array": 5}}',
    "two keys": b'{"arrays": [], "content": {"tuple": [], "dict": []}}',
    "no answer": {"results": 1},
    "an error without words": {"error": "ValueError"},
}


@pytest.mark.parametrize("what", GARBLED)
def test_a_garbled_answer_ends_the_worker(worker, what):
    pids, item = worker.worker.pids, GARBLED[what]
    item = np.frombuffer(item, np.uint8) if isinstance(item, bytes) else item
    with pytest.raises(WorkerDied, match=r"(?s)'numpy': its worker answered 'call' with something else.*Open the"):
        fault(worker, "garbles", item, limit=10)
    assert gone(*pids.values())
    with pytest.raises(WorkerDied, match="That was earlier"):
        fault(worker, "echo", 1)


@pytest.mark.parametrize("number", [0, 10**6, None, "2"])
def test_an_answer_to_another_request_ends_the_worker(worker, number):
    fault(worker, "echo", 1)
    with pytest.raises(WorkerDied, match=r"the answer to request .* in place of 3"):
        fault(worker, "garbles", {"number": number, "result": 7}, False, limit=10)


def test_something_else_in_the_place_of_an_arrays_bytes_ends_the_worker(worker):
    with pytest.raises(WorkerDied, match="in place of the bytes of an array"):
        fault(worker, "garbles_bytes", limit=10)


@pytest.mark.parametrize("data", [b"noise", b"a warning of some library, longer than a head", b"\nxb:" + b"\xff" * 30])
def test_what_is_written_between_the_messages_ends_the_worker(worker, data):
    with pytest.raises(WorkerDied, match="answered 'call' with something else"):
        fault(worker, "writes", np.frombuffer(data, np.uint8), limit=10)


def test_a_child_that_a_function_forked_answers_nothing(worker):
    """The child returns from the function too: its answer would become that of the next request."""
    for turn in range(3):
        word, child = fault(worker, "forks", f"forks {turn}")
        assert word == f"forks {turn}"
        assert fault(worker, "echo", turn) == (turn,)
        assert gone(child)
    assert gone(fault(worker, "forks_and_raises")), "it ends before it describes the error"


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


@pytest.mark.tier("standard")
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
    """As with a broken ssh connection: both processes live, and the worker does not listen."""
    pids = (*worker.worker.pids.values(), *fault(worker, "children"))
    hung = threading.Thread(target=pytest.raises, args=(WorkerDied, fault, worker, "hang_holding_the_gil"))
    hung.start()
    time.sleep(0.3)
    worker.worker._guard.stdin.close()
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


def test_interrupted_while_it_says_why_it_did_not_start_it_is_ended(tmp_path, monkeypatch):
    started = []

    def start(command):
        silent = "import os, time; os.close(1); time.sleep(60)"
        started.append(subprocess.Popen([sys.executable, "-c", silent], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return started[0]

    def interrupted(self, seconds):
        raise KeyboardInterrupt

    monkeypatch.setattr(WorkerProcess, "_await_report", interrupted)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        WorkerProcess(Launch("backend 'numpy'", Path(sys.executable), start=start))
    assert started[0].poll() is not None, "its guard is ended"
    assert not [*tmp_path.iterdir()], "its folder is removed"


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
    """The guards among this process's children."""
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
    script.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 60\n")
    script.chmod(0o755)
    with pytest.raises(WorkerTimeout, match="'start' within 1 s"):
        RemoteBackend("numpy", python=script, limit=1.0)
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_guard_that_is_stopped_before_it_says_who_it_is(tmp_path, numpy_environment):
    """Its pids are unknown, and it ignores the request to end."""
    script = tmp_path / "python"
    script.write_text(f'#!/bin/sh\necho $$ > {tmp_path}/pid\nkill -STOP $$\nexec {numpy_environment.python} "$@"\n')
    script.chmod(0o755)
    with pytest.raises(WorkerTimeout, match="'start' within 1 s"):
        RemoteBackend("numpy", python=script, limit=1.0)
    assert gone(int((tmp_path / "pid").read_text()))


def test_an_environment_without_numpy_says_so(tmp_path):
    """The worker starts, cannot serve, and is ended: by xbackend, not for want of memory."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    with pytest.raises(WorkerDied) as caught:
        RemoteBackend("numpy", python=tmp_path / "venv" / "bin" / "python")
    assert "No module named 'numpy'" in str(caught.value) and "xbackend env sync" in str(caught.value)
    assert "SIGKILL" not in str(caught.value) and "memory" not in str(caught.value)


def test_an_ending_from_here_is_not_taken_for_one_from_outside():
    ended = Ending(True, worker=5, signal=9, why="xbackend ended it")
    said = f"{ended.how()} {ended.meaning()} {ended.advice()}"
    assert "was ended" in said and "SIGKILL" not in said and "memory" not in said
    killed = Ending(True, worker=5, signal=9, why="it ended by itself")
    assert "SIGKILL" in killed.how() and "memory" in killed.meaning()


def test_an_environment_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("XBACKEND_HOME", str(tmp_path))
    with pytest.raises(BackendUnavailable, match="xbackend env sync numpy"):
        RemoteBackend("numpy")


def test_a_backend_that_cannot_start_there(numpy_environment):
    before = own_workers()
    with pytest.raises(BackendUnavailable):
        RemoteBackend("tensorflow", python=numpy_environment.python)
    with pytest.raises(DeviceUnavailable, match="cpu:5"):
        RemoteBackend("numpy", Settings(visible=("cpu:5",)))
    assert own_workers() == before


def test_a_process_that_does_one_thing_ends_with_who_started_it(tmp_path: Path) -> None:
    """Even if that was killed, as a file that is brought may loop for ever."""
    (tmp_path / "forever.py").write_text(
        f"import os, time\nopen({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
    )
    target = f"{tmp_path / 'forever.py'}:f"
    code = f"from xbackend.workers.bringing import bring; bring('jax={sys.executable}', {target!r}, None)"
    with subprocess.Popen([sys.executable, "-c", code]) as starter:
        limit = time.monotonic() + 60
        while (
            not (text := (tmp_path / "pid").read_text() if (tmp_path / "pid").exists() else "")
            and time.monotonic() < limit
        ):
            time.sleep(0.05)
        starter.kill()
    assert gone(int(text))
