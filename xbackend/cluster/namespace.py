"""A network namespace for the tasks of a cluster on one machine (Linux): nobody outside can connect to them.

This file is also a script of the standard library alone:

    python -I -S namespace.py join PID COMMAND...     become COMMAND in the namespace of the process PID
    python -I -S namespace.py hold                    make a namespace, say so, and keep it until the input ends
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

NEWUSER, NEWNET = 0x10000000, 0x40000000  # linux/sched.h
_SIOCSIFFLAGS, _UP_AND_RUNNING = 0x8914, 0x41  # linux/sockios.h, linux/if.h
READY = b"ready\n"


def _called(name: str, *arguments: int) -> None:
    """Call a function of the C library; Python has these from 3.12 on only. Raises `OSError`."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def make() -> None:
    """Put this process into its own network namespace, with a loopback. Without root's rights it also gets a user
    namespace, in which it keeps its user. Raises `OSError` where the system forbids it."""
    user, group = os.geteuid(), os.getegid()
    try:
        _called("unshare", NEWNET)
    except PermissionError:
        _called("unshare", NEWUSER | NEWNET)
        for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{file}", "w") as out:
                out.write(text)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _UP_AND_RUNNING))


def join(pid: int) -> None:
    """Put this process, which has one thread, into the namespaces of another. Raises `OSError`."""
    here, there = (os.readlink(f"/proc/{of}/ns/user") for of in ("self", pid))
    descriptors = [(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY), NEWNET)]
    if here != there:
        descriptors.insert(0, (os.open(f"/proc/{pid}/ns/user", os.O_RDONLY), NEWUSER))
    for descriptor, kind in descriptors:
        _called("setns", descriptor, kind)
        os.close(descriptor)


def joining(pid: int, command: Sequence[str]) -> list[str]:
    """A command that joins the namespace of the process ``pid`` and then becomes ``command``, with the same id."""
    return [sys.executable, "-I", "-S", os.path.abspath(__file__), "join", str(pid), *command]


@contextmanager
def held() -> Iterator[int]:
    """The id of a process that keeps a new namespace until the block, or this process, ends.

    Raises `OSError` with the system's reason where it forbids one.
    """
    command = [sys.executable, "-I", "-S", os.path.abspath(__file__), "hold"]
    holder = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    assert holder.stdin is not None and holder.stdout is not None
    try:
        said = holder.stdout.readline()
        if said != READY:
            raise OSError(said.decode("utf-8", "replace").strip() or f"{sys.executable} did not start")
        yield holder.pid
    finally:
        holder.stdin.close()
        holder.stdout.close()
        holder.wait()


def _main(words: Sequence[str]) -> None:
    if words[0] == "join":
        join(int(words[1]))
        os.execv(words[2], list(words[2:]))
    try:
        make()
    except OSError as error:
        print(error)
        return
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    sys.stdin.buffer.read()


if __name__ == "__main__":
    _main(sys.argv[1:])
