"""Devices with so many cores: the cores of a process, its pinning, and refusals."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xbackend as xb
from xbackend import cores
from xbackend.backends import registry
from xbackend.backends.contract import Settings
from xbackend.errors import ArgumentError, DeviceUnavailable, UsageError
from xbackend.measure import machine, session
from xbackend.workers.remote import RemoteBackend


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four processor cores, each with two hardware threads: 0 and 4 are one core's, and so on."""
    monkeypatch.setattr(cores, "affinity", lambda: list(range(8)))
    monkeypatch.setattr(cores, "_is_second", lambda thread: thread >= 4)


@pytest.mark.parametrize(
    ("devices", "each", "expected"),
    [(1, 1, [0]), (2, 1, [0, 1]), (2, 2, [0, 1, 2, 3]), (3, 2, [0, 1, 2, 3, 4, 5]), (1, 8, list(range(8)))],
)
def test_first_threads_of_cores_come_first(four: None, devices: int, each: int, expected: list[int]) -> None:
    assert cores.pinned(devices, each) == expected


@pytest.mark.parametrize(
    ("devices", "each", "expected"),
    [
        (1, 1, [[0], [1], [2], [3], [4]]),
        (1, 4, [[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3]]),
        (1, 3, [[0, 1, 2], [3, 4, 5], [0, 1, 2]]),  # two cores remain unused
        (2, 4, [list(range(8)), list(range(8))]),
    ],
)
def test_processes_side_by_side_take_the_next_cores(
    four: None, devices: int, each: int, expected: list[list[int]]
) -> None:
    assert [cores.pinned(devices, each, turn) for turn in range(len(expected))] == expected


@pytest.mark.parametrize(
    ("siblings", "devices", "expected"),
    [
        ({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, 2, [0, 1]),
        ({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, 2, [0, 2]),
        ({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, 3, [0, 1, 2]),
        ({0: "0\n", 1: "1\n", 2: "2\n", 3: "3\n"}, 2, [0, 1]),
        ({}, 2, [0, 1]),  # a system without this information
    ],
)
def test_which_threads_are_of_one_core_is_what_the_system_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, siblings: dict[int, str], devices: int, expected: list[int]
) -> None:
    for thread, listed in siblings.items():
        file = tmp_path / f"sys/devices/system/cpu/cpu{thread}/topology/thread_siblings_list"
        file.parent.mkdir(parents=True)
        file.write_text(listed)
    monkeypatch.setattr(cores, "affinity", lambda: [0, 1, 2, 3])
    monkeypatch.setattr(cores, "Path", lambda path: tmp_path / path.lstrip("/"))
    assert cores.pinned(devices, 1) == expected


def test_too_few_cores_are_refused_in_words(four: None) -> None:
    with pytest.raises(DeviceUnavailable, match="3 devices of 3 cores each take 9 cores, and this process may use 8:"):
        cores.pinned(3, 3)


def test_a_system_that_does_not_pin_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "affinity", lambda: None)
    with pytest.raises(DeviceUnavailable, match="a system that pins a process to cores"):
        cores.pinned(1, 1)


def test_a_device_computes_with_as_many_threads_as_it_has_cores() -> None:
    assert Settings(2, cores_per_device=1).threads == 1
    with pytest.raises(ArgumentError, match="threads=2 and cores_per_device=1"):
        Settings(2, threads=2, cores_per_device=1)
    with pytest.raises(ArgumentError, match="cores_per_device=0: a whole number from 1 up"):
        Settings(2, cores_per_device=0)


def test_opened_in_python_it_is_a_worker() -> None:
    with xb.open("numpy", virtual_devices=1, cores_per_device=1) as backend:
        assert isinstance(backend, RemoteBackend) and backend.settings.threads == 1


def running(process: int, until: threading.Event, seen: list[int]) -> None:
    """Record the threads of a process that compute or could, again and again, on any load of the machine."""
    while not until.is_set():
        states = []
        for task in Path(f"/proc/{process}/task").iterdir():
            with suppress(OSError):  # the thread has ended
                states.append((task / "stat").read_text().rpartition(")")[2].split()[0])
        seen.append(states.count("R"))
        time.sleep(0.001)


def products(a: Any, b: Any) -> Any:
    """Two independent chains, all on one device."""
    with xb.device("cpu:0"):
        return [(x @ y) @ y @ y @ y for x, y in ((a, b), (b, a))]


@pytest.mark.takes_turns
@pytest.mark.parametrize("name", registry.names())
def test_a_device_keeps_to_the_cores_of_its_process_or_to_its_own_as_is_said(name: str) -> None:
    devices = min(2, cores.count())
    each = cores.count() // devices
    planted = {"planted_affinity": str(Path(__file__).parent / "planted_affinity.py")}
    with RemoteBackend(name, Settings(devices, cores_per_device=each), modules=planted) as backend:
        assert backend.call("planted_affinity:affinity") == backend.cores == cores.pinned(devices, each)
        a = np.full((400, 400), 1e-3)
        run = backend.compile(products, a, a)
        run(a, a)
        values, done, seen = run.put(a, a), threading.Event(), list[int]()
        sampler = threading.Thread(target=running, args=(backend.call("planted_affinity:process"), done, seen))
        sampler.start()
        for _ in range(8):
            backend.synchronize(run.execute(*values))
        done.set()
        sampler.join()
        said = backend.describe()
        busy = [count for count in seen if count]
        assert sum(busy) / len(busy) < 1.5 * each or "may use the cores of the others" in said.notes["cores"]
        known = [count for count in said.threads.values() if count is not None]
        assert max(known, default=each) <= devices * each + 1  # one more thread may start them


def test_several_devices_are_of_equal_cores_where_nothing_else_is_said(
    four: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "accelerators", list)
    assert session.cores_each(2, None, None, shared=False) == 4
    assert session.cores_each(3, None, None, shared=False) == 2
    assert session.cores_each(1, None, None, shared=False) is None
    assert session.cores_each(2, None, None, shared=True) is None
    assert session.cores_each(1, None, 1, shared=False) == 1
    assert session.cores_each(2, 4, None, shared=False) == 4
    with pytest.raises(UsageError, match="--threads 2 does not go with devices of 4 cores"):
        session.cores_each(2, 2, None, shared=False)
    with pytest.raises(UsageError, match="--shared-cores and --cores-per-device ask for opposite things"):
        session.cores_each(2, None, 1, shared=True)
    with pytest.raises(DeviceUnavailable, match="9 devices of 1 core each take 9 cores"):
        session.cores_each(9, None, None, shared=False)
    monkeypatch.setattr(machine, "accelerators", lambda: ["a GPU"])
    assert session.cores_each(2, None, None, shared=False) is None
