"""The launcher's side of PMI, by which MPI's processes find each other: version 1 of MPICH's process management
interface, lines of text over a socket pair that each process inherits (mpich: src/pmi, doc/wiki/design/PMI-1.1).

`mpiexec` does the same, but it listens on every interface, and its processes would not have our pipes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

_ANSWERS = {
    "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    "get_maxes": "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=4096 rc=0",
    "get_appnum": "cmd=appnum appnum=0 rc=0",
    "finalize": "cmd=finalize_ack rc=0",
}


class Meeting:
    """The meeting of a cluster's processes. ``hosts`` has each one's host number: those of one host share memory."""

    def __init__(self, hosts: Sequence[int]) -> None:
        self.size, self._hosts = len(hosts), sorted(set(hosts))
        # A name that no job had before: MPICH names its shared memory after it.
        self._name = f"xbackend_{os.getpid()}_{secrets.token_hex(6)}"
        self._held = {"PMI_process_mapping": mapping(hosts)}
        self._waiting: list[socket.socket] = []
        self._lock, self._closed = threading.Lock(), False
        pairs = [socket.socketpair() for _ in hosts]
        self._ours, self._theirs = [ours for ours, _ in pairs], [theirs for _, theirs in pairs]
        for one in self._theirs:
            os.set_inheritable(one.fileno(), True)
        self._threads = list[threading.Thread]()
        for one in list(self._ours):
            self._begin(self._serve, one)

    def _begin(self, do: Callable[[socket.socket], None], one: socket.socket) -> None:
        self._threads.append(threading.Thread(target=do, args=(one,), name="xbackend-pmi", daemon=True))
        self._threads[-1].start()

    def environment(self, rank: int) -> dict[str, str]:
        """The environment variables of the process of a rank, which inherits `descriptor`."""
        return {"PMI_FD": str(self.descriptor(rank)), "PMI_RANK": str(rank), "PMI_SIZE": str(self.size)}

    def descriptor(self, rank: int) -> int:
        return self._theirs[rank].fileno()

    def given(self, rank: int) -> None:
        """The process of a rank has inherited its socket: close it here."""
        self._theirs[rank].close()

    def listen(self, path: str) -> None:
        """Accept one connection at a socket's path, of a process on another host."""
        listener = socket.socket(socket.AF_UNIX)
        self._ours.append(listener)
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen(1)
        self._begin(self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the listener is closed
            one, _ = listener.accept()
            self._ours.append(one)
            if not self._closed:
                self._serve(one)

    @property
    def memory(self) -> list[Path]:
        """The files of each host's shared memory, as MPICH names them (src/mpid/ch4/shm/posix: posix_init.c, by the
        hash of the job's name in src/util/mpir_pmi.c). Processes that are killed before they have met leave them."""
        number = fnv(self._name)
        return [Path(f"/dev/shm/mpich_{kind}_{number:x}_{host}") for kind in ("shm", "vci") for host in self._hosts]

    def close(self) -> None:
        """End the meeting. Processes that have not met get no answer."""
        self._closed = True
        for one in list(self._ours):  # its reader ends; it is closed after the reader
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in (*self._theirs, *self._ours):
            one.close()

    def _serve(self, one: socket.socket) -> None:
        """Answer a process until it is gone."""
        with contextlib.suppress(OSError), one.makefile("rb") as lines:
            while (line := lines.readline()).endswith(b"\n"):
                with self._lock:
                    self._answer(one, line[:-1].decode("ascii", "replace"))

    def _answer(self, one: socket.socket, line: str) -> None:
        said = dict(word.split("=", 1) for word in line.split() if "=" in word)
        command = said.get("cmd", "")
        if command == "barrier_in":
            self._waiting.append(one)
            if len(self._waiting) == self.size:
                for waiting in self._waiting:
                    with contextlib.suppress(OSError):  # it is gone
                        waiting.sendall(b"cmd=barrier_out rc=0\n")
                self._waiting.clear()
            return
        key = said.get("key", "")
        if command == "put" and key:
            self._held[key] = line.partition(" value=")[2]
        put = "rc=0 msg=success" if key else "rc=-1 msg=no_key"
        missing = f"rc=-1 msg=key_{key}_not_found value=unknown"
        answers = {
            **_ANSWERS,
            "get_my_kvsname": f"cmd=my_kvsname kvsname={self._name} rc=0",
            "get_universe_size": f"cmd=universe_size size={self.size} rc=0",
            "put": f"cmd=put_result {put}",
            "get": f"cmd=get_result {f'rc=0 msg=success value={self._held[key]}' if key in self._held else missing}",
        }
        if command in answers:  # not abort: its process ends, and its guard reports that
            one.sendall(f"{answers[command]}\n".encode())


def fnv(text: str) -> int:
    """The hash FNV-1a of 32 bits (http://www.isthe.com/chongo/tech/comp/fnv)."""
    number = 2166136261
    for byte in text.encode():
        number = (number ^ byte) * 16777619 % (1 << 32)
    return number


def mapping(hosts: Sequence[int]) -> str:
    """MPICH's mapping of ranks to hosts: (vector,(first host, hosts, ranks of each),...)."""
    parts: list[list[int]] = []
    for host in hosts:
        if parts and parts[-1][0] == host:
            parts[-1][2] += 1
        else:
            parts.append([host, 1, 1])
    return f"(vector,{','.join(f'({a},{b},{c})' for a, b, c in parts)})"
