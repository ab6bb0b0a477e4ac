"""A link of a given delay and rate between two network interfaces: frames from one leave by the other, later.

    python relay.py PARENT DELAY RATE INTERFACE INTERFACE

DELAY in seconds one way, RATE in bytes of a second in each direction. Each direction is a first-in first-out queue that
loses nothing up to `QUEUE` bytes: a frame leaves the queue when those before it and it have been sent at the rate, and
arrives a delay later. Ends with its parent, the process with the id PARENT; standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import time
from collections import deque

QUEUE = 64 << 20
_ALL = 3  # ETH_P_ALL
_OUTGOING = 4  # PACKET_OUTGOING: what we sent ourselves
_SNDBUFFORCE, _RCVBUFFORCE = 32, 33  # of asm-generic/socket.h
_AT_ONCE = 64
_EARLY = 20e-6  # seconds that a wake-up takes at least


def ends_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


class Direction:
    """From one interface to the other."""

    def __init__(self, source: socket.socket, target: socket.socket, delay: float, rate: float) -> None:
        self.source, self.target, self.delay, self.rate = source, target, delay, rate
        self.free = 0.0  # when the queue is empty
        self.frames: deque[tuple[float, bytes]] = deque()

    def take(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                frame, address = self.source.recvfrom(1 << 16)
            except OSError:
                return
            if address[2] == _OUTGOING:
                continue
            now = time.monotonic()
            begin = max(self.free, now)
            if (begin - now) * self.rate < QUEUE:
                self.free = begin + len(frame) / self.rate
                self.frames.append((self.free + self.delay, frame))

    def send(self, now: float) -> None:
        while self.frames and self.frames[0][0] <= now:
            with contextlib.suppress(OSError):
                self.target.send(self.frames.popleft()[1])


def opened(name: str) -> socket.socket:
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
    one.setsockopt(socket.SOL_SOCKET, _RCVBUFFORCE, QUEUE)
    one.setsockopt(socket.SOL_SOCKET, _SNDBUFFORCE, QUEUE)
    one.bind((name, 0))
    one.setblocking(False)
    return one


def relay(delay: float, rate: float, first: str, second: str) -> None:
    a, b = opened(first), opened(second)
    ways = {a: Direction(a, b, delay, rate), b: Direction(b, a, delay, rate)}
    print("ready", flush=True)
    while True:
        now = time.monotonic()
        due = [way.frames[0][0] for way in ways.values() if way.frames]
        wait = max(0.0, min(due) - now - _EARLY) if due else None
        for one in select.select([a, b], [], [], wait)[0]:
            ways[one].take()
        now = time.monotonic() + _EARLY
        for way in ways.values():
            way.send(now)


def main(parent: str, delay: str, rate: str, first: str, second: str) -> None:
    ends_with(int(parent))
    with contextlib.suppress(OSError):  # so that the link is not slower while others compute
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    relay(float(delay), float(rate), first, second)


if __name__ == "__main__":
    main(*sys.argv[1:])
