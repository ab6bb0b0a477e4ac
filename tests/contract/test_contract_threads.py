"""Several threads of one interpreter on one backend: docs/threads.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from batches import LIMIT_SECONDS

from xbackend.workers.remote import RemoteBackend

pytestmark = pytest.mark.takes_turns
CALLED = str(Path(__file__).parent.parent / "called_in_threads.py")


def test_threads_compile_update_and_call_at_once(name: str) -> None:
    with RemoteBackend(name, limit=LIMIT_SECONDS, modules={"called_in_threads": CALLED}) as backend:
        found = backend.call("called_in_threads:at_once")
    assert found == {"wrong": [], "total": [300.0] * 3}
