"""Devices, streams, events, memory and the runtime."""

import os
from types import SimpleNamespace

import numpy as np

COUNT = int(os.environ.get("PLANTED_GPUS", "1"))
MOST = int(os.environ.get("PLANTED_MEMORY", "1000000"))
devices, streams, clocks = [0], [None], [0.0] * COUNT


def current():
    return devices[-1]


def work(cost, what, device=None):
    device = current() if device is None else device
    if device == current():
        assert streams[-1] is not None and streams[-1].home == device, "not on the stream of the device"
    clocks[device] += cost
    if "PLANTED_CALLS" in os.environ:
        with open(os.environ["PLANTED_CALLS"], "a") as file:
            file.write(f"{what} {device}\n")


class Device:
    def __init__(self, index):
        self.index = index

    def __enter__(self):
        devices.append(self.index)

    def __exit__(self, *_):
        devices.pop()


class Stream:
    def __init__(self, non_blocking):
        self.home, self.ptr = current(), 7 + current()

    def __enter__(self):
        assert self.home == current()
        streams.append(self)

    def __exit__(self, *_):
        streams.pop()

    def synchronize(self):
        pass

    def wait_event(self, event):
        clocks[self.home] = max(clocks[self.home], event.at)


class Event:
    def __init__(self, disable_timing=False):
        self.home, self.timed, self.at = current(), not disable_timing, None

    def record(self, stream):
        assert stream.home == self.home, "an event of another device"
        self.at = clocks[self.home]

    def synchronize(self):
        assert self.at is not None
        clocks[:] = [max(clocks)] * COUNT  # the program waits, and so do idle devices


def get_elapsed_time(start, end):
    assert start.home == end.home and start.timed and end.timed
    return end.at - start.at


class MemoryPointer:
    def __init__(self, bytes_, home):
        self.bytes, self.home = bytes_, home

    @property
    def ptr(self):
        return self.bytes.ctypes.data

    def copy_from_device_async(self, source, size, stream):
        assert self.bytes.size == source.bytes.size == size and stream.home in (self.home, source.home)
        self.bytes[:] = source.bytes
        work(size / 1e6, f"copy {source.home} {self.home}", stream.home)

    def copy_from_host_async(self, address, size):
        assert address
        work(size / 5e3, "from_host")

    def copy_to_host_async(self, address, size):
        assert address
        work(size / 4e3, "to_host")


def alloc(size):
    if size > MOST:
        raise MemoryError(f"Out of memory allocating {size} bytes")
    return MemoryPointer(np.zeros(size, np.uint8), current())


def alloc_pinned_memory(size):
    return SimpleNamespace(ptr=4096, size=size)


def set_allocator(allocator):
    assert allocator is None


set_pinned_memory_allocator = set_allocator


def get_cublas_handle():
    return 1


cublas = SimpleNamespace(getVersion=lambda handle: 130100)


def _count():
    if not COUNT:
        raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")
    return COUNT


runtime = SimpleNamespace(
    getDeviceCount=_count,
    memGetInfo=lambda: (1 << 14, 1 << 40),
    getDeviceProperties=lambda index: {"name": b"NVIDIA planted"},
    deviceCanAccessPeer=lambda one, other: int(one < other),
)
