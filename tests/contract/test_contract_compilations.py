"""What is compiled in a timed round is found, on each framework by its own counter."""

from __future__ import annotations

from pathlib import Path

import pytest
from batches import LIMIT_SECONDS

from xbackend.errors import TimingError
from xbackend.workers.remote import RemoteBackend

PLANTED = {"planted_compilation": str(Path(__file__).parent / "planted_compilation.py")}


def test_a_compilation_in_a_timed_round_is_found(name: str) -> None:
    with RemoteBackend(name, limit=LIMIT_SECONDS, modules=PLANTED) as backend:
        watched = backend.call("planted_compilation:rounds", False)
        assert watched == sorted(backend.compilations())
        if not watched:  # it compiles nothing
            assert backend.call("planted_compilation:rounds", True) == []
            return
        with pytest.raises(TimingError, match=f"compiled in timed rounds.*{watched[0]}"):
            backend.call("planted_compilation:rounds", True)
