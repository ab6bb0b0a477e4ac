"""Fixtures that open workers."""

from __future__ import annotations

import pytest
from workers_common import MODULES, alive

from xbackend import environments
from xbackend.workers.remote import RemoteBackend


@pytest.fixture(scope="module", autouse=True)
def numpy_environment():
    return environments.sync("numpy")


@pytest.fixture
def open_worker():
    """Opens workers that may misbehave. They are closed at the end, and must be gone then."""
    opened: list[RemoteBackend] = []

    def open_one(**options) -> RemoteBackend:
        options.setdefault("limit", 30.0)
        opened.append(RemoteBackend("numpy", options.pop("settings", None), modules=MODULES, **options))
        return opened[-1]

    yield open_one
    for backend in opened:
        pids = backend.worker.pids
        backend.close()
        assert not [pid for pid in pids.values() if alive(pid)]
        assert not backend.worker._directory.exists()


@pytest.fixture
def worker(open_worker):
    return open_worker()


@pytest.fixture(scope="module")
def steady(numpy_environment):
    """One worker for the tests that do not change it."""
    with RemoteBackend("numpy", modules=MODULES) as backend:
        yield backend
