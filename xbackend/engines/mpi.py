"""MPI: sums over all workers, and parameter servers as windows of memory that workers read and write by themselves.

A server computes nothing: its record lies in a window, and the worker that brings an update holds the lock of the
record, a word of the window that is taken by compare-and-swap, while it reads the record, computes and writes it back.
MPI's own exclusive lock needs the server's part each time; this one does not.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from xbackend.engines.contract import LONGEST, Brought, Engine, HostUpdate
from xbackend.engines.record import Applied, Layout
from xbackend.engines.spec import SERVER, WORKER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from xbackend.backends.contract import Backend, Value

_LOCK = 16  # bytes before the record: the lock


def _unlink_memory() -> None:
    """Take away the names of the memory that the processes share, once all have met and have it: MPICH does that when
    they finalize, and a process that is killed, or ends without its frameworks' hooks, does not."""
    with suppress(OSError):  # no /proc
        for line in Path("/proc/self/maps").read_text().splitlines():
            path = line.partition("/")[2]
            if path.startswith("dev/shm/mpich_"):
                with suppress(FileNotFoundError):  # another process was first, or it has no name any more
                    os.unlink(f"/{path}")


class MPI(Engine):
    """One process of MPI: parameter servers first, then the workers."""

    def join(self) -> None:
        import mpi4py

        mpi4py.rc.initialize = False
        from mpi4py import MPI as mpi

        self.mpi = mpi
        mpi.Init_thread(mpi.THREAD_MULTIPLE)
        self.world = mpi.COMM_WORLD
        self.servers = len(self.spec.jobs.get(SERVER, ()))
        own = int(self.task.job == WORKER)
        self.workers = self.world.Split(own, self.task.index)
        _unlink_memory()
        self.window: Any = None
        # Of a lock: who holds it, that nobody does, and what was there.
        self._words = np.array([self.world.rank + 1]), np.array([0]), np.empty(1, np.int64)

    def _wait(self, request: Any, what: str) -> None:
        self.until(request.Test, what)

    def all_reduce(self, backend: Backend, values: Sequence[Value]) -> list[Value]:
        arrays = backend.get_all(values)
        sums = list(arrays)
        for dtype in dict.fromkeys(array.dtype for array in arrays):  # those of one dtype in one message
            own = [k for k, array in enumerate(arrays) if array.dtype == dtype]
            sent = np.concatenate([arrays[k].ravel() for k in own])
            total, begin = np.empty_like(sent), 0
            request = self.workers.Iallreduce(sent, total, op=self.mpi.SUM)
            self._wait(request, "for the other workers in an all-reduce")
            for k in own:
                sums[k] = total[begin : begin + arrays[k].size].reshape(arrays[k].shape)
                begin += arrays[k].size
        return backend.put_all(sums, [backend.device_of(value) for value in values])

    def meet(self, backend: Backend) -> None:
        self._wait(self.workers.Ibarrier(), "for the other workers at an update")

    # --- parameter servers -----------------------------------------------------------------------------------------

    def open(self, layouts: Sequence[Layout], records: Sequence[np.ndarray]) -> None:
        self.layouts = list(layouts)
        if not layouts:
            return
        record = records[0] if records else None
        if self.window is None:
            own = 0 if record is None else _LOCK + record.nbytes
            self.window = self.mpi.Win.Allocate(own, 1, self.mpi.INFO_NULL, self.world)
            self.window.tomemory()[:] = bytes(own)  # MPI promises no zeros, and the lock is one
            self.window.Lock_all()
        if record is not None:
            with self._alone(self.task.index):
                self._write(self.task.index, record)
            if len(self.spec.hosts()) > 1:
                threading.Thread(target=self._progress, name="xbackend-mpi", daemon=True).start()
        self._wait(self.world.Ibarrier(), "for the other tasks to begin")

    def _progress(self) -> None:
        """Over a network MPI does nothing for a window while its process is busy elsewhere."""
        while True:
            self.world.Iprobe()
            time.sleep(2 * LONGEST)

    @contextmanager
    def _alone(self, server: int) -> Iterator[None]:
        """Nobody else reads or writes the record of a server in the block."""
        mpi, window = self.mpi, self.window
        own, free, found = self._words

        def taken() -> bool:
            window.Compare_and_swap(own, free, found, server, 0)
            window.Flush(server)
            return not found[0]

        self.until(taken, f"for the lock of /job:{SERVER}/task:{server}")
        try:
            yield
        finally:
            window.Fetch_and_op(free, found, server, 0, mpi.REPLACE)
            window.Flush(server)

    def _read(self, layout: Layout) -> np.ndarray:
        record = np.empty(layout.nbytes, np.uint8)
        self.window.Get(record, layout.server, _LOCK)
        self.window.Flush(layout.server)
        self.moved["pulled"] += record.nbytes
        return record

    def _write(self, server: int, record: np.ndarray) -> None:
        self.window.Put(record, server, _LOCK)
        self.window.Flush(server)
        self.moved["pushed"] += record.nbytes

    def pull(self, layout: Layout) -> np.ndarray:
        with self._alone(layout.server):
            return self._read(layout)

    def version(self, layout: Layout) -> int:
        version = np.empty(1, np.int64)
        self.window.Get(version, layout.server, _LOCK)
        self.window.Flush(layout.server)
        self.moved["pulled"] += version.nbytes
        return int(version[0])

    def record(self, server: int) -> np.ndarray:
        return self.pull(self.layouts[server])

    def updates(self, layouts: Sequence[Layout], applies: Sequence[Mapping[str, Any]]) -> list[HostUpdate]:
        return [HostUpdate.of(apply) for apply in applies]

    def push(
        self, layouts: Sequence[Layout], updates: Sequence[HostUpdate], brought: Brought
    ) -> list[tuple[Applied, list[np.ndarray]]]:
        own, made, done = self.task.index, list[tuple[np.ndarray, bool]](), list[tuple[Applied, list[np.ndarray]]]()
        with ExitStack() as locks:
            for layout, update, arrays in zip(layouts, updates, brought.arrays, strict=True):
                locks.enter_context(self._alone(layout.server))  # all tasks lock the servers in this order
                record = self._read(layout)
                again = layout.steps(record)[own] > brought.step
                # One that is in already only says again what it returns.
                returned = update(layout, record.copy() if again else record, arrays)
                if not again:
                    layout.add(record, own, brought.step, brought.read)
                made.append((record, again))
                done.append((layout.applied(record, own, brought.step), returned))
            for layout, (record, again) in zip(layouts, made, strict=True):
                if not again:
                    self._write(layout.server, record)
                if self.asynchronous:
                    self.keep(layout, record)
        return done
