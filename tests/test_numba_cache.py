"""PyTensor's cache and the functions that Numba compiles for xbackend."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xbackend.measure.candidates import Candidate, case
from xbackend.measure.files import Files
from xbackend.workers.remote import RemoteBackend

pytestmark = pytest.mark.tier("standard")
PLANTED = {"planted_moved": str(Path(__file__).parent / "planted_moved.py")}
ONES = np.ones((2, 2), np.int64)


def test_code_compiled_with_other_settings_of_numba_is_kept_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's cache does not tell its settings apart, and would give unoptimised code to a later process."""
    candidate, found = Candidate(case("matpow", size=2), "pytensor", 1), []
    for level in ("1", "3", "1"):
        monkeypatch.setenv("NUMBA_OPT", level)
        with RemoteBackend("pytensor", modules=PLANTED) as backend, Files(lasting=True) as files:
            found.append((backend.call("planted_moved:compiled_folder"), files.kept(candidate)))
    first, other, again = found
    assert first == again and not set(first) & set(other)


def test_what_was_compiled_from_a_module_that_is_gone_is_not_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cached function imports the module of its source."""
    monkeypatch.setenv("PYTENSOR_FLAGS", f"base_compiledir={tmp_path}")
    with RemoteBackend("pytensor", modules=PLANTED) as backend:
        assert backend.call("planted_moved:compile_with") == [[2, 2], [2, 2]]
    with RemoteBackend("pytensor") as backend:
        assert backend.compile(lambda a, b: a @ b, ONES, ONES)(ONES, ONES).tolist() == [[2, 2], [2, 2]]
