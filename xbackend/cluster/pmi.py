"""The launcher's side of PMI, by which MPI's processes find each other: version 1 of MPICH's process management
interface, lines of text over a socket pair that each process inherits (mpich: src/pmi, doc/wiki/design/PMI-1.1).

`mpiexec` would do the same; it also listens on every interface, and what it starts does not have pipes of ours.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import socket
import threading
from collections.abc import Sequence
from pathlib import Path

_ANSWERS = {
    "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    "get_maxes": "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=4096 rc=0",
    "get_appnum": "cmd=appnum appnum=0 rc=0",
    "finalize": "cmd=finalize_ack rc=0",
}


class Meeting:
    """What so many processes meet by. ``hosts`` has the number of the host of each: those of one host share memory."""

    def __init__(self, hosts: Sequence[int]) -> None:
        self.size, self._hosts = len(hosts), sorted(set(hosts))
        # A name that no job had: MPICH names its shared memory after it.
        self._name = f"xbackend_{os.getpid()}_{secrets.token_hex(6)}"
        self._held = {"PMI_process_mapping": mapping(hosts)}
        self._waiting: list[socket.socket] = []
        self._listeners: list[socket.socket] = []
        pairs = [socket.socketpair() for _ in hosts]
        self._ours, self._theirs = [ours for ours, _ in pairs], [theirs for _, theirs in pairs]
        for one in self._theirs:
            os.set_inheritable(one.fileno(), True)
        self._thread = threading.Thread(target=self._serve, name="xbackend-pmi", daemon=True)
        self._thread.start()

    def environment(self, rank: int) -> dict[str, str]:
        """The variables of the process of that rank, which inherits `descriptor`."""
        return {"PMI_FD": str(self.descriptor(rank)), "PMI_RANK": str(rank), "PMI_SIZE": str(self.size)}

    def descriptor(self, rank: int) -> int:
        return self._theirs[rank].fileno()

    def given(self, rank: int) -> None:
        """The process of that rank has its end."""
        self._theirs[rank].close()

    def listen(self, rank: int, path: str) -> None:
        """Wait at a socket's path for the process of that rank, which comes from another host."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        os.chmod(path, 0o600)
        listener.listen(1)
        self._listeners.append(listener)
        threading.Thread(target=self._relay, args=(listener, rank), name="xbackend-pmi-relay", daemon=True).start()

    def _relay(self, listener: socket.socket, rank: int) -> None:
        """Carry what a process of another host says, and what it is told."""
        with contextlib.suppress(OSError), listener.accept()[0] as there, self._theirs[rank] as here:
            self._carry(there, here)

    def _carry(self, there: socket.socket, here: socket.socket) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(there, selectors.EVENT_READ)
            selector.register(here, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    one, other = (there, here) if key.fileobj is there else (here, there)
                    data = one.recv(1 << 16)
                    if not data:
                        return
                    other.sendall(data)

    @property
    def memory(self) -> list[Path]:
        """The memory that the processes of a host share, as MPICH names it (src/mpid/ch4/shm/posix: posix_init.c, of
        the hash of the job's name in src/util/mpir_pmi.c). It has a name until they have met: those that are killed
        before leave it."""
        number = fnv(self._name)
        return [Path(f"/dev/shm/mpich_{kind}_{number:x}_{host}") for kind in ("shm", "vci") for host in self._hosts]

    def close(self) -> None:
        """End it; processes that still meet get no answer."""
        for one in (*self._listeners, *self._ours):  # who reads it sees its end; it is closed when nobody does
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for one in (*self._listeners, *self._theirs, *self._ours):
            one.close()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            unread = dict.fromkeys(self._ours, b"")
            for one in self._ours:
                selector.register(one, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    asking = next(own for own in self._ours if own is key.fileobj)
                    try:
                        data = asking.recv(1 << 16)
                        *lines, unread[asking] = (unread[asking] + data).split(b"\n")
                        for line in lines:
                            self._answer(asking, line.decode("ascii", "replace"))
                    except OSError:
                        data = b""
                    if not data:
                        selector.unregister(asking)

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
        answer = _ANSWERS.get(command) or self._known(command, said, line)
        if answer:
            one.sendall(f"{answer}\n".encode())

    def _known(self, command: str, said: dict[str, str], line: str) -> str:
        if command == "get_my_kvsname":
            return f"cmd=my_kvsname kvsname={self._name} rc=0"
        if command == "get_universe_size":
            return f"cmd=universe_size size={self.size} rc=0"
        key = said.get("key", "")
        if command == "put":
            if not key:
                return "cmd=put_result rc=-1 msg=no_key"
            self._held[key] = line.partition(" value=")[2]
            return "cmd=put_result rc=0 msg=success"
        if command == "get":
            value = self._held.get(key)
            if value is None:
                return f"cmd=get_result rc=-1 msg=key_{key}_not_found value=unknown"
            return f"cmd=get_result rc=0 msg=success value={value}"
        return ""  # abort: the process ends, which its guard tells


def fnv(text: str) -> int:
    """The hash FNV-1a of 32 bits (http://www.isthe.com/chongo/tech/comp/fnv)."""
    number = 2166136261
    for byte in text.encode():
        number = (number ^ byte) * 16777619 % (1 << 32)
    return number


def mapping(hosts: Sequence[int]) -> str:
    """MPICH's words for which ranks share a host: (vector,(first host, hosts, ranks of each),...)."""
    parts: list[list[int]] = []
    for host in hosts:
        if parts and parts[-1][0] == host:
            parts[-1][2] += 1
        else:
            parts.append([host, 1, 1])
    return f"(vector,{','.join(f'({a},{b},{c})' for a, b, c in parts)})"
