"""PyTensor's cache and the functions that Numba compiles for xbackend."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xbackend.workers.remote import RemoteBackend

pytestmark = pytest.mark.tier("standard")
ONES = np.ones((2, 2), np.int64)


def test_what_was_compiled_from_a_module_that_is_gone_is_not_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cached function imports the module of its source."""
    monkeypatch.setenv("PYTENSOR_FLAGS", f"base_compiledir={tmp_path}")
    planted = {"planted_moved": str(Path(__file__).parent / "planted_moved.py")}
    with RemoteBackend("pytensor", modules=planted) as backend:
        assert backend.call("planted_moved:compile_with") == [[2, 2], [2, 2]]
    with RemoteBackend("pytensor") as backend:
        assert backend.compile(lambda a, b: a @ b, ONES, ONES)(ONES, ONES).tolist() == [[2, 2], [2, 2]]
