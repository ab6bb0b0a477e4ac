"""MPI: sums over all workers, and parameter servers as windows of memory that workers read and write.

A server computes nothing: its record lies in a window. A worker with an update locks the record, reads it, computes,
writes it back and unlocks it. The lock is a word of the window, taken by compare-and-swap: unlike MPI's own exclusive
lock it needs no action of the server. On one host the window is memory that all tasks share, read and written in place.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xbackend.engines.contract import LONGEST, Brought, Engine, HostUpdate
from xbackend.engines.pmi import Meeting
from xbackend.engines.record import Applied, Layout
from xbackend.engines.spec import SERVER, WORKER

if TYPE_CHECKING:
    from xbackend.backends.contract import Backend

_LOCK = 16  # bytes before the record: the lock


def _unlink_memory() -> None:
    """Unlink the processes' shared memory once all have mapped it. MPICH would do so when they finalize, but a process
    that is killed, or ends without its frameworks' hooks, never finalizes."""
    with suppress(OSError):  # no /proc
        for line in Path("/proc/self/maps").read_text().splitlines():
            path = line.partition("/")[2]
            if path.startswith("dev/shm/mpich_"):
                with suppress(FileNotFoundError):  # another process has unlinked it
                    os.unlink(f"/{path}")


class MPI(Engine):
    """One process of MPI: parameter servers first, then the workers."""

    name, summary = "mpi", "MPI (mpi4py with MPICH): collectives, and windows with locks"
    meeting = Meeting

    @classmethod
    def environment(cls, hosts: int) -> dict[str, str]:
        # On one host nothing listens, and a waiting process leaves the core to others.
        return {"UCX_TLS": "self,posix,tcp" if hosts > 1 else "self,posix"}

    def join(self) -> None:
        import mpi4py

        mpi4py.rc.initialize = False
        from mpi4py import MPI as mpi

        self.mpi = mpi
        mpi.Init_thread(mpi.THREAD_MULTIPLE)
        self.world = mpi.COMM_WORLD
        own = int(self.task.job == WORKER)
        self.workers = self.world.Split(own, self.task.index)
        _unlink_memory()
        # Words of a lock: this process holds it, nobody does, and the one found.
        self._words = np.array([self.world.rank + 1]), np.array([0]), np.empty(1, np.int64)
        self._memory: Sequence[np.ndarray] = ()  # of the servers, where all tasks share memory

    def summed(self, messages: Sequence[np.ndarray]) -> list[np.ndarray]:
        totals = [np.empty_like(message) for message in messages]
        for message, total in zip(messages, totals, strict=True):
            request = self.workers.Iallreduce(message, total, op=self.mpi.SUM)
            self.until(request.Test, "for the other workers in an all-reduce")
        return totals

    def meet(self, backend: Backend) -> None:
        self.until(self.workers.Ibarrier().Test, "for the other workers at an update")

    # --- parameter servers -----------------------------------------------------------------------------------------

    def open(self, records: Sequence[np.ndarray]) -> None:
        if not self.layouts:
            return
        record, window = records[0] if records else None, self.mpi.Win
        own = 0 if record is None else _LOCK + record.nbytes
        shared = len(self.spec.hosts()) == 1
        allocate = window.Allocate_shared if shared else window.Allocate
        self.window: Any = allocate(own, 1, self.mpi.INFO_NULL, self.world)
        self.window.tomemory()[:] = bytes(own)  # MPI promises no zeros, and the free lock is one
        if shared:
            found = [self.window.Shared_query(one.server)[0] for one in self.layouts]
            self._memory = [np.frombuffer(memory, np.uint8) for memory in found]
        self.window.Lock_all()
        if record is not None:
            self._lock(self.task.index)
            self._write(self.task.index, record)
            self._unlock(self.task.index)
            if not shared:
                threading.Thread(target=self._progress, name="xbackend-mpi", daemon=True).start()
        self.until(self.world.Ibarrier().Test, "for the other tasks to begin")

    def _progress(self) -> None:
        """Let MPI make progress: over a network it serves a window only within calls of its process."""
        while True:
            self.world.Iprobe()
            time.sleep(2 * LONGEST)

    def _lock(self, server: int) -> None:
        """Take the lock of a server's record."""
        if not self._taken(server):
            self.until(partial(self._taken, server), partial(self._held, server))

    def _held(self, server: int) -> str:
        holder = self.spec.tasks[int(self._words[2][0]) - 1]
        return f"for the lock of /job:{SERVER}/task:{server}, which {holder} has"

    def _taken(self, server: int) -> bool:
        own, free, found = self._words
        self.window.Compare_and_swap(own, free, found, server, 0)
        self.window.Flush(server)
        return not found[0]

    def _unlock(self, server: int) -> None:
        # Not by a store: MPICH's compare-and-swap in shared memory reads the word twice under a mutex of its own, and
        # between the two a store would let a task take the lock and be told that it has not.
        _, free, found = self._words
        self.window.Fetch_and_op(free, found, server, 0, self.mpi.REPLACE)
        self.window.Flush(server)

    def _read(self, server: int, nbytes: int) -> np.ndarray:
        """A copy of the first bytes of a server's record."""
        if self._memory:
            found = self._memory[server][_LOCK : _LOCK + nbytes].copy()
        else:
            found = np.empty(nbytes, np.uint8)
            self.window.Get(found, server, _LOCK)
            self.window.Flush(server)
        self.moved["pulled"] += nbytes
        return found

    def _write(self, server: int, record: np.ndarray) -> None:
        if self._memory:
            self._memory[server][_LOCK : _LOCK + record.nbytes] = record
        else:
            self.window.Put(record, server, _LOCK)
            self.window.Flush(server)
        self.moved["pushed"] += record.nbytes

    def pull(self, layout: Layout) -> np.ndarray:
        self._lock(layout.server)
        try:
            return self._read(layout.server, layout.nbytes)
        finally:
            self._unlock(layout.server)

    def version(self, layout: Layout) -> int:
        return int(self._read(layout.server, 8).view(np.int64)[0])

    def push(self, updates: Sequence[HostUpdate], brought: Brought) -> list[tuple[Applied, list[np.ndarray]]]:
        own, step, locked = self.task.index, brought.step, list[int]()
        made, done = list[tuple[np.ndarray, bool]](), list[tuple[Applied, list[np.ndarray]]]()
        try:
            for layout, update, arrays in zip(self.layouts, updates, brought.arrays, strict=True):
                self._lock(layout.server)  # all tasks lock the servers in this order
                locked.append(layout.server)
                record = self._read(layout.server, layout.nbytes)
                again = layout.done(record, own) > step
                # An applied update is only computed again, for its results.
                returned = update(layout, record.copy() if again else record, arrays)
                entry = layout.applied(record, own, step) if again else layout.add(record, own, step, brought.read)
                made.append((record, again))
                done.append((entry, returned))
            for layout, (record, again) in zip(self.layouts, made, strict=True):
                if not again:
                    self._write(layout.server, record)
                if self.asynchronous:
                    self.keep(layout, record)
        finally:
            for server in reversed(locked):
                self._unlock(server)
        return done
