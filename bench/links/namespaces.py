"""Two hosts and the link between them, as network namespaces; nothing of them is left behind.

They are named after the process that made them. The namespaces of a killed process are removed when the next one
begins; their processes end with it by themselves.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PREFIX = "xbackend-link"
DEVICE = "wire"  # the interface of each host
ADDRESSES = ("10.77.0.1", "10.77.0.2")
MTU = 9000  # bytes: frames as large hosts use them, of which the relay has fewer
_LIMIT = 60.0  # seconds for a command, on a busy machine
_RELAY, _HOST = (Path(__file__).with_name(name) for name in ("relay.py", "host.py"))
_WINDOW = 2000  # segments that may be under way from the beginning


class NotPermitted(Exception):
    """The system does not let us have network namespaces, and why."""


@dataclass(frozen=True)
class Hosts:
    """The names of the namespaces of two hosts."""

    names: tuple[str, str]

    def start(self, host: int, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Run a command on a host, in a session of its own."""
        inside = ["ip", "netns", "exec", self.names[host], *command]
        return subprocess.Popen(inside, start_new_session=True, text=True, **options)


def _ip(*words: str) -> str:
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=_LIMIT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotPermitted(f"ip {' '.join(words)}: {error}") from None
    if done.returncode:
        raise NotPermitted(f"ip {' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def there() -> dict[str, int]:
    """Our namespaces with the id of the process that made each."""
    lines = _ip("netns", "list").splitlines()
    found = [re.match(rf"({PREFIX}-(\d+)-\w+)", line) for line in lines]
    return {m[1]: int(m[2]) for m in found if m}


def remove(name: str) -> None:
    """End what runs in a namespace and remove it."""
    with contextlib.suppress(NotPermitted):
        for pid in _ip("netns", "pids", name).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    with contextlib.suppress(NotPermitted):
        _ip("netns", "del", name)


def remove_left_over() -> list[str]:
    """Remove the namespaces of dead processes, and return their names."""
    old = [name for name, pid in there().items() if not Path(f"/proc/{pid}").exists()]
    for name in old:
        remove(name)
    return old


@contextmanager
def linked(delay: float, rate: float) -> Iterator[Hosts]:
    """Two hosts joined by a link: ``delay`` in seconds one way, ``rate`` in bytes of a second in each direction.

    Raises `NotPermitted`.
    """
    remove_left_over()
    first, second, middle = names = [f"{PREFIX}-{os.getpid()}-{end}" for end in "abr"]
    try:
        for name in names:
            remove(name)
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        for name, port, address in zip((first, second), ("p0", "p1"), ADDRESSES, strict=True):
            _host(name, port, address, middle)
        with _relayed(middle, delay, rate):
            yield Hosts((first, second))
    finally:
        for name in names:
            remove(name)


def _host(name: str, port: str, address: str, middle: str) -> None:
    _ip("-n", middle, "link", "add", port, "mtu", str(MTU), "type", "veth", "peer", "name", DEVICE, "netns", name)
    _ip("-n", middle, "link", "set", port, "up")
    _ip("-n", name, "link", "set", DEVICE, "mtu", str(MTU), "up")
    _ip("-n", name, "addr", "add", f"{address}/24", "dev", DEVICE)
    route = ["10.77.0.0/24", "dev", DEVICE, "src", address]
    _ip("-n", name, "route", "replace", *route, "initcwnd", str(_WINDOW), "initrwnd", str(_WINDOW))
    _ip("netns", "exec", name, sys.executable, "-IS", str(_HOST), DEVICE)


@contextmanager
def _relayed(name: str, delay: float, rate: float) -> Iterator[None]:
    words = [sys.executable, "-IS", str(_RELAY), str(os.getpid()), repr(delay), repr(rate), "p0", "p1"]
    command = ["ip", "netns", "exec", name, *words]
    relay = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        assert relay.stdout is not None and relay.stderr is not None
        ready = select.select([relay.stdout], [], [], _LIMIT)[0]
        if not ready or relay.stdout.readline() != b"ready\n":
            relay.kill()
            raise NotPermitted(f"the relay does not start: {relay.stderr.read().decode(errors='replace').strip()}")
        yield
    finally:
        relay.kill()
        relay.communicate()


def wait(processes: Sequence[subprocess.Popen[str]], limit: float) -> bool:
    """Wait until all have ended or one has failed; False where time is up before."""
    end = time.monotonic() + limit
    while any(one.poll() is None for one in processes):
        if any(one.returncode for one in processes):
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def end(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Kill their sessions, all of them, and wait until they are gone."""
    for one in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.wait()
