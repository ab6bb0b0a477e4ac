"""Faults of a worker; the tests run these functions there (`RemoteBackend.call`)."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import subprocess
import sys
import time

import numpy as np

from xbackend.errors import DeviceUnavailable
from xbackend.workers import protocol
from xbackend.workers.bootstrap import MESSAGES
from xbackend.workers.serving import Held, Host


def pid(backend):
    return os.getpid(), os.getsid(0), os.getpgid(0)


def echo(backend, *arguments):
    return arguments


def variable(backend, name):
    return os.environ.get(name)


def path_of(backend, module):
    """The file of a module there; None if it cannot be imported."""
    try:
        return __import__(module).__file__
    except ImportError:
        return None


def modules(backend):
    return sorted({name.partition(".")[0] for name in sys.modules})


def segfault(backend):
    ctypes.string_at(0)


def by_signal(backend, number):
    os.kill(os.getpid(), number)
    time.sleep(10)


def leave(backend, status):
    sys.stderr.write("so long\n")
    sys.stderr.flush()
    os._exit(status)


def hang(backend, data=None):
    time.sleep(3600)


def hang_holding_the_gil(backend):
    ctypes.PyDLL(None).sleep(3600)


def stop(backend):
    os.kill(os.getpid(), signal.SIGSTOP)


def exhaust(backend):
    return np.ones(1 << 40)


def garbage(backend):
    print("garbage " * 100_000)
    sys.stdout.flush()
    os.write(1, b"\x00\xff" * 100_000)
    sys.stderr.write("x" * 1_000_000)
    return "fine"


def shouted(backend):
    for number in range(100):
        print(f"line {number}", file=sys.stderr)
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGSEGV)


def children(backend):
    """A child, and a grandchild outside of the process group whose parent is gone."""
    child = subprocess.Popen(["sleep", "3600"])
    code = "import os\nif os.fork(): os._exit(0)\nos.setsid()\nprint(os.getpid(), flush=True)\n"
    code += "os.dup2(2, 1)\nos.execlp('sleep', 'sleep', '3600')"
    daemon = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=False, text=True)
    return child.pid, int(daemon.stdout)


def unavailable(backend):
    raise DeviceUnavailable("there is no device gpu:7; there is cpu:0")


def value_error(backend):
    raise ValueError("not mine: ü | \n second line")


def exits(backend):
    sys.exit(3)


def execute(backend, built, value):
    return [Held(result) for result in built.execute(value)]


def not_plain(backend):
    return object()


def allocate(backend, size):
    return len(np.empty(size, np.uint8))


def held(backend):
    """The numbers of objects that the worker keeps for the other side."""
    (host,) = [item for item in gc.get_objects() if isinstance(item, Host)]
    return sorted(host.held)


def forks(backend, word):
    """Fork a child that returns too. Returns its process id."""
    child = os.fork()
    return word, child or os.getpid()


class _Slow(Exception):
    """Its text takes for ever, as locks that no thread of a forked process gives back do."""

    def __str__(self):
        time.sleep(3600)
        return ""


def forks_and_raises(backend):
    """Fork a child that raises. Returns its process id."""
    if child := os.fork():
        return child
    raise _Slow


def garbles(backend, item, numbered=True):
    """Send something else in place of an answer, with the number of this request."""
    (host,) = [each for each in gc.get_objects() if isinstance(each, Host)]
    frame = sys._getframe()
    while frame.f_code.co_name != "serve":
        frame = frame.f_back
    connection, number = frame.f_locals["connection"], frame.f_locals["request"]["number"]
    if isinstance(item, np.ndarray):
        connection.write(protocol.HEAD.pack(protocol.MARK, item.nbytes), item.tobytes(), protocol.MARK)
    else:
        item = {**item, "number": number} if numbered else item
        connection.write(*protocol.encoded(item, host.number))
    time.sleep(3600)


def garbles_bytes(backend):
    """Send an answer with foreign bytes within an array."""
    frame = sys._getframe()
    while frame.f_code.co_name != "serve":
        frame = frame.f_back
    text = b'{"arrays": [["<f8", [2]]], "content": {"array": 0}}'
    frame.f_locals["connection"].write(
        protocol.HEAD.pack(protocol.MARK, len(text)), text, b"x" * 8, b"noise", b"x" * 8, protocol.MARK
    )
    time.sleep(3600)


def writes(backend, data):
    """Write to the pipe of answers, as a child of a framework may."""
    os.write(MESSAGES, data.tobytes())
    return "fine"


def says_peaks(backend):
    backend.memory_peaks = lambda: {"cpu:0": 7}
