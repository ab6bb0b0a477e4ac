"""One thread for each device, for frameworks that compute in the calling thread: work for a device runs in its thread,
in the order in which inputs become ready. Devices overlap as the framework releases Python's interpreter lock."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from queue import SimpleQueue
from typing import Any, Self

from xbackend.devices import Device
from xbackend.errors import DeviceUnavailable

# The most unfinished calls for each device before `submit` waits: each of them keeps its arrays.
AHEAD = 32


class Resident:
    """A value on a device, perhaps before it is computed (a future); ``device`` is then the planned one."""

    __slots__ = ("_content", "_error", "_threads", "_waiting", "device")

    def __init__(self, threads: DeviceThreads, device: Device) -> None:
        self.device = device
        self._threads = threads
        self._content: Any = None
        self._error: BaseException | None = None
        self._waiting: list[Callable[[], object]] | None = []  # callbacks for when it is computed; then `None`

    def wait(self) -> Any:
        """The content, once it is computed. Raises the error of its computation."""
        if self._waiting is not None:
            ready = threading.Lock()
            ready.acquire()
            if self._threads.pending([self], ready.release):
                ready.acquire()
        if self._error is not None:
            raise self._error
        return self._content


class _Work:
    """A call that runs on a device's thread once all its inputs are computed."""

    __slots__ = ("call", "inputs", "missing", "results", "threads", "where")

    def __init__(
        self, threads: DeviceThreads, where: _Thread, call: Callable[..., Any], inputs: Sequence[Resident], count: int
    ) -> None:
        self.threads, self.where, self.call, self.inputs = threads, where, call, inputs
        self.results = [Resident(threads, where.device) for _ in range(count)]
        self.missing = 0

    def arrived(self) -> None:
        with self.threads.lock:
            self.missing -= 1
            ready = self.missing == 0
        if ready:
            self.where.queue.put(self)

    def run(self, device: Device) -> None:
        try:
            contents = self.call(*[value.wait() for value in self.inputs])
            for value, content in zip(self.results, contents, strict=True):
                value._content, value.device = content, device
        except BaseException as error:  # raised by `wait` of a result, SystemExit too
            for value in self.results:
                value._error = error
        self.threads.done(self.results)


class _Thread(threading.Thread):
    def __init__(self, device: Device) -> None:
        super().__init__(name=f"xbackend {device}", daemon=True)
        self.device = device
        self.queue: SimpleQueue[_Work | None] = SimpleQueue()

    def run(self) -> None:
        while (work := self.queue.get()) is not None:
            work.run(self.device)
            del work  # while this thread waits, it keeps no arrays


class DeviceThreads:
    """The threads of some devices. A context manager; `close` ends them."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self.lock = threading.Lock()  # one for all, as it is held for a few instructions at a time
        self._room = threading.Condition(self.lock)
        self._unfinished, self._closing = 0, False
        self._threads = {device: _Thread(device) for device in devices}
        self._most = AHEAD * len(self._threads)
        for thread in self._threads.values():
            thread.start()
        # For a backend that is dropped without being closed.
        self._stop = weakref.finalize(self, _stop, list(self._threads.values()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def hold(self, content: Any, device: Device) -> Resident:
        value = Resident(self, device)
        value._content, value._waiting = content, None
        return value

    def submit(
        self, device: Device, call: Callable[..., Sequence[Any]], inputs: Sequence[Resident], count: int
    ) -> list[Resident]:
        """The ``count`` results of the call, which runs in the device's thread once the inputs are computed. Returns at
        once, unless too many calls are unfinished (`AHEAD`). An error of the call is raised by `wait` of its results
        and of their successors. Raises `DeviceUnavailable` after `close`."""
        work = _Work(self, self._threads[device], call, inputs, count)
        with self.lock:
            while self._unfinished >= self._most and not self._closing:
                self._room.wait()
            if self._closing:
                raise DeviceUnavailable(f"the thread of {device} has ended: its backend was closed; open it again")
            self._unfinished += 1
            work.missing = 1  # this method itself
        if not self.pending(inputs, work.arrived, work):
            work.where.queue.put(work)
        else:
            work.arrived()
        return work.results

    def pending(self, values: Sequence[Resident], ready: Callable[[], object], work: _Work | None = None) -> int:
        """The number of values that are not computed yet; ``ready`` will be called once for each of these."""
        with self.lock:
            waiting = 0
            for value in values:
                if value._waiting is not None:
                    value._waiting.append(ready)
                    waiting += 1
            if work is not None:
                work.missing += waiting
        return waiting

    def done(self, values: Sequence[Resident]) -> None:
        """Mark these values as computed (or failed), and call their callbacks."""
        called: list[Callable[[], object]] = []
        with self.lock:
            for value in values:
                called += value._waiting or ()
                value._waiting = None
            if self._unfinished == self._most:
                self._room.notify_all()
            self._unfinished -= 1
            last = self._closing and self._unfinished == 0
        for ready in called:
            ready()
        if last:
            self._stop()

    def close(self) -> None:
        """Let unfinished calls finish and end the threads. May be called again."""
        with self.lock:
            idle = self._unfinished == 0 and not self._closing
            self._closing = True
        if idle:
            self._stop()
        for thread in self._threads.values():
            thread.join()


def _stop(threads: Iterable[_Thread]) -> None:
    for thread in threads:
        thread.queue.put(None)
